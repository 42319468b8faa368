"""Child runs begin: all of a step's at once, or as many as it wants at once, and each later one
when another has ended and its rate allows it.

Those that wait are counted on their parent's row (`gather_queued`), and when more may start is a
column of it too. Whoever ends a child starts the next ones; a sweep does where that process died.
In one transaction the parent's row is taken by compare-and-set, the rows of the next children are
written, and they are counted: a death leaves all of it, or nothing.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction

from checkpoints import store
from checkpoints.database import clock
from checkpoints.events import log
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind
from runs import limits
from runs.engine import ending, record
from runs.engine.children import plans, rows
from runs.engine.children.plans import Entry, Kept
from runs.engine.children.rows import ChildRows, Family, Wake
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.drafts import checkpoint_frequency, step_rows
from runs.engine.drafts.events import EventDraft, created, line
from runs.models import Run
from runs.states import FAILED, GATHERS, PAUSED, PENDING
from runs.workflows import sequence
from runs.workflows.base import Gather, StepFailed, rates
from runs.workflows.sequence import DEFAULT_QUEUE, FrozenStep

BATCH = 50
"""Child runs that one transaction starts."""
NAMED = 10
"""Child runs that a line of the log names."""


class Started(NamedTuple):
    woken: list[Wake]
    """Runs that want a message."""
    due: dt.datetime | None = None
    """When more of them may start; None where that hangs on another's end."""


def check(step: FrozenStep, outcome: Gather, *, depth: int) -> None:
    """Raise StepFailed where these children cannot be run.

    `depth` is that of the run that gathers.
    """
    names = [child.name for child in outcome.children]
    deepest = settings.WAYSTATION_GATHER_DEPTH
    if len(names) > limits.GATHER_CHILDREN:
        raise StepFailed(
            f"A step may gather up to {limits.GATHER_CHILDREN:,} child runs; this one wants "
            f"{len(names):,}. Let each do several pieces of the work.",
            code="gather_too_wide",
        )
    if depth >= deepest:
        raise StepFailed(
            f"Child runs may be nested {deepest} deep (WAYSTATION_GATHER_DEPTH); this run is at "
            "that depth.",
            code="gather_too_deep",
        )
    if taken := {*sequence.ENDINGS} & {*names}:
        raise _invalid(f"No child run may be called {taken.pop()}: what follows an end is.")
    if len(set(names)) < len(names) or not all(0 < len(name) <= 100 for name in names):
        raise _invalid("Each child run needs a name of its own, of up to 100 characters.")
    known = {sub_step["name"] for sub_step in step.get("sub_steps", [])}
    unknown = sorted({name for child in outcome.children for name in child.steps} - known)
    if unknown or not known:
        wanted = ", ".join(unknown) or "any"
        raise _invalid(
            f"The step template of {step['name']} has no sub-step {wanted} for a child run to take."
        )
    if outcome.at_once is not None and (type(outcome.at_once) is not int or outcome.at_once < 1):
        raise _invalid(f"`at_once` is a whole number from 1, not {outcome.at_once!r:.40}.")
    if outcome.on_child_failure not in {"stop", "continue"}:
        raise _invalid(
            f'`on_child_failure` is "stop" or "continue", not {outcome.on_child_failure!r:.40}.'
        )
    if outcome.rate:
        try:
            rates.parse(outcome.rate)
        except ValueError as error:
            raise _invalid(f"`rate`: {error}") from error


def _invalid(words: str) -> StepFailed:
    return StepFailed(words, code="gather_invalid")


def start(held: ClaimedRun, step: FrozenStep, outcome: Gather) -> None:
    """Record what the step did, start its children, and wait for them: the run holds nothing from
    here on.
    """
    most = settings.WAYSTATION_GATHER_WIDTH
    at_once = min(outcome.at_once or most, most)
    shared = {
        "to": outcome.to,
        "into": outcome.into,
        "on_failure": outcome.failure_policy,
        "report": step_rows.kept_report(outcome.report) if outcome.report else None,
    }
    if len(outcome.children) <= at_once and not outcome.rate:
        held.progress.wake_later(_start_all(held, step, outcome, shared))
        return
    plan = {
        **shared,
        **plans.write(plans.new_child(child) for child in outcome.children),
        "at_once": at_once,
        "rate": list(rates.parse(outcome.rate)) if outcome.rate else None,
    }
    names = [child.name for child in outcome.children]
    facts = [
        (EventKind.STEP_COMPLETED, {"step": held.progress.at}),
        waiting(held.progress.at, names[:NAMED], len(names), at_once),
    ]
    wait(held, plan, facts, update=outcome.update, code=outcome.commit, awaited=len(names))
    begin(held)


def wait(
    held: ClaimedRun,
    plan: dict[str, Any],
    facts: Sequence[EventDraft],
    *,
    update: Mapping[str, Any],
    code: Any,
    awaited: int,
) -> None:
    """Let the run wait for children that are started in turn."""
    checkpoint, _, warnings = step_rows.after_step(
        held, update, code, status=CheckpointStatus.ACTIVE, next_step="", metadata={"gather": plan}
    )
    fields = {
        "status": PAUSED,
        **counted(plan["size"], awaited),
        "gather_queued": awaited,
        "gather_due_at": clock.FromNow(),
        **record.FREE,
        **checkpoint_frequency.untraced(held, checkpoint),
    }
    record.write(held, fields, [*warnings, *facts, created(checkpoint)], checkpoint)


def counted(size: int, awaited: int) -> dict[str, Any]:
    """The columns of a run that waits for its children from now on."""
    return {
        "awaited": awaited, "gather_size": size, "gather_queued": 0, "gather_failed": 0,
        "gather_due_at": None,
    }  # fmt: skip


def begin(held: ClaimedRun) -> None:
    """Start the first children of a run that waits for them."""
    started = start_more(held.run.pk)
    held.progress.wake_later(started.woken)
    if started.due is not None:
        held.progress.wait_until(started.due, DEFAULT_QUEUE)


@transaction.atomic(durable=True)
def _start_all(
    held: ClaimedRun, step: FrozenStep, outcome: Gather, shared: dict[str, Any]
) -> list[Wake]:
    runs = [Run(child_name=child.name) for child in outcome.children]
    listed = [{"name": run.child_name, "run_id": run.shown_id} for run in runs]
    checkpoint, state, warnings = step_rows.after_step(
        held,
        outcome.update,
        outcome.commit,
        status=CheckpointStatus.ACTIVE,
        next_step="",
        metadata={"gather": {"children": listed, **shared}},
    )
    done = (EventKind.STEP_COMPLETED, {"step": held.progress.at})
    names = [run.child_name for run in runs]
    facts = [*warnings, done, created(checkpoint), waiting(held.progress.at, names, len(names))]
    fields = {
        "status": PAUSED,
        **counted(len(runs), len(runs)),
        **record.FREE,
        **checkpoint_frequency.untraced(held, checkpoint),
    }
    record.write(held, fields, facts, checkpoint)
    optional = outcome.failure_policy == "collect"
    family = Family(held.run, step, state, checkpoint, optional=optional)
    return rows.write(
        [
            ChildRows(family, run, child.steps, child.update)
            for run, child in zip(runs, outcome.children, strict=True)
        ]
    )


def waiting(step: str, names: Sequence[str], count: int, at_once: int = 0) -> EventDraft:
    """That a step waits for so many child runs from now on; `names` of some or all of them."""
    turns = f", up to {at_once:,} at once" if at_once else ""
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    named = f": {', '.join(names)}{more}" if names else ""
    words = f"Waiting for {count:,} child run{'s' if count > 1 else ''}{turns}{named}"
    return line(words, step, code=GATHERS)


def start_more(run_id: uuid.UUID) -> Started:
    """Start the child runs of a run whose turn it is, and give the runs that want a message: none
    where none may start, or somebody else starts them.

    Harmless when two do it at once, and when one dies at any point.
    """
    woken: list[Wake] = []
    due = None
    while (started := _start_some(run_id)) is not None:
        woken, due = woken + started.woken, started.due
    return Started(woken, due)


@transaction.atomic(durable=True)
def _start_some(run_id: uuid.UUID) -> Started | None:
    """Start some of those whose turn it is; None where it is nobody's."""
    mine = Run.objects.gathers_due(now=clock.FromNow()).filter(pk=run_id, gather_queued__gt=0)
    if not mine.update(gather_due_at=None):  # from here on its row is ours
        return None
    above = Run.objects.select_related("thread__head", "definition").get(pk=run_id)
    head = above.thread.head
    kept = plans.of(head)
    if head is None or kept is None:  # another version of the code let it wait for others
        Run.objects.filter(pk=run_id).update(gather_queued=0)
        return None
    at_once = min(kept["at_once"], settings.WAYSTATION_GATHER_WIDTH)
    first = plans.to_start(kept) - above.gather_queued
    room = max(0, min(at_once - above.gather_live, above.gather_queued, BATCH))
    count, due = _allowed(kept, first, room)
    try:
        made = _write(above, head, kept, plans.starting(kept, first, count))
    except store.CheckpointDamaged:  # whoever takes the parent up says so, and ends it
        return Started(_wake(above))
    return _note(above, kept, made, at_once, due)


def _allowed(kept: Kept, first: int, room: int) -> tuple[int, dt.datetime | None]:
    """How many may start now where there is room for so many, by their rate; and where it allows
    fewer, when it allows the next.

    The child before which `count` others started in the last time waits until the first of those is
    so long ago.
    """
    rate = plans.rate_of(kept)
    if rate is None or not room:
        return room, None
    now, window = clock.now(), dt.timedelta(seconds=rate.seconds)
    earliest = max(0, first - rate.most)
    looked_at = max(0, min(first, first - rate.most + room) - earliest)
    entries = plans.starting(kept, earliest, looked_at)
    begun = Run.objects.filter(pk__in=[entry.run_id for entry in entries])
    at = dict(begun.values_list("pk", "created_at"))
    begun_at = [at.get(entry.run_id, now - window) for entry in entries]
    for number in range(room):
        before = first + number - rate.most - earliest
        if before >= len(begun_at):  # one that starts now
            return number, now + window
        if before >= 0 and begun_at[before] + window > now:
            return number, begun_at[before] + window
    return room, None


def _write(above: Run, head: Checkpoint, kept: Kept, entries: Sequence[Entry]) -> list[Run]:
    """Write the rows of these children, and give their runs. Raises CheckpointDamaged."""
    step = sequence.named(above.frozen.steps, head.node_id)
    optional = kept["on_failure"] == "collect"
    # where somebody wants the run to stop at its next boundary, these ask before they begin
    stops = bool(above.suspend_by)
    family = Family(above, step, _state_of(head), head, optional=optional, stops=stops)
    new = [
        rows.drafted(
            family, Run(id=entry.run_id, child_name=entry.name), entry.steps, entry.update or {}
        )
        for entry in entries
        if entry.again is None
    ]
    rows.write(new)
    made = {row.run.pk: row.run for row in new}
    earlier = Run.objects.select_related("thread__head", "definition", "work_order")
    before = earlier.in_bulk([entry.again for entry in entries if entry.again is not None])
    for entry in entries:
        if entry.again is not None:
            run = rows.take_up(
                above, before[entry.again], id=entry.run_id, suspend_by=above.suspend_by
            )
            made[run.pk] = run
    return [made[entry.run_id] for entry in entries]


@lru_cache(maxsize=1)
def _state_of(head: Checkpoint) -> Mapping[str, Any]:
    """What its children begin with: whoever starts one of them starts others soon."""
    return store.load(head)


def _note(
    above: Run, kept: Kept, made: Sequence[Run], at_once: int, due: dt.datetime | None
) -> Started:
    """Count those that were started just now, and say what follows."""
    refused = [run for run in made if run.status == FAILED]
    queued = above.gather_queued - len(made)
    awaited = above.awaited - len(refused)
    woken = [(run.pk, run.queue) for run in made if run.status == PENDING]
    next_due: Any = due or clock.FromNow()
    if not queued or awaited - queued >= at_once:
        next_due = due = None
    fields = {
        "awaited": awaited,
        "gather_queued": queued,
        "gather_failed": above.gather_failed + len(refused),
        "gather_due_at": next_due,
        **({"suspend_by": ""} if made else {}),
    }
    Run.objects.filter(pk=above.pk).update(**fields)
    if not awaited or (refused and kept["on_failure"] != "collect"):
        woken += _wake(above)
        due = None
    for run in refused:
        ending.note_on_parent(run, f"failed: {run.error}", level="warning", woken=woken)
    for name in ("awaited", "gather_queued", "gather_failed"):
        setattr(above, name, fields[name])
    _tell(above, len(made))
    return Started(woken, due)


def _wake(above: Run) -> list[Wake]:
    """Let the run go on without waiting any longer."""
    on = {"due_at": clock.FromNow(), "queue": DEFAULT_QUEUE, "gather_due_at": None}
    Run.objects.filter(pk=above.pk).move({PAUSED}, PENDING, awaited=0, **on)
    return [(above.pk, DEFAULT_QUEUE)]


def _tell(above: Run, started: int) -> None:
    """Say how far a run is whose child runs are many: about a hundred times on its way."""
    ending.show_progress(above)
    ended, every = above.gather_ended, above.gather_size // ending.TOLD
    if every and ended // every > max(0, ended - started) // every:
        words = f"{ended:,} of {above.gather_size:,} child runs have ended"
        failed = above.gather_failed
        words += f"; {failed:,} of them did not complete." if failed else "."
        log.append(above.thread_id, above.pk, [line(words)])
