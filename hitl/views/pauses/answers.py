"""Questions: the answers that are given on a page, and the patch under review."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from checkpoints import store
from checkpoints.database import clock
from hitl.decisions import answers, claims, services, step_up, voting
from hitl.decisions.deadlines import changes
from hitl.decisions.reviewers import policy, turns
from hitl.decisions.talk.feedback import FeedbackBox
from hitl.forms.answers import DecisionForm
from hitl.forms.json_schema import SchemaForm
from hitl.forms.pages import ExtendForm, SnoozeForm
from hitl.forms.tool_calls import CallsForm, form_of
from hitl.http.errors import status_of
from hitl.models import Decision, Via, Vote
from hitl.views.artifacts import take_uploads
from hitl.views.cards import contents, proof, second_look, typed
from hitl.views.common import find_pause, home_of, person, place_of, root_of
from hitl.views.lists import walk
from hitl.views.threads import order_page, pages
from runs.models import Pause
from runs.states import PauseStatus
from runs.workflows.sequence import APPROVE, CANCEL, REVISE

REFUSALS = (
    services.AlreadyAnswered,
    changes.NoDeadline,
    changes.DeadlineMoved,
    changes.NotAnswerer,
    changes.PostponingInvalid,
)
"""What may come of postponing in words: each is a notice on the page."""


@require_POST
@login_required
def decide(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Answer a question from its page; a second answer gets a calm page that names the first."""
    pause, stage = find_pause(pause_id, request), request.POST.get("stage", "")
    pause = turns.asked_at(pause, stage or policy.ReviewContext(pause, person(request)).stage)
    if request.FILES and isinstance(asked := form_of(pause, request.POST), SchemaForm):
        take_uploads(request, asked.root.each(), person(request))
    form = DecisionForm(request.POST)
    # a row more or less, or back from a second look: nothing is decided
    if "change" in request.POST:
        kept = _put_back(request.POST)
        shown = DecisionForm(kept)
        if kept["change"] == "read":
            shown.understood = FeedbackBox(pause).read(shown.whole_wish)
        return show_again(request, pause, 200, form=shown, inputs=form_of(pause, kept))
    inputs = form_of(pause, request.POST)
    again = partial(show_again, request, pause, form=form, inputs=inputs)
    if not form.is_valid():
        return again(400, problem=gettext("Nothing was decided: the answer was incomplete."))
    action = form.cleaned_data["action"]
    answer = services.Answer(
        action,
        Via.PAGE,
        feedback=form.cleaned_data["feedback"],
        revision=form.cleaned_data["revision"],
        content_digest=form.cleaned_data["content_digest"],
        payload=inputs.payload if inputs and pause.wants_data(action) else None,
        stage=stage,
        comments_until=form.cleaned_data["comments_until"] if action == REVISE else None,
        edited_content=form.edit_of(pause) if policy.approves(action) else None,
    )
    url, about = reverse("hitl:decide", args=[pause.pk]), second_look.about(pause)
    try:
        if not second_look.was_seen(request):
            judged = services.judge(pause_id, answer, by=person(request))
            if look := second_look.needed(judged, pause, form, inputs, url=url):
                return second_look.show(request, look)
        if problem := proof.wrong(request):
            return proof.show(request, url=url, about=about, problem=problem)
        given = services.decide(pause_id, answer, by=person(request))
    except step_up.StepUpRequired as missing:
        if missing.enrolled:
            return proof.show(request, url=url, about=about)
        return again(403, problem=str(missing))
    except services.AnswerInvalid as error:
        form.add_errors(error.errors)
        return again(422, problem=_shown_at_fields(error, pause, inputs) or str(error))
    except (
        services.AlreadyAnswered,
        services.RevisionMismatch,
        store.CheckpointDamaged,
        policy.Refused,
    ) as error:
        return again(status_of(error), problem=str(error))
    if isinstance(given, Vote):
        said, place = f"{voting.words(given).capitalize()}.", place_of(pause)
    else:
        said, place = _say_what_became(given), home_of(pause.run)
    if "back" in request.POST:  # from a row of the inbox, which says less of what was answered
        said, place = f"{contents.name_of(pause)}: {said}", walk.inbox_at(request.POST["back"])
    else:
        place = walk.with_list(place, walk.list_of(request), pause)
    messages.info(request, said, extra_tags="voted" if isinstance(given, Vote) else "decided")
    return redirect(place)


decide.body_limit = "ORDER_BYTES"  # type: ignore[attr-defined]  # for `hitl.http.incoming`


def _say_what_became(decision: Decision) -> str:
    """What is said to who answered, and what goes on by it."""
    label = answers.label_of(decision.pause, decision.action) if decision.pause else decision.action
    if decision.action == REVISE:
        return gettext("You asked for a revision.")
    edited = bool(decision.edited_content)
    if decision.action == CANCEL:
        said = gettext("You cancelled.")
    elif decision.action == APPROVE:
        said = gettext("You approved with your edits.") if edited else gettext("You approved.")
    else:
        said = (
            gettext("You answered “%(answer)s” with your edits.")
            if edited
            else gettext("You answered “%(answer)s”.")
        ) % {"answer": label}
    if decision.pause is None or decision.action == CANCEL or decision.goes_on_at is not None:
        return said
    lead = contents.leads(decision.pause).get(decision.action)
    if not lead:
        return said
    return said + " " + gettext("%(step)s runs next.") % {"step": lead}


def _put_back(given: QueryDict) -> QueryDict:
    """What was posted, without the edit that `change=reset` takes back, or `change=reset:call.0`
    those of a call.
    """
    kept, (what, _, call) = given.copy(), str(given["change"]).partition(":")
    for name in given if what == "reset" else []:
        if name.startswith(f"{call}.edit.") if call else name == "edited_content":
            del kept[name]
    return kept


def _shown_at_fields(
    error: services.AnswerInvalid, pause: Pause, inputs: SchemaForm | CallsForm | None
) -> str:
    """What is said above the card where the fields of the form say the rest; "" where they say
    nothing.
    """
    typed_in = {"edited_content", "wish"}
    if pause.review.get("reason_required") or pause.may_revise:
        typed_in.add("feedback")
    faults, left, shown = {}, list[str](), False
    for field, texts in error.errors.items():
        if field.startswith("input") and inputs is not None:
            faults[field.removeprefix("input").removeprefix(".")] = texts
        elif field in typed_in:
            shown = True
        else:
            left += texts
    if inputs is not None and faults:
        left += inputs.add_errors(faults)
        shown |= bool(inputs.problems_told)
    if not shown:
        return ""
    return " ".join(
        [
            gettext(
                "Nothing was decided; the question is still open. See the marked fields; "
                "what you typed is kept."
            ),
            *left,
        ]
    )


def show_again(request: HttpRequest, pause: Pause, status: int, **answer: Any) -> HttpResponse:
    """The page that the answer came from, with what was wrong with it."""
    answer |= {
        "answered": pause,
        "wanted": pause.shown_id if pause.run.parent_id else "",
        "wrong": status in {400, 422},
    }
    if pause.run.work_order_id is not None:
        page = order_page.page_of(pause.run.work_order_id, by=person(request), **answer)
        return render(request, "hitl/orders/order.html", page, status=status)
    return pages.show(
        request, pages.look_at(root_of(pause.run).thread_id, request), status=status, **answer
    )


@require_POST
@login_required
def claim(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Claim a question, or with `take_over` what somebody else has claimed."""
    pause = find_pause(pause_id, request)
    try:
        claims.claim(pause_id, by=person(request), take_over="take_over" in request.POST)
    except (policy.Refused, services.AlreadyAnswered) as error:
        return show_again(request, pause, status_of(error), problem=str(error))
    return redirect(place_of(pause))


@require_POST
@login_required
def release(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    pause = find_pause(pause_id, request)
    claims.release(pause_id, by=person(request))
    return redirect(place_of(pause))


@require_POST
@login_required
def pause_extend(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Move the deadline to one of the times that the card offers."""
    pause, form = find_pause(pause_id, request), ExtendForm(request.POST)
    if not form.is_valid():
        return show_again(
            request,
            pause,
            422,
            problem=gettext("The deadline was not moved. %(join)s")
            % {"join": " ".join(form.texts)},
            more=_why_moved(request),
        )
    try:
        changes.extend(
            pause_id,
            by=person(request),
            until=form.cleaned_data["until"],
            reason=form.cleaned_data["reason"],
        )
    except REFUSALS as error:
        return show_again(
            request, pause, status_of(error), problem=str(error), more=_why_moved(request)
        )
    return redirect(place_of(pause))


def _why_moved(request: HttpRequest) -> typed.Words:
    """The words that were typed, to be shown as unsent: the form itself is folded away."""
    reason = request.POST.get("reason", "")
    return [(gettext("Why the deadline moves"), reason)] if reason.strip() else []


@require_POST
@login_required
def pause_snooze(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Hide a question from the own inbox for some hours; `hours=0` shows it again."""
    pause, form = find_pause(pause_id, request), SnoozeForm(request.POST)
    if not form.is_valid():
        return show_again(
            request,
            pause,
            422,
            problem=gettext("Nothing was hidden. %(join)s") % {"join": " ".join(form.texts)},
        )
    try:
        changes.snooze(pause_id, by=person(request), until=form.until(clock.now()))
    except REFUSALS as error:
        return show_again(request, pause, status_of(error), problem=str(error))
    return redirect("hitl:inbox")


@require_safe
@login_required
def pause_cancel(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Asks whether you are sure: the way to cancel at a question without JavaScript."""
    pause = find_pause(pause_id, request)
    if pause.status != PauseStatus.OPEN:
        return redirect(home_of(pause.run))
    asks_why = CANCEL in pause.review.get("reason_required", [])
    return render(
        request,
        "hitl/pauses/pause_cancel.html",
        {"pause": pause, "cancel": contents.cancel_of(pause), "asks_why": asks_why},
    )
