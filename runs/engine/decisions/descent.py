"""Whether a run goes on from an answer: its own, or one of a run that it retries or forks."""

from __future__ import annotations

import uuid

from checkpoints import lineage
from checkpoints.models import Checkpoint
from runs.engine.decisions.records import DecisionRecord
from runs.models import Run

ATTEMPTS = 1_000
"""Runs that may lie between an answer and the run that acts on it."""


def descends(run: Run, head: Checkpoint, record: DecisionRecord) -> bool:
    """Whether a run goes on from an answer: its own, or one of a run that it retries or forks, with
    the state as that run left it.

    The checkpoints of one run follow one another, so an answer of the run itself needs no check.
    """
    if record.thread_id != run.thread_id:
        return False
    if record.run_id == run.pk:
        return True
    before = attempts(run, record.run_id)
    if before is None or any(definition != run.definition_id for definition in before.values()):
        return False
    steps = lineage.between(head.pk, record.checkpoint_id)
    return (
        steps is not None
        and all(step.run_id in before for step in steps)
        and not any(map(_edited, steps, steps[1:]))
    )


def attempts(run: Run, first: uuid.UUID) -> dict[uuid.UUID, str] | None:
    """Find the runs from `first` to `run`, each a retry or a fork of the one before, with their
    definitions; None where they are not connected so.
    """
    found = {run.pk: run.definition_id}
    at = Run.objects.filter(pk=run.pk)
    while first not in found and len(found) < ATTEMPTS:
        retried, forked = at.values_list("retry_of", "forked_from__run_id").get()
        above = retried or forked
        at = Run.objects.filter(pk=above, thread=run.thread_id)
        definition = (
            at.values_list("definition", flat=True).first()
            if above and above not in found
            else None
        )
        if definition is None:
            return None
        found[above] = definition
    return found


def _edited(later: lineage.ChainLink, earlier: lineage.ChainLink) -> bool:
    """Whether a run began with another state than that of the checkpoint before it.

    Where retention dropped checkpoints between the two, nobody can say, and this says no.
    """
    begins = (
        later.run_id != earlier.run_id
        and not later.dropped_before
        and later.schema_version == earlier.schema_version
    )
    return begins and later.digest != earlier.digest
