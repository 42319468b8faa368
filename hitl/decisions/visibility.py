"""What people see who are asked on a thread that they take no part in: the question, and the page
of its order or thread. No more.

Such an observer looks at the page and its news, and answers; to cancel the order, suspend, retry,
fork or export it, or read its states and checkpoints, one must take part
(`Thread.objects.visible_to`). He keeps seeing it once the question is closed, so that he learns
what became of it; who stands in for somebody, as long as he does. Both are looked for only where
the usual, quick way finds nothing.
"""

from __future__ import annotations

import uuid

from checkpoints.database.people import User
from checkpoints.models import Thread
from hitl.decisions import policy
from runs.models import Pause, PauseQuerySet, Run, WorkOrder


def pause(found: PauseQuerySet, pause_id: uuid.UUID, *, by: User) -> Pause | None:
    """A question, read as `found` says, that a person sees as a participant or since he is
    asked.
    """
    one = found.filter(pk=pause_id)
    seen = one.visible_to(by).first()
    if seen is not None or not _may(by):
        return seen
    return one.filter(pk__in=policy.asked_of(by).filter(pk=pause_id).values("pk")).first()


def open_of_order(order_id: uuid.UUID, *, by: User) -> list[Pause]:
    """The open questions of a work order that a person is asked, as `answerable`, without taking
    part in it.
    """
    if not _may(by):
        return []
    asked = policy.asked_of(by).filter(run__work_order=order_id).values("pk")
    return list(Pause.objects.open().answerable().filter(pk__in=asked).order_by("pk"))


def is_observer(thread: Thread, *, by: User) -> bool:
    """Whether a person who sees a thread takes no part in it."""
    return (
        thread.owner_id != by.pk and not Thread.objects.visible_to(by).filter(pk=thread.pk).exists()
    )


def sees(thread_id: uuid.UUID, *, by: User) -> bool:
    return Thread.objects.visible_to(by).filter(pk=thread_id).exists() or is_asked(thread_id, by=by)


def is_asked(thread_id: uuid.UUID, *, by: User) -> bool:
    """Whether a question of a thread, its order's child runs among it, is or was put to a
    person.
    """
    if not _may(by):
        return False
    order = WorkOrder.objects.filter(thread=thread_id).values("pk")
    of_thread = Pause.objects.filter(run__thread=thread_id) | Pause.objects.filter(
        run__work_order__in=order
    )
    below = _below(thread_id)
    asked = policy.asked_of(by)
    return asked.filter(pk__in=of_thread.values("pk")).exists() or bool(
        below and asked.filter(run__in=below).exists()
    )


def _below(thread_id: uuid.UUID) -> list[uuid.UUID]:
    """The runs below a thread's own: their questions are shown on its page."""
    found = level = list(Run.objects.filter(parent__thread=thread_id).values_list("pk", flat=True))
    while level := list(Run.objects.filter(parent__in=level).values_list("pk", flat=True)):
        found = [*found, *level]
    return found


def _may(by: User) -> bool:
    return by.is_authenticated and by.is_active and not by.is_superuser
