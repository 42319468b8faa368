"""Service accounts and the tokens that they act by: made, renewed and switched off by operators."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Min, Q, QuerySet
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import NAME, User, called
from checkpoints.state import codec
from hitl.models import ApiToken, ServiceAccount, is_service
from hitl.models.people.tokens import SERVICE_SCOPES
from runs.workflows.refusals import FieldRefused

DAYS = 90
MOST_DAYS = 366
"""Days that a token of theirs may be valid."""
OVERLAP = dt.timedelta(days=1)
"""For how long the token in whose place another one came is still valid, unless said otherwise."""
LONGEST_OVERLAP = dt.timedelta(days=30)
MOST = 20
"""Tokens of one account that are valid at once."""


class AccountRefused(FieldRefused):
    """The account or its token cannot be made; nothing was. `field` names what is wrong."""

    code = "service_account_refused"


@transaction.atomic
def make(
    name: str, *, purpose: str, teams: Iterable[Group] = (), by: User | None = None
) -> ServiceAccount:
    """Make an account without a person; it is nobody's until it has a token. Raises
    AccountRefused.
    """
    user, purpose = checked(name, purpose=purpose)
    user.save()
    user.groups.set(teams)
    return ServiceAccount.objects.create(user=user, purpose=purpose, made_by=by)


def checked(name: str, *, purpose: str) -> tuple[User, str]:
    """The account's user, not yet saved, and its purpose as it is kept. Raises AccountRefused."""
    purpose = purpose.strip()
    if not purpose or len(purpose) > 200 or purpose != codec.readable(purpose):
        raise AccountRefused("purpose", gettext("Say in up to 200 characters what it is for."))
    if User.objects.filter(called(name)).exists():
        raise AccountRefused("name", gettext("There is an account of this name."))
    user = User(**{NAME: name})
    user.set_unusable_password()
    try:
        User._meta.get_field(NAME).clean(name, user)  # type: ignore[union-attr]
    except ValidationError as error:
        raise AccountRefused("name", " ".join(error.messages)) from error
    return user, purpose


def issue(
    account: ServiceAccount, *, name: str, scope: str, days: int = DAYS, by: User | None = None
) -> tuple[ApiToken, str]:
    """Make a token of an account, and its secret, which is shown once. Raises AccountRefused."""
    if not 1 <= days <= MOST_DAYS:
        raise AccountRefused("days", gettext("From 1 to %(days)s days.") % {"days": MOST_DAYS})
    ends = clock.now() + dt.timedelta(days=days)
    check_token(account.user, name=name, scope=scope, expires_at=ends)
    return ApiToken.make(account.user, name=name, scope=scope, expires_at=ends, made_by=by)


def check_token(user: User, *, name: str, scope: str, expires_at: dt.datetime | None) -> None:
    """Raise AccountRefused where a service account gets no such token."""
    if scope not in SERVICE_SCOPES:
        raise AccountRefused(
            "scope",
            gettext(
                "A service account asks, orders and reads: its tokens have the scope read or ask."
            ),
        )
    now = clock.now()
    if expires_at is None or not now < expires_at <= now + dt.timedelta(days=MOST_DAYS):
        raise AccountRefused("days", gettext("From 1 to %(days)s days.") % {"days": MOST_DAYS})
    if not name.strip() or len(name) > 80 or name != codec.readable(name):
        raise AccountRefused("name", gettext("A name has 1 to 80 characters."))
    if ApiToken.objects.valid(now=now).filter(user=user).count() >= MOST:
        raise AccountRefused(
            "", gettext("It has %(most)s tokens that are valid. Revoke one first.") % {"most": MOST}
        )


@transaction.atomic
def rotate(
    token: ApiToken, *, overlap: dt.timedelta = OVERLAP, by: User | None = None
) -> tuple[ApiToken, str]:
    """Make a token in place of another one of a service account: as long, as scoped. The old one
    is valid for the overlap, and not longer than it was. Raises AccountRefused.

    A token is replaced once (`hitl_apitoken.replaces_id` is unique): its successor is rotated next.
    """
    now = clock.now()
    if not is_service(token.user):
        raise AccountRefused(
            "token", gettext("This is a person's token: they make themselves a new one.")
        )
    if not dt.timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise AccountRefused(
            "overlap", gettext("From 0 to %(days)s days.") % {"days": LONGEST_OVERLAP.days}
        )
    ended = token.revoked_at is not None or (token.expires_at or now) <= now
    if ended or not token.user.is_active:
        raise AccountRefused("token", gettext("This token is not valid any more: make a new one."))
    if ApiToken.objects.filter(replaces=token).exists():
        raise AccountRefused("token", gettext("Another token came in its place already."))
    assert token.expires_at is not None  # token_of_service_asks_and_ends
    made = ApiToken.make(
        token.user,
        name=token.name,
        scope=token.scope,
        expires_at=now + (token.expires_at - token.created_at),
        made_by=by,
        replaces=token,
    )
    ApiToken.objects.filter(pk=token.pk, expires_at__gt=now + overlap).update(
        expires_at=now + overlap
    )
    return made


def switch(account: ServiceAccount, *, on: bool) -> None:
    """Refuse all tokens of an account from now on, or take those again that are valid."""
    User.objects.filter(pk=account.user_id).update(is_active=on)


def overview(*, now: dt.datetime) -> QuerySet[ServiceAccount]:
    """The accounts, each with the count of its valid tokens (`valid_tokens`) and when the first of
    these ends (`first_end`).
    """
    theirs = Q(user__api_tokens__revoked_at=None, user__api_tokens__expires_at__gt=now)
    return (
        ServiceAccount.objects.select_related("user")
        .annotate(
            valid_tokens=Count("user__api_tokens", filter=theirs),
            first_end=Min("user__api_tokens__expires_at", filter=theirs),
        )
        .order_by(f"user__{NAME}")
    )


def to_rotate(accounts: QuerySet[ServiceAccount]) -> list[ApiToken]:
    """The valid tokens of these accounts that have no successor yet."""
    valid = ApiToken.objects.valid(now=clock.now()).filter(user__in=accounts.values("user"))
    return list(valid.filter(replaced_by=None).select_related("user__service_account"))
