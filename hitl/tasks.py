"""Celery's part of what people's answers need: times at which something is looked at."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from hitl import anchors


@shared_task(ignore_result=True, expires=120)
def anchor_ledgers() -> None:
    """Every few minutes, so that a day gets its anchors though a server was away at midnight."""
    anchors.drop_due(now=timezone.now())
