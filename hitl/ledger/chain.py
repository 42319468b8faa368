"""The only writer of decisions: each gets the next place of its team's ledger, with the digest of
the one before.
"""

from __future__ import annotations

from django.db import connection

from checkpoints.database.statements import Statement, execute, insert
from hitl.ledger import evidence
from hitl.models import Decision, Ledger, ledger_name, name_of
from runs import keyed


def append(decision: Decision) -> None:
    """Add a decision to its ledger.

    Call inside a transaction, at its end: the ledger's row stays locked until the commit.
    """
    assert decision.pause is not None  # it is being answered
    decision.by_name = name_of(decision.decided_by) if decision.decided_by else ""
    decision.for_name = name_of(decision.on_behalf_of) if decision.on_behalf_of else ""
    decision.evidence = evidence.keep(decision.pause, early_at=decision.early_at)
    thread = decision.pause.run.thread
    name = ledger_name(thread.team_id, thread.owner_id)
    taken = _take_place(name)
    if taken is None:
        Ledger.objects.bulk_create([Ledger(name=name)], ignore_conflicts=True)
        taken = _take_place(name)
    assert taken is not None
    decision.ledger_id = name
    decision.position, decision.previous = taken
    decision.digest = decision.compute_digest()
    keyed.made(decision.shown_id)
    tip = Statement(
        "hitl_ledger", "UPDATE hitl_ledger SET tip = %s WHERE name = %s", [decision.digest, name]
    )
    execute([insert(decision), tip])
    decision._state.adding = False


def _take_place(name: str) -> tuple[int, str] | None:
    """The next position of a ledger, and its tip.

    Both databases give back what they update, the ORM does not: it would ask again.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE hitl_ledger SET length = length + 1 WHERE name = %s RETURNING length, tip",
            [name],
        )
        row = cursor.fetchone()
    return None if row is None else (row[0], row[1])
