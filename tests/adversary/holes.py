"""The known holes, each put back by taking its guard away; the scheme that goes through it, and the
invariants that tell of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db.models import Q

from checkpoints.export import thread_document
from hitl.decisions.deadlines import outcomes
from hitl.decisions.reviewers import external_access, policy
from hitl.wait_gate import resume_events
from runs.definitions import due_times
from runs.engine import approvals, imported
from runs.services import forks, pauses
from runs.threads import turns
from runs.workflows import schemas, tool_calls

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Hole:
    name: str
    open: Callable[[Patch], None]
    schemes: tuple[str, ...]
    told: frozenset[str]
    """Invariants of which at least one tells of it; none where it leaves no row: what a step made
    of a state is in no column.
    """
    seed: int = 0
    """With which games at random come upon it soon; within their bound they do with any."""

    def __str__(self) -> str:
        return self.name


class Anything(str):
    """Equal to whatever it is compared with."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


def believe_metadata(patch: Patch) -> None:
    """Whatever metadata names as approved is; and documents bring theirs, from wherever they
    stand.
    """
    fields: dict[str, Any] = {
        one.name: ""
        for one in dataclasses.fields(approvals.DecisionRecord)
        if one.default is one.default_factory is dataclasses.MISSING
    }
    fields |= {
        "calls": (),
        "decided_calls": {},
        "decision_id": "dec_" + "0" * 26,
        "revision": 1,
        "action": "approve",
        "material": Anything(),
    }

    def look_up(run: Any, head: Any, names: Any) -> dict[str, Any]:
        return {step: approvals.DecisionRecord(**{**fields, "step": step}) for step in names}

    patch.setattr(approvals, "look_up", look_up)
    believe_documents(patch)


class All(tuple[str, ...]):
    """Holds everything."""

    __slots__ = ()

    def __contains__(self, one: object) -> bool:
        return True


def believe_documents(patch: Patch) -> None:
    patch.setattr(thread_document, "KEPT", All())
    patch.setattr(imported, "is_imported", lambda checkpoint: False)


def believe_states(patch: Patch) -> None:
    """What a state says was decided of calls."""
    believe_documents(patch)
    patch.setattr(
        approvals,
        "decided_calls",
        lambda held, step: held.progress.state.get(tool_calls.DECISIONS, {}).get(step, {}),
    )


def take_input_at_stops(patch: Patch) -> None:
    patch.setattr(pauses, "check_brought", lambda *args: None)
    patch.setattr(forks, "brought", lambda metadata: metadata)


def carry_approvals_along(patch: Patch) -> None:
    """Whoever edits a state, names a step or another template keeps what was approved."""

    def terms(definition: Any, start: Any, **more: Any) -> Any:
        return start

    for module in (forks, turns):
        patch.setattr(module, "terms", terms)
    patch.setattr(approvals, "flaw", lambda *args: "")


def count_for_ever(patch: Patch) -> None:
    """The deadline holds once the sweep has come, and no sooner."""
    patch.setattr(due_times, "in_time", Q)
    # whose words this process has kept
    patch.setattr(pauses, "_closing", pauses._closing.__wrapped__)
    patch.setattr(outcomes, "meet", lambda found: "")


def take_what_was_not_asked_for(patch: Patch) -> None:
    patch.setattr(schemas, "answer_faults", schemas.validate_resume_payload)


def take_early_verdicts(patch: Patch) -> None:
    patch.setattr(resume_events, "verdict_in", lambda event, words: False)
    patch.setattr(resume_events, "judges", lambda pause, action: False)


def count_whom_the_requester_names(patch: Patch) -> None:
    """An address that a step found in the state has a vote."""

    def counts(*args: Any) -> bool:
        return True

    patch.setattr(external_access, "counts", counts)
    patch.setattr("runs.workflows.external_reviewers.counts", counts)


def let_requesters_approve(patch: Patch) -> None:
    patch.setattr(policy, "askers", lambda pause: set())


def let_one_do(patch: Patch) -> None:
    patch.setattr(policy, "quorum", lambda pause: 1)


HOLES = [
    Hole(
        "documents bring approvals",
        believe_metadata,
        ("a_document_says_that_it_was_approved", "an_approved_thread_is_imported_again"),
        frozenset({"done_for_nobody", "approved_by_nobody"}),
    ),
    Hole(
        "states bring decisions on calls",
        believe_states,
        ("a_document_says_what_was_decided_of_calls",),
        frozenset(),
    ),
    Hole(
        "stops take input behind a review",
        take_input_at_stops,
        (
            "a_stop_behind_the_review_takes_new_input",
            "a_stop_of_an_order_takes_new_input",
            "a_child_run_acts_on_what_its_parent_was_told",
        ),
        frozenset({"edited_at_a_stop"}),
    ),
    Hole(
        "approvals go along with edits",
        carry_approvals_along,
        ("another_template_over_a_checkpoint", "another_template_at_a_step"),
        frozenset({"stepped_around_unrecorded", "done_for_nobody", "approved_by_nobody"}),
    ),
    Hole(
        "the deadline waits for the sweep",
        count_for_ever,
        ("an_answer_after_the_deadline",),
        frozenset({"decided_late"}),
    ),
    Hole(
        "data bring what was not asked for",
        take_what_was_not_asked_for,
        ("an_answer_brings_more_than_was_asked_for",),
        frozenset({"brought_unasked"}),
    ),
    Hole(
        "verdicts come before their question",
        take_early_verdicts,
        ("an_answer_comes_before_its_question",),
        frozenset({"judged_unseen"}),
    ),
    Hole(
        "addresses that the requester chose have votes",
        count_whom_the_requester_names,
        ("the_requester_asks_an_accomplice_outside",),
        frozenset({"counted_from_outside"}),
    ),
    Hole(
        "who asks may approve",
        let_requesters_approve,
        ("the_requester_approves",),
        frozenset({"approved_by_asker"}),
    ),
    Hole(
        "one reviewer does for two",
        let_one_do,
        ("one_reviewer_approves_for_two",),
        frozenset({"approved_without_quorum"}),
    ),
]
