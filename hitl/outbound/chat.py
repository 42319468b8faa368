"""Chat and push services, through Apprise: an address says which service, and holds its token.

What counts is the request that is really made, not the parts that Apprise reads out of an address:
each request of a message goes through `_send`, which compares its URL with the vendor's hosts,
looks the name up once, checks it, and connects to that very address. A service whose host is the
vendor's own is reached there and nowhere else. One that takes a host (a self-hosted chat) must be
named by the operators, over TLS.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

from django.conf import settings

from hitl.outbound import addresses
from hitl.outbound.addresses import (
    SETTING,
    AddressRefused,
    CannotReach,
    allowed_host,
    parse,
    reachable,
)

if TYPE_CHECKING:
    from apprise import AppriseAsset, NotifyBase
    from requests import PreparedRequest, Response, Session

MICROSOFT = ("*.logic.azure.com", "*.powerplatform.com")
CISCO = ("webexapis.com", "api.ciscospark.com")
VENDORS = {
    "slack": ("hooks.slack.com", "slack.com"),
    "workflow": MICROSOFT,
    "workflows": MICROSOFT,
    "discord": ("discord.com",),
    "gchat": ("chat.googleapis.com",),
    "tgram": ("api.telegram.org",),
    "webex": CISCO,
    "wxteams": CISCO,
    "zulip": ("*.zulipchat.com",),
    "pover": ("api.pushover.net",),
    "pbul": ("api.pushbullet.com",),
    "opsgenie": ("api.opsgenie.com", "api.eu.opsgenie.com"),
    "pagerduty": ("events.pagerduty.com", "events.eu.pagerduty.com"),
}
"""Service → the hosts that its requests go to.

Another one needs WAYSTATION_OUTBOUND_ALLOW, such as a Zulip of one's own.
"""
LONGEST = 2_000

logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its lines may hold parts of an address


class _Looked(Exception):
    """The first request that a service would make, which was not made."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


@dataclass(frozen=True)
class _Message:
    scheme: str
    only_look: bool


_sending: ContextVar[_Message | None] = ContextVar("sending", default=None)


@cache
def _asset() -> AppriseAsset:
    # here and below: its import takes a third of a second
    from apprise import AppriseAsset, PersistentStoreMode

    return AppriseAsset(
        app_id="Waystation", app_desc="Waystation", app_url="", async_mode=False,
        secure_logging=True, http_redirects=False,
        storage_mode=PersistentStoreMode.MEMORY,
    )  # fmt: skip


def service_of(url: str) -> str:
    """The name of the service: all of an address that may be shown."""
    return url.partition("://")[0].lower()[:40]


def check(url: str) -> NotifyBase:
    """The service behind an address; raises AddressRefused, and CannotReach where its host cannot
    be found.
    """
    service = _service(url)
    scheme = service_of(url)
    if scheme in VENDORS:
        _check_vendor(_first_request(url), scheme)
    else:
        _check_host(service)
    return service


def _service(url: str) -> NotifyBase:
    from apprise import Apprise, NotifyBase

    scheme = service_of(url)
    if len(url) > LONGEST or re.search(r"[\x00-\x20\x7f]", url):
        raise AddressRefused("Write one address, such as slack://…, without spaces.")
    if "?" in url:  # options may name files to read, and switch off what is checked here
        raise AddressRefused(
            "Write the address without options, that is without a ? and what follows it."
        )
    if scheme not in settings.WAYSTATION_CHAT_SERVICES:
        known = ", ".join(settings.WAYSTATION_CHAT_SERVICES)
        raise AddressRefused(
            f"Write the address as service://…, of one of: {known}. Operators may allow "
            "others (WAYSTATION_CHAT_SERVICES)."
        )
    service = Apprise.instantiate(url, asset=_asset(), suppress_exceptions=True)
    if not isinstance(service, NotifyBase):
        raise AddressRefused(f"This is no complete address for {scheme}.")
    return service


def _first_request(url: str) -> str:
    """The URL of the first request of a message, which is not made; "" for a service that makes
    none.
    """
    _guard()
    token = _sending.set(_Message(service_of(url), only_look=True))
    try:
        # of an instance of its own: it remembers what it sent
        _service(url).notify(body="…", title="…")
    except _Looked as looked:
        return looked.url
    finally:
        _sending.reset(token)
    return ""


def _check_vendor(url: str, scheme: str) -> None:
    """Raise AddressRefused where a request goes elsewhere than to the service's vendor."""
    if not url:
        return
    target = parse(url)
    if allowed_host(target.host):
        return
    if (
        target.scheme != "https"
        or target.port != 443
        or not any(fnmatchcase(target.host, pattern) for pattern in VENDORS[scheme])
    ):
        raise AddressRefused(
            f"Messages to {scheme} go to {', '.join(VENDORS[scheme])}. Operators may allow "
            f"another host ({SETTING})."
        )


def _check_host(service: NotifyBase) -> None:
    host = str(getattr(service, "host", "") or "").lower()
    if {"host", "hostname"} & set(service.template_tokens):
        if not service.secure and not allowed_host(host):
            raise AddressRefused(
                "Use the service's address over TLS, such as mmosts://… or matrixs://…."
            )
        reachable(host, int(service.port or 443))


def send(url: str, *, title: str, text: str) -> None:
    """Say something there; raises AddressRefused, and CannotReach where it was not taken."""
    from apprise import NotifyFormat

    service = check(url)
    _guard()
    token = _sending.set(_Message(service_of(url), only_look=False))
    try:
        taken = service.notify(body=text, title=title, body_format=NotifyFormat.TEXT)
    finally:
        _sending.reset(token)
    if not taken:
        raise CannotReach(f"{service_of(url)} did not take the message.")


@cache
def _guard() -> None:
    """Have requests that are made while a message is sent go through `_send`; all others go as
    before.
    """
    from requests import Session

    plainly = Session.send

    def guarded(session: Session, request: PreparedRequest, **options: Any) -> Response:
        message = _sending.get()
        return plainly(session, request, **options) if message is None else _send(request, message)

    # put in place of the method, on purpose
    Session.send = guarded  # type: ignore[method-assign, assignment]


def _send(request: PreparedRequest, message: _Message) -> Response:
    """Make a request of a service, or only tell where it would go.

    Nothing but what was checked is connected to, and nothing follows.
    """
    import requests

    url = str(request.url)
    if message.only_look:
        raise _Looked(url)
    if message.scheme in VENDORS:
        _check_vendor(url, message.scheme)
    try:
        target, address = addresses.check(url)
        body = request.body.encode() if isinstance(request.body, str) else request.body
        if not (body is None or isinstance(body, bytes)):
            raise AddressRefused(
                f"{message.scheme} would send a file, which messages have none of."
            )
        headers: Sequence[tuple[str, Any]] = [
            *request.headers.items(),
            ("Accept-Encoding", "identity"),
        ]
        answer = addresses.exchange(str(request.method), target, address, dict(headers), body=body)
    except CannotReach as error:
        raise requests.ConnectionError(str(error)) from error
    response = requests.Response()
    response.status_code, response.url, response.request = answer.status, url, request
    response._content = answer.body
    response.headers.update(answer.headers)
    return response
