"""What was said on a thread: the messages of its state, and the checkpoint before one of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from checkpoints import ids, store
from checkpoints.models import Checkpoint, Event, EventKind, Thread
from runs.models import Run
from runs.services import InputInvalid

MESSAGES = "messages"
"""State key: `{"id", "role", "content", "run_id", "loop", "tools", "at", "thinking", "left_out",
"ended"}` each, most of it optional.
"""
SPOKEN = (EventKind.STREAMING_CHUNK, EventKind.TOOL_CALL_STARTED, EventKind.TOOL_CALL_COMPLETED)
BOUNDS = (
    EventKind.STEP_STARTED, EventKind.STEP_COMPLETED, EventKind.APPROVAL_REQUESTED,
    EventKind.AWAIT_HUMAN_INPUT,
    EventKind.RUN_COMPLETED, EventKind.RUN_FAILED, EventKind.RUN_CANCELLED, EventKind.RUN_EXPIRED,
)  # fmt: skip
"""Events behind which the step that spoke before is not at work any more, or has just begun."""
LONGEST_THOUGHTS = 10_000
LATEST = 2_000
"""Pieces of a step at work that are read: of a longer one its end."""
OPEN = frozenset({"waiting", "running"})
"""Statuses of calls that only a run that is alive can have."""
WITHDRAWN = "withdrawn"
PEOPLE = frozenset({"user", "human"})
"""Roles of people."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call that is kept with the message that made it."""

    id: str
    tool: str
    arguments: Any = None
    result: str = ""
    status: str = ""
    """`done failed rejected answered waiting`, or what else the step wrote; `withdrawn` where its
    run ended before it was made.
    """
    ms: int | None = None
    decision: str = ""
    """Id of the decision that answered in the tool's place, or changed the arguments, as the step
    wrote it.
    """
    was: Any = None
    """The arguments as the model wanted them, where a person changed them; else None."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One thing that was said. Its content is Markdown, and untrusted."""

    id: str
    role: str
    content: str
    run_id: str = ""
    loop: int | None = None
    tools: Sequence[ToolCall] = ()
    at: str = ""
    interrupted: bool = False
    """It was cut off by the next message."""
    thinking: str = ""
    """What the model thought aloud before it; no part of what was said, and untrusted too."""
    imported: bool = False
    """No run of this server said or heard it: it came with a document."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """What of the conversation the model was not given for it: earlier `messages`, and `results` of
    tools that were shortened.
    """
    ended: str = ""
    """How it ended, where it is no whole answer: `length refusal content_filter empty`."""

    @property
    def by_person(self) -> bool:
        return self.role in PEOPLE


def of(state: Mapping[str, Any]) -> list[Message]:
    """The messages of a state, where it holds such; what is none is left out."""
    listed = state.get(MESSAGES)
    messages = (
        [_message(message, place) for place, message in enumerate(listed)]
        if isinstance(listed, list)
        else []
    )
    return [message for message in messages if message is not None]


def _message(one: Any, place: int) -> Message | None:
    if not isinstance(one, dict) or not isinstance(one.get("content"), str):
        return None
    listed = one.get("tools")
    tools = [
        call for call in map(_call, listed if isinstance(listed, list) else []) if call is not None
    ]
    ended = _words(one.get("ended"), 40)
    if not one["content"].strip() and not tools and not ended:
        return None
    return Message(
        id=_words(one.get("id"), 200) or f"#{place}",
        role=_words(one.get("role"), 40),
        content=one["content"],
        run_id=_words(one.get("run_id"), 60),
        loop=_number(one.get("loop")),
        tools=tools,
        at=_words(one.get("at"), 60),
        interrupted=one.get("interrupted") is True,
        thinking=_words(one.get("thinking"), LONGEST_THOUGHTS),
        left_out=_counts(one.get("left_out")),
        ended=ended,
    )


def _counts(value: Any) -> dict[str, int]:
    """Of what a step wrote, the two counts that are some."""
    counts = (
        {name: _number(value.get(name)) or 0 for name in ("messages", "results")}
        if isinstance(value, Mapping)
        else {}
    )
    return {name: number for name, number in counts.items() if number > 0}


def _call(one: Any) -> ToolCall | None:
    if not isinstance(one, dict) or not isinstance(one.get("tool"), str):
        return None
    result = one.get("result")
    return ToolCall(
        id=_words(one.get("id"), 200),
        tool=one["tool"][:200],
        arguments=one.get("arguments"),
        result="" if result is None else str(result),
        status=_words(one.get("status"), 40),
        ms=_number(one.get("ms")),
        decision=_words(one.get("decision"), 60),
        was=one.get("was"),
    )


def _words(value: Any, longest: int) -> str:
    return "" if value is None else str(value)[:longest]


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def marked(thread: Thread, messages: Sequence[Message]) -> Sequence[Message]:
    """The messages, where the thread was imported each with whether it came along: all that no run
    of this server is named for.
    """
    if thread.imported_at is None:
        return messages
    here = {run.shown_id for run in Run.objects.filter(thread=thread, imported_at=None).only("pk")}
    return [replace(message, imported=message.run_id not in here) for message in messages]


def settled(thread: Thread, messages: Sequence[Message]) -> Sequence[Message]:
    """The messages as their runs came to be: a state that says `waiting` of a call stays as it was
    when its run is cancelled, is answered with an end, fails, or makes way for another message.
    """
    if not any(call.status in OPEN for message in messages for call in message.tools):
        return messages
    live = Run.objects.live().filter(thread=thread).first()
    goes_on = set()
    while live is not None:  # a retry goes on with what an earlier run asked
        goes_on.add(live.shown_id)
        before = live.retry_of_id
        live = Run.objects.filter(pk=before, thread=thread).first() if before else None
    return [
        message
        if message.run_id in goes_on
        else replace(message, tools=[_withdrawn(call) for call in message.tools])
        for message in messages
    ]


def _withdrawn(call: ToolCall) -> ToolCall:
    return replace(call, status=WITHDRAWN) if call.status in OPEN else call


def turns_in(messages: Sequence[Message]) -> set[str]:
    """The ids of the messages that each began a turn: a person's first of its run.

    Those can be edited.
    """
    first: dict[str, str] = {}
    for message in messages:
        if message.by_person and message.run_id:
            first.setdefault(message.run_id, message.id)
    return set(first.values())


def spoken_by(run_id: uuid.UUID, thread_id: uuid.UUID, *, up_to: int | None = None) -> list[Event]:
    """What the step at work has said and which tools it has called since it began, oldest first; []
    where none works.

    Args:
        up_to: the last number of the log that counts.
    """
    mine = Event.objects.filter(
        thread=thread_id, run_id=run_id, **({} if up_to is None else {"seq__lte": up_to})
    )
    turn = mine.filter(kind__in=BOUNDS).order_by("-seq").first()
    if turn is None or turn.kind != EventKind.STEP_STARTED:
        return []
    return list(mine.filter(seq__gt=turn.seq, kind__in=SPOKEN).order_by("-seq")[:LATEST])[::-1]


def text_of(events: Sequence[Event]) -> str:
    """The streamed text of some events."""
    return _streamed(events, "content")


def thinking_of(events: Sequence[Event]) -> str:
    """The streamed thoughts of some events, which are no part of their text."""
    return _streamed(events, "thinking")


def _streamed(events: Sequence[Event], name: str) -> str:
    chunks = (
        event.data
        for event in events
        if event.kind == EventKind.STREAMING_CHUNK and isinstance(event.data, Mapping)
    )
    return "".join(str(data.get(name, "")) for data in chunks)


def cut_off(run: Run, state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Messages of a run that was cancelled which its state does not hold: what the person said, and
    what was streamed when it ended.
    """
    mine = [message for message in of(state) if message.run_id == run.shown_id]
    said = run.input.get("input") if isinstance(run.input, Mapping) else None
    about = {
        "run_id": run.shown_id,
        "tools": [],
        "at": (run.ended_at or run.created_at).isoformat(),
    }
    messages: list[dict[str, Any]] = []
    if isinstance(said, str) and said.strip() and not any(message.by_person for message in mine):
        messages.append(
            {**about, "id": f"msg_{run.shown_id}_said", "role": "user", "content": said}
        )
    loop = max((message.loop or 0 for message in mine), default=0) + 1
    if text := text_of(_spoken_before_the_end(run)).strip():
        messages.append(
            {
                **about,
                "id": f"msg_{run.shown_id}_cut",
                "role": "assistant",
                "content": text,
                "loop": loop,
                "interrupted": True,
            }
        )
    return messages


def _spoken_before_the_end(run: Run) -> list[Event]:
    """As `spoken_by`, of a run whose last events say that it was cancelled."""
    end = (
        Event.objects.filter(thread=run.thread_id, run_id=run.pk, kind=EventKind.RUN_CANCELLED)
        .order_by("-seq")
        .first()
    )
    return spoken_by(run.pk, run.thread_id, up_to=end.seq - 1) if end else []


def before(thread_id: uuid.UUID, head: Checkpoint | None, message_id: str) -> Checkpoint | None:
    """The checkpoint that a turn went on from; None where it was the thread's first.

    Args:
        message_id: that of the message that began the turn.
    Raises:
        InputInvalid: it is none, or what came before it is not kept any more.
        store.CheckpointDamaged: the latest state cannot be read.
    """
    messages = of(store.load(head)) if head else []
    message = next((message for message in messages if message.id == message_id), None)
    if message is None or message_id not in turns_in(messages):
        raise _unfit(
            "This thread's conversation has no message of this id that began a turn; only "
            "such a one can be replaced."
        )
    run = _began(thread_id, message)
    first = (
        Checkpoint.objects.filter(run_id=run.pk, thread=thread_id)
        .select_related("parent")
        .order_by("pk")
        .first()
        if run
        else None
    )
    if first is None or first.node_id or first.dropped_before:
        raise _unfit(
            "What came before this message is not kept any more, so it cannot be replaced."
        )
    return first.parent


def _began(thread_id: uuid.UUID, message: Message) -> Run | None:
    """The run that the message began; one that was retried began it, not the retry."""
    try:
        key: uuid.UUID | None = ids.parse(Run.PREFIX, message.run_id)
    except ValueError:
        return None
    run = None
    while (
        key is not None
        and (found := Run.objects.filter(pk=key, thread=thread_id).first()) is not None
    ):
        run, key = found, found.retry_of_id
    return run


def _unfit(words: str) -> InputInvalid:
    return InputInvalid.of("replaces", words)
