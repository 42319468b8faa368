"""To which hosts a secret may be sent: names of hosts as operators write them, and whether an
address is at one of them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from runs.workflows.refusals import in_json

MOST, LONGEST = 50, 260
USUAL = {"https": 443, "http": 80}
"""Scheme → the port that a host without one stands for."""
KNOWN = {
    "OpenAI": ("openai", ("api.openai.com",)),
    "Anthropic": ("anthropic", ("api.anthropic.com",)),
    "GitHub": ("github", ("api.github.com", "github.com")),
    "GitLab": ("gitlab", ("gitlab.com",)),
}
"""Provider → the name that its credential usually has, and where it is sent: to the API, and for a
forge to git.
"""
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*")
_ENTRY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^\[\]:/@]+)(:(?P<port>[0-9]{1,5}))?")


class HostInvalid(ValueError):
    """Words that name no host. The message says which, and what would do."""


def parse(entries: Sequence[str]) -> list[str]:
    """Hosts as they are kept: lower case, each once, in their order. Raises HostInvalid.

    An entry is `api.example.org`, which stands for the usual port of http and https, or
    `localhost:11434`, for that port alone.
    """
    hosts = list(dict.fromkeys(_read(entry) for entry in entries))
    if len(hosts) > MOST:
        raise HostInvalid(f"Name up to {MOST} hosts.")
    return hosts


def split(words: str) -> list[str]:
    """Entries that stand in lines, or between spaces and commas."""
    return re.split(r"[\s,]+", words.strip()) if words.strip(" \t\r\n,") else []


def covers(hosts: Sequence[str], url: str) -> bool:
    """Whether an address is at one of the hosts.

    One that several readers could take differently is at none.
    """
    return any(place in hosts for place in _places(url))


def shown(url: str) -> str:
    """The host of an address as an entry names it; "" for what is no address."""
    return next(iter(_places(url)), "")


def _places(url: str) -> list[str]:
    """The entries that would cover an address, the shortest first."""
    if re.search(r"[\x00-\x20\x7f\\]", url) or not url.isascii():
        return []
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return []
    if (
        parts.scheme not in USUAL
        or not host
        or parts.username is not None
        or parts.password is not None
    ):
        return []
    name = f"[{host}]" if ":" in host else host
    usual = USUAL[parts.scheme]
    return [*([name] if port in {None, usual} else []), f"{name}:{port or usual}"]


def _read(entry: str) -> str:
    low = entry.strip().lower()
    match = _ENTRY.fullmatch(low)
    if (
        match is None
        or len(low) > LONGEST
        or not _is_host(match["host"])
        or not 0 < int(match["port"] or 1) < 65_536
    ):
        raise HostInvalid(
            f"{in_json(entry, 80)} is no host: write api.example.org or localhost:11434, without "
            "https:// and without a path."
        )
    return low.replace(match["host"], match["host"].rstrip("."), 1)


def _is_host(name: str) -> bool:
    if name.startswith("["):
        try:
            return ipaddress.IPv6Address(name[1:-1]) is not None
        except ValueError:
            return False
    return _NAME.fullmatch(name.rstrip(".")) is not None
