"""Questions: the answers that are given on a page, and the patch under review."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from checkpoints import store
from checkpoints.database import clock
from checkpoints.models import Blob
from checkpoints.text import invisible
from hitl.decisions import (
    answers,
    claims,
    deadline_changes,
    policy,
    revisions,
    services,
    visibility,
    voting,
)
from hitl.forms.json_schema import SchemaForm
from hitl.forms.pages import DecisionForm, ExtendForm, SnoozeForm
from hitl.forms.tool_calls import CallsForm, form_of
from hitl.http.errors import status_of
from hitl.models import Decision, Via, Vote
from hitl.rendering import word_diff
from hitl.views import family, orders, second_look, threads, typed
from hitl.views.common import home_of, person, place_of, root_of
from runs.models import Pause
from runs.states import PauseStatus
from runs.workflows.sequence import CANCEL, REVISE

REFUSALS = (
    services.AlreadyAnswered,
    deadline_changes.NoDeadline,
    deadline_changes.DeadlineMoved,
    deadline_changes.NotAnswerer,
    deadline_changes.PostponingInvalid,
)
"""What may come of postponing in words: each is a notice on the page."""


@require_POST
@login_required
def decide(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Answer a question from its page; a second answer gets a calm page that names the first."""
    form = DecisionForm(request.POST)
    pause = _find(pause_id, request)
    inputs = form_of(pause, request.POST)
    # a row more or less, or back from a second look: nothing is decided
    if "change" in request.POST:
        return _again(
            request, pause, 200, form=DecisionForm(_put_back(request.POST)), inputs=inputs
        )
    if not form.is_valid():
        return _again(
            request,
            pause,
            400,
            form=form,
            inputs=inputs,
            problem="Nothing was decided: the answer was incomplete.",
        )
    if look := second_look.needed(request, pause, form, inputs, by=person(request)):
        return second_look.show(request, look)
    action = form.cleaned_data["action"]
    answer = services.Answer(
        action,
        Via.PAGE,
        feedback=form.cleaned_data["feedback"],
        revision=form.cleaned_data["revision"],
        payload=inputs.payload if inputs and pause.wants_data(action) else None,
        edited_content=form.edit_of(pause) if policy.approves(action) else None,
    )
    try:
        given = services.decide(pause_id, answer, by=person(request))
    except services.AnswerInvalid as error:
        form.add_errors(error.errors)
        return _again(
            request,
            pause,
            422,
            form=form,
            inputs=inputs,
            problem=_shown_at_fields(error, inputs) or str(error),
        )
    except (
        services.AlreadyAnswered,
        services.RevisionMismatch,
        store.CheckpointDamaged,
        policy.Refused,
    ) as error:
        return _again(
            request, pause, status_of(error), form=form, inputs=inputs, problem=str(error)
        )
    if isinstance(given, Vote):
        messages.info(request, f"{voting.words(given).capitalize()}.")
        return redirect(place_of(pause))
    messages.info(request, _became(given))
    return redirect(home_of(pause.run))


def _became(decision: Decision) -> str:
    """What is said to who answered."""
    edited = " with your edits" if decision.edited_content else ""
    label = answers.label_of(decision.pause, decision.action) if decision.pause else decision.action
    if decision.action == REVISE:
        return "You asked for a revision."
    return f"You {services.PAST.get(decision.action, f'answered “{label}”')}{edited}."


def _put_back(given: QueryDict) -> QueryDict:
    """What was posted, without the edit where `change=reset` takes it back."""
    kept = given.copy()
    if given["change"] == "reset":
        kept.pop("edited_content", None)
    return kept


def _shown_at_fields(error: services.AnswerInvalid, inputs: SchemaForm | CallsForm | None) -> str:
    """What is said above the card where the fields of the form say the rest; "" where they say
    nothing.
    """
    faults = {
        field.removeprefix("input").removeprefix("."): texts
        for field, texts in error.errors.items()
        if field.startswith("input")
    }
    if inputs is None or not faults:
        return ""
    left = inputs.add_errors(faults)
    return " ".join(
        [
            (
                "Nothing was decided; the question is still open. Look at the marked fields; "
                "what you typed is kept."
            ),
            *left,
        ]
    )


def _again(request: HttpRequest, pause: Pause, status: int, **answer: Any) -> HttpResponse:
    """The page that the answer came from, with what was wrong with it."""
    answer |= {
        "answered": pause,
        "wanted": pause.shown_id if pause.run.parent_id else "",
        "wrong": status in {400, 422},
    }
    if pause.run.work_order_id is not None:
        page = orders.page_of(pause.run.work_order_id, by=person(request), **answer)
        return render(request, "hitl/orders/order.html", page, status=status)
    return threads.show(
        request, threads.look_at(root_of(pause.run).thread_id, request), status=status, **answer
    )


@require_POST
@login_required
def claim(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Claim a question, or with `take_over` what somebody else has claimed."""
    pause = _find(pause_id, request)
    try:
        claims.claim(pause_id, by=person(request), take_over="take_over" in request.POST)
    except (policy.Refused, services.AlreadyAnswered) as error:
        return _again(request, pause, status_of(error), problem=str(error))
    return redirect(place_of(pause))


@require_POST
@login_required
def release(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    pause = _find(pause_id, request)
    claims.release(pause_id, by=person(request))
    return redirect(place_of(pause))


@require_safe
@login_required
def pause_edits(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """What a reviewer changed in the content that was approved: `?view=side` for both next to each
    other.
    """
    pause = _find(pause_id, request)
    decision = (
        Decision.objects.select_related("decided_by")
        .filter(pause=pause)
        .exclude(edited_content="")
        .first()
    )
    if decision is None:
        raise Http404("Nothing was edited in the answer to this question.")
    context = {
        "pause": pause,
        "decision": decision,
        "lines": word_diff.compare(pause.content, decision.edited_content),
        "headings": ("As it was asked", "As it was approved"),
        "side": request.GET.get("view") == "side",
        "home": place_of(pause),
    }
    return render(request, "hitl/pauses/pause_edits.html", context)


@require_POST
@login_required
def pause_extend(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Move the deadline to one of the times that the card offers."""
    pause, form = _find(pause_id, request), ExtendForm(request.POST)
    if not form.is_valid():
        return _again(
            request,
            pause,
            422,
            problem=f"The deadline was not moved. {' '.join(form.texts)}",
            more=_why_moved(request),
        )
    try:
        deadline_changes.extend(
            pause_id,
            by=person(request),
            until=form.cleaned_data["until"],
            reason=form.cleaned_data["reason"],
        )
    except REFUSALS as error:
        return _again(
            request, pause, status_of(error), problem=str(error), more=_why_moved(request)
        )
    return redirect(place_of(pause))


def _why_moved(request: HttpRequest) -> typed.Words:
    """The words that were typed, to be shown as unsent: the form itself is folded away."""
    reason = request.POST.get("reason", "")
    return [("Why the deadline moves", reason)] if reason.strip() else []


@require_POST
@login_required
def pause_snooze(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Hide a question from the own inbox for some hours; `hours=0` shows it again."""
    pause, form = _find(pause_id, request), SnoozeForm(request.POST)
    if not form.is_valid():
        return _again(request, pause, 422, problem=f"Nothing was hidden. {' '.join(form.texts)}")
    try:
        deadline_changes.snooze(pause_id, by=person(request), until=form.until(clock.now()))
    except REFUSALS as error:
        return _again(request, pause, status_of(error), problem=str(error))
    return redirect("hitl:inbox")


@require_safe
@login_required
def pause_cancel(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Asks whether you are sure: the way to cancel at a question without JavaScript."""
    pause = _find(pause_id, request)
    if pause.status != PauseStatus.OPEN:
        return redirect(home_of(pause.run))
    asks_why = CANCEL in pause.review.get("reason_required", [])
    return render(
        request,
        "hitl/pauses/pause_cancel.html",
        {"pause": pause, "cancel": family.cancel_of(pause), "asks_why": asks_why},
    )


@require_safe
@login_required
def pause_changes(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """What a revision changed against an earlier one: `?from=<revision>`, `?view=side` for both
    next to each other.
    """
    pause = _find(pause_id, request)
    wanted = request.GET.get("from", "")
    before = revisions.earlier(
        pause, int(wanted) if wanted.isascii() and wanted.isdecimal() and len(wanted) < 6 else None
    )
    if before is None:
        raise Http404("There is no such earlier revision.")
    context = {
        "pause": pause,
        "before": before,
        "lines": revisions.changes(before, pause),
        "others": range(1, pause.revision),
        "headings": (f"Revision {before.revision}", f"Revision {pause.revision}"),
        "side": request.GET.get("view") == "side",
        "home": place_of(pause),
    }
    return render(request, "hitl/pauses/pause_changes.html", context)


@require_safe
@login_required
def pause_patch(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """The whole patch under review, as text, with what a screen does not show made visible;
    `?exact` gives its very bytes to keep.
    """
    pause = _find(pause_id, request)
    if not pause.patch_digest:
        raise Http404("There is no such patch.")
    try:
        content = store.get_blob(pause.patch_digest)
    except (store.CheckpointDamaged, Blob.DoesNotExist) as error:
        raise Http404(f"The patch cannot be shown: {error}.") from error
    exact = "exact" in request.GET
    shown = content if exact else _visible_lines(content.decode("utf-8", "surrogateescape"))
    response = HttpResponse(shown, content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Disposition"] = (
        f'{"attachment" if exact else "inline"}; filename="{pause.shown_id}.patch"'
    )
    return response


def _visible_lines(text: str) -> str:
    """Line by line, so that a carriage return at the end of one is seen too."""
    return "\n".join(invisible.plain(line) for line in text.split("\n"))


def _find(pause_id: uuid.UUID, request: HttpRequest) -> Pause:
    return visibility.find_pause(Pause.objects.shown(), pause_id, by=person(request))
