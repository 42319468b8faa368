"""How a state is called and how it looks, on every page and in the admin.

What a person or a rule ended is no fault: cancelled and expired are neutral, never as failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from django.utils.translation import gettext, gettext_noop

Tone = Literal["good", "bad", "wait", "work", "calm"]
WORDS = {
    "pending": gettext_noop("Pending"),
    "running": gettext_noop("Running"),
    "paused": gettext_noop("Paused"),
    "completed": gettext_noop("Completed"),
    "failed": gettext_noop("Failed"),
    "cancelled": gettext_noop("Cancelled"),
    "expired": gettext_noop("Expired"),
    "active": gettext_noop("Under way"),
    "pending_input": gettext_noop("Waiting"),
    "waiting_external": gettext_noop("Waiting"),
    "resumed": gettext_noop("Resumed"),
    "new": gettext_noop("New"),
    "queued": gettext_noop("Queued"),
    "sending": gettext_noop("Sending"),
    "sent": gettext_noop("Sent"),
    "dead": gettext_noop("Given up"),
    "open": gettext_noop("Open"),
    "answered": gettext_noop("Answered"),
    "on": gettext_noop("Switched on"),
    "off": gettext_noop("Switched off"),
    "stopped": gettext_noop("Stopped"),
    "valid": gettext_noop("Valid"),
    "revoked": gettext_noop("Revoked"),
}
TONES: Mapping[str, Tone] = {
    **dict.fromkeys(("completed", "resumed", "answered", "sent", "started", "approve"), "good"),
    **dict.fromkeys(("failed", "dead", "refused"), "bad"),
    **dict.fromkeys(
        ("paused", "open", "pending_input", "waiting_external", "due", "revise"), "wait"
    ),
    **dict.fromkeys(("running", "sending", "active"), "work"),
}
"""State → tone; each that is not here is calm."""
ICONS = {
    "completed": "circle-check",
    "resumed": "circle-check",
    "failed": "circle-x",
    "cancelled": "ban",
    "expired": "clock",
}
"""What stands beside the words of an end."""


def state_words(state: str) -> str:
    """`Paused`; one that is nobody's of ours stays as it is."""
    return gettext(WORDS[state]) if state in WORDS else state[:1].upper() + state[1:]


def tone(state: str) -> Tone:
    return TONES.get(state, "calm")


def state_icon(state: str) -> str:
    return ICONS[state]
