"""What of a conversation is given to a model: all of it where it fits, else as much as does.

The state keeps everything.

What goes first: long results of older tool calls are shortened, then the oldest turns are left out,
then the oldest loops of the turn under way, last the newest results are shortened. What this turn
began with, and its last loop, are always given. A call and its result stay together. The same
conversation and room give the same words, so a request that is made again is the same request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

Json = dict[str, Any]

BYTES_PER_TOKEN = 4
"""About, in English and JSON; what an endpoint counts itself is known only afterwards."""
LONG, HEAD, TAIL = 1_000, 400, 200
"""A result of more characters than LONG may be shortened to its beginning and its end."""
PARTS = 8
"""Of what is too much, so many parts of the room are left out at once: then the next loops begin
with the same words again, which endpoints that remember the beginning of a request answer faster
and for less.
"""
LINE = 60
"""Tokens that the line takes which says what was left out."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a model is given of a conversation."""

    messages: Sequence[Mapping[str, Any]]
    left_out: int = 0
    """Messages as people count them: what they said, and what the model did."""
    shortened: int = 0
    """Results of tool calls, of those that are given."""


def size_of(value: Any) -> int:
    """About how many tokens a JSON value is."""
    return -(
        -len(json.dumps(value, ensure_ascii=False).encode(errors="replace")) // BYTES_PER_TOKEN
    )


def given(messages: Sequence[Mapping[str, Any]], *, newest: int, room: int) -> Given:
    """What fits into `room` tokens; a little more where even the least does not.

    Args:
        messages: as `memory` keeps them; the last one is a request.
        newest: where the turn under way begins.
    """
    sizes = [size_of(message) for message in messages]
    if sum(sizes) <= room:
        return Given(messages=messages)
    target = _target(sum(sizes), max(room - LINE, 0))
    found = _shorten(messages, sizes, range(len(messages) - 1), target)
    behind_of = _sums_from(sizes)
    first = next((place for place in _turns(found, newest) if behind_of[place] <= target), newest)
    behind = (
        first + 1
        if first < newest
        else _loops_left_out(found, behind_of, newest, target - sizes[newest])
    )
    if sizes[first] + behind_of[behind] > room:
        found = _shorten(found, sizes, range(len(found) - 1, len(found)), 0)
    left_out = _count([*found[:first], *found[first + 1 : behind]])
    kept = [_opened(found[first], left_out), *found[behind:]]
    places = [first, *range(behind, len(found))]
    shortened = sum(_changed(messages[place], found[place]) for place in places if place > first)
    return Given(messages=kept, left_out=left_out, shortened=shortened)


def _target(total: int, room: int) -> int:
    """What to come down to: the excess goes in whole parts of the room."""
    part = max(1, room // PARTS)
    return total - -(-(total - room) // part) * part


def _shorten(
    messages: Sequence[Mapping[str, Any]], sizes: list[int], places: range, target: int
) -> list[Mapping[str, Any]]:
    """The messages with long results cut, oldest first, until `target` is reached; `sizes` is
    brought up to date.
    """
    shortened, total = list(messages), sum(sizes)
    for place in places:
        if total <= target:
            break
        if (shorter := _cut(shortened[place])) is not None:
            total -= sizes[place]
            shortened[place], sizes[place] = shorter, size_of(shorter)
            total += sizes[place]
    return shortened


def _cut(message: Mapping[str, Any]) -> Json | None:
    """A message with its long results cut; None where it has none."""
    parts = [_cut_part(part) for part in message["parts"]]
    return (
        {**message, "parts": parts}
        if any(new is not old for new, old in zip(parts, message["parts"], strict=True))
        else None
    )


def _cut_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if part["part_kind"] != "tool-return":
        return part
    content = part["content"]
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    if len(text) <= LONG:
        return part
    gone = len(text) - HEAD - TAIL
    marker = (
        f"[{gone:,} characters of this result are left out here. Call the tool again if you "
        "need them.]"
    )
    return {**part, "content": f"{text[:HEAD]}\n{marker}\n{text[-TAIL:]}"}


def _turns(messages: Sequence[Mapping[str, Any]], newest: int) -> Iterator[int]:
    """Where turns begin, oldest first: at requests that say something, to which no call is open but
    those that go with them.
    """
    for place, message in enumerate(messages[:newest]):
        if message["kind"] == "request" and any(
            part["part_kind"] == "user-prompt" for part in message["parts"]
        ):
            yield place


def _loops_left_out(
    messages: Sequence[Mapping[str, Any]], behind_of: Sequence[int], newest: int, target: int
) -> int:
    """Where the turn under way goes on behind what it began with: at a loop, which is an answer and
    what was returned to it.
    """
    loops = [
        place for place in range(newest + 1, len(messages)) if messages[place]["kind"] == "response"
    ]
    return next(
        (place for place in loops if behind_of[place] <= target), loops[-1] if loops else newest + 1
    )


def _sums_from(sizes: Sequence[int]) -> list[int]:
    """The size of all from each place on, and 0 for the end."""
    return [*accumulate(reversed(sizes), initial=0)][::-1]


def _opened(message: Mapping[str, Any], left_out: int) -> Mapping[str, Any]:
    """The first message that is given: with a line on what came before, and without results whose
    calls did.
    """
    if not left_out:
        return message
    subject = (
        "message of this conversation is" if left_out == 1 else "messages of this conversation are"
    )
    line = f"[{left_out} earlier {subject} not given to you here, since it is too long.]"
    parts = [part for part in message["parts"] if part["part_kind"] != "tool-return"]
    place = next(place for place, part in enumerate(parts) if part["part_kind"] == "user-prompt")
    parts[place] = {**parts[place], "content": f"{line}\n\n{parts[place]['content']}"}
    return {**message, "parts": parts}


def _count(messages: Sequence[Mapping[str, Any]]) -> int:
    """Messages as people count them: results belong to the message that called."""
    prompts = sum(
        bool(part["part_kind"] == "user-prompt")
        for message in messages
        for part in message["parts"]
    )
    return prompts + sum(bool(message["kind"] == "response") for message in messages)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    return sum(
        bool(new is not old) for new, old in zip(after["parts"], before["parts"], strict=True)
    )
