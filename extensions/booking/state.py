"""The state of a booking, and what an answer changes in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, cast

from extensions.booking.case import REJECT, BookingPolicy, Case
from extensions.booking.matching import Match
from extensions.booking.questions import BOOKKEEPER, ReturnedLine
from extensions.einvoice.model import Invoice, load
from extensions.einvoice.rules import RuleFinding
from extensions.einvoice.sums import with_supplied
from runs.workflows import ANSWER

LINES = frozenset({"assign", "send_back", "refuse"})
"""Parts of a bookkeeper's answer that are about single positions; the others settle doubts."""
REJECTED, POSTED, IN_PART = "rejected", "posted", "posted_in_part"
MATERIAL = (
    "document", "invoice", "supplied", "findings", "match", "accepted", "assigned", "cleared",
    "held", "refused", "posted", "batches",
    "net_posted", "vat_posted",
)  # fmt: skip
"""Keys of the state that decide which money moves: a question binds all of them, together with what
it asks about.
"""
BOOKKEEPERS = ("accepted", "assigned", "cleared")
"""Keys that only a bookkeeper's answer fills: they let money move where no rule would."""
SETTLED = ("refused", "supplied", "held")
"""Keys that an answer fills too: nobody may take away what they hold."""


class OpenQuestion(TypedDict):
    """The question that is open, or whose answer the state has not taken in yet."""

    reason: str  # BOOKKEEPER or SUPPLIER
    positions: list[str]  # that it is about; empty where it asks for terms
    inputs: list[str]  # keys of the state that the answer fills


class BookingDecision(TypedDict):
    """What `post` is to book."""

    positions: list[str]
    confidence: str  # 0.00 to 1.00
    by: str  # rule, or bookkeeper
    back: str  # the step that goes on afterwards


class BookingState(TypedDict, total=False):
    """The state also holds what the last answer brought, under the names in `asked["inputs"]`."""

    decided: dict[str, str]  # set by the engine: a person's answers by step
    files: dict[str, Any]  # the invoice's file; empty once it is read
    document: str  # sha256 of the file
    invoice: dict[str, Any]  # as read, see `einvoice.model.dump`; never changed
    supplied: dict[str, str]  # business term → what the supplier told since
    findings: list[dict[str, Any]]  # of the invoice with what was supplied
    match: Match
    accepted: dict[str, Any]  # a bookkeeper's answers to doubts, by their keys
    assigned: dict[str, str]  # position → account/cost centre, a bookkeeper's
    cleared: list[str]  # positions that a bookkeeper wants booked
    held: dict[str, ReturnedLine]  # sent back, by position, with what the supplier said of them
    refused: dict[str, str]  # position → why it is not paid
    asked: OpenQuestion | None
    shown: dict[str, Any]  # the material of the last question
    passed: dict[str, Any] | None  # what passed without a question: see `passing`
    decision: BookingDecision | None
    posted: list[str]  # positions in the ledger
    batches: int  # how many times something was posted
    net_posted: dict[str, str]  # VAT group → amount
    vat_posted: dict[str, str]  # VAT group → amount
    outcome: str  # posted, posted_in_part, rejected
    conclusion: str  # the same in words


def invoice_of(state: BookingState) -> Invoice:
    """Return the invoice as read, with what was supplied since.

    Raises NotAnInvoice for a state that was edited into something else.
    """
    return with_supplied(load(Invoice, state["invoice"]), state.get("supplied", {}))


def case_of(state: BookingState, policy: BookingPolicy) -> Case:
    findings = [RuleFinding(**finding) for finding in state["findings"]]
    accepted = state.get("accepted", {})
    return Case(
        invoice=invoice_of(state),
        findings=findings,
        match=state["match"],
        policy=policy,
        accepted=accepted,
    )


def open_positions(state: BookingState, case: Case) -> list[str]:
    """Return the positions that are neither in the ledger nor refused."""
    done = {*state.get("posted", []), *state.get("refused", {})}
    return [position.id for position in case.positions if position.id not in done]


def outcome_of(state: BookingState) -> str:
    """Return the outcome of a booking that leaves nothing to decide."""
    if not state.get("posted"):
        return REJECTED
    return IN_PART if state.get("refused") else POSTED


def material(state: BookingState, asked: OpenQuestion) -> dict[str, Any]:
    """Return what an answer is about: what is asked, and all that decides what is booked.

    The state keeps this material, as it was when the question was put, as `shown`.
    """
    return {
        **{key: value for key in MATERIAL if (value := state.get(key)) is not None},
        "asked": asked,
    }


def passing(state: BookingState, decision: BookingDecision) -> dict[str, Any]:
    """Return what passes without a question: all that decides what is booked, and the decision."""
    kept = {key: value for key in MATERIAL if (value := state.get(key)) is not None}
    return {**kept, "decision": dict(decision)}


def is_settled(state: BookingState) -> bool:
    """Whether the answers in the state are exactly what the last answer made of the material of its
    question, or what they were when the last decision passed without a question.

    A state with fewer answers of a bookkeeper does no harm.
    """
    if passed := state.get("passed"):
        keys = (*SETTLED, *BOOKKEEPERS)
        return all((state.get(key) or None) == (passed.get(key) or None) for key in keys)
    shown: dict[str, Any] = state.get("shown", {})
    after = shown
    if shown:
        given = {key: state.get(key) for key in shown["asked"]["inputs"]}
        after = {
            **shown,
            **answer_to(cast(BookingState, {**shown, **given, "decided": {"": "approve"}}), ""),
        }
    settled = all((state.get(key) or None) == (after.get(key) or None) for key in SETTLED)
    less = all(not state.get(key) or state.get(key) == after.get(key) for key in BOOKKEEPERS)
    return settled and less


def answer_to(state: BookingState, step: str) -> dict[str, Any]:
    """Return what the answer to the open question changes; nothing where no question is open, or it
    has no answer yet (after a fork, say).
    """
    asked, verdict = state.get("asked"), state.get("decided", {}).get(step, "")
    if not asked or not verdict:
        return {}
    sent: dict[str, Any] = {
        key: value for key in asked["inputs"] if (value := state.get(key)) is not None
    }
    if verdict not in {ANSWER, "approve"} or sent.get("amounts") == REJECT:
        return {"asked": None, "outcome": outcome_of({**state, "refused": {"all": "rejected"}})}
    if asked["reason"] == BOOKKEEPER:
        return {"asked": None, **_decided(state, asked["positions"], sent)}
    if asked["positions"]:
        return {
            "asked": None,
            "held": {**state.get("held", {}), **_explained(state, sent.get("lines", {}))},
        }
    return {"asked": None, "supplied": {**state.get("supplied", {}), **sent}}


def _explained(
    state: BookingState, lines: Mapping[str, Mapping[str, str]]
) -> dict[str, ReturnedLine]:
    held = state.get("held", {})
    return {
        name: ReturnedLine(
            reason=held[name]["reason"], answer=line["answer"], explanation=line["explanation"]
        )
        for name, line in lines.items()
    }


def _decided(state: BookingState, ids: list[str], sent: Mapping[str, Any]) -> dict[str, Any]:
    back, refused = sent.get("send_back", {}), sent.get("refuse", {})
    held: dict[str, ReturnedLine] = {
        name: ReturnedLine(reason=reason) for name, reason in back.items()
    }
    cleared = [name for name in ids if name not in back and name not in refused]
    return {
        "accepted": {
            **state.get("accepted", {}),
            **{key: value for key, value in sent.items() if key not in LINES},
        },
        "assigned": {**state.get("assigned", {}), **sent.get("assign", {})},
        "held": {**state.get("held", {}), **held},
        "refused": {**state.get("refused", {}), **refused},
        "cleared": list(dict.fromkeys([*state.get("cleared", []), *cleared])),
    }
