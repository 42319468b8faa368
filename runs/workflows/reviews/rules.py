"""Who answers a step's questions, by when, and how: a template's `review` rules.

Checked when the template is saved, frozen with the order.

A rule that is left out is the usual one: whoever sees the thread answers, one answer decides, and
there is no deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

from runs.workflows import external_reviewers, refusals
from runs.workflows.refusals import FieldRefused
from runs.workflows.reviews import deadlines, stages
from runs.workflows.reviews.calendars import Calendar, CalendarInvalid, DurationInvalid
from runs.workflows.reviews.review import Review

OUTCOMES = ("expire", "cancel", "escalate", "approve")
RISKS = ("low", "normal", "high")

_DURATION = {"type": "string", "maxLength": 40}
_NAMES = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 150},
    "maxItems": 100,
    "uniqueItems": True,
}
_ACTORS = {"users": _NAMES, "groups": _NAMES}
_REVIEWERS = {"type": "object", "properties": _ACTORS, "additionalProperties": False}
_QUORUM = {"type": "integer", "minimum": 1, "maximum": 20}
_EXTERNAL = {
    "type": "array",
    "items": {"type": "string", "maxLength": external_reviewers.LONGEST},
    "maxItems": external_reviewers.MOST,
}
_STAGE_NAME = {"type": "string", "pattern": stages.NAME}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reviewers": _REVIEWERS,
        "quorum": _QUORUM,
        "stages": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": _STAGE_NAME,
                    "title": {"type": "string", "maxLength": 80},
                    "question": {"type": "string", "maxLength": 500},
                    "reviewers": _REVIEWERS,
                    "quorum": _QUORUM,
                    "after": {
                        "type": "array",
                        "items": _STAGE_NAME,
                        "maxItems": stages.MOST,
                        "uniqueItems": True,
                    },
                    "external": _EXTERNAL,
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            "minItems": 2,
            "maxItems": stages.MOST,
        },
        "self_approval": {"type": "boolean"},
        "reason_required": {
            "type": "array",
            "items": {"type": "string", "maxLength": 64},
            "maxItems": 20,
        },
        "risk": {"enum": list(RISKS)},
        "link_answers": {"type": "boolean"},
        "external": _EXTERNAL,
        "edits": {"type": "boolean"},
        "deadline": {
            "type": "object",
            "properties": {
                "after": _DURATION,
                "calendar": {"type": "string", "maxLength": 60},
                "zone": {"type": "string", "maxLength": 60},
                "outcome": {"enum": list(OUTCOMES)},
            },
            "required": ["after"],
            "additionalProperties": False,
        },
        "reminders": {"type": "array", "items": _DURATION, "maxItems": 20},
        "escalation": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"after": _DURATION, **_ACTORS},
                "required": ["after"],
                "additionalProperties": False,
            },
            "maxItems": 10,
        },
        "undo": {"type": "integer", "minimum": 0, "maximum": 86_400},
    },
    "additionalProperties": False,
}


class ReviewInvalid(FieldRefused):
    """The rules cannot be kept. `field` names what is wrong, within `review`."""


def check(given: Any, calendars: Mapping[str, Calendar]) -> Review:
    """The rules as they are frozen; raises ReviewInvalid.

    `calendars` are those that a deadline may name.
    """
    for error in Draft202012Validator(SCHEMA).iter_errors(given):
        raise ReviewInvalid(
            ".".join(str(part) for part in error.absolute_path), refusals.message_of(error)
        )
    review: Review = given
    _check_times(review, calendars)
    outcome = review.get("deadline", {}).get("outcome")
    if outcome == "escalate" and not review.get("escalation"):
        raise ReviewInvalid(
            "deadline.outcome", "There is nobody to escalate to: name an escalation."
        )
    try:
        stages.check(review)
    except FieldRefused as error:
        raise ReviewInvalid(error.field, str(error)) from error
    reviewers = review.get("reviewers", {})
    if (
        reviewers.get("users")
        and not reviewers.get("groups")
        and len(reviewers["users"]) < review.get("quorum", 1)
    ):
        raise ReviewInvalid(
            "quorum",
            f"Only {len(reviewers['users'])} may answer, so {review['quorum']} will never "
            "have approved.",
        )
    if outcome == "approve" and review.get("risk") == "high":
        raise ReviewInvalid(
            "deadline.outcome", "A question of high risk is never approved because nobody answered."
        )
    if review.get("link_answers") and review.get("risk") != "low":
        raise ReviewInvalid(
            "link_answers",
            "Only a question of low risk may be answered from a link without a login.",
        )
    _check_external(review)
    return review


def _check_external(review: Review) -> None:
    named = external_reviewers.named(review)
    if wrong := [address for address in named if not external_reviewers.is_address(address)]:
        raise ReviewInvalid("external", f"{wrong[0]!r} is no mail address.")
    if named and review.get("risk") == "high":
        raise ReviewInvalid(
            "external", "A question of high risk is put to nobody without an account."
        )


def _check_times(review: Review, calendars: Mapping[str, Calendar]) -> None:
    """Raise ReviewInvalid for times that cannot be counted, or that come when the question is
    closed.
    """
    for field, text in deadlines.named(review).items():
        try:
            deadlines.check(text, review, calendars)
        except DurationInvalid as error:
            raise ReviewInvalid(field, str(error)) from error
        except deadlines.Unknown as error:
            raise ReviewInvalid(f"deadline.{error.field}", str(error)) from error
        except CalendarInvalid as error:
            raise ReviewInvalid(field, f"{text} cannot be counted: {error}") from error
    if late := deadlines.too_late(review, calendars):
        raise ReviewInvalid(late, "This comes after the deadline, so it would never happen.")
    if mixed := deadlines.out_of_order(review, calendars):
        raise ReviewInvalid(
            mixed, "This comes before the stage above it: put the stages in their order."
        )


def of(step: Mapping[str, Any]) -> Review:
    """The rules of a frozen step."""
    review: Review = step.get("review", {})
    return review


def is_reviewed(step: Mapping[str, Any]) -> bool:
    """Whether a frozen step, or one that its child runs take, has rules on who answers and how."""
    return bool(step.get("review")) or any(
        is_reviewed(sub_step) for sub_step in step.get("sub_steps", [])
    )
