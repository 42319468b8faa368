"""What a step template says of an agent: read, and checked when it is saved.

    {"model": "openai:gpt-5-mini", "base_url": "", "credential": "openai",
     "instructions": "… {{revision_feedback}} {{state.plan}} …",
     "prompt": "", "tools": ["clock", "ask_human"], "output_schema": {…}, "output_mode": "tool",
     "max_loops": 15, "limits": {"tokens": 200000, "cost": 0.5, "tool_calls": 40, "seconds": 600},
     "history": {"tokens": 50000}, "approvals": [rules]}

All of it may be left out. Without `model` the server's own is asked
(`runs.agents.model.configure`); `scripted` is the offline one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from runs.agents import approval, tools
from runs.agents.approval import ApprovalRule
from runs.agents.tools import Tool, UnknownTool, find
from runs.workflows import schemas
from runs.workflows.base import ConfigInvalid, StepFailed

SCRIPTED = "scripted"
PROVIDERS = ("openai", "anthropic")
"""`openai` is any endpoint that speaks OpenAI's chat completions."""
ASK_HUMAN = "ask_human"
"""The tool by which a model asks a person: known to the loop, in no registry
(HumanFeedbackTool).
"""
MAX_LOOPS = 15
HISTORY, LEAST_HISTORY = 50_000, 500
"""Tokens of a request: where neither template nor server say, and the least that may be said."""
SCHEMA = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "maxLength": 200},
        "base_url": {"type": "string", "maxLength": 500},
        "credential": {"type": "string", "maxLength": 100},
        "instructions": {"type": "string", "maxLength": 100_000},
        "prompt": {"type": "string", "maxLength": 100_000},
        "tools": {
            "type": "array",
            "items": {"type": "string", "maxLength": 64},
            "maxItems": 100,
            "uniqueItems": True,
        },
        "output_schema": {"type": "object"},
        "output_mode": {"enum": ["tool", "native"]},
        "max_loops": {"type": "integer", "minimum": 1, "maximum": 100},
        "limits": {
            "type": "object",
            "properties": {
                "tokens": {"type": "integer", "minimum": 1},
                "cost": {"type": "number", "exclusiveMinimum": 0},
                "tool_calls": {"type": "integer", "minimum": 0},
                "seconds": {"type": "number", "exclusiveMinimum": 0},
            },
            "additionalProperties": False,
        },
        "history": {
            "type": "object",
            "properties": {"tokens": {"type": "integer", "minimum": LEAST_HISTORY}},
            "additionalProperties": False,
        },
        "approvals": {"type": "array"},
    },
    "additionalProperties": False,
}
PLAIN = ("model", "base_url", "credential", "instructions", "prompt", "output_mode", "max_loops")
_MODEL = re.compile(rf"{SCRIPTED}|({'|'.join(PROVIDERS)}):\S+")


@dataclass(frozen=True, kw_only=True)
class TurnLimits:
    """Of one turn; None is no limit."""

    tokens: int | None = None
    """Read and written, of all requests."""
    cost: float | None = None
    """US dollars."""
    tool_calls: int | None = None
    seconds: float | None = None
    """Of work: the time in which people are waited for does not count."""


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A step's configuration, read."""

    model: str = ""
    """`provider:name`, `scripted`, or "" for the server's own."""
    base_url: str = ""
    credential: str = ""
    """Name of the key (`Context.credential`); "" where the endpoint needs none."""
    instructions: str = ""
    prompt: str = ""
    """What a turn begins with; "" for the order's request, or the thread's message."""
    tools: Sequence[str] = ()
    output_schema: Mapping[str, Any] = field(default_factory=dict)
    output_mode: Literal["tool", "native"] = "tool"
    """How the final answer is given: by a call of a tool made of the schema, or as text that the
    endpoint holds to it.
    """
    max_loops: int = MAX_LOOPS
    limits: TurnLimits = TurnLimits()
    history: int | None = None
    """About how many tokens of a conversation are given to the model, with its instructions and
    tools (`window`); None for the server's.
    """
    approvals: Sequence[ApprovalRule] = ()

    @property
    def registered(self) -> list[Tool]:
        """Its tools, without the one that asks a person.

        Raises StepFailed for one that this server does not have any more.
        """
        try:
            return [find(name) for name in self.tools if name != ASK_HUMAN]
        except UnknownTool as error:
            raise StepFailed(
                f"{error} Name another one in the step template, then start again.", code=error.code
            ) from error


def check(config: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid where an agent cannot be made of this."""
    _shape(config)
    for name in config.get("tools", []):
        try:
            _ = name == ASK_HUMAN or find(name)
        except UnknownTool as error:
            raise ConfigInvalid.of(
                "tools", f"{error} Known are {', '.join([*tools.names(), ASK_HUMAN])}."
            ) from error
    read(config)


def _shape(config: Mapping[str, Any]) -> None:
    if errors := schemas.config_faults(SCHEMA, config):
        raise ConfigInvalid(errors)
    model, url = config.get("model", ""), config.get("base_url", "")
    if model and not _MODEL.fullmatch(model):
        expected = (
            f"Write {SCRIPTED}, or a provider and a name such as openai:gpt-5-mini; providers are "
            f"{' and '.join(PROVIDERS)}."
        )
        raise ConfigInvalid.of("model", expected)
    check_url(url)


def check_url(url: str) -> None:
    """Raise ConfigInvalid for an endpoint's address that is none."""
    parts = urlsplit(url)
    if url and (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or parts.username
        or parts.query
        or parts.fragment
    ):
        raise ConfigInvalid.of(
            "base_url", "Write https://host/v1, without a user, a password or a question mark."
        )


def read(config: Mapping[str, Any]) -> Agent:
    """The configuration of an agent; raises ConfigInvalid."""
    _shape(config)
    try:
        rules = approval.parse(config.get("approvals", []), tools=config.get("tools", []))
    except approval.RulesRefused as error:
        raise ConfigInvalid(
            {f"approvals.{place}".rstrip("."): texts for place, texts in error.errors.items()}
        ) from error
    try:
        wanted = (
            schemas.check_inputs(dict(config["output_schema"]))
            if config.get("output_schema")
            else {}
        )
    except schemas.SchemaRefused as error:
        raise ConfigInvalid.of("output_schema", str(error)) from error
    plain = {name: config[name] for name in PLAIN if name in config}
    limits = TurnLimits(**config.get("limits", {}))
    history = config.get("history", {}).get("tokens")
    return Agent(
        **plain,
        tools=tuple(config.get("tools", ())),
        output_schema=wanted,
        limits=limits,
        history=history,
        approvals=rules,
    )
