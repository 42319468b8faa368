"""The book of effects: what each step that matters did, written outside the product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Thread
from runs.models import OWN_REDUCERS
from runs.workflows.base import Context, Report, State

TEAM, REVIEWERS = "platform", "reviewers"
SUPPLIER, ACCOMPLICE = "billing@supplier.example", "accomplice@elsewhere.example"
"""An address that the template's author wrote down, and one that the requester did."""


@dataclass(frozen=True)
class Effect:
    """Something that was done and cannot be taken back."""

    kind: str
    """`demanding`: the step called `require_approval` right before.

    `plain`: it did not. `call`: a call of a tool. `optional`: the step called it, for
    templates that ask. `child`: the step relied on what its child run had approved.
    """
    run: str
    thread: str
    step: str
    of: str
    """The step, or its function, whose approval a demanding effect asked for."""
    material: str
    """What it acted on."""
    head: Any
    """Key of the thread's head at that moment."""
    at: Any
    call: str = ""


BOOK: list[Effect] = []
"""What was done in this game."""
ASKED: dict[tuple[str, str], dict[str, Any]] = {}
"""Run and step → the rules by which the step wanted its question narrowed, last."""


def clear() -> None:
    BOOK.clear()
    ASKED.clear()


def text_of(state: State) -> str:
    """What is to be paid, to whom: made of what everybody may try to change."""
    return f"Pay {state.get('amount', 0)} to {state.get('to', 'nobody')}"


def given(state: State, context: Context) -> State:
    """The state, on top of what an order was made with; of the engine's own keys those of the state
    alone.
    """
    return {
        **{name: value for name, value in context.order.input.items() if name not in OWN_REDUCERS},
        **state,
    }


def acted_on(state: State, of: str) -> str:
    """The text as it was approved, where a reviewer edited it."""
    edited: dict[str, str] = state.get("decided_content", {})
    return edited.get(of) or text_of(state)


def drafted(state: State, context: Context) -> tuple[State, dict[str, Any], Report]:
    """What is known, what of it joins the state, and what the reviewers read."""
    known = given(state, context)
    update: dict[str, Any] = {
        name: known[name] for name in ("amount", "to", "fails") if name in known
    }
    if state.get("revision_feedback"):
        update["amount"] = int(known.get("amount", 0) or 0) + 1
    known = {**known, **update}
    return known, update, Report(content=text_of(known), material=text_of(known))


def write_down(kind: str, context: Context, material: str, *, of: str = "", call: str = "") -> None:
    thread = Thread.objects.get(pk=ids.parse(Thread.PREFIX, context.thread_id))
    BOOK.append(
        Effect(
            kind,
            context.run_id,
            context.thread_id,
            context.step,
            of,
            material,
            thread.head_id,
            timezone.now(),
            call,
        )
    )


def arguments_of(arguments: Any) -> str:
    return repr(sorted(dict(arguments).items()))
