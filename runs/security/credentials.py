"""Secrets by name for a run: a team's own row, else one of all teams, else an environment variable
that operators allow.

`resolve` is the only reader of values. What it gives is scrubbed from whatever the run writes from
then on (`runs.engine.context.secret_filter`).
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, Group
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.models.fields import demand
from checkpoints.state import encryption
from runs.models import Credential
from runs.models.credentials import NAME
from runs.security import allowed_hosts
from runs.workflows.base import StepFailed
from runs.workflows.refusals import FieldRefused, in_json

SHORTEST, LONGEST = 8, 32_000
"""Characters of a value. What is shorter could not be scrubbed from texts without spoiling them."""
USED = dt.timedelta(minutes=1)
"""How exactly the last use is noted."""


class CredentialInvalid(FieldRefused):
    """A credential cannot be kept as it is given.

    `field` names what is wrong; the message never repeats a value.
    """

    code = "credential_invalid"


def put(
    name: str,
    value: str,
    *,
    team: Group | None = None,
    note: str | None = None,
    sent_to: Sequence[str] | None = None,
    by: AbstractBaseUser | None = None,
) -> Credential:
    """Keep a secret under a name, over the one that was there; raises CredentialInvalid.

    Args:
        value: without the line end that shells and editors add.
        note: None keeps what was there.
        sent_to: the hosts that it may be sent to, see `allowed_hosts.parse`; empty for any, None
            keeps what was there.
    """
    value = value.rstrip("\r\n")
    _check(name, value, note or "")
    given = {"note": note, "hosts": None if sent_to is None else check_hosts(sent_to)}
    settled: dict[str, Any] = {field: new for field, new in given.items() if new is not None}
    changes: dict[str, Any] = {"value": value, "rotated_at": clock.now(), **settled}
    try:
        with transaction.atomic():
            credential = Credential.objects.filter(name=name, team=team).first()
            if credential is None:
                return Credential.objects.create(
                    name=name,
                    team=team,
                    value=value,
                    created_by_id=by.pk if by else None,
                    **settled,
                )
            for field, new in changes.items():
                setattr(credential, field, new)
            credential.save(update_fields=list(changes))
            return credential
    except IntegrityError as error:  # credential_once_per_team, credential_once_for_all
        raise CredentialInvalid(
            "name",
            gettext("Somebody made a credential of this name at the same moment; try again."),
        ) from error


def check_hosts(sent_to: Sequence[str]) -> list[str]:
    """The hosts as they are kept; raises CredentialInvalid."""
    try:
        return allowed_hosts.parse(sent_to)
    except allowed_hosts.HostInvalid as error:
        raise CredentialInvalid("hosts", str(error)) from None


def check_value(value: str) -> None:
    """Raise CredentialInvalid where a value cannot be kept."""
    if not SHORTEST <= len(value) <= LONGEST or "\0" in value or not value.strip():
        raise CredentialInvalid(
            "value",
            gettext("A value has %(shortest)s to %(longest)s characters, and no NUL.")
            % {"shortest": SHORTEST, "longest": f"{LONGEST:,}"},
        )
    if encryption.newest() is None:
        raise CredentialInvalid(
            "value",
            gettext(
                "Credentials are kept encrypted only: set WAYSTATION_ENCRYPTION_KEYS (`manage.py "
                "rotate_keys --new` makes a key) first. Or name an environment variable in "
                "WAYSTATION_CREDENTIALS_FROM_ENV."
            ),
        )


def _check(name: str, value: str, note: str) -> None:
    try:
        NAME(name)
    except ValidationError as error:
        raise CredentialInvalid("name", error.messages[0]) from None
    if len(name) > 80 or len(note) > 200:
        raise CredentialInvalid(
            "name" if len(name) > 80 else "note",
            gettext("A name has up to 80 characters, a note up to 200."),
        )
    check_value(value)


def names(teams: Iterable[int]) -> set[str]:
    """Names of the rows that runs of these teams, or of all teams, may use."""
    return set(
        Credential.objects.filter(Q(team__isnull=True) | Q(team__in=teams)).values_list(
            "name", flat=True
        )
    )


def resolve(name: str, *, team_id: int | None, to: str = "") -> str:
    """The secret of that name for a run of this team; raises StepFailed (`credential_missing`,
    `credential_host`, `credential_locked`).

    Args:
        to: the address that it is going to be sent to; "" where nobody knows, as with a program
            that gets it.
    """
    mine = Q(team__isnull=True) if team_id is None else Q(team__isnull=True) | Q(team=team_id)
    row = (
        Credential.objects.filter(mine, name=name).order_by(F("team").asc(nulls_last=True)).first()
    )
    if row is not None:
        _check_sent_to(row, to)
        _note_use(row)
        return _opened(row)
    value = (
        os.environ.get(name, "").strip() if name in settings.WAYSTATION_CREDENTIALS_FROM_ENV else ""
    )
    if len(value) < SHORTEST:
        raise StepFailed(
            f"There is no credential {in_json(name, 80)} that this run may use. An operator keeps "
            "one in the admin or with `manage.py credential set`, or names an environment "
            "variable in WAYSTATION_CREDENTIALS_FROM_ENV.",
            code="credential_missing",
        )
    return value


def _check_sent_to(row: Credential, to: str) -> None:
    """Raise StepFailed where a credential that is bound to hosts would go elsewhere, or
    anywhere.
    """
    if not row.hosts or allowed_hosts.covers(row.hosts, to):
        return
    bound = f"The credential {in_json(row.name)} may be sent to {', '.join(row.hosts)} only"
    if to:
        there = allowed_hosts.shown(to) or "this address"
        message = (
            f"{bound}, not to {there}, so it was not sent. Put the address right, or let an "
            "operator add the host."
        )
    else:
        message = (
            f"{bound}, and what asks for it here, such as a program, could send it anywhere. "
            "Name another one that is bound to no host."
        )
    raise StepFailed(message, code="credential_host")


def _opened(row: Credential) -> str:
    try:
        return str(demand(row.value))
    except (encryption.KeyMissing, encryption.SealBroken) as error:
        raise StepFailed(
            f"The credential {in_json(row.name)} cannot be opened: {error}",
            code="credential_locked",
        ) from None


def _note_use(row: Credential) -> None:
    now = clock.now()
    if row.used_at is None or row.used_at < now - USED:
        Credential.objects.filter(pk=row.pk).update(used_at=now)
