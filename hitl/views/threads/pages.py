"""Threads without a work order: list, new, the page of one, and what is said on it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from checkpoints import ids, store
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.database.snapshot import one_moment
from checkpoints.models import Thread, WhenBusy
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions import undo, visibility
from hitl.find import marks
from hitl.find.marks import Found
from hitl.find.threads import THREADS, standing
from hitl.forms.pages import BusyForm, MessageForm, ThreadForm
from hitl.http import tracing
from hitl.models import Wait
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage
from hitl.views import artifacts, family, story
from hitl.views.cards import contents
from hitl.views.common import home_of, person, place_of, posted
from hitl.views.lists import walk
from hitl.views.lists.bar import Listing
from hitl.views.threads import chat, children
from runs.models import Artifact, Pause, QueuedTurn, Run, Template
from runs.services import external_runs, step_times
from runs.states import COMPLETED, LIVE, Lifecycle
from runs.threads import turns as turns
from runs.workflows import owned

PAGE = 30
RUNS = 30
NEWEST_RUNS = paging.ListOrder(newest=True, prefix=Run.PREFIX)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def thread_list(request: HttpRequest) -> HttpResponse:
    """Newest first, unless asked otherwise, `?before=<id>` gives the next page; POST opens a
    thread.
    """
    form = ThreadForm(posted(request), user=person(request))
    if request.method == "POST" and form.is_valid():
        thread = turns.open_thread(
            by=person(request), title=form.cleaned_data["title"], team=form.cleaned_data.get("team")
        )
        return redirect("hitl:thread", thread.pk)
    listing = Listing(request, THREADS)
    seen = standing(Thread.objects.visible_to(person(request)))
    page = paging.in_order(
        listing.among(seen), listing.order, listing.here, "before", size=PAGE, whole=_shown()
    )
    shown = ((thread.pk, [thread]) for thread in page.rows)
    found = marks.find(listing.asked.words, shown, marks.of_threads(person(request)))
    context = {
        "threads": _with_runs(page.rows, found),
        "page": page,
        "form": form,
        "bar": listing.bar(seen, shows=page.rows or page.first),
    }
    status = 422 if form.errors else listing.status
    return render(request, "hitl/threads/threads.html", context, status=status)


def _shown() -> Any:
    newest = Run.objects.filter(thread=OuterRef("pk")).order_by("-id")
    return Thread.objects.select_related("owner", "team").annotate(
        newest=Subquery(newest.values("pk")[:1])
    )


def _with_runs(threads: list[Any], found: Found) -> list[dict[str, Any]]:
    """Each thread with its latest run and where that stands, and what was found of it."""
    runs = Run.objects.select_related("definition").in_bulk(
        [thread.newest for thread in threads if thread.newest]
    )
    asking = {run.pk for run in runs.values() if run.awaited and _asks(run)}
    reported = _reported(runs.values())
    return [
        {
            "thread": thread,
            "title": found.html(thread),
            "found": found.beside(thread.pk),
            "run": (run := runs.get(thread.newest)),
            "status": status_of(run, asks=bool(run and run.pk in asking), reported=reported),
        }
        for thread in threads
    ]


def _asks(run: Run) -> bool:
    return Pause.objects.open().filter(run__in=family.family_of(run)).exists()


def _reported(runs: Iterable[Run]) -> dict[uuid.UUID, str]:
    """Give which of other engines' runs have ended, and how, as these engines said."""
    outside = [run.pk for run in runs if _goes_on_elsewhere(run)]
    waits = Wait.objects.filter(pause__run__in=outside, reported__in=Wait.ENDED)
    return dict(waits.values_list("pause__run", "reported")) if outside else {}


def _goes_on_elsewhere(run: Run) -> bool:
    return run.status == COMPLETED and run.definition.template_slug == external_runs.SLUG


def status_of(run: Run | None, *, asks: bool, reported: Mapping[uuid.UUID, str]) -> str:
    """A thread's status is that of its latest run, which is at work while its child runs are,
    unless one of them asks.

    Behind the last wait of another engine's run that run goes on, so nothing is complete until its
    engine says so: it was resumed.

    Args:
        reported: as `_reported` gives it.
    """
    if run is None:
        return "new"
    if _goes_on_elsewhere(run):
        return reported.get(run.pk, Lifecycle.RESUMED.value)
    return str(run.status) if not run.awaited else "paused" if asks else "running"


@require_safe
@login_required
def thread(request: HttpRequest, thread_id: uuid.UUID) -> HttpResponse:
    """The page of one thread; with `?live` only the part that changes."""
    thread = look_at(thread_id, request)
    return leave_for(thread) or show(request, thread, wanted=request.GET.get("pause", ""))


def leave_for(thread: Thread) -> HttpResponse | None:
    """The way to the page of what a thread belongs to: its work order, or the run that its child
    run works for.
    """
    if hasattr(thread, "work_order"):
        return redirect("hitl:order", thread.work_order.pk)
    if not getattr(thread, "has_home", True):
        return None
    run = latest_of(thread)
    if run is None or (run.parent_id is None and run.work_order_id is None):
        return None
    pause = Pause.objects.open().shown().filter(run=run).first()
    return redirect(place_of(pause) if pause else home_of(run))


def show(
    request: HttpRequest,
    thread: Thread,
    *,
    status: int = 200,
    message: MessageForm | None = None,
    **answer: Any,
) -> HttpResponse:
    """Render the page; `answer` is as for `contents.card_of`."""
    template = (
        "hitl/threads/_thread_live.html" if "live" in request.GET else "hitl/threads/thread.html"
    )
    here = ListAddress(reverse("hitl:thread", args=[thread.pk]), request.GET.dict()).only(
        *("pause", walk.LIST, walk.WAS), *story.LISTS
    )
    with one_moment():
        context = page_of(thread, here, by=person(request), message=message, **answer)
    arrived = request.method == "GET" and "live" not in request.GET and context["pause"] is not None
    theirs = context["converses"] and not context["observer"]
    banner = arrived and theirs and not request.GET.get("pause")
    response = render(request, template, {**context, "banner": banner}, status=status)
    if request.method == "GET":
        response[tracing.HEADER] = thread.shown_id
    return response


def page_of(
    thread: Thread,
    here: ListAddress,
    *,
    by: User,
    wanted: str = "",
    message: MessageForm | None = None,
    **answer: Any,
) -> dict[str, Any]:
    """All that the page of a thread shows to a person."""
    run = next(iter(_on_page.get(thread.pk)), None)
    below = family.family_of(run, has_children=getattr(run, "has_children", True))
    # read with the run: a page that says "complete" shows all that was said
    latest = run.thread if run else thread
    live = [member.pk for member in ([run, *below] if run else []) if member.status in LIVE]
    pauses = visibility.open_pauses_of(live)
    family.share_definition(
        [pause.run for pause in pauses], [member.definition for member in [run, *below] if member]
    )
    state, damage = _state(latest)
    answer["problem"] = answer.get("problem", "") or damage
    alive = run is not None and run.status in LIVE
    own = any(run is not None and pause.run_id == run.pk for pause in pauses)
    observer = not hasattr(thread, "takes_part") and visibility.is_observer(thread, by=by)
    gathers = family.waiting_for(run)
    events = story.story_of(
        thread.pk, here, of_order=False, gathering=gathers["step"] if gathers else ""
    )
    card = contents.card_of(pauses, wanted, by=by, observer=observer, **answer)
    busy = alive and not pauses
    return {
        "thread": thread,
        "observer": observer,
        "run": run,
        "status": status_of(run, asks=bool(pauses), reported=_reported([run] if run else [])),
        "elsewhere": run is not None and _goes_on_elsewhere(run),
        "step": family.step_title(run) if run and alive else "",
        **card,
        "here": here.to(pause=card.get("chosen", "")),
        **family.rerunning_of(run, below, pauses),
        **events,
        **chat.of(
            latest,
            run,
            state,
            here,
            observer=observer,
            log=story.newest_lines(thread.pk, events["log"]),
            has_queue=getattr(run, "has_queue", True),
        ),
        "artifacts": None
        if observer
        else artifacts.of(thread.pk, below, here, has_some=getattr(run, "has_artifacts", True)),
        "children": children.of(family.members_of(run, below, pauses), here, run),
        "waiting_for": gathers,
        "at_work": step_times.at_work(run),
        "undo": None if pauses else undo.waiting([run, *below], now=clock.now()),
        "runs": _runs_of(thread, here),
        "message": _message(
            message
            or MessageForm(
                first=run is None,
                user=by,
                locked=(busy and thread.when_busy == WhenBusy.REFUSE) or len(pauses) > 1,
            ),
            pauses,
        ),
        "templates": not run and Template.objects.current().filter(needs_repository=False).exists(),
        "busy": busy,
        "converses": run is None or run.definition.template_slug != external_runs.SLUG,
        "when_busy": BusyForm(initial={"when_busy": thread.when_busy}),
        "several": len(pauses) > 1,
        "offer": _offer(state, run),
        "may_resume": not observer and run is not None and run.may_be_taken_up,
        "may_cancel": not observer and alive and not own,
        "may_suspend": alive and not own and (not observer or visibility.may_suspend(run, by=by)),
        "suspending": family.suspending([run, *below] if run else []),
        "seq": latest.last_seq,
        "saved": _saved(run),
    }


def _message(form: MessageForm, pauses: Sequence[Pause]) -> MessageForm:
    """The form, whose words are an answer where something is asked."""
    if pauses:
        form.fields["text"].label = gettext("Your answer")
    return form


def _latest(key: uuid.UUID) -> QuerySet[Run]:
    related = Run.objects.select_related("thread__head", "definition", "parent")
    return related.filter(thread=key).order_by("-id")[:1]


def _with_what_is_beside(key: uuid.UUID) -> QuerySet[Run]:
    """The latest run, and what most threads have none of, so that it need not be looked for."""
    thread = OuterRef("thread")
    return _latest(key).annotate(
        has_children=Exists(Run.objects.filter(parent__thread=thread)),
        has_artifacts=Exists(Artifact.objects.filter(thread=thread)),
        has_queue=Exists(QueuedTurn.objects.waiting().filter(thread=thread)),
    )


_latest_run = Prepared(lambda key: _latest(key).defer("thread__head__body"), uuid.UUID)
_on_page = Prepared(_with_what_is_beside, uuid.UUID)  # which shows what the latest state says


def latest_of(thread: Thread) -> Run | None:
    return next(iter(_latest_run.get(thread.pk)), None)


_newest_runs = Prepared(
    lambda key: NEWEST_RUNS(_runs_shown(key))[: RUNS + 1],
    uuid.UUID,
)


def _runs_shown(key: uuid.UUID) -> QuerySet[Run]:
    return Run.objects.filter(thread=key).select_related("definition")


def _runs_of(thread: Thread, here: ListAddress) -> ListPage[Run]:
    def read(after: str, limit: int) -> list[Run]:
        if not after:
            return _newest_runs.get(thread.pk)
        return list(NEWEST_RUNS(_runs_shown(thread.pk), NEWEST_RUNS.read(after))[:limit])

    def write(run: Run) -> str:
        return NEWEST_RUNS.write(NEWEST_RUNS.place(run))

    return paging.paged(here, "runs", read, write, size=RUNS, anchor="runs-title")


def _state(thread: Thread) -> tuple[dict[str, Any], str]:
    """The latest state, or what is wrong with it."""
    try:
        return (store.load(thread.head) if thread.head else {}), ""
    except store.CheckpointDamaged as error:
        return {}, gettext("What was said cannot be shown: %(error)s.") % {"error": error}


def _saved(run: Run | None) -> str:
    """The latest checkpoint, as the JSON that run-stream.js remembers of it; "" where there is
    none.
    """
    if run is None or run.thread.head is None:
        return ""
    head = run.thread.head
    about = {
        "id": head.shown_id,
        "status": head.status,
        "loopNum": head.loop_num if head.node_id else None,
        "nodeId": head.node_id or None,
    }
    return json.dumps(
        {**about, "runId": ids.show(Run.PREFIX, head.run_id), "seq": run.thread.last_seq}
    )


def _offer(state: dict[str, Any], run: Run | None) -> dict[str, Any] | None:
    """The failed run that could be resumed instead of the latest one, which was told of it."""
    context = state.get(owned.RESUME_CONTEXT)
    if run is None or not isinstance(context, dict):
        return None
    try:
        failed_at = parse_datetime(str(context.get("failed_at", "")))
    except ValueError:  # a state may hold anything
        failed_at = None
    if (
        failed_at is None
        or timezone.is_naive(failed_at)
        or failed_at < clock.now() - turns.OFFERED_FOR
    ):
        return None
    return {
        "checkpoint": str(context.get("checkpoint_id", "")),
        "failed_at": failed_at,
        "now": run.status not in LIVE,
    }


def look_at(thread_id: uuid.UUID, request: HttpRequest) -> Thread:
    """For the page, which those see too who are only asked."""
    thread = visibility.thread_on_page(thread_id, by=person(request))
    if thread is None:
        raise Http404(gettext("There is no such thread."))
    return thread


def find(thread_id: uuid.UUID, request: HttpRequest) -> Thread:
    related = Thread.objects.visible_to(person(request)).select_related(
        "owner", "team", "head", "work_order"
    )
    thread = related.filter(pk=thread_id).first()
    if thread is None:
        raise Http404(gettext("There is no such thread."))
    return thread
