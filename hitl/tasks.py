"""Celery's part of what goes out: "look what is to be told". Messages carry nothing; a lost one costs a round, a doubled one nothing."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from hitl.outbound import planning, sending
from hitl.outbound_models import Delivery
from runs.tasks import check_connection

SECONDS = 20.0
"""How long one task sends; then the next one goes on."""


@shared_task(ignore_result=True, expires=30)
def announce() -> None:
    """Plan for what was asked and answered since the last round, and have it sent. Planning is quick; sending waits for networks."""
    check_connection()
    planning.announce()
    if Delivery.objects.due(now=timezone.now()).exists():
        deliver.delay()


@shared_task(ignore_result=True, expires=30)
def deliver() -> None:
    check_connection()
    sending.deliver(seconds=SECONDS)
