"""LangGraph graphs for the tests of the step that runs them.

`EFFECTS` counts what their nodes did in this process.
"""

from __future__ import annotations

import operator
from collections import Counter
from itertools import pairwise
from typing import Annotated, Any, TypedDict

from django.db import connection
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_store, get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send, interrupt
from langgraph_sdk.runtime import ServerRuntime

from tests.worlds import steps

EFFECTS: Counter[str] = Counter()


class State(TypedDict, total=False):
    topic: str
    log: Annotated[list[str], operator.add]
    answers: Annotated[list[Any], operator.add]
    name: str


def work(name: str) -> Any:
    def node(state: State) -> State:
        EFFECTS[name] += 1
        hook = steps.HOOKS.get(name)
        if callable(hook):
            try:
                hook()
            finally:
                connection.close()  # LangGraph runs nodes in threads of its own
        return {"log": [f"{name}: {state['topic']}"]}

    return node


def asking(value: Any, schema: Any = None) -> Any:
    def node(state: State) -> State:
        EFFECTS["ask"] += 1
        return {"answers": [interrupt(value, response_schema=schema)]}

    return node


def _line(*nodes: tuple[str, Any]) -> Any:
    graph: Any = StateGraph(State)
    names = [START, *(name for name, _ in nodes), END]
    for name, node in nodes:
        graph.add_node(name, node)
    for left, right in pairwise(names):
        graph.add_edge(left, right)
    return graph


def straight() -> Any:
    return _line(("a", work("a")), ("b", work("b")))


line = _line(("a", work("a")), ("ask", asking("Go on?")), ("b", work("b"))).compile()
"""a → ask → b"""

human = _line(
    (
        "ask",
        asking(
            {
                "action_request": {
                    "action": "send_mail",
                    "args": {"to": "a@example.org", "text": "Hi"},
                },
                "config": {
                    "allow_accept": True,
                    "allow_edit": True,
                    "allow_respond": True,
                    "allow_ignore": True,
                },
                "description": "A mail to Ana",
            }
        ),
    )
)
hitl = _line(
    (
        "ask",
        asking(
            {
                "action_requests": [
                    {"name": "drop", "args": {"table": "t"}, "description": "Drop it"},
                    {"name": "mail", "args": {"text": "done"}},
                ],
                "review_configs": [
                    {"action_name": "drop", "allowed_decisions": ["approve", "reject"]},
                    {
                        "action_name": "mail",
                        "allowed_decisions": ["approve", "edit", "reject", "respond"],
                    },
                ],
            }
        ),
    ),
)
form = _line(
    (
        "ask",
        asking(
            {"question": "When?"},
            {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
        ),
    )
)
data = _line(("ask", asking({"question": "Which?", "among": ["x", "y"]})))
secretive = _line(
    ("ask", asking("Log in", {"type": "object", "properties": {"password": {"type": "string"}}}))
)


def twice() -> Any:
    """One node that asks two times."""

    def node(state: State) -> State:
        EFFECTS["ask"] += 1
        return {"answers": [interrupt("First?"), interrupt("Second?")]}

    return _line(("ask", node))


def parallel() -> Any:
    """Three that ask at the same time, and one behind them."""

    def ask(state: Any) -> State:
        given = interrupt(f"{state['name']}?")
        EFFECTS[f"after {state['name']}"] += 1
        return {"answers": [f"{state['name']}: {given}"]}

    graph: Any = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_node("b", work("b"))
    graph.add_conditional_edges(
        START, lambda state: [Send("ask", {"name": name}) for name in ("x", "y", "z")], ["ask"]
    )
    graph.add_edge("ask", "b")
    graph.add_edge("b", END)
    return graph


def _beside(**asked: Any) -> Any:
    """Nodes that ask at the same time, each its own."""

    def node(name: str, value: Any) -> Any:
        def ask(state: State) -> State:
            given = interrupt(value)
            if isinstance(given, dict):
                return {"answers": given["decisions"]}
            return {"answers": [f"{name}: {given}"]}

        return ask

    graph: Any = StateGraph(State)
    for name, value in asked.items():
        graph.add_node(name, node(name, value))
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph


def pair() -> Any:
    """Two nodes, each of which names who is asked."""

    def for_(who: str) -> dict[str, Any]:
        return {"waystation_review": {"reviewers": {"users": [who]}}}

    return _beside(
        brand={"question": "Brand?", **for_("bea")}, legal={"question": "Legal?", **for_("ada")}
    )


def calls() -> Any:
    """Two nodes that each want to call a tool."""

    def call(name: str) -> dict[str, Any]:
        config = {"action_name": name, "allowed_decisions": ["approve", "reject", "respond"]}
        return {"action_requests": [{"name": name, "args": {}}], "review_configs": [config]}

    return _beside(drop=call("drop"), mail=call("mail"))


def nested() -> Any:
    """A sub-graph that asks between two nodes of its own."""
    inner = _line(
        ("inside", work("inside")), ("ask", asking("Inside?")), ("rest", work("rest"))
    ).compile()
    graph: Any = StateGraph(State)
    graph.add_node("before", work("before"))
    graph.add_node("sub", inner)
    graph.add_edge(START, "before")
    graph.add_edge("before", "sub")
    graph.add_edge("sub", END)
    return graph


def looping() -> Any:
    graph: Any = StateGraph(State)
    graph.add_node("a", work("a"))
    graph.add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: END if len(state["log"]) >= 30 else "a")
    return graph


def talking() -> Any:
    """A model that streams, a tool that it calls, and a node that says something of its own."""
    model = GenericFakeChatModel(messages=iter([AIMessage("Hello there, friend")]))

    def call(state: Any) -> Any:
        return {
            "messages": [
                AIMessage("", tool_calls=[{"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}])
            ]
        }

    def tool(state: Any) -> Any:
        get_stream_writer()({"progress": 50})
        return {"messages": [ToolMessage("3", tool_call_id="c1", name="add")]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("call", call)
    graph.add_node("tool", tool)
    graph.add_node("say", lambda state: {"messages": [model.invoke([HumanMessage("Hi")])]})
    for left, right in ((START, "call"), ("call", "tool"), ("tool", "say"), ("say", END)):
        graph.add_edge(left, right)
    return graph


def in_a_loop() -> Any:
    """Nodes that only run in an event loop."""

    async def node(state: State) -> State:
        EFFECTS["async"] += 1
        return {"log": ["async"], "answers": [interrupt("Go on?")]}

    return _line(("ask", node))


stopping = _line(("a", work("a"))).compile(interrupt_before=["a"])
no_graph = object()


def noting() -> Any:
    """Notes in the store of whoever the thread belongs to, asks, and says what it finds there."""

    def note(state: State, runtime: Runtime) -> State:
        assert runtime.store is not None
        runtime.store.put(("seen", "today"), state["topic"], {"n": 1})
        return {"log": ["noted"]}

    async def look(state: State) -> State:
        store = get_store()
        found = await store.asearch(("seen",), filter={"n": {"$gte": 1}})
        spaces = await store.alist_namespaces(prefix=("seen",), suffix=("today",))
        await store.adelete(("seen", "today"), "old")
        gone = await store.aget(("seen", "today"), "old")
        return {"log": [*(one.key for one in found), *("/".join(one) for one in spaces), str(gone)]}

    return _line(("note", note), ("ask", asking("Go on?")), ("look", look))


def searching_by_meaning() -> Any:
    def look(state: State, runtime: Runtime) -> State:
        assert runtime.store is not None
        return {"log": [one.key for one in runtime.store.search(("seen",), query="tea")]}

    return _line(("look", look))


async def made_by(config: RunnableConfig, runtime: ServerRuntime[Any], limit: int = 3) -> Any:
    """As LangGraph's server calls what makes a graph."""
    works = runtime.execution_runtime is not None
    place = config["configurable"].get("thread_id", "")[:4]
    said = f"{runtime.access_context} {works} {place} {limit}"

    async def tell(state: State) -> State:
        await runtime.store.aput(("made",), "by", {"said": said})
        return {"log": [said]}

    return _line(("tell", tell)).compile()
