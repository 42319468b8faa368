"""The ends of several questions whose deadlines have passed, in one transaction: hundreds that are
due at once are acted on in seconds.

What is written is made first, with nothing locked on PostgreSQL; then all of it is written in few
statements. Where one of the questions was answered meanwhile, is held by somebody,
or goes wrong, nothing of the batch is written, and each is for its caller to deal with alone.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import time
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from django.db import connection, transaction

from checkpoints.database.rounds import RoundItem
from hitl.decisions import closing
from hitl.ledger import chain
from hitl.models import Decision
from runs import services as runs
from runs.definitions import due_times
from runs.models import Pause
from runs.services import PauseClosed
from runs.services import together as runs_together
from runs.services.together import NotTogether
from runs.workflows.sequence import APPROVE, CANCEL

logger = logging.getLogger(__name__)

MANY = 50
"""Questions that are written together: a person whose answer needs the same ledger waits for it."""
DRAFTING = 0.05
"""Seconds after which what is made so far is written on SQLite: there nobody else writes meanwhile.
"""
SILENCE = {
    APPROVE: "Nobody answered in time. The template says that silence approves; this is no vote.",
    CANCEL: "Nobody answered in time. The template says that silence cancels.",
}
TIME_OVER = "Nobody answered in time. The step that asked says how the run goes on."


def said(action: str) -> str:
    """What a decision by the rules says of itself."""
    return SILENCE.get(action, TIME_OVER)


def act(pauses: Sequence[Pause], *, now: dt.datetime) -> set[uuid.UUID]:
    """End those of these questions, `answerable`, whose deadline has passed and whose rules end
    them; gives the keys of those that were.

    Call outside a transaction.
    """
    over = [pause for pause in pauses if ends(pause, now)]
    done: set[uuid.UUID] = set()
    if len(over) < 2:
        return done
    apart = runs_together.apart(over)
    waiting = deque(pause for pause in over if pause.pk not in apart)
    while waiting:
        batch: list[Pause] = []
        named = f"a batch that begins with {waiting[0].shown_id}"
        with RoundItem(logger, named), suppress(NotTogether, PauseClosed):
            _act(waiting, batch, now)
            done |= {pause.pk for pause in batch}
    return done


def ends(pause: Pause, now: dt.datetime) -> bool:
    """Whether a question's deadline has passed and its rules end it then."""
    return (
        pause.deadline_at is not None
        and pause.deadline_at <= now  # never early
        and due_times.outcome_of(pause) != "escalate"
    )


@transaction.atomic(durable=True)
def _act(waiting: deque[Pause], batch: list[Pause], now: dt.datetime) -> None:
    """Take questions into the batch for a while, and write what their rules say."""
    ends = time.monotonic() + (DRAFTING if connection.vendor == "sqlite" else math.inf)
    decisions: list[Decision] = []
    with runs_together.gather() as gathered:
        while waiting and len(batch) < MANY and (not batch or time.monotonic() < ends):
            pause = waiting.popleft()
            batch.append(pause)
            action = due_times.outcome_of(pause)
            if action == "expire":
                runs.expire_within(pause, now=now)
            else:
                decisions.append(
                    closing.record_policy_decision(
                        pause, action=action, feedback=said(action), at=now
                    )
                )
    runs_together.write(gathered)
    chain.append_all(decisions)  # last: the ledgers' rows stay locked until the commit
