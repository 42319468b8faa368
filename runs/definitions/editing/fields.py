"""Make the JSON Schemas of the forms for a template and its steps: the schemas by which the rules
are checked, with the names that this server knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy

from checkpoints.state.reducers import REDUCERS
from runs.definitions import step_options
from runs.models.frequency import Frequency
from runs.workflows.reviews import rules
from runs.workflows.sequence import HEADINGS

DURATION, PERSON, GROUP = "waystation-duration", "waystation-person", "waystation-group"
"""Formats that only forms know."""
UNSHOWN = frozenset({"minItems", "pattern", "additionalProperties"})
"""Keywords that a form leaves to the check: how many entries a list has, how a name is written."""

NAMED = {
    "low": gettext_lazy("Low"),
    "normal": gettext_lazy("Normal"),
    "high": gettext_lazy("High"),
    "expire": gettext_lazy("The question expires"),
    "cancel": gettext_lazy("The run is cancelled"),
    "escalate": gettext_lazy("Further people are asked"),
    "approve": gettext_lazy("It counts as approved"),
}
"""What forms call the values of risks and of ends of deadlines."""


def of_step(names: Iterable[str], step: Mapping[str, Any]) -> dict[str, Any]:
    """Make the schema of what a step may say, besides its name and its step template.

    Args:
        names: of the template's steps.
        step: as it is now; the form offers the names in it, too.
    """
    to = {"title": "Leads to", **_one_of(names, _values_of(step.get("choices"), "to"))}
    choice = {
        "name": {"title": "Name", "type": "string"},
        "label": {"title": "Label", "type": "string"},
        "to": to,
        "approves": {
            "title": "It is an approval",
            "description": "As approve is. What asks for an approval passes for no other answer.",
            "type": "boolean",
            "default": False,
        },
    }
    options = _without_unshown(step_options.SCHEMA)["properties"]
    options["queue"] |= _one_of(settings.WAYSTATION_QUEUES, [step.get("queue")])
    waits = {"oneOf": [{"const": phase, "title": title} for phase, title in HEADINGS.items()]}
    options["on_failure"] |= _one_of(names, [step.get("on_failure")])
    review = _with_pickers(_without_unshown(rules.SCHEMA))
    counted = review["properties"]["deadline"]["properties"]["calendar"]
    now = step.get("review")
    deadline = now.get("deadline") if isinstance(now, Mapping) else None
    calendar = deadline.get("calendar") if isinstance(deadline, Mapping) else None
    stage = review["properties"]["stages"]["items"]["properties"]["deadline"]["properties"]
    stages = now.get("stages") if isinstance(now, Mapping) else None
    calendars = _values_of(_values_of(stages, "deadline"), "calendar")
    counted |= _one_of(step_options.calendars(), [calendar])
    stage["calendar"] |= _one_of(step_options.calendars(), calendars)
    return {
        "type": "object",
        "properties": {
            "pause_after": {
                "title": "Ask a person after this step",
                "type": "boolean",
                "default": False,
            },
            "pause_phase": {
                "title": "What the work then waits for",
                "anyOf": [waits, {"type": "string"}],
            },
            "max_revisions": {
                "title": "Rounds of revision",
                "description": "Default: 3.",
                "type": "integer",
            },
            "choices": {
                "title": "Further answers",
                "description": "Besides approve, revise and cancel.",
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": choice,
                    "required": ["name", "label", "to"],
                },
            },
            "revise_to": {
                "title": "Where a revision leads",
                "description": "Default: back to this step.",
                **_one_of(names, [step.get("revise_to")]),
            },
            **options,
            "review": {**review, "title": "Review"},
        },
    }


def of_template() -> dict[str, Any]:
    """Make the schema of what a template may say, besides its title, its steps and what an order
    brings.

    Reducers are a list of `{key, reducer}`.
    """
    reducer = {"title": "How it is merged", **_one_of(REDUCERS)}
    row = {"key": {"title": "Key of the state", "type": "string"}, "reducer": reducer}
    kept = _without_unshown(step_options.RETENTION)["properties"]
    for limit in kept.values():
        limit["description"] = "Default: as the settings say."
    return {
        "type": "object",
        "properties": {
            "reducers": {
                "title": "Reducers",
                "description": "How what steps write is merged into the state; else replaced.",
                "type": "array",
                "items": {"type": "object", "properties": row, "required": [*row]},
            },
            "state_schema": {
                "title": "What the state may hold",
                "description": "A JSON Schema: a step that writes something else fails.",
                "type": "object",
            },
            "frequency": {
                "title": "When checkpoints are written",
                "oneOf": [{"const": key, "title": label} for key, label in Frequency.choices],
            },
            "retention": {"title": "What is kept", "type": "object", "properties": kept},
            "size_budget": {
                "title": "Bytes that one run may write",
                "description": "Default: as the settings say.",
                "type": ["integer", "null"],
            },
        },
    }


def _without_unshown(schema: Any) -> Any:
    """Copy a schema for a form, without the keywords in UNSHOWN."""
    if isinstance(schema, Mapping):
        return {
            name: _without_unshown(part) for name, part in schema.items() if name not in UNSHOWN
        }
    return [_without_unshown(part) for part in schema] if isinstance(schema, list) else schema


def _with_pickers(schema: Any) -> Any:
    """Copy a schema for a form, in which durations have a unit and names may be picked."""
    if isinstance(schema, list):
        return [_with_pickers(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.items() >= rules.DURATION.items():
        return {"title": "After", **schema, "format": DURATION}
    made = {name: _with_pickers(part) for name, part in schema.items()}
    if (values := made.get("enum")) and values == [one for one in values if one in NAMED]:
        made["enumNames"] = [str(NAMED[value]) for value in values]
    for name, format_, title in (("users", PERSON, "Person"), ("groups", GROUP, "Group")):
        if isinstance(named := made.get(name), dict) and named.get("type") == "array":
            named["items"] = {**named["items"], "title": title, "format": format_}
    return made


def _one_of(names: Iterable[str], extra: Iterable[Any] = ()) -> dict[str, Any]:
    """Offer names, and those of `extra` that are names."""
    more = [name for name in extra if isinstance(name, str) and name]
    return {"enum": list(dict.fromkeys([*names, *more]))}


def _values_of(rows: Any, name: str) -> list[Any]:
    return (
        [row.get(name) for row in rows if isinstance(row, Mapping)]
        if isinstance(rows, list)
        else []
    )
