"""Chat and push services, through Apprise: an address says which service, and holds its token.

A service whose host is the vendor's own is reached there and nowhere else. One that takes a host (a self-hosted chat) must be named by
the operators, over TLS, and its host is looked up and checked before each message; Apprise then looks it up once more by itself.
"""

from __future__ import annotations

import logging
import re
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings

from hitl.outbound.addresses import AddressRefused, CannotReach, allowed_host, reachable

if TYPE_CHECKING:
    from apprise import AppriseAsset, NotifyBase

VENDORS = {"workflow": ("*.logic.azure.com", "*.powerplatform.com"), "workflows": ("*.logic.azure.com", "*.powerplatform.com")}
"""Services that take a host, but only of these names: Microsoft Teams."""
LONGEST = 2_000

logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its lines may hold parts of an address


@cache
def _asset() -> AppriseAsset:
    from apprise import AppriseAsset, PersistentStoreMode  # here and below: its import takes a third of a second

    return AppriseAsset(
        app_id="Waystation", app_desc="Waystation", app_url="", async_mode=False, secure_logging=True, http_redirects=False,
        storage_mode=PersistentStoreMode.MEMORY,
    )  # fmt: skip


def service_of(url: str) -> str:
    """The name of the service: all of an address that may be shown."""
    return url.partition("://")[0].lower()[:40]


def check(url: str) -> NotifyBase:
    """The service behind an address; raises AddressRefused, and CannotReach where its host cannot be found."""
    from apprise import Apprise, NotifyBase

    scheme = service_of(url)
    if len(url) > LONGEST or re.search(r"[\x00-\x20\x7f]", url):
        raise AddressRefused("Write one address, such as slack://…, without spaces.")
    if "?" in url:  # options may name files to read, and switch off what is checked here
        raise AddressRefused("Write the address without options, that is without a ? and what follows it.")
    if scheme not in settings.WAYSTATION_CHAT_SERVICES:
        known = ", ".join(settings.WAYSTATION_CHAT_SERVICES)
        raise AddressRefused(
            f"Write the address as service://…, of one of: {known}. Operators may allow others (WAYSTATION_CHAT_SERVICES)."
        )
    service = Apprise.instantiate(url, asset=_asset(), suppress_exceptions=True)
    if not isinstance(service, NotifyBase):
        raise AddressRefused(f"This is no complete address for {scheme}.")
    _check_host(service, scheme)
    return service


def _check_host(service: NotifyBase, scheme: str) -> None:
    host = str(getattr(service, "host", "") or "").lower()
    if scheme in VENDORS:
        if not any(fnmatchcase(host, pattern) for pattern in VENDORS[scheme]):
            raise AddressRefused(f"The host of {scheme} is one of {', '.join(VENDORS[scheme])}.")
    elif {"host", "hostname"} & set(service.template_tokens):
        if not service.secure and not allowed_host(host):
            raise AddressRefused("Use the service's address over TLS, such as mmosts://… or matrixs://….")
        reachable(host, int(service.port or 443))


def send(url: str, *, title: str, text: str) -> None:
    """Say something there; raises AddressRefused, and CannotReach where it was not taken."""
    from apprise import NotifyFormat

    service = check(url)
    if not service.notify(body=text, title=title, body_format=NotifyFormat.TEXT):
        raise CannotReach(f"{service_of(url)} did not take the message.")
