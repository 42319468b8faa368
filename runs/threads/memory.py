"""Memory by user and session: a new thread begins with what was said on the last one with the same
user in the same session.

A program that serves many people has one account here, so it says whom a thread is held with. Only
threads of the same owner and team share a memory, and only conversations of the same template;
decisions, approvals and other state stay where they were made.

The program says so when it opens the thread. An input that names others is refused: whoever writes
into a conversation does not choose whose memory it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkpoints import store
from checkpoints.models import Thread
from runs.engine.imported import is_imported
from runs.models import Definition, Run, Template
from runs.services import InputInvalid
from runs.threads.conversation import MESSAGES
from runs.workflows import owned
from runs.workflows.registry import traits_of

COLUMNS = {"user_id": "for_user", "session_id": "session"}
"""What programs call whom a thread is held with, and the thread's columns."""


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


def check(
    thread: Thread,
    given: Mapping[str, Any] | None,
    definition: Definition,
    *,
    asked: Mapping[str, Any] | None = None,
) -> Mapping[str, Any] | None:
    """Raise InputInvalid where an input names a user or a session that its thread is not held with;
    gives the input without those that it is.

    Args:
        asked: JSON Schema of what the open question asks for; its fields are read by who asked.
    """
    named = {name for name in COLUMNS if given and given.get(name) is not None}
    if not given or not named or not _remembers(definition):
        return given
    template = Template.objects.filter(slug=definition.template_slug).order_by("-version").first()
    schemas = [definition.state_schema, template.input_schema if template else {}, asked or {}]
    named -= {name for schema in schemas for name in schema.get("properties", {})}
    errors = {
        f"input.{name}": [_refusal(thread, name)]
        for name in sorted(named)
        if given[name] != getattr(thread, COLUMNS[name])
    }
    if errors:
        raise InputInvalid(errors)
    return {name: value for name, value in given.items() if name not in named}


def _remembers(definition: Definition) -> bool:
    """Whether a step of it goes by a thread's memory, as agents do."""
    return any(
        keeps.remembered
        for step in definition.steps
        for keeps in traits_of(step["function"]).keeps.values()
    )


def _refusal(thread: Thread, name: str) -> str:
    held = getattr(thread, COLUMNS[name])
    with_whom = f"with the {name} {held!r}" if held else f"with no {name}"
    return (
        f"Whose memory a thread shares is said when it is opened, POST /api/v1/threads "
        f'{{"{name}": "…"}}. This one is held {with_whom}. Leave {name} out, or open another one.'
    )
