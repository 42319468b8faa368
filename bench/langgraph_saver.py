"""DjangoSaver against LangGraph's own PostgresSaver: the same graph, on the same PostgreSQL, in
turns.

A graph adds one message of about 1 KiB per step to a list: once to an ordinary list, which
LangGraph hands to its saver whole at every step, once to a delta channel. Messages are words in
random order, since text that repeats itself weighs next to nothing once it is compressed, by
either. WAL bytes are what the database had to write; nothing else writes to it meanwhile.
"""

from __future__ import annotations

import operator
import os
import random
import statistics
import time
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

from django.contrib.auth.models import User

from bench.growth import wal
from bench.workload import figure

STEPS = 60
"""Of one measurement."""
AT = (0, 1_000)
"""Messages that are there before."""
TURNS = 3
WORDS = [
    f"{left}{right}"
    for left in ("ka", "mo", "ru", "ti", "lo", "se", "va", "ne")
    for right in ("lin", "tor", "dash", "mek", "sul", "ban")
]


class Plain(TypedDict):
    messages: Annotated[list[str], operator.add]
    left: int


def delta_state() -> Any:
    from langgraph.channels.delta import DeltaChannel

    def extend(state: Any, writes: Any) -> list[str]:
        return [*state, *(item for write in writes for item in write)]

    fields = {"messages": Annotated[list[str], DeltaChannel(extend)], "left": int}
    return TypedDict("Delta", fields)  # type: ignore[operator]  # made by a call


def message(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=175))


def compile_graph(state: Any, saver: Any) -> Any:
    from langgraph.graph import END, START, StateGraph

    dice = random.Random(7)

    def work(given: Any) -> dict[str, Any]:
        return {"messages": [message(dice)], "left": given["left"] - 1}

    graph: Any = StateGraph(state)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda given: "work" if given["left"] > 0 else END)
    return graph.compile(checkpointer=saver)


def measure() -> Iterator[dict[str, Any]]:
    from langgraph.checkpoint.postgres import PostgresSaver

    from extensions.langgraph.saver import DjangoSaver

    owner = User.objects.get(username="bench")
    with (
        PostgresSaver.from_conn_string(os.environ["DATABASE_URL"]) as stock,
        DjangoSaver(owner=owner) as ours,
    ):
        stock.setup()
        for durability in ("async", "sync"):
            for at in AT:
                yield from compare(
                    f"a list, {durability}, history {at}", Plain, (stock, ours), at, durability
                )
        yield from flat(delta_state(), ours)


def compare(
    case: str, state: Any, savers: tuple[Any, Any], at: int, durability: str
) -> Iterator[dict[str, Any]]:
    sides: list[list[tuple[float, float]]] = [[], []]
    graphs = [compile_graph(state, saver) for saver in savers]
    for graph in graphs:
        take(graph, 0, durability)  # warms up
    for turn in range(TURNS):
        for side, graph in sorted(zip(sides, graphs, strict=True), key=lambda _: turn % 2 and -1):
            side.append(take(graph, at, durability))
    (stock_speed, stock_bytes), (speed, size) = (
        [statistics.median(values) for values in zip(*side, strict=True)] for side in sides
    )
    # the bar bounds from above: stock's steps per second over ours
    yield figure(
        f"steps per second: {case}",
        speed,
        "1/s",
        floor=stock_speed,
        ratio=stock_speed / speed,
        bar=1.0,
    )
    yield figure(
        f"WAL bytes per step: {case}",
        size,
        "B",
        floor=stock_bytes,
        ratio=size / stock_bytes,
        bar=1.0,
    )


def flat(state: Any, saver: Any) -> Iterator[dict[str, Any]]:
    """With a delta channel: bytes late in a history against early, over two of its snapshots, after
    a first one.
    """
    graph = compile_graph(state, saver)
    early, late = [], []
    for _ in range(TURNS):
        early.append(take(graph, 100, "async", steps=200, before=101)[1])
        late.append(take(graph, 2_000, "async", steps=200, before=101)[1])
    floor, value = statistics.median(early), statistics.median(late)
    yield figure(
        "WAL bytes per step: a delta channel at history 2000, against 100",
        value,
        "B",
        floor=floor,
        ratio=value / floor,
        bar=1.05,
    )


def take(
    graph: Any, at: int, durability: str, *, steps: int = STEPS, before: int = 1
) -> tuple[float, float]:
    """Steps per second, and WAL bytes per step, with a thread of its own that holds `at` messages
    and has made some steps before.
    """
    dice = random.Random(at)
    config = {
        "configurable": {"thread_id": str(uuid.uuid4())},
        "recursion_limit": (steps + before) * 2,
    }
    if at:
        graph.invoke(
            {"messages": [message(dice) for _ in range(at)], "left": before},
            config,
            durability=durability,
        )
    start, began = wal(), time.perf_counter()
    graph.invoke({"messages": [], "left": steps}, config, durability=durability)
    return steps / (time.perf_counter() - began), (wal() - start) / steps
