"""A state as a tree of text: collapsible without JavaScript, searchable, and bounded whatever the
state weighs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from checkpoints.text import invisible

NODES = 2_000
"""Lines of a page."""
CHILDREN = 100
"""Items of one object or list that are shown at once; the others are a click away."""
HITS = 200
LONG, HALF = 10_000, 5_000
"""A text that is longer keeps its beginning and its end; only here, never in what is stored."""
SIGNS = 120
"""Up to here a value stands on the line of its key."""


@dataclass(frozen=True, kw_only=True)
class ShownState:
    html: SafeString
    hits: int
    """Keys and values that hold what was looked for; `HITS` says that there may be more."""
    missing: bool = False
    """There is nothing at the path that was asked for."""


class NoSuchPath(Exception):
    pass


def show(state: Mapping[str, Any], *, find: str = "", at: str = "", start: int = 0) -> ShownState:
    """The tree of a state, or of what is at the JSON Pointer `at`, from its item number `start` on.

    With `find`, only what holds these words, in a key or in a value, with all that is above it.
    """
    try:
        root = _at(state, at)
    except NoSuchPath:
        return ShownState(html=mark_safe(""), hits=0, missing=True)
    sought = find.strip().lower()
    hits = _Hits(sought)
    if sought:
        hits.look(root, at)
    drawing = _Drawing(words=sought, hits=hits, find=find)
    html = (
        drawing.container(root, at, start=start)
        if isinstance(root, dict | list)
        else f"<ul>{drawing.leaf('', root)}</ul>"
    )
    # every text in it went through `invisible.html`
    return ShownState(html=mark_safe(html), hits=hits.count)  # noqa: S308  # escaped by `invisible`


def _at(state: Any, pointer: str) -> Any:
    value = state
    for part in pointer.split("/")[1:] if pointer else ():
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif (
            isinstance(value, list)
            and key.isascii()
            and key.isdigit()
            and len(key) < 10
            and int(key) < len(value)
        ):
            value = value[int(key)]
        else:
            raise NoSuchPath(pointer)
    return value


class _Hits:
    """Which paths lead to something that holds the words."""

    def __init__(self, words: str) -> None:
        self.words, self.count = words, 0
        self.paths: set[str] = set()
        self.whole: set[str] = set()
        """Found in the key itself: everything below is shown."""

    def look(self, value: Any, path: str) -> bool:
        found = False
        for key, inner in _children(value):
            if self.count >= HITS:
                break
            here = f"{path}/{_part(key)}"
            if isinstance(key, str) and self.words in key.lower():
                self.count += 1
                self.whole.add(here)
                hit = True
            elif isinstance(inner, dict | list):
                hit = self.look(inner, here)
            else:
                hit = self.words in _plain(inner).lower()
                self.count += hit
            if hit:
                self.paths.add(here)
                found = True
        return found


class _Drawing:
    def __init__(self, *, words: str, hits: _Hits, find: str) -> None:
        self.words, self.hits, self.find, self.left = words, hits, find, NODES

    def container(self, value: Any, path: str, *, start: int = 0, all_of_it: bool = False) -> str:
        picked = [
            (key, inner)
            for key, inner in _children(value)
            if self._wanted(f"{path}/{_part(key)}", all_of_it)
        ]
        lines, index = [], start
        for key, inner in picked[start : start + CHILDREN]:
            if self.left <= 0:
                break
            self.left -= 1
            lines.append(self._line(key, inner, f"{path}/{_part(key)}", all_of_it))
            index += 1
        if index < len(picked):
            lines.append(self._rest(len(picked) - index, path, index))
        return f"<ul>{''.join(lines)}</ul>" if lines else '<p class="none">empty</p>'

    def _wanted(self, path: str, all_of_it: bool) -> bool:
        return not self.words or all_of_it or path in self.hits.paths

    def _line(self, key: str | int, value: Any, path: str, all_of_it: bool) -> str:
        if not isinstance(value, dict | list):
            return self.leaf(key, value)
        if not value:
            return (
                f"<li>{self._key(key)} "
                f"<code>{'{}' if isinstance(value, dict) else '[]'}</code></li>"
            )
        whole = all_of_it or path in self.hits.whole
        kind = (
            f"{len(value)} "
            f"{'key' if isinstance(value, dict) else 'item'}{'' if len(value) == 1 else 's'}"
        )
        inner = self.container(value, path, all_of_it=whole)
        is_open = " open" if self.words else ""
        return (
            f"<li><details{is_open}><summary>{self._key(key)} "
            f"<small>{kind}</small></summary>{inner}</details></li>"
        )

    def leaf(self, key: str | int, value: Any) -> str:
        if isinstance(value, str) and (len(value) > SIGNS or "\n" in value):
            return (
                f"<li>{self._key(key)} <small>{len(value)} "
                f"characters</small><pre>{self._marked(_cut(value))}</pre></li>"
            )
        kind = {str: "text", bool: "word", type(None): "word"}.get(type(value), "number")
        return (
            f"<li>{self._key(key)} <code "
            f'class="{kind}">{self._marked(json.dumps(value, ensure_ascii=False))}</code></li>'
        )

    def _key(self, key: str | int) -> str:
        return f"<b>{self._marked(str(key))}</b>" if key != "" or self.words else "<b></b>"

    def _rest(self, count: int, path: str, start: int) -> str:
        query = urlencode(
            {"at": path, "start": start, **({"find": self.find} if self.find else {})},
            errors="backslashreplace",
        )
        return format_html('<li class="rest"><a href="?{}#state">{} more</a></li>', query, count)

    def _marked(self, text: str) -> str:
        """Escaped, with what a screen does not show made visible, and what was looked for
        marked.
        """
        low = text.lower()
        # some letters have a longer small form: then nothing is marked
        if not self.words or len(low) != len(text):
            return str(invisible.html(text))
        parts: list[str] = []
        begin = 0
        while (place := low.find(self.words, begin)) >= 0 and len(parts) < 2 * HITS:
            end = place + len(self.words)
            parts += [
                invisible.html(text[begin:place]),
                f"<mark>{invisible.html(text[place:end])}</mark>",
            ]
            begin = end
        return "".join([*parts, invisible.html(text[begin:])])


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    return (
        iter(sorted(value.items()))
        if isinstance(value, dict)
        else iter(enumerate(value))
        if isinstance(value, list)
        else iter(())
    )


def _part(key: str | int) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[:HALF]}\n...[truncated]...\n{text[-HALF:]}"
