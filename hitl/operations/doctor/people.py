"""Who can log in, and prove that it is them: the provider, the accounts for the day it is away, and
second factors.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from checkpoints.text import extras
from hitl.identity import closed, factors
from hitl.identity.saml import MetadataUnfit, PairUnfit, fetched, own_pair
from hitl.identity.saml import provider as described
from hitl.operations.doctor.finding import Finding, fine, warning, wrong

PROVIDER = 5
"""Seconds that the provider may take."""
CERTIFICATE = dt.timedelta(days=21)
"""How long its last certificate should be good for."""
PAIRS = 20
"""Pairs of accounts that are listed."""
LOOKED_AT = 500
"""People whose second factors are looked at."""


def provider() -> Iterator[Finding]:
    """The OpenID Connect provider is reached, as a login would."""
    issuer = settings.WAYSTATION_OIDC_ISSUER
    if not issuer:
        return
    try:
        told = _discovered(issuer)
    except (OSError, ValueError):
        yield wrong(
            "single sign-on",
            "The provider's description cannot be read, so nobody logs in by it.",
            "See WAYSTATION_OIDC_ISSUER: under it lies .well-known/openid-configuration; and "
            "whether this host may reach it.",
        )
        return
    if str(told.get("issuer", "")).rstrip("/") != issuer:
        yield wrong(
            "single sign-on",
            "The provider calls itself by another name, so its logins are refused.",
            "Set WAYSTATION_OIDC_ISSUER to the `issuer` of its description, letter by letter.",
        )
    else:
        yield fine("single sign-on", "The provider answers.")


def saml() -> Iterator[Finding]:
    """The SAML provider can be used: its library, and metadata whose certificates last."""
    issuer, now = settings.WAYSTATION_SAML_ISSUER, clock.now()
    if not issuer:
        return
    if find_spec("onelogin") is None:
        yield wrong(
            "SAML",
            "The library python3-saml is not installed, so nobody logs in by it.",
            f"{extras.install('saml')}, then restart the web servers.",
        )
    yield from _own_pair(now)
    try:
        found = described(settings.WAYSTATION_SAML_METADATA, issuer, now=now, seconds=PROVIDER)
    except (OSError, MetadataUnfit) as error:
        why = f" {error}" if isinstance(error, MetadataUnfit) else ""
        yield wrong(
            "SAML",
            f"The provider's metadata cannot be used, so nobody logs in by it.{why}",
            "See WAYSTATION_SAML_METADATA, a path or an address that this host may reach, and "
            "WAYSTATION_SAML_ISSUER, the entityID in it.",
        )
        return
    if found.ends_at() < now + CERTIFICATE:
        yield warning(
            "SAML",
            f"The last certificate in the provider's metadata ends {found.ends_at():%Y-%m-%d}.",
            "See that the provider has a new one, and that its metadata here names it.",
        )
    else:
        yield fine("SAML", "The provider's metadata can be used.")


def _own_pair(now: dt.datetime) -> Iterator[Finding]:
    """The key and certificate by which the SAML provider knows us, where they are set."""
    paths = settings.WAYSTATION_SAML_KEY, settings.WAYSTATION_SAML_CERTIFICATE
    if not all(paths):
        return
    try:
        pair = own_pair(*paths)
    except PairUnfit as error:
        yield wrong(
            "SAML",
            f"Nobody logs in by it. {error}",
            "Both are PEM files that web servers may read, the key one of RSA without a password.",
        )
        return
    if pair.ends_at < now + CERTIFICATE:
        yield warning(
            "SAML",
            f"Our own certificate ends {pair.ends_at:%Y-%m-%d}.",
            "Make a new one (docs/how-to/saml.md), and give our metadata to the provider again.",
        )


def _discovered(issuer: str) -> dict[str, Any]:
    """Raises OSError, and ValueError where it is no description."""
    address = f"{issuer}/.well-known/openid-configuration"
    if not address.startswith(("https://", "http://")):
        raise ValueError("no web address")
    told = json.loads(fetched(address, most=1_000_000, seconds=PROVIDER))
    if not isinstance(told, dict):
        raise ValueError("no description")
    return told


def accounts() -> Iterator[Finding]:
    """Somebody can administer, also on the day on which the provider is away."""
    active: QuerySet[Any] = User.objects.filter(is_active=True)
    if not active.filter(is_superuser=True).exists():
        yield warning(
            "accounts",
            "There is no active superuser: nobody can give rights.",
            "Make one: manage.py createsuperuser.",
        )
    if settings.WAYSTATION_PASSWORDS != "break-glass":
        return
    named = active.filter(**{f"{NAME}__in": settings.WAYSTATION_BREAK_GLASS})
    able = [person for person in named if person.has_usable_password()]
    missing = set(settings.WAYSTATION_BREAK_GLASS) - {person.get_username() for person in able}
    if not able:
        yield wrong(
            "accounts",
            "Passwords are for accounts of WAYSTATION_BREAK_GLASS alone, and none of them can log "
            "in: when the provider is away, nobody gets in.",
            "Name an active account there, and give it a password: manage.py changepassword.",
        )
    elif missing:
        yield warning(
            "accounts",
            f"Of WAYSTATION_BREAK_GLASS these cannot log in: {', '.join(sorted(missing))}.",
            "Make them active and give them a password, or take them out.",
        )


def switched_off() -> Iterator[Finding]:
    """Nobody whose account is switched off has another one that is active."""
    off: dict[str, list[str]] = defaultdict(list)
    for user, names in closed.people(active=False):
        for name in names:
            off[name].append(user.get_username())
    pairs = [
        (same, user.get_username())
        for user, names in (closed.people(active=True) if off else ())
        for same in sorted({same for name in names for same in off.get(name, ())})
    ]
    if pairs:
        listed = ", ".join(f"{same} and {active}" for same, active in pairs[:PAIRS])
        more = f", and {len(pairs) - PAIRS} more" if len(pairs) > PAIRS else ""
        yield warning(
            "accounts",
            f"Of these two that share a name or a mail address one is off, one active: "
            f"{listed}{more}.",
            "Where both are one person's, switch off the other as well; else give the one that is "
            "off another name and address (docs/how-to/single-sign-on.md).",
        )


def second_factors() -> Iterator[Finding]:
    """Whoever must prove a second factor has one."""
    ways = factors.chosen()
    if ways is None or settings.WAYSTATION_STEP_UP == "off":
        return
    people = list(User.objects.filter(is_active=True).order_by("-is_superuser", "pk")[:LOOKED_AT])
    without = [person for person in people if not ways.has_one(person)]
    if settings.WAYSTATION_STEP_UP == "everyone" and without:
        yield warning(
            "second factors",
            f"{len(without)} of {len(people)} active people have none, and cannot answer a "
            "question of high risk.",
            "Ask them to set one up under their name, Second factors; or set WAYSTATION_STEP_UP to "
            "enrolled.",
        )
    elif people:
        yield fine(
            "second factors", f"{len(people) - len(without)} of {len(people)} active people."
        )
