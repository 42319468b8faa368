"""What the settings alone tell, and Django's own checks of a deployment."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import ERROR, run_checks
from django.core.checks.registry import registry
from django.http.request import validate_host

from hitl.channels.registry import channels as known_channels
from hitl.operations.doctor.finding import Finding, fine, warning, wrong
from hitl.operations.doctor.network import HERE, several

OURS = {
    *(f"security.{code}" for code in ("W004", "W008", "W009", "W012", "W016", "W018", "W020")),
    "axes.W001",
}
"""Checks of Django's that are told here in words of ours, or do not concern us."""


def _outside() -> bool:
    """Whether people reach this server from other machines."""
    return several() or any(
        host not in {"localhost", "127.0.0.1", "[::1]"} for host in settings.ALLOWED_HOSTS
    )


def debug() -> Iterator[Finding]:
    if settings.DEBUG:
        yield (wrong if _outside() else warning)(
            "debug",
            "DEBUG is on: error pages show settings and data, and every statement is kept.",
            "Leave DEBUG out of the environment.",
        )


def hosts() -> Iterator[Finding]:
    if "*" in settings.ALLOWED_HOSTS:
        yield warning(
            "hosts",
            "ALLOWED_HOSTS has *: whoever names this server as they like is believed.",
            "Name its hosts.",
        )
    url = urlsplit(settings.WAYSTATION_URL)
    host = url.hostname or ""
    if several() and host in HERE:
        yield warning(
            "hosts",
            "WAYSTATION_URL is this machine: links in mails and messages lead nowhere elsewhere.",
            "Set WAYSTATION_URL to the address that people use.",
        )
    elif not validate_host(host, settings.ALLOWED_HOSTS):
        yield wrong(
            "hosts",
            f"Links in mails name {host}, which ALLOWED_HOSTS does not: they are answered 400.",
            "Add it to ALLOWED_HOSTS, or mend WAYSTATION_URL.",
        )
    else:
        yield fine("hosts", f"Links lead to {host}.")


def tls() -> Iterator[Finding]:
    https = bool(settings.SESSION_COOKIE_SECURE)
    if not https and _outside():
        yield warning(
            "tls",
            "HTTPS is off: passwords, cookies and tokens can be read on their way.",
            "Put TLS in front, and set HTTPS=1.",
        )
    if https and settings.WAYSTATION_URL.startswith("http:"):
        yield wrong(
            "tls", "HTTPS is on, and WAYSTATION_URL begins with http:.", "Let it begin with https:."
        )
    if https and not settings.NUM_PROXIES:
        yield warning(
            "tls",
            "HTTPS is on and NUM_PROXIES is 0: behind a proxy everybody is one address, so one "
            "person's wrong passwords keep all others out.",
            "Set NUM_PROXIES to the number of proxies in front of the server.",
        )


def secrets() -> Iterator[Finding]:
    key = settings.SECRET_KEY
    if len(key) < 50 or len(set(key)) < 5 or key.startswith("django-insecure"):
        yield wrong(
            "secret key",
            "SECRET_KEY is short or guessable: whoever guesses it logs in as anybody.",
            'Make one: python -c "import secrets; print(secrets.token_urlsafe(50))".',
        )
    file = Path(settings.WAYSTATION_DATA) / "secret_key"
    if several() and not os.environ.get("SECRET_KEY") and file.exists():
        yield warning(
            "secret key",
            "SECRET_KEY is the one in the data folder: a host with its own folder has another.",
            "Set SECRET_KEY to the same value everywhere.",
        )
    if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
        yield wrong("secret key", f"Other users may read {file}.", f"chmod 600 {file}")
    if several() and not settings.WAYSTATION_ENCRYPTION_KEYS:
        yield warning(
            "encryption",
            "States and answers are not encrypted at rest: who reads the database or a backup "
            "reads them.",
            "If they are confidential, set WAYSTATION_ENCRYPTION_KEYS (docs/how-to/secrets.md).",
        )


def channels() -> Iterator[Finding]:
    """Channels that are half set up: answers that nobody would take, or of which nobody is told."""
    for channel in known_channels():
        for fault in channel.setup_faults():
            yield (wrong if fault.wrong else warning)(fault.subject, fault.words, fault.remedy)


def static_files() -> Iterator[Finding]:
    if several() and getattr(settings, "WHITENOISE_USE_FINDERS", False):
        yield warning(
            "static files",
            "They were not collected: each is looked for in the apps, and browsers keep none.",
            "Run `manage.py collectstatic --noinput`, then restart the web servers.",
        )


def checks() -> Iterator[Finding]:
    """Django's, and those of the apps: the store of checkpoints, the sandbox, the API's guards."""
    # checks without a tag are of libraries that look at code, which no deployment changes
    tags = sorted(registry.tags_available(deployment_checks=True))
    for message in run_checks(tags=tags, include_deployment_checks=True):
        if message.is_silenced() or message.id in OURS:
            continue
        make = wrong if message.level >= ERROR else warning
        yield make(f"check {message.id}", str(message.msg), str(message.hint or ""))
