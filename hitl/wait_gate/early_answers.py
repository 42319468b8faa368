"""Answers that come before their question: kept, and given to it once it opens, through `decide`
and by who sent them.

They are data, which a question asks for whatever it shows. A verdict is on what was shown: one that
comes early names the revision and the digest of the content that it is for, and is given to that
alone; any other is not kept. The ledger says of each that it came early.

An answer names its question by the step (or another engine's node) or by its type, and only one
that was never asked yet in the run: what was asked already is answered late, so that no answer is
eaten by the next question.

Either side may be first. Who keeps an answer looks for the question after its commit; who opens a
question is looked after by the sweep, or does so itself (`waits`). So an answer is given at once,
or one sweep late. It is bound to the question before it is given: whoever dies in between leaves
one that is given to the same question again, and `decide` takes it once.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Iterator

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.utils import translation

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.database.rounds import RoundItem
from checkpoints.events import log
from checkpoints.models import EventKind, Thread
from checkpoints.state import codec
from checkpoints.state.reducers import MergeFailed
from checkpoints.store import CheckpointDamaged, StoreUnavailable
from hitl.decisions.reviewers.refusals import ENDS_BY_ITSELF, Refused
from hitl.decisions.services import AlreadyAnswered, AnswerInvalid, NotFound, RevisionMismatch
from hitl.models import EarlyAnswer, Via
from hitl.wait_gate import repeated_events, resume_events
from hitl.wait_gate.repeated_events import EventRepeated
from hitl.wait_gate.resume_events import EarlyVerdict, ResumeEvent, fits
from runs import keyed
from runs.models import Pause, Run
from runs.security import scopes
from runs.security.scopes import OwnQuestion, Scope
from runs.states import LIVE
from runs.workflows.schemas import MAX_ANSWER
from runs.workflows.sequence import APPROVE, REVISE

MOST = 20
"""Answers that are kept for one thread at a time."""
STALE = dt.timedelta(seconds=30)
"""After so long an answer is given again: who gave it is taken for dead, or it was put off."""
BATCH = 200
LOOKED_AT = 200
"""Questions of a run, its newest, among which an answer finds its own."""

logger = logging.getLogger(__name__)
Status = EarlyAnswer.Status


class NotKept(Exception):
    """An answer that came early cannot be kept; nothing was written."""

    code = "not_kept"


def keep(
    event: ResumeEvent, *, run: Run | None, thread_id: uuid.UUID, by: User, via: Via
) -> EarlyAnswer:
    """Keep an answer for its question; the same one again is the same.

    Raises NotKept, and EarlyVerdict.
    """
    if resume_events.verdict_in(event, _verdicts(run)):
        raise EarlyVerdict
    if not kept_for():
        raise NotKept(
            "Answers that come before their question are not kept here, so this one is not. "
            "Send it once the question is asked."
        )
    kept = event.kept
    if len(codec.encode(kept)) > MAX_ANSWER:
        raise NotKept(
            f"The answer is larger than {MAX_ANSWER} bytes, so it is not kept. Send it once "
            "the question is asked."
        )
    try:
        early = _keep(event, kept, run=run, thread_id=thread_id, by=by, via=via)
    except IntegrityError as error:  # early_answer_one_per_question
        same = EarlyAnswer.objects.filter(
            thread=thread_id, node_id=event.node_id, input_type=event.input_type
        )
        # the one that was kept then; its question may have opened and taken it meanwhile
        before = same.order_by("-id").first()
        if (
            before is None
            or before.by_id != by.pk
            or before.event.get("payload") != kept["payload"]
        ):
            raise NotKept(
                "Another answer is kept for this question already; the first one counts."
            ) from error
        return before
    _look(early)
    early.refresh_from_db()
    return early


def kept_for() -> dt.timedelta:
    return dt.timedelta(hours=settings.WAYSTATION_EARLY_HOURS)


def _verdicts(run: Run | None) -> set[str]:
    """The words that a verdict in a run goes by, as far as that is known; another engine's question
    may have more.
    """
    choices = [
        choice["name"] for step in (run.frozen.steps if run else []) for choice in step["choices"]
    ]
    return {APPROVE, REVISE, *choices}


@transaction.atomic(durable=True)
def _keep(
    event: ResumeEvent,
    kept: dict[str, object],
    *,
    run: Run | None,
    thread_id: uuid.UUID,
    by: User,
    via: Via,
) -> EarlyAnswer:
    keyed.made(run.shown_id if run else ids.show(Thread.PREFIX, thread_id))
    now = clock.now()
    names = {"node_id": event.node_id, "input_type": event.input_type}
    line = {
        "message": f"An answer of {by.get_username()} came before its question, and is kept for it",
        "level": "info",
        "step": event.node_id,
    }
    # holds the thread's row: who counts is alone
    log.append(thread_id, run.pk if run else None, [(EventKind.LOG, {**line, **names})])
    mine = EarlyAnswer.objects.kept().filter(thread=thread_id)
    if mine.count() >= MOST and not mine.filter(**names).exists():
        raise NotKept(
            f"{MOST} answers are kept for this run already, so this one is not. Send it "
            "once its question is asked."
        )
    return EarlyAnswer.objects.create(
        thread_id=thread_id,
        run=run,
        **names,
        event=kept,
        by=by,
        via=via,
        token_id=scopes.acting_token(),
        received_at=now,
        expires_at=now + kept_for(),
        changed_at=now,
    )


def _look(early: EarlyAnswer) -> bool:
    """Give a kept answer to its question, if that was asked meanwhile; whether it was.

    Its question is the first of the newest that it fits: when it was kept there was none. That one
    may have been answered by now, and then the answer is a late one, not an early one for the next
    question of the same step.
    """
    event = _event(early)
    asked = (
        Pause.objects.filter(run=early.run_id)
        if early.run_id
        else Pause.objects.filter(run__thread=early.thread_id)
    )
    newest = asked.select_related("run__thread").defer("content", "known", "facts").order_by("-id")
    for pause in reversed(newest[:LOOKED_AT]):
        if fits(pause, event):
            _take(early, pause)
            return True
    return False


def take_for(thread_id: uuid.UUID) -> None:
    """Give the questions of a thread, of which one just opened, the answers that are kept for
    them.
    """
    for early in EarlyAnswer.objects.kept().filter(thread=thread_id).order_by("id"):
        _look(early)


def due() -> Iterator[models.QuerySet[EarlyAnswer]]:
    """What a sweep has to look at."""
    yield EarlyAnswer.objects.kept()
    yield _forsaken(clock.FromNow(-STALE.total_seconds()))


def _forsaken(before: dt.datetime | clock.FromNow) -> models.QuerySet[EarlyAnswer]:
    """Answers that somebody died with, or that were put off."""
    return EarlyAnswer.objects.filter(status=Status.TAKING, changed_at__lt=before)


def sweep(*, now: dt.datetime) -> None:
    """Give answers to questions that opened, once more those that somebody died with, and let go
    those whose question never came.

    Harmless when two run at once. Those whose question is yet to come go to the end of the line, so
    that no number of them holds up others.
    """
    forsaken = _forsaken(now - STALE).select_related("pause__run__thread")
    for early in forsaken.order_by("changed_at")[:BATCH]:
        assert early.pause is not None  # early_answer_has_its_question
        with RoundItem(logger, early.shown_id) as row:
            give(early, early.pause)
        if row.error is not None:
            _put_off(early)
    waiting = list(
        EarlyAnswer.objects.kept().select_related("run", "by").order_by("changed_at")[:BATCH]
    )
    for early in waiting:
        with RoundItem(logger, early.shown_id):
            if not _look(early) and (
                early.expires_at <= now or (early.run is not None and early.run.status not in LIVE)
            ):
                _let_go(early)
    EarlyAnswer.objects.kept().filter(pk__in=[early.pk for early in waiting]).update(changed_at=now)


def _event(early: EarlyAnswer) -> ResumeEvent:
    kept = early.event
    return ResumeEvent(
        run_id=kept.get("run_id", ""),
        input_type=early.input_type,
        node_id=early.node_id,
        payload=kept.get("payload"),
        sender_metadata=kept.get("sender_metadata") or {},
        revision=kept.get("revision"),
        content_digest=kept.get("content_digest") or "",
        stage=kept.get("stage") or "",
    )


def _take(early: EarlyAnswer, pause: Pause) -> None:
    """Bind an answer to its question, and give it. Of two at once one does."""
    bound = (
        EarlyAnswer.objects.kept()
        .filter(pk=early.pk)
        .update(status=Status.TAKING, pause=pause, changed_at=clock.now())
    )
    if bound:
        give(early, pause)


def give(early: EarlyAnswer, pause: Pause) -> None:
    """Answer with what was kept.

    What does not fit leaves the question open, with a refined one stored. While somebody has
    claimed the question, or another stage is asked first, the answer waits.
    """
    event, user = _event(early), User.objects.get(pk=early.by_id)
    status, reason = Status.TAKEN, ""
    try:
        early_at = early.received_at if early.received_at < pause.opened_at else None
        # who sent it answers, and not the request or task that opened the question;
        # and kept words are English
        scope = None if early.token_id is None else Scope.ANSWER.value
        with (
            scopes.acting(scope, early.token_id),
            translation.override("en"),
            repeated_events.claimed(event, pause, by=user),
        ):
            resume_events.answer(pause, event, by=user, via=Via(early.via), early_at=early_at)
    except AlreadyAnswered as late:
        mine = late.decision is not None and resume_events.same(late.decision, pause, event, user)
        status, reason = (Status.TAKEN, "") if mine else (Status.REFUSED, str(late))
    except (
        AnswerInvalid,
        EarlyVerdict,
        EventRepeated,
        NotFound,
        RevisionMismatch,
        MergeFailed,
        OwnQuestion,
        Refused,
    ) as refused:
        if isinstance(refused, Refused) and refused.code in ENDS_BY_ITSELF:
            _put_off(early)
            return
        status, reason = Status.REFUSED, str(refused)
    # nothing was decided: the sweep tries again
    except (CheckpointDamaged, StoreUnavailable) as away:
        logger.warning("%s could not be given to %s: %s", early.shown_id, pause.shown_id, away)
        _put_off(early)
        return
    _note(early, pause, status, reason)


def _put_off(early: EarlyAnswer) -> None:
    """A sweep gives it again, behind the others."""
    EarlyAnswer.objects.filter(pk=early.pk, status=Status.TAKING).update(changed_at=clock.now())


@transaction.atomic(durable=True)
def _note(early: EarlyAnswer, pause: Pause, status: EarlyAnswer.Status, reason: str) -> None:
    """Write what became of an answer, once; of one that was not taken its thread is told why."""
    mine = EarlyAnswer.objects.filter(pk=early.pk, status=Status.TAKING)
    if mine.update(status=status, error=reason, changed_at=clock.now()) and reason:
        names = {"step": pause.step, "input_type": early.input_type, "level": "warning"}
        message = (
            f"An answer of {early.by.get_username()} that came before its question was not "
            f"taken: {reason}"
        )
        log.append(early.thread_id, pause.run_id, [(EventKind.LOG, {"message": message, **names})])


@transaction.atomic(durable=True)
def _let_go(early: EarlyAnswer) -> None:
    if (
        EarlyAnswer.objects.kept()
        .filter(pk=early.pk)
        .update(status=Status.EXPIRED, changed_at=clock.now())
    ):
        names = {"step": early.node_id, "input_type": early.input_type, "level": "warning"}
        message = (
            f"The question that an answer of {early.by.get_username()} was kept for never came"
        )
        log.append(early.thread_id, early.run_id, [(EventKind.LOG, {"message": message, **names})])
