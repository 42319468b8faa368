"""What the pages of a work order and of a thread share: a run with its child runs, the question
that is open, and the story so far.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, QuerySet, When

from checkpoints.store.prepared_queries import Prepared
from hitl.models import Decision
from hitl.rendering.own_words import own
from hitl.views.common import place_of
from hitl.views.story import output_of
from runs.models import Definition, Pause, Run, WorkOrder
from runs.states import (
    CANCELLED,
    COMPLETED,
    EXPIRED,
    FAILED,
    FAILURE,
    LIVE,
    PAUSED,
    PENDING,
    RUNNING,
    STOPS,
)
from runs.workflows import sequence
from runs.workflows.sequence import REVISE

STOPPED: Mapping[str, str] = {FAILED: "failed", CANCELLED: "ended", EXPIRED: "ended"}
"""How the step looks at which a run ended without its result."""
PUT_TO_SOMEBODY = {PAUSED, *STOPPED}
MANY = 500
"""Child runs that a page reads of each level."""
CHILD_OUTPUT = 1_000
"""Characters of a child run's output that its parent's page shows."""


@dataclass(frozen=True)
class Member:
    """A child run as the page lists it."""

    run: Run
    above: Sequence[str]
    """Names of the child runs that it runs for, from the top."""
    pause: Pause | None
    """The question it waits with."""

    @property
    def level(self) -> int:
        return len(self.above) + 1

    @property
    def name(self) -> str:
        return self.run.child_name

    @property
    def status(self) -> str:
        """Who waits for child runs of its own is at work."""
        return "running" if self.run.awaited else str(self.run.status)

    @property
    def step(self) -> str:
        """The title of the step it is at; "" where it has ended."""
        return step_title(self.run) if self.run.status in LIVE else ""

    @property
    def output(self) -> str:
        """The end of what its step at work says."""
        return output_of(self.run.thread_id)[-CHILD_OUTPUT:] if self.run.status == RUNNING else ""

    @property
    def place(self) -> str:
        return place_of(self.pause) if self.pause else ""


def family_of(run: Run | None, *, has_children: bool = True) -> list[Run]:
    """The runs below a run and below those that it retries, in their parents' order: every version
    of each child run. Of more than MANY on a level those that live, then those that did not
    complete, then the newest.

    `has_children` is false where the caller knows that its thread has none.
    """
    if run is None or not has_children:
        return []
    family: list[Run] = []
    children = _children.get(run.thread_id)
    if children:
        retried = dict(Run.objects.filter(thread=run.thread_id).values_list("pk", "retry_of"))
        versions = set(chain(run.pk, retried))
        children = [child for child in children if child.parent_id in versions]
    while children:
        children.sort(key=lambda child: child.pk)
        family += children
        level = [child.pk for child in children]
        children = list(_first(_related().filter(parent__in=level)))
    return family


def _related() -> QuerySet[Run]:
    return Run.objects.select_related("thread__head", "definition").defer("thread__head__body")


def _first(children: QuerySet[Run]) -> QuerySet[Run]:
    """Up to MANY: those first that somebody may have to look at."""
    matters = Case(When(status__in=sorted(LIVE), then=0), When(status=COMPLETED, then=2), default=1)
    return children.order_by(matters, "-id")[:MANY]


_children = Prepared(lambda key: _first(_related().filter(parent__thread=key)), uuid.UUID)
"""Of all runs of a thread: most have none."""


def share_definition(runs: Iterable[Run], definitions: Iterable[Definition]) -> None:
    """Give runs the definitions that were read already."""
    known = {definition.pk: definition for definition in definitions}
    for run in runs:
        if run.definition_id in known:
            run.definition = known[run.definition_id]


def members_of(run: Run | None, family: Sequence[Run], pauses: Iterable[Pause]) -> list[Member]:
    """The newest run of each child's name, each followed by its own child runs."""
    if run is None or not family:
        return []
    below: dict[uuid.UUID | None, list[Run]] = defaultdict(list)
    for member in family:
        below[member.parent_id].append(member)
    before = dict(Run.objects.filter(thread=run.thread_id).values_list("pk", "retry_of")) | {
        member.pk: member.retry_of_id for member in family
    }
    asked = {pause.run_id: pause for pause in pauses}

    def walk(parent: uuid.UUID, above: tuple[str, ...]) -> Iterator[Member]:
        newest = {}
        for child in sorted(
            (child_run for version in chain(parent, before) for child_run in below[version]),
            key=lambda child_run: child_run.pk,
        ):
            newest[child.child_name] = child  # stays at the place of the first of its name
        for child in newest.values():
            yield Member(child, above, asked.get(child.pk))
            yield from walk(child.pk, (*above, child.child_name))

    return list(walk(run.pk, ()))


def chain(
    run_id: uuid.UUID | None, before: Mapping[uuid.UUID, uuid.UUID | None]
) -> Iterator[uuid.UUID]:
    """A run, the one it retries, and so on."""
    while run_id is not None:
        yield run_id
        run_id = before.get(run_id)


def step_title(run: Run) -> str:
    """The title of the step that a run is at."""
    name = current_step(run)
    return next((step["title"] for step in run.definition.steps if step["name"] == name), name)


def current_step(run: Run) -> str:
    """The step that runs, waits to run, or asks."""
    head = run.thread.head
    if head is None:
        return ""
    return head.node_id if run.status == PAUSED else head.next_step or head.node_id


def waiting_for(run: Run | None) -> dict[str, Any] | None:
    """At which step a run waits for how many child runs, how many of them have ended, failed, and
    are not started yet; None where it waits for none.
    """
    if run is None or not run.awaited or run.thread.head is None:
        return None
    gather = run.thread.head.metadata.get("gather", {})
    total = run.gather_size or len(gather.get("children", []))
    return {
        "step": run.thread.head.node_id,
        "run": run,
        "awaited": run.awaited,
        "total": total,
        "ended": max(0, total - run.awaited),
        "failed": run.gather_failed,
        "queued": run.gather_queued,
    }


def progress_of(
    definition: Definition,
    current: str,
    status: str,
    phase: str | None,
    *,
    gathers: bool = False,
    left_out: Collection[str] = (),
    failed: str = "",
) -> list[dict[str, str]]:
    """The steps and the pauses between them, each `done`, `now`, `failed`, `ended`, `todo` or
    `left`; what is `now` and waits for a worker is `next` too. Where somebody or a rule ended the
    work is `ended`.

    Args:
        status: an order's `standing`. With `gathers` its child runs work for the current step, and
            `paused` says that one of them asks.
        phase: of the question that is open, or that the run ended at; None where there is none. A
            question that is not the pause after its step is the step's own, which is not done
            before it is answered.
        left_out: what `left_out_of` gives.
        failed: the step that failed and led to another one.
    """
    parts: list[dict[str, str]] = []
    state = "done" if current else "todo"
    for step in definition.steps:
        here = step["name"] == current and status != "completed"
        stopped = status == "paused" and phase in STOPS
        is_done = (
            here
            and not gathers
            and (stopped or (status in PUT_TO_SOMEBODY and sequence.asks_after(step, phase)))
        )
        if here:
            state = "todo"
        elif step["name"] in left_out:
            state = "left"
        past = {"title": own(step["title"]), "state": state}
        if step["name"] == failed and state == "done":
            past |= {"state": "failed", "past": "yes"}
        at = STOPPED.get(status, "now")
        more = (
            {"person": "yes"}
            if status == "paused"
            else {"next": "yes"}
            if status == "pending"
            else {}
        )
        parts.append(
            {"title": own(step["title"]), "state": "done" if is_done else at, **more}
            if here
            else past
        )
        if step["pause_after"]:
            parts.append(
                {
                    "title": own(sequence.pause_title(step)),
                    "state": at if is_done else state,
                    "person": "yes",
                }
            )
    return parts


def failed_of(order: WorkOrder) -> str:
    """The step that failed for good and led to where the run is now, or ended."""
    head = order.thread.head
    failure = head.metadata.get(FAILURE) if head else None
    return str(failure.get("step", "")) if isinstance(failure, dict) else ""


def left_out_of(order: WorkOrder) -> set[str]:
    """The steps that a completed order ended before and never came to: a step of its own ended
    it.
    """
    head = order.thread.head
    if head is None or order.status != COMPLETED:
        return set()
    behind = {step["name"] for step in order.definition.steps[head.completed_nodes :]}
    if not behind:
        return set()
    return behind - set(order.thread.checkpoints.values_list("node_id", flat=True))


def ended_at(steps: Sequence[Mapping[str, str]]) -> str:
    """The last step or pause that is done, where others were left out (`progress_of`); else ""."""
    if not any(step["state"] == "left" for step in steps):
        return ""
    return next((step["title"] for step in reversed(steps) if step["state"] == "done"), "")


def rerunning_of(run: Run | None, family: Sequence[Run], pauses: Sequence[Pause]) -> dict[str, str]:
    """The step that runs again with somebody's feedback, and the feedback: while nothing is
    asked.
    """
    nothing = {"rerunning": "", "feedback": ""}
    if run is None or pauses:
        return nothing
    newest = {
        member.thread_id: member for member in sorted([run, *family], key=lambda member: member.pk)
    }
    decisions = Decision.objects.select_related("pause__run").filter(
        pause__run__thread__in=list(newest)
    )
    last = decisions.order_by("-id").first()
    if last is None or last.pause is None or last.action != REVISE:
        return nothing
    at = newest[last.pause.run.thread_id]
    step = current_step(at)
    if step != last.pause.answers.get(REVISE) or not (
        at.status in {PENDING, RUNNING} or at.awaited
    ):
        return nothing
    return {
        "rerunning": f"{at.child_name}: {step}"
        if at.child_name and at.child_name != step
        else step,
        "feedback": last.feedback,
    }


def suspending(runs: Iterable[Run]) -> Run | None:
    """The first of the runs at work that somebody wants to stop at its next step boundary."""
    return next((run for run in runs if run.suspend_by and run.status in {PENDING, RUNNING}), None)
