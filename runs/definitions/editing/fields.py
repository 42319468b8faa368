"""What a person may set of a template and its steps, as JSON Schemas that forms are made of: the
schemas that the rules are checked by, with this server's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings

from checkpoints.state.reducers import REDUCERS
from runs.definitions import step_options
from runs.models.frequency import Frequency
from runs.workflows.reviews import rules
from runs.workflows.sequence import HEADINGS

UNSHOWN = frozenset({"minItems", "pattern", "additionalProperties"})
"""What a form leaves to the check: how many entries a list has, how a name is written."""


def of_step(names: Iterable[str], step: Mapping[str, Any]) -> dict[str, Any]:
    """What a step may say, besides its name and its step template.

    Args:
        names: of the template's steps.
        step: what it says so far, whose names are offered too.
    """
    to = {"title": "Leads to", **_one_of(names, _said(step.get("choices"), "to"))}
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
    options = _shown(step_options.SCHEMA)["properties"]
    options["queue"] |= _one_of(settings.WAYSTATION_QUEUES, [step.get("queue")])
    waits = {"oneOf": [{"const": phase, "title": title} for phase, title in HEADINGS.items()]}
    review = _shown(rules.SCHEMA)
    counted = review["properties"]["deadline"]["properties"]["calendar"]
    named = step.get("review")
    deadline = named.get("deadline") if isinstance(named, Mapping) else None
    said = deadline.get("calendar") if isinstance(deadline, Mapping) else None
    stage = review["properties"]["stages"]["items"]["properties"]["deadline"]["properties"]
    rows = named.get("stages") if isinstance(named, Mapping) else None
    inner = _said(_said(rows, "deadline"), "calendar")
    counted |= _one_of(step_options.calendars(), [said])
    stage["calendar"] |= _one_of(step_options.calendars(), inner)
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
                "description": "3 where this says nothing.",
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
                "description": "Back to this step where this says nothing.",
                **_one_of(names, [step.get("revise_to")]),
            },
            **options,
            "review": {**review, "title": "Review"},
        },
    }


def of_template() -> dict[str, Any]:
    """What a template may say besides its title, its steps and what an order brings.

    Reducers are a list of `{key, reducer}`.
    """
    reducer = {"title": "How it is merged", **_one_of(REDUCERS)}
    row = {"key": {"title": "Key of the state", "type": "string"}, "reducer": reducer}
    kept = _shown(step_options.RETENTION)["properties"]
    for limit in kept.values():
        limit["description"] = "As the settings say where this is empty."
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
                "description": "As the settings say where this is empty.",
                "type": ["integer", "null"],
            },
        },
    }


def _shown(schema: Any) -> Any:
    """A copy for a form."""
    if isinstance(schema, Mapping):
        return {name: _shown(part) for name, part in schema.items() if name not in UNSHOWN}
    return [_shown(part) for part in schema] if isinstance(schema, list) else schema


def _one_of(names: Iterable[str], said: Iterable[Any] = ()) -> dict[str, Any]:
    extra = [name for name in said if isinstance(name, str) and name]
    return {"enum": list(dict.fromkeys([*names, *extra]))}


def _said(rows: Any, name: str) -> list[Any]:
    return (
        [row.get(name) for row in rows if isinstance(row, Mapping)]
        if isinstance(rows, list)
        else []
    )
