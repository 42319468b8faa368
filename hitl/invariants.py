"""What must hold in the database at every moment, as queries that find where it does not. They read only.

Each is one statement, so it sees one moment of a database that others write to: no false alarm from two reads at two times. What a
constraint forbids is asked all the same: a constraint can be dropped, or a dump restored without it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, F, Max, Min, Model, OuterRef, Q, QuerySet, Subquery, Sum, Value, Window
from django.db.models.functions import Coalesce, Lag

from checkpoints import ids
from checkpoints.keeping import steps_done
from checkpoints.models import Checkpoint, CheckpointStatus, Event, EventKind, Thread
from hitl.models import Decision, EarlyAnswer, Import, Ledger, Via, Vote
from hitl.outbound_models import ASKING, Delivery, DeliveryStatus
from runs.engine import approvals
from runs.models import Pause, QueuedTurn, Run, WorkOrder
from runs.states import CANCELLED, COMPLETED, ENDED, EXPIRED, LIVE, PAUSED, PENDING, RUNNING, PauseStatus
from runs.workflows.sequence import CANCEL, REVISE

SHOWN = 20
LATE = dt.timedelta(seconds=60)

ENDS = (EventKind.RUN_COMPLETED, EventKind.RUN_FAILED, EventKind.RUN_CANCELLED, EventKind.RUN_EXPIRED)
WORK = (EventKind.STEP_STARTED, EventKind.STEP_COMPLETED, EventKind.TOOL_CALL_STARTED, EventKind.TOOL_CALL_COMPLETED)

Broken = QuerySet[Any] | Iterator[Any]


@dataclass(frozen=True)
class Invariant:
    """A sentence that is true of every row, and how to find the rows of which it is not."""

    code: str
    promise: str
    """Its number in the list of promises (README)."""
    sentence: str
    broken: Callable[[dt.datetime], Broken]
    """The rows that break it. What should have happened before the given time is late."""
    deep: bool = False
    """Reads and computes over whole tables in Python."""


@dataclass(frozen=True)
class Result:
    invariant: Invariant
    count: int
    ids: tuple[str, ...]
    """Shown ids of what breaks it, up to SHOWN."""


def check(*, now: dt.datetime, late: dt.timedelta = LATE, deep: bool = False) -> Iterator[Result]:
    """Look at all invariants, one after the other; without `deep` at those that the database can answer by itself."""
    for invariant in INVARIANTS:
        if deep or not invariant.deep:
            yield _look(invariant, now - late)


def _look(invariant: Invariant, before: dt.datetime) -> Result:
    broken = invariant.broken(before)
    if isinstance(broken, QuerySet):
        rows = list(broken[: SHOWN + 1])
        count = len(rows) if len(rows) <= SHOWN else broken.count()
        return Result(invariant, count, tuple(_shown(row) for row in rows[:SHOWN]))
    shown: list[str] = []
    count = 0
    for row in broken:
        count += 1
        if count <= SHOWN:
            shown.append(_shown(row))
    return Result(invariant, count, tuple(shown))


def _shown(row: Model) -> str:
    return row.shown_id if isinstance(row, ids.Shown) else str(row.pk)


# P1: a decision is recorded at most once per pause


def decided_twice(before: dt.datetime) -> Broken:
    twice = Decision.objects.filter(undoes=None).values("pause").annotate(count=Count("pk")).filter(count__gt=1).values("pause")
    return Pause.objects.filter(pk__in=twice).only("pk")


def decided_but_open(before: dt.datetime) -> Broken:
    return Pause.objects.open().filter(Exists(Decision.objects.filter(pause=OuterRef("pk")))).only("pk")


def answered_by_nobody(before: dt.datetime) -> Broken:
    answers = Decision.objects.filter(pause=OuterRef("pk"), undoes=None)
    return Pause.objects.filter(~Exists(answers), status=PauseStatus.ANSWERED).only("pk")


# P1 too: the rules on who answers hold for what was decided

BY_RULES = frozenset({Via.POLICY})
"""Doors behind which there is nobody: the template's own outcome at a deadline needs no votes."""


def _went_on_by_people() -> QuerySet[Decision]:
    return Decision.objects.filter(erasure=None).exclude(action__in=[REVISE, CANCEL]).exclude(via__in=BY_RULES)


def approved_without_quorum(before: dt.datetime) -> Broken:
    votes = Count("pause__votes", distinct=True)  # each is of another person: see its constraints
    return (
        _went_on_by_people().filter(pause__panel__quorum__gt=1).annotate(count=votes).filter(count__lt=F("pause__panel__quorum")).only("pk")
    )


def votes_miscounted(before: dt.datetime) -> Broken:
    return Pause.objects.annotate(count=Count("votes")).exclude(approvals=F("count")).only("pk")


def approved_by_asker(before: dt.datetime) -> Broken:
    """In person, or by who stood in for them."""
    forbidden = _went_on_by_people().filter(pause__panel__self_approval=False)
    asked = Q(decided_by=F("pause__run__thread__owner")) | Q(decided_by=F("pause__run__started_by"))
    through = Q(on_behalf_of=F("pause__run__thread__owner")) | Q(on_behalf_of=F("pause__run__started_by"))
    return forbidden.filter(asked | through).only("pk")


def vote_rewritten(before: dt.datetime) -> Iterator[Any]:
    """A vote that is not as it was written, and a decision that names others than there are."""
    yield from (vote for vote in Vote.objects.iterator(chunk_size=2000) if vote.digest != vote.compute_digest())
    decisions = Decision.objects.filter(erasure=None).exclude(votes=[])
    for decision in decisions.prefetch_related("pause__votes").iterator(chunk_size=500):
        assert decision.pause is not None  # only an erased one has none
        if sorted(decision.votes) != sorted(vote.digest for vote in decision.pause.votes.all()):
            yield decision


def early_answer_lost(before: dt.datetime) -> Broken:
    taken = EarlyAnswer.objects.filter(status=EarlyAnswer.Status.TAKEN)
    return taken.filter(~Exists(Decision.objects.filter(pause=OuterRef("pause")))).only("pk")


# P3: every committed decision moves its run, and nothing waits for a worker for long


def decided_but_not_moved(before: dt.datetime) -> Broken:
    """A run that waits though its question is closed, or that was cancelled by a person and is not."""
    waits = Q(pause__run__status=PAUSED, pause__run__awaited=0) & ~Exists(Pause.objects.open().filter(run=OuterRef("pause__run")))
    ignored = Q(action=CANCEL) & ~Q(pause__run__status=CANCELLED)
    return Decision.objects.filter(waits | ignored, erasure=None).only("pk")


def decided_without_checkpoint(before: dt.datetime) -> Broken:
    written = Checkpoint.objects.filter(parent=OuterRef("pause__checkpoint"), run_id=OuterRef("pause__run"))
    return (
        Decision.objects.exclude(action=CANCEL)
        .filter(erasure=None)
        .filter(~Exists(written.exclude(status=CheckpointStatus.CANCELLED)))
        .only("pk")
    )


def early_answer_not_given(before: dt.datetime) -> Broken:
    return EarlyAnswer.objects.filter(status=EarlyAnswer.Status.TAKING, changed_at__lt=before).only("pk")


def not_picked_up(before: dt.datetime) -> Broken:
    return Run.objects.overdue(before=before).only("pk")


def not_taken_back(before: dt.datetime) -> Broken:
    return Run.objects.lost(now=before).only("pk")


def latest_run_is_another(before: dt.datetime) -> Broken:
    newer = Run.objects.filter(thread=OuterRef("thread"), pk__gt=OuterRef("latest_run"))
    return WorkOrder.objects.filter(~Q(latest_run__work_order=F("pk")) | Exists(newer)).only("pk")


# P4: a step's result is committed exactly once


def _made_here(rows: QuerySet[Any], at: str) -> QuerySet[Any]:
    """Without what was imported: it is what another server says of itself."""
    return rows.filter(~Exists(Import.objects.filter(thread=OuterRef("thread"), at__gte=OuterRef(at))))


def step_done_twice(before: dt.datetime) -> Broken:
    twice = _made_here(steps_done(), "created_at").values("run_id", "node_id", "loop_num").annotate(count=Count("pk")).filter(count__gt=1)
    return Run.objects.filter(pk__in=twice.values("run_id")).only("pk")


def history_forks(before: dt.datetime) -> Broken:
    followers = _made_here(Checkpoint.objects.filter(parent__isnull=False, graph=None), "created_at")
    forks = followers.values("run_id", "parent").annotate(count=Count("pk")).filter(count__gt=1)
    return Run.objects.filter(pk__in=forks.values("run_id")).only("pk")


def two_live_runs(before: dt.datetime) -> Broken:
    live = Run.objects.filter(status__in=sorted(LIVE)).values("thread").annotate(count=Count("pk")).filter(count__gt=1)
    return Thread.objects.filter(pk__in=live.values("thread")).only("pk")


def end_without_result(before: dt.datetime) -> Broken:
    completed = Q(latest_run__status=COMPLETED) & ~Q(thread__head__status=CheckpointStatus.COMPLETED)
    asking = Q(latest_run__status=PAUSED, latest_run__awaited=0)
    waiting = asking & ~Q(thread__head__status=CheckpointStatus.PENDING_INPUT)
    return WorkOrder.objects.filter(completed | waiting).only("pk")


# P5: a run goes on from where it stopped


def paused_without_question(before: dt.datetime) -> Broken:
    opened = Count("pauses", filter=Q(pauses__status=PauseStatus.OPEN))
    return Run.objects.filter(status=PAUSED, awaited=0).annotate(opened=opened).exclude(opened=1).only("pk")


def children_miscounted(before: dt.datetime) -> Broken:
    """A parent woken by a failure still has live children for a moment; one that waits has exactly those it counts."""
    live = Count("children", filter=Q(children__status__in=sorted(LIVE)))
    return Run.objects.filter(status=PAUSED, awaited__gt=0).annotate(live=live).exclude(live=F("awaited")).only("pk")


def child_outlives_parent(before: dt.datetime) -> Broken:
    return Run.objects.live().filter(parent__status__in=sorted(ENDED)).only("pk")


def question_of_working_run(before: dt.datetime) -> Broken:
    return Pause.objects.open().filter(run__status__in=[PENDING, RUNNING]).only("pk")


def question_is_not_the_head(before: dt.datetime) -> Broken:
    return Pause.objects.open().exclude(checkpoint=F("run__thread__head")).only("pk")


def head_of_another_thread(before: dt.datetime) -> Broken:
    return Thread.objects.filter(head__isnull=False).exclude(head__thread=F("pk")).only("pk")


def head_of_another_run(before: dt.datetime) -> Broken:
    return WorkOrder.objects.exclude(thread__head__run_id=F("latest_run")).only("pk")


def head_is_old(before: dt.datetime) -> Broken:
    """By descent, not by id: ids of two hosts are in order only as far as their clocks are."""
    return Thread.objects.filter(Exists(Checkpoint.objects.filter(parent=OuterRef("head"), thread=OuterRef("pk")))).only("pk")


# P6: nothing is done for what was cancelled, or not approved as it is


def _went_on(status: CheckpointStatus) -> QuerySet[Checkpoint]:
    """What a run wrote after a checkpoint of its own in that status. A fork is another run: a person began it, and its step runs anew."""
    made_here = _made_here(Checkpoint.objects.filter(graph=None), "created_at")  # a graph has rules of its own
    return made_here.filter(parent__status=status, parent__run_id=F("run_id"))


def went_on_unasked(before: dt.datetime) -> Broken:
    approved = Decision.objects.filter(pause__checkpoint=OuterRef("parent")).exclude(action=CANCEL)
    after = _went_on(CheckpointStatus.PENDING_INPUT).exclude(status=CheckpointStatus.CANCELLED)
    expired = Run.objects.filter(pk=OuterRef("run_id"), status=EXPIRED)  # its last checkpoint says so, and is a failure
    return after.filter(~Exists(approved)).exclude(Exists(expired), status=CheckpointStatus.FAILED).only("pk")


def went_on_cancelled(before: dt.datetime) -> Broken:
    return _went_on(CheckpointStatus.CANCELLED).only("pk")


def _later(*kinds: EventKind) -> QuerySet[Event]:
    """Events of those kinds after an event of the same run, in order."""
    same_run = Event.objects.filter(thread=OuterRef("thread"), run_id=OuterRef("run_id"))
    return same_run.filter(seq__gt=OuterRef("seq"), kind__in=kinds).order_by("seq")


def worked_while_paused(before: dt.datetime) -> Broken:
    following = Subquery(_later(EventKind.RUN_RESUMED, EventKind.RUN_CANCELLED, EventKind.RUN_EXPIRED, *WORK).values("kind")[:1])
    paused = _made_here(Event.objects.filter(kind=EventKind.RUN_PAUSED), "at")
    unasked = paused.annotate(following=following).filter(following__in=WORK)
    return Run.objects.filter(pk__in=unasked.values("run_id")).only("pk")


def worked_after_end(before: dt.datetime) -> Broken:
    ended = _made_here(Event.objects.filter(kind__in=ENDS), "at")
    return Run.objects.filter(pk__in=ended.filter(Exists(_later(*WORK))).values("run_id")).only("pk")


def question_of_ended_run(before: dt.datetime) -> Broken:
    return Pause.objects.open().filter(run__status__in=sorted(ENDED)).only("pk")


def decided_on_other_content(before: dt.datetime) -> Broken:
    asked = {"content_digest": F("pause__content_digest"), "revision": F("pause__revision")}
    return Decision.objects.filter(erasure=None).exclude(**asked).only("pk")


def approved_by_nobody(before: dt.datetime) -> Iterator[Checkpoint]:
    """What a thread's head carries as approved (`runs.engine.approvals`), against the ledger: its answer, and for what it was given."""
    heads = Checkpoint.objects.filter(pk__in=Thread.objects.filter(imported=None, head__graph=None).values("head")).only("metadata")
    for head in heads.iterator(chunk_size=500):
        given = head.metadata.get(approvals.KEY, {}).values() if isinstance(head.metadata, dict) else ()
        for one in given:
            answers = Decision.objects.filter(pk=ids.parse(Decision.PREFIX, one["decision"]), content_digest=one["content"], undone_by=None)
            if not answers.filter(action=one["action"], revision=one["revision"]).exists():
                yield head


# P7: waiting costs nothing


def lease_without_work(before: dt.datetime) -> Broken:
    return Run.objects.exclude(status=RUNNING).filter(Q(lease_until__isnull=False) | ~Q(lease_owner="")).only("pk")


# P8: deadlines act once, never early, at most one sweep late; expired is not rejected


def deadline_not_met(before: dt.datetime) -> Broken:
    return Pause.objects.due(now=before).only("pk")


def deadline_missing(before: dt.datetime) -> Broken:
    """One whose calendar was gone when it opened: see `runs.due`."""
    without = Pause.objects.open().filter(deadline_at=None).exclude(review={}).only("pk", "review")
    return (pause for pause in without.iterator(chunk_size=2000) if pause.review.get("deadline"))


def expired_early(before: dt.datetime) -> Broken:
    return Pause.objects.filter(Q(deadline_at=None) | Q(closed_at__lt=F("deadline_at")), status=PauseStatus.EXPIRED).only("pk")


def expired_and_its_run_did_not(before: dt.datetime) -> Broken:
    return Pause.objects.filter(status=PauseStatus.EXPIRED).exclude(run__status=EXPIRED).only("pk")


def expired_without_its_question(before: dt.datetime) -> Broken:
    unanswered = Pause.objects.filter(run=OuterRef("pk"), status=PauseStatus.EXPIRED)
    return Run.objects.filter(~Exists(unanswered), status=EXPIRED).only("pk")


def decided_by_silence(before: dt.datetime) -> Broken:
    """The rules decide what they say, when they say it."""
    decisions = Decision.objects.filter(via=Via.POLICY, erasure=None).select_related("pause")
    return (decision for decision in decisions.iterator(chunk_size=2000) if not _is_due(decision))


def _is_due(decision: Decision) -> bool:
    pause = decision.pause
    if pause is None or pause.deadline_at is None or decision.decided_at < pause.deadline_at:
        return False
    return bool(pause.review.get("deadline", {}).get("outcome") == decision.action)


def queued_but_not_begun(before: dt.datetime) -> Broken:
    """A message that waits on a thread where no run is alive."""
    return QueuedTurn.objects.due().filter(created_at__lt=before).exclude(thread__runs__ended_at__gte=before).only("pk")


# P9: a client misses nothing and sees nothing twice


def log_with_gaps(before: dt.datetime) -> Broken:
    """What retention drops is the beginning, and `first_seq` moves with it; what it folds in the middle is counted."""
    counted = Thread.objects.annotate(
        count=Count("events"), lowest=Coalesce(Min("events__seq"), F("first_seq")), highest=Coalesce(Max("events__seq"), F("first_seq") - 1)
    )
    return counted.exclude(count=F("last_seq") - F("first_seq") + 1 - F("folded"), lowest=F("first_seq"), highest=F("last_seq")).only("pk")


def step_untold(before: dt.datetime) -> Broken:
    """The log may tell more steps than there are checkpoints of: where those were dropped, or never written, which both is counted."""
    events = Event.objects.filter(thread=OuterRef("pk"), kind=EventKind.STEP_COMPLETED)
    done = steps_done().filter(thread=OuterRef("pk"))
    untraced = Run.objects.filter(thread=OuterRef("pk")).order_by().values("thread").annotate(count=Sum("untraced_steps")).values("count")
    mine = Thread.objects.filter(imported=None)  # the log of another server may begin and end elsewhere
    counted = mine.annotate(told=_count(events), done=_count(done), untraced=Coalesce(Subquery(untraced), 0))
    return counted.exclude(told=F("done") + F("step_balance") + F("untraced")).only("pk")


def _count(rows: QuerySet[Any]) -> Coalesce:
    """How many rows of a thread."""
    return Coalesce(Subquery(rows.order_by().values("thread").annotate(count=Count("pk")).values("count")), 0)


# P11: the ledger is append-only and hash-chained


def ledger_with_gaps(before: dt.datetime) -> Broken:
    counted = Ledger.objects.annotate(
        count=Count("decisions"), lowest=Coalesce(Min("decisions__position"), 1), highest=Coalesce(Max("decisions__position"), 0)
    )
    return counted.exclude(count=F("length"), lowest=1, highest=F("length"))


def ledger_tip_is_another(before: dt.datetime) -> Broken:
    newest = Decision.objects.filter(ledger=OuterRef("pk")).order_by("-position").values("digest")[:1]
    return Ledger.objects.exclude(tip=Coalesce(Subquery(newest), Value("")))


def ledger_unlinked(before: dt.datetime) -> Broken:
    last = Window(Lag("digest", default=Value("")), partition_by=F("ledger"), order_by=F("position").asc())
    return Decision.objects.annotate(last=last).exclude(previous=F("last")).only("pk")


def ledger_rewritten(before: dt.datetime) -> Broken:
    return (decision for decision in Decision.objects.select_related("erasure").iterator(chunk_size=2000) if not decision.intact)


# Outbound: who is to know of a question is told


def not_announced(before: dt.datetime) -> Broken:
    closed = ~Q(status=PauseStatus.OPEN) & Q(closed_at__lt=before)
    return Pause.objects.untold().filter(closed | Q(status=PauseStatus.OPEN, opened_at__lt=before)).only("pk")


def not_delivered(before: dt.datetime) -> Broken:
    """A message whose time came, or whose worker was lost, and that nobody took up. An hour's grace: thousands may be due at once."""
    return Delivery.objects.due(now=before - dt.timedelta(hours=1)).only("pk")


def sent_after_the_end(before: dt.datetime) -> Broken:
    """A reminder that went out well after its question was closed: past the time that a try may take."""
    late = F("pause__closed_at") + dt.timedelta(minutes=5)
    return Delivery.objects.filter(status=DeliveryStatus.SENT, occasion__in=ASKING, sent_at__gt=late).only("pk")


INVARIANTS: tuple[Invariant, ...] = (
    Invariant("decided_twice", "P1", "A pause has at most one decision.", decided_twice),
    Invariant("decided_but_open", "P1", "A pause that has a decision is closed.", decided_but_open),
    Invariant("answered_by_nobody", "P1", "A pause that counts as answered has its decision.", answered_by_nobody),
    Invariant("approved_without_quorum", "P1", "What several must approve was approved by as many people.", approved_without_quorum),
    Invariant("votes_miscounted", "P1", "A pause counts the votes that it has.", votes_miscounted),
    Invariant("approved_by_asker", "P1", "Who asked for the work did not approve it where the rules forbid that.", approved_by_asker),
    Invariant("vote_rewritten", "P11", "Each vote is as it was given, and the decision names them all.", vote_rewritten, deep=True),
    Invariant("ledger_with_gaps", "P2", "A ledger holds each position from 1 to its length, once.", ledger_with_gaps),
    Invariant(
        "decided_but_not_moved", "P3", "A run that got its answer has gone on, or ended where it was cancelled.", decided_but_not_moved
    ),
    Invariant("decided_without_checkpoint", "P3", "A decision to go on has its checkpoint.", decided_without_checkpoint),
    Invariant("early_answer_lost", "P2", "An answer that came early and was taken has its decision.", early_answer_lost),
    Invariant(
        "early_answer_not_given", "P3", "An answer that came early is soon given to the question that opened.", early_answer_not_given
    ),
    Invariant("not_picked_up", "P3", "A run that is due is soon picked up by a worker.", not_picked_up),
    Invariant("not_taken_back", "P3", "A run whose worker was lost is soon taken back.", not_taken_back),
    Invariant("latest_run_is_another", "P3", "A work order's latest run is its own and its newest.", latest_run_is_another),
    Invariant("step_done_twice", "P4", "Each execution of a step in a run has one result.", step_done_twice),
    Invariant("history_forks", "P4", "The checkpoints of a run follow one another, one after each.", history_forks),
    Invariant("two_live_runs", "P4", "A thread has at most one live run.", two_live_runs),
    Invariant("end_without_result", "P4", "A completed or paused run has the checkpoint that says so.", end_without_result),
    Invariant(
        "paused_without_question", "P5", "A paused run has exactly one open question, or waits for child runs.", paused_without_question
    ),
    Invariant("children_miscounted", "P3", "A run that waits for child runs counts those that live.", children_miscounted),
    Invariant("child_outlives_parent", "P6", "No child run lives on after the run that waited for it.", child_outlives_parent),
    Invariant("question_of_working_run", "P5", "A run with an open question is paused, not at work.", question_of_working_run),
    Invariant("question_is_not_the_head", "P5", "An open question was asked in the state its run goes on from.", question_is_not_the_head),
    Invariant("head_of_another_thread", "P5", "A thread's head is a checkpoint of its own.", head_of_another_thread),
    Invariant("head_of_another_run", "P5", "A thread's head was written by its latest run.", head_of_another_run),
    Invariant("head_is_old", "P5", "No checkpoint follows a thread's head.", head_is_old),
    Invariant("went_on_unasked", "P6", "What follows a question follows a decision that lets it go on.", went_on_unasked),
    Invariant("went_on_cancelled", "P6", "A run writes nothing after its cancellation.", went_on_cancelled),
    Invariant("worked_while_paused", "P6", "Between a pause and its answer no step works.", worked_while_paused),
    Invariant("worked_after_end", "P6", "No step of a run begins or ends after the run's end.", worked_after_end),
    Invariant("question_of_ended_run", "P6", "A run that has ended asks nothing any more.", question_of_ended_run),
    Invariant(
        "decided_on_other_content", "P6", "A decision names the revision and the content that were asked about.", decided_on_other_content
    ),
    Invariant(
        "approved_by_nobody", "P6", "What a run acts on as approved was approved, and not taken back.", approved_by_nobody, deep=True
    ),
    Invariant("not_announced", "P3", "A question, and its end, is soon planned to be told to those who are to know.", not_announced),
    Invariant("not_delivered", "P3", "A message whose time has come is soon sent.", not_delivered),
    Invariant("sent_after_the_end", "P6", "Nobody is asked what was answered.", sent_after_the_end),
    Invariant("lease_without_work", "P7", "Only a run at work holds a lease.", lease_without_work),
    Invariant("deadline_not_met", "P8", "What is due acts within a sweep.", deadline_not_met),
    Invariant("deadline_missing", "P8", "An open question whose rules name a deadline has one.", deadline_missing),
    Invariant("expired_early", "P8", "Nothing expires before its deadline.", expired_early),
    Invariant("expired_and_its_run_did_not", "P8", "The run of an expired question has expired.", expired_and_its_run_did_not),
    Invariant("expired_without_its_question", "P8", "An expired run has its expired question.", expired_without_its_question),
    Invariant("decided_by_silence", "P8", "The rules decide only what they name, and not before the deadline.", decided_by_silence),
    Invariant(
        "queued_but_not_begun", "P3", "A message that waits for its turn begins when the run before it has ended.", queued_but_not_begun
    ),
    Invariant("log_with_gaps", "P9", "A thread's log holds each number from its first that is kept to its last, once.", log_with_gaps),
    Invariant("step_untold", "P9", "Each result of a step has its event.", step_untold),
    Invariant("ledger_tip_is_another", "P11", "A ledger's tip is the digest of its newest decision.", ledger_tip_is_another),
    Invariant("ledger_unlinked", "P11", "A decision names the digest of the one before it.", ledger_unlinked),
    Invariant(
        "ledger_rewritten", "P11", "A decision's digest covers what it says, or its erasure vouches for it.", ledger_rewritten, deep=True
    ),
)
