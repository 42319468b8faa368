"""Tell operators whether a person would be asked about a tool's call, by which rule, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from runs.agents import approval, tools
from runs.agents.approval import ApprovalRule, Verdict
from runs.agents.tools import Tool, ToolFailed
from runs.definitions import templates
from runs.definitions.errors import TemplateInvalid
from runs.definitions.freezing import freeze_steps
from runs.models import Template
from runs.workflows.refusals import FieldsRefused, in_json
from runs.workflows.registry import traits_of
from runs.workflows.sequence import FrozenStep


class ToolNotFound(Exception):
    code = "tool_not_found"


class CallInvalid(FieldsRefused):
    """The question cannot be answered as it is put."""

    code = "call_invalid"

    def told(self, errors: Mapping[str, list[str]]) -> str:
        return " ".join(chain(*errors.values()))


@dataclass(frozen=True)
class AgentStep:
    """An agent's step of a current template: which tools it has, and by which rules it asks."""

    template: str
    step: str
    tools: Sequence[str]
    rules: Sequence[ApprovalRule]

    @property
    def name(self) -> str:
        return f"{self.template}/{self.step}"


@dataclass(frozen=True, kw_only=True)
class Explained:
    """What would become of a call."""

    tool: Tool
    offered: bool
    """Whether the step's agent has this tool at all."""
    verdict: Verdict


def places() -> list[AgentStep]:
    """List the agents' steps of all current templates; a template that cannot be frozen is left
    out.
    """
    return [
        place
        for template in Template.objects.current().order_by("slug")
        for place in _places_of(template)
    ]


def place(template: str, step: str) -> AgentStep:
    """Find an agent's step; raises TemplateNotFound, or CallInvalid where no such step is."""
    found = next(
        (
            agent_step
            for agent_step in _places_of(templates.current(template))
            if agent_step.step == step
        ),
        None,
    )
    if found is None:
        raise CallInvalid.of(
            "step", f"The template {in_json(template)} has no agent's step {in_json(step, 100)}."
        )
    return found


def _places_of(template: Template) -> Iterator[AgentStep]:
    try:
        steps = freeze_steps(template.steps)
    except TemplateInvalid:
        return
    for step in _agents(steps):
        config: Mapping[str, Any] = step["config"]
        try:
            yield AgentStep(
                template.slug,
                step["name"],
                tuple(config.get("tools", ())),
                approval.parse(config.get("approvals", [])),
            )
        except approval.RulesRefused:  # saved before this was checked; such a run fails and says so
            continue


def _agents(steps: Sequence[FrozenStep]) -> Iterator[FrozenStep]:
    for step in steps:
        if traits_of(step["function"]).uses_tools:
            yield step
        yield from _agents(step.get("sub_steps", []))


def explain(
    name: str,
    arguments: Mapping[str, Any],
    *,
    at: AgentStep | None = None,
    rules: Sequence[ApprovalRule] = (),
) -> Explained:
    """Tell what would become of a call with these arguments: by the rules of the step `at`, or by
    `rules` where there is none.

    Raises ToolNotFound, and CallInvalid where the tool would not take the arguments: then the model
    is told so, and nobody is asked.
    """
    try:
        tool = tools.find(name)
    except ToolFailed as error:
        raise ToolNotFound(str(error)) from error
    try:
        read = tools.read_arguments(tool, arguments)
    except ToolFailed as error:
        raise CallInvalid.of("arguments", str(error)) from error
    verdict = approval.explain(tool, read, rules if at is None else at.rules)
    return Explained(tool=tool, offered=at is None or name in at.tools, verdict=verdict)
