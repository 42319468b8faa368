"""What happens to a question that nobody answers: people are reminded, further people asked, and at the deadline its rules answer.

A sweep finds what is due by its row and lets it act, each question in a transaction of its own that begins with a compare-and-set: of
two sweeps at once, of a sweep and an answer, one writes and the other writes nothing. After an outage people are reminded once, however
many reminders were missed, and not at all where the deadline has passed too; of stages that were missed the last is reached at once.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from checkpoints import live, log
from checkpoints.models import EventKind
from hitl import policy, services
from hitl.models import Snooze
from hitl.outbound import planning
from hitl.outbound_models import Occasion
from runs import due
from runs import services as runs
from runs.models import Pause, PauseQuerySet
from runs.services import PauseClosed
from runs.workflows.sequence import APPROVE, CANCEL

logger = logging.getLogger(__name__)

BATCH = 200
"""Questions that are looked at in one go."""
AGAIN = dt.timedelta(minutes=1)
"""When a question is looked at again whose rules could not act: others are not held up by it."""
NAMED = 50
"""People that an event names."""
SILENCE = {
    APPROVE: "Nobody answered in time. The template says that silence approves; this is no vote.",
    CANCEL: "Nobody answered in time. The template says that silence cancels.",
}


def fire_due(*, now: dt.datetime, limit: int = BATCH) -> int:
    """Let the rules act of up to `limit` questions that are due, the longest due first; gives how many those were.

    Harmless when two run at once. What goes wrong with one question is logged, and it is looked at again later; the others go on.
    """
    found = list(Pause.objects.due(now=now).values_list("pk", flat=True)[:limit])
    for pause_id in found:
        try:
            fire(pause_id, now=now)
        except PauseClosed:
            _put_off(pause_id, now)  # an answer, or another sweep, came first; then this finds nothing
        except Exception:  # whatever it is, the others are not held up by it
            logger.exception("the rules of pause %s could not act; again in %s", pause_id, AGAIN)
            _put_off(pause_id, now)
    return len(found)


def _put_off(pause_id: uuid.UUID, now: dt.datetime) -> None:
    """Look at a question again in a while, where it is still due."""
    Pause.objects.due(now=now).filter(pk=pause_id).update(next_at=now + AGAIN)


def fire(pause_id: uuid.UUID, *, now: dt.datetime) -> None:
    """Let the rules of one question act, where they are due. Raises PauseClosed where somebody was faster; nothing is written then."""
    pause = Pause.objects.due(now=now).answerable().filter(pk=pause_id).first()
    if pause is None:
        return
    if pause.deadline_at is None or pause.deadline_at > now:
        _tell_what_is_due(pause, now)
        return
    match due.outcome_of(pause):
        case "escalate":
            _escalate(pause, now)
        case "approve":
            services.decide_by_policy(pause, action=APPROVE, words=SILENCE[APPROVE], at=now)
        case "cancel":
            services.decide_by_policy(pause, action=CANCEL, words=SILENCE[CANCEL], at=now)
        case _:
            runs.expire(pause, now=now)


@transaction.atomic(durable=True)
def _tell_what_is_due(pause: Pause, now: dt.datetime) -> None:
    """Reminders and stages whose time has come, before the deadline."""
    reminded, stage = due.passed(pause, now)
    _write(pause, reminded=reminded, stage=stage)
    before = set(policy.answerers(pause))
    if missed := reminded - pause.reminded:
        tell(pause, "reminded", sorted(before, key=User.get_username), **({"instead_of": missed} if missed > 1 else {}))
    if stage > pause.stage:
        _tell_further(pause, stage, before)


@transaction.atomic(durable=True)
def _escalate(pause: Pause, now: dt.datetime) -> None:
    """The deadline has passed: the next stage is asked, and gets as long from now as the first people had."""
    reminded, passed = due.passed(pause, now)
    stage = max(passed, pause.stage + 1)
    limits = due.limits(due.longer(pause, now), now)
    _write(pause, reminded=reminded, stage=stage, **limits)
    _tell_further(pause, stage, set(policy.answerers(pause)), deadline_at=limits["deadline_at"])


def _write(pause: Pause, **columns: Any) -> None:
    """Write columns where the question is still as it was read, else raise PauseClosed."""
    if not unchanged(pause).change(**columns, next_at=due.next_at({**pause.timing, **columns})):
        raise PauseClosed(f"{pause.shown_id} is not as it was a moment ago")


def unchanged(pause: Pause) -> PauseQuerySet:
    """The open question, if nothing of its times has moved since it was read."""
    return Pause.objects.open().filter(pk=pause.pk, reminded=pause.reminded, stage=pause.stage, deadline_at=pause.deadline_at)


def _tell_further(pause: Pause, stage: int, before: set[User], **more: Any) -> None:
    """Tell those who may answer from this stage on, and could not before."""
    pause.stage = stage
    asked = set(policy.answerers(pause))
    tell(pause, "escalated", sorted(asked - before or asked, key=User.get_username), **more)


def tell(pause: Pause, occasion: str, to: Sequence[User], **more: Any) -> None:
    """Tell people that a question waits for them: `reminded` or `escalated`. It comes back to the inboxes that it was hidden from.

    Call inside the transaction that made it so: what goes out besides the event is written here too.
    """
    Snooze.objects.filter(pause=pause).delete()
    told = {name: value.isoformat() if isinstance(value, dt.datetime) else value for name, value in more.items()}
    names = [person.get_username() for person in to[:NAMED]]
    event = {"what": occasion, "pause_id": pause.shown_id, "step": pause.step, "stage": pause.stage, "to": names, **told}
    log.append(pause.run.thread_id, pause.run_id, [(EventKind.PAUSE_UPDATED, event)])
    planning.plan(pause, occasion, to=to, mark=f"{pause.stage}.{pause.reminded}")
    if occasion == Occasion.REMINDED:
        planning.plan_outside(pause, occasion, mark=f"{pause.stage}.{pause.reminded}")
    live.inbox_hint_on_commit()
