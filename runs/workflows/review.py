"""Who answers a step's questions, by when, and how: a template's `review` rules. Checked when the template is saved, frozen with the order.

A rule that is left out is the usual one: whoever sees the thread answers, one answer decides, and there is no deadline.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from django.utils.dateparse import parse_duration
from jsonschema import Draft202012Validator

OUTCOMES = ("expire", "cancel", "escalate", "approve")
RISKS = ("low", "normal", "high")
LONGEST = dt.timedelta(days=3660)


class Actors(TypedDict, total=False):
    """People by username, groups by name."""

    users: list[str]
    groups: list[str]


class Stage(Actors):
    """From when on others may answer too, and are asked."""

    after: str
    """ISO 8601 duration since the question was opened, e.g. `PT4H` or `P2D`; in the deadline's calendar and zone."""


class Deadline(TypedDict, total=False):
    after: str
    """ISO 8601 duration since the question was opened."""
    calendar: str
    """Name of one of `WAYSTATION_CALENDARS`, e.g. `business`; "" counts every hour."""
    zone: str
    """IANA name of the time zone that days and business hours are counted in; "" for the server's."""
    outcome: Literal["expire", "cancel", "escalate", "approve"]
    """What happens when nobody has answered: `expire` where it says nothing."""


class Review(TypedDict, total=False):
    """The rules of one step's questions."""

    reviewers: Actors
    """Who may answer; whoever may see the thread where this names nobody."""
    quorum: int
    """How many different people must approve. One refusal, or one wish for a revision, decides alone."""
    self_approval: bool
    """Whether who asked for the work may approve it; true where it says nothing."""
    reason_required: list[str]
    """Answers that need words."""
    risk: Literal["low", "normal", "high"]
    """`high` is never answered in bulk nor from a link without a login."""
    link_answers: bool
    """Whether a low-risk question may be answered from its link without a login."""
    edits: bool
    """Whether the answer may bring an edited text of the content."""
    deadline: Deadline
    reminders: list[str]
    """ISO 8601 durations since the question was opened, after which those who may answer are reminded."""
    escalation: list[Stage]
    undo: int
    """Seconds for which an approval may be taken back: the run goes on after them."""


_DURATION = {"type": "string", "maxLength": 40}
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 150}, "maxItems": 100, "uniqueItems": True}
_ACTORS = {"users": _NAMES, "groups": _NAMES}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reviewers": {"type": "object", "properties": _ACTORS, "additionalProperties": False},
        "quorum": {"type": "integer", "minimum": 1, "maximum": 20},
        "self_approval": {"type": "boolean"},
        "reason_required": {"type": "array", "items": {"type": "string", "maxLength": 64}, "maxItems": 20},
        "risk": {"enum": list(RISKS)},
        "link_answers": {"type": "boolean"},
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


class ReviewInvalid(Exception):
    """The rules cannot be kept. `field` names what is wrong, within `review`."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def check(given: Any) -> Review:
    """The rules as they are frozen; raises ReviewInvalid."""
    for error in Draft202012Validator(SCHEMA).iter_errors(given):
        raise ReviewInvalid(".".join(str(part) for part in error.absolute_path), error.message[:300])
    review: Review = given
    deadline = review.get("deadline", {})
    times = {
        **({"deadline.after": deadline["after"]} if deadline else {}),
        **{f"reminders.{at}": after for at, after in enumerate(review.get("reminders", []))},
        **{f"escalation.{at}.after": stage["after"] for at, stage in enumerate(review.get("escalation", []))},
    }
    for field, text in times.items():
        _check_duration(field, text)
    if (zone := deadline.get("zone")) and zone not in zoneinfo.available_timezones():
        raise ReviewInvalid("deadline.zone", f"There is no time zone {zone!r}; name one as Europe/Berlin.")
    if deadline.get("outcome") == "escalate" and not review.get("escalation"):
        raise ReviewInvalid("deadline.outcome", "There is nobody to escalate to: name an escalation.")
    reviewers = review.get("reviewers", {})
    if reviewers.get("users") and not reviewers.get("groups") and len(reviewers["users"]) < review.get("quorum", 1):
        raise ReviewInvalid("quorum", f"Only {len(reviewers['users'])} may answer, so {review['quorum']} will never have approved.")
    if review.get("link_answers") and review.get("risk") != "low":
        raise ReviewInvalid("link_answers", "Only a question of low risk may be answered from a link without a login.")
    return review


def _check_duration(field: str, text: str) -> None:
    found = parse_duration(text) if text.startswith("P") else None
    if found is None or not dt.timedelta() < found <= LONGEST:
        raise ReviewInvalid(field, f"{text!r} is no duration: write PT4H for four hours or P2D for two days, up to ten years.")


def of(step: Mapping[str, Any]) -> Review:
    """The rules of a frozen step."""
    review: Review = step.get("review", {})
    return review
