"""Child runs have ended, and their parent goes on with what they changed.

They are read a page at a time, so a join needs no more memory the more there are, but for what it
gives: the parent's new state.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints import store
from checkpoints.models import Checkpoint
from checkpoints.state import codec, reducers
from runs.engine import approvals
from runs.engine.children import again, plans
from runs.engine.children.plans import Entry, Kept
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.drafts import step_rows
from runs.models import Run
from runs.states import COMPLETED, ENDED, FailureCode
from runs.workflows.base import Go, Report, StepFailed

OWN = ("gathered", "revision_feedback")
"""State keys of a child's own that do not join its parent's."""
PARTS = 100
"""Children whose reports are shown one by one; of more it is said how many are complete."""
FAILED = 20
"""Of more than PARTS children: those that did not complete, by name."""


def join(held: ClaimedRun) -> Go | None:
    """What the step that gathered has come to; None where children were taken up again and the run
    waits on.

    Raises StepFailed where one failed that counts.
    """
    kept = held.progress.metadata["gather"]
    if kept.get("again") and again.take_up_all(held, kept):
        return None
    if kept["on_failure"] == "fail_fast":
        _refuse_failed(kept)
    return _joined(held, kept)


def _refuse_failed(kept: Kept) -> None:
    failed = plans.runs(kept).filter(status__in=sorted(ENDED - {COMPLETED}))
    counting = failed.exclude(failure_code=FailureCode.CANCELLED_WITH_PARENT)
    if (run := counting.order_by("pk").first()) is not None:
        raise StepFailed(
            f"The child run {run.child_name} did not complete: {run.error or run.status}",
            code="child_failed",
        )


def _joined(held: ClaimedRun, kept: Kept) -> Go:
    join = _Join(held, kept["into"])
    for entries in plans.batches(kept):
        join.take(entries)
    held.progress.join({**join.code(), **join.edited()})
    report = step_rows.read_report(kept["report"]) if kept["report"] else join.report()
    return Go(update=join.update(), to=kept["to"], report=report)


class _Join:
    """What child runs have brought so far."""

    def __init__(self, held: ClaimedRun, into: str) -> None:
        self._into, self._rules = into, held.reducers
        self._metadata, self._state = held.progress.metadata, held.progress.state
        self._changes: dict[str, Any] = {}
        """The update so far; with `into` that of each."""
        self._gathered: dict[str, dict[str, Any]] = {}
        self._heads: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        """Of those that changed the code: its state, and their outputs."""
        self._edited = False
        self._reports = _Reports()

    def take(self, entries: Sequence[Entry]) -> None:
        """Add some of them, in the order in which the step named them."""
        keys = [entry.run_id for entry in entries]
        runs = Run.objects.select_related("thread__head").in_bulk(keys)
        threads = [run.thread_id for run in runs.values() if run.status == COMPLETED]
        firsts = _firsts(threads)
        changes: dict[str, dict[str, Any]] = {}
        for entry in entries:
            run = runs.get(entry.run_id)
            if run is not None and run.status == COMPLETED:
                first = firsts[run.thread_id]
                changes[entry.name] = self._changes_of(entry, run, first)
            self._note(entry.name, run)
        # within the batch first: what a reducer copies does not grow with all that came before
        if self._into:
            self._changes.update(changes)
        else:
            merged = _merged(changes.values(), self._rules)
            self._changes = _merged([self._changes, merged], self._rules)

    def _note(self, name: str, run: Run | None) -> None:
        if run is None:
            told = {"run_id": "", "status": "pending", "error": "It was not started."}
        else:
            told = {"run_id": run.shown_id, "status": run.status, "error": run.error}
        self._gathered[name] = told
        head = run.thread.head if run is not None else None
        metadata: Mapping[str, Any] = head.metadata if head is not None else {}
        self._edited = self._edited or metadata.get(approvals.EDITED) is True
        completed = told["status"] == COMPLETED
        before = self._metadata.get("git", {}).get("commit")
        git = metadata.get("git", {})
        if completed and git.get("commit") not in {None, before}:
            self._heads[name] = git, metadata.get("outputs", {})
        handed = metadata.get("report") if completed else None
        self._reports.add(name, told, step_rows.read_report(handed) if handed else None)

    def _changes_of(self, entry: Entry, run: Run, first: Checkpoint) -> dict[str, Any]:
        """What a child did to the state that it started from."""
        head = run.thread.head
        assert head is not None  # written with the run
        before = self._began(entry, first)
        after = store.load(head, before=before if head.parent_id == first.pk else None)
        changes = reducers.since(before, after, self._rules)
        return {key: value for key, value in changes.items() if key not in OWN}

    def _began(self, entry: Entry, first: Checkpoint) -> codec.State:
        """The state that it started from: made anew, or read where that is not the one."""
        if entry.update is not None:
            made = codec.state(reducers.apply(self._state, entry.update, self._rules))
            if codec.state_digest(made) == first.digest:
                return made
        return codec.state(store.load(first))

    def update(self) -> dict[str, Any]:
        update = {self._into: self._changes} if self._into else self._changes
        return {**update, "gathered": self._gathered}

    def code(self) -> dict[str, Any]:
        """The code after the join: that of the one child that changed it.

        Raises StepFailed where several did.
        """
        if len({git["commit"] for git, _ in self._heads.values()}) > 1:
            kept = ", ".join(
                f"{name} {git['commit'][:12]}" for name, (git, _) in self._heads.items()
            )
            message = (
                "Several child runs changed the code, and their commits cannot be joined by "
                f"themselves: {kept}. They are kept."
            )
            raise StepFailed(message, code="children_changed_code")
        for git, outputs in self._heads.values():
            return {"git": git, "outputs": outputs}
        return {}

    def edited(self) -> dict[str, Any]:
        """What becomes of earlier approvals: where a person edited a child's state, what joins is
        not what they were given for.
        """
        return {**approvals.dropped(self._metadata), approvals.SKIPPED: []} if self._edited else {}

    def report(self) -> Report:
        return self._reports.whole()


def _firsts(threads: Sequence[uuid.UUID]) -> dict[uuid.UUID, Checkpoint]:
    """The checkpoints that the children on these threads began from."""
    found = Checkpoint.objects.filter(thread__in=threads, parent__isnull=True)
    return {checkpoint.thread_id: checkpoint for checkpoint in found}


def _merged(changes: Any, rules: Mapping[str, str]) -> dict[str, Any]:
    """One update out of several, in their order."""
    update: Any = codec.state({})  # so that what is there already costs nothing
    for change in changes:
        update = reducers.apply(update, change, rules)
    return dict(update)


class _Reports:
    """What the children handed over; that of an only child as it is."""

    def __init__(self) -> None:
        self._count = self._incomplete = 0
        self._parts: list[str] = []
        self._failed: list[str] = []
        self._patches: list[str] = []
        self._effects: dict[str, None] = {}
        self._only: Report | None = None

    def add(self, name: str, told: Mapping[str, Any], report: Report | None) -> None:
        self._count += 1
        self._only = report
        text = report.content if report else "Done."
        if told["status"] != COMPLETED:
            self._incomplete += 1
            text = f"Did not complete: {told['error'] or told['status']}"
            if len(self._failed) < FAILED:
                self._failed.append(f"- **{name}**: {told['error'] or told['status']}")
        if len(self._parts) < PARTS:
            self._parts.append(f"## {name}\n\n{text}")
        if report:
            self._patches += [report.patch] if report.patch else []
            self._effects |= dict.fromkeys(report.effects)

    def whole(self) -> Report:
        if self._count == 1 and self._only:
            return self._only
        facts: dict[str, str | int] = {"Child runs": self._count}
        if self._incomplete:
            facts["Not completed"] = self._incomplete
        return Report(
            content="\n\n".join(self._parts) if self._count <= PARTS else self._summed_up(),
            patch="".join(self._patches),
            facts=facts,
            effects=list(self._effects),
        )

    def _summed_up(self) -> str:
        lines = [f"{self._count - self._incomplete:,} of {self._count:,} child runs are complete."]
        if self._failed:
            more = self._incomplete - len(self._failed)
            others = [f"- and {more:,} more"] if more else []
            lines += ["Not completed:", "\n".join([*self._failed, *others])]
        return "\n\n".join(lines)
