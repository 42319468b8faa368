"""Work orders: list, new, and the page of one."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from checkpoints import ids, store
from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.decisions import services
from hitl.decisions.reviewers import policy
from hitl.find import marks
from hitl.find.orders import ORDERS
from hitl.forms.pages import WorkOrderForm
from hitl.http import tracing
from hitl.http.errors import status_of
from hitl.live.work_feed import WorkWriter
from hitl.models import BatchAction, Via
from hitl.rendering import paging
from hitl.threads import why
from hitl.views.artifacts import take_uploads
from hitl.views.cards import orders as order_rows
from hitl.views.cards import typed
from hitl.views.common import person, posted
from hitl.views.lists import reading
from hitl.views.lists.bar import Listing
from hitl.views.lists.reading import ListedOrder
from hitl.views.threads import news, order_page, watched
from hitl.views.threads.order_page import page_of
from runs import services as runs
from runs.definitions import TemplateInvalid, TemplateNotFound, readiness, rights
from runs.definitions.readiness import CannotRun
from runs.definitions.rights import NotPermitted
from runs.git.sources import BadSource
from runs.models import Repository, Template, WorkOrder
from runs.services import InputInvalid, OrdersStopped, resubmit
from runs.states import RunEnded
from runs.workflows.sequence import CANCEL

PAGE = 30
OFFERED_FIRST = "repo-tidy"
"""The template that the page of a new order begins with, where nothing else says one."""
OFFERED = 12
"""Repositories that the page of a new order offers."""


@require_safe
@login_required
def order_list(request: HttpRequest) -> HttpResponse:
    """Newest first, unless asked otherwise; `?before=<id>` gives the next page."""
    listing = Listing(request, ORDERS)
    seen = WorkOrder.objects.visible_to(person(request))
    fitting, order = listing.among(seen), listing.order

    def read(after: str, limit: int) -> list[ListedOrder]:
        found = order(fitting, order.read(after) if after else None)
        return reading.orders(list(found.values_list("pk", flat=True)[:limit]))

    page = paging.paged(
        listing.here, "before", read, lambda row: order.write(order.place(row.order)), size=PAGE
    )
    titles = ((row.order.pk, [row.order.title]) for row in page.rows)
    context = {
        "page": page,
        "rows": order_rows.rows(
            page.rows, marks.find(listing.asked.words, titles, marks.of_orders(person(request)))
        ),
        "bar": listing.bar(seen, shows=page.rows or page.first),
        "many": BatchAction.choices,
    }
    return render(request, "hitl/orders/orders.html", context, status=listing.status)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def order_new(request: HttpRequest) -> HttpResponse:
    """The form is rendered from the template's input schema; `?repository=<id>` begins it with what
    is settled for that repository.
    """
    chosen = _chosen(request)
    templates, closed = _offered(chosen, person(request))
    if not templates:
        return render(
            request, "hitl/orders/order_new.html", {"templates": [], "form": None, "closed": closed}
        )
    usable = Repository.objects.visible_to(person(request)).filter(
        rights.usable(person(request)), use_template_execution=True
    )
    repositories = list(usable.order_by("name").distinct()[: OFFERED + 1])
    default = (chosen and chosen.default_template) or rights.default_template()
    said = request.POST.get("template") or default
    slug = request.POST.get("template") or request.GET.get("template") or default or OFFERED_FIRST
    template = next(
        (candidate for candidate in templates if candidate.slug == slug),
        templates[0],
    )
    begun = {"repository_url": chosen.url} if chosen else None
    made = partial(WorkOrderForm, template=template, user=person(request), initial=begun)
    form = made(posted(request))
    if request.FILES:
        take_uploads(request, form.input.root.each(), person(request))
        form = made(request.POST)
    named = template.slug == said  # not the first of the list in place of one that cannot be had
    if "change" in request.POST:  # a row more, or one less
        form.show_as_typed()
    elif request.method == "POST" and not named:
        form.add_error(None, gettext("Choose a template: it says what will be done."))
    if request.method == "POST" and "change" not in request.POST and form.is_valid():
        order = _submit(template, form, person(request))
        if order is not None:
            return redirect("hitl:order", order.pk)
    context = {
        "templates": templates,
        "template": template,
        "form": form,
        "repositories": repositories[:OFFERED],
        "chosen": chosen,
        "closed": closed,
    }
    context["more_repositories"] = len(repositories) > OFFERED
    return render(
        request, "hitl/orders/order_new.html", context, status=422 if form.refused else 200
    )


order_new.body_limit = "ORDER_BYTES"  # type: ignore[attr-defined]  # for `hitl.http.incoming`


def _offered(
    repository: Repository | None, by: User
) -> tuple[list[Template], list[tuple[Template, Exception]]]:
    """The templates that a person may order by, on a repository where one is chosen; and the
    others, each with why not.
    """
    allowed = repository.allowed_templates if repository is not None else []
    current = Template.objects.current().order_by("slug")
    known = [one for one in current if not allowed or one.slug in allowed]
    why: dict[str, Exception] = {**readiness.lacking(known, by=by), **rights.refusals(by)}
    return (
        [one for one in known if one.slug not in why],
        [(one, why[one.slug]) for one in known if one.slug in why],
    )


def _chosen(request: HttpRequest) -> Repository | None:
    """The repository that the form begins with: `?repository=<id>`."""
    wanted = request.GET.get("repository")
    if not wanted:
        return None
    try:
        return Repository.objects.visible_to(person(request)).get(
            pk=ids.parse(Repository.PREFIX, wanted)
        )
    except (ValueError, Repository.DoesNotExist):
        raise Http404(gettext("There is no such repository.")) from None


def _submit(template: Template, form: WorkOrderForm, user: Any) -> WorkOrder | None:
    """The order, or None with the reasons on the form."""
    values = form.cleaned_data
    try:
        return runs.submit(
            template.slug,
            by=user,
            title=values["title"],
            request=values["request"],
            input=form.input_values(),
            repository_url=values.get("repository_url", ""),
            team=values.get("team"),
            priority=values["priority"],
        )
    except InputInvalid as error:
        form.add_errors(error.errors)
    except (CannotRun, TemplateInvalid, NotPermitted) as error:
        form.add_error(None, str(error))
    except (BadSource, OrdersStopped) as error:
        form.add_error("repository_url" if "repository_url" in form.fields else None, str(error))
    return None


@require_safe
@login_required
def order(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    """The page of one work order; `?pause=<id>` chooses among its open questions, `?live` gives
    only the part that changes, of a page with a question what changed since the version that
    `If-None-Match` names; `?live=work` to a page without a question.
    """
    if request.GET.get("live") == "work":
        shared = watched.order_page(request, order_id, page_of)
        if shared is not None:
            return shared
    by, wanted, live = person(request), request.GET.get("pause", ""), "live" in request.GET
    had = news.read(request.headers.get("If-None-Match", "")) if live else None
    page = order_page.read(order_id, by=by, wanted=wanted, query=request.GET.dict(), had=had)
    response: HttpResponse
    if page.parts is None:
        whole = "hitl/orders/_order_live.html" if live else "hitl/orders/order.html"
        response = render(request, whole, page.context)
    elif page.parts:
        response = render(request, "hitl/orders/_order_parts.html", page.context)
    else:
        response = HttpResponseNotModified()
    if live and page.version is not None:
        response["ETag"] = f'"{page.version}"'
        response["Cache-Control"] = "no-store"  # parts are of use to nobody but who asked for them
    if page.run is not None:
        response[tracing.HEADER] = page.run.shown_id
    return response


WRITER = WorkWriter(watched.kind_of, partial(watched.write, page_of=page_of))


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def order_cancel(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    """GET asks whether you are sure; only POST cancels."""
    order = services.find_order(order_id, by=person(request))
    if request.method != "POST":
        pause = services.open_pause(order)
        asks_why = pause is not None and CANCEL in pause.review.get("reason_required", [])
        return render(
            request, "hitl/orders/order_cancel.html", {"order": order, "asks_why": asks_why}
        )
    try:
        services.cancel_order(
            order.pk, by=person(request), via=Via.PAGE, reason=request.POST.get("feedback", "")
        )
    except (RunEnded, services.AlreadyAnswered, services.AnswerInvalid, policy.Refused) as error:
        status = status_of(error)
        reason = request.POST.get("feedback", "")
        more = [(typed.REASON, reason)] if reason.strip() else []
        page = page_of(
            order_id, by=person(request), problem=str(error), wrong=status == 422, more=more
        )
        return render(request, "hitl/orders/order.html", page, status=status)
    return redirect("hitl:order", order_id)


@require_POST
@login_required
def order_retry(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    order = services.find_order(order_id, by=person(request))
    try:
        runs.retry(order.pk, by=person(request))
    except (RunEnded, store.CheckpointDamaged) as error:
        messages.info(request, str(error))
    return redirect("hitl:order", order_id)


@require_POST
@login_required
def order_again(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    """A new order like this one; its page is shown."""
    order = services.find_order(order_id, by=person(request))
    try:
        new = resubmit.ask_again(order.pk, by=person(request))
    except (
        resubmit.CannotAskAgain,
        InputInvalid,
        TemplateNotFound,
        TemplateInvalid,
        CannotRun,
        BadSource,
        OrdersStopped,
        NotPermitted,
    ) as error:
        messages.info(request, str(error))
        return redirect("hitl:order", order_id)
    return redirect("hitl:order", new.pk)


@require_safe
@login_required
def order_why(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    """Whoever sees an order sees why it does not go on."""
    by = person(request)
    try:
        order = services.look_at_order(order_id, by=by)
    except services.NotFound as error:
        raise Http404(str(error)) from error
    reasons = why.of_run(order.latest_run_id, by=by, now=clock.now())
    return render(request, "hitl/orders/why.html", {"order": order, "reasons": reasons})
