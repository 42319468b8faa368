"""What went wrong with a request to a model, as the failure of the step that asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runs.agents.model import endings
from runs.agents.model.endpoints import ModelEndpoint, server
from runs.workflows.base import StepFailed

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


def failure_of(error: Exception, endpoint: ModelEndpoint) -> StepFailed:
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
                f"{who} refused the key. Check the credential “{endpoint.credential}”, then retry.",
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
                f"{who} was silent for longer than {server().silence:g} s.", code="model_silent"
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
    text = str(getattr(error, "body", "")).lower()
    return any(
        sign in text
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
    message = body.get("message") if isinstance(body, Mapping) else None
    return str(message or "it gave no reason")[:300]
