"""The scripted model: offline, always the same, and a real user of tools.

For trying the product out and for tests; it understands nothing.

It looks for words in the last message and does what they ask for with the tools it is given, one
round of calls, then tells what came of it. It says of itself what it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PACE = 0.0
"""Seconds between two words, so that a person sees them come."""
WHO = (
    "I am Waystation's scripted model: I work offline and understand nothing, but the tools, "
    "pauses and checkpoints are real."
)
OFFER = (
    "Try one of these: *what time is it*, *calculate 6 \\* 7*, *note: buy milk*, *fetch "
    "https://example.org*, *ask me*, "
    "or two of them in one message."
)
_SUM = re.compile(r"[\d(][\d\s.+\-*/()%]{0,498}[\d)]")  # no longer than what is calculated
_URL = re.compile(r"https?://[^\s<>\"]+")


@dataclass(frozen=True)
class Wanted:
    """A call of a tool; `arguments` is JSON."""

    tool: str
    arguments: str


def answer(history: Sequence[Mapping[str, Any]], tools: Sequence[str]) -> Iterator[str | Wanted]:
    """What is said next, word by word, and the calls that follow it.

    `history` is a conversation as `memory` keeps it.
    """
    results = [part for part in history[-1]["parts"] if part["part_kind"] == "tool-return"]
    if results:
        yield from _words(_told(results))
        return
    text = _last_words(history)
    wanted = [wish for wish in _wishes(text) if wish.tool in tools]
    if not wanted:
        yield from _words(f"{WHO}\n\n{OFFER}\n\nYou said: {text}" if text else f"{WHO}\n\n{OFFER}")
        return
    yield from _words(f"Let me use {' and '.join(f'`{wish.tool}`' for wish in wanted)}.")
    yield from wanted


def _last_words(history: Sequence[Mapping[str, Any]]) -> str:
    for message in reversed(history):
        for part in reversed(message["parts"]):
            if part["part_kind"] == "user-prompt":
                return str(part["content"])
    return ""


def _wishes(text: str) -> Iterator[Wanted]:
    """The calls that the words of a message ask for."""
    low = text.lower()
    if re.search(r"\b(time|date|today|clock)\b", low):
        yield Wanted("clock", "{}")
    if re.search(r"\b(calculate|compute|sum|how much)\b", low) and (match := _SUM.search(text)):
        yield Wanted("calculate", json.dumps({"expression": match[0].strip()}))
    if match := re.search(r"\b(?:note|remember)\b:?\s*(.+)", text, re.IGNORECASE | re.DOTALL):
        yield Wanted("remember", json.dumps({"name": "note", "text": match[1].strip()}))
    if match := _URL.search(text):
        yield Wanted("fetch", json.dumps({"url": match[0]}))
    if re.search(r"\bask me\b", low):
        options = {"options": ["Yes", "No"]} if "choice" in low else {}
        yield Wanted(
            "ask_human", json.dumps({"question": "Should I include market data?", **options})
        )


def _told(results: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"- `{result['tool_name']}`: {_short(result['content'])}" for result in results]
    return "Based on what the tools said:\n\n" + "\n".join(lines)


def _short(content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return text if len(text) <= 600 else f"{text[:600]}…"


def _words(text: str) -> Iterator[str]:
    yield from re.findall(r"\S+\s*|\s+", text)
