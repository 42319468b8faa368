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
from runs.workflows.refusals import FieldRefused, in_json
from runs.workflows.reviews import deadlines, stages
from runs.workflows.reviews.calendars import Calendar, CalendarInvalid, DurationInvalid
from runs.workflows.reviews.review import Review

OUTCOMES = ("expire", "cancel", "escalate", "approve")
RISKS = ("low", "normal", "high")

DURATION = {"type": "string", "maxLength": 40}
_NAMES = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 150},
    "maxItems": 100,
    "uniqueItems": True,
}
_ACTORS = {"users": {"title": "People", **_NAMES}, "groups": {"title": "Groups", **_NAMES}}
_REVIEWERS = {
    "title": "Who answers",
    "type": "object",
    "properties": _ACTORS,
    "additionalProperties": False,
}
_QUORUM = {
    "title": "How many must approve",
    "description": "Default: 1.",
    "type": "integer",
    "minimum": 1,
    "maximum": 20,
}
_EXTERNAL = {
    "title": "Mail addresses of people without an account",
    "type": "array",
    "items": {"type": "string", "maxLength": external_reviewers.LONGEST},
    "maxItems": external_reviewers.MOST,
}
_STAGE_NAME = {"type": "string", "pattern": stages.NAME}
_DEADLINE: dict[str, dict[str, Any]] = {
    "after": {
        "title": "After",
        "description": (
            "A number and its unit, a duration in ISO 8601 such as PT4H, or a time such as "
            "“until 12:00”, “next day 09:00” or “next working day 17:00”."
        ),
        **DURATION,
    },
    "calendar": {
        "title": "What is counted until then",
        "description": "The working hours of a calendar. Default: every hour.",
        "type": "string",
        "maxLength": 60,
    },
    "zone": {
        "title": "Time zone",
        "description": "Such as Europe/Berlin. Default: the server's.",
        "type": "string",
        "maxLength": 60,
    },
    "outcome": {
        "title": "When it has passed",
        "description": "Default: the question expires.",
        "enum": list(OUTCOMES),
    },
}
_AS_OF_THE_QUESTION = "Default: as of the question's own deadline."
_STAGE = {
    "name": {
        "title": "Name",
        "description": "Small letters, digits, - and _. What this stage brings has this name.",
        **_STAGE_NAME,
    },
    "title": {"title": "Title", "type": "string", "maxLength": 80},
    "question": {"title": "What they are asked", "type": "string", "maxLength": 500},
    "reviewers": _REVIEWERS,
    "quorum": _QUORUM,
    "after": {
        "title": "Asked after these stages",
        "description": "Names of stages. Without one, it is asked at once.",
        "type": "array",
        "items": _STAGE_NAME,
        "maxItems": stages.MOST,
        "uniqueItems": True,
    },
    "external": _EXTERNAL,
    "deadline": {
        "title": "Its deadline",
        "description": (
            "Since its turn began. When it has passed, the question does what its own deadline "
            "says, and expires where that says nothing."
        ),
        "type": "object",
        "properties": {
            "after": _DEADLINE["after"],
            "calendar": {**_DEADLINE["calendar"], "description": _AS_OF_THE_QUESTION},
            "zone": {**_DEADLINE["zone"], "description": _AS_OF_THE_QUESTION},
        },
        "required": ["after"],
        "additionalProperties": False,
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reviewers": {
            "description": "Default: anyone on this order.",
            **_REVIEWERS,
        },
        "quorum": _QUORUM,
        "stages": {
            "title": "Stages",
            "description": (
                "Two or more groups of reviewers, each asked for its own reason, in place of the "
                "reviewers above. All must approve."
            ),
            "type": "array",
            "items": {
                "type": "object",
                "properties": _STAGE,
                "required": ["name"],
                "additionalProperties": False,
            },
            "minItems": 2,
            "maxItems": stages.MOST,
        },
        "self_approval": {
            "title": "The requester may approve",
            "type": "boolean",
            "default": True,
        },
        "reason_required": {
            "title": "Answers that need a reason",
            "description": "Such as approve, revise, cancel.",
            "type": "array",
            "items": {"type": "string", "maxLength": 64},
            "maxItems": 20,
        },
        "risk": {
            "title": "Risk",
            "description": "High is never answered in bulk, nor from a link without a login.",
            "enum": list(RISKS),
        },
        "step_up": {
            "title": "It wants a fresh second factor",
            "description": "Of everybody who lets the run go on, whatever the risk.",
            "type": "boolean",
            "default": False,
        },
        "link_answers": {
            "title": "It may be answered from its link without a login",
            "description": "Of low risk alone.",
            "type": "boolean",
            "default": False,
        },
        "external": _EXTERNAL,
        "edits": {
            "title": "The answer may bring an edited text",
            "type": "boolean",
            "default": False,
        },
        "deadline": {
            "title": "Deadline",
            "description": "Since the question was asked.",
            "type": "object",
            "properties": _DEADLINE,
            "required": ["after"],
            "additionalProperties": False,
        },
        "reminders": {
            "title": "Reminders",
            "description": "Since the question was asked.",
            "type": "array",
            "items": DURATION,
            "maxItems": 20,
        },
        "escalation": {
            "title": "Escalation",
            "description": "From when on others may answer too, in order.",
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"after": {"title": "After", **DURATION}, **_ACTORS},
                "required": ["after"],
                "additionalProperties": False,
            },
            "maxItems": 10,
        },
        "undo": {
            "title": "Seconds for which an approval may be taken back",
            "type": "integer",
            "minimum": 0,
            "maximum": 86_400,
        },
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
        raise ReviewInvalid(*refusals.config_fault(error))
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
    if review.get("step_up") and (outcome == "approve" or review.get("link_answers")):
        raise ReviewInvalid(
            "step_up", "Nobody proves a second factor at a deadline, nor by a link without a login."
        )
    _check_external(review)
    return review


def check_pass(review: Review) -> None:
    """Raise ReviewInvalid where the rules forbid that a step passes its review by itself."""
    if review.get("risk") == "high":
        raise ReviewInvalid(
            "may_pass", "A question of high risk is never passed: somebody answers."
        )
    if review.get("step_up"):
        raise ReviewInvalid("may_pass", "Nobody proves a second factor where a step passes.")


def _check_external(review: Review) -> None:
    named = external_reviewers.named(review)
    if wrong := [address for address in named if not external_reviewers.is_address(address)]:
        raise ReviewInvalid("external", f"{in_json(wrong[0])} is no mail address.")
    if named and review.get("risk") == "high":
        raise ReviewInvalid(
            "external", "A question of high risk is put to nobody without an account."
        )
    if named and review.get("step_up"):
        raise ReviewInvalid(
            "external", "Who has no account has no second factor: leave out `step_up` or these."
        )


def _check_times(review: Review, calendars: Mapping[str, Calendar]) -> None:
    """Raise ReviewInvalid for times that cannot be counted, or that come when the question is
    closed.
    """
    counted: list[tuple[str, str, Review]] = [
        (field, "deadline", review) for field in deadlines.named(review)
    ]
    for number, stage in enumerate(stages.of(review)):
        if "deadline" in stage:
            place = f"stages.{number}.deadline"
            counted.append((f"{place}.after", place, deadlines.of_stage(review, stage)))
    for field, place, rules in counted:
        text = deadlines.named(rules)[field if rules is review else "deadline.after"]
        try:
            deadlines.check(text, rules, calendars)
        except DurationInvalid as error:
            raise ReviewInvalid(field, str(error)) from error
        except deadlines.Unknown as error:
            raise ReviewInvalid(f"{place}.{error.field}", str(error)) from error
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
