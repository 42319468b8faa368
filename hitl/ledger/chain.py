"""The only writer of decisions: each gets the next place of its team's ledger, with the digest of
the one before.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import DEFAULT_DB_ALIAS, connection

from checkpoints.database.statements import Statement, execute, upsert
from hitl.ledger import evidence
from hitl.models import Decision, Ledger, ledger_name, name_of
from runs import keyed


def append(decision: Decision) -> None:
    """Add a decision to its ledger.

    Call inside a transaction, at its end: the ledger's row stays locked until the commit.
    """
    append_all([decision])


def append_all(decisions: Sequence[Decision]) -> None:
    """`append` for several, in their order, with few statements for each ledger."""
    if not decisions:
        return
    asked = []
    for decision in decisions:
        assert decision.pause is not None  # it is being answered
        decision.by_name = name_of(decision.decided_by) if decision.decided_by else ""
        decision.for_name = name_of(decision.on_behalf_of) if decision.on_behalf_of else ""
        thread = decision.pause.run.thread
        decision.ledger_id = ledger_name(thread.team_id, thread.owner_id)
        asked.append((decision.pause, decision.early_at))
    for decision, digest in zip(decisions, evidence.keep_all(asked), strict=True):
        decision.evidence = digest
    # in the order of their names: others who take several wait in no circle
    for name in sorted({decision.ledger_id for decision in decisions}):
        _append(name, [decision for decision in decisions if decision.ledger_id == name])


def _append(name: str, decisions: Sequence[Decision]) -> None:
    taken = _take_places(name, len(decisions))
    if taken is None:
        Ledger.objects.bulk_create([Ledger(name=name)], ignore_conflicts=True)
        taken = _take_places(name, len(decisions))
    assert taken is not None
    length, tip = taken
    for position, decision in enumerate(decisions, start=length - len(decisions) + 1):
        decision.position, decision.previous = position, tip
        tip = decision.digest = decision.compute_digest()
        keyed.made(decision.shown_id)
    ended = Statement("hitl_ledger", "UPDATE hitl_ledger SET tip = %s WHERE name = %s", [tip, name])
    execute([upsert(decisions, using=DEFAULT_DB_ALIAS), ended])
    for decision in decisions:
        decision._state.adding = False


def _take_places(name: str, count: int) -> tuple[int, str] | None:
    """The last of the next positions of a ledger, and its tip.

    Both databases give back what they update, the ORM does not: it would ask again.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE hitl_ledger SET length = length + %s WHERE name = %s RETURNING length, tip",
            [count, name],
        )
        row = cursor.fetchone()
    return None if row is None else (row[0], row[1])
