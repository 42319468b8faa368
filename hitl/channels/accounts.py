"""Accounts of chat services, each connected to a person of ours.

A page shows a person a code, and the person sends this code in the chat. Whoever sends the code
answers as that person from then on, so each code is short-lived and works once.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
import secrets

from django.db import transaction
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.state import codec
from hitl.models import ChatAccount, ChatCode
from runs import keyed

MINUTES = 10
"""How long a code works."""
MOST = 20
"""Accounts that one person may connect."""


class TooManyAccounts(Exception):
    """This person has connected as many accounts as one person may."""

    code = "too_many_accounts"


def person_of(service: str, team: str, account: str) -> User | None:
    """Return the person who connected an account; None where nobody did, or where that person is
    switched off.
    """
    connected = (
        ChatAccount.objects.select_related("user")
        .filter(service=service, team=team, account=account, user__is_active=True)
        .first()
    )
    return connected.user if connected is not None else None


def new_code(user: User) -> str:
    """Make a code of 80 bits, in groups; it replaces this person's earlier code."""
    text = base64.b32encode(secrets.token_bytes(10)).decode()
    with transaction.atomic(durable=True):
        ChatCode.objects.update_or_create(
            user=user,
            defaults={
                "digest": _digest(text),
                "expires_at": clock.now() + dt.timedelta(minutes=MINUTES),
            },
        )
        keyed.made(str(user.pk))
    return "-".join(text[at : at + 4] for at in range(0, 16, 4))


@transaction.atomic(durable=True)
def connect(service: str, team: str, account: str, code: str) -> User | None:
    """Use a code up and return the person to whom it was shown; None where the code does not work.

    This account answers as that person from now on, even if somebody else had connected it.

    Raises TooManyAccounts.
    """
    chat_code = ChatCode.objects.select_related("user").filter(digest=_digest(code)).first()
    if chat_code is None or not chat_code.user.is_active:
        return None
    still_valid = ChatCode.objects.filter(
        pk=chat_code.pk, digest=chat_code.digest, expires_at__gt=clock.now()
    )
    if not still_valid.delete()[0]:  # of two requests at once only one deletes the row
        return None
    if ChatAccount.objects.filter(user=chat_code.user).count() >= MOST:
        message = gettext("You have connected %(most)s accounts; remove one first.")
        raise TooManyAccounts(message % {"most": MOST})
    ChatAccount.objects.update_or_create(
        service=service, team=team, account=account, defaults={"user": chat_code.user}
    )
    return chat_code.user


def _digest(code: str) -> str:
    return codec.digest(re.sub(r"[^A-Z2-7]", "", code.upper()[:100]))
