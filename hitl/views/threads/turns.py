"""The actions of a thread's page: a person sends, edits or withdraws messages, and resumes or
cancels runs.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from checkpoints import ids, store
from checkpoints.models import Checkpoint, Thread, WhenBusy
from checkpoints.state import reducers
from hitl.decisions import services, step_up
from hitl.decisions.reviewers import policy
from hitl.forms.pages import BusyForm, EditForm, MessageForm
from hitl.http import errors
from hitl.models import Via
from hitl.threads import messages as doors
from hitl.threads.messages import MessageOutcome
from hitl.views.cards import proof, second_look
from hitl.views.common import person
from hitl.views.threads.pages import find, latest_of, leave_for, look_at, show
from runs.definitions import TemplateNotFound, rights
from runs.definitions.readiness import CannotRun
from runs.models import Pause, Run
from runs.services import InputInvalid, PauseClosed
from runs.services.forks import ImportStands, ReviewStands
from runs.states import LIVE, RunEnded
from runs.threads import message_queue
from runs.threads.turns import NothingToResume, ThreadBusy, Turn
from runs.workflows.sequence import APPROVE, CANCEL, REVISE

TAKEN = {
    APPROVE: gettext_lazy("Taken as approval."),
    REVISE: gettext_lazy("Sent back with your feedback."),
    CANCEL: gettext_lazy("Taken as rejection: the run was cancelled."),
}
BECAME = {
    "started": gettext_lazy("A new run began."),
    "resumed": gettext_lazy("The failed run continues from the failed step."),
    "asked": gettext_lazy("Nothing was decided; the question was put once more."),
    "following": gettext_lazy("A run is at work already."),
    "interrupted": gettext_lazy(
        "The run at work was cancelled; a new one began with your message."
    ),
    "voted": gettext_lazy(
        "Your vote is recorded; the question stays open until enough others have approved."
    ),
}
REFUSALS = (
    TemplateNotFound,
    CannotRun,
    rights.Forbidden,
    rights.SwitchedOff,
    services.AlreadyAnswered,
    services.RevisionMismatch,
    services.SeveralQuestions,
    services.NotPaused,
    PauseClosed,
    ThreadBusy,
    message_queue.QueueFull,
    message_queue.NotWaiting,
    message_queue.TurnRefused,
    services.NotFound,
    NothingToResume,
    ReviewStands,
    ImportStands,
    RunEnded,
    store.CheckpointDamaged,
    policy.NotAllowed,
    policy.NotNow,
    services.AnswerInvalid,
    InputInvalid,
    reducers.MergeFailed,
)
"""Refusals of the services: the page shows the words of each as a notice."""


@require_POST
@login_required
def thread_say(request: HttpRequest, thread_id: uuid.UUID) -> HttpResponse:
    """Send the thread a message, which answers the open question or begins a run."""
    thread = look_at(thread_id, request)
    if elsewhere := leave_for(thread):
        messages.info(
            request,
            gettext(
                "Nothing was sent: what this belongs to has a page of its own, which is this one."
            ),
        )
        return elsewhere
    message = MessageForm(request.POST, first=latest_of(thread) is None, user=person(request))
    if "change" in request.POST:  # back from a second look
        return show(request, thread, message=message)
    if not message.is_valid():
        return show(
            request,
            thread,
            status=422,
            message=message,
            problem=gettext("Nothing was sent; see below what is missing."),
            wrong=True,
        )
    if look := _second_look(request, thread_id, message.cleaned_data["text"]):
        return second_look.show(request, look)
    turn = Turn(
        template=message.cleaned_data.get("template") or "",
        input={"input": message.cleaned_data["text"]},
    )
    about = str(thread)
    if problem := proof.wrong(request):
        return proof.show(request, url=request.path, about=about, problem=problem)
    try:
        outcome = doors.say(thread_id, turn, by=person(request), via=Via.PAGE)
    except REFUSALS as error:
        if isinstance(error, step_up.StepUpRequired) and error.enrolled:
            return proof.show(request, url=request.path, about=about)
        return _refused(request, thread_id, error, message=message)
    messages.info(request, became(outcome))
    return redirect("hitl:thread", thread_id)


def _second_look(
    request: HttpRequest, thread_id: uuid.UUID, text: str
) -> second_look.SecondLook | None:
    """Return what to ask before a message answers a question of high risk; None otherwise."""
    pauses = doors.open_on(thread_id)
    if len(pauses) != 1 or second_look.was_seen(request):
        return None
    return second_look.of_message(pauses[0], text, url=request.path)


@require_POST
@login_required
def thread_edit(request: HttpRequest, thread_id: uuid.UUID) -> HttpResponse:
    """Replace an earlier message: a run begins from before that message, and what came after it
    stays in the history.
    """
    thread = find(thread_id, request)
    if elsewhere := leave_for(thread):
        return elsewhere
    form, text = EditForm(request.POST), request.POST.get("text", "")
    more = [(gettext("Edited message"), text)] if text.strip() else []
    if not form.is_valid():
        return show(
            request,
            thread,
            status=422,
            problem=gettext("Nothing was sent: the message was empty, or cannot be kept."),
            more=more,
        )
    replaced = form.cleaned_data["message"]
    turn = Turn(
        input={"input": form.cleaned_data["text"]},
        replaces=replaced,
        reason=gettext("An earlier message was edited"),
    )
    try:
        doors.say(thread_id, turn, by=person(request), via=Via.PAGE)
    except REFUSALS as error:
        return _refused(request, thread_id, error, more=more)
    messages.info(
        request,
        gettext(
            "A new run began from before that message. What came after it stays in the history."
        ),
    )
    return redirect("hitl:thread", thread_id)


@require_POST
@login_required
def thread_busy(request: HttpRequest, thread_id: uuid.UUID) -> HttpResponse:
    """Choose what becomes of messages while a run is at work."""
    thread = find(thread_id, request)
    if elsewhere := leave_for(thread):
        return elsewhere
    form = BusyForm(request.POST)
    if not form.is_valid():
        return show(
            request,
            thread,
            status=422,
            problem=gettext("Nothing was changed: choose one of the three."),
        )
    doors.change(thread_id, by=person(request), when_busy=WhenBusy(form.cleaned_data["when_busy"]))
    return redirect("hitl:thread", thread_id)


@require_POST
@login_required
def thread_withdraw(request: HttpRequest, thread_id: uuid.UUID, turn_id: uuid.UUID) -> HttpResponse:
    """Withdraw a message that waits for its turn."""
    find(thread_id, request)
    try:
        doors.withdraw(thread_id, turn_id, by=person(request))
    except services.NotFound:
        raise
    except REFUSALS as error:
        return _refused(request, thread_id, error)
    messages.info(request, gettext("The message was withdrawn."))
    return redirect("hitl:thread", thread_id)


@require_POST
@login_required
def thread_resume(request: HttpRequest, thread_id: uuid.UUID) -> HttpResponse:
    """Resume the thread's latest run, or the run that wrote `checkpoint`."""
    thread = find(thread_id, request)
    if elsewhere := leave_for(thread):
        return elsewhere
    run, checkpoint_id = latest_of(thread), None
    if wanted := request.POST.get("checkpoint"):
        checkpoint = _checkpoint(thread, wanted)
        run, checkpoint_id = Run.objects.filter(pk=checkpoint.run_id).first(), checkpoint.pk
    if run is None:
        return show(
            request,
            thread,
            status=409,
            problem=gettext("This thread has not run yet, so there is nothing to resume."),
        )
    try:
        outcome = doors.resume(
            run.pk, by=person(request), via=Via.PAGE, checkpoint_id=checkpoint_id
        )
    except REFUSALS as error:
        return _refused(request, thread_id, error)
    messages.info(request, became(outcome))
    pause = Pause.objects.open().filter(run=outcome.run).first() if outcome.how == "asked" else None
    home = reverse("hitl:thread", args=[thread_id])
    # with the question named in its address, the page shows no banner that leads there
    return redirect(f"{home}?pause={pause.shown_id}" if pause else home)


def _checkpoint(thread: Thread, shown_id: str) -> Checkpoint:
    try:
        return Checkpoint.objects.get(pk=ids.parse("ckpt", shown_id), thread=thread)
    except (ValueError, Checkpoint.DoesNotExist) as error:
        raise Http404(gettext("This thread has no such checkpoint.")) from error


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def thread_cancel(request: HttpRequest, thread_id: uuid.UUID) -> HttpResponse:
    """GET asks whether you are sure; only POST ends the thread's run."""
    thread = find(thread_id, request)
    if elsewhere := leave_for(thread):
        return elsewhere
    run = latest_of(thread)
    if request.method != "POST" and run is not None and run.status in LIVE:
        return render(request, "hitl/threads/thread_cancel.html", {"thread": thread, "run": run})
    if run is None or request.method != "POST":
        return show(
            request,
            thread,
            status=409,
            problem=gettext("No run of this thread is alive, so there is nothing to cancel."),
        )
    try:
        doors.cancel(run.pk, by=person(request), via=Via.PAGE)
    except REFUSALS as error:
        return _refused(request, thread_id, error)
    return redirect("hitl:thread", thread_id)


def became(outcome: MessageOutcome) -> str:
    """Say in a sentence what became of a message."""
    if outcome.how == "answered" and outcome.decision is not None:
        return str(TAKEN.get(outcome.decision.action, gettext("Taken as your answer.")))
    if outcome.how == "queued":
        return gettext("Your message waits for its turn, at place %(place)s.") % {
            "place": outcome.place
        }
    sentence = str(BECAME[outcome.how])
    return (
        (gettext("%(sentence)s You may resume the failed run instead.") % {"sentence": sentence})
        if outcome.offer
        else sentence
    )


def _refused(
    request: HttpRequest, thread_id: uuid.UUID, error: Exception, **kept: Any
) -> HttpResponse:
    """Show the page as it stands now, with the reason of the refusal."""
    thread = look_at(thread_id, request)
    return show(request, thread, status=errors.status_of(error), problem=_reason(error), **kept)


def _reason(error: Exception) -> str:
    match error:
        case services.SeveralQuestions():
            return gettext(
                "Several questions are open here, so a message alone cannot answer one. Nothing "
                "was sent; answer them on their cards."
            )
        case InputInvalid():
            return gettext("Nothing was sent. ") + " ".join(
                f"{field}: {text}" for field, texts in error.errors.items() for text in texts
            )
    return str(error)
