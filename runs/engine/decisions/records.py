"""What people decided, as the machine is told of it by whoever keeps decisions."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from django.utils.module_loading import import_string

from runs.workflows import sequence


@dataclass(frozen=True, kw_only=True)
class DecisionRecord:
    """An answer as the ledger has it, with its question and its votes."""

    decision_id: str
    """Shown, `dec_…`."""
    pause_id: uuid.UUID
    thread_id: uuid.UUID
    run_id: uuid.UUID
    checkpoint_id: uuid.UUID
    """That of the question."""
    definition: str
    """Digest of what the run that asked is pinned to."""
    step: str
    phase: str
    action: str
    goes_on: bool
    """Whether it lets the run go on: no revision, no cancellation, nothing that was taken back or
    stepped around.
    """
    answers: Collection[str]
    """The answers that there were."""
    revision: int
    content_digest: str
    """Both of what was answered."""
    asked_revision: int
    asked_digest: str
    """Both of what was asked."""
    material: str
    """Digest of what it is for; "" where what was kept of that does not fit the question."""
    review: Mapping[str, Any]
    """The rules that the question was asked by."""
    votes: int
    """Different people, by account or by an address that the rules name, who gave just this answer
    to just this content.
    """
    by_rules: bool
    """Nobody's: the rules' own, at the deadline."""
    passed: bool = False
    """Nobody's: the step passed its review, as its template allows."""
    approving: Collection[str] = (sequence.APPROVE,)
    """The answers that are declared approvals."""
    external: str
    """The mail address of who answered without an account."""
    proven: bool = False
    """Whether a second factor was proven for it, and for each of those votes."""
    stages: Sequence[str] = ()
    """The stage of the review that each of those votes counts at."""
    calls: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    """Tool calls that it was about."""
    decided_calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """What it decided of each: see `runs.workflows.tool_calls.decided`."""

    @property
    def approves(self) -> bool:
        return self.action in self.approving

    @property
    def reviews(self) -> bool:
        """Whether one of the answers was an approval: else the question asked for data alone."""
        return bool({*self.approving} & {*self.answers})


class Decisions(Protocol):
    """Reads decisions by their keys, each with its question and votes.

    What there is no row of is left out.
    """

    def find(self, keys: Collection[uuid.UUID]) -> Mapping[str, DecisionRecord]: ...


@cache
def reader(path: str) -> Decisions:
    reader: Decisions = import_string(path)()
    return reader
