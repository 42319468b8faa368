"""Errors to Sentry, or to whatever else takes its envelopes: `SENTRY_DSN`.

What leaves says what broke, where, and in which run. Headers, cookies, bodies, query strings,
values of variables, lines of code and people stay here: a traceback of a step would else carry
states and secrets.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from checkpoints.state import redaction
from checkpoints.telemetry import about, log_lines
from checkpoints.text import extras

KEPT = ("method", "url")
"""Of a request."""


def begin(dsn: str, *, release: str, environment: str) -> None:
    """Report this process' errors from now on.

    Raises ImproperlyConfigured where the package is missing, or the DSN is none.
    """
    try:
        import sentry_sdk
    except ImportError as error:
        raise ImproperlyConfigured(
            "SENTRY_DSN is set, and its client is not installed: "
            f"{extras.install('sentry')}, or leave the setting out."
        ) from error
    try:
        sentry_sdk.init(
            dsn=dsn,
            release=release or None,
            environment=environment or None,
            send_default_pii=False,
            include_local_variables=False,
            include_source_context=False,
            max_request_body_size="never",
            max_breadcrumbs=0,  # they quote queries and addresses
            traces_sample_rate=None,
            auto_session_tracking=False,
            send_client_reports=False,
            before_send=scrubbed,
        )
    except ValueError:  # its words quote the DSN, which is a secret
        raise ImproperlyConfigured(
            "SENTRY_DSN is none: use https://<key>@<host>/<project>"
        ) from None


def is_on() -> bool:
    """Whether errors are reported from here."""
    return "sentry_sdk" in sys.modules


def flush(seconds: float) -> None:
    """Wait so long for reports of this process that were not sent yet: for one that ends."""
    if is_on():
        sys.modules["sentry_sdk"].flush(timeout=seconds)


def scrubbed(event: Any, hint: Any = None) -> Any:
    """The event as it may leave, with the run that it is about."""
    for name in ("user", "extra", "server_name", "breadcrumbs"):
        event.pop(name, None)
    if isinstance(request := event.get("request"), Mapping):
        event["request"] = {name: request[name] for name in KEPT if name in request}
    event["tags"] = {**(event.get("tags") or {}), **about.ids()}
    return _without_secrets(redaction.redact(event))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return log_lines.redacted(value)
    if isinstance(value, Mapping):
        return {key: _without_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    return value
