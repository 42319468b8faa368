"""What changed between two states: paths that were added, removed or changed.

Bounded, so that it can be shown whatever the states weigh.

A path is a JSON Pointer (RFC 6901) into the newer state; of what was removed, into the older one.
Items of a list are matched by their `id` where all of them have one, else by their content, so that
an item that was put in front changes one path and not all of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from checkpoints import store
from checkpoints.models import Checkpoint
from checkpoints.state import codec
from checkpoints.text import invisible

MOST = 300
"""Changes that are listed; the rest is counted."""
SHOWN = 1_000
"""Characters of a value that is shown; of a larger one there are its digest, its size and its
beginning.
"""
BEGINNING = 200
LINES = 2_000
"""Lines of a text that is compared by line, and items of lists that are matched by content: both
take more than linear time.
"""
DIFF_LINES = 120
"""Lines that one text's diff may have."""
ROOM = 60_000
"""Characters of values and diffs in all; beyond them a change shows digests only."""
FIELDS = ("run_id", "status", "node_id", "next_step", "loop_num", "completed_nodes", "total_nodes")
"""Columns of a checkpoint that are compared beside its state."""


class DifferentThreads(Exception):
    """Two checkpoints of different threads have no history in common, so they are not compared."""

    code = "different_threads"


class NothingBefore(Exception):
    """The first checkpoint of a thread has no parent to be compared with."""

    code = "no_parent"


class ChangeKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, kw_only=True)
class ShownValue:
    """A value as it is shown."""

    text: str
    """Its JSON, or its beginning."""
    size: int
    """Characters of its JSON."""
    digest: str = ""
    """Of its JSON; "" where `text` is the whole of it."""

    @property
    def whole(self) -> bool:
        return not self.digest


@dataclass(frozen=True, kw_only=True)
class Change:
    kind: ChangeKind
    path: str
    old: ShownValue | None = None
    new: ShownValue | None = None
    was_at: str = ""
    """Where it was in the older state, if elsewhere."""
    lines: Sequence[str] = ()
    """A unified diff, of texts of several lines."""
    note: str = ""


@dataclass(kw_only=True)
class Differences:
    added: int = 0
    removed: int = 0
    changed: int = 0
    changes: list[Change] = field(default_factory=list)
    """The first `MOST`, by path."""

    @property
    def total(self) -> int:
        return self.added + self.removed + self.changed

    @property
    def more(self) -> int:
        """Changes that are counted but not listed."""
        return self.total - len(self.changes)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two checkpoints of a thread."""

    old: Checkpoint
    new: Checkpoint
    fields: Sequence[tuple[str, Any, Any]]
    """(column, then, now) of what the checkpoints record beside the state; `commit` is the
    code's.
    """
    state: Differences


def diff(old: Checkpoint, new: Checkpoint) -> Comparison:
    """Compare two checkpoints of one thread, on one branch or on two.

    Raises DifferentThreads, or store.CheckpointDamaged where one of them cannot be read.
    """
    if old.thread_id != new.thread_id:
        raise DifferentThreads(
            f"{old.shown_id} and {new.shown_id} are of different threads, so there is "
            "nothing to compare."
        )
    return Comparison(
        old=old, new=new, fields=_fields(old, new), state=compare(store.load(old), store.load(new))
    )


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Differences:
    """Compare two states.

    Costs what they weigh, and what is written down stays below `ROOM`, whatever they weigh.
    """
    walk = _Walk()
    walk.objects(old, new, "", "")
    return walk.found


def _fields(old: Checkpoint, new: Checkpoint) -> list[tuple[str, Any, Any]]:
    pairs = [(name, getattr(old, name), getattr(new, name)) for name in FIELDS]
    pairs.append(("commit", commit_of(old), commit_of(new)))
    return [(name, then, now) for name, then, now in pairs if then != now]


def commit_of(checkpoint: Checkpoint) -> str:
    """The code's git commit that belongs to a checkpoint, or ""."""
    git = checkpoint.metadata.get("git") if isinstance(checkpoint.metadata, Mapping) else None
    return str(git.get("commit", "")) if isinstance(git, Mapping) else ""


class _Walk:
    def __init__(self) -> None:
        self.found, self.room = Differences(), ROOM

    def values(self, old: Any, new: Any, path: str, was: str) -> None:
        if old is new:
            return
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            self.objects(old, new, path, was)
        elif isinstance(old, list) and isinstance(new, list):
            self.lists(old, new, path, was)
        elif not _same(old, new):
            self.note(ChangeKind.CHANGED, path, was, old=old, new=new)

    def objects(self, old: Mapping[str, Any], new: Mapping[str, Any], path: str, was: str) -> None:
        for key in sorted({*old, *new}):
            inner = _pointer(key)
            if key not in new:
                self.note(ChangeKind.REMOVED, was + inner, was + inner, old=old[key])
            elif key not in old:
                self.note(ChangeKind.ADDED, path + inner, path + inner, new=new[key])
            else:
                self.values(old[key], new[key], path + inner, was + inner)

    def lists(self, old: list[Any], new: list[Any], path: str, was: str) -> None:
        pairs, moved = _align(old, new)
        for before, after in pairs:
            if after is None:
                self.note(
                    ChangeKind.REMOVED, f"{was}/{before}", f"{was}/{before}", old=old[before or 0]
                )
            elif before is None:
                self.note(ChangeKind.ADDED, f"{path}/{after}", f"{path}/{after}", new=new[after])
            else:
                self.values(old[before], new[after], f"{path}/{after}", f"{was}/{before}")
        if moved:
            self.note(ChangeKind.CHANGED, path, was, note="The same items in another order.")

    def note(self, kind: ChangeKind, path: str, was: str, *, note: str = "", **values: Any) -> None:
        match kind:
            case ChangeKind.ADDED:
                self.found.added += 1
            case ChangeKind.REMOVED:
                self.found.removed += 1
            case ChangeKind.CHANGED:
                self.found.changed += 1
        if len(self.found.changes) >= MOST:
            return
        lines = self._lines(values["old"], values["new"]) if len(values) == 2 else ()
        shown = {name: self._value(value, brief=bool(lines)) for name, value in values.items()}
        self.found.changes.append(
            Change(
                kind=kind,
                path=path,
                was_at=was if was != path else "",
                lines=lines,
                note=note,
                **shown,
            )
        )

    def _value(self, value: Any, *, brief: bool) -> ShownValue:
        text = codec.encode(value)
        if len(text) <= min(SHOWN, self.room) and not brief:
            self.room -= len(text)
            return ShownValue(text=text, size=len(text))
        beginning = text[: min(BEGINNING, max(0, self.room))] if not brief else ""
        self.room -= len(beginning)
        return ShownValue(text=beginning, size=len(text), digest=codec.digest(text))

    def _lines(self, old: Any, new: Any) -> Sequence[str]:
        """The unified diff of two texts, where they have lines; cut where it gets long."""
        if (
            not isinstance(old, str)
            or not isinstance(new, str)
            or "\n" not in old + new
            or self.room <= 0
        ):
            return ()
        before, after = invisible.lines_of(old), invisible.lines_of(new)
        if max(len(before), len(after)) > LINES:
            return ()
        lines: list[str] = []
        for line in _unified(before, after):
            if len(lines) == DIFF_LINES or self.room < len(line):
                lines.append("...[truncated]...")
                break
            lines.append(line if len(line) <= SHOWN else f"{line[:SHOWN]}...[truncated]...")
            self.room -= len(lines[-1])
        return lines


def _unified(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Without the two lines that name files; what differs in its line ends alone is said."""
    lines = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    return iter(lines or [" (only line ends differ)"])


def _same(old: Any, new: Any) -> bool:
    """As JSON: `1`, `1.0` and `true` are three values."""
    return type(old) is type(new) and bool(old == new)


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")


Pairs = list[tuple[int | None, int | None]]


def _align(old: list[Any], new: list[Any]) -> tuple[Pairs, bool]:
    """Which item was which, as (place then, place now), None where there is no such; and whether
    matched ones changed their order.
    """
    then, now = _ids(old), _ids(new)
    if then is not None and now is not None:
        return _by_id(then, now)
    return list(
        _by_content([codec.encode(item) for item in old], [codec.encode(item) for item in new])
    ), False


def _ids(items: list[Any]) -> list[str | int] | None:
    """The `id` of each item; None where one has none, or one that another has too."""
    item_ids = [item.get("id") if isinstance(item, Mapping) else None for item in items]
    if not all(
        isinstance(item, str | int) and not isinstance(item, bool) for item in item_ids
    ) or len(set(item_ids)) < len(item_ids):
        return None
    return item_ids  # type: ignore[return-value]  # as `all` has seen


def _by_id(then: list[str | int], now: list[str | int]) -> tuple[Pairs, bool]:
    places = {item: index for index, item in enumerate(then)}
    kept = set(now)
    pairs: Pairs = [(index, None) for index, item in enumerate(then) if item not in kept]
    pairs += [(places.get(item), index) for index, item in enumerate(now)]
    common = [places[item] for item in now if item in places]
    return pairs, common != sorted(common)


def _by_content(then: list[str], now: list[str]) -> Iterator[tuple[int | None, int | None]]:
    """What is equal at both ends is passed over; what is between is matched, in order, as far as it
    is short enough for that.
    """
    head = common_start(then, now)
    tail = common_start(reversed(then[head:]), reversed(now[head:]))
    before, after = then[head : len(then) - tail], now[head : len(now) - tail]
    if max(len(before), len(after)) > LINES:
        yield from _by_place(head, len(before), head, len(after))
        return
    for tag, first, last, begin, end in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if tag != "equal":
            yield from _by_place(head + first, last - first, head + begin, end - begin)


def common_start(one: Iterable[str], other: Iterable[str]) -> int:
    """Count the items that both begin with."""
    count = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        count += 1
    return count


def _by_place(
    first: int, count: int, begin: int, many: int
) -> Iterator[tuple[int | None, int | None]]:
    for index in range(max(count, many)):
        yield (first + index if index < count else None), (begin + index if index < many else None)
