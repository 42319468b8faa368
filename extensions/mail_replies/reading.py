"""What a mail says: who sent it to whom, whether a person wrote it, and their own words in it.

Mails come from strangers. Nothing here raises for a text of any shape, and all of it takes time in
proportion to the mail's size.
"""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import getaddresses

from checkpoints.state import codec
from extensions.mail_replies import addresses
from hitl.channels.html import text_of

TO = ("delivered-to", "x-original-to", "envelope-to", "to", "cc")
"""Where the address may stand that a mail came in by."""
MACHINES = ("x-autoreply", "x-autorespond", "x-autoresponder", "x-auto-reply-from", "list-id")
DAEMONS = ("mailer-daemon", "postmaster", "no-reply", "noreply")
AWAY = re.compile(
    r"(?:automatic reply|auto(?:reply|:)|out of office|abwesen|undeliver|returned mail)"
)
"""Begins the subject of a mail that nobody wrote."""
ATTRIBUTION = re.compile(
    r"(?:on .{4,200}(?:wrote|writes):|am .{4,200} schrieb.{0,200}:|-{2,} ?original.{0,40}|_{8,}"
    r"|(?:from|von): .{0,200}@.{0,200})$",
    re.IGNORECASE,
)
CHARSETS = re.compile(r"(?:utf|us-ascii|ascii|iso-|iso_|windows-|cp|koi8|gb|big5|shift|sjis|euc)")
"""Begins the names of charsets of texts; Python knows encodings of other kinds, some slow."""
DESCRIBING, LONGEST_KIND = ("content-type", "content-disposition"), 4_000
"""Headers that say what a part is, and their characters."""
LONGEST = 20_000
"""Characters of a mail's own words."""


@dataclass(frozen=True)
class Mail:
    """A mail, as far as it counts here."""

    headers: Mapping[str, list[str]]
    """By their names in small letters, in their order."""
    text: str = field(repr=False)
    """The whole text, also what is quoted."""

    def first(self, name: str) -> str:
        return next(iter(self.headers.get(name, [])), "")

    @property
    def senders(self) -> list[str]:
        return _addresses(self.headers.get("from", []))

    @property
    def recipients(self) -> list[str]:
        return _addresses(value for name in TO for value in self.headers.get(name, []))

    @property
    def key(self) -> str:
        """What the mail is known by: its Message-ID, else all of it."""
        named = self.first("message-id").strip()
        return codec.digest(named or f"{sorted(self.headers.items())}\n{self.text}")

    @property
    def automatic(self) -> bool:
        """Whether a machine wrote it: an absence note, a bounce, a list, or this server."""
        said = self.first("auto-submitted").partition(";")[0].strip().lower()
        kind = self.first("content-type").partition(";")[0].strip().lower()
        names = [address.partition("@")[0].lower() for address in self.senders]
        return (
            said not in {"", "no"}
            or any(name in self.headers for name in MACHINES)
            or self.first("precedence").strip().lower() in {"bulk", "junk", "list", "auto_reply"}
            or self.first("return-path").strip() == "<>"
            or kind in {"multipart/report", "message/disposition-notification"}
            or any(name in DAEMONS for name in names)
            or AWAY.match(self.first("subject").strip().lower()) is not None
        )

    @property
    def words(self) -> str:
        """What its writer wrote into it, without what they quote and without their signature."""
        own: list[str] = []
        for line in self.text.replace("\r\n", "\n").split("\n"):
            plain = line.strip()
            if addresses.MARKER in line or line.rstrip() == "--" or line == "-- ":
                break
            if plain.startswith(">") or ATTRIBUTION.match(plain[:500]):
                break
            own.append(line.rstrip())
        return "\n".join(_without_attribution(own)).strip()[:LONGEST]

    def proven(self, authserv: str) -> bool:
        """Whether the mail server of this name verified its sender's domain (DMARC, RFC 8601)."""
        for value in self.headers.get("authentication-results", []):
            server, *results = re.sub(r"\([^()]{0,500}\)", " ", value).split(";")
            if server.split()[:1] != [authserv]:
                continue
            dmarc = [result.split() for result in results if result.strip().startswith("dmarc=")]
            domain = {address.rpartition("@")[2].lower() for address in self.senders}
            return len(dmarc) == 1 and dmarc[0][0] == "dmarc=pass" and _of(dmarc[0]) == domain
        return False


def _of(result: list[str]) -> set[str]:
    """The domain that a result is about."""
    return {
        part.removeprefix("header.from=").lower().rstrip(".")
        for part in result
        if part.startswith("header.from=")
    }


def _without_attribution(lines: list[str]) -> list[str]:
    """A line such as `Ana wrote on Monday:`, which mail programs fold and translate, stands right
    above what was quoted; where it is folded its last line ends in a colon.
    """
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) > 1 and lines[-1].endswith(":") and "@" in " ".join(lines[-2:]):
        return lines[:-1] if lines[-2] == "" else lines[:-2]
    return lines


def _addresses(values: Iterable[str]) -> list[str]:
    try:
        return [address for _, address in getaddresses([value[:20_000] for value in values][:50])]
    except RecursionError:  # comments within comments
        return []


def from_rfc822(raw: bytes) -> Mail | None:
    """Read a mail as it is on the wire; None for what is nested too deeply to be one, or describes
    its parts at a length, or in a way, that no mail program does.
    """
    try:
        return _read(raw)
    except (RecursionError, TypeError, ValueError):  # what `email` raises for some of its headers
        return None


def _read(raw: bytes) -> Mail | None:
    message = email.message_from_bytes(raw, policy=email.policy.compat32)
    parts = list(message.walk())
    kinds = (part.get(name, "") for part in parts for name in DESCRIBING)
    if any(len(str(kind)) > LONGEST_KIND for kind in kinds):  # its parameters are read in squares
        return None
    headers: dict[str, list[str]] = {}
    for name, value in message.items():
        headers.setdefault(name.lower(), []).append(_unfolded(value))
    for kind, read in (("text/plain", str), ("text/html", text_of)):
        for part in parts:
            if part.get_content_type() == kind and part.get_content_disposition() != "attachment":
                return Mail(headers, read(_decoded(part)))
    return Mail(headers, "")


def from_json(body: Mapping[str, object]) -> Mail | None:
    """Read a mail as gateways hand it over: `from`, `to`, `subject`, `text`, `message_id`,
    `headers`; None where a value is none of text.
    """
    given, text = body.get("headers", {}), body.get("text", "")
    if not isinstance(given, Mapping) or not isinstance(text, str):
        return None
    fields = {key: body[key] for key in ("from", "to", "subject", "message_id") if key in body}
    told = {str(name).lower(): value for name, value in given.items()}
    told |= {name.replace("_", "-"): value for name, value in fields.items()}
    headers = {
        name: [_unfolded(one) for one in (value if isinstance(value, list) else [value])]
        for name, value in told.items()
    }
    flat = [
        one for value in told.values() for one in (value if isinstance(value, list) else [value])
    ]
    return (
        Mail(headers, codec.readable(text)) if all(isinstance(one, str) for one in flat) else None
    )


def _unfolded(value: object) -> str:
    return codec.readable(" ".join(str(value).split()))


def _decoded(part: Message) -> str:
    payload = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else b""
    charset = part.get_content_charset("utf-8")
    try:
        return codec.readable(
            raw.decode(charset if CHARSETS.match(charset) else "utf-8", "replace")
        )
    except (LookupError, ValueError):  # a charset that is none, or not this text's
        return codec.readable(raw.decode("utf-8", "replace"))
