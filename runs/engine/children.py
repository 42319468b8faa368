"""Child runs: started by a step that gathers, joined when all have ended, taken up again when their
parent is retried.

A parent that waits is `paused` with `awaited` counting the children that have not ended; each
child's end counts it down in its own transaction, and the last one makes the parent pending. The
join is then the work of whoever takes the parent up.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.conf import settings
from django.db import transaction

from checkpoints import ids, store
from checkpoints.database import clock
from checkpoints.models import Checkpoint, CheckpointStatus, Event, EventKind, Thread
from checkpoints.state import codec, reducers
from runs.engine import approvals, record
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.drafts import checkpoint_frequency, step_rows
from runs.engine.drafts.events import EventDraft, created, line
from runs.engine.start import Start, ask_again, entry_of, start_again
from runs.models import Definition, Pause, Run
from runs.states import COMPLETED, GATHERS, LIVE, PAUSED, PENDING, FailureCode, PauseStatus
from runs.workflows import sequence
from runs.workflows.base import Child, Gather, Go, Report, StepFailed
from runs.workflows.registry import traits_of
from runs.workflows.sequence import FrozenStep

OWN = ("gathered", "revision_feedback")
"""State keys of a child's own that do not join its parent's."""


def check(step: FrozenStep, outcome: Gather, *, depth: int) -> None:
    """Raise StepFailed where these children cannot be run.

    `depth` is that of the run that gathers.
    """
    names = [child.name for child in outcome.children]
    width, deepest = settings.WAYSTATION_GATHER_WIDTH, settings.WAYSTATION_GATHER_DEPTH
    if len(names) > width:
        raise StepFailed(
            f"A step may gather up to {width} child runs at once (WAYSTATION_GATHER_WIDTH); this "
            f"one wants {len(names)}.",
            code="gather_too_wide",
        )
    if depth >= deepest:
        raise StepFailed(
            f"Child runs may be nested {deepest} deep; this run is at that depth.",
            code="gather_too_deep",
        )
    if taken := {*sequence.ENDINGS} & {*names}:
        raise StepFailed(
            f"No child run may be called {taken.pop()}: what follows an end is.",
            code="gather_invalid",
        )
    if len(set(names)) < len(names) or not all(0 < len(name) <= 100 for name in names):
        raise StepFailed(
            "Each child run needs a name of its own, of up to 100 characters.",
            code="gather_invalid",
        )
    known = {sub_step["name"] for sub_step in step.get("sub_steps", [])}
    unknown = sorted({name for child in outcome.children for name in child.steps} - known)
    if unknown or not known:
        wanted = ", ".join(unknown) or "any"
        raise StepFailed(
            f"The step template of {step['name']} has no sub-step {wanted} for a child run "
            "to take.",
            code="gather_invalid",
        )


def start(held: ClaimedRun, step: FrozenStep, outcome: Gather) -> None:
    """Record what the step did, start its children, and wait for them: the run holds nothing from
    here on.
    """
    held.progress.wake_later(_start(held, step, outcome))


@transaction.atomic(durable=True)
def _start(held: ClaimedRun, step: FrozenStep, outcome: Gather) -> list[tuple[uuid.UUID, str]]:
    runs = [Run(child_name=child.name) for child in outcome.children]
    plan = {
        "children": [{"name": run.child_name, "run_id": run.shown_id} for run in runs],
        "to": outcome.to,
        "into": outcome.into,
        "on_failure": outcome.on_failure,
        "report": step_rows.kept_report(outcome.report) if outcome.report else None,
    }
    checkpoint, state, warnings = step_rows.after_step(
        held,
        outcome.update,
        outcome.commit,
        status=CheckpointStatus.ACTIVE,
        next_step="",
        metadata={"gather": plan},
    )
    done = (EventKind.STEP_COMPLETED, {"step": held.progress.at})
    facts = [*warnings, done, created(checkpoint), _waiting(held, runs)]
    fields = {
        "status": PAUSED,
        "awaited": len(runs),
        **record.FREE,
        **checkpoint_frequency.untraced(held, checkpoint),
    }
    record.write(held, fields, facts, checkpoint)
    made = [
        _ChildRows(held, step, run, child, state, checkpoint, outcome)
        for run, child in zip(runs, outcome.children, strict=True)
    ]
    Thread.objects.bulk_create([child.thread for child in made])
    Run.objects.bulk_create([child.run for child in made])
    for row in made:
        row.run.due_at = clock.now()  # about what was written
    Checkpoint.objects.bulk_create([child.checkpoint for child in made])
    Event.objects.bulk_create([child.event for child in made])
    return [(child.run.pk, child.run.queue) for child in made]


def _waiting(held: ClaimedRun, runs: Sequence[Run]) -> EventDraft:
    names = ", ".join(run.child_name for run in runs)
    return line(
        f"Waiting for {len(runs)} child run{'s' if len(runs) > 1 else ''}: {names}",
        held.progress.at,
        code=GATHERS,
    )


class _ChildRows:
    """The unsaved rows of one child."""

    def __init__(
        self,
        held: ClaimedRun,
        step: FrozenStep,
        run: Run,
        child: Child,
        state: dict[str, Any],
        parent: Checkpoint,
        outcome: Gather,
    ) -> None:
        above = held.run
        title = f"{above.thread.title}: {child.name}"[:200]
        definition = _definition(above.definition, step, child.steps)
        values = reducers.apply(state, child.update, definition.reducers)
        git = {"git": parent.metadata["git"]} if "git" in parent.metadata else {}
        edited = {approvals.EDITED: approvals.ABOVE} if approvals.EDITED in parent.metadata else {}
        # an approval is its parent's own
        begins = Start(
            state=values, next_step=definition.steps[0]["name"], metadata={**git, **edited}
        )
        self.thread = Thread(
            owner_id=above.thread.owner_id, team_id=above.thread.team_id, title=title, last_seq=1
        )
        self.checkpoint = store.build(
            self.thread.pk,
            run.pk,
            values,
            entry_of(definition, begins),
            parent=None,
            before=None,
            most=settings.WAYSTATION_STATE_BYTES,
        )
        self.thread.head_id = self.checkpoint.pk
        kind, data = created(self.checkpoint)
        self.event = Event(thread=self.thread, run_id=run.pk, seq=1, kind=kind, data=data)
        run.thread, run.definition, run.work_order_id = self.thread, definition, above.work_order_id
        run.parent_id, run.depth, run.optional = (
            above.pk,
            above.depth + 1,
            outcome.on_failure == "collect",
        )
        run.started_by_id = above.started_by_id
        run.interrupt_before = sequence.stops_within(above.interrupt_before, step["name"])
        run.interrupt_after = sequence.stops_within(above.interrupt_after, step["name"])
        run.due_at, run.queue = (
            cast(Any, clock.FromNow()),
            sequence.queue_of(definition.steps, begins.next_step),
        )
        self.run = run


def _definition(above: Definition, step: FrozenStep, names: Sequence[str]) -> Definition:
    """What a child run is pinned to: some of the sub-steps that are frozen with its parent."""
    known = step["sub_steps"]
    steps = [sequence.named(known, name) for name in names] if names else known
    content = {**above.content, "steps": steps}
    facts = {
        "template_slug": above.template_slug,
        "template_version": above.template_version,
        "content": content,
    }
    return Definition.objects.get_or_create(
        digest=codec.digest(codec.encode(content)), defaults=facts
    )[0]


def join(held: ClaimedRun) -> Go | None:
    """What the step that gathered has come to; None where children were taken up again and the run
    waits on.

    Raises StepFailed where one failed that counts.
    """
    plan = held.progress.metadata["gather"]
    if plan.get("again"):
        wake = _take_up(held, plan)
        if wake is not None:
            held.progress.wake_later(wake)
            return None
    runs = _runs_of(plan)
    if plan["on_failure"] == "fail_fast":
        _refuse_failed(runs)
    return _joined(held, plan, runs)


def _runs_of(plan: Mapping[str, Any]) -> dict[str, Run]:
    """Name → child run, in the order the step named them."""
    keys = {child["name"]: ids.parse(Run.PREFIX, child["run_id"]) for child in plan["children"]}
    runs = Run.objects.select_related("thread__head", "definition").in_bulk(list(keys.values()))
    return {name: runs[key] for name, key in keys.items()}


def _refuse_failed(runs: Mapping[str, Run]) -> None:
    for name, run in runs.items():
        if (
            run.status != COMPLETED
            and run.status not in LIVE
            and run.failure_code != FailureCode.CANCELLED_WITH_PARENT
        ):
            raise StepFailed(
                f"The child run {name} did not complete: {run.error or run.status}",
                code="child_failed",
            )


def _joined(held: ClaimedRun, plan: Mapping[str, Any], runs: Mapping[str, Run]) -> Go:
    done = {name: run for name, run in runs.items() if run.status == COMPLETED}
    changes = {name: _changes(run, held.reducers) for name, run in done.items()}
    update: dict[str, Any] = (
        {plan["into"]: changes} if plan["into"] else _merged(changes, held.reducers)
    )
    update["gathered"] = {
        name: {"run_id": run.shown_id, "status": run.status, "error": run.error}
        for name, run in runs.items()
    }
    if traits_of(_step(held)["function"]).asks_beside:
        _take_answers(held, done)
    metadata = held.progress.metadata
    held.progress.join({**_code(metadata, done), **_edited(metadata, runs)})
    report = step_rows.read_report(plan["report"]) if plan["report"] else _report(runs)
    return Go(update=update, to=plan["to"], report=report)


def _step(held: ClaimedRun) -> FrozenStep:
    return sequence.named(held.steps, held.progress.at)


def _take_answers(held: ClaimedRun, done: Mapping[str, Run]) -> None:
    """Let the answers that child runs got for the step count as answers to the step."""
    progress = held.progress
    heads = {name: run.thread.head.metadata for name, run in done.items() if run.thread.head}
    names = approvals.handed_up(approvals.named(progress.metadata), progress.at, heads)
    approved = approvals.look_up(held.run, progress.head, names)
    progress.settle(
        approved, {name: key if name in approved else "" for name, key in names.items()}
    )


def _changes(run: Run, rules: Mapping[str, str]) -> dict[str, Any]:
    """What a child did to the state that it started from."""
    first = Checkpoint.objects.get(thread=run.thread_id, parent__isnull=True)
    assert run.thread.head is not None  # written with the run
    before, after = store.load(first), store.load(run.thread.head)
    changes = reducers.since(before, after, rules)
    return {key: value for key, value in changes.items() if key not in OWN}


def _merged(changes: Mapping[str, dict[str, Any]], rules: Mapping[str, str]) -> dict[str, Any]:
    """One update out of several, in their order."""
    update: dict[str, Any] = {}
    for change in changes.values():
        update = reducers.apply(update, change, rules)
    return update


def _code(metadata: Mapping[str, Any], runs: Mapping[str, Run]) -> dict[str, Any]:
    """The code after the join: that of the one child that changed it.

    Raises StepFailed where several did.
    """
    before = metadata.get("git", {}).get("commit")
    heads = {
        name: run.thread.head.metadata.get("git", {})
        for name, run in runs.items()
        if run.thread.head
    }
    changed = {name: git for name, git in heads.items() if git.get("commit") not in {None, before}}
    if len({git["commit"] for git in changed.values()}) > 1:
        kept = ", ".join(f"{name} {git['commit'][:12]}" for name, git in changed.items())
        message = (
            "Several child runs changed the code, and their commits cannot be joined by "
            f"themselves: {kept}. They are kept."
        )
        raise StepFailed(message, code="children_changed_code")
    if not changed:
        return {}
    name, git = next(iter(changed.items()))
    child = runs[name].thread.head
    return {"git": git, "outputs": child.metadata.get("outputs", {}) if child else {}}


def _edited(metadata: Mapping[str, Any], runs: Mapping[str, Run]) -> dict[str, Any]:
    """What becomes of earlier approvals: where a person edited a child's state, what joins is not
    what they were given for.
    """
    if not any(
        run.thread.head and run.thread.head.metadata.get(approvals.EDITED) is True
        for run in runs.values()
    ):
        return {}
    return {**approvals.dropped(metadata), approvals.SKIPPED: []}


def _report(runs: Mapping[str, Run]) -> Report:
    """What the children handed over; that of an only child as it is."""
    reports = {name: _handed(run) for name, run in runs.items()}
    if len(reports) == 1 and (only := next(iter(reports.values()))):
        return only
    parts = []
    for name, run in runs.items():
        report = reports[name]
        text = (
            report.content
            if report
            else "Done."
            if run.status == COMPLETED
            else f"Did not complete: {run.error or run.status}"
        )
        parts.append(f"## {name}\n\n{text}")
    patch = "".join(report.patch for report in reports.values() if report)
    effects = [effect for report in reports.values() if report for effect in report.effects]
    return Report(
        content="\n\n".join(parts), patch=patch, facts={"Child runs": len(runs)}, effects=effects
    )


def _handed(run: Run) -> Report | None:
    head = run.thread.head
    kept = head.metadata.get("report") if head and run.status == COMPLETED else None
    return step_rows.read_report(kept) if kept else None


@transaction.atomic(durable=True)
def _take_up(held: ClaimedRun, plan: Mapping[str, Any]) -> list[tuple[uuid.UUID, str]] | None:
    """Start those children again that did not complete, each where it stopped, and wait for them;
    None where all have completed.
    """
    # parents are locked before their children
    if not Run.objects.held(held.run.pk, held.epoch).update(**dict.fromkeys(record.LOSSES, 0)):
        raise record.lost(held)
    runs = _runs_of(plan)
    if all(run.status == COMPLETED for run in runs.values()):
        return None
    new = {
        name: run if run.status == COMPLETED else _again(held, run) for name, run in runs.items()
    }
    listed = [{"name": name, "run_id": run.shown_id} for name, run in new.items()]
    waiting = [run for run in new.values() if run.status != COMPLETED]
    fresh = {key: value for key, value in plan.items() if key != "again"}
    checkpoint, *_ = step_rows.after_step(
        held,
        {},
        None,
        status=CheckpointStatus.ACTIVE,
        next_step="",
        metadata={"gather": {**fresh, "children": listed}},
    )
    facts = [created(checkpoint), _waiting(held, waiting)]
    record.write(
        held, {"status": PAUSED, "awaited": len(waiting), **record.FREE}, facts, checkpoint
    )
    return [(run.pk, run.queue) for run in waiting if run.status == PENDING]


def _again(held: ClaimedRun, run: Run) -> Run:
    """A child that was cancelled or expired while it asked asks the same again; any other goes on
    where it stopped.
    """
    head = run.thread.head
    assert head is not None  # written with the run
    state = store.load(head)
    asked = Pause.objects.filter(
        run=run,
        checkpoint=head.parent_id,
        status__in=[PauseStatus.CANCELLED, PauseStatus.EXPIRED],
    )
    pause = asked.select_related(
        "checkpoint", "run__thread", "run__definition", "run__work_order"
    ).first()
    if pause is not None and run.failure_code in {
        FailureCode.CANCELLED_WITH_PARENT,
        FailureCode.EXPIRED,
    }:
        return ask_again(pause, head, state, parent=held.run, depth=held.run.depth + 1)
    return start_again(run, head, state, parent=held.run, depth=held.run.depth + 1)
