"""What people decided, as the machine looks it up whenever a run acts on it:
`runs.engine.decisions.records.Decisions` over the ledger's rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from functools import cache

from checkpoints.models.fields import demand
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions import tool_calls
from hitl.models import STEP_AROUND, UNDO, Decision, Via, Vote
from runs.services import approvals
from runs.services.approvals import DecisionRecord
from runs.workflows.reviews import stages
from runs.workflows.sequence import CANCEL, REVISE

REFUSALS = frozenset({REVISE, CANCEL, UNDO, STEP_AROUND})
"""Actions that let no run go on with what was asked about."""


class DecisionRows:
    """One query by primary key; and one for the votes, where the rules ask for several."""

    def find(self, keys: Collection[uuid.UUID]) -> dict[str, DecisionRecord]:
        return records(_named(len(keys)).get(*keys)) if keys else {}


@cache
def _named(many: int) -> Prepared[Decision]:
    """The decisions of so many keys, at most one for each step of a definition.

    Prepared, since each run that goes on behind an approval looks it up first.
    """
    return Prepared(
        lambda *keys: (
            Decision.objects.filter(pk__in=keys, erasure=None)
            .select_related("pause__run", "pause__checkpoint", "undone_by")
            .defer("pause__checkpoint__body")
        ),
        *[uuid.UUID] * many,
    )


def records(rows: Iterable[Decision]) -> dict[str, DecisionRecord]:
    """The records of some decisions, none of them erased, by shown id."""
    rows = list(rows)
    several = [
        row.pause_id
        for row in rows
        if row.pause is not None and stages.quorum(row.pause.review) > 1
    ]
    votes: dict[uuid.UUID, list[Vote]] = {}
    for vote in Vote.objects.filter(pause__in=several) if several else ():
        votes.setdefault(vote.pause_id, []).append(vote)
    return {
        row.shown_id: _record(row, votes.get(row.pause_id, []) if row.pause_id else [])
        for row in rows
        if row.pause is not None
    }


def _record(decision: Decision, votes: Iterable[Vote]) -> DecisionRecord:
    pause = decision.pause
    assert pause is not None  # looked at by the caller
    edited = str(demand(decision.edited_content))
    payload = demand(decision.payload)
    # an account and an address have one vote each: see its constraints
    counted = {
        _seat(vote): vote
        for vote in votes
        if _same(vote, decision) and approvals.counts(pause.review, _address(vote))
    }
    return DecisionRecord(
        decision_id=decision.shown_id,
        pause_id=pause.pk,
        thread_id=pause.run.thread_id,
        run_id=pause.run_id,
        checkpoint_id=pause.checkpoint_id,
        definition=pause.run.definition_id,
        step=pause.step,
        phase=pause.phase,
        action=decision.action,
        goes_on=decision.action not in REFUSALS
        and decision.undoes_id is None
        and not hasattr(decision, "undone_by"),
        answers=frozenset(pause.answers),
        revision=decision.revision,
        content_digest=decision.content_digest,
        asked_revision=pause.revision,
        asked_digest=pause.content_digest,
        material=approvals.material_of(pause, edited=edited),
        review=pause.review,
        votes=len(counted),
        stages=[vote.stage for vote in counted.values()],
        by_rules=decision.via == Via.POLICY,
        passed=decision.via == Via.WORKFLOW,
        approving=approvals.approving(pause),
        proven=bool(decision.factor) and all(vote.factor for vote in counted.values()),
        external=str(demand(decision.external)),
        calls=demand(pause.calls),
        decided_calls=tool_calls.decided(pause, decision.action, payload),
    )


def _seat(vote: Vote) -> tuple[int | None, str | None]:
    """Whose vote it is: an account's, or an address's."""
    return vote.seat_id, vote.external_key


def _address(vote: Vote) -> str:
    return str(demand(vote.external))


def _same(vote: Vote, decision: Decision) -> bool:
    return vote.action == decision.action and vote.content_digest == decision.content_digest
