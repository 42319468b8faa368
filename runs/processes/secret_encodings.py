"""How a secret looks where something has written it in another way: the usual encodings, as texts
to look for.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

BASE64 = "[A-Za-z0-9+/_-]"


@dataclass(frozen=True)
class Form:
    """A text that tells the secret.

    `before` and `behind`: the character beside it holds some bits of it too.
    """

    text: str
    before: bool = False
    behind: bool = False

    @property
    def pattern(self) -> str:
        lead, tail = (
            f"{BASE64}?" if self.before else "",
            f"{BASE64}?={{0,2}}" if self.behind else "",
        )
        return lead + re.escape(self.text) + tail


def forms(secret: str) -> tuple[Form, ...]:
    """The secret itself, and as base64 (both alphabets, wherever it stands among other bytes), hex,
    in an address, and in JSON.

    JSON also inside a text of JSON. Not found: what was compressed, encrypted, reversed, cut, or
    broken into lines.
    """
    raw = secret.encode(errors="surrogatepass")
    every_form = [
        Form(text)
        for text in (
            secret,
            raw.hex(),
            raw.hex().upper(),
            *_in_addresses(secret, raw),
            *_in_json(secret),
        )
    ]
    return tuple(dict.fromkeys([*every_form, *_in_base64(raw)]))


def _in_base64(raw: bytes) -> Iterator[Form]:
    """At each of the three places that a byte may have in a group; only the characters that other
    bytes do not change.
    """
    for skipped in range(3):
        bits = 8 * (skipped + len(raw))
        text = base64.b64encode(bytes(skipped) + raw).decode()[-(-8 * skipped // 6) : bits // 6]
        for written in dict.fromkeys([text, text.translate(str.maketrans("+/", "-_"))]):
            yield Form(written, before=skipped > 0, behind=bits % 6 > 0)


def _in_addresses(secret: str, raw: bytes) -> Iterator[str]:
    """As Python, browsers and Java write it into an address or a form, and with every byte
    encoded.
    """
    safe = secret.encode("utf-8", "surrogatepass")
    written = [quote(safe, safe=kept) for kept in ("", "/", "!'()*~", ";,/?:@&=+$-_.!~*'()#")]
    written += [
        quote_plus(safe),
        quote_plus(safe, safe="*").replace("~", "%7E"),
        "".join(f"%{byte:02X}" for byte in raw),
    ]
    for form in written:
        yield from (form, re.sub("%..", lambda match: match[0].lower(), form))


def _in_json(secret: str) -> Iterator[str]:
    """As libraries of several languages write it: with few escapes or many, and once more where
    that is a text of JSON itself.
    """
    plain = [json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    safe = [re.sub("[<>&']", lambda match: f"\\u{ord(match[0]):04x}", form) for form in plain]
    once = [*plain, *safe, *(form.replace("/", "\\/") for form in plain)]
    once += [
        re.sub(r"\\u[0-9a-f]{4}", lambda match: f"\\u{match[0][2:].upper()}", form) for form in once
    ]
    yield from once
    yield from (json.dumps(form)[1:-1] for form in once)
