"""Child runs are taken up again with their parent: those that did not complete, each where it
stopped; those that were never started begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import transaction

from checkpoints import ids
from checkpoints.models import CheckpointStatus
from runs.engine import record
from runs.engine.children import plans, rows, starting
from runs.engine.children.plans import Kept
from runs.engine.children.rows import Wake
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.drafts import step_rows
from runs.engine.drafts.events import created
from runs.models import Run
from runs.states import COMPLETED, PAUSED, PENDING


def take_up_all(held: ClaimedRun, kept: Kept) -> bool:
    """Start those children again that did not complete, and wait for them; False where all have
    completed.
    """
    if not plans.is_paged(kept):
        woken = _take_up_listed(held, kept)
        held.progress.wake_later(woken or [])
        return woken is not None
    fresh = {**{key: kept[key] for key in kept if key != "again"}, **plans.write(_paged(kept))}
    left = plans.to_start(fresh)
    if not left:
        return False
    told = starting.waiting(held.progress.at, [], left, fresh["at_once"])
    starting.wait(held, fresh, [told], update={}, code=None, awaited=left)
    starting.begin(held)
    return True


def _paged(kept: Kept) -> Iterator[dict[str, Any]]:
    """The children of a plan as they are now, for the pages of the next."""
    for entries in plans.batches(kept):
        facts = Run.objects.filter(pk__in=[entry.run_id for entry in entries])
        ends = {key: end for key, *end in facts.values_list("pk", "status", "failure_code")}
        for entry in entries:
            status, code = ends.get(entry.run_id, ("", ""))
            run_id = ids.show(Run.PREFIX, entry.run_id)
            if status == COMPLETED:
                yield {"name": entry.name, "done": run_id}
            elif status and code != rows.CANNOT_START:
                yield {"name": entry.name, "again": run_id}
            elif entry.again is not None:  # its turn to be taken up had not come yet
                yield {"name": entry.name, "again": ids.show(Run.PREFIX, entry.again)}
            else:
                yield {"name": entry.name, "steps": entry.steps, "update": entry.update}


@transaction.atomic(durable=True)
def _take_up_listed(held: ClaimedRun, kept: Kept) -> list[Wake] | None:
    """Start those children of a list again that did not complete; None where all have completed."""
    # parents are locked before their children
    if not Run.objects.held(held.run.pk, held.epoch).update(**dict.fromkeys(record.LOSSES, 0)):
        raise record.lost(held)
    found = plans.runs(kept).select_related("thread__head", "definition", "work_order")
    by_key = {run.pk: run for run in found}
    runs = {entry.name: by_key[entry.run_id] for some in plans.batches(kept) for entry in some}
    if all(run.status == COMPLETED for run in runs.values()):
        return None
    new = {
        name: run if run.status == COMPLETED else rows.take_up(held.run, run)
        for name, run in runs.items()
    }
    listed = [{"name": name, "run_id": run.shown_id} for name, run in new.items()]
    waiting = [run for run in new.values() if run.status != COMPLETED]
    fresh = {key: value for key, value in kept.items() if key != "again"}
    checkpoint, *_ = step_rows.after_step(
        held,
        {},
        None,
        status=CheckpointStatus.ACTIVE,
        next_step="",
        metadata={"gather": {**fresh, "children": listed}},
    )
    names = [run.child_name for run in waiting]
    facts = [created(checkpoint), starting.waiting(held.progress.at, names, len(names))]
    fields = {"status": PAUSED, **starting.counted(len(runs), len(waiting)), **record.FREE}
    record.write(held, fields, facts, checkpoint)
    return [(run.pk, run.queue) for run in waiting if run.status == PENDING]
