"""The way that a thread went through its workflow: which checkpoints came of which step. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from django.utils.translation import gettext, ngettext

from hitl.rendering.diagrams.workflow import Standing, drawn_ways
from runs.workflows.sequence import FrozenStep


class Trace(NamedTuple):
    """A checkpoint, as far as it counts here."""

    key: uuid.UUID
    parent: uuid.UUID | None
    step: str
    """The step that it came of; "" of the first one of a thread."""
    loop: int
    """How often that step had run in the run."""
    asks: bool
    """A question was asked there."""


@dataclass(frozen=True, kw_only=True)
class StepPath:
    """What came of a step."""

    title: str
    line: Sequence[uuid.UUID]
    """Checkpoints on the line that ends at the head, oldest first."""
    aside: Sequence[uuid.UUID]
    """Those on other branches."""
    times: int
    """How often the step was done on the line: an answer leaves a checkpoint too."""
    times_aside: int

    @property
    def words(self) -> str:
        """`done 2 times, and once on other branches`; "" for nothing."""
        parts = [gettext("done %(times)s") % {"times": _times(self.times)}] if self.times else []
        if self.times_aside:
            aside = {"times": _times(self.times_aside)}
            parts.append(gettext("%(times)s on other branches") % aside)
        return ", ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Path:
    """Where a thread stands, and how it came there."""

    standing: Standing
    steps: Sequence[StepPath]
    """Of the workflow, in its order, then steps that it does not have any more."""


def line_to(head: uuid.UUID | None, traces: Iterable[Trace]) -> list[Trace]:
    """The checkpoints from the oldest that is known to the head."""
    known = {trace.key: trace for trace in traces}
    line: list[Trace] = []
    while head is not None and (trace := known.pop(head, None)) is not None:
        line.append(trace)
        head = trace.parent
    return line[::-1]


def path_of(
    steps: Sequence[FrozenStep],
    traces: Sequence[Trace],
    head: uuid.UUID | None,
    *,
    at: str,
    waiting: bool,
    stopped: str = "",
) -> Path:
    """The path of a thread, from checkpoints in the order in which they were made.

    Args:
        at: the step that comes next, asks or failed; "" where the work is done.
        waiting: a question is open there.
        stopped: `failed` or `ended` where the run ended there; "" where it goes on.
    """
    line, drawn = line_to(head, traces), drawn_ways(steps)
    on_line = {trace.key for trace in line}
    titles = {step["name"]: step["title"] for step in steps}
    strange = dict.fromkeys(t.step for t in traces if t.step and t.step not in titles)
    known = {trace.key: trace for trace in traces}

    def is_done_there(trace: Trace) -> bool:
        before = known.get(trace.parent) if trace.parent else None
        return before is None or (before.step, before.loop) != (trace.step, trace.loop)

    done = {
        (name, here): sum(
            is_done_there(t) for t in traces if t.step == name and (t.key in on_line) == here
        )
        for name in (*titles, *strange)
        for here in (True, False)
    }
    paths = {
        name: StepPath(
            title=title,
            line=[t.key for t in line if t.step == name],
            aside=[t.key for t in traces if t.step == name and t.key not in on_line],
            times=done[name, True],
            times_aside=done[name, False],
        )
        for name, title in {**titles, **{name: name for name in strange}}.items()
    }
    states = {name: "done" for name in titles if paths[name].line}
    asked = {trace.step: "done" for trace in line if trace.asks}
    if waiting and any(step["name"] == at and step["pause_after"] for step in steps):
        asked[at] = "now"
    elif at in titles:
        states[at] = stopped or "now"
    gone = pairwise(trace.step for trace in line if trace.step in titles and is_done_there(trace))
    standing = Standing(
        steps=states,
        pauses=asked,
        notes={name: paths[name].words for name in titles},
        taken=list(dict.fromkeys(way for way in gone if way not in drawn)),
    )
    return Path(standing=standing, steps=[path for path in paths.values() if path.words])


def _times(count: int) -> str:
    return ngettext("once", "%(count)s times", count) % {"count": count}
