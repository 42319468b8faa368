"""Second factors of the tests: an authenticator app, whose clock the test turns."""

from __future__ import annotations

from typing import Any

from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth
from django.contrib.auth.models import User
from django.core.cache import cache

SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


def enrol(user: User) -> None:
    """Give somebody an authenticator app and recovery codes."""
    auth.TOTP.activate(user, SECRET)
    RecoveryCodes.activate(user)


def code(secret: str = SECRET) -> str:
    """What the app shows now; one that was used before counts again."""
    cache.clear()
    counters = list(auth.yield_hotp_counters_from_time())
    counter = counters[len(counters) // 2]
    return auth.format_hotp_value(auth.hotp_value(secret, counter))


def recovery_codes(user: User) -> list[str]:
    return list(RecoveryCodes.activate(user).get_unused_codes())


def log_in(client: Any, user: User, *, second: bool = True) -> Any:
    """By the pages, with the password of `tests.worlds.people`."""
    name = user.username
    response = client.post("/login", {"username": name, "password": f"{name}'s long password"})
    return client.post("/login/factor", {"code": code()}) if second else response
