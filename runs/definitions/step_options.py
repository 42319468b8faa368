"""Check the options of a template's step, when the template is saved: failing, time, skipping,
looping, stops, workers and reviewers.
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
from runs.workflows.sequence import ENDING_SECONDS, ENDINGS, Retry

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "retry": {
            "title": "Tries after a failure",
            "type": "object",
            "properties": {
                "attempts": {
                    "title": "Tries in all",
                    "description": "1 for no second one.",
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 20,
                },
                "base": {
                    "title": "Seconds before the second try",
                    "description": "At most, and twice that before each further one. Usually 2.",
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": 3600,
                },
                "cap": {
                    "title": "Most seconds before a try",
                    "description": "Usually 300.",
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": 86400,
                },
                "errors": {
                    "title": "What is tried again",
                    "description": "Codes or names of exceptions; all where this is empty.",
                    "type": "array",
                    "items": {"type": "string", "maxLength": 100},
                    "maxItems": 50,
                },
            },
            "required": ["attempts"],
            "additionalProperties": False,
        },
        "timeout": {
            "title": "Seconds that one try may take",
            "description": (
                "Where this is empty, what WAYSTATION_STEP_TIMEOUT says, usually an hour; agents "
                "and programs whose own limits are longer have the time of those."
            ),
            "type": ["number", "null"],
            "exclusiveMinimum": 0,
            "maximum": 86400,
        },
        "skip_when": {
            "title": "When it is left out",
            "description": "A JSON Schema: the step is left out where the state fits it.",
            "type": ["object", "null"],
        },
        "max_loops": {
            "title": "How often it may run in one run",
            "type": "integer",
            "minimum": 1,
            "maximum": 100_000,
        },
        "only_on": {
            "title": "Only once the run was cancelled, or has expired",
            "description": (
                "Such a step is no part of the sequence. It runs once after that end, for up to 5 "
                "minutes where it names no other time, and asks nobody."
            ),
            "enum": [*ENDINGS],
        },
        "on_failure": {
            "title": "Where it leads if it fails for good",
            "description": (
                "When its tries are used up, the run goes to this step, which can read what went "
                "wrong, instead of failing. Empty: the run fails."
            ),
            "type": "string",
            "maxLength": 100,
        },
        "queue": {"title": "Which workers take it", "type": "string"},
        "on_change": {
            "title": "Where its code has changed since the order",
            "description": (
                "continue goes on with the new code; hold waits for an operator. As its function "
                "or the server says where this says nothing."
            ),
            "enum": ["continue", "hold"],
        },
        "interrupt_before": {"title": "Stop before it", "type": "boolean", "default": False},
        "interrupt_after": {"title": "Stop after it", "type": "boolean", "default": False},
        "required_inputs": {
            "title": "Data that comes with the answer",
            "description": (
                "A JSON Schema of an object. With stages, each brings the property of its name."
            ),
            "type": "object",
        },
        "question": {
            "title": "What is asked after it",
            "description": (
                "Such as: Refund {amount} to {customer}? Names are filled in from the facts of the "
                "step's report and from the input. Empty: the report's title, else as usual."
            ),
            "type": "string",
            "maxLength": 200,
        },
        "may_pass": {
            "title": "When it may pass its review by itself",
            "description": (
                "In words, such as: the confidence is over the threshold. Empty: never. Each time "
                "it does, that is recorded like a decision."
            ),
            "type": "string",
            "maxLength": 200,
        },
        "review": {"type": "object"},
    },
}


class PolicyInvalid(FieldRefused):
    """A policy cannot be kept. `field` names it within the step."""


def freeze(step: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the options that a step names, and give only those. Raises PolicyInvalid."""
    named = {name: step[name] for name in SCHEMA["properties"] if name in step}
    for error in Draft202012Validator(SCHEMA).iter_errors(named):
        raise PolicyInvalid(*refusals.config_fault(error))
    if named.get("skip_when") is not None:
        _check_condition(named["skip_when"])
    if named.get("queue", "steps") not in settings.WAYSTATION_QUEUES:
        raise PolicyInvalid("queue", f"One of {', '.join(settings.WAYSTATION_QUEUES)}.")
    if named.get("required_inputs"):
        named["required_inputs"] = _checked_inputs(named["required_inputs"])
    if named.get("review"):
        named["review"] = _checked_review(named["review"])
        _check_silence(named)
        _check_stages(named)
    if question := named.pop("question", "").strip():
        named["question"] = question
    if reason := named.pop("may_pass", "").strip():  # an empty one is left out of the digest
        named["may_pass"] = reason
        _check_pass(named)
    if not named.get("on_failure", "unnamed"):
        del named["on_failure"]  # an empty one is left out of the digest
    if "only_on" in named and not named.get("timeout"):
        named["timeout"] = ENDING_SECONDS
    if "retry" in named:
        named["retry"] = _retry(named["retry"])
    return named


def _check_pass(step: Mapping[str, Any]) -> None:
    try:
        review_rules.check_pass(step.get("review", {}))
    except review_rules.ReviewInvalid as error:
        raise PolicyInvalid(error.field, str(error)) from error


def check_reducers(rules: Any) -> None:
    """Check a template's reducers, `{state key: reducer}`; raises PolicyInvalid."""
    if not isinstance(rules, dict) or not all(
        isinstance(name, str) and name in REDUCERS for name in rules.values()
    ):
        raise PolicyInvalid(
            "reducers", f"An object of state keys, each with one of {', '.join(REDUCERS)}."
        )


def _checked_inputs(schema: Any) -> dict[str, Any]:
    try:
        return schemas.check_inputs(schema)
    except schemas.SchemaRefused as error:
        raise PolicyInvalid("required_inputs", str(error)) from error


def _checked_review(rules: Any) -> Review:
    try:
        return review_rules.check(rules, calendars())
    except review_rules.ReviewInvalid as error:
        raise PolicyInvalid(f"review.{error.field}".rstrip("."), str(error)) from error


def calendars() -> dict[str, Calendar]:
    """Read the calendars that a deadline may name."""
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
        "days": {
            "title": "Days that checkpoints are kept",
            "type": ["number", "null"],
            "exclusiveMinimum": 0,
            "maximum": 36_500,
        },
        "count": {
            "title": "Checkpoints that are kept of a thread",
            "type": ["integer", "null"],
            "minimum": 1,
        },
    },
    "additionalProperties": False,
}


def check_keeping(values: Mapping[str, Any]) -> None:
    """Check a template's `frequency`, `retention` and `size_budget`, where it names them; raises
    PolicyInvalid.
    """
    if values.get("frequency", Frequency.STEP) not in Frequency.values:
        raise PolicyInvalid("frequency", f"One of {', '.join(Frequency.values)}.")
    for error in Draft202012Validator(RETENTION).iter_errors(values.get("retention", {})):
        place, text = refusals.config_fault(error)
        raise PolicyInvalid(f"retention.{place}".rstrip("."), text)
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
