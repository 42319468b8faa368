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
    return _address(*_said(scope))


def is_on_this_machine(scope: Any) -> bool:
    """Whether the client of an ASGI scope is: not what came by a proxy that operators did not name,
    which may bring anybody.
    """
    direct, forwarded = _said(scope)
    if forwarded and not settings.NUM_PROXIES:
        return False
    address = _read(direct, forwarded)
    return address is not None and address.is_loopback


def _said(scope: Any) -> tuple[str, str]:
    headers = [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"
    ]
    return (scope.get("client") or [""])[0] or "", ",".join(headers)


def _address(direct: str, forwarded: str) -> str:
    address = _read(direct, forwarded)
    if address is None:
        return UNKNOWN
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False).network_address)
    return str(address)


def _read(direct: str, forwarded: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    proxies = settings.NUM_PROXIES
    addresses = [one.strip() for one in forwarded.split(",") if one.strip()]
    text = addresses[-min(proxies, len(addresses))] if proxies and addresses else direct
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
