"""A workflow as a picture: its steps from top to bottom, where people are asked, and the ways back
and forth. Pure: the same steps give the same picture.

All lengths are in the units of the SVG's `viewBox`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from django.utils.translation import gettext, gettext_lazy

from hitl.rendering.own_words import own
from runs.workflows import sequence
from runs.workflows.registry import traits_of
from runs.workflows.sequence import FrozenStep

BOX, LEFT, TOP = 300, 210, 8
STEP, PAUSE, GAP = 54, 36, 30
LANE, BEND = 26, 8
"""Between two arcs that run beside each other; the radius of their corners."""
CHARACTER = 6.2
"""Width of a character of an arc's label, on average."""
TITLE, NOTE, LABEL = 36, 46, 26
"""Characters that fit on a box, below its title, and on an arc."""

Kind = Literal["start", "step", "pause", "end", "group"]
ArcKind = Literal["next", "revise", "choice", "skip", "failure", "taken"]


@dataclass(frozen=True, kw_only=True)
class Node:
    """A box: a step, or the pause after one."""

    key: str
    kind: Kind
    title: str
    note: str
    """What it says below its title: sub-steps, conditions, times."""
    y: float
    state: str = ""
    """`done`, `now`, `failed`, `ended`, `todo` or `left` in a run's picture; "" in a template's."""
    x: float = LEFT
    width: float = BOX
    tall: float = 0
    """Height of a box with others within it."""
    room: int | None = None
    """Characters that fit on it, where it is narrower than others."""

    @property
    def height(self) -> float:
        return self.tall or (STEP if self.kind == "step" else PAUSE)

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def text_y(self) -> float:
        """Baseline of the title."""
        if self.tall:
            return self.y + 20
        return self.middle + (-4 if self.kind == "step" and self.note else 5)

    @property
    def note_y(self) -> float:
        return self.text_y + 17 if self.tall else self.middle + 15

    @property
    def centre(self) -> float:
        return self.x + self.width / 2

    @property
    def shown(self) -> str:
        """The title as far as there is room."""
        return shortened(self.title, self.room or TITLE)

    @property
    def shown_note(self) -> str:
        return shortened(self.note, (self.room or TITLE) + NOTE - TITLE)


@dataclass(frozen=True, kw_only=True)
class Arc:
    """An arrow from one box to another."""

    kind: ArcKind
    path: str
    """The `d` of an SVG path."""
    label: str = ""
    x: float = 0
    y: float = 0
    """Where the label stands."""
    left: bool = False

    @property
    def shown(self) -> str:
        return shortened(self.label, LABEL)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What the template draws, and the same in sentences."""

    height: float
    nodes: Sequence[Node]
    arcs: Sequence[Arc]
    sentences: Sequence[str]
    """One for each step."""
    detours: Sequence[str]
    """One for each way that the run went and the template does not show."""
    left: float
    width: float


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a run stands, by the names of steps."""

    steps: Mapping[str, str] = field(default_factory=dict)
    """Step → `done`, `now`, `failed`, `ended`, `todo` or `left`."""
    pauses: Mapping[str, str] = field(default_factory=dict)
    """The same of the pause after a step."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Step → what it took, in words."""
    taken: Sequence[tuple[str, str]] = ()
    """Ways from step to step that the run went and the template does not show, in order."""


@dataclass
class Lanes:
    """Which lane beside the boxes is free between two heights."""

    first: float = 22
    apart: float = LANE
    used: list[list[tuple[float, float]]] = field(default_factory=list)

    def take(self, one: float, other: float) -> int:
        low, high = min(one, other), max(one, other)
        for number, spans in enumerate(self.used):
            if all(high < begin or end < low for begin, end in spans):
                spans.append((low, high))
                return number
        self.used.append([(low, high)])
        return len(self.used) - 1


def draw(
    steps: Sequence[FrozenStep],
    standing: Standing | None = None,
    *,
    endings: Mapping[str, FrozenStep] | None = None,
) -> Picture:
    """Draw the steps of a template, or of a run that stands there; `endings` are those that follow
    an end, by its name.
    """
    nodes, ends = _nodes(steps, standing), endings or {}
    at = {node.key: node for node in nodes}
    last = nodes[-1]
    arcs = [
        Arc(kind="next", path=f"M{a.centre:g} {a.y + a.height:g}V{b.y - 3:g}")
        for a, b in pairwise(nodes)
    ]
    left, right = Lanes(), Lanes()
    ways = [
        (kind, at[source], at.get(target, last), label)
        for kind, source, target, label in _ways(steps, standing)
    ]
    # the shortest first: they take the lanes next to the boxes
    for kind, begin, end, label in sorted(ways, key=lambda way: abs(way[1].y - way[2].y)):
        back = end.y <= begin.y
        arcs.append(beside(kind, begin, end, label, left if back else right, back=back))
    sentences = _sentences(steps, standing)
    y = last.y + last.height + 2 * GAP
    for why, step in ends.items():
        state = "" if standing is None else standing.steps.get(step["name"], "todo")
        note = str(AFTER[why])
        title = own(step["title"])
        nodes.append(Node(kind="step", key=step["name"], title=title, note=note, y=y, state=state))
        y += STEP + GAP
        sentences.append(f"{title}, {note}.")
    return framed(nodes, arcs, sentences=sentences, detours=_detours(steps, standing))


def framed(
    nodes: Sequence[Node],
    arcs: Sequence[Arc],
    *,
    sentences: Sequence[str],
    detours: Sequence[str] = (),
) -> Picture:
    """The picture that has room for these boxes, arrows and labels."""
    ends = [arc.x + (-1 if arc.left else 1) * CHARACTER * len(arc.shown) for arc in arcs if arc.x]
    first = min([LEFT, *ends]) - TOP
    return Picture(
        height=max(node.y + node.height for node in nodes) + TOP,
        nodes=nodes,
        arcs=arcs,
        sentences=sentences,
        detours=detours,
        left=round(first),
        width=round(max([LEFT + BOX, *ends]) + TOP - first),
    )


def _nodes(steps: Sequence[FrozenStep], standing: Standing | None) -> list[Node]:
    run = standing or Standing()
    nodes: list[Node] = []
    y: float = TOP

    def put(kind: Kind, key: str, title: str, note: str = "", state: str = "") -> None:
        nonlocal y
        node = Node(kind=kind, key=key, title=title, note=note, y=y, state=state)
        nodes.append(node)
        y += node.height + GAP

    for step in steps:
        name = step["name"]
        note = "; ".join(filter(None, [run.notes.get(name, ""), *_remarks(step)]))
        put(
            "step",
            name,
            own(step["title"]),
            note,
            run.steps.get(name, "" if standing is None else "todo"),
        )
        if step["pause_after"]:
            state = run.pauses.get(name, "" if standing is None else "todo")
            put("pause", _pause(name), own(sequence.pause_title(step)), state=state)
    put("end", "", "End")
    return nodes


def _pause(name: str) -> str:
    return f"{name}\0pause"


def _remarks(step: FrozenStep) -> list[str]:
    remarks = []
    sub_steps = step.get("sub_steps")
    if sub_steps and not traits_of(step["function"]).asks_beside:
        remarks.append(
            gettext("child runs: %(names)s")
            % {"names": ", ".join(own(sub["title"]) for sub in sub_steps)}
        )
    if step.get("skip_when") is not None:
        remarks.append(gettext("passed over on a condition"))
    if step.get("interrupt_before"):
        remarks.append(gettext("asks before"))
    return remarks


def _ways(
    steps: Sequence[FrozenStep], standing: Standing | None
) -> list[tuple[ArcKind, str, str, str]]:
    """Ways that do not lead to the next box: kind, from, to, label."""
    ways: list[tuple[ArcKind, str, str, str]] = []
    for step in steps:
        name = step["name"]
        if step["pause_after"]:
            ways.append(("revise", _pause(name), step["revise_to"], gettext("Revise")))
            ways += [
                ("choice", _pause(name), choice["to"], own(choice["label"]))
                for choice in step["choices"]
            ]
        if step.get("skip_when") is not None:
            ways.append(("skip", name, sequence.following(steps, name), gettext("passed over")))
        if to := step.get("on_failure"):
            ways.append(("failure", name, to, gettext("if it fails")))
    if standing is not None:
        ways += [("taken", source, target, "") for source, target in standing.taken]
    return ways


def beside(kind: ArcKind, begin: Node, end: Node, label: str, lanes: Lanes, *, back: bool) -> Arc:
    """An arrow beside the boxes: on the left where it leads back, else on the right."""
    out, into = begin.middle + (6 if begin is end else 0), end.middle - (6 if begin is end else 0)
    lane = lanes.take(out, into)
    side = begin.x if back else begin.x + begin.width
    sign = -1 if back else 1
    x = side + sign * (lanes.first + lane * lanes.apart)
    turn, bend = x - sign * BEND, BEND if into > out else -BEND
    path = (
        f"M{side:g} {out:g}H{turn:g}Q{x:g} {out:g} {x:g} {out + bend:g}"
        f"V{into - bend:g}Q{x:g} {into:g} {turn:g} {into:g}H{side + sign * 3:g}"
    )
    return Arc(kind=kind, path=path, label=label, left=back, x=x + sign * 6, y=(out + into) / 2 + 4)


def _sentences(steps: Sequence[FrozenStep], standing: Standing | None) -> list[str]:
    """What the picture shows, for whoever does not see it."""
    titles = {step["name"]: own(step["title"]) for step in steps}
    run = standing or Standing()
    sentences = []
    for step in steps:
        name = step["name"]
        parts = [own(step["title"]), *_remarks(step)]
        if standing is not None:
            parts.insert(1, str(STATES[run.steps.get(name, "todo")]))
            parts += [note] if (note := run.notes.get(name)) else []
        sentence = ", ".join(parts) + "."
        if step["pause_after"]:
            asked = own(sequence.pause_title(step))
            if standing is not None:
                asked += f" ({ASKED[run.pauses.get(name, 'todo')]})"
            sentence += " " + gettext("Then a person is asked: %(asked)s.") % {"asked": asked}
            back = titles.get(step["revise_to"], step["revise_to"])
            sentence += " " + gettext("Revise leads to %(step)s.") % {"step": back}
            for choice in step["choices"]:
                to = titles.get(choice["to"]) or gettext("the end")
                leads = {"answer": own(choice["label"]), "step": to}
                sentence += " " + gettext("%(answer)s leads to %(step)s.") % leads
        if rescue := step.get("on_failure"):
            sentence += " " + gettext("If it fails, the run goes to %(step)s.") % {
                "step": titles.get(rescue, rescue)
            }
        sentences.append(sentence)
    return sentences


def _detours(steps: Sequence[FrozenStep], standing: Standing | None) -> list[str]:
    titles = {step["name"]: own(step["title"]) for step in steps}
    return [
        gettext("The run went from %(step)s to %(next)s.")
        % {"step": titles[source], "next": titles[target]}
        for source, target in (standing.taken if standing else ())
    ]


AFTER = {
    sequence.ON_CANCEL: gettext_lazy("after a cancellation"),
    sequence.ON_EXPIRE: gettext_lazy("after it has expired"),
}
STATES = {
    "done": gettext_lazy("done"),
    "now": gettext_lazy("at work or next"),
    **dict.fromkeys(("failed", "ended"), gettext_lazy("stopped here")),
    "todo": gettext_lazy("to come"),
    "left": gettext_lazy("left out"),
}
ASKED = {
    **STATES,
    "done": gettext_lazy("answered"),
    "now": gettext_lazy("waiting for an answer"),
    **dict.fromkeys(("failed", "ended"), gettext_lazy("no answer")),
}


def drawn_ways(steps: Sequence[FrozenStep]) -> set[tuple[str, str]]:
    """From step to step, as the picture of these steps shows it."""
    ways = set()
    for step in steps:
        name = step["name"]
        ways |= {(name, sequence.following(steps, name)), (name, step["revise_to"])}
        ways |= {(name, choice["to"]) for choice in step["choices"]}
        ways |= {(name, step.get("on_failure", ""))}
    return ways


def standing_of(
    steps: Sequence[FrozenStep],
    parts: Sequence[Mapping[str, Any]],
    notes: Mapping[str, str],
    taken: Sequence[tuple[str, str]],
) -> Standing:
    """Where a run stands, from the parts of its progress: each step, and the pause after it."""
    states = iter(parts)
    of_steps, of_pauses = {}, {}
    for step in steps:
        of_steps[step["name"]] = next(states)["state"]
        if step["pause_after"]:
            of_pauses[step["name"]] = next(states)["state"]
    return Standing(steps=of_steps, pauses=of_pauses, notes=notes, taken=taken)
