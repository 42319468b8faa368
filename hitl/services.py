"""Answering a pause. `decide` is the one way, behind every door: page, REST, socket, admin, command."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.formats import date_format

from checkpoints import codec
from checkpoints.models import Checkpoint, Thread
from checkpoints.reducers import MergeFailed
from hitl.models import Decision, Ledger, Via, ledger_name
from runs import payloads
from runs import services as runs
from runs.models import Pause, Run, WorkOrder
from runs.services import PauseClosed
from runs.states import LIVE, PauseStatus
from runs.workflows.sequence import APPROVE, CANCEL, REVISE

MAX_FEEDBACK = 20_000
PAST = {APPROVE: "approved", REVISE: "sent back for revision", CANCEL: "cancelled"}


class NotFound(Exception):
    """There is nothing of that id, or nothing that this person may see: the two cannot be told apart."""

    code = "not_found"


class AnswerInvalid(Exception):
    """The answer cannot be taken as it is; the pause stays open. `errors` maps a field to sentences."""

    code = "answer_invalid"

    def __init__(self, errors: dict[str, list[str]], code: str = "answer_invalid") -> None:
        super().__init__(
            "Nothing was decided; the question is still open. " + " ".join(text for texts in errors.values() for text in texts)
        )
        self.errors = errors
        self.code = code


class AlreadyAnswered(PauseClosed):
    """Somebody answered first, or the run ended: a calm truth for the one who came second."""

    def __init__(self, pause: Pause, decision: Decision | None) -> None:
        super().__init__(_who_won(pause, decision))
        self.pause = pause
        self.decision = decision


class RevisionMismatch(Exception):
    """The answer was given to another revision than the one that is open now."""

    code = "revision_mismatch"

    def __init__(self, pause: Pause) -> None:
        super().__init__(
            f"The question is at revision {pause.revision} by now. Look at the new content before you answer; nothing was decided."
        )
        self.pause = pause


def decide(
    pause_id: uuid.UUID,
    *,
    action: str,
    by: User,
    via: Via,
    feedback: str = "",
    revision: int | None = None,
    update: Mapping[str, Any] | None = None,
    payload: Mapping[str, Any] | None = None,
) -> Decision:
    """Record a person's answer and let the run act on it.

    Args:
        action: `approve`, `revise` (needs `feedback`), `cancel`, or one of the pause's own answers.
        revision: the revision that was looked at; None where the door addresses the open question itself.
        update: joins the state by the workflow's reducers.
        payload: what the pause's `required_inputs` ask of whoever approves; it comes to `state["answers"][step]`.
    Raises:
        NotFound: no such pause for this person.
        AnswerInvalid: nothing written, the pause stays open.
        RevisionMismatch: the content changed; nothing written.
        AlreadyAnswered: another answer won, and is named; nothing written.
    """
    pause = next(iter(Pause.objects.visible_to(by).answerable().filter(pk=pause_id)), None)  # `first` would order, which is dear here
    if pause is None:
        raise NotFound("There is no such question.")
    return _decide(pause, action=action, by=by, via=via, feedback=feedback, revision=revision, update=update, payload=payload)


def _decide(
    pause: Pause,
    *,
    action: str,
    by: User,
    via: Via,
    feedback: str,
    revision: int | None,
    update: Mapping[str, Any] | None = None,
    payload: Mapping[str, Any] | None = None,
) -> Decision:
    """`decide` on a pause that was looked up for that person, `answerable`."""
    if pause.status != PauseStatus.OPEN:
        raise AlreadyAnswered(pause, _decision_of(pause))
    if revision is not None and revision != pause.revision:
        raise RevisionMismatch(pause)
    feedback = feedback.strip()
    _check(pause, action, feedback)
    sent = _checked_payload(pause, action, payload)
    try:
        return _record(pause, action=action, by=by, via=via, feedback=feedback, update=update, payload=sent)
    except (codec.NotJson, MergeFailed) as error:
        raise AnswerInvalid({"input": [str(error)]}) from error
    except AlreadyAnswered:
        raise
    except PauseClosed as lost:
        pause.refresh_from_db()
        raise AlreadyAnswered(pause, _decision_of(pause)) from lost


def _check(pause: Pause, action: str, feedback: str) -> None:
    if action != CANCEL and action not in pause.ways:
        known = ", ".join([*pause.ways, CANCEL])
        raise AnswerInvalid({"decision": [f"{action[:60]!r} is no answer here. Answers are: {known}."]}, code="unknown_answer")
    if len(feedback) > MAX_FEEDBACK:
        raise AnswerInvalid({"feedback": [f"Feedback may have up to {MAX_FEEDBACK} characters; this has {len(feedback)}."]})
    if feedback != codec.readable(feedback):
        raise AnswerInvalid({"feedback": ["The feedback holds characters that cannot be kept: a NUL, or bytes that are no UTF-8."]})
    if action == REVISE and not feedback:
        raise AnswerInvalid({"feedback": ["Say what should change: a revision needs feedback."]}, code="feedback_required")
    if action == REVISE and not pause.may_revise:
        raise AnswerInvalid(
            {"decision": [f"This was sent back {pause.max_revisions} times already. Approve it or cancel."]}, code="revisions_exhausted"
        )


def _checked_payload(pause: Pause, action: str, payload: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What is sent along with an answer; None where nothing is asked for. Raises AnswerInvalid."""
    if action != APPROVE or not pause.required_inputs:
        if payload:
            raise AnswerInvalid({payloads.WHOLE: [f"The answer {action[:60]!r} takes no inputs."]}, code="payload_not_asked_for")
        return None
    sent = dict(payload or {})
    if errors := payloads.validate_resume_payload(pause.required_inputs, sent):
        raise AnswerInvalid(errors, code="payload_invalid")
    return sent


@transaction.atomic(durable=True)
def _record(
    pause: Pause,
    *,
    action: str,
    by: User,
    via: Via,
    feedback: str,
    update: Mapping[str, Any] | None,
    payload: dict[str, Any] | None,
) -> Decision:
    """Close the pause, write the decision and move the run: all of it or nothing."""
    runs.close_pause(pause, PauseStatus.CANCELLED if action == CANCEL else PauseStatus.ANSWERED)
    decision = Decision(
        pause=pause,
        action=action,
        feedback=feedback,
        payload=payload or {},
        decided_by=by,
        decided_at=timezone.now(),
        via=via,
        revision=pause.revision,
        content_digest=pause.content_digest,
    )
    name = by.get_full_name() or by.get_username()
    answer = {
        "decision_id": decision.shown_id,
        "decision": action,
        "feedback": feedback,
        "by": name,
        "via": via,
        "revision": pause.revision,
        **({"payload": payload} if payload else {}),
    }
    if action == CANCEL:
        runs.cancel_paused(pause, by=name, answer=answer)
    else:
        runs.resume(pause, action=action, by=name, feedback=feedback, answer=answer, update=update, payload=payload)
    _append(decision)
    return decision


def _append(decision: Decision) -> None:
    """Add a decision to its ledger. Call inside a transaction, at its end: the ledger's row stays locked until the commit."""
    thread = decision.pause.run.thread
    name = ledger_name(thread.team_id, thread.owner_id)
    mine = Ledger.objects.filter(pk=name)
    if not mine.update(length=F("length") + 1):
        Ledger.objects.bulk_create([Ledger(name=name)], ignore_conflicts=True)
        mine.update(length=F("length") + 1)
    ledger = mine.get()
    decision.ledger, decision.position, decision.previous = ledger, ledger.length, ledger.tip
    decision.digest = decision.compute_digest()
    decision.save(force_insert=True)
    mine.update(tip=decision.digest)


class NotPaused(Exception):
    """The work order asks nothing at the moment."""

    code = "not_paused"


class SeveralQuestions(Exception):
    """Child runs of the work order ask more than one question, and the answer does not say which it is for."""

    code = "several_questions"

    def __init__(self, pauses: list[Pause]) -> None:
        super().__init__("Several questions are open here; name one of them as pause_id. Nothing was decided.")
        self.pauses = pauses


def answer_order(
    order_id: uuid.UUID,
    *,
    action: str,
    by: User,
    via: Via,
    feedback: str = "",
    revision: int | None = None,
    pause_id: str | None = None,
    payload: Mapping[str, Any] | None = None,
) -> Decision:
    """Answer the open question of a work order.

    Raises what `decide` raises, NotPaused where nothing is asked, RevisionMismatch where `pause_id` names another question,
    SeveralQuestions where it names none and child runs ask more than one.
    """
    found = Pause.objects.open().visible_to(by).answerable().filter(run__work_order=order_id)
    pauses = sorted(found, key=lambda pause: pause.pk)
    if len(pauses) > 1 and pause_id is None:
        raise SeveralQuestions(pauses)
    if not pauses:
        raise _nothing_to_answer(find_order(order_id, by=by), pause_id)
    pause = next((one for one in pauses if one.shown_id == pause_id), pauses[0])
    if pause_id is not None and pause_id != pause.shown_id:
        raise RevisionMismatch(pause)
    return _decide(pause, action=action, by=by, via=via, feedback=feedback, revision=revision, payload=payload)


def _nothing_to_answer(order: WorkOrder, pause_id: str | None) -> Exception:
    """What is said to who answers an order that asks nothing: that its last question was answered, where it had one."""
    last = Pause.objects.filter(run__work_order=order.pk).shown().order_by("-id").first()
    if last is not None and (pause_id is None or pause_id == last.shown_id) and (decision := _decision_of(last)):
        return AlreadyAnswered(last, decision)
    return NotPaused("This work order waits for nobody at the moment, so nothing was decided.")


def cancel_order(order_id: uuid.UUID, *, by: User, via: Via) -> None:
    """End a work order wherever it stands: waiting for a person, for a worker, or being worked on.

    Raises NotFound, RunEnded, or AlreadyAnswered where an answer came first.
    """
    order = find_order(order_id, by=by)
    own = next((pause for pause in open_pauses(order) if pause.run_id == order.latest_run_id), None)
    if own is not None:
        decide(own.pk, action=CANCEL, by=by, via=via)
    else:
        runs.cancel(order.pk, by=by)


def fork(checkpoint_id: uuid.UUID, *, by: User, reason: str, state: dict[str, Any] | None = None) -> Run:
    """Fork from a checkpoint that this person may see; raises NotFound, and what `runs.services.fork` raises."""
    if not Checkpoint.objects.filter(pk=checkpoint_id, thread__in=Thread.objects.visible_to(by)).exists():
        raise NotFound("There is no such checkpoint.")
    return runs.fork(checkpoint_id, by=by, reason=reason, state=state)


def find_order(order_id: uuid.UUID, *, by: User) -> WorkOrder:
    """A work order that this person may see; raises NotFound."""
    order = WorkOrder.objects.visible_to(by).shown().filter(pk=order_id).first()
    if order is None:
        raise NotFound("There is no such work order.")
    return order


def open_pauses(order: WorkOrder) -> list[Pause]:
    """The open questions of a work order, oldest first: its run's own, or those of its child runs."""
    if order.latest_run is None or order.latest_run.status not in LIVE:
        return []
    return list(Pause.objects.open().shown().filter(run__work_order=order.pk).order_by("id"))


def open_pause(order: WorkOrder) -> Pause | None:
    """The oldest open question of a work order."""
    return next(iter(open_pauses(order)), None)


def _decision_of(pause: Pause) -> Decision | None:
    return Decision.objects.select_related("decided_by").filter(pause=pause).first()


def _who_won(pause: Pause, decision: Decision | None) -> str:
    if decision is None:
        return f"This question is closed ({pause.get_status_display().lower()}), so your answer was not recorded."
    person = decision.decided_by.get_full_name() or decision.decided_by.get_username()
    at = date_format(timezone.localtime(decision.decided_at), "j M Y, H:i:s")
    done = PAST.get(decision.action, f"answered with “{pause.labels.get(decision.action, decision.action)}”")
    return f"Already {done} by {person} at {at}. Your answer was not recorded; nothing ran twice."
