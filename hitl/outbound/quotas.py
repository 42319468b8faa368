"""Who may have mail sent to whom in the company's name, and how much of it.

Whoever asks may name people of this system. Mail addresses beyond it take the right
`hitl.mail_outside`, or a domain that the operators named (WAYSTATION_OUTSIDE_DOMAINS). Whom
templates name, and whom steps look up, was chosen by who may edit those. What one person has sent
to people of their choice is counted on its rows, per hour and per day.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from django.conf import settings

from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.models.outbound import Delivery

RIGHT = "hitl.mail_outside"
CHOSEN = "request"
"""Marks what goes to people that somebody named for this one question."""


class OutsideNotAllowed(Exception):
    """This person may not have mail sent to that address; nothing was sent."""

    code = "outside_not_allowed"


class QuotaUsed(Exception):
    """This person has had as much sent as they may for now; nothing was sent.

    `retry_after` is in seconds.
    """

    code = "message_quota"

    def __init__(self, text: str, retry_after: int) -> None:
        super().__init__(text)
        self.retry_after = retry_after


def check(by: User, recipients: Sequence[str]) -> None:
    """Raise OutsideNotAllowed or QuotaUsed where this person may not have messages sent to all of
    these now.
    """
    for recipient in recipients:
        address = recipient.removeprefix("mailto:")
        if "@" in address and not may_write_to(by, address):
            raise OutsideNotAllowed(
                "Mail to addresses outside this system takes the right “Can have mail sent to "
                "any address”, or a domain that the operators "
                "allow. Nothing was done; name people by their usernames, or ask an operator."
            )
    _check_quota(by, len(recipients))


def may_write_to(by: User, address: str) -> bool:
    domain = address.rpartition("@")[2].lower()
    allowed = any(
        domain == one or (one.startswith("*.") and domain.endswith(one[1:]))
        for one in settings.WAYSTATION_OUTSIDE_DOMAINS
    )
    return allowed or by.has_perm(RIGHT)


def _check_quota(by: User, wanted: int) -> None:
    now = clock.now()
    mine = Delivery.objects.filter(pause__run__thread__owner=by, mark=CHOSEN)
    for name, most, span in (
        ("an hour", settings.WAYSTATION_MESSAGES_PER_HOUR, dt.timedelta(hours=1)),
        ("a day", settings.WAYSTATION_MESSAGES_PER_DAY, dt.timedelta(days=1)),
    ):
        if not wanted or mine.filter(made_at__gt=now - span).count() + wanted <= most:
            continue
        first = (
            mine.filter(made_at__gt=now - span)
            .order_by("made_at")
            .values_list("made_at", flat=True)
            .first()
        )
        wait = int(((first or now) + span - now).total_seconds()) + 1
        raise QuotaUsed(
            (
                f"You may have {most} messages sent in {name} to people of your choice. Nothing "
                "was done; try again later."
            ),
            wait,
        )
