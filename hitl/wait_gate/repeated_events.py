"""An event without an id that comes again, when the next question may be open already.

It is known by its thread, its sender and its words, for WAYSTATION_IDEMPOTENCY_HOURS: what answered
one question answers no other. A same answer that is meant for a later one names it. The row is
written in the transaction of the answer, as a request's `Idempotency-Key` is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.state import codec
from hitl.models import IdempotencyKey, idempotency
from hitl.wait_gate.resume_events import ResumeEvent
from runs import keyed
from runs.models import Pause

PREFIX = "event\n"
"""No `Idempotency-Key` of a request holds a line's end."""


class EventRepeated(Exception):
    """The event answered another question meanwhile; nothing was decided."""

    def __init__(self, question: uuid.UUID) -> None:
        super().__init__("This event answered another question already.")
        self.question = question


@dataclass(frozen=True, kw_only=True)
class EventClaim:
    """Makes an event its question's own, in the transaction that answers it."""

    key: str
    by: User
    question: str
    """Its id, pse_…."""

    def make(self, shown_id: str) -> None:
        row = IdempotencyKey(
            user=self.by, key=self.key, about=self.question, made=shown_id, made_at=clock.now()
        )
        IdempotencyKey.objects.bulk_create([row], ignore_conflicts=True)
        first = idempotency.find(self.by, self.key)
        if first is not None and first.token != row.token:
            raise EventRepeated(ids.parse(Pause.PREFIX, first.about))


@contextmanager
def claimed(event: ResumeEvent, pause: Pause, *, by: User) -> Iterator[None]:
    """Have what is decided meanwhile be all that this event decides, where neither it nor its
    request has an id. Raises EventRepeated.
    """
    if _is_named(event):
        yield
        return
    claim = EventClaim(key=_key(event, pause.run.thread_id), by=by, question=pause.shown_id)
    with keyed.alongside(claim):
        yield


def answered(event: ResumeEvent, thread_id: uuid.UUID, *, by: User) -> uuid.UUID | None:
    """Give the question that this event has answered, or voted on; None where it has not."""
    row = None if _is_named(event) else idempotency.find(by, _key(event, thread_id))
    return None if row is None or not row.about else ids.parse(Pause.PREFIX, row.about)


def _is_named(event: ResumeEvent) -> bool:
    """Whether it names its question, or its request has an id."""
    payload = event.payload if isinstance(event.payload, Mapping) else {}
    revisions = event.revision, payload.get("revision")
    digests = event.content_digest, payload.get("content_digest")
    return bool(event.pause_id or any(digests) or revisions != (None, None) or keyed.is_named())


def _key(event: ResumeEvent, thread_id: uuid.UUID) -> str:
    said = {name: value for name, value in event.kept.items() if name != "run_id"}
    return PREFIX + codec.digest(codec.encode([str(thread_id), said]))
