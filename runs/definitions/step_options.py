"""What a template step may say about failing, time, skipping, looping, stops, workers and
reviewers; checked when the template is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from jsonschema import Draft202012Validator

from checkpoints.state.reducers import REDUCERS
from runs.models.frequency import Frequency
from runs.workflows import refusals, schemas
from runs.workflows.refusals import FieldRefused
from runs.workflows.reviews import rules as review_rules
from runs.workflows.reviews import stages
from runs.workflows.reviews.calendars import Calendar, read
from runs.workflows.reviews.review import Review
from runs.workflows.sequence import Retry

SCHEMA = {
    "type": "object",
    "properties": {
        "retry": {
            "type": "object",
            "properties": {
                "attempts": {"type": "integer", "minimum": 1, "maximum": 20},
                "base": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600},
                "cap": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
                "errors": {
                    "type": "array",
                    "items": {"type": "string", "maxLength": 100},
                    "maxItems": 50,
                },
            },
            "required": ["attempts"],
            "additionalProperties": False,
        },
        "timeout": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 86400},
        "skip_when": {"type": ["object", "null"]},
        "max_loops": {"type": "integer", "minimum": 1, "maximum": 100_000},
        "queue": {"type": "string"},
        "on_change": {"enum": ["continue", "hold"]},
        "interrupt_before": {"type": "boolean"},
        "interrupt_after": {"type": "boolean"},
        "required_inputs": {"type": "object"},
        "review": {"type": "object"},
    },
}


class PolicyInvalid(FieldRefused):
    """A policy cannot be kept. `field` names it within the step."""


def freeze(step: Mapping[str, Any]) -> dict[str, Any]:
    """The step's policies with everything filled in; only those it names. Raises PolicyInvalid."""
    named = {name: step[name] for name in SCHEMA["properties"] if name in step}
    for error in Draft202012Validator(SCHEMA).iter_errors(named):
        raise PolicyInvalid(
            ".".join(str(part) for part in error.absolute_path), refusals.message_of(error)
        )
    if named.get("skip_when") is not None:
        _check_condition(named["skip_when"])
    if named.get("queue", "steps") not in settings.WAYSTATION_QUEUES:
        raise PolicyInvalid("queue", f"One of {', '.join(settings.WAYSTATION_QUEUES)}.")
    if named.get("required_inputs"):
        named["required_inputs"] = _wanted(named["required_inputs"])
    if named.get("review"):
        named["review"] = _reviewed(named["review"])
        _check_silence(named)
        _check_stages(named)
    if "retry" in named:
        named["retry"] = _retry(named["retry"])
    return named


def check_reducers(rules: Any) -> None:
    """`{state key: reducer}`; raises PolicyInvalid."""
    if not isinstance(rules, dict) or not set(rules.values()) <= REDUCERS.keys():
        raise PolicyInvalid(
            "reducers", f"An object of state keys, each with one of {', '.join(REDUCERS)}."
        )


def _wanted(schema: Any) -> dict[str, Any]:
    try:
        return schemas.check_inputs(schema)
    except schemas.SchemaRefused as error:
        raise PolicyInvalid("required_inputs", str(error)) from error


def _reviewed(rules: Any) -> Review:
    try:
        return review_rules.check(rules, calendars())
    except review_rules.ReviewInvalid as error:
        raise PolicyInvalid(f"review.{error.field}".rstrip("."), str(error)) from error


def calendars() -> dict[str, Calendar]:
    """Those that a deadline may name."""
    return {name: read(given) for name, given in settings.WAYSTATION_CALENDARS.items()}


def _check_silence(step: Mapping[str, Any]) -> None:
    if step["review"].get("deadline", {}).get("outcome") == "approve" and step.get(
        "required_inputs"
    ):
        raise PolicyInvalid(
            "review.deadline.outcome",
            "An approval needs the data that is asked for, so silence cannot be one.",
        )


def _check_stages(step: Mapping[str, Any]) -> None:
    try:
        stages.check_inputs(step.get("required_inputs", {}), step["review"])
    except FieldRefused as error:
        raise PolicyInvalid(f"required_inputs.{error.field}", str(error)) from error


RETENTION = {
    "type": "object",
    "properties": {
        "days": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 36_500},
        "count": {"type": ["integer", "null"], "minimum": 1},
    },
    "additionalProperties": False,
}


def check_keeping(values: Mapping[str, Any]) -> None:
    """A template's `frequency`, `retention` and `size_budget`, where it names them; raises
    PolicyInvalid.
    """
    if values.get("frequency", Frequency.STEP) not in Frequency.values:
        raise PolicyInvalid("frequency", f"One of {', '.join(Frequency.values)}.")
    for error in Draft202012Validator(RETENTION).iter_errors(values.get("retention", {})):
        raise PolicyInvalid(
            ".".join(["retention", *(str(part) for part in error.absolute_path)]),
            refusals.message_of(error),
        )
    budget = values.get("size_budget")
    if budget is not None and (type(budget) is not int or not 1 <= budget < 2**63):
        raise PolicyInvalid(
            "size_budget", "A whole number of bytes from 1, or null for the usual budget."
        )


def _retry(given: Mapping[str, Any]) -> Retry:
    base = float(given.get("base", 2.0))
    return {
        "attempts": given["attempts"],
        "base": base,
        "cap": max(base, float(given.get("cap", 300.0))),
        "errors": list(given.get("errors", ["*"])),
    }


def _check_condition(schema: Any) -> None:
    try:
        schemas.check(schema)
    except schemas.SchemaRefused as error:
        raise PolicyInvalid(
            f"skip_when.{error.field}".rstrip("."),
            f"No JSON Schema that can be used: {error.words}",
        ) from error
