"""Libraries that only some servers need: those of models' vendors and of forges.

Without them a step says what is missing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runs.workflows.base import StepFailed
from runs.workflows.registry import traits_of

AGENTS, FORGES = "agents", "forges"
BUILT = Path(__file__).resolve().parents[3] / "checkpoints/built.json"
"""As `checkpoints.text.extras` has it, which the SDK does not import."""
NEEDED = {
    "openai": ("openai", AGENTS, "Models of OpenAI, and of endpoints that speak its protocol,"),
    "anthropic": ("anthropic", AGENTS, "Models of Anthropic"),
    "github": ("github", FORGES, "Pull requests at GitHub"),
    "gitlab": ("gitlab", FORGES, "Merge requests at GitLab"),
}
"""Provider or kind of forge → the module, the extra that brings it, and what needs it."""


def missing(kind: str) -> str:
    """What to install before this can be used, as a sentence; "" where it is there, or needs
    nothing.
    """
    if kind not in NEEDED:
        return ""
    module, extra, purpose = NEEDED[kind]
    try:
        installed = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        installed = False
    return (
        ""
        if installed
        else (
            f"{purpose} need the library {module}, which is not installed on this server: pip "
            f"install {_named(extra)}"
        )
    )


def _named(extra: str) -> str:
    return f"'waystation[{extra}]'" if BUILT.exists() else f"-r requirements-{extra}.txt"


def require(kind: str) -> None:
    """Raise StepFailed where this cannot be used here."""
    if lack := missing(kind):
        raise StepFailed(f"{lack}, then restart the workers and retry.", code="not_installed")


def warnings_of(steps: Sequence[Mapping[str, Any]], *, default: str) -> list[str]:
    """Sentences about the models that these steps ask and this server cannot.

    Args:
        steps: frozen ones, or anything with `config` and `sub_steps`.
        default: the model of agents that name none, as `provider:name`.
    """
    named = {model or default for step in steps for model in _models(step)}
    return sorted(
        {warning for warning in (missing(model.partition(":")[0]) for model in named) if warning}
    )


def _models(step: Mapping[str, Any]) -> Iterator[str]:
    yield from _within(step.get("config", {}))
    if traits_of(step.get("function", "")).asks_servers_model and "model" not in step.get(
        "config", {}
    ):
        yield ""
    for inner in step.get("sub_steps", []):
        yield from _models(inner)


def _within(value: Any) -> Iterator[str]:
    """Names of models anywhere in a configuration: some executors hold another's."""
    if isinstance(value, Mapping):
        if isinstance(value.get("model"), str):
            yield value["model"]
        for inner in value.values():
            yield from _within(inner)
