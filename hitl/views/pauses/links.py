"""The page behind a link in a mail.

GET and HEAD change nothing, whoever opens it: people, scanners, prefetchers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods

from checkpoints import store
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.state import encryption
from hitl.decisions import answers, services, visibility
from hitl.decisions.reviewers import external_access, policy
from hitl.decisions.reviewers.refusals import ENDS_BY_ITSELF
from hitl.forms.answers import DecisionForm
from hitl.forms.json_schema import SchemaForm
from hitl.forms.tool_calls import form_of
from hitl.http.errors import status_of
from hitl.models import Via
from hitl.models.outbound import Link
from hitl.outbound import links
from hitl.rendering.own_words import own
from hitl.views.artifacts import take_uploads
from hitl.views.cards import second_look
from hitl.views.common import place_of
from runs.models import Pause
from runs.workflows.sequence import CANCEL

UNKNOWN = links.LinkProblem(
    404,
    gettext_lazy("This link leads nowhere"),
    gettext_lazy(
        "It may have been cut off on its way here: copy all of it, or look into your inbox."
    ),
)
WORDS_OUTSIDE = {
    "deadline_passed": gettext_lazy(
        "The time to answer this is over. Nothing was recorded, and there is nothing left for "
        "you to do."
    ),
    "claimed": gettext_lazy(
        "Somebody else is at this question at the moment. Try again in some minutes; the link "
        "stays good."
    ),
    "vote_differs": gettext_lazy(
        "Somebody else answered it otherwise before you, so yours does not fit. Nothing was "
        "recorded."
    ),
    "revision_mismatch": gettext_lazy(
        "The question has changed since this link was sent. A newer mail has the link to what "
        "is asked now."
    ),
}
"""By the code of a refusal: instead of its own words, which are for people of the house."""


@require_http_methods(["GET", "HEAD", "POST"])
def link(request: HttpRequest, token: str) -> HttpResponse:
    """The question of a link; with a form where its template lets it be answered from there."""
    mail_link = links.find(token)
    if mail_link is None:
        return _ended(request, UNKNOWN)
    visitor = (
        request.user if isinstance(request.user, User) and request.user.is_authenticated else None
    )
    refused, shown = links.refusal(mail_link, visitor=visitor, now=clock.now())
    if refused is not None and (request.method == "POST" or not shown):
        return _ended(request, refused, mail_link)
    if (
        visitor is not None
        and request.method != "POST"
        and visibility.sees_pause(mail_link.pause.pk, by=visitor)
    ):
        return _sealed(redirect(place_of(mail_link.pause)), form=False)
    if refused is not None:
        hidden, question = encryption.in_use(), mail_link.pause.question
        asked = gettext("A question waits for you") if hidden else own(question)
        context = {
            "link": mail_link,
            "pause": mail_link.pause,
            "place": place_of(mail_link.pause),
            "asked": asked,
        }
        return _sealed(render(request, "hitl/outbound/link.html", context), form=False)
    return (
        _answer(request, mail_link) if request.method == "POST" else _form(request, mail_link, 200)
    )


def _answer(request: HttpRequest, mail_link: Link) -> HttpResponse:
    """Take an answer as its recipient's.

    A box has to be ticked: a scanner that presses buttons ticks none.
    """
    by: policy.Actor | None = mail_link.recipient or links.outsider_of(mail_link)
    assert by is not None  # only such links are for answers
    pause = _asked(mail_link.pause, by)
    if request.FILES and isinstance(asked := form_of(pause, request.POST), SchemaForm):
        owner = by if isinstance(by, User) else by.address
        take_uploads(request, asked.root.each(), owner)
    form = DecisionForm(request.POST)
    inputs = form_of(pause, request.POST)
    again = partial(_form, request, mail_link, form=form, inputs=inputs)
    if "change" in request.POST:
        return again(200)
    if not form.is_valid() or form.cleaned_data["action"] == CANCEL:
        problem = gettext("Nothing was decided: choose one of the answers below.")
        return again(422, problem=problem)
    if request.POST.get("me") != "yes":
        problem = gettext("Nothing was decided: say that it is you, by ticking the box.")
        return again(422, problem=problem)
    action = form.cleaned_data["action"]
    answer = services.Answer(
        action,
        Via.LINK,
        feedback=form.cleaned_data["feedback"],
        revision=mail_link.revision,
        payload=inputs.payload if inputs and pause.wants_data(action) else None,
    )
    view = pause if isinstance(by, User) else external_access.shown(pause, by.address)
    try:
        if not second_look.was_seen(request):
            judged = services.judge(pause.pk, answer, by=by)
            about = own(view.question)
            if look := second_look.from_link(judged, request, pause, form, inputs, about=about):
                return _sealed(second_look.show(request, look), form=True)
        services.decide(pause.pk, answer, by=by)
    except services.AnswerInvalid as error:
        return again(422, problem=str(error), errors=error.errors)
    except (
        services.AlreadyAnswered,
        services.RevisionMismatch,
        store.CheckpointDamaged,
        policy.Refused,
    ) as error:
        why = _why_not(error, mail_link, by)
        if getattr(error, "code", "") in ENDS_BY_ITSELF:  # what was typed is still to be sent
            return again(status_of(error), problem=why)
        title = gettext("Your answer was not recorded")
        return _ended(request, links.LinkProblem(status_of(error), title, why), mail_link)
    except services.NotFound:
        return _ended(request, links.NOT_YOURS_ANY_MORE, mail_link)
    links.use(mail_link)
    message = gettext(
        "“%(label_of)s” was recorded as your answer. You may close this page; the link is used up."
    ) % {"label_of": answers.label_of(pause, action)}
    return _ended(request, links.LinkProblem(200, gettext("Thank you"), message), mail_link)


def _why_not(error: Exception, mail_link: Link, by: policy.Actor) -> str:
    """What is said to who was refused; people of the house are not named to somebody outside."""
    if isinstance(by, User):
        return str(error)
    if isinstance(error, services.AlreadyAnswered) and error.code not in WORDS_OUTSIDE:
        return links.told_outside(mail_link, error.decision)
    return str(WORDS_OUTSIDE.get(getattr(error, "code", ""), error))


def _form(
    request: HttpRequest,
    mail_link: Link,
    status: int,
    *,
    problem: str = "",
    errors: dict[str, list[str]] | None = None,
    **shown: Any,
) -> HttpResponse:
    pause, by = mail_link.pause, mail_link.recipient or links.outsider_of(mail_link)
    inputs = shown.pop("inputs", None) or form_of(_asked(pause, by) if by else pause)
    if inputs is not None and errors:
        inputs.add_errors(
            {
                name.removeprefix("input").removeprefix("."): texts
                for name, texts in errors.items()
                if name.startswith("input")
            }
        )
    context = {"pause": pause, "inputs": inputs, "problem": problem, **shown}
    outsider = links.outsider_of(mail_link)
    if outsider is not None:
        view = external_access.shown(pause, outsider.address)
        context |= {
            "asked": own(view.question),
            "content": view.content,
            "answers": _named(pause, view.answers),
            "revises": "revise" in view.answers,
        }
        context |= {"address": outsider.address}
        return _sealed(
            render(request, "hitl/outbound/link_outside.html", context, status=status), form=True
        )
    names = [name for name in pause.answers if name != "revise" or pause.may_revise]
    context |= {
        "link": mail_link,
        "place": place_of(pause),
        "asked": own(pause.question),
        "answers": _named(pause, names),
    }
    return _sealed(render(request, "hitl/outbound/link.html", context, status=status), form=True)


def _asked(pause: Pause, by: policy.Actor) -> Pause:
    """The question with the data that their stage of the review brings."""
    if isinstance(by, User):
        return policy.ReviewContext(pause, by).asked
    return external_access.ExternalReviewContext(pause, by).asked


def _named(pause: Pause, names: list[str]) -> list[tuple[str, str]]:
    return [(name, answers.label_of(pause, name)) for name in names]


def _ended(
    request: HttpRequest, ended: links.LinkProblem, mail_link: Link | None = None
) -> HttpResponse:
    """`found` gives the way to the question, for who has an account."""
    place = (
        place_of(ended.newer or mail_link.pause)
        if mail_link is not None and links.outsider_of(mail_link) is None
        else ""
    )
    context = {"ended": ended, "place": place if ended.status != 403 or mail_link is None else ""}
    return _sealed(
        render(request, "hitl/outbound/link_ended.html", context, status=ended.status), form=False
    )


def _sealed(response: HttpResponse, *, form: bool) -> HttpResponse:
    """The address is a secret: it is neither kept, nor indexed, nor told to others.

    A page with a form tells it to ourselves: without any referrer a browser names no origin with
    the POST, which then looks forged.
    """
    response["Referrer-Policy"] = "same-origin" if form else "no-referrer"
    response["X-Robots-Tag"] = "noindex, nofollow"
    response["Cache-Control"] = "no-store"
    return response
