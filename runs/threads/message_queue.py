"""Messages that wait for their turn: put in line while a run is alive, each begun exactly once, in
order, when it has ended.

Whoever puts one in line, and whoever ends a run, commits before it looks whether one can begin, so
one of them sees both; what a crash leaves is found by the sweep. Beginning is one transaction: the
run, and the row that names it.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext, override

from checkpoints import ids, store
from checkpoints.database import clock, outages
from checkpoints.database.people import User
from checkpoints.database.rounds import RoundItem
from checkpoints.events import log
from checkpoints.models import Thread
from checkpoints.models.fields import demand
from checkpoints.state import redaction, reducers
from checkpoints.state.encryption import KeyMissing
from runs import definitions, keyed
from runs.definitions import rights
from runs.definitions.readiness import CannotRun
from runs.engine.drafts.events import line
from runs.models import QueuedTurn, Run
from runs.services import InputInvalid
from runs.threads import turns
from runs.threads.turns import NothingToResume, ThreadBusy, Turn

logger = logging.getLogger(__name__)

LONGEST = 20
"""Messages that may wait on one thread."""
UNFIT = (
    rights.NotPermitted, CannotRun, InputInvalid, NothingToResume, definitions.TemplateNotFound,
    store.CheckpointDamaged,
    reducers.MergeFailed,
)  # fmt: skip
"""Why a message that waited cannot begin any more."""


class _Taken(Exception):
    """Another process began it, or it was withdrawn just now."""


LATER = (store.StateLocked, store.StoreUnavailable, KeyMissing)
"""Nothing is wrong with the message: the sweep looks again."""
FORESEEN = (_Taken, ThreadBusy, IntegrityError, *LATER, *UNFIT)


class QueueFull(Exception):
    """As many messages wait on the thread as may. Nothing was changed."""

    code = "queue_full"


class NotWaiting(Exception):
    """The message has begun its run, or was withdrawn. Nothing was changed."""

    code = "not_waiting"


class TurnRefused(Exception):
    """The message could not begin when its turn came; the words say why. It is out of the line."""

    code = "turn_refused"


@transaction.atomic(durable=True)
def put(thread_id: uuid.UUID, turn: Turn, *, by: User, interrupts: bool = False) -> QueuedTurn:
    """Put a message in line. Raises QueueFull, and what `turns.check_turn` raises."""
    turns.check_turn(thread_id, turn, by=by)
    # its row is ours: nobody else counts meanwhile
    Thread.objects.filter(pk=thread_id).update(when_busy=F("when_busy"))
    if QueuedTurn.objects.waiting().filter(thread=thread_id).count() >= LONGEST:
        raise QueueFull(
            gettext(
                "%(longest)s messages wait on this thread already. Withdraw one, or let them "
                "begin first."
            )
            % {"longest": LONGEST}
        )
    stops = {
        "interrupt_before": list(turn.interrupt_before),
        "interrupt_after": list(turn.interrupt_after),
    }
    keyed.made(ids.show(Thread.PREFIX, thread_id))
    return QueuedTurn.objects.create(
        thread_id=thread_id,
        by=by,
        template=turn.template,
        input=redaction.redact(dict(turn.input or {})),
        stops=stops,
        interrupts=interrupts,
    )


def begin_next(thread_id: uuid.UUID) -> Run | None:
    """Begin the run of the message that waits first, where no run is alive, and nudge; None where
    there is nothing to do.

    What cannot begin any more is refused, in the log too, and the one behind it takes its place.
    """
    while (
        turn := QueuedTurn.objects.due().filter(thread=thread_id).select_related("by").first()
    ) is not None:
        try:
            # kept words are English, whoever's request begins it
            with override("en"), RoundItem(logger, turn.shown_id, but=FORESEEN) as row:
                return _begin(turn)
        except _Taken:
            continue
        # a run began at this moment; whoever sees its end looks again
        except (ThreadBusy, IntegrityError):
            return None
        except LATER as error:
            logger.error("%s cannot begin yet: %s", turn.shown_id, error)
            return None
        except UNFIT as error:
            _refuse(turn, str(error))
        else:
            if row.error is not None and outages.is_trouble(row.error):
                return None  # others hold its rows: the sweep looks again
            # or the line behind it would wait for ever
            _refuse(
                turn,
                f"It failed in a way that nobody foresaw ({type(row.error).__name__}); "
                "operators find the reason in the log.",
            )
    return None


@transaction.atomic(durable=True)
def _begin(turn: QueuedTurn) -> Run:
    if not Thread.objects.visible_to(turn.by).filter(pk=turn.thread_id).exists():
        raise NothingToResume(f"{turn.by.get_username()} takes no part in this thread any more.")
    given = Turn(template=turn.template, input=demand(turn.input), **turn.stops)
    run = turns.take_turn(turn.thread_id, given, by=turn.by)
    if not _close(turn, QueuedTurn.Status.BEGUN, run=run):
        raise _Taken
    return run


@transaction.atomic(durable=True)
def _refuse(turn: QueuedTurn, words: str) -> None:
    if _close(turn, QueuedTurn.Status.REFUSED, words=words):
        log.append(
            turn.thread_id,
            None,
            [
                line(
                    f"A message of {turn.by.get_username()} that waited was not taken: {words}",
                    level="warning",
                )
            ],
        )


def withdraw(turn: QueuedTurn) -> None:
    """Take a message out of the line. Raises NotWaiting where it is in none."""
    if not _close(turn, QueuedTurn.Status.WITHDRAWN):
        raise NotWaiting(
            gettext("This message does not wait any more: it has begun its run, or was withdrawn.")
        )


def _close(turn: QueuedTurn, status: QueuedTurn.Status, **fields: Any) -> int:
    return QueuedTurn.objects.filter(pk=turn.pk, status=QueuedTurn.Status.WAITING).update(
        status=status, closed_at=clock.now(), **fields
    )


def place_of(turn: QueuedTurn) -> int:
    """How many messages of its thread begin up to this one; 0 where it does not wait."""
    waiting = list(
        QueuedTurn.objects.waiting().filter(thread=turn.thread_id).values_list("pk", flat=True)
    )
    return waiting.index(turn.pk) + 1 if turn.pk in waiting else 0
