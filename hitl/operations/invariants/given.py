"""Answers given: what people answered, against what was asked of them, and until when."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import F, Q

from hitl.models import NOBODYS, STEP_AROUND, UNDO, Decision, EarlyAnswer, Vote
from hitl.operations.invariants.base import Broken, invariant
from hitl.wait_gate.resume_events import judges
from runs.workflows.schemas import asked_for


@invariant("P8", "Nobody answers after the deadline; then the rules do.")
def decided_late(before: dt.datetime) -> Broken:
    """Answers of people after the deadline that their question closed with; of a vote, the answer
    that counts it.
    """
    late = Q(decided_at__gt=F("pause__deadline_at")) | Q(
        pause__votes__voted_at__gt=F("pause__deadline_at")
    )
    given = (
        Decision.objects.filter(late, erasure=None)
        .exclude(via__in=NOBODYS)
        .exclude(action__in=[UNDO, STEP_AROUND])
    )
    return given.only("pk").distinct()


@invariant(
    "P6",
    "An answer brings data under the names that its question asked for, and no others.",
    deep=True,
)
def brought_unasked(before: dt.datetime) -> Iterator[Decision]:
    """Answers that brought data under names which the question did not ask for."""
    brought = Decision.objects.filter(erasure=None, payload__isnull=False).select_related("pause")
    for decision in brought.iterator(chunk_size=500):
        assert decision.pause is not None  # only an erased one has none
        if isinstance(decision.payload, Mapping) and decision.payload.keys() - asked_for(
            decision.pause.required_inputs
        ):
            yield decision


@invariant(
    "P6",
    "A verdict that came before its question names the revision and the content that it is for.",
    deep=True,
)
def judged_unseen(before: dt.datetime) -> Iterator[EarlyAnswer]:
    """Verdicts that came before their question without naming the revision and the content which
    they were for.
    """
    taken = EarlyAnswer.objects.filter(
        status=EarlyAnswer.Status.TAKEN, received_at__lt=F("pause__opened_at")
    ).select_related("pause")
    for early in taken.iterator(chunk_size=500):
        pause = early.pause
        assert pause is not None  # early_answer_has_its_question
        given = Decision.objects.filter(pause=pause, undoes=None, decided_by=early.by_id).first()
        vote = given or Vote.objects.filter(pause=pause, voter=early.by_id).first()
        if (
            vote is not None
            and judges(pause, vote.action)
            and _named(early) != (pause.revision, pause.content_digest)
        ):
            yield early


def _named(early: EarlyAnswer) -> tuple[Any, Any]:
    """The revision and the content that an event names, beside its payload or in it."""
    word = early.event.get("payload")
    payload = word if isinstance(word, Mapping) else {}
    revision, content = (
        early.event.get(name) or payload.get(name) for name in ("revision", "content_digest")
    )
    return revision, content
