"""Celery's part in people's business: look again at what is due. Harmless when two run at once."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from hitl import early


@shared_task(ignore_result=True, expires=30)
def take_early_answers() -> None:
    early.sweep(now=timezone.now())
