"""Which person of ours an account of a chat service is.

People connect their own: a page shows them a code, once, and they tell it where they chat. Whoever
tells it is them from then on; so it is short-lived, and used once.
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
"""How long a code can be told."""
MOST = 20
"""Accounts of one person."""


class TooManyAccounts(Exception):
    """This person has connected as many as they may."""

    code = "too_many_accounts"


def person_of(service: str, team: str, account: str) -> User | None:
    """Whose account it is; None where nobody's, or of somebody who is switched off."""
    found = (
        ChatAccount.objects.select_related("user")
        .filter(service=service, team=team, account=account, user__is_active=True)
        .first()
    )
    return found.user if found is not None else None


def new_code(user: User) -> str:
    """A code for this person, which takes the place of the one before: 80 bits, in groups."""
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
    """Use a code up, and let this account answer as whom it was shown; None where it is none.

    An account that was somebody else's before is theirs no more.

    Raises TooManyAccounts.
    """
    kept = ChatCode.objects.select_related("user").filter(digest=_digest(code)).first()
    if kept is None or not kept.user.is_active:
        return None
    mine = ChatCode.objects.filter(pk=kept.pk, digest=kept.digest, expires_at__gt=clock.now())
    if not mine.delete()[0]:  # of two that tell it at once one gets nothing
        return None
    if ChatAccount.objects.filter(user=kept.user).count() >= MOST:
        most = gettext("You have connected %(most)s accounts; remove one first.")
        raise TooManyAccounts(most % {"most": MOST})
    ChatAccount.objects.update_or_create(
        service=service, team=team, account=account, defaults={"user": kept.user}
    )
    return kept.user


def _digest(code: str) -> str:
    return codec.digest(re.sub(r"[^A-Z2-7]", "", code.upper()[:100]))
