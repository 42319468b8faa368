"""Mails about accounts: what became of one, to its person; and a link for a new password.

No page waits for a mail server, and none tells by its time who has an account: asking for a new
password writes one row, whoever the address is of. Who that is, is looked up when it is sent, and
the link is made then, so that it lies nowhere.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from django.conf import settings
from django.db.models import QuerySet
from django.utils.module_loading import import_string

from checkpoints.database import clock
from checkpoints.database.clock import FromNow
from checkpoints.database.people import User
from checkpoints.models.fields import demand
from hitl.models.outbound import Channel, Delivery, DeliveryStatus, Occasion
from hitl.outbound import mail

FORGOTTEN, NOTICE = "forgotten", "notice"
"""What a row asks for (`Delivery.mark`)."""
PATIENCE = dt.timedelta(hours=1)
"""How long somebody waits for a new password: a link that comes later surprises them."""
KEPT = dt.timedelta(days=7)
BATCH = 500
DONE = (DeliveryStatus.SENT, DeliveryStatus.CANCELLED, DeliveryStatus.DEAD)


@dataclass(frozen=True)
class Letter:
    address: str
    subject: str
    text: str


class PasswordResets(Protocol):
    """Who writes mails for forgotten passwords."""

    def letters(self, address: str) -> Sequence[Letter]:
        """One for each account with this address that may have a password, with a link of its
        own.
        """


@cache
def _of(path: str) -> PasswordResets | None:
    return import_string(path)() if path else None


def ask_for_password(address: str) -> None:
    """Queue that somebody at this address wants a new password."""
    digest = hashlib.sha256(address.lower().encode()).hexdigest()
    _queue(FORGOTTEN, place=f"address:{digest[:40]}", contact=address)


def tell(person: User, subject: str, text: str) -> None:
    """Queue words for somebody, to the address of their account."""
    _queue(NOTICE, place=f"user:{person.pk}", recipient=person, words=f"{subject}\n\n{text}")


def _queue(mark: str, **fields: object) -> None:
    now = clock.now()
    Delivery.objects.create(
        occasion=Occasion.ACCOUNT,
        channel=Channel.EMAIL,
        mark=mark,
        next_at=now,
        made_at=now,
        **fields,
    )


def overtaken(delivery: Delivery, *, now: dt.datetime) -> str | None:
    """Why a mail is not sent any more; None where it is to be sent."""
    if delivery.mark == FORGOTTEN and delivery.made_at < now - PATIENCE:
        return "Whoever asked for it waits no more."
    if delivery.mark == FORGOTTEN and not _letters(delivery):
        return "No account that may have a password has this address."
    return None


def send(delivery: Delivery) -> None:
    """Raises AddressRefused, CannotReach."""
    if delivery.mark == FORGOTTEN:
        for letter in _letters(delivery):
            mail.send_text(delivery, letter.address, letter.subject, letter.text)
        return
    subject, _, text = str(demand(delivery.words)).partition("\n\n")
    mail.send_text(delivery, mail.demanded_address(delivery), subject, text)


def _letters(delivery: Delivery) -> Sequence[Letter]:
    resets = _of(settings.WAYSTATION_PASSWORD_RESETS)
    return resets.letters(str(demand(delivery.contact))) if resets is not None else ()


def old() -> QuerySet[Delivery]:
    """Mails that were sent, or given up, so long ago that nobody asks for them any more."""
    before = FromNow(-KEPT.total_seconds())
    return Delivery.objects.filter(occasion=Occasion.ACCOUNT, status__in=DONE, made_at__lt=before)


def drop_old() -> int:
    """Delete a batch of them; gives how many."""
    keys = list(old().values_list("pk", flat=True)[:BATCH])
    return Delivery.objects.filter(pk__in=keys).delete()[0]
