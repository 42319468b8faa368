"""Addresses that people give, reached without reaching what is inside: looked up once, checked, and
connected to at that very address.

So a name that answers otherwise the second time (DNS rebinding) changes nothing. No redirect is
followed, no proxy is used, the answer is read up to a limit, and the whole exchange ends in time,
however slowly the other side speaks.

`allow` everywhere: hosts (`hooks.internal`, `*.internal`), addresses and networks that operators
let be reached though they are not public. Plain Python: who calls brings the settings.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

LONGEST_URL = 2_000
RETRY_AFTER = 3600
"""Seconds: a receiver that asks for more is tried again after these."""
REFUSED = [
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
        "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24",
        "203.0.113.0/24", "224.0.0.0/3",
        "168.63.129.16/32",  # a cloud's own service at an address that counts as public
        "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
    )
]  # fmt: skip
"""IANA's registries of special-purpose addresses, whole: Python's `is_global` knows them as they
were when it was made, without 192.0.0.192 (a cloud's metadata), 3fff::/20 or 64:ff9b:1::/48. Of
IPv6 what lies within 2000::/3; nothing outside of it is reached."""
UNICAST = ipaddress.ip_network("2000::/3")
"""The only part of IPv6 that is given out for the public Internet."""
TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""Carries an IPv4 address: how names of IPv4 alone look in a network of IPv6 alone (NAT64)."""

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Sequence[str]]


class AddressRefused(Exception):
    """The address is none that may be reached from here; the message says why and names nothing
    that was found out.
    """

    code = "address_refused"


class CannotReach(Exception):
    """No answer: the connection failed, or the time was up."""


@dataclass(frozen=True)
class Target:
    scheme: str
    host: str
    port: int
    path: str


@dataclass(frozen=True)
class HttpReply:
    status: int
    body: bytes
    """Up to as many bytes as were asked for."""
    more: bool
    """Whether there was more than that."""
    headers: Mapping[str, str]
    """By names in lower case."""

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def retry_after(self) -> int:
        """Seconds that the receiver asked to be left alone for; 0 where it did not."""
        header = self.headers.get("retry-after", "")
        return (
            min(int(header), RETRY_AFTER)
            if header.isascii() and header.isdigit() and len(header) < 10
            else 0
        )


def look_up(host: str, port: int) -> Sequence[str]:
    """All addresses of a name, as the system's resolver gives them."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in answers))


def parse(url: str) -> Target:
    """The parts of an address; raises AddressRefused."""
    if len(url) > LONGEST_URL or not url.isascii() or re.search(r"[\x00-\x20\x7f\\]", url):
        raise AddressRefused(
            "Write the address in up to 2,000 ASCII characters, without spaces or backslashes."
        )
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise AddressRefused("This is no address: write https://host/path.") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise AddressRefused("Write the address as https://host/path.")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused(
            "An address holds no name and password: a webhook is known by its signature."
        )
    if parts.fragment:
        raise AddressRefused("An address has no part behind a #.")
    if not re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]+", host):
        raise AddressRefused("The host's name holds signs that no name has.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or {"http": 80, "https": 443}[parts.scheme], path)


def allowed_host(host: str, allow: Sequence[str]) -> bool:
    """Whether the operators named this host as one that may be reached, wherever it is."""
    return any(fnmatchcase(host, entry) for entry in allow if not _is_network(entry))


def reachable(
    host: str, port: int, *, allow: Sequence[str], resolver: Resolver = look_up, setting: str = ""
) -> tuple[str, bool]:
    """The address to connect to, and whether operators named it; raises AddressRefused, CannotReach
    where there is none.

    One address that is not allowed refuses the name, or who owns it could have either tried until
    the right one comes. `setting` is what the refusal names for operators.
    """
    if re.fullmatch(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*", host) and not _is_address(
        host
    ):
        raise AddressRefused("Write an IP address as four numbers, or better a name.")
    try:
        answers = resolver(host, port)
    except (OSError, UnicodeError):
        raise CannotReach(f"There is no host {host}.") from None
    if not answers:
        raise CannotReach(f"There is no host {host}.")
    if allowed_host(host, allow):
        return answers[0], True
    addresses = [ipaddress.ip_address(text) for text in answers]
    named = [_in_network(address, allow) for address in addresses]
    if not all(known or _public(address) for address, known in zip(addresses, named, strict=True)):
        raise AddressRefused(
            "This host is inside a network that is not reached from here. Operators may "
            f"allow it{_by(setting)}."
        )
    return answers[0], all(named)


def _by(setting: str) -> str:
    return f" ({setting})" if setting else ""


def check(
    url: str,
    *,
    allow: Sequence[str],
    resolver: Resolver = look_up,
    setting: str = "",
    plain: bool = False,
) -> tuple[Target, str]:
    """What to connect to for a URL, and at which address; raises AddressRefused and CannotReach.

    `plain`: without TLS is fine too.
    """
    target = parse(url)
    address, named = reachable(
        target.host, target.port, allow=allow, resolver=resolver, setting=setting
    )
    if target.scheme != "https" and not named and not plain:
        raise AddressRefused(
            "Use https: what is sent is nobody else's business. Operators may allow this "
            f"host{_by(setting)}."
        )
    return target, address


def check_literal(url: str, *, allow: Sequence[str], setting: str = "") -> None:
    """Refuse a URL whose host is written as an address that is not reached; a name is looked up
    when it is used. Raises AddressRefused.
    """
    target = parse(url)
    if _is_address(target.host):
        reachable(
            target.host,
            target.port,
            allow=allow,
            resolver=lambda host, port: [host],
            setting=setting,
        )


def exchange(
    method: str,
    target: Target,
    address: str,
    headers: Mapping[str, str],
    *,
    body: bytes | None = None,
    seconds: float,
    limit: int,
) -> HttpReply:
    """One request to what `check` gave; raises CannotReach.

    Args:
        seconds: for all of it.
        limit: bytes that are read of the answer's body.
    """
    connection = _Pinned(target, address, seconds)
    guard = threading.Timer(seconds, connection.abort)
    guard.daemon = True
    guard.start()
    try:
        connection.request(
            method, target.path, body=body, headers={**headers, "Connection": "close"}
        )
        response = connection.getresponse()
        read = response.read(limit + 1)
        found = {name.lower(): value for name, value in response.getheaders()}
        return HttpReply(response.status, read[:limit], len(read) > limit, found)
    except (OSError, http.client.HTTPException) as error:
        late = (
            f"It did not answer within {seconds:g} seconds."
            if connection.aborted
            else f"No answer: {error or type(error).__name__}."
        )
        raise CannotReach(late) from error
    finally:
        guard.cancel()
        connection.close()


class _Pinned(http.client.HTTPConnection):
    """A connection to one address, whatever the name resolves to by now; TLS proves the name."""

    def __init__(self, target: Target, address: str, seconds: float) -> None:
        super().__init__(target.host, target.port, timeout=seconds)
        if target.port == {"http": 80, "https": 443}[target.scheme]:
            self.default_port = target.port  # else the Host header names it
        self._address = address
        self._tls = ssl.create_default_context() if target.scheme == "https" else None
        self.aborted = False

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)

    def abort(self) -> None:
        """End the exchange from another thread: a time-out of the socket's own begins anew with
        every byte.
        """
        self.aborted = True
        sock = self.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                sock.close()


def _public(address: IP) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or (
            ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in TRANSLATED else None
        )
        if carried is not None:
            return _public(carried)
        if address not in UNICAST:
            return False
    # what a newer Python may know besides
    known = address.is_global and not address.is_multicast and not address.is_reserved
    return known and not any(
        address in network for network in REFUSED if network.version == address.version
    )


def _in_network(address: IP, allow: Sequence[str]) -> bool:
    networks = [ipaddress.ip_network(entry, strict=False) for entry in allow if _is_network(entry)]
    return any(address.version == network.version and address in network for network in networks)


def _is_network(entry: str) -> bool:
    return "/" in entry or _is_address(entry)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
