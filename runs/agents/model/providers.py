"""The clients of models' providers: each connects to its endpoint's checked address alone."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from runs.agents.config import SCRIPTED
from runs.agents.model import scripted
from runs.agents.model.endpoints import ALLOWED_BY, ANTHROPIC, ModelEndpoint, server
from runs.security import ssrf
from runs.workflows.base import StepFailed
from runs.workflows.code import extras

if TYPE_CHECKING:
    from pydantic_ai import messages as wire
    from pydantic_ai.models import Model

CONNECT_SECONDS = 10.0


@asynccontextmanager
async def opened(endpoint: ModelEndpoint, key: str) -> AsyncIterator[Model]:
    """Give the model, with a connection that lasts as long as this context."""
    if endpoint.model == SCRIPTED:
        from pydantic_ai.models.function import FunctionModel

        yield FunctionModel(stream_function=_scripted, model_name=SCRIPTED)
        return
    extras.require(endpoint.provider)
    import httpx2

    name = endpoint.model.partition(":")[2]
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=server().silence)
    transport = (
        None
        if endpoint == server().default
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
    """Look up, once, the host of an endpoint that a template names and the address to connect to.

    Raises StepFailed.
    """
    who = f"The model {endpoint.model}"
    try:
        target, address = ssrf.check(endpoint.address, allow=server().allow, setting=ALLOWED_BY)
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
    """Make a transport that connects to the checked address only: if the name leads to another
    address later, that changes nothing.
    """
    import httpx2

    class Pinned(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.host.lower() != host:
                raise httpx2.ConnectError(
                    "a request to another host than the endpoint's is not made", request=request
                )
            # TLS still checks the certificate for the name
            request.extensions = {**request.extensions, "sni_hostname": host}
            request.url = request.url.copy_with(host=address)
            return await super().handle_async_request(request)

    return Pinned(verify=_trusted())


@cache
def _trusted() -> ssl.SSLContext:
    """Read the system's certificates, once: that takes longer than a request."""
    return ssl.create_default_context()


def _openai(endpoint: ModelEndpoint, name: str, key: str, client: Any) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    api = AsyncOpenAI(
        api_key=key or "none", base_url=endpoint.address, http_client=client, max_retries=0
    )
    if endpoint.base_url:
        return OpenAIChatModel(
            name,
            provider=OpenAICompatibleProvider("endpoint", openai_client=api, profile=_FINISHED),
        )
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=api), profile=_FINISHED)


_FINISHED: Any = {"openai_chat_streaming_requires_finish_reason": True}
"""A stream that ends without a finish reason counts as cut off."""


def _anthropic(endpoint: ModelEndpoint, name: str, key: str, client: Any) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    api = AsyncAnthropic(
        api_key=key or "none", base_url=endpoint.address, http_client=client, max_retries=0
    )
    return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=api))


async def _scripted(history: list[wire.ModelMessage], about: Any) -> AsyncIterator[Any]:
    """Yield the scripted model's answer, in pieces."""
    from pydantic_ai import messages as wire
    from pydantic_ai.models.function import DeltaToolCall

    conversation = wire.ModelMessagesTypeAdapter.dump_python(history, mode="json")
    place = 0
    for piece in scripted.answer(conversation, [tool.name for tool in about.function_tools]):
        if isinstance(piece, str):
            yield piece
            # one word after the other, as a model does
            await asyncio.sleep(scripted.PACE)
        else:
            place += 1
            yield {
                place: DeltaToolCall(
                    name=piece.tool, json_args=piece.arguments, tool_call_id=f"call_{place}"
                )
            }
