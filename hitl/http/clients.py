"""Where a request comes from: the client's address, behind as many proxies as operators say there
are (NUM_PROXIES).

`X-Forwarded-For` is a list that everybody may begin; only the last entries were written by our own
proxies. Without proxies it is ignored.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from django.conf import settings
from django.http import HttpRequest

UNKNOWN = "0.0.0.0"  # noqa: S104  # no address is bound
"""Of a server on a Unix socket."""


def address_of(request: HttpRequest) -> str:
    """An IPv4 address, or an IPv6 network of 64 bits, which is what one household has."""
    return _address(
        request.META.get("REMOTE_ADDR") or "", request.META.get("HTTP_X_FORWARDED_FOR") or ""
    )


def address_in(scope: Any) -> str:
    """The same of an ASGI scope."""
    headers = [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"
    ]
    return _address((scope.get("client") or [""])[0], ",".join(headers))


def _address(direct: str, forwarded: str) -> str:
    proxies = settings.NUM_PROXIES
    addresses = [one.strip() for one in forwarded.split(",") if one.strip()]
    text = addresses[-min(proxies, len(addresses))] if proxies and addresses else direct
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return UNKNOWN
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False).network_address)
    return str(address)
