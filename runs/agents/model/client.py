"""One request to a language model, and its answer.

This folder alone knows pydantic-ai, which is imported when a model is asked. A request runs in a
thread with an event loop of its own. So the step's thread stays free to pass on the text that
arrives, and to look whether the run is still wanted; where it is not, the request is cancelled and
its connection closed. Nothing is tried again here: the code of a failure says whether another try
may help, and the step's retry policy decides.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runs.agents.config import SCRIPTED
from runs.agents.model import endings, providers, spans
from runs.agents.model.endpoints import ANTHROPIC, ModelEndpoint, server
from runs.agents.model.failures import failure_of
from runs.workflows.base import StepFailed

if TYPE_CHECKING:
    from pydantic_ai import messages as wire
    from pydantic_ai.models import ModelRequestParameters

THINKING = "thinking"
HIDDEN = "[redacted]"
"""What stands where a value is not kept, since it is a secret or named like one."""
POLL = 0.1
"""Seconds between two looks whether the run is still wanted, while nothing comes."""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """A request."""

    messages: Sequence[Mapping[str, Any]]
    """The conversation, as `memory` keeps it."""
    instructions: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    """`{"name", "description", "parameters"}` each."""
    output: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema that the endpoint is asked to hold its text to; empty for none."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer. As JSON it is what `Context.once` records."""

    message: dict[str, Any]
    model: str
    input_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars; None where nobody knows the price."""
    thinking: str = ""
    """What the model thought aloud before it answered.

    In `message` only where its provider wants that back.
    """


@dataclass(frozen=True)
class Thought:
    """A piece of what a model thinks aloud."""

    text: str


@dataclass
class Listener:
    """Who asked, while the model answers."""

    say: Callable[[str], None]
    """Called with each piece of text, in the caller's thread."""
    check: Callable[[], None]
    """Raises where the answer is not wanted any more."""
    think: Callable[[str], None] = lambda text: None
    """As `say`, for pieces of thoughts."""
    until: float = float("inf")
    """On the monotonic clock: when the turn's time is up."""


Piece = str | Thought | Reply | Exception
"""What comes of a request: text, thoughts, and at the end the reply or what went wrong."""


def ask(
    endpoint: ModelEndpoint, asked: ModelRequest, listener: Listener, *, key: str = ""
) -> Reply:
    """The model's answer.

    Raises StepFailed with a code of `failure_of`, and what the listener's `check` raises.
    """
    with spans.chat(endpoint) as answered:
        reply = _answer(endpoint, asked, listener, key)
        answered(reply)
    return reply


def _answer(endpoint: ModelEndpoint, asked: ModelRequest, listener: Listener, key: str) -> Reply:
    pieces: queue.Queue[Piece] = queue.Queue()
    request = _Request(endpoint, asked, key, pieces.put)
    thread = threading.Thread(target=request.run, name="model request", daemon=True)
    thread.start()
    try:
        while True:
            got = _next(pieces, listener)
            if isinstance(got, Reply):
                return got
            if isinstance(got, Exception):
                raise failure_of(got, endpoint) from got
            if isinstance(got, Thought):
                listener.think(got.text)
            else:
                listener.say(got)
    finally:
        request.cancel()
        thread.join(providers.CONNECT_SECONDS)


def _next(pieces: queue.Queue[Piece], listener: Listener) -> Piece:
    while True:
        listener.check()
        if time.monotonic() > listener.until:
            raise StepFailed(
                "The turn took longer than it may. What was done so far is kept.",
                code="limit_seconds",
            )
        try:
            return pieces.get(timeout=POLL)
        except queue.Empty:
            continue


class _Request:
    """One request, in a thread and an event loop of its own. `put` takes what comes of it."""

    def __init__(
        self, endpoint: ModelEndpoint, asked: ModelRequest, key: str, put: Callable[[Piece], None]
    ) -> None:
        self._endpoint, self._asked, self._key, self._put = endpoint, asked, key, put
        self._cancelled = threading.Event()
        self._stop: Callable[[], object] = lambda: None

    def run(self) -> None:
        try:
            reply = asyncio.run(self._run())
        # handed to whoever asked, which knows what it means
        except Exception as error:  # noqa: BLE001
            self._put(error)
        except asyncio.CancelledError:
            self._put(StepFailed("The request was given up.", code="model_cut"))
        else:
            self._put(reply)

    def cancel(self) -> None:
        self._cancelled.set()
        self._stop()

    async def _run(self) -> Reply:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def stop() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

        self._stop = stop
        if self._cancelled.is_set():
            raise asyncio.CancelledError
        try:
            return await self._answer()
        finally:
            self._stop = lambda: None

    async def _answer(self) -> Reply:
        from pydantic_ai import messages as wire
        from pydantic_ai.direct import model_request_stream

        conversation = [
            _without_thoughts(_plain(message), self._endpoint) for message in self._asked.messages
        ]
        history = wire.ModelMessagesTypeAdapter.validate_python(conversation)
        last = history[-1]
        if self._asked.instructions and isinstance(last, wire.ModelRequest):
            history[-1] = replace(last, instructions=self._asked.instructions)
        asked = _parameters(self._asked)
        async with (
            providers.opened(self._endpoint, self._key) as model,
            model_request_stream(model, history, model_request_parameters=asked) as stream,
        ):
            async for event in stream:
                if (piece := _piece_of(event)) is not None:
                    self._put(piece)
            response = stream.get()
        return _reply(self._endpoint, response)


def _plain(value: Any) -> Any:
    """A state's read-only containers as ordinary ones."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _parameters(asked: ModelRequest) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    known = [
        ToolDefinition(
            name=tool["name"],
            description=tool["description"],
            parameters_json_schema=dict(tool["parameters"]),
        )
        for tool in asked.tools
    ]
    if not asked.output:
        return ModelRequestParameters(function_tools=known)
    wanted = OutputObjectDefinition(json_schema=_plain(asked.output), name="answer")
    return ModelRequestParameters(function_tools=known, output_mode="native", output_object=wanted)


def _piece_of(event: Any) -> str | Thought | None:
    """The text or the thought that a piece of the stream adds; None for pieces of calls, and for
    nothing.
    """
    from pydantic_ai import messages as wire

    match event:
        case (
            wire.PartStartEvent(part=wire.TextPart(content=text))
            | wire.PartDeltaEvent(delta=wire.TextPartDelta(content_delta=text))
        ):
            return text or None
        case (
            wire.PartStartEvent(part=wire.ThinkingPart(content=text))
            | wire.PartDeltaEvent(delta=wire.ThinkingPartDelta(content_delta=text))
        ):
            return Thought(text) if text else None
    return None


def _without_thoughts(message: Mapping[str, Any], endpoint: ModelEndpoint) -> dict[str, Any]:
    """A message without the thoughts that its endpoint does not want back."""
    return {
        **message,
        "parts": [
            part
            for part in message["parts"]
            if part["part_kind"] != THINKING or _is_wanted(part, endpoint)
        ],
    }


def _is_wanted(thought: Mapping[str, Any], endpoint: ModelEndpoint) -> bool:
    """Anthropic wants its own back as it signed them; those that speak OpenAI's chat completions
    want none, and some refuse them.
    """
    signed = thought.get("provider_name") == endpoint.provider == ANTHROPIC and bool(
        thought.get("signature")
    )
    return signed and HIDDEN not in str(thought.get("content"))


def _reply(endpoint: ModelEndpoint, response: wire.ModelResponse) -> Reply:
    from pydantic_ai import messages as wire

    [message] = wire.ModelMessagesTypeAdapter.dump_python(
        [response], mode="json", exclude_none=True
    )
    message.pop("usage", None)  # kept apart, as sums
    if endings.of(message).kind == endings.BROKEN:
        raise StepFailed(
            f"The model {endpoint.model} stopped in the middle of its answer.", code="model_cut"
        )
    thoughts = [
        str(part.get("content", "")) for part in message["parts"] if part["part_kind"] == THINKING
    ]
    usage = response.usage
    return Reply(
        message=_without_thoughts(message, endpoint),
        thinking="\n\n".join(filter(None, thoughts)),
        model=endpoint.model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=_cost(endpoint, response),
    )


def _cost(endpoint: ModelEndpoint, response: wire.ModelResponse) -> float | None:
    """By the operators' own table, else by genai-prices."""
    if endpoint.model == SCRIPTED:
        return 0.0
    usage, price = response.usage, server().prices.get(endpoint.model)
    if price is not None:
        return round(
            (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1_000_000, 8
        )
    try:
        return round(float(response.cost().total_price), 8)
    except (LookupError, ValueError, AssertionError):
        return None
