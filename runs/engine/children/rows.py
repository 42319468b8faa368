"""The rows of child runs that begin."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.conf import settings

from checkpoints import store
from checkpoints.database import clock
from checkpoints.models import Checkpoint, CheckpointStatus, Event, EventKind, Thread
from checkpoints.state import codec, reducers
from runs.engine import approvals
from runs.engine.drafts.events import Events, created, line
from runs.engine.start import Start, ask_again, entry_of, start_again
from runs.models import Definition, Pause, Run
from runs.states import FAILED, FailureCode, PauseStatus
from runs.workflows import sequence
from runs.workflows.sequence import FrozenStep

CANNOT_START = FailureCode.CHILD_CANNOT_START
Wake = tuple[uuid.UUID, str]


class Family:
    """What the child runs of one gather begin from."""

    def __init__(
        self,
        above: Run,
        step: FrozenStep,
        state: Mapping[str, Any],
        checkpoint: Checkpoint,
        *,
        optional: bool,
        stops: bool = False,
    ) -> None:
        """`checkpoint` is the parent's, with `state`. With `stops` they ask before they begin."""
        self.above, self.step, self.state, self.checkpoint = above, step, state, checkpoint
        self.optional, self.stops = optional, stops
        self._definitions: dict[tuple[str, ...], Definition] = {}

    def definition(self, names: Sequence[str]) -> Definition:
        """What a child run is pinned to: some of the sub-steps that are frozen with its parent."""
        key = tuple(names)
        if key not in self._definitions:
            self._definitions[key] = self._find_definition(key)
        return self._definitions[key]

    def _find_definition(self, names: Sequence[str]) -> Definition:
        known, above = self.step["sub_steps"], self.above.definition
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


class ChildRows:
    """The unsaved rows of one child."""

    def __init__(
        self,
        family: Family,
        run: Run,
        steps: Sequence[str],
        update: Mapping[str, Any],
        *,
        refused: str = "",
    ) -> None:
        """`run` has its key and its name. With `refused` the child has failed before it began: that
        is why. Raises codec.NotJson and reducers.MergeFailed.
        """
        above, parent = family.above, family.checkpoint
        title = f"{above.thread.title}: {run.child_name}"[:200]
        definition = family.definition(steps)
        values = reducers.apply(family.state, update, definition.reducers)
        git = {"git": parent.metadata["git"]} if "git" in parent.metadata else {}
        # an approval is its parent's own
        edited = {approvals.EDITED: approvals.ABOVE} if approvals.EDITED in parent.metadata else {}
        first = definition.steps[0]["name"]
        begins = Start(state=values, next_step=first, metadata={**git, **edited})
        self.thread = Thread(owner_id=above.thread.owner_id, team_id=above.thread.team_id,
                             title=title)  # fmt: skip
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
        facts: Events = [created(self.checkpoint)]
        run.thread, run.definition, run.work_order_id = self.thread, definition, above.work_order_id
        run.parent_id, run.depth, run.optional = above.pk, above.depth + 1, family.optional
        run.started_by_id = above.started_by_id
        before = sequence.stops_within(above.interrupt_before, family.step["name"])
        asks = [first] if family.stops and first not in before else []
        run.interrupt_before = [*before, *asks]
        run.interrupt_after = sequence.stops_within(above.interrupt_after, family.step["name"])
        run.due_at = cast(Any, clock.FromNow())
        run.queue = sequence.queue_of(definition.steps, first)
        if refused:
            facts += self._refuse(run, refused, first)
        self.run = run
        self.thread.last_seq = len(facts)
        self.events = [
            Event(thread=self.thread, run_id=run.pk, seq=seq, kind=kind, data=data)
            for seq, (kind, data) in enumerate(facts, start=1)
        ]

    def _refuse(self, run: Run, words: str, step: str) -> Events:
        run.status, run.error, run.failure_code = FAILED, words, CANNOT_START
        run.due_at = run.ended_at = clock.now()
        self.checkpoint.status = CheckpointStatus.FAILED
        self.checkpoint.metadata |= {"error": words, "failure_code": CANNOT_START}
        told = {"error": words, "failure_code": CANNOT_START, "step": step}
        return [line(words, step, level="error"), (EventKind.RUN_FAILED, told)]


def drafted(family: Family, run: Run, steps: Sequence[str], update: Mapping[str, Any]) -> ChildRows:
    """The rows of a child; where its update does not fit its parent's state, those of one that has
    failed, so that it holds no other up.
    """
    try:
        return ChildRows(family, run, steps, update)
    except (codec.NotJson, reducers.MergeFailed) as error:
        words = f"It could not begin: {error}"
        return ChildRows(family, run, steps, {}, refused=words)


def write(made: Sequence[ChildRows]) -> list[Wake]:
    """Write these rows; give the runs that want a message. Call inside a transaction."""
    Thread.objects.bulk_create([child.thread for child in made])
    Run.objects.bulk_create([child.run for child in made])
    for row in made:
        row.run.due_at = clock.now()  # about what was written
    Checkpoint.objects.bulk_create([child.checkpoint for child in made])
    Event.objects.bulk_create([event for child in made for event in child.events])
    return [(child.run.pk, child.run.queue) for child in made if child.run.status != FAILED]


def take_up(above: Run, run: Run, **fields: Any) -> Run:
    """Let a child that did not complete go on for another try of its parent: one that was cancelled
    or expired while it asked asks the same again, any other goes on where it stopped.

    Call inside a transaction.
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
    asks = {FailureCode.CANCELLED_WITH_PARENT, FailureCode.EXPIRED}
    again = {"parent": above, "depth": above.depth + 1, **fields}
    if pause is not None and run.failure_code in asks:
        return ask_again(pause, head, state, **again)
    return start_again(run, head, state, **again)
