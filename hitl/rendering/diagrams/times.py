"""Where the time of a run went: at work, or waiting, and for what. Pure.

The spans are read from the events of the run's thread, which have no gaps.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from django.utils.formats import number_format
from django.utils.translation import gettext, gettext_lazy

from checkpoints.models import EventKind
from runs.states import GATHERED, GATHERS, SLEEPS, TRIES_AGAIN, PauseKind

What = Literal["work", "people", "children", "timer", "retry", "queue"]
WORK: What = "work"
PEOPLE: What = "people"
CHILDREN: What = "children"
TIMER: What = "timer"
RETRY: What = "retry"
QUEUE: What = "queue"
WHATS: tuple[What, ...] = (WORK, PEOPLE, CHILDREN, TIMER, RETRY, QUEUE)
WIDTH, LABELS, ROW, TOP = 720.0, 190.0, 30.0, 26.0
THINNEST = 2.0
"""Of a bar, so that a second in a week can be seen."""
TICKS = 4

KINDS = (
    EventKind.RUN_STARTED,
    EventKind.STEP_STARTED,
    EventKind.STEP_COMPLETED,
    EventKind.RUN_PAUSED,
    EventKind.RUN_RESUMED,
    EventKind.RUN_COMPLETED,
    EventKind.RUN_FAILED,
    EventKind.RUN_CANCELLED,
    EventKind.RUN_EXPIRED,
)
"""What begins or ends a span."""
ENDS = KINDS[5:]
ASKS = (EventKind.APPROVAL_REQUESTED, EventKind.AWAIT_HUMAN_INPUT)
"""Say what kind of question the next pause is of."""
BEGINS: Mapping[str, What] = {TRIES_AGAIN: RETRY, SLEEPS: TIMER, GATHERS: CHILDREN}
"""Code of a log line → what the run waits for from there on."""
CODES = (*BEGINS, GATHERED)
"""Codes of the log lines that count."""


class Moment(NamedTuple):
    """An event, as far as it counts here."""

    at: dt.datetime
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Span:
    """A piece of time in which one thing was the case."""

    what: What
    step: str
    """The step at work, or that asked, or that comes next; "" where none is known."""
    begin: dt.datetime
    end: dt.datetime
    open: bool = False
    """It lasts still; `end` is now."""

    @property
    def length(self) -> dt.timedelta:
        return max(self.end - self.begin, dt.timedelta(0))


def spans(moments: Iterable[Moment], *, asked_at: dt.datetime, now: dt.datetime) -> list[Span]:
    """The spans of a run or a line of runs, in order, without gaps from `asked_at` on.

    `moments` are in the order of the log. A worker that is lost counts as at work until another one
    begins the step again. Once a timer is over, a try is due or the child runs have ended, a run
    waits for a worker.
    """
    pieces: list[Span] = []
    what: What | None = QUEUE
    step, since = "", asked_at
    due: dt.datetime | None = None
    by_system = False

    def close(at: dt.datetime, name: str, *, still: bool = False) -> None:
        nonlocal since
        waits_from = min(at, due) if due is not None and what in {TIMER, RETRY} else at
        for kind, end in ((what, waits_from), (QUEUE, at)):
            if kind is not None and what is not None and end > since:
                last = still and end == at
                pieces.append(Span(what=kind, step=step or name, begin=since, end=end, open=last))
                since = end

    def turn(at: dt.datetime, to: What | None, name: str) -> None:
        nonlocal what, step, since, due
        close(at, name)
        what, step, since, due = to, name, max(at, since), None

    for at, kind, data in moments:
        data = data if isinstance(data, Mapping) else {}
        name = str(data.get("step") or "")
        if kind in ASKS:
            by_system = data.get("kind") == PauseKind.EXTERNAL
        elif kind == EventKind.LOG:
            if to := BEGINS.get(str(data.get("code"))):
                turn(at, to, name or step)
                due = _due(at, data)
            elif what == CHILDREN and data.get("code") == GATHERED:
                turn(at, QUEUE, step)
        elif kind == EventKind.STEP_STARTED:
            turn(at, WORK, name)
        elif kind == EventKind.RUN_PAUSED:
            turn(at, TIMER if by_system else PEOPLE, step)
        elif kind == EventKind.RUN_STARTED and what is not None:
            continue
        elif kind in ENDS:
            turn(at, None, "")
        else:
            turn(at, QUEUE, name if kind == EventKind.STEP_COMPLETED else "")
    close(now, "", still=True)
    return _joined(pieces)


def _due(at: dt.datetime, data: Mapping[str, Any]) -> dt.datetime | None:
    """When a run goes on that said so at that time; None where that cannot be read."""
    try:
        if data["code"] == TRIES_AGAIN:
            return at + dt.timedelta(seconds=float(data["seconds"]))
        until = dt.datetime.fromisoformat(data["until"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return until if until.tzinfo is not None else None


def _joined(pieces: Iterable[Span]) -> list[Span]:
    """Pieces of the same that touch each other are one."""
    joined: list[Span] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        if before and (before.what, before.step, before.end) == (
            piece.what,
            piece.step,
            piece.begin,
        ):
            joined[-1] = replace(before, end=piece.end, open=piece.open)
        else:
            joined.append(piece)
    return joined


def total(pieces: Iterable[Span], what: What, step: str | None = None) -> dt.timedelta:
    """How long in all, of one step where one is named."""
    return sum(
        (
            piece.length
            for piece in pieces
            if piece.what == what and (step is None or piece.step == step)
        ),
        dt.timedelta(0),
    )


def seconds(pieces: Sequence[Span], step: str | None = None) -> dict[str, float]:
    """What is the case → how many seconds in all, of one step where one is named."""
    return {what: round(total(pieces, what, step).total_seconds(), 3) for what in WHATS}


def ways(moments: Iterable[Moment]) -> list[tuple[str, str]]:
    """From step to step, as a run went: each way once, in the order it was first gone.

    A step that was begun again because its worker was lost went nowhere.
    """
    begun = [
        (str(data.get("step") or ""), data.get("loop_num"))
        for _, kind, data in moments
        if kind == EventKind.STEP_STARTED and isinstance(data, Mapping)
    ]
    gone = (
        (source, target)
        for (source, loop), (target, next_loop) in pairwise(begun)
        if source and target and (source, loop) != (target, next_loop)
    )
    return list(dict.fromkeys(gone))


def in_words(length: dt.timedelta) -> str:
    """`12 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`: two units at most."""
    seconds = length.total_seconds()
    if seconds < 10:
        return (
            f"{number_format(round(seconds, 1), 1)} s"
            if seconds >= 0.05
            else gettext("under 0.1 s")
        )
    left, parts = round(seconds), []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A span as it is drawn, with what is said of it."""

    what: What
    x: float
    width: float
    title: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """A step or a child run, and its bars."""

    label: str
    y: float
    bars: Sequence[Bar]
    work: str
    people: str
    others: Sequence[str]
    """What it waited for else, in the order of `WHATS`. All in words, "" for none."""

    @property
    def text_y(self) -> float:
        return self.y + ROW / 2 + 1


@dataclass(frozen=True, kw_only=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Gantt:
    """Rows of bars over one line of time."""

    rows: Sequence[Row]
    ticks: Sequence[Tick]
    height: float
    width: float = WIDTH
    labels: float = LABELS


NAMES: Mapping[What, Any] = {
    WORK: gettext_lazy("at work"),
    PEOPLE: gettext_lazy("waiting for people"),
    CHILDREN: gettext_lazy("waiting for child runs"),
    TIMER: gettext_lazy("waiting for a timer or an event"),
    RETRY: gettext_lazy("waiting for another try"),
    QUEUE: gettext_lazy("waiting for a place or a worker"),
}


def chart(lines: Sequence[tuple[str, Sequence[Span]]]) -> Gantt | None:
    """Draw lines, each with its label, over the time from the first span to the last.

    None where nothing has happened yet.
    """
    pieces = [span for _, spans in lines for span in spans]
    if not pieces:
        return None
    first, last = min(span.begin for span in pieces), max(span.end for span in pieces)
    whole = max((last - first).total_seconds(), 0.001)
    scale = (WIDTH - LABELS - 10) / whole

    def place(at: dt.datetime) -> float:
        return round(LABELS + (at - first).total_seconds() * scale, 1)

    rows = [
        Row(
            label=label,
            y=TOP + number * ROW,
            bars=[
                Bar(
                    what=span.what,
                    x=place(span.begin),
                    width=round(max(span.length.total_seconds() * scale, THINNEST), 1),
                    title=f"{NAMES[span.what]}: {in_words(span.length)}",
                )
                for span in spans
            ],
            work=_said(total(spans, WORK)),
            people=_said(total(spans, PEOPLE)),
            others=[_said(total(spans, what)) for what in WHATS[2:]],
        )
        for number, (label, spans) in enumerate(lines)
    ]
    ticks = [
        Tick(
            x=round(LABELS + whole * scale * number / TICKS, 1),
            label=in_words(dt.timedelta(seconds=whole * number / TICKS)) if number else "0",
        )
        for number in range(TICKS + 1)
    ]
    return Gantt(rows=rows, ticks=ticks, height=TOP + len(rows) * ROW + 6)


def _said(length: dt.timedelta) -> str:
    return in_words(length) if length else ""
