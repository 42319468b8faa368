"""Memory by user and session (S0-79): a new thread begins with what was said on the last one with
the same user in the same session.

A program that serves many people has one account here, so it says whom a thread is held with. Only
threads of the same owner and team share a memory, and only conversations of the same template;
decisions, approvals and other state stay where they were made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkpoints import store
from checkpoints.models import Thread
from runs.engine.imported import is_imported
from runs.models import Definition, Run
from runs.threads.conversation import MESSAGES
from runs.workflows import owned


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """What a new thread knows."""

    thread: str
    """The id of the thread on which it was said, as it is shown."""
    state: Mapping[str, Any]


def of(thread: Thread, definition: Definition) -> Remembered | None:
    """What was said last with a thread's user in its session; None where it names neither, or
    nothing was. Raises CheckpointDamaged.
    """
    if not thread.for_user and not thread.session:
        return None
    same = Thread.objects.filter(
        owner=thread.owner_id, team=thread.team_id, for_user=thread.for_user, session=thread.session
    )
    last = (
        same.filter(head__isnull=False)
        .exclude(pk=thread.pk)
        .select_related("head")
        .order_by("-id")
        .first()
    )
    if last is None or last.head is None or is_imported(last.head):
        return None
    if not Run.objects.filter(
        pk=last.head.run_id, definition__template_slug=definition.template_slug, parent=None
    ).exists():
        return None
    # what people read of a conversation, and what agents know of it
    shared = {MESSAGES, *(key for key, keeps in owned.kept().items() if keeps.remembered)}
    state = {key: value for key, value in store.load(last.head).items() if key in shared}
    return Remembered(thread=last.shown_id, state=state) if state else None
