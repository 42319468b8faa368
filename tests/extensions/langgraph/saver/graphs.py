"""Graphs for the tests of LangGraph's saver, built anew by each process that asks: `python -m
tests.extensions.langgraph.saver.graphs` makes
some.
"""

from __future__ import annotations

import operator
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    answers: Annotated[list[str], operator.add]
    name: str


def step(name: str) -> Any:
    def work(state: State) -> State:
        if path := os.environ.get("GRAPH_EFFECTS"):
            with Path(path).open("a") as effects:
                effects.write(f"{name}\n")
        if os.environ.get("GRAPH_DIES_IN") == name:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"log": [name]}

    return work


def line(saver: Any) -> Any:
    """a → ask → b → c"""
    graph = StateGraph(State)
    for name in ("a", "b", "c"):
        graph.add_node(name, step(name))
    graph.add_node(
        "ask",
        lambda state: {"answers": [interrupt({"question": "go on?", "so far": len(state["log"])})]},
    )
    for left, right in ((START, "a"), ("a", "ask"), ("ask", "b"), ("b", "c"), ("c", END)):
        graph.add_edge(left, right)
    return graph.compile(checkpointer=saver)


def parallel(saver: Any) -> Any:
    """Three askers at the same time."""

    def ask(state: Any) -> State:
        return {"answers": [f"{state['name']}: {interrupt(state['name'])}"]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_conditional_edges(
        START, lambda state: [Send("ask", {"name": name}) for name in ("x", "y", "z")], ["ask"]
    )
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver)


def nested(saver: Any) -> Any:
    """A sub-graph that asks, between two nodes."""
    inner = StateGraph(State)
    inner.add_node("inside", step("inside"))
    inner.add_node("ask", lambda state: {"answers": [interrupt("inside?")]})
    for left, right in ((START, "inside"), ("inside", "ask"), ("ask", END)):
        inner.add_edge(left, right)
    graph = StateGraph(State)
    graph.add_node("before", step("before"))
    graph.add_node("sub", inner.compile())
    graph.add_node("after", step("after"))
    for left, right in ((START, "before"), ("before", "sub"), ("sub", "after"), ("after", END)):
        graph.add_edge(left, right)
    return graph.compile(checkpointer=saver)


def looping(saver: Any, state: Any = State, times: int = 10) -> Any:
    """One message per step."""

    def work(given: Any) -> Any:
        number = len(given["log"])
        return {"log": [f"message {number} " + "x" * 100]}

    graph: Any = StateGraph(state)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges(
        "work", lambda given: END if len(given["log"]) % times == 0 else "work"
    )
    return graph.compile(checkpointer=saver)


GRAPHS = {"line": line, "parallel": parallel, "nested": nested}


def main(graph: str, owner: str, thread: str, *turns: str) -> None:
    """Each turn in a process of its own, forked from this one, which has no connection: `answer`,
    `answer/node to die in`, or `answer@other thread`.
    """
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    for turn in turns:
        turn, _, elsewhere = turn.partition("@")
        answer, _, dies_in = turn.partition("/")
        pid = os.fork()
        if not pid:
            os.environ["GRAPH_DIES_IN"] = dies_in
            take(graph, owner, elsewhere or thread, answer)
            sys.stdout.flush()
            os._exit(0)
        print("ended with", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def take(graph: str, owner: str, thread: str, answer: str) -> None:
    from django.contrib.auth.models import User

    from extensions.langgraph.saver import DjangoSaver

    given: Any = {"begin": {"log": ["in"]}, "": None}.get(answer, Command(resume=answer))
    with DjangoSaver(owner=User.objects.get(username=owner)) as saver:
        print(
            os.getpid(),
            GRAPHS[graph](saver).invoke(
                given, {"configurable": {"thread_id": thread}}, durability="sync"
            ),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
