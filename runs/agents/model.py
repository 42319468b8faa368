"""Language models, by provider, name and address: the one module that knows pydantic-ai, which is
imported when a model is asked.

A request runs in a thread with an event loop of its own, so that the step's thread stays free to
say what comes and to look whether the run is still wanted; when it is not, the request is cancelled
and its connection closed. Nothing is tried again here: what may be is told by its code, and the
step's retry policy decides.
"""

from __future__ import annotations

import asyncio
import queue
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from runs.agents import endings, scripted
from runs.agents.config import HISTORY, SCRIPTED
from runs.security import ssrf
from runs.workflows import extras
from runs.workflows.base import ConfigInvalid, StepFailed

if TYPE_CHECKING:
    from pydantic_ai import messages as wire
    from pydantic_ai.models import Model, ModelRequestParameters

ANTHROPIC, THINKING = "anthropic", "thinking"
ADDRESSES = {"openai": "https://api.openai.com/v1", ANTHROPIC: "https://api.anthropic.com"}
"""Provider → its own endpoint. Always named: else its library takes one from the environment."""
ALLOWED_BY = "WAYSTATION_MODEL_ALLOW"
HIDDEN = "[redacted]"
"""What stands where a value is not kept, since it is a secret or named like one."""
POLL = 0.1
"""Seconds between two looks whether the run is still wanted, while nothing comes."""
CONNECT_SECONDS = 10.0
WORTH_RETRYING = (
    "model_busy",
    "model_unavailable",
    "model_unreachable",
    "model_cut",
    "model_silent",
    "model_odd",
)
"""Codes of failures that another try may mend; the others need a person."""
TOO_LONG = "context_overflow"
"""Code of a refusal because of the conversation's length."""


@dataclass(frozen=True, kw_only=True)
class ModelEndpoint:
    """A model, and where it is asked."""

    model: str
    """`provider:name`, or `scripted`."""
    base_url: str = ""
    """ "" is the provider's own."""
    credential: str = ""
    """Name of the key; "" for none."""

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]

    @property
    def address(self) -> str:
        """Where requests, and the key with them, are sent."""
        return self.base_url or ADDRESSES.get(self.provider, "")


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float


@dataclass(frozen=True, kw_only=True)
class ModelServer:
    """What operators settled for all agents (`configure`)."""

    default: ModelEndpoint = ModelEndpoint(model=SCRIPTED)
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By `provider:name`; others are priced by genai-prices, which comes with pydantic-ai."""
    silence: float = 60.0
    """Seconds that an endpoint may be silent in the middle of an answer."""
    history: int = HISTORY
    """About how many tokens of a conversation are given to a model whose template does not say."""
    allow: Sequence[str] = ()
    """Hosts, addresses and networks inside that endpoints named by templates may be at
    (`runs.security.ssrf`).
    """


_server = ModelServer()


def configure(server: ModelServer) -> None:
    """From now on agents whose template names no model ask this one."""
    global _server
    _server = server


def server() -> ModelServer:
    """What operators settled."""
    return _server


def default() -> ModelEndpoint:
    return _server.default


def history() -> int:
    return _server.history


def check_address(base_url: str) -> None:
    """Refuse an endpoint at an address inside, where that is plain without looking its name up.

    Raises ConfigInvalid.
    """
    try:
        if base_url and base_url != _server.default.base_url:
            ssrf.check_literal(base_url, allow=_server.allow, setting=ALLOWED_BY)
    except ssrf.AddressRefused as error:
        raise ConfigInvalid({"base_url": [str(error)]}) from error


def endpoint_of(model: str, base_url: str, credential: str) -> ModelEndpoint:
    """The endpoint that a template names; the server's own where it names none."""
    return (
        ModelEndpoint(model=model, base_url=base_url, credential=credential)
        if model
        else _server.default
    )


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

    Raises StepFailed with a code of `_failure`, and what the listener's `check` raises.
    """
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
                raise _failure(got, endpoint) from got
            if isinstance(got, Thought):
                listener.think(got.text)
            else:
                listener.say(got)
    finally:
        request.cancel()
        thread.join(CONNECT_SECONDS)


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

        told = [
            _without_thoughts(_plain(message), self._endpoint) for message in self._asked.messages
        ]
        history = wire.ModelMessagesTypeAdapter.validate_python(told)
        last = history[-1]
        if self._asked.instructions and isinstance(last, wire.ModelRequest):
            history[-1] = replace(last, instructions=self._asked.instructions)
        asked = _parameters(self._asked)
        async with (
            _model(self._endpoint, self._key) as model,
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
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


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


@asynccontextmanager
async def _model(endpoint: ModelEndpoint, key: str) -> AsyncIterator[Model]:
    """The model, with a connection that lasts as long as this."""
    if endpoint.model == SCRIPTED:
        from pydantic_ai.models.function import FunctionModel

        yield FunctionModel(stream_function=_scripted, model_name=SCRIPTED)
        return
    extras.require(endpoint.provider)
    import httpx2

    name = endpoint.model.partition(":")[2]
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=_server.silence)
    transport = (
        None
        if endpoint == _server.default
        else _pinned(*await asyncio.to_thread(_place_of, endpoint))
    )
    async with httpx2.AsyncClient(
        timeout=timeout,
        follow_redirects=False,
        trust_env=False,
        verify=_trusted(),
        transport=transport,
    ) as client:
        yield (
            _anthropic(endpoint, name, key, client)
            if endpoint.provider == ANTHROPIC
            else _openai(endpoint, name, key, client)
        )


def _place_of(endpoint: ModelEndpoint) -> tuple[str, str]:
    """The host of an endpoint that a template names, and the address to connect to, looked up once.

    Raises StepFailed.
    """
    who = f"The model {endpoint.model}"
    try:
        target, address = ssrf.check(endpoint.address, allow=_server.allow, setting=ALLOWED_BY)
    except ssrf.AddressRefused as error:
        raise StepFailed(
            f"{who} was not asked at {endpoint.address}. {error}", code="model_address"
        ) from error
    except ssrf.CannotReach as error:
        raise StepFailed(
            f"{who} could not be reached. {error}", code="model_unreachable"
        ) from error
    return target.host, address


def _pinned(host: str, address: str) -> Any:
    """A transport that connects to the address that was checked, and to nothing else: a name that
    answers otherwise changes nothing.
    """
    import httpx2

    class Pinned(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.host.lower() != host:
                raise httpx2.ConnectError(
                    "a request to another host than the endpoint's is not made", request=request
                )
            # TLS still asks for the name
            request.extensions = {**request.extensions, "sni_hostname": host}
            request.url = request.url.copy_with(host=address)
            return await super().handle_async_request(request)

    return Pinned(verify=_trusted())


@cache
def _trusted() -> ssl.SSLContext:
    """The system's certificates, read once: that takes longer than a request."""
    return ssl.create_default_context()


def _openai(endpoint: ModelEndpoint, name: str, key: str, client: Any) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    asked = AsyncOpenAI(
        api_key=key or "none", base_url=endpoint.address, http_client=client, max_retries=0
    )
    if endpoint.base_url:
        return OpenAIChatModel(
            name,
            provider=OpenAICompatibleProvider("endpoint", openai_client=asked, profile=_FINISHED),
        )
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=asked), profile=_FINISHED)


_FINISHED: Any = {"openai_chat_streaming_requires_finish_reason": True}
"""A stream that ends without saying that it is complete was cut off."""


def _anthropic(endpoint: ModelEndpoint, name: str, key: str, client: Any) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    asked = AsyncAnthropic(
        api_key=key or "none", base_url=endpoint.address, http_client=client, max_retries=0
    )
    return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=asked))


async def _scripted(history: list[wire.ModelMessage], about: Any) -> AsyncIterator[Any]:
    """What the scripted model says, in pieces."""
    from pydantic_ai import messages as wire
    from pydantic_ai.models.function import DeltaToolCall

    said = wire.ModelMessagesTypeAdapter.dump_python(history, mode="json")
    place = 0
    for one in scripted.answer(said, [tool.name for tool in about.function_tools]):
        if isinstance(one, str):
            yield one
            # says its words as a model does, one after the other
            await asyncio.sleep(scripted.PACE)
        else:
            place += 1
            yield {
                place: DeltaToolCall(
                    name=one.tool, json_args=one.arguments, tool_call_id=f"call_{place}"
                )
            }


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
    usage, price = response.usage, _server.prices.get(endpoint.model)
    if price is not None:
        return round(
            (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1_000_000, 8
        )
    try:
        return round(float(response.cost().total_price), 8)
    except (LookupError, ValueError, AssertionError):
        return None


def _failure(error: Exception, endpoint: ModelEndpoint) -> StepFailed:
    """What went wrong, in words for the person who asked.

    An endpoint's own words are shown only where they cannot hold the key.
    """
    from pydantic_ai import exceptions as kinds

    if isinstance(error, StepFailed):
        return error
    who, after = f"The model {endpoint.model}", float(getattr(error, "retry_after", None) or 0)
    status = getattr(error, "status_code", 0)
    match error:
        case kinds.ModelAuthenticationError():
            return StepFailed(
                f"{who} refused the key. Check the credential {endpoint.credential!r}, then retry.",
                code="model_key_refused",
            )
        case kinds.ModelNotFoundError():
            return StepFailed(
                f"{who} is not known at its endpoint. Check name and address in the template.",
                code="model_unknown",
            )
        case kinds.ModelQuotaExceededError():
            return StepFailed(
                f"{who} says that its quota is used up. Raise it there, then retry.",
                code="model_quota",
            )
        case kinds.ModelRateLimitError():
            return StepFailed(
                f"{who} takes no more requests at the moment.", code="model_busy", after=after
            )
        case kinds.ModelContextWindowExceededError():
            return StepFailed(f"{who}: the conversation is longer than it takes.", code=TOO_LONG)
        case kinds.ModelTimeoutError():
            return StepFailed(
                f"{who} was silent for longer than {_server.silence:g} s.", code="model_silent"
            )
        case kinds.ModelAPIError() if status in {408, 409, 425} or status >= 500:
            return StepFailed(
                f"{who} is away (HTTP {status}).", code="model_unavailable", after=after
            )
        case kinds.ModelAPIError() if 400 <= status < 500 and _speaks_of_length(error):
            return StepFailed(f"{who}: the conversation is longer than it takes.", code=TOO_LONG)
        case kinds.ModelAPIError() if (
            400 <= status < 500 and error.provider_error_code == endings.FILTER
        ):
            return StepFailed(
                f"{who} was not asked: a content filter stopped the request. Ask in other words.",
                code="answer_filtered",
            )
        case kinds.ModelAPIError() if 400 <= status < 500:
            return StepFailed(
                f"{who} refused the request (HTTP {status}): {_words(error)}", code="model_refused"
            )
        case kinds.ModelConnectionError():
            return StepFailed(
                f"{who} could not be reached, or its connection broke.", code="model_unreachable"
            )
        case kinds.ModelAPIError():
            return StepFailed(
                f"{who} stopped in the middle of its answer.", code="model_cut", after=after
            )
        case kinds.UnexpectedModelBehavior():
            return StepFailed(f"{who} gave an answer that cannot be read.", code="model_odd")
    kind = type(error).__module__.partition(".")[0]
    if kind in {
        "httpx2",
        "httpx",
        "httpcore",
        "httpcore2",
        "openai",
        "anthropic",
        "json",
        "pydantic_core",
    }:
        return StepFailed(
            f"{who} stopped in the middle of its answer ({type(error).__name__}).", code="model_cut"
        )
    raise error  # a mistake of ours: the engine tells of it


def _speaks_of_length(error: Any) -> bool:
    """Endpoints that answer 400 without a code of their own say it in words."""
    words = str(getattr(error, "body", "")).lower()
    return any(
        sign in words
        for sign in (
            "context length",
            "context_length",
            "context window",
            "maximum context",
            "too many tokens",
        )
    )


def _words(error: Any) -> str:
    """What an endpoint says of a request that it refused."""
    body = getattr(error, "body", None)
    told = body.get("message") if isinstance(body, Mapping) else None
    return str(told or "it gave no reason")[:300]
