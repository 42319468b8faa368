"""Where work stands, in the words of pages and the admin; the wire keeps its own words.

No queries here.
"""

from __future__ import annotations

import re

from django.utils.translation import gettext, gettext_noop

from runs.models import WorkOrder
from runs.states import AFTER, BEFORE, SUSPENDED
from runs.workflows import sequence

WORDS = {
    "planning": gettext_noop("Planning"),
    "executing": gettext_noop("Executing"),
    "reviewing": gettext_noop("Reviewing"),
    "completed": gettext_noop("Completed"),
    "awaiting_plan_approval": gettext_noop("Awaiting plan approval"),
    "awaiting_implementation_review": gettext_noop("Awaiting implementation review"),
    "awaiting_review_decision": gettext_noop("Awaiting review decision"),
    "awaiting_tool_approval": gettext_noop("Awaiting tool approval"),
    "needs_bookkeeper_decision": gettext_noop("Needs a bookkeeper's decision"),
    "missing_supplier_data": gettext_noop("Missing supplier data"),
    "request_not_understood": gettext_noop("Request not understood"),
    BEFORE: gettext_noop("Stopped before a step"),
    AFTER: gettext_noop("Stopped after a step"),
    SUSPENDED: gettext_noop("Suspended"),
}
"""Phases that their name alone says badly."""


def words(phase: str) -> str:
    """A phase in words.

    A template or another engine may name any: `awaiting_text` is "Awaiting text".
    """
    if phase in WORDS:
        return gettext(WORDS[phase])
    text = re.sub(r"[\s_-]+", " ", phase).strip()
    return text[:1].upper() + text[1:]


def whereabouts(order: WorkOrder) -> str:
    """The phase of an order in words; of one that ended without its result, what happened and at
    which step.
    """
    if order.status != "failed":
        return words(order.phase)
    place, _ = stopped_at(order)
    words_of_end = {
        "cancelled": gettext("Cancelled at %(place)s"),
        "expired": gettext("Expired at %(place)s"),
    }
    return words_of_end.get(order.standing, gettext("Stopped at %(place)s")) % {
        "place": gettext(place) if place else ""
    }


def stopped_at(order: WorkOrder) -> tuple[str, bool]:
    """Where an order stands that ended without its result, and whether it waited for an answer
    there.
    """
    steps, phase = order.definition.steps, asked(order)
    name = order.current_step or steps[0]["name"]
    return sequence.place_in(steps, name, phase), phase is not None


def asked(order: WorkOrder) -> str | None:
    """The phase of the question at which an order is paused, or ended without an answer; None where
    it asks nothing.
    """
    head = order.thread.head
    return None if head is None else head.metadata.get("blocking_reason")
