"""What happens to a question that nobody answers: people are reminded, further people asked, and at
the deadline its rules answer.

The deadline holds by itself, by the database's clock: past it nobody answers any more, sweep or
none. Whoever comes too late lets the rules act right then (`meet`), as the sweep would.

A sweep finds what is due by its row and lets it act. Each reminder and each escalation has a
transaction of its own; the ends of several questions are written at once (`together`), and each
alone where one of them stands in the way. Each begins with a compare-and-set: of two sweeps at
once, of a sweep and an answer, one writes and the other writes nothing. What the rules need to know
is read for several questions together, before; whatever has changed since is what the
compare-and-set finds. After an outage people are reminded once, however many reminders were missed,
and not at all where the deadline has passed too; of stages that were missed the last is reached at
once.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any

from django.db import transaction
from django.utils.translation import gettext

from checkpoints.database import clock, locks
from checkpoints.database.people import NAME, User
from checkpoints.database.rounds import RoundItem
from checkpoints.events import log
from checkpoints.models import EventKind
from checkpoints.state import codec
from hitl.decisions import closing, notifications
from hitl.decisions.deadlines import together
from hitl.decisions.reviewers import policy
from hitl.models import Snooze
from hitl.models.outbound import Occasion
from runs import hints
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
    done = together.act(pauses, now=now)
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


class People:
    """Who may answer, and where they are told of what: looked up once for all questions of a batch
    for which that is the same.
    """

    def __init__(self) -> None:
        self._answerers: dict[Hashable, set[User]] = {}
        self._places: dict[Hashable, list[dict[str, Any]]] = {}

    def answerers(self, pause: Pause) -> set[User]:
        """As `policy.answerers`.

        Nobody has voted on most questions; on one with votes who voted is left out, so it is by
        itself.
        """
        thread = pause.run.thread
        barred = (
            frozenset()
            if pause.review.get("self_approval", True)
            else frozenset(policy.askers(pause))
        )
        key = (
            codec.encode(policy.named(pause)),
            thread.owner_id,
            thread.team_id,
            barred,
            pause.pk if pause.approvals else None,
        )
        if key not in self._answerers:
            self._answerers[key] = set(policy.answerers(pause))
        return self._answerers[key]

    def places(self, occasion: str, people: Sequence[User]) -> list[dict[str, Any]]:
        """As `planning.places`."""
        key = (occasion, tuple(person.pk for person in people))
        if key not in self._places:
            self._places[key] = notifications.places(occasion, people)
        return self._places[key]


def fire(pause: Pause, *, now: dt.datetime, asked: People) -> None:
    """Let the rules of one due question, `answerable`, act.

    Raises PauseClosed where somebody was faster; nothing is written then.
    """
    if pause.deadline_at is None or pause.deadline_at > now:
        _tell_what_is_due(pause, now, asked)
        return
    match due_times.outcome_of(pause):
        case "escalate":
            _escalate(pause, now, asked)
        case "expire":
            runs.expire(pause, now=now)
        case action:
            closing.by_policy(pause, action=action, feedback=together.said(action), at=now)


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


@transaction.atomic(durable=True)
def _tell_what_is_due(pause: Pause, now: dt.datetime, asked: People) -> None:
    """Reminders and stages whose time has come, before the deadline."""
    reminded, stage = due_times.passed(pause, now)
    _write(pause, reminded=reminded, stage=stage)
    before = asked.answerers(pause)
    if missed := reminded - pause.reminded:
        more = {"instead_of": missed} if missed > 1 else {}
        tell(pause, "reminded", sorted(before, key=User.get_username), asked, **more)
    if stage > pause.stage:
        _tell_further(pause, stage, before, asked)


@transaction.atomic(durable=True)
def _escalate(pause: Pause, now: dt.datetime, asked: People) -> None:
    """The deadline has passed: the next stage is asked, and gets as long from now as the first
    people had.
    """
    reminded, passed = due_times.passed(pause, now)
    stage = max(passed, pause.stage + 1)
    limits = due_times.limits(due_times.longer(pause, now), now)
    assert limits["deadline_at"] is not None
    later = due_times.moved(
        pause, limits["deadline_at"], extendable_until=limits["extendable_until"]
    )
    _write(pause, reminded=reminded, stage=stage, **later)
    _tell_further(pause, stage, asked.answerers(pause), asked, deadline_at=later["deadline_at"])


def _write(pause: Pause, **columns: Any) -> None:
    """Write columns where the question is still as it was read, else raise PauseClosed."""
    if not unchanged(pause).change(
        **columns, next_at=due_times.next_at({**pause.timing, **columns})
    ):
        raise PauseClosed(
            gettext("%(shown_id)s is not as it was a moment ago") % {"shown_id": pause.shown_id}
        )


def unchanged(pause: Pause) -> PauseQuerySet:
    """The open question, if nothing of its times has moved since it was read."""
    return Pause.objects.open().filter(
        pk=pause.pk,
        reminded=pause.reminded,
        stage=pause.stage,
        deadline_at=pause.deadline_at,
        turn=pause.turn,
    )


def _tell_further(pause: Pause, stage: int, before: set[User], asked: People, **more: Any) -> None:
    """Tell those who may answer from this stage on, and could not before."""
    pause.stage = stage
    now_asked = asked.answerers(pause)
    tell(
        pause,
        "escalated",
        sorted(now_asked - before or now_asked, key=User.get_username),
        asked,
        **more,
    )


def _named(pause: Pause, occasion: str, to: Sequence[User]) -> list[str]:
    """Who is told, as whoever sees the log may know it: those who take part by name, all others as
    the rules have them. Whom a group has in
    it, and whether there is somebody of a name, the log does not say."""
    if policy.open_to_all(pause) and not pause.stage:
        return [person.get_username() for person in to]
    *earlier, latest = [
        [*actors.get("users", []), *(f"the group {name}" for name in actors.get("groups", []))]
        for actors in policy.named(pause)
    ]
    before = {name for names in earlier for name in names}
    if occasion == Occasion.ESCALATED:
        return sorted(set(latest) - before or latest)
    voted = set(pause.votes.values_list(f"voter__{NAME}", flat=True)) if pause.approvals else set()
    return sorted({*before, *latest} - voted)


def tell(pause: Pause, occasion: str, to: Sequence[User], asked: People, **more: Any) -> None:
    """Tell people that a question waits for them: `reminded` or `escalated`.

    It comes back to the inboxes that it was hidden from.

    Call inside the transaction that made it so: what goes out besides the event is written here
    too.
    """
    Snooze.objects.filter(pause=pause).delete()
    details = {
        name: value.isoformat() if isinstance(value, dt.datetime) else value
        for name, value in more.items()
    }
    names = _named(pause, occasion, to)[:NAMED]
    event = {
        "what": occasion,
        "pause_id": pause.shown_id,
        "step": pause.step,
        "stage": pause.stage,
        "to": names,
        **details,
    }
    log.append(pause.run.thread_id, pause.run_id, [(EventKind.PAUSE_UPDATED, event)])
    mark = f"{pause.stage}.{pause.reminded}"
    notifications.plan_at(pause, occasion, asked.places(occasion, to), mark=mark)
    if occasion == Occasion.REMINDED:
        notifications.plan_outside(pause, occasion, mark=mark)
    hints.pauses_changed_on_commit()
