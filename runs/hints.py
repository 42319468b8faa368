"""Tells whoever watches open questions that one of them came, went or changed.

A hint says no more than that: what changed is read from the rows. Only how far a step is, which is
told every second, comes with its hint.
"""

from __future__ import annotations

from checkpoints.events import live

PAUSES = "pauses"
"""The channel group that hears of every change to a question."""
PAUSES_CHANGED = "pauses.hint"
"""The type of the message."""

PROGRESS = "progress"
"""What watchers of a thread are told of beside its log: how far its run's step is."""


def pauses_changed_on_commit() -> None:
    """Tell those who watch open questions to look again, once the open transaction commits."""
    live.send_on_commit(PAUSES, {"type": PAUSES_CHANGED})
