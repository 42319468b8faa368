"""What a decision's receipt says: who, when, through which door, on what, and where it stands in
its chain; for the page and REST.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from checkpoints.database.people import User
from checkpoints.models import Thread
from hitl.decisions.services import NotFound
from hitl.ledger import evidence
from hitl.models import Anchor, Decision, Ledger

RELATED = (
    "decided_by", "on_behalf_of", "erasure", "undoes", "undone_by__decided_by",
    "pause__run__thread", "pause__run__work_order",
    "pause__run__parent", "pause__checkpoint",
)  # fmt: skip


@dataclass(frozen=True)
class LedgerExcerpt:
    """What a look at a decision and its neighbours finds. The whole chain is `verify_ledger`'s."""

    intact: bool
    """The row is as it was written, or its erasure vouches for it."""
    linked: bool
    """It names the digest of the decision before it, and the one after it, or the ledger, names its
    own.
    """
    shown: bool
    """What the reviewer was shown is there as it was kept; true where none was kept."""
    anchor: Anchor | None
    """The first one that covers it."""

    @property
    def holds(self) -> bool:
        return self.intact and self.linked and self.shown


@dataclass(frozen=True)
class Receipt:
    decision: Decision
    document: dict[str, Any] | None
    """`hitl.ledger.evidence`; None where there is none (any more)."""
    standing: LedgerExcerpt


def ledgers_of(user: User) -> Any:
    """The ledgers whose decisions a person may see, all of them."""
    if not user.is_active:
        return Ledger.objects.none()
    if user.is_superuser:
        return Ledger.objects.all()
    teams = [f"team:{team}" for team in user.groups.values_list("pk", flat=True)]
    return Ledger.objects.filter(pk__in=[f"user:{user.pk}", *teams])


def find(decision_id: uuid.UUID, *, by: User) -> Decision:
    """A decision that this person may see, or gave; raises NotFound.

    Of one that was erased, who sees its ledger sees what is left.
    """
    mine = (
        Q(pause__run__thread__in=Thread.objects.visible_to(by))
        | Q(pause=None, ledger__in=ledgers_of(by))
        | Q(decided_by=by.pk)
    )
    decision = Decision.objects.filter(mine).select_related(*RELATED).filter(pk=decision_id).first()
    if decision is None:
        raise NotFound("There is no such decision.")
    return decision


def receipt(decision_id: uuid.UUID, *, by: User) -> Receipt:
    """Raises NotFound."""
    decision = find(decision_id, by=by)
    document, shown = None, True
    if decision.evidence and decision.erasure_id is None:
        try:
            document = evidence.load(decision)
        except evidence.Missing:
            shown = False
    anchor = (
        Anchor.objects.filter(ledger=decision.ledger_id, position__gte=decision.position)
        .order_by("day")
        .first()
    )
    return Receipt(
        decision,
        document,
        LedgerExcerpt(intact=decision.intact, linked=_linked(decision), shown=shown, anchor=anchor),
    )


def _linked(decision: Decision) -> bool:
    place = decision.position
    around = dict(
        Decision.objects.filter(
            ledger=decision.ledger_id, position__in=[place - 1, place + 1]
        ).values_list("position", "digest")
    )
    after = (
        Decision.objects.filter(ledger=decision.ledger_id, position=place + 1)
        .values_list("previous", flat=True)
        .first()
    )
    if after is None:
        after = Ledger.objects.values_list("tip", flat=True).get(pk=decision.ledger_id)
    return decision.previous == around.get(place - 1, "") and after == decision.digest
