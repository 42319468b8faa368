"""Taking an answer back before the run has gone on with it, where the step's rules leave time for
that (`review.undo`).

While that time runs, the run is pending and due at its end: a row like any other that waits for its
time, so that it needs no message and outlives every restart. Of a worker that claims the run and a
person who takes the answer back, one finds the row as it expects it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from django.db.models import Exists

from checkpoints import store
from checkpoints.database import clock
from checkpoints.events import log
from checkpoints.models import CheckpointStatus, EventKind, Thread
from runs import hints
from runs.definitions import due_times
from runs.engine import ending, questions
from runs.engine.drafts.events import asking, line
from runs.engine.start import ANEW
from runs.models import Pause, Run
from runs.states import PAUSED, PENDING, PauseStatus


class TooLate(Exception):
    """The run has gone on, or was ended: the answer holds."""

    code = "undo_too_late"


def take_back(pause: Pause, *, until: dt.datetime, by: str, told: dict[str, str]) -> Pause:
    """Ask a question again as it was, whose answer the run would have acted on at `until`; its
    deadline begins anew, and so do votes.

    Not once that deadline has passed: nobody could have answered any more. Call inside a
    transaction.

    `pause` is `answerable`; `told` goes into the log. Raises TooLate: then roll back.
    """
    run, asked, now = pause.run, pause.checkpoint, clock.now()
    # a claim, a cancellation, a lost worker: each leaves another status or another time
    waiting = Run.objects.filter(
        Exists(Pause.objects.filter(due_times.in_time(), pk=pause.pk)),
        pk=run.pk,
        epoch=run.epoch,
        due_at=until,
    )
    if until <= now or not waiting.move({PENDING}, PAUSED, suspend_by=""):
        raise TooLate(_why_not(pause))
    # after the move: no worker writes a newer one
    head = Thread.objects.select_related("head").get(pk=run.thread_id).head
    assert head is not None  # written with the answer
    entry = replace(store.entry_of(asked), status=CheckpointStatus.PENDING_INPUT, next_step="")
    checkpoint = store.save(
        run.thread_id, run.pk, store.load(asked), entry, parent=head, before=store.load(head)
    )
    same = {
        field.attname: getattr(pause, field.attname)
        for field in Pause._meta.concrete_fields
        if field.name not in ANEW
    }
    again = Pause(**same | questions.opens(pause.review, run.thread, at=now))
    again.run, again.checkpoint, again.status = run, checkpoint, PauseStatus.OPEN
    again.save(force_insert=True)
    hints.pauses_changed_on_commit()
    undone = (
        EventKind.PAUSE_UPDATED,
        {"what": "undone", "pause_id": pause.shown_id, "step": pause.step, "by": by, **told},
    )
    note = "The answer was taken back before the run went on with it"
    log.append(
        run.thread_id,
        run.pk,
        [undone, line(note, pause.step, by=by), *asking(again, checkpoint)],
    )
    ending.note_on_parent(run, f"asks again: {by} took the answer back", pause_id=again.shown_id)
    return again


def _why_not(pause: Pause) -> str:
    if (
        pause.deadline_at is not None
        and not Pause.objects.filter(due_times.in_time(), pk=pause.pk).exists()
    ):
        return "The time to answer this question was over meanwhile, so the answer holds."
    return (
        "The run has gone on with this answer, or was ended, so it cannot be taken back any more."
    )
