"""Many questions closed, and their runs moved, in few statements: what rules do at a deadline.

All of it is written, or none. Nothing is locked before all of it is ready, and no lock on a
question, a run or a thread is waited for, so a person who answers meanwhile waits for a few
statements at most.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby

from runs.engine import commit
from runs.engine.commit.gathering import Closing, Gathering
from runs.engine.commit.gathering import gather as gather
from runs.models import Pause, QueuedTurn, Run
from runs.tasks import next_turn_on_commit


class NotTogether(Exception):
    """One of the questions or runs is not as it was read, or somebody holds it.

    The transaction is to be undone, and each of them to be dealt with alone.
    """


def apart(pauses: Collection[Pause]) -> set[object]:
    """The keys of those questions whose run's end is told to runs above it, ends runs below it, or
    is followed by a step: they are not gathered.
    """
    children = Run.objects.filter(parent__in={pause.run_id for pause in pauses})
    parents = set(children.values_list("parent_id", flat=True))
    return {
        pause.pk
        for pause in pauses
        if pause.run.parent_id is not None
        or pause.run_id in parents
        or pause.run.frozen.content.get("endings")
    }


def write(gathered: Gathering) -> None:
    """Write what was gathered, in the order of `runs.engine.locks`.

    Call inside a transaction, once nothing gathers any more. Raises NotTogether.
    """
    _close(gathered.closings)
    if not commit.write_gathered(gathered.commits):
        raise NotTogether
    turns = QueuedTurn.objects.waiting().filter(thread__in=gathered.ended_on)
    for thread_id in turns.order_by().values_list("thread_id", flat=True).distinct():
        next_turn_on_commit(thread_id)


def _close(closings: list[Closing]) -> None:
    keys = {closing.pause.pk for closing in closings}
    waiting = Pause.objects.open().filter(pk__in=keys).order_by("pk")
    held = waiting.select_for_update(skip_locked=True, no_key=True)
    times = {
        key: (due, stage) for key, due, stage in held.values_list("pk", "deadline_at", "stage")
    }
    for closing in closings:
        pause = closing.pause
        if times.get(pause.pk) != (pause.deadline_at, pause.stage):
            raise NotTogether
    ordered = sorted(closings, key=lambda closing: (closing.status, closing.at))
    for (status, at), alike in groupby(ordered, lambda closing: (closing.status, closing.at)):
        closed = [closing.pause.pk for closing in alike]
        if Pause.objects.open().filter(pk__in=closed).change(status=status, closed_at=at) != len(
            closed
        ):
            raise NotTogether
