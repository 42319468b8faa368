"""The step that runs a LangGraph graph: it goes on where the graph's own checkpoints say, and asks
what the graph asks.

The graph writes its checkpoints on the run's thread, in a space of the step's own. Our checkpoint
holds where the graph stood (`state["graph_runs"][step]`), and each of the graph's names the
execution of ours that wrote it. So whoever takes the run up knows whether the graph has already
begun with what is at hand:

- its newest checkpoint is of this execution: the graph goes on from there, with nothing;
- it is the one that ours names: the graph gets its input, or the answer, now;
- it is another one (our run was forked): LangGraph goes on from the one that ours names, as a
  branch, and asks anew what it asked there.

A finished node is not done again; one that was at work is, from its top, as is one that asked.
LangGraph itself is imported by `runner` and `loading` alone, and only when such a step runs or is
saved.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal

from checkpoints.text import extras
from extensions.langgraph.graphs import asking, named, questions
from extensions.langgraph.graphs.drawing import GraphPicture
from extensions.langgraph.graphs.inputs import (
    GRAPH_RUNS,
    QUESTION,
    REQUIREMENTS,
    GraphInput,
    SavedGraphPosition,
    installed,
)
from extensions.langgraph.graphs.questions import REPLY
from runs.workflows import pointers
from runs.workflows.base import ConfigInvalid, Context, Go, Outcome, Report, State, StepFailed
from runs.workflows.owned import Keeps
from runs.workflows.refusals import in_json
from runs.workflows.registry import Config, Lack, ServerSide, Setting, step

if TYPE_CHECKING:
    from extensions.langgraph.graphs.runner import Graph, GraphPosition

NAME = "langgraph"
MISSING = f"LangGraph is not installed on this server: {extras.install('langgraph', REQUIREMENTS)}."
KEEPS = {
    GRAPH_RUNS: Keeps(reducer="merge"),
    REPLY: Keeps(answered=True),
    asking.REPLIES: Keeps(),
}
OWN = {*KEEPS, *asking.KEEPS}
"""State keys that no graph's value is kept in."""
KEYS = {"graph", "input", "output", "recursion_limit"}
CONFIG: dict[str, Any] = {
    "type": "object",
    "properties": {
        "graph": {"type": "string", "description": "One that WAYSTATION_GRAPHS names."},
        "input": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": 'Input of the graph and where the state has it: {"topic": "/topic"}.',
        },
        "output": {
            "type": ["array", "object"],
            "description": "Keys of the graph to keep, whenever it asks and at its end.",
        },
        "recursion_limit": {"type": "integer", "minimum": 1, "maximum": 10_000},
    },
    "required": ["graph", "input"],
}
SAID_AGAIN = {"replace", "upsert_by_id"}
"""Reducers that make nothing twice of what joins the state twice."""
STOP = "The graph stops here {}. Approve to let it go on."
PREVIEW = 2_000
"""Characters of what a node did, or a tool gave, that go to the log."""


def check(config: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid where such a step cannot be configured so."""
    if errors := faults(config):
        raise ConfigInvalid(errors)


def faults(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """What is wrong with the configuration of such a step: field → sentences; empty where nothing
    is.
    """
    errors: dict[str, list[str]] = {}
    if strange := sorted(config.keys() - KEYS):
        errors[""] = [f"{', '.join(strange)}: a graph's step knows {', '.join(sorted(KEYS))}."]
    name, given, taken, limit = (
        config.get("graph"),
        config.get("input"),
        config.get("output", []),
        config.get("recursion_limit", 1),
    )
    if name not in named.names():
        known = ", ".join(named.names()) or "none yet"
        errors["graph"] = [
            f"{in_json(name, 60)} is no graph that WAYSTATION_GRAPHS of this server names, or "
            f"one of its modules registers; there is {known}."
        ]
    elif not installed():
        errors["graph"] = [MISSING]
    if not (
        isinstance(given, Mapping)
        and given
        and all(_pointer(pointer) for pointer in given.values())
    ):
        errors["input"] = [
            'An object: input of the graph → JSON pointer into the state, such as {"topic": '
            '"/order/input/topic"}.'
        ]
    if not (
        _names(taken)
        or (isinstance(taken, Mapping) and _names(list(taken.values())) and not OWN & taken.keys())
    ):
        errors["output"] = [
            "A list of the graph's keys, or an object: key of the state → key of the graph."
        ]
    if type(limit) is not int or not 1 <= limit <= 10_000:
        errors["recursion_limit"] = ["A whole number of supersteps, from 1 to 10000."]
    return errors


def _pointer(value: Any) -> bool:
    return isinstance(value, str) and (not value or value.startswith("/"))


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(name, str) and name and name not in OWN for name in value
    )


class Graphs(ServerSide):
    """Whether this server has the graph that a step names."""

    def lacks(self, config: Config, setting: Setting) -> Iterator[Lack]:
        yield from (
            ("graph_unavailable", text) for texts in faults(config).values() for text in texts
        )


@step(
    NAME,
    check=check,
    config=CONFIG,
    asks=True,
    keeps=KEEPS,
    server=Graphs(),
    picture=GraphPicture(),
    asks_beside=QUESTION,
)
def run_graph(state: State, context: Context) -> Outcome:
    """Run a graph until it ends or asks.

    Configuration: `graph` (a name in WAYSTATION_GRAPHS, or registered by a module), `input` (key of
    the graph → JSON pointer into the state, which has the order's `title`, `request` and `input`
    under `order`; what is not there is left out), `output` (keys of the graph that join the state,
    or key of the state → key of the graph), `recursion_limit`.
    """
    if wrong := faults(context.config):
        raise StepFailed(
            f"This step cannot run: {' '.join(text for texts in wrong.values() for text in texts)}",
            code="graph_unavailable",
        )
    from extensions.langgraph.graphs import runner

    place = _place(state, context)
    space = place.space if place else _space(context)
    with runner.opened(context, space) as graph:
        if place is not None and not graph.used:
            if place.status != "done":
                raise StepFailed(
                    "The checkpoints of the graph are gone, so it cannot go on. Begin anew.",
                    code="graph_lost",
                )
            place = None
        if place is not None and place.status != "done" and place.shape != graph.shape:
            context.log(
                "The graph's nodes or edges were changed since it began; it goes on with "
                "the new ones.",
                level="warning",
            )
        return _advanced(state, context, graph, place)


def _advanced(
    state: State, context: Context, graph: Graph, place: SavedGraphPosition | None
) -> Outcome:
    """Let the graph work, unless it did so before this worker came; and say what it came to."""
    here = graph.here()
    if here is not None and here.key == context.key:
        turn = GraphInput() if here.unfinished and not any(_stop(graph, here, place)) else None
    else:
        turn = _turn(state, context, graph, place, here)
    halted = turn is not None and _work(context, graph, turn)
    after = graph.here()
    assert after is not None  # it has worked
    before, behind = stop = _stop(graph, after, place)
    if halted or any(stop):
        words = STOP.format(f"after **{behind}**" if behind else f"before **{before}**")
        return Go(
            to=context.step,
            update={
                **_so_far(context, after),
                GRAPH_RUNS: {context.step: asdict(_stands(graph, after, "halted"))},
            },
            report=Report(content=words) if any(stop) else None,
            stop=before,
            stop_after=behind,
        )
    if after.raised:
        return _asking(state, context, graph, after)
    return Go(
        update={
            **_output(context, after),
            **asking.cleared(state),
            GRAPH_RUNS: {context.step: asdict(_stands(graph, after, "done"))},
        }
    )


def _stop(graph: Graph, at: GraphPosition, place: SavedGraphPosition | None) -> tuple[str, str]:
    """The node before which the run is to ask, or the one after which; "" where there is none. Of a
    place that our state names that was asked.
    """
    if at.raised or (place is not None and place.checkpoint == at.checkpoint):
        return "", ""
    behind = next((name for name in graph.stops_after if name in at.ended), "")
    upcoming = at.upcoming if at.unfinished and not behind else ()
    return next((name for name in graph.stops if name in upcoming), ""), behind


def _turn(
    state: State,
    context: Context,
    graph: Graph,
    place: SavedGraphPosition | None,
    here: GraphPosition | None,
) -> GraphInput | None:
    """What the graph goes on with in this execution, which it has not begun; None where it has
    nothing to do before it asks.
    """
    if place is None:
        return GraphInput(input=_input(state, context))
    # the graph went on since: our run is a fork
    if here is None or here.checkpoint != place.checkpoint:
        if not graph.has(place.checkpoint):
            raise StepFailed(
                "The checkpoint that the graph should go on from is gone. Begin anew.",
                code="graph_lost",
            )
        return GraphInput(
            input=_input(state, context) if place.status == "done" else None,
            back_to=place.checkpoint,
        )
    if place.status == "done":
        return GraphInput(input=_input(state, context))
    if place.status == "halted":
        return GraphInput() if here.unfinished else None
    if place.asked:
        given = asking.said_to(state, context, here.raised, place)
        if given is None:
            return GraphInput(back_to=place.checkpoint)
        return GraphInput(answers=given) if given else GraphInput() if here.unfinished else None
    action = asking.verdict(state, context)
    raised = next((question for question in here.raised if question.id == place.interrupt), None)
    if action and raised is None:
        return _taken(context, place, here)
    # asked again: a fork at the question
    if raised is None or not asking.is_answered(context.answered(context.step), raised, action):
        return GraphInput(back_to=place.checkpoint)
    if asking.digest(raised) != place.digest:
        raise asking.something_else()
    value = questions.answer(raised, action=action, state=state, context=context, step=context.step)
    context.once(f"answered {place.interrupt}", lambda: True, optional=True)
    return GraphInput(answers={raised.id: value})


def _taken(context: Context, place: SavedGraphPosition, here: GraphPosition) -> GraphInput | None:
    """What follows where the graph has its answer, but no new checkpoint yet: other nodes beside
    the one that asked wait for theirs.

    Where the answer was not this execution's, our run is a fork, and the graph asks again.
    """
    if not context.once(f"answered {place.interrupt}", lambda: False, optional=True):
        return GraphInput(back_to=place.checkpoint)
    return GraphInput() if here.unfinished else None


def _work(context: Context, graph: Graph, turn: GraphInput) -> bool:
    """Let the graph work and tell what it does; True where it was halted at the end of a superstep,
    False where it stopped by itself.
    """
    for kind, data in graph.stream(turn):
        match kind:
            case "token":
                context.stream(data)
            case "node":
                context.log(f"{data['node']} is done", **data)
            case "custom":
                words = _short(data)
                # what a client finds by its name: whole, or not at all
                is_whole = isinstance(data, Mapping) and len(words) <= PREVIEW
                whole = {"custom": data} if is_whole else {}
                context.log(words, graph=context.config["graph"], **whole)
            case "superstep":
                context.check()
                if context.halting():
                    return True
            case "tool_call_started" | "tool_call_completed":
                context.emit(kind, {**data, "loop_num": context.loop_num})
    return False


def _asking(state: State, context: Context, graph: Graph, after: GraphPosition) -> Outcome:
    """Ask what the graph asks: at once, or the first; the others come when that is answered."""
    place, so_far = _stands(graph, after, "asked"), _so_far(context, after)
    if named := asking.at_once(context, after.raised):
        asked = [[name, one.id, asking.digest(one)] for name, one in named.items()]
        return asking.ask_all(state, context, named, replace(place, asked=asked), update=so_far)
    raised, *others = after.raised
    place = replace(place, interrupt=raised.id, digest=asking.digest(raised))
    update = {**so_far, GRAPH_RUNS: {context.step: asdict(place)}}
    return asking.ask_one(state, context, raised, update=update, waiting=len(others))


def _stands(
    graph: Graph, after: GraphPosition, status: Literal["asked", "halted", "done"]
) -> SavedGraphPosition:
    return SavedGraphPosition(
        space=graph.space, checkpoint=after.checkpoint, status=status, shape=graph.shape
    )


def _output(context: Context, after: GraphPosition) -> dict[str, Any]:
    return {
        key: after.value(name) for key, name in _wanted(context).items() if name in after.values
    }


def _wanted(context: Context) -> Mapping[str, str]:
    """Key of the state → key of the graph."""
    wanted = context.config.get("output", [])
    return wanted if isinstance(wanted, Mapping) else {name: name for name in wanted}


def _so_far(context: Context, after: GraphPosition) -> dict[str, Any]:
    """What of the output joins the state where the graph stops or asks: the end says it again, so
    what would be doubled then waits for it, as does what is no JSON yet.
    """
    told = {}
    for key, name in _wanted(context).items():
        if name in after.values and context.reducers.get(key, "replace") in SAID_AGAIN:
            with suppress(StepFailed):
                told[key] = after.value(name)
    return told


def _input(state: State, context: Context) -> dict[str, Any]:
    order = {
        "title": context.order.title,
        "request": context.order.request,
        "input": context.order.input,
    }
    values = {
        key: _at({"order": order, **state}, pointer)
        for key, pointer in context.config["input"].items()
    }
    # a state is read-only
    given = {key: copy.deepcopy(value[0]) for key, value in values.items() if value}
    if not given:
        wanted = ", ".join(context.config["input"].values())
        raise StepFailed(
            f"The state holds nothing of what the graph begins with: {wanted}.",
            code="graph_input_missing",
        )
    return given


def _at(state: Any, pointer: str) -> list[Any]:
    """A list of the value at a JSON pointer (RFC 6901); an empty one where there is none."""
    found = pointers.find(state, pointer)
    return [] if found is pointers.NOTHING else [found]


def _place(state: State, context: Context) -> SavedGraphPosition | None:
    """What our state says of the step's graph; what anybody else wrote there says nothing."""
    kept = state.get(GRAPH_RUNS)
    match kept.get(context.step) if isinstance(kept, Mapping) else None:
        case {
            "space": str() as space,
            "checkpoint": str() as at,
            "status": "asked" | "halted" | "done" as status,
            **more,
        }:
            rest = {name: str(more.get(name, "")) for name in ("shape", "interrupt", "digest")}
            several = more.get("asked")
            asked = [
                [str(part) for part in one]
                for one in (several if isinstance(several, Sequence) else ())
                if isinstance(one, Sequence) and len(one) == 3
            ]
            if space.rpartition("@")[0] == context.step:
                return SavedGraphPosition(
                    space=space, checkpoint=at, status=status, asked=asked, **rest
                )
    return None


def _space(context: Context) -> str:
    """Of a graph that begins: another execution, such as a fork from before it began, begins in
    another one.
    """
    return f"{context.step}@{hashlib.sha256(context.key.encode()).hexdigest()[:12]}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]}…"
