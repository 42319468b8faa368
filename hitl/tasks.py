"""Celery's part of what people's answers need: "look at what is due".

A lost message costs a sweep, a doubled one nothing.
"""

from __future__ import annotations

import logging
import random
import time

from celery import shared_task
from django.conf import settings

from checkpoints.database import clock, locks
from checkpoints.database.rounds import RoundItem
from hitl.decisions import notifications, presence
from hitl.decisions.deadlines import outcomes
from hitl.ledger import anchors
from hitl.models import idempotency
from hitl.models.outbound import Delivery
from hitl.outbound import sending
from hitl.wait_gate import early_answers
from runs.engine.workers.shutdown import stopping
from runs.rounds import Round

logger = logging.getLogger(__name__)

SECONDS = 20.0
"""How long one task sends; then the next one goes on."""
_dice = random.SystemRandom()


@shared_task(base=Round, ignore_result=True)
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


@shared_task(base=Round, ignore_result=True)
def take_early_answers() -> None:
    """Give the questions that have opened what was answered before they were there."""
    with locks.impatient():
        early_answers.sweep(now=clock.read())


@shared_task(base=Round, ignore_result=True)
def announce() -> None:
    """Plan for what was asked and answered since the last round, and have it sent.

    Planning is quick; sending waits for networks.
    """
    with locks.impatient():
        notifications.announce()
        for name, drop in (("presence", presence.drop_old), ("keys", idempotency.drop_old)):
            with RoundItem(logger, name):
                drop(now=clock.read())
    if Delivery.objects.due(now=clock.now()).exists():
        deliver.delay()


@shared_task(base=Round, ignore_result=True)
def deliver() -> None:
    sending.deliver(seconds=SECONDS)
