"""LangGraph as `extensions.langgraph.graphs.step` sees it; imported when a step needs it.

A graph runs on a `DjangoSaver` of the run's own thread.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from django.conf import settings
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel
from langgraph.types import Command, StateSnapshot

from checkpoints import ids
from checkpoints.models import Thread
from checkpoints.state import codec
from extensions.langgraph.graphs import kept_drawings
from extensions.langgraph.graphs.drawing import described
from extensions.langgraph.graphs.loading import load, shape_of
from extensions.langgraph.graphs.questions import Raised
from extensions.langgraph.graphs.stores import AccountStore
from extensions.langgraph.saver.saver import DjangoSaver
from extensions.langgraph.saver.serializer import StrictSerializer
from runs.workflows.base import Context, StepFailed

if TYPE_CHECKING:
    from extensions.langgraph.graphs.inputs import GraphInput

KEY = "waystation_key"
"""Among what a node is configured with, and in each checkpoint's metadata: the execution of ours.

With the node's name it is an idempotency key.
"""
MODES = ("values", "updates", "messages", "custom")
CUT = 2_000
"""Characters of a node's update, of a tool's arguments and of its result that are told."""
WAITING = 100
"""Pieces that an asynchronous graph may be ahead."""
Piece = tuple[
    Literal["token", "node", "custom", "superstep", "tool_call_started", "tool_call_completed"], Any
]
"""Kind and content of what a graph does."""


@dataclass(frozen=True, kw_only=True)
class GraphPosition:
    """Where a graph stands by its own checkpoints."""

    checkpoint: str
    key: str
    """The execution of ours that wrote it."""
    raised: Sequence[Raised]
    """What it asks, in a fixed order."""
    unfinished: bool
    """It has something to do, without asking."""
    upcoming: Collection[str]
    """Nodes whose turn it is."""
    ended: Collection[str]
    """Nodes of the superstep that wrote it, where the run stops after some."""
    values: Mapping[str, Any]

    def value(self, name: str) -> Any:
        """The value of a key as JSON; raises StepFailed."""
        return plain(self.values[name], name)


@dataclass(kw_only=True)
class Graph:
    """A graph on its place: a thread and a space."""

    compiled: Any
    name: str
    space: str
    thread: str
    key: str
    limit: int | None
    shape: str
    stops: Sequence[str] = ()
    """Nodes before which it stops."""
    stops_after: Sequence[str] = ()
    seen: set[str] = field(default_factory=set)
    """Tool calls, and messages, that were told already."""

    @property
    def used(self) -> bool:
        """Whether there is any checkpoint."""
        return self.here() is not None

    def config(self, checkpoint: str = "") -> RunnableConfig:
        where = {
            "thread_id": self.thread,
            "checkpoint_ns": "",
            KEY: self.key,
            **({"checkpoint_id": checkpoint} if checkpoint else {}),
        }
        return {
            "configurable": where,
            "run_name": self.name,
            **({"recursion_limit": self.limit} if self.limit else {}),
        }

    def here(self) -> GraphPosition | None:
        """Where it stands; None where it has not begun."""
        snapshot = self.compiled.get_state(self.config())
        checkpoint = snapshot.config["configurable"].get("checkpoint_id")
        if not checkpoint or snapshot.metadata is None:
            return None
        nodes = {one.id: task.name for task in snapshot.tasks for one in task.interrupts}
        raised = [
            Raised(
                id=interrupt.id,
                node=nodes.get(interrupt.id, ""),
                value=plain(interrupt.value, "interrupt"),
                schema=plain(interrupt.response_schema, "response_schema"),
            )
            for interrupt in sorted(snapshot.interrupts, key=lambda interrupt: str(interrupt.id))
        ]
        return GraphPosition(
            checkpoint=checkpoint,
            key=str(snapshot.metadata.get(KEY, "")),
            raised=raised,
            # `next` leaves out tasks whose results are not taken in yet
            unfinished=bool(snapshot.tasks) and not raised,
            upcoming={task.name for task in snapshot.tasks},
            ended=self._ended(snapshot) if self.stops_after else (),
            values=snapshot.values if isinstance(snapshot.values, Mapping) else {},
        )

    def _ended(self, snapshot: StateSnapshot) -> set[str]:
        before = snapshot.parent_config
        if before is None or (snapshot.metadata or {}).get("source") != "loop":
            return set()
        config = self.config(before["configurable"]["checkpoint_id"])
        return {task.name for task in self.compiled.get_state(config).tasks}

    def has(self, checkpoint: str) -> bool:
        return self.compiled.checkpointer.get_tuple(self.config(checkpoint)) is not None

    def stream(self, turn: GraphInput) -> Iterator[Piece]:
        """Let it work on, and tell what it does.

        Raises StepFailed where its limit of supersteps is reached, and what its nodes raise.
        """
        given: Any = Command(resume=dict(turn.answers)) if turn.answers else turn.input
        options = {
            "stream_mode": list(MODES),
            "subgraphs": True,
            "durability": "sync",
            "interrupt_before": list(self.stops),
            "interrupt_after": list(self.stops_after),
        }
        config = self.config(turn.back_to)
        stream = _pumped if _asynchronous(self.compiled) else _streamed
        pieces = stream(self.compiled, given, config, options)
        try:
            for namespace, mode, content in pieces:
                yield from self._told(namespace, mode, content)
        except GraphRecursionError as error:
            message = (
                "The graph took as many supersteps as it may, without an end. What it did is "
                "kept; retry to let it go on."
            )
            raise StepFailed(message, code="graph_recursion_limit") from error
        finally:
            pieces.close()

    def _told(self, namespace: Sequence[str], mode: str, content: Any) -> Iterator[Piece]:
        match mode:
            case "values":
                if not namespace:
                    yield "superstep", None
            case "custom":
                yield (
                    "custom",
                    codec.readable(content)
                    if isinstance(content, str)
                    else plain(content, "custom"),
                )
            case "messages":
                message, _ = content
                if isinstance(message, AIMessage) and (text := _text(message)):
                    yield "token", text
            case "updates":
                for node, update in content.items():
                    if not node.startswith("__"):
                        yield from self._tools(update)
                        yield (
                            "node",
                            {
                                "graph": self.name,
                                "node": "/".join([*_names(namespace), node]),
                                "update": _cut(update),
                                **({"namespace": list(namespace)} if namespace else {}),
                            },
                        )

    def _tools(self, update: Any) -> Iterator[Piece]:
        """The calls of tools that a node's messages tell of, each once."""
        for message in _messages(update):
            for call in message.tool_calls if isinstance(message, AIMessage) else ():
                if self._first(f"started {call['id']}"):
                    yield (
                        "tool_call_started",
                        {
                            "id": str(call["id"]),
                            "tool": call["name"],
                            "arguments": _cut(call["args"]),
                        },
                    )
            if isinstance(message, ToolMessage) and self._first(
                f"completed {message.tool_call_id}"
            ):
                status = "failed" if message.status == "error" else "done"
                result = {
                    "id": message.tool_call_id,
                    "tool": message.name or "",
                    "result": _cut(_text(message)),
                    "status": status,
                }
                yield "tool_call_completed", result

    def _first(self, what: str) -> bool:
        known = what in self.seen
        self.seen.add(what)
        return not known


@contextmanager
def opened(context: Context, space: str) -> Iterator[Graph]:
    """The graph of a step, on the thread of its run. Nothing of it stays open afterwards."""
    thread = Thread.objects.select_related("owner", "team").get(
        pk=ids.parse(Thread.PREFIX, context.thread_id)
    )
    where = {"thread_id": thread.shown_id, KEY: context.key}
    store = AccountStore(thread.owner_id)
    compiled = load(context.config["graph"], config={"configurable": where}, store=store)
    shape = shape_of(compiled)
    kept_drawings.keep(context.config["graph"], shape, described(compiled))
    with (
        closing(store),
        DjangoSaver(
            owner=thread.owner, team=thread.team, serde=StrictSerializer(allow=_types())
        ) as saver,
    ):
        on_thread = saver.within(thread, space, before_writing=context.check)
        yield Graph(
            compiled=compiled.copy({"checkpointer": on_thread, "store": compiled.store or store}),
            name=context.config["graph"],
            space=space,
            thread=thread.shown_id,
            key=context.key,
            limit=context.config.get("recursion_limit"),
            shape=shape,
            stops=[name for name in context.stops if name in compiled.nodes],
            stops_after=[name for name in context.stops_after if name in compiled.nodes],
        )


def _types() -> list[tuple[str, ...]]:
    return [tuple(name.split(":")) for name in settings.WAYSTATION_GRAPH_TYPES]


def _asynchronous(compiled: Any) -> bool:
    """Whether a node, of a sub-graph too, has no synchronous function."""
    graphs = [compiled, *(graph for _, graph in compiled.get_subgraphs(recurse=True))]
    return any(
        _no_function(node.bound)
        for graph in graphs
        if isinstance(graph, Pregel)
        for node in graph.nodes.values()
    )


def _no_function(bound: Any) -> bool:
    steps = getattr(bound, "steps", None) or [bound]
    return any(
        getattr(step, "func", True) is None and getattr(step, "afunc", None) is not None
        for step in steps
    )


def _streamed(
    compiled: Any, given: Any, config: RunnableConfig, options: Mapping[str, Any]
) -> Generator[Any]:
    yield from compiled.stream(given, config, **options)


_END = object()


def _pumped(
    compiled: Any, given: Any, config: RunnableConfig, options: Mapping[str, Any]
) -> Generator[Any]:
    """What an asynchronous graph streams, which has an event loop in a thread of its own: none of
    ours may see one.
    """
    pieces: queue.Queue[Any] = queue.Queue(WAITING)
    over = threading.Event()

    def put(piece: Any) -> None:
        while not over.is_set():
            try:
                return pieces.put(piece, timeout=0.1)
            except queue.Full:
                continue

    async def work() -> None:
        async for piece in compiled.astream(given, config, **options):
            put(piece)
            if over.is_set():
                return

    def serve() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:  # noqa: BLE001  # carried to the step, whose it is
            put(error)
        else:
            put(_END)

    thread = threading.Thread(target=serve, name=f"graph {config.get('run_name')}", daemon=True)
    thread.start()
    try:
        while (piece := pieces.get()) is not _END:
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        over.set()
        thread.join()


def plain(value: Any, name: str) -> Any:
    """A graph's value as JSON: messages and models as what they hold, sets and tuples as lists.

    Raises StepFailed naming it.
    """
    made = _plain(value)
    try:
        codec.check(made, name)
    except codec.NotJson as error:
        raise StepFailed(
            f"The graph's {name} cannot be kept as JSON: {error}", code="graph_value"
        ) from error
    return made


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
    for name in ("model_dump", "isoformat"):
        if (turned := getattr(value, name, None)) is not None and not isinstance(value, type):
            return turned(mode="json") if name == "model_dump" else turned()
    return value


def _cut(value: Any) -> Any:
    """A value as it is told: as JSON where it is short, else the beginning of its text."""
    made = _plain(value)
    try:
        text = codec.encode(made)
    except (TypeError, ValueError):
        text = repr(value)
        made = text
    return made if len(text) <= CUT else f"{text[:CUT]}…"


def _messages(update: Any) -> Iterable[BaseMessage]:
    values = update.values() if isinstance(update, Mapping) else ()
    for value in values:
        yield from (
            message
            for message in (value if isinstance(value, list) else [value])
            if isinstance(message, BaseMessage)
        )


def _text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(
        str(part.get("text", ""))
        for part in message.content
        if isinstance(part, dict) and part.get("type") == "text"
    )


def _names(namespace: Sequence[str]) -> list[str]:
    return [part.partition(":")[0] for part in namespace]
