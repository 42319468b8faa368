"""The broker and the mail server, which are reached for this."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.core.mail import get_connection

from hitl.operations import health
from hitl.operations.doctor.finding import Finding, fine, warning, wrong

HERE = {"localhost", "127.0.0.1", "::1", ""}
MEND = "See whether the server of REDIS_URL runs and lets us in."
MENDS = {
    health.REDIS_FULL: "Raise maxmemory, or see what else fills it: it is Waystation's alone.",
    health.REDIS_READ_ONLY: "Name its primary in REDIS_URL.",
    health.REDIS_REFUSES: "See its log: a disk that is full, replicas that lack, rights that lack.",
}
MAIL = 5
"""Seconds that the mail server may take."""


def several() -> bool:
    """Whether web, workers and beat are processes of their own."""
    return bool(getattr(settings, "REDIS_URL", ""))


def broker() -> Iterator[Finding]:
    if not several():
        yield fine("redis", "Not used: all is one process.")
        return
    (part,) = health.look_at_redis()
    if not part.ok:
        yield wrong("redis", part.words, MENDS.get(part.words, MEND))
        return
    url = settings.REDIS_URL
    with redis.Redis.from_url(
        url, socket_timeout=health.REDIS, socket_connect_timeout=health.REDIS
    ) as server:
        told: dict[str, Any] = server.info()
    policy, most = told.get("maxmemory_policy", "noeviction"), int(told.get("maxmemory", 0))
    if most and policy != "noeviction":
        yield warning(
            "redis",
            f"When it is full it drops keys ({policy}): messages are lost, and wait for a sweep.",
            "Set maxmemory-policy to noeviction, and leave the server to Waystation alone.",
        )
    parts = urlsplit(url)
    if parts.scheme == "redis" and (parts.hostname or "") not in HERE and not parts.password:
        yield warning(
            "redis",
            "It is on another host and asks for no password: who reaches it can send messages.",
            "Set a password (requirepass), or let nobody else reach its port.",
        )
    yield fine("redis", f"Redis {told.get('redis_version', '')} takes messages.")


def mail() -> Iterator[Finding]:
    backend = settings.EMAIL_BACKEND.rsplit(".", 2)[-2]
    if backend in {"filebased", "console", "dummy", "locmem"}:
        if several():
            yield warning(
                "mail",
                "Mails go to no mail server, so nobody is told by mail what waits for them.",
                "Set EMAIL_URL, such as smtp://user:password@host:587?tls=1.",
            )
        else:
            yield fine("mail", "Mails are kept as files or printed.")
        return
    if "localhost" in settings.DEFAULT_FROM_EMAIL:
        yield warning(
            "mail", "Mails come from an address at localhost, which many refuse.", "Set EMAIL_FROM."
        )
    try:
        server = get_connection(timeout=MAIL)
        server.open()
        server.close()
    except smtplib.SMTPAuthenticationError:
        yield wrong(
            "mail",
            "The mail server refuses the name or the password.",
            "Mend EMAIL_URL; signs such as @ and / in a password are written as %40 and %2F.",
        )
    except (OSError, smtplib.SMTPException):
        yield wrong(
            "mail",
            "The mail server cannot be reached, or not in this way.",
            "See host, port and ?tls=1 in EMAIL_URL. `manage.py send_test` sends one mail.",
        )
    else:
        yield fine("mail", "The mail server lets us in.")
