"""Celery's part of what people's answers need: "look at what is due".

A lost message costs a sweep, a doubled one nothing.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator
from typing import Any

from celery import shared_task
from django.conf import settings
from django.db.models import QuerySet

from checkpoints.database import clock, locks
from checkpoints.database.rounds import RoundItem
from hitl.decisions import notifications, presence
from hitl.decisions.deadlines import outcomes
from hitl.ledger import anchors
from hitl.models import idempotency
from hitl.models.outbound import Delivery
from hitl.outbound import accounts, order_ends, sending
from hitl.wait_gate import early_answers
from runs.engine.workers.shutdown import stopping
from runs.models import Pause, Run, uploads
from runs.rounds import Round

logger = logging.getLogger(__name__)

SECONDS = 20.0
"""How long one task sends; then the next one goes on."""
_dice = random.SystemRandom()


def _deadlines() -> Iterator[QuerySet[Any]]:
    yield Pause.objects.due(now=clock.FromNow())


@shared_task(base=Round, ignore_result=True, due=staticmethod(_deadlines))
def fire_deadlines() -> None:
    """Let the rules act of all questions that are due, batch after batch.

    Where more is due than that, it goes on past the beginning of the next sweep, which shares the
    rest: so nothing waits for a tick, and there are two at most.
    """
    ends = time.monotonic() + 2 * settings.WAYSTATION_SWEEP_SECONDS
    with locks.impatient():
        while _fired() and time.monotonic() < ends and not stopping():
            pass


def _fired() -> bool:
    """Whether there was a whole batch to do."""
    return outcomes.fire_due(now=clock.read(), share=_dice.random()) == outcomes.BATCH


@shared_task(base=Round, ignore_result=True)
def anchor_ledgers() -> None:
    """Every few minutes, so that a day gets its anchors though a server was away at midnight."""
    with locks.impatient():
        anchors.drop_due(now=clock.read())


@shared_task(base=Round, ignore_result=True, due=staticmethod(early_answers.due))
def take_early_answers() -> None:
    """Give the questions that have opened what was answered before they were there."""
    with locks.impatient():
        early_answers.sweep(now=clock.read())


def _news() -> Iterator[QuerySet[Any]]:
    """What `announce` has to do, and what it has sent."""
    yield Pause.objects.untold()
    yield Run.objects.ends_untold()
    yield presence.old(now=clock.FromNow())
    yield idempotency.old()
    yield Delivery.objects.due(now=clock.FromNow())
    yield accounts.old()
    yield uploads.old()


@shared_task(base=Round, ignore_result=True, due=staticmethod(_news))
def announce() -> None:
    """Plan for what was asked and answered since the last round, and have it sent.

    Planning is quick; sending waits for networks.
    """
    with locks.impatient():
        notifications.announce()
        with RoundItem(logger, "order ends"):
            order_ends.announce()
        with RoundItem(logger, "presence"):
            presence.drop_old(now=clock.read())
        with RoundItem(logger, "keys"):
            idempotency.drop_old()
        with RoundItem(logger, "account mails"):
            accounts.drop_old()
        with RoundItem(logger, "uploads"):
            uploads.drop_old()
    if Delivery.objects.due(now=clock.now()).exists():
        deliver.delay()


@shared_task(base=Round, ignore_result=True)
def deliver() -> None:
    sending.deliver(seconds=SECONDS)
