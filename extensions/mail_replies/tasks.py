"""Celery's part of replies: the mailbox is looked at."""

from __future__ import annotations

from celery import shared_task

from extensions.mail_replies import mailbox
from runs.rounds import Round

SECONDS = 20.0
"""How long one task reads; then the next one goes on."""


@shared_task(base=Round, ignore_result=True)
def read_mailbox() -> None:
    """Every half a minute, where there is a mailbox; it waits for a network, so it has an entry of
    its own.
    """
    mailbox.read(seconds=SECONDS)
