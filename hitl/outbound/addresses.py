"""Addresses that people give for messages, reached as `runs.security.ssrf` has it, with what
operators allow for webhooks and chat.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings

from runs.security import ssrf
from runs.security.ssrf import AddressRefused as AddressRefused
from runs.security.ssrf import CannotReach as CannotReach
from runs.security.ssrf import HttpReply as HttpReply
from runs.security.ssrf import Resolver, Target
from runs.security.ssrf import look_up as look_up
from runs.security.ssrf import parse as parse

ANSWER_BYTES = 2_000
"""What is read of an answer."""
LIBRARY_BYTES = 200_000
"""The same where a library reads the answer."""
SETTING = "WAYSTATION_OUTBOUND_ALLOW"


class TryLater(CannotReach):
    """The receiver says when to come again."""

    def __init__(self, text: str, seconds: int) -> None:
        super().__init__(text)
        self.seconds = max(0, min(seconds, ssrf.RETRY_AFTER))


def allowed_host(host: str) -> bool:
    """Whether the operators named this host as one that may be reached, wherever it is."""
    return ssrf.allowed_host(host, settings.WAYSTATION_OUTBOUND_ALLOW)


def reachable(host: str, port: int, *, resolver: Resolver | None = None) -> tuple[str, bool]:
    """The address to connect to, and whether operators named it; raises AddressRefused, CannotReach
    where there is none.
    """
    return ssrf.reachable(
        host,
        port,
        allow=settings.WAYSTATION_OUTBOUND_ALLOW,
        resolver=resolver or look_up,
        setting=SETTING,
    )


def check(url: str, *, resolver: Resolver | None = None) -> tuple[Target, str]:
    """What to connect to for a URL, and at which address; raises AddressRefused and CannotReach."""
    return ssrf.check(
        url, allow=settings.WAYSTATION_OUTBOUND_ALLOW, resolver=resolver or look_up, setting=SETTING
    )


def exchange(
    method: str,
    target: Target,
    address: str,
    headers: Mapping[str, str],
    *,
    body: bytes | None,
    seconds: float | None = None,
) -> HttpReply:
    """One request to what `check` gave, in the time that a receiver has, or in less; raises
    CannotReach.
    """
    seconds = min(seconds or 3600, settings.WAYSTATION_OUTBOUND_SECONDS)
    return ssrf.exchange(
        method, target, address, headers, body=body, seconds=seconds, limit=LIBRARY_BYTES
    )


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    seconds: float,
    resolver: Resolver | None = None,
) -> HttpReply:
    """Send a POST and give what was answered; raises AddressRefused, and CannotReach."""
    target, address = check(url, resolver=resolver)
    return ssrf.exchange(
        "POST", target, address, headers, body=body, seconds=seconds, limit=ANSWER_BYTES
    )
