"""What happens to a question that nobody answers: people are reminded, further people asked, and at
the deadline its rules answer.

The deadline holds by itself, by the database's clock: past it nobody answers any more, sweep or
none. Whoever comes too late lets the rules act right then (`meet`), as the sweep would.

A sweep finds what is due by its row and lets it act. What is due of several questions is written
at once (`together` their ends, `reminding` the rest), and alone where one of them stands in the
way. Each begins with a compare-and-set: of two sweeps at once, of a sweep and an answer, one writes
and the other writes nothing. What the rules need to know is read for several questions together,
before; whatever has changed since is what the compare-and-set finds. After an outage people are
reminded once, however many reminders were missed, and not at all where the deadline has passed too;
of stages that were missed the last is reached at once.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from contextlib import suppress

from checkpoints.database import clock, locks
from checkpoints.database.rounds import RoundItem
from hitl.decisions import closing
from hitl.decisions.deadlines import reminding, together
from hitl.decisions.deadlines.reminding import People
from runs import services as runs
from runs.definitions import due_times
from runs.models import Pause, PauseQuerySet
from runs.services import PauseClosed

logger = logging.getLogger(__name__)

BATCH = 100
"""Questions that are read together: few enough to be as they were read by the time they act."""
WINDOW = 500
"""Of so many that are due longest a sweep takes some."""
AGAIN = dt.timedelta(minutes=1)
"""When a question is looked at again whose rules could not act: others are not held up by it."""
NAMED = 50
"""People that an event names."""


def fire_due(*, now: dt.datetime, limit: int = BATCH, share: float = 0.0) -> int:
    """Let the rules act of up to `limit` questions that are due; gives how many those were.

    Harmless when two run at once. What goes wrong with one question is logged, and it is looked at
    again later; the others go on.

    Args:
        share: in `[0, 1)`, where to begin among the WINDOW of those that are due longest: sweeps at
            once that begin at different places share the work instead of meeting at each question.
    """
    keys = list(Pause.objects.due(now=now).values_list("pk", flat=True)[:WINDOW])
    place = min(int(share * len(keys)), max(0, len(keys) - limit))
    mine, asked = keys[place : place + limit], People()
    pauses = list(Pause.objects.due(now=now).answerable().filter(pk__in=locks.free(Pause, mine)))
    done = together.act(pauses, now=now) | reminding.act_together(
        [pause for pause in pauses if not together.ends(pause, now)], now=now, asked=asked
    )
    for pause in pauses:
        if pause.pk in done:
            continue
        with (
            RoundItem(logger, f"{pause.shown_id}, whose rules are to act,") as row,
            suppress(PauseClosed),
        ):
            fire(pause, now=now, asked=asked)
            continue
        if row.error is not None:
            logger.warning("the rules of %s act again in %s", pause.shown_id, AGAIN)
        with RoundItem(logger, pause.shown_id):
            # where an answer, or another sweep, came first, this finds nothing
            _put_off(pause.pk, now)
    return len(mine)


def _put_off(pause_id: uuid.UUID, now: dt.datetime) -> None:
    """Look at a question again in a while, where it is still due."""
    Pause.objects.due(now=now).filter(pk=pause_id).update(next_at=now + AGAIN)


def fire(pause: Pause, *, now: dt.datetime, asked: People) -> None:
    """Let the rules of one due question, `answerable`, act.

    Raises PauseClosed where somebody was faster; nothing is written then.
    """
    if not together.ends(pause, now):
        reminding.act(pause, now=now, asked=asked)
    elif (action := due_times.outcome_of(pause)) == "expire":
        runs.expire(pause, now=now)
    else:
        closing.decide_by_policy(pause, action=action, feedback=together.said(action), at=now)


def meet(pauses: PauseQuerySet) -> str:
    """Let the rules of a question among these act, where it is open and its deadline has passed by
    the database's clock.

    Gives the outcome that they name, "" where no deadline has passed. Of this, a sweep and an
    answer in time one acts. Call outside a transaction; raises what went wrong with the rules, and
    then nothing is written.
    """
    late = (
        pauses.open()
        .filter(deadline_at__lte=clock.FromNow())
        .values_list("pk", clock.FromNow())
        .first()
    )
    if late is None:
        return ""
    pause = Pause.objects.answerable().get(pk=late[0])
    outcome = due_times.outcome_of(pause)
    # somebody else was faster, or its run does not wait: the caller looks again
    with suppress(PauseClosed):
        fire(pause, now=late[1], asked=People())
    return outcome
