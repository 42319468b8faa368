"""Tools that every server has: the time, sums, pages of the web, and notes of the thread."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

from runs.agents.approval import ApprovalRule
from runs.agents.tools.arithmetic import CannotCalculate, calculate
from runs.agents.tools.registry import ToolFailed, ToolUse, quoted, tool
from runs.security import ssrf
from runs.workflows import timing

FETCH_SECONDS = 20.0
FETCH_BYTES = 1_000_000
"""Read of a page."""
FETCH_TEXT = 60_000
"""Characters of a page's text that are given at once."""
NOTE = 4_000
"""Characters of one note."""
NOTES = 200
SETTING = "WAYSTATION_FETCH_ALLOW"


@tool(
    "clock",
    description="The present date and time, in UTC or in a time zone.",
    parameters={
        "type": "object",
        "properties": {
            "timezone": {
                "type": "string",
                "maxLength": 60,
                "description": "IANA name such as Europe/Vienna",
            }
        },
        "additionalProperties": False,
    },
    risk="low",
)
def clock(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    name = arguments.get("timezone", "UTC")
    try:
        zone = ZoneInfo(name)
    # no such zone, no name of one, a folder of zones
    except (KeyError, ValueError, OSError) as error:
        raise ToolFailed(
            f"There is no time zone {name!r}; write an IANA name such as Europe/Vienna."
        ) from error
    now = timing.now().astimezone(zone).replace(microsecond=0)
    return {"now": now.isoformat(), "timezone": name, "weekday": f"{now:%A}"}


@tool(
    "calculate",
    description=(
        "Arithmetic, exact: + - * / // % **, parentheses, abs, round (half to even), min, max, "
        "floor, ceil, sqrt."
    ),
    parameters={
        "type": "object",
        "properties": {"expression": {"type": "string", "minLength": 1, "maxLength": 500}},
        "required": ["expression"],
        "additionalProperties": False,
    },
    risk="low",
)
def calculate_(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    try:
        return {"result": calculate(arguments["expression"])}
    except CannotCalculate as error:
        raise ToolFailed(str(error)) from error


def _what_is_fetched(arguments: Mapping[str, Any]) -> str:
    return f"A GET request to this address:\n\n{quoted(arguments['url'])}"


@tool(
    "fetch",
    description=(
        "Read a page of the web by its http(s) address: its text, without scripts and images. "
        "Redirects are told, not followed."
    ),
    parameters={
        "type": "object",
        "properties": {"url": {"type": "string", "minLength": 1, "maxLength": ssrf.LONGEST_URL}},
        "required": ["url"],
        "additionalProperties": False,
    },
    approval=[
        ApprovalRule(
            ask=True,
            why="It reaches outside this server, and an address can carry away what was read here.",
        )
    ],
    risk="high",
    editable=["/url"],
    preview=_what_is_fetched,
)
def fetch(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    url = arguments["url"].partition("#")[0]
    headers = {
        "Accept": "text/html, text/*, application/json, application/xml",
        "Accept-Encoding": "identity",
        "User-Agent": "Waystation",
    }
    try:
        target, address = ssrf.check(url, allow=use.context.reach, setting=SETTING, plain=True)
        use.context.check()
        answer = ssrf.exchange(
            "GET", target, address, headers, seconds=FETCH_SECONDS, limit=FETCH_BYTES
        )
    except (ssrf.AddressRefused, ssrf.CannotReach) as error:
        raise ToolFailed(str(error)) from error
    kind, text = _text_of(answer)
    moved = (
        {"location": answer.headers["location"][: ssrf.LONGEST_URL]}
        if "location" in answer.headers
        else {}
    )
    return {
        "url": url,
        "status": answer.status,
        **moved,
        "type": kind,
        "text": text[:FETCH_TEXT],
        "cut": answer.more or len(text) > FETCH_TEXT,
    }


def _text_of(answer: ssrf.HttpReply) -> tuple[str, str]:
    """An answer's media type, and its text; raises ToolFailed where it is none."""
    header = answer.headers.get("content-type", "text/plain")
    kind, _, rest = header.partition(";")
    kind = kind.strip().lower()[:100]
    if answer.body and not (kind.startswith("text/") or kind.endswith(("json", "xml"))):
        raise ToolFailed(
            f"There is no text at this address: it gives {kind or 'nothing that says what it is'}."
        )
    charset = rest.partition("charset=")[2].partition(";")[0].strip(" \"'") or "utf-8"
    try:
        text = answer.body.decode(charset, "replace")
    except (LookupError, ValueError):  # no such charset, or one that is none of text
        text = answer.body.decode("utf-8", "replace")
    if kind in {"text/html", "application/xhtml+xml"}:
        page = _Page()
        # the text ends with a declaration that is none, or an entity of thousands of digits
        with suppress(AssertionError, ValueError):
            page.feed(text)
            page.close()
        text = page.text
    return kind, text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


class _Page(HTMLParser):
    """The words of an HTML page, a line for each block."""

    HIDDEN = frozenset({"script", "style", "noscript", "template", "svg"})
    INLINE = frozenset(
        {
            "a",
            "abbr",
            "b",
            "code",
            "em",
            "i",
            "kbd",
            "mark",
            "s",
            "small",
            "span",
            "strong",
            "sub",
            "sup",
            "u",
        }
    )

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in self.HIDDEN
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in self.HIDDEN))
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._pieces.append(data)

    def _break(self, tag: str) -> None:
        if tag not in self.INLINE:
            self._pieces.append("\n")

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._pieces).split("\n"))
        return "\n".join(line for line in lines if line)


KEY = {
    "type": "string",
    "minLength": 1,
    "maxLength": 80,
    "description": "a short name, such as customer",
}


@tool(
    "remember",
    description=(
        "Keep a note for later turns of this conversation, over an earlier one of the same "
        "name. An empty text drops it."
    ),
    parameters={
        "type": "object",
        "properties": {"name": KEY, "text": {"type": "string", "maxLength": NOTE}},
        "required": ["name", "text"],
        "additionalProperties": False,
    },
    risk="low",
)
def remember(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    """The note is the call itself, which the conversation in the thread's state holds; see
    `notes`.
    """
    if (
        arguments["text"]
        and arguments["name"] not in (kept := notes(use.state))
        and len(kept) >= NOTES
    ):
        raise ToolFailed(f"There are {NOTES} notes already; drop one that is not needed.")
    return {"kept" if arguments["text"] else "dropped": arguments["name"]}


@tool(
    "recall",
    description=(
        "The notes of this conversation that were kept with `remember` in earlier loops and turns."
    ),
    parameters={"type": "object", "properties": {"name": KEY}, "additionalProperties": False},
    risk="low",
)
def recall(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    kept = notes(use.state)
    if "name" not in arguments:
        return {"notes": kept}
    if arguments["name"] not in kept:
        raise ToolFailed(
            f"There is no note {arguments['name']!r}. There are: {', '.join(kept) or 'none'}."
        )
    return {"notes": {arguments["name"]: kept[arguments["name"]]}}


def notes(state: Mapping[str, Any]) -> dict[str, str]:
    """The notes of a thread, by name: the calls of `remember` in its `messages` that were made, the
    last of a name.
    """
    made = [call for message in state.get("messages", ()) for call in message.get("tools", ())]
    kept: dict[str, str] = {}
    for call in made:
        if call.get("tool") == "remember" and call.get("status") == "done":
            kept[str(call["arguments"]["name"])] = str(call["arguments"]["text"])
    return {name: text for name, text in kept.items() if text}
