"""The span of a request to a model, by OpenTelemetry's attributes for them: which model, how many
tokens. What was said is in none.

Its API comes with pydantic-ai, and does nothing where the process makes no spans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from runs.agents.model.endpoints import ModelEndpoint, name_of


class Answer(Protocol):
    """What of an answer is told."""

    @property
    def model(self) -> str: ...

    @property
    def input_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...


Answered = Callable[[Answer], None]


@contextmanager
def chat(endpoint: ModelEndpoint) -> Iterator[Answered]:
    """The span of one request, below the step's; gives what is called with the answer."""
    from opentelemetry import trace  # here: as pydantic-ai, with the first request

    name = name_of(endpoint.model)
    model = name.partition(":")[2] or name
    about = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": endpoint.provider or name,
        "gen_ai.request.model": model,
    }
    with trace.get_tracer("waystation").start_as_current_span(
        f"chat {model}",
        kind=trace.SpanKind.CLIENT,
        attributes=about,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:

        def note_reply(reply: Answer) -> None:
            span.set_attribute("gen_ai.response.model", reply.model)
            span.set_attribute("gen_ai.usage.input_tokens", reply.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", reply.output_tokens)

        try:
            yield note_reply
        except BaseException as error:
            span.set_attribute("error.type", getattr(error, "code", "") or type(error).__name__)
            span.set_status(trace.StatusCode.ERROR)
            raise
