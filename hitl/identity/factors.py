"""Second factors: which one a session has proven, and when.

How a factor is proven is the project's (`WAYSTATION_SECOND_FACTORS`): the shipped one uses allauth
(`project.identity.second_factors`). What was proven is noted in the session with the database's
time; `hitl.decisions.step_up` asks for it at the moment of an answer. It is known there by a
context variable, as the scope of the token that acts is: a door that forgets it has proven nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from django.conf import settings
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy

from checkpoints.database import clock
from checkpoints.database.people import User
from runs.security import scopes

NOTE = "second_factor"
"""The key of a session."""


@dataclass(frozen=True)
class Factor:
    """A second factor that somebody proved."""

    kind: str
    """`totp`, `webauthn`, `recovery_codes`, or what a project calls its own."""
    at: dt.datetime


NAMES = {
    "totp": gettext_lazy("authenticator app"),
    "webauthn": gettext_lazy("passkey"),
    "recovery_codes": gettext_lazy("recovery code"),
}
"""What people call them."""


class SecondFactors(Protocol):
    """How people prove that it is them."""

    def has_one(self, user: User) -> bool:
        """Whether somebody has set a second factor up."""

    def challenge(self, request: HttpRequest) -> Mapping[str, Any] | None:
        """What the browser gives to a passkey; None where the person has none."""

    def prove(self, request: HttpRequest) -> str:
        """Take what was posted as `factor_code` or `factor_credential`, and `note` it; give why it
        does not count, "" where it does.
        """


@cache
def _of(path: str) -> SecondFactors | None:
    return import_string(path)() if path else None


def chosen() -> SecondFactors | None:
    """Those of the project; None where it has none."""
    return _of(settings.WAYSTATION_SECOND_FACTORS)


def note(request: HttpRequest, user: User, kind: str) -> None:
    """Keep in the session that this person has just proven a factor."""
    at = clock.now().isoformat()
    request.session[NOTE] = {"user": str(user.pk), "kind": kind, "at": at}


_request: ContextVar[HttpRequest | None] = ContextVar("request", default=None)


@contextmanager
def before(request: HttpRequest) -> Iterator[None]:
    """What is decided meanwhile is decided by who sent this request."""
    token = _request.set(request)
    try:
        yield
    finally:
        _request.reset(token)


def latest(by: User) -> Factor | None:
    """The factor that this person proved last in the session at hand; None where there is none, and
    where a token acts.
    """
    request = _request.get()
    if request is None or scopes.acting_token() is not None:
        return None
    given = getattr(request, "session", {}).get(NOTE)
    if not isinstance(given, dict) or given.get("user") != str(by.pk):
        return None
    at = parse_datetime(str(given.get("at")))
    return Factor(str(given.get("kind"))[:16], at) if at is not None else None
