"""Answering a pause.

`decide` is the one way, behind every door: page, REST, socket, admin, command.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import F

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.events import log
from checkpoints.models import Checkpoint, Event, EventKind, Thread
from checkpoints.state import codec
from checkpoints.state.reducers import MergeFailed
from checkpoints.store.prepared_queries import Prepared
from checkpoints.text import dates
from hitl.decisions import (
    closing,
    deadlines,
    external_access,
    notifications,
    policy,
    tool_calls,
    visibility,
    voting,
    winner,
)
from hitl.decisions.external_reviewer import Outsider
from hitl.decisions.policy import Actor, ReviewContext
from hitl.decisions.winner import PAST as PAST
from hitl.models import Decision, Via, Vote
from runs import keyed
from runs import services as runs
from runs.definitions import due_times
from runs.engine.events import asked
from runs.models import Pause, PauseQuerySet, Run, WorkOrder
from runs.security import scopes
from runs.services import PauseClosed, external_runs
from runs.services.forks import check_brought
from runs.states import LIVE, PauseStatus, RunEnded
from runs.workflows import owned, schemas
from runs.workflows.sequence import CANCEL, REVISE

MAX_FEEDBACK = 20_000
MAX_EDITED = 200_000
REFINED = 4_000
"""Characters that are kept of what was wrong with an answer."""


class NotFound(Exception):
    """There is nothing of that id, or nothing that this person may see: the two cannot be told
    apart.
    """

    code = "not_found"


class AnswerInvalid(Exception):
    """The answer cannot be taken as it is; the pause stays open.

    `errors` maps a field to sentences.
    """

    code = "answer_invalid"

    def __init__(self, errors: dict[str, list[str]], code: str = "answer_invalid") -> None:
        super().__init__(
            "Nothing was decided; the question is still open. "
            + " ".join(text for texts in errors.values() for text in texts)
        )
        self.errors = errors
        self.code = code


class AlreadyAnswered(PauseClosed):
    """Somebody answered first, or the run ended: a calm truth for the one who came second."""

    def __init__(self, pause: Pause, decision: Decision | None) -> None:
        super().__init__(winner.who_won(pause, decision))
        self.pause = pause
        self.decision = decision


class DeadlinePassed(AlreadyAnswered):
    """The answer came after the deadline: nothing of it was taken.

    The question's rules have acted, as they say.
    """

    code = "deadline_passed"

    def __init__(
        self, pause: Pause, decision: Decision | None, *, at: dt.datetime, outcome: str
    ) -> None:
        super().__init__(pause, decision)
        self.at = at
        self.outcome = outcome
        """What the rules say: `expire`, `cancel`, `approve` or `escalate`."""

    def __str__(self) -> str:
        words = OUTCOMES[self.outcome]
        if (
            self.outcome == "escalate"
            and self.pause.status == PauseStatus.OPEN
            and self.pause.deadline_at is not None
        ):
            words = (
                f"{words}, until {dates.told(self.pause.deadline_at, exact=True)}. Look at it "
                "again if you are still asked"
            )
        return (
            f"The time to answer was over at {dates.told(self.at, exact=True)}, so nothing of "
            f"your answer was taken. {words}."
        )


OUTCOMES = {
    "expire": (
        "By its rules the question expires: its run ends without an answer, and the question "
        "can be reopened"
    ),
    "cancel": "By its rules silence cancels",
    "approve": "By its rules silence approves, and the run goes on",
    "escalate": "By its rules further people are asked",
}
"""What the rules say of a question at its deadline, in words."""


class RevisionMismatch(Exception):
    """The answer was given to another revision than the one that is open now."""

    code = "revision_mismatch"

    def __init__(
        self, pause: Pause, seen: int | None = None, *, decision: Decision | None = None
    ) -> None:
        self.pause, self.seen = pause, seen
        self.decision = decision or winner.answer_to_revision(pause, seen)
        """Of whoever was first: what the revision that was seen was answered with."""
        super().__init__(winner.moved_on(pause, self.decision))


class _Answerable:
    """Questions that a person may answer, `narrow`ed by a key.

    Prepared, since whoever answers waits.
    """

    def __init__(self, narrow: Callable[[PauseQuerySet, uuid.UUID], PauseQuerySet]) -> None:
        self._narrow = narrow
        self._prepared = Prepared(
            lambda user_id, key: self._query(User(pk=user_id), key), int, uuid.UUID
        )

    def _query(self, by: User, key: uuid.UUID) -> PauseQuerySet:
        return self._narrow(Pause.objects.visible_to(by).answerable(), key)

    def get(self, by: User, key: uuid.UUID) -> list[Pause]:
        usual = by.is_active and not by.is_superuser
        return self._prepared.get(by.pk, key) if usual else list(self._query(by, key))


_by_id = _Answerable(lambda pauses, pause_id: pauses.filter(pk=pause_id))
_open_of_order = _Answerable(
    lambda pauses, order_id: pauses.open().filter(run__work_order=order_id)
)


def decide(
    pause_id: uuid.UUID,
    *,
    action: str,
    by: Actor,
    via: Via,
    feedback: str = "",
    revision: int | None = None,
    payload: Any = None,
    update: Mapping[str, Any] | None = None,
    edited_content: str | None = None,
    sender: Mapping[str, Any] | None = None,
    content_digest: str = "",
    early_at: dt.datetime | None = None,
) -> Decision | Vote:
    """Record a person's answer and let the run act on it; or, where the rules ask for more
    approvals than this one, record the vote.

    Args:
        by: whoever answers; an `Outsider` is whoever holds a link that was sent to that address,
        which the caller has verified. action: `approve`, `revise` (needs `feedback`), `cancel`, or
        one of the pause's own answers. revision: the revision that was looked at; None where the
        door addresses the open question itself. payload: the data that the pause asks for
        (`required_inputs`); it joins the state by the workflow's reducers. update: joins the state
        too, unasked: the input of a run that was interrupted. edited_content: the content as it is
        approved; None for as it was shown. sender: what a system says of who answered (S3-13); kept
        in the log with the answer. content_digest: of the content that was looked at; "" as for
        `revision`. early_at: when the answer came, where that was before its question
        (`early_answers`): the ledger says so.
    Raises:
        NotFound: no such pause for this person. AnswerInvalid: nothing decided, the pause stays
        open. Of a payload that does not fit, the pause keeps what was wrong. RevisionMismatch: the
        content changed; nothing written. AlreadyAnswered: another answer won, and is named; nothing
        written. DeadlinePassed: it came too late; the rules of the question have acted. Where these
        ask further people, an answer of theirs counts. policy.Refused: the rules are against it,
        for this person or at the moment; nothing written. forks.ReviewStands: `update` would change
        what was approved; nothing written.
    """
    standing = _standing(pause_id, by) if isinstance(by, User) else _standing_outside(pause_id, by)
    answer = voting.Answer(
        action,
        via,
        feedback.strip(),
        revision,
        payload,
        update,
        edited_content,
        sender,
        content_digest,
        early_at,
    )
    return _decide(answer, standing)


def _standing(pause_id: uuid.UUID, by: User) -> ReviewContext:
    pause = next(iter(_by_id.get(by, pause_id)), None)
    guest = None if pause else visibility.pause(Pause.objects.answerable(), pause_id, by=by)
    found = pause or guest
    if found is not None:
        return ReviewContext(found, by, takes_part=pause is not None)
    # who is asked from the deadline on is asked now
    if deadlines.meet(Pause.objects.filter(pk=pause_id)):
        found = visibility.pause(Pause.objects.answerable(), pause_id, by=by)
    if found is None:
        raise NotFound("There is no such question.")
    return ReviewContext(found, by)


def _standing_outside(pause_id: uuid.UUID, by: Outsider) -> external_access.ExternalReviewContext:
    pause = Pause.objects.answerable().filter(pk=pause_id).first()
    if pause is None or not external_access.may_answer(pause, by.address):
        raise NotFound("There is no such question.")
    return external_access.ExternalReviewContext(pause, by)


def _decide(
    answer: voting.Answer, standing: ReviewContext | external_access.ExternalReviewContext
) -> Decision | Vote:
    """`decide` on a pause that was looked up for whoever answers, `answerable`."""
    # to end work that waits is no answer; who may do that, `end_run`'s doors say
    if answer.action != CANCEL:
        scopes.check_answer()
    standing = _in_time(standing)
    pause = standing.pause
    if answer.revision is not None and answer.revision != pause.revision:
        raise RevisionMismatch(pause, seen=answer.revision)
    if answer.content_digest not in {"", pause.content_digest}:
        raise RevisionMismatch(pause, seen=answer.revision)
    _check(pause, answer.action, answer.feedback)
    seat = standing.seat_for(answer.action)
    _check_owned(pause, answer)
    if standing.votes and policy.approves(answer.action):
        answer = voting.confirming(pause, answer, standing.votes[0])
    answer = replace(answer, edited_content=_check_edit(pause, answer))
    _check_payload(pause, answer.action, answer.payload, by=standing.by)
    if answer.action in pause.ways and runs.brings(pause, answer.update):
        # before it is counted: a vote that can never be acted on helps nobody
        check_brought(pause.run, pause.ways[answer.action])
    try:
        return _record(pause, answer, by=standing.by, seat=seat)
    except (codec.NotJson, MergeFailed) as error:
        raise AnswerInvalid({"input": [str(error)]}) from error
    except AlreadyAnswered:
        raise
    except PauseClosed as lost:
        pause.refresh_from_db()
        check_open(pause)
        # still open, but claimed at this very moment
        policy.ReviewContextBase(pause, standing.by).check_claim()
        raise AlreadyAnswered(pause, Decision.objects.answer_to(pause)) from lost


def _in_time(
    standing: ReviewContext | external_access.ExternalReviewContext,
) -> ReviewContext | external_access.ExternalReviewContext:
    """The standing of whoever answers an open question in time. Raises as `check_open`.

    Whom the rules ask from the deadline on answers in the time that they got: the standing is that
    which they have then.
    """
    pause = standing.pause
    unasked = (
        pause.deadline_at is not None and isinstance(standing, ReviewContext) and not standing.seats
    )
    try:
        check_open(pause)
    except DeadlinePassed as late:
        if not unasked or late.outcome != "escalate" or pause.status != PauseStatus.OPEN:
            raise
        assert isinstance(standing, ReviewContext)  # it was looked at above
        now_asked = ReviewContext(pause, standing.by, takes_part=standing.takes_part)
        if not now_asked.seats:
            raise
        return now_asked
    return standing


def check_open(pause: Pause) -> None:
    """Raise AlreadyAnswered where a question is closed, and DeadlinePassed where its time is over:
    then its rules act first.

    The pause is as the database has it then. Call outside a transaction.
    """
    if pause.status == PauseStatus.OPEN and pause.deadline_at is not None:
        at, outcome = pause.deadline_at, deadlines.meet(Pause.objects.filter(pk=pause.pk))
        if outcome:
            pause.refresh_from_db()
            decision = Decision.objects.answer_to(pause)
            if decision is None or decision.via == Via.POLICY:
                raise DeadlinePassed(pause, decision, at=at, outcome=outcome)
    if pause.status != PauseStatus.OPEN:
        raise AlreadyAnswered(pause, Decision.objects.answer_to(pause))


def _check(pause: Pause, action: str, feedback: str) -> None:
    """Raise AnswerInvalid where an answer is none of the question's, or its words are missing or
    cannot be kept.
    """
    if action != CANCEL and action not in pause.ways:
        known = ", ".join([*pause.ways, CANCEL])
        raise AnswerInvalid(
            {"decision": [f"{action[:60]!r} is no answer here. Answers are: {known}."]},
            code="unknown_answer",
        )
    if len(feedback) > MAX_FEEDBACK:
        raise AnswerInvalid(
            {
                "feedback": [
                    f"Feedback may have up to {MAX_FEEDBACK} characters; this has {len(feedback)}."
                ]
            }
        )
    if feedback != codec.readable(feedback):
        raise AnswerInvalid(
            {
                "feedback": [
                    (
                        "The feedback holds characters that cannot be kept: a NUL, or bytes "
                        "that are no UTF-8."
                    )
                ]
            }
        )
    if action == REVISE and not feedback:
        raise AnswerInvalid(
            {"feedback": ["Say what should change: a revision needs feedback."]},
            code="feedback_required",
        )
    if action in pause.review.get("reason_required", []) and not feedback:
        raise AnswerInvalid(
            {"feedback": ["Say why: the rules of this step ask for a reason with this answer."]},
            code="reason_required",
        )
    if action == REVISE and not pause.may_revise:
        raise AnswerInvalid(
            {
                "decision": [
                    f"This was sent back {pause.max_revisions} times already. Approve it or cancel."
                ]
            },
            code="revisions_exhausted",
        )


def _check_owned(pause: Pause, answer: voting.Answer) -> None:
    """Raise AnswerInvalid where an answer brings what the engine alone writes, asked for or not
    (F6).
    """
    elsewhere = pause.run.frozen.template_slug == external_runs.SLUG
    for given in (answer.payload, answer.update):
        if isinstance(given, Mapping) and (found := owned.named(given, elsewhere=elsewhere)):
            raise AnswerInvalid(
                {f"input.{name}": [owned.refusal([name])] for name in found}, code="input_reserved"
            )


def _check_edit(pause: Pause, answer: voting.Answer) -> str | None:
    """The edited content as it is kept, None where it reads as it was shown; raises AnswerInvalid
    where it cannot be taken.
    """
    if answer.edited_content is None:
        return None
    if not pause.review.get("edits") or not policy.approves(answer.action):
        words = (
            "The content of this question is answered as it is: this answer takes no edited text."
        )
        raise AnswerInvalid({"edited_content": [words]}, code="edits_not_allowed")
    text = answer.edited_content.replace("\r\n", "\n").strip("\n")
    fault = (
        ""
        if text.strip()
        else "The edited text is empty. Cancel, or send it back, where nothing of it should stay."
    )
    if len(text) > MAX_EDITED:
        fault = f"The edited text may have up to {MAX_EDITED} characters; this has {len(text)}."
    elif text != codec.readable(text):
        fault = (
            "The edited text holds characters that cannot be kept: a NUL, or bytes that are no "
            "UTF-8."
        )
    if fault:
        raise AnswerInvalid({"edited_content": [fault]}, code="edit_invalid")
    return None if text == pause.content.strip("\n") else text


def _check_payload(pause: Pause, action: str, payload: Any, *, by: Actor) -> None:
    """Raise AnswerInvalid where the data that comes with an answer is not what is asked for."""
    wanted = pause.wants_data(action)
    if not wanted and payload is not None:
        words = (
            f"The answer {action!r} takes no data."
            if pause.required_inputs
            else "This question asks for no data."
        )
        raise AnswerInvalid(
            {"input": [f"{words} Answer again without it."]}, code="input_unexpected"
        )
    if not wanted:
        return
    errors = schemas.answer_faults(pause.required_inputs, {} if payload is None else payload)
    if not errors and codec.holds_unreadable(payload):
        errors = {
            "": [
                (
                    "The answer holds characters that cannot be kept: a NUL, or bytes that are "
                    "no UTF-8."
                )
            ]
        }
    errors = errors or tool_calls.faults(pause, payload)
    if errors:
        _ask_refined(pause, errors, by=by)
        raise AnswerInvalid(
            {f"input.{field}" if field else "input": words for field, words in errors.items()},
            code="input_invalid",
        )


@transaction.atomic(durable=True)
def _ask_refined(pause: Pause, errors: Mapping[str, list[str]], *, by: Actor) -> None:
    """Count an answer that did not fit, and ask again in words that name what was wrong (S3-33).

    A question closed meanwhile stays so.
    """
    words = " ".join(
        f"{field}: {text}" if field else text for field, texts in errors.items() for text in texts
    )[:REFINED]
    keyed.made(pause.shown_id)
    if Pause.objects.open().filter(pk=pause.pk).change(attempts=F("attempts") + 1, refined=words):
        pause.refresh_from_db(fields=["attempts", "refined"])
        log.append(
            pause.run.thread_id,
            pause.run_id,
            [asked(pause, again=True, errors=dict(errors), answered_by=by.get_username())],
        )
        notifications.plan_refined(pause, by=by)


@transaction.atomic(durable=True)
def _record(pause: Pause, answer: voting.Answer, *, by: Actor, seat: Actor) -> Decision | Vote:
    """Close the question with a person's answer.

    A vote after which others are missing stays alone.
    """
    votes: list[Vote] = []
    if policy.quorum(pause) > 1:
        vote, votes = voting.cast(pause, answer, by=by, seat=seat)
        if vote is not None and len(votes) < policy.quorum(pause):
            keyed.made(pause.shown_id)
            return vote
    now = clock.now()
    while_ = policy.free_for(by, now=now) & due_times.in_time()
    return closing.close(pause, answer, by=by, seat=seat, votes=votes, at=now, while_=while_)


class NotPaused(Exception):
    """The work order asks nothing at the moment."""

    code = "not_paused"


class SeveralQuestions(Exception):
    """Child runs of the work order ask more than one question, and the answer does not say which it
    is for.
    """

    code = "several_questions"

    def __init__(self, pauses: list[Pause]) -> None:
        super().__init__(
            "Several questions are open here; name one of them as pause_id. Nothing was decided."
        )
        self.pauses = pauses


def answer_order(
    order_id: uuid.UUID,
    *,
    action: str,
    by: User,
    via: Via,
    feedback: str = "",
    revision: int | None = None,
    payload: Any = None,
    pause_id: str | None = None,
    edited_content: str | None = None,
) -> Decision | Vote:
    """Answer the open question of a work order.

    Raises what `decide` raises, NotPaused where nothing is asked, RevisionMismatch where `pause_id`
    names another question, SeveralQuestions where it names none and child runs ask more than one.
    """
    pauses = sorted(_open_of_order.get(by, order_id), key=lambda pause: pause.pk)
    takes_part = bool(pauses)
    pauses = pauses or visibility.open_of_order(order_id, by=by)
    # who is asked from the deadline on is asked now
    if not pauses and deadlines.meet(Pause.objects.filter(run__work_order=order_id)):
        pauses = visibility.open_of_order(order_id, by=by)
    if len(pauses) > 1 and pause_id is None:
        raise SeveralQuestions(pauses)
    if not pauses:
        raise _nothing_to_answer(look_at_order(order_id, by=by), pause_id)
    pause = next((one for one in pauses if one.shown_id == pause_id), pauses[0])
    if pause_id is not None and pause_id != pause.shown_id:
        late = answered_before(_named(order_id, pause_id))
        raise RevisionMismatch(pause, decision=late.decision if late else None)
    answer = voting.Answer(action, via, feedback.strip(), revision, payload, None, edited_content)
    return _decide(answer, ReviewContext(pause, by, takes_part=takes_part))


def _nothing_to_answer(order: WorkOrder, pause_id: str | None) -> Exception:
    """What is said to who answers an order that asks nothing: who answered the question, the last
    one where none is named; or ended it.
    """
    asked = Pause.objects.filter(run__work_order=order.pk)
    if (
        late := answered_before(asked if pause_id is None else _named(order.pk, pause_id))
    ) is not None:
        return late
    ended = (
        _ended_before(order.latest_run, RunEnded(""))
        if order.latest_run and order.latest_run.status not in LIVE
        else None
    )
    return NotPaused(
        f"{ended} Nothing was decided."
        if str(ended or "")
        else "This work order waits for nobody, so nothing was decided."
    )


def _named(order_id: uuid.UUID, pause_id: str) -> PauseQuerySet:
    """The question of an order that has this id; none, where it has no such one."""
    asked = Pause.objects.filter(run__work_order=order_id)
    try:
        return asked.filter(pk=ids.parse(Pause.PREFIX, pause_id))
    except ValueError:
        return asked.none()


def cancel_order(order_id: uuid.UUID, *, by: User, via: Via, reason: str = "") -> None:
    """End a work order wherever it stands: waiting for a person, for a worker, or being worked on.

    Raises NotFound, RunEnded, AlreadyAnswered where an answer came first, and what else `decide`
    raises where it waits for one.
    """
    order = find_order(order_id, by=by)
    if order.latest_run is None:
        runs.cancel(order.pk, by=by)  # which says that there is nothing to end
    else:
        end_run(order.latest_run, by=by, via=via, reason=reason)


def end_run(run: Run, *, by: User, via: Via, reason: str = "") -> None:
    """End a run that this person may see; one that asks is answered with cancel.

    Raises RunEnded, or AlreadyAnswered where an answer came at the same moment; both say who was
    first.
    """
    asks = Pause.objects.open().filter(run=run)
    pause = asks.first()
    if pause is None:
        try:
            return runs.cancel_run(run, by=by)
        except RunEnded as ended:
            pause = asks.first()  # it may have asked just now
            if pause is None:
                raise _ended_before(run, ended) from ended
    decide(pause.pk, action=CANCEL, by=by, via=via, feedback=reason)
    return None


def _ended_before(run: Run, ended: RunEnded) -> RunEnded:
    """The same refusal, with who cancelled the run and when, where somebody did; or when it
    expired.
    """
    expired = (
        Pause.objects.filter(run=run, status=PauseStatus.EXPIRED).order_by("-closed_at").first()
    )
    if expired is not None and expired.closed_at is not None:
        at = dates.told(expired.closed_at, exact=True)
        return RunEnded(
            f"It expired at {at}: nobody had answered in time. There was nothing to cancel."
        )
    event = (
        Event.objects.filter(thread=run.thread_id, kind=EventKind.RUN_CANCELLED)
        .order_by("-seq")
        .first()
    )
    if event is None or event.run_id != run.pk:
        return ended
    at = dates.told(event.at, exact=True)
    return RunEnded(
        f"Cancelled already by {event.data.get('by')} at {at}, so there was nothing to cancel."
    )


def answered_before(pauses: PauseQuerySet) -> AlreadyAnswered | None:
    """What is said to who answers the latest of these questions too late; None where that is still
    open, or its run was cancelled.
    """
    last = pauses.shown().order_by("-id").first()
    decision = Decision.objects.answer_to(last) if last is not None else None
    over = last is not None and (decision is not None or last.status == PauseStatus.EXPIRED)
    return AlreadyAnswered(last, decision) if last is not None and over else None


def fork(
    checkpoint_id: uuid.UUID, *, by: User, reason: str, state: dict[str, Any] | None = None
) -> Run:
    """Fork from a checkpoint that this person may see; raises NotFound, and what
    `runs.services.fork` raises.
    """
    return runs.fork(find_checkpoint(checkpoint_id, by=by).pk, by=by, reason=reason, state=state)


def find_checkpoint(checkpoint_id: uuid.UUID, *, by: User) -> Checkpoint:
    """A checkpoint that this person may see; raises NotFound."""
    visible = Checkpoint.objects.filter(thread__in=Thread.objects.visible_to(by)).select_related(
        "thread__work_order", "thread__head"
    )
    found = visible.defer("thread__head__body").filter(pk=checkpoint_id).first()
    if found is None:
        raise NotFound("There is no such checkpoint.")
    return found


def find_order(order_id: uuid.UUID, *, by: User) -> WorkOrder:
    """A work order that this person may see; raises NotFound."""
    order = WorkOrder.objects.visible_to(by).shown().filter(pk=order_id).first()
    if order is None:
        raise NotFound("There is no such work order.")
    return order


def look_at_order(order_id: uuid.UUID, *, by: User) -> WorkOrder:
    """A work order that this person may see, or is asked on; raises NotFound."""
    order = WorkOrder.objects.visible_to(by).shown_to(by).filter(pk=order_id).first()
    if (
        order is None
        and (asked := WorkOrder.objects.shown_to(by).filter(pk=order_id).first())
        and visibility.is_asked(asked.thread_id, by=by)
    ):
        return asked
    if order is None:
        raise NotFound("There is no such work order.")
    return order


def open_pauses(order: WorkOrder) -> list[Pause]:
    """The open questions of a work order, oldest first: its run's own, or those of its child
    runs.
    """
    if order.latest_run is None or order.latest_run.status not in LIVE:
        return []
    return list(Pause.objects.open().shown().filter(run__work_order=order.pk).order_by("id"))


def open_pause(order: WorkOrder) -> Pause | None:
    """The oldest open question of a work order."""
    return next(iter(open_pauses(order)), None)
