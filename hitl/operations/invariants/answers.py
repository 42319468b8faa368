"""What must hold of decisions: each is the only one, given by who was asked, as the rules say, and
as the ledger has it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from django.db.models import (
    Count,
    Exists,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    Window,
)
from django.db.models.functions import Coalesce, Lag

from checkpoints.models import Checkpoint, CheckpointStatus
from checkpoints.models.fields import demand
from hitl.decisions.reviewers import external_access
from hitl.models import NOBODYS, STEP_AROUND, Decision, EarlyAnswer, Ledger, Via, Vote
from hitl.models.outbound import Link
from hitl.operations.invariants.base import Broken, invariant
from runs.models import Pause
from runs.states import CANCELLED, PAUSED, PauseStatus
from runs.workflows.external_reviewers import counts
from runs.workflows.reviews import stages
from runs.workflows.sequence import CANCEL, REVISE

# a decision is recorded at most once per pause


@invariant("P1", "A pause has at most one decision.")
def decided_twice(before: dt.datetime) -> Broken:
    twice = (
        Decision.objects.filter(undoes=None)
        .values("pause")
        .annotate(count=Count("pk"))
        .filter(count__gt=1)
        .values("pause")
    )
    return Pause.objects.filter(pk__in=twice).only("pk")


@invariant("P1", "A pause that has a decision is closed.")
def decided_but_open(before: dt.datetime) -> Broken:
    return (
        Pause.objects.open()
        .filter(Exists(Decision.objects.filter(pause=OuterRef("pk"))))
        .only("pk")
    )


@invariant("P1", "A pause that counts as answered has its decision.")
def answered_by_nobody(before: dt.datetime) -> Broken:
    answers = Decision.objects.filter(pause=OuterRef("pk"), undoes=None)
    return Pause.objects.filter(~Exists(answers), status=PauseStatus.ANSWERED).only("pk")


# the rules on who answers hold for what was decided

BY_RULES = frozenset(NOBODYS)
"""Doors behind which there is nobody: what the template says by itself needs no votes."""


def _went_on_by_people() -> QuerySet[Decision]:
    return (
        Decision.objects.filter(erasure=None)
        .exclude(action__in=[REVISE, CANCEL])
        .exclude(via__in=BY_RULES)
    )


@invariant("P1", "What several must approve was approved by as many people.")
def approved_without_quorum(before: dt.datetime) -> Broken:
    votes = Count("pause__votes", distinct=True)  # each is of another person: see its constraints
    return (
        _went_on_by_people()
        .filter(pause__panel__quorum__gt=1)
        .annotate(count=votes)
        .filter(count__lt=F("pause__panel__quorum"))
        .only("pk")
    )


@invariant("P1", "What stages must approve was approved by each of them, and by nobody too many.")
def approved_without_its_stages(before: dt.datetime) -> Iterator[Any]:
    staged = _went_on_by_people().filter(pause__panel__members__turn__gt=0).distinct()
    for decision in staged.select_related("pause").prefetch_related("pause__votes").iterator(500):
        assert decision.pause is not None  # only an erased one has none
        if not stages.kept_to(
            decision.pause.review, [vote.stage for vote in decision.pause.votes.all()]
        ):
            yield decision


@invariant("P1", "Whose turn it is follows from the votes.")
def turn_of_nobody(before: dt.datetime) -> Iterator[Any]:
    """An open question that other stages are asked than its votes say."""
    staged = Pause.objects.open().filter(panel__members__turn__gt=0).distinct()
    for pause in staged.prefetch_related("votes").iterator(500):
        if pause.turn != stages.turn(pause.review, [vote.stage for vote in pause.votes.all()]):
            yield pause


@invariant("P1", "A pause counts the votes that it has.")
def votes_miscounted(before: dt.datetime) -> Broken:
    return Pause.objects.annotate(count=Count("votes")).exclude(approvals=F("count")).only("pk")


@invariant("P1", "Who asked for the work did not approve it where the rules forbid that.")
def approved_by_asker(before: dt.datetime) -> Broken:
    """In person, or by who stood in for them."""
    forbidden = _went_on_by_people().filter(pause__panel__self_approval=False)
    asked = Q(decided_by=F("pause__run__thread__owner")) | Q(decided_by=F("pause__run__started_by"))
    through = Q(on_behalf_of=F("pause__run__thread__owner")) | Q(
        on_behalf_of=F("pause__run__started_by")
    )
    return forbidden.filter(asked | through).only("pk")


@invariant("P11", "Each vote is as it was given, and the decision names them all.", deep=True)
def vote_rewritten(before: dt.datetime) -> Iterator[Any]:
    """A vote that is not as it was written, and a decision that names others than there are."""
    yield from (
        vote
        for vote in Vote.objects.iterator(chunk_size=2000)
        if vote.digest != vote.compute_digest()
    )
    decisions = Decision.objects.filter(erasure=None).exclude(votes=[])
    for decision in decisions.prefetch_related("pause__votes").iterator(chunk_size=500):
        assert decision.pause is not None  # only an erased one has none
        if sorted(decision.votes) != sorted(vote.digest for vote in decision.pause.votes.all()):
            yield decision


@invariant("P2", "An answer that came early and was taken has its decision.")
def early_answer_lost(before: dt.datetime) -> Broken:
    taken = EarlyAnswer.objects.filter(status=EarlyAnswer.Status.TAKEN)
    return taken.filter(~Exists(Decision.objects.filter(pause=OuterRef("pause")))).only("pk")


@invariant(
    "P1",
    "Who answered without an account was asked: by the question's own rules, and by a link "
    "to that revision, sent to that address.",
    deep=True,
)
def answered_from_outside_unasked(before: dt.datetime) -> Iterator[Any]:
    """Of answers and votes without an account: each was put to that address, with that way, and its
    link to that revision was sent there.

    Addresses are sealed, so they are compared here. An erasure takes address, question and links
    together.
    """
    given = {"external": ""}
    for rows in (
        Decision.objects.filter(erasure=None).exclude(**given),
        Vote.objects.exclude(**given),
    ):
        for answer in (
            rows.select_related("pause").prefetch_related("pause__links").iterator(chunk_size=500)
        ):
            if not _was_asked(answer):
                yield answer


def _was_asked(answer: Decision | Vote) -> bool:
    pause, address = answer.pause, str(demand(answer.external)).lower()
    if (
        pause is None
        or answer.via != Via.LINK
        or not external_access.may_answer(pause, address)
        or answer.action not in external_access.shown(pause, address).answers
    ):
        return False
    return any(
        link.purpose == Link.Purpose.ANSWER
        and link.recipient_id is None
        and link.revision == pause.revision
        and str(demand(link.contact)).lower() == address
        for link in pause.links.all()
    )


@invariant(
    "P6",
    "Who answered under an address that the step's frozen rules do not name brought data; it "
    "approved nothing and was no vote.",
    deep=True,
)
def counted_from_outside(before: dt.datetime) -> Iterator[Any]:
    """Votes, and answers that count as a person's, under an address that the question's frozen
    rules do not name.
    """
    given = {"external": ""}
    counting = Decision.objects.filter(erasure=None, data_only=False).exclude(**given)
    for rows in (counting, Vote.objects.exclude(**given)):
        for answer in rows.select_related("pause").iterator(chunk_size=500):
            rules = answer.pause.review if answer.pause is not None else {}
            if not counts(rules, str(demand(answer.external))):
                yield answer


# every committed decision moves its run


@invariant("P3", "A run that got its answer has gone on, or ended where it was cancelled.")
def decided_but_not_moved(before: dt.datetime) -> Broken:
    """A run that waits though its question is closed, or that was cancelled by a person and is
    not.
    """
    waits = Q(pause__run__status=PAUSED, pause__run__awaited=0) & ~Exists(
        Pause.objects.open().filter(run=OuterRef("pause__run"))
    )
    ignored = Q(action=CANCEL) & ~Q(pause__run__status=CANCELLED)
    return Decision.objects.filter(waits | ignored, erasure=None).only("pk")


@invariant("P3", "A decision to go on has its checkpoint.")
def decided_without_checkpoint(before: dt.datetime) -> Broken:
    written = Checkpoint.objects.filter(
        parent=OuterRef("pause__checkpoint"), run_id=OuterRef("pause__run")
    )
    return (
        # the latter names its run's first checkpoint itself
        Decision.objects.exclude(action__in=[CANCEL, STEP_AROUND])
        .filter(erasure=None)
        .filter(~Exists(written.exclude(status=CheckpointStatus.CANCELLED)))
        .only("pk")
    )


@invariant("P3", "An answer that came early is soon given to the question that opened.")
def early_answer_not_given(before: dt.datetime) -> Broken:
    return EarlyAnswer.objects.filter(status=EarlyAnswer.Status.TAKING, changed_at__lt=before).only(
        "pk"
    )


# what is approved is what was asked about


@invariant("P6", "A decision names the revision and the content that were asked about.")
def decided_on_other_content(before: dt.datetime) -> Broken:
    asked = {"content_digest": F("pause__content_digest"), "revision": F("pause__revision")}
    return Decision.objects.filter(erasure=None).exclude(**asked).only("pk")


# the ledger is append-only and hash-chained


@invariant("P2", "A ledger holds each position from 1 to its length, once.")
def ledger_with_gaps(before: dt.datetime) -> Broken:
    counted = Ledger.objects.annotate(
        count=Count("decisions"),
        lowest=Coalesce(Min("decisions__position"), 1),
        highest=Coalesce(Max("decisions__position"), 0),
    )
    return counted.exclude(count=F("length"), lowest=1, highest=F("length"))


@invariant("P11", "A ledger's tip is the digest of its newest decision.")
def ledger_tip_is_another(before: dt.datetime) -> Broken:
    newest = (
        Decision.objects.filter(ledger=OuterRef("pk")).order_by("-position").values("digest")[:1]
    )
    return Ledger.objects.exclude(tip=Coalesce(Subquery(newest), Value("")))


@invariant("P11", "A decision names the digest of the one before it.")
def ledger_unlinked(before: dt.datetime) -> Broken:
    last = Window(
        Lag("digest", default=Value("")), partition_by=F("ledger"), order_by=F("position").asc()
    )
    return Decision.objects.annotate(last=last).exclude(previous=F("last")).only("pk")


@invariant(
    "P11", "A decision's digest covers what it says, or its erasure vouches for it.", deep=True
)
def ledger_rewritten(before: dt.datetime) -> Broken:
    return (
        decision
        for decision in Decision.objects.select_related("erasure").iterator(chunk_size=2000)
        if not decision.intact
    )
