"""A checkpoint whose stored bytes were changed: what the run falls back to, and what would be done
again from there.

The damaged row stays where it is, for who looks into it. Behind it comes a checkpoint with the
state of its last good ancestor.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any

from checkpoints import store
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind
from runs.engine.context.claimed_run import key_of, loop_num
from runs.engine.drafts.events import Events, created, line
from runs.engine.start import following
from runs.models import Run
from runs.states import FailureCode

FAR = 200
"""Ancestors that are looked at: more than any damaged snapshot spoils."""


@dataclass(frozen=True, kw_only=True)
class Good:
    checkpoint: Checkpoint
    state: dict[str, Any]
    damaged: Checkpoint
    """The head, which the new checkpoint comes behind."""
    words: str


def last_good(run: Run, head: Checkpoint) -> Good | None:
    """The last ancestor of a damaged head that loads, within the run and those that it retries;
    None where there is none.

    What came before those began from other input, or an edited state: going on from there would
    lose that silently.
    """
    same = _attempts(run)
    lost = [head]
    at = _parent(head)
    while at is not None and at.run_id in same and len(lost) < FAR:
        try:
            return Good(checkpoint=at, state=store.load(at), damaged=head, words=_words(at, lost))
        except store.StateLocked:
            return None
        except store.CheckpointDamaged:
            lost.append(at)
            at = _parent(at)
    return None


def _parent(checkpoint: Checkpoint) -> Checkpoint | None:
    return (
        Checkpoint.objects.filter(pk=checkpoint.parent_id).first() if checkpoint.parent_id else None
    )


def _attempts(run: Run) -> set[uuid.UUID]:
    """The run and those before it that it retries."""
    attempts = {run.pk}
    before = run.retry_of_id
    while before is not None and before not in attempts:
        attempts.add(before)
        before = Run.objects.values_list("retry_of", flat=True).get(pk=before)
    return attempts


def _words(good: Checkpoint, lost: list[Checkpoint]) -> str:
    """What happened and what a retry does, for people."""
    begins = following(good) or good.node_id
    done = [checkpoint.node_id for checkpoint in reversed(lost) if checkpoint.node_id]
    steps = list(dict.fromkeys(filter(None, [begins, *done])))
    asks = (
        " and its question is asked again" if good.status == CheckpointStatus.PENDING_INPUT else ""
    )
    return (
        f"{lost[0].shown_id} does not match its digest: its stored bytes were changed. It is "
        "kept as it is. The last good checkpoint "
        f"before it is {good.shown_id}; a retry goes on from there: {', '.join(steps)} would run "
        f"again{asks}."
    )


def incident(run: Run, found: Good) -> tuple[Events, Checkpoint]:
    """The last events of the run, and the checkpoint that a retry goes on from: a snapshot, so that
    it builds on nothing damaged.
    """
    good, message, code = found.checkpoint, found.words, FailureCode.INCIDENT
    gathers = "gather" in good.metadata and not good.next_step
    step = "" if gathers else following(good)
    kept = {key: value for key, value in good.metadata.items() if key != "blocking_reason"}
    why = {
        "error": message,
        "failure_code": code,
        "restored_from": good.shown_id,
        "damaged": found.damaged.shown_id,
    }
    if good.next_step:
        why["scope"] = key_of(good, Run(pk=good.run_id).shown_id, step)
    entry = replace(
        store.entry_of(good),
        status=CheckpointStatus.FAILED,
        node_id=step or good.node_id,
        next_step=step,
        loop_num=loop_num(good, step) if good.next_step else good.loop_num,
        metadata={**kept, **why},
    )
    checkpoint = store.build(
        run.thread_id, run.pk, found.state, entry, parent=found.damaged, before=None
    )
    at = step or good.node_id
    facts: Events = [
        line(message, at, level="error"),
        (EventKind.RUN_FAILED, {"error": message, "failure_code": code, "step": at}),
    ]
    return [*facts, created(checkpoint)], checkpoint
