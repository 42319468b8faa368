"""Pages of orders as text, and attacks that a page must not carry out."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from tests.doors.html import with_sign


def text(response):
    return with_sign(response.content.decode())


def url(order, tail=""):
    return f"/work-orders/{order.shown_id}/{tail}"


ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</textarea><script>alert(1)</script>",
    "{{ order.thread }}",
    "[x](javascript:alert(1))",
    "<javascript:alert(1)>",
    "[x]: javascript:alert(1)\n\n[x]",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "![x](https://evil.example/pixel.png)",
    '<a href="javascript:alert(1)">x</a>',
    "`</code><script>alert(1)</script>`",
]


LOADS = {
    "iframe",
    "object",
    "embed",
    "base",
    "style",
    "applet",
    "frame",
    "math",
    "video",
    "audio",
    "template",
}


ADDRESSES = {"href", "src", "action", "formaction", "xlink:href", "srcset", "poster"}


class Danger(HTMLParser):
    """Collects markup that would run or load something of others.

    The product's own is under /static, its icons have a viewBox.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = {name: (value or "").strip().lower() for name, value in attrs}
        own = values.get("src", "").startswith("/static/")
        icon = tag != "svg" or "viewbox" in values
        foreign = any(
            re.match(r"(javascript|data|vbscript):|https?:|//", values[name])
            for name in ADDRESSES & values.keys()
            if tag != "a"
        )
        script = any(
            re.match(r"(javascript|data|vbscript):", values[name])
            for name in ADDRESSES & values.keys()
        )
        handler = any(name.startswith("on") for name in values) or "style" in values
        if (
            tag in LOADS
            or (tag in {"script", "img"} and not own)
            or not icon
            or foreign
            or script
            or handler
        ):
            self.found.append(self.get_starttag_text() or tag)


def dangerous(shown):
    danger = Danger()
    danger.feed(shown)
    return danger.found
