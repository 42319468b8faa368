"""How a booking ends: in the ledger, or because a person rejected the invoice. An invoice that
nobody can book never ends by itself: a bookkeeper is asked to reject it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extensions.booking.case import Case
from extensions.booking.questions import BOOKKEEPER, about, cell, facts
from extensions.booking.state import IN_PART, POSTED, REJECTED
from runs.workflows import Approval, Ask, Report, StepFailed

CONCLUSION = "conclusion"
"""State key of the words that lists, pages and the API show beside `completed`."""
WORDS = {
    REJECTED: "The invoice was rejected: nothing is booked",
    IN_PART: "Booked in part: the other lines were refused",
    POSTED: "Booked",
}


def ask_to_reject(case: Case, *, way: str) -> Ask:
    """Ask a bookkeeper to reject an invoice, and show why it can only be sent back."""
    listed = "\n".join(f"- {cell(finding.text, 600)}" for finding in case.wrong[:20])
    profile = case.invoice.profile
    named = f"Its profile (BT-24) is {cell(profile, 200)}. " if profile else ""
    shape = (
        "whose lines each count by themselves (profile EN 16931)"
        if case.invoice.lines
        else "with lines"
    )
    content = (
        f"# {about(case)}\n\n{listed}\n\n{named}Nothing of it can be booked from this file. Ask "
        f"the supplier for an e-invoice {shape}, or book it by hand; then reject this one."
    )
    return Ask(
        question="Bookkeeper: nothing in it can be booked",
        answers={"reject": way},
        labels={"reject": "Reject the invoice"},
        report=Report(content=content, facts=facts(case), effects=["Nothing is booked."]),
        phase=BOOKKEEPER,
    )


def require_proof(
    outcome: str, approval: Approval | None, ledger: Sequence[Mapping[str, str]], order: str
) -> None:
    """Raise StepFailed where nothing proves the outcome that the state claims: `approval_missing`
    where nobody rejected or refused, `not_booked` where the ledger holds no entry of the order.
    """
    if outcome != POSTED and approval is None:
        raise StepFailed(
            "The state says that the invoice was rejected or refused, and nobody did that. Nothing "
            "was booked. Go on from before the question.",
            code="approval_missing",
        )
    if outcome != REJECTED and not any(row["order"] == order for row in ledger):
        raise StepFailed(
            "The state says that the invoice is booked, and the ledger holds no entry of it. Go "
            "on from before it was booked.",
            code="not_booked",
        )
