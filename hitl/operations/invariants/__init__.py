"""What must hold in the database at every moment, as queries that find where it does not.

They read only.

Each is one statement, so it sees one moment of a database that others write to: no false alarm from
two reads at two times. What a constraint forbids is asked all the same: a constraint can be
dropped, or a dump restored without it.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator

from django.db.models import Model, QuerySet

from checkpoints import ids
from hitl.operations.invariants import answers, effects, given, waiting, work
from hitl.operations.invariants.base import Invariant as Invariant
from hitl.operations.invariants.base import InvariantResult as InvariantResult

log = logging.getLogger(__name__)
SHOWN = 20
LATE = dt.timedelta(seconds=60)


def check(
    *, now: dt.datetime, late: dt.timedelta = LATE, deep: bool = False
) -> Iterator[InvariantResult]:
    """Look at all invariants, one after the other; without `deep` at those that the database can
    answer by itself.
    """
    for invariant in INVARIANTS:
        if deep or not invariant.deep:
            yield _look(invariant, now - late)


def _look(invariant: Invariant, before: dt.datetime) -> InvariantResult:
    """What breaks it.

    Rows that cannot even be read as what they should be break it too, and the other invariants are
    still asked.
    """
    try:
        return _found(invariant, before)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        log.exception("invariant %s could not be read to its end", invariant.code)
        return InvariantResult(
            invariant, 1, (f"damaged rows, which cannot be read: {type(error).__name__}",)
        )


def _found(invariant: Invariant, before: dt.datetime) -> InvariantResult:
    broken = invariant.broken(before)
    if isinstance(broken, QuerySet):
        rows = list(broken[: SHOWN + 1])
        count = len(rows) if len(rows) <= SHOWN else broken.count()
        return InvariantResult(invariant, count, tuple(_shown(row) for row in rows[:SHOWN]))
    shown: list[str] = []
    count = 0
    for row in broken:
        count += 1
        if count <= SHOWN:
            shown.append(_shown(row))
    return InvariantResult(invariant, count, tuple(shown))


def _shown(row: Model) -> str:
    return row.shown_id if isinstance(row, ids.HasShownId) else str(row.pk)


INVARIANTS: tuple[Invariant, ...] = (
    Invariant("decided_twice", "P1", "A pause has at most one decision.", answers.decided_twice),
    Invariant(
        "decided_but_open", "P1", "A pause that has a decision is closed.", answers.decided_but_open
    ),
    Invariant(
        "answered_by_nobody",
        "P1",
        "A pause that counts as answered has its decision.",
        answers.answered_by_nobody,
    ),
    Invariant(
        "approved_without_quorum",
        "P1",
        "What several must approve was approved by as many people.",
        answers.approved_without_quorum,
    ),
    Invariant(
        "votes_miscounted", "P1", "A pause counts the votes that it has.", answers.votes_miscounted
    ),
    Invariant(
        "approved_by_asker",
        "P1",
        "Who asked for the work did not approve it where the rules forbid that.",
        answers.approved_by_asker,
    ),
    Invariant(
        "answered_from_outside_unasked",
        "P1",
        (
            "Who answered without an account was asked: by the question's own rules, and by a "
            "link to that revision, sent to that address."
        ),
        answers.answered_from_outside_unasked,
        deep=True,
    ),
    Invariant(
        "counted_from_outside",
        "P6",
        (
            "Who answered under an address that the step's frozen rules do not name brought "
            "data; it approved nothing and was no vote."
        ),
        answers.counted_from_outside,
        deep=True,
    ),
    Invariant(
        "vote_rewritten",
        "P11",
        "Each vote is as it was given, and the decision names them all.",
        answers.vote_rewritten,
        deep=True,
    ),
    Invariant(
        "ledger_with_gaps",
        "P2",
        "A ledger holds each position from 1 to its length, once.",
        answers.ledger_with_gaps,
    ),
    Invariant(
        "decided_but_not_moved",
        "P3",
        "A run that got its answer has gone on, or ended where it was cancelled.",
        answers.decided_but_not_moved,
    ),
    Invariant(
        "decided_without_checkpoint",
        "P3",
        "A decision to go on has its checkpoint.",
        answers.decided_without_checkpoint,
    ),
    Invariant(
        "early_answer_lost",
        "P2",
        "An answer that came early and was taken has its decision.",
        answers.early_answer_lost,
    ),
    Invariant(
        "early_answer_not_given",
        "P3",
        "An answer that came early is soon given to the question that opened.",
        answers.early_answer_not_given,
    ),
    Invariant(
        "not_picked_up",
        "P3",
        "A run that is due is soon picked up by a worker.",
        work.not_picked_up,
    ),
    Invariant(
        "not_taken_back",
        "P3",
        "A run whose worker was lost is soon taken back.",
        work.not_taken_back,
    ),
    Invariant(
        "lease_too_long",
        "P3",
        "No lease ends later than one that is taken now.",
        work.lease_too_long,
    ),
    Invariant(
        "latest_run_is_another",
        "P3",
        "A work order's latest run is its own and its newest.",
        work.latest_run_is_another,
    ),
    Invariant(
        "ran_changed_code_unsaid",
        "P10",
        (
            "A step whose code has changed since the run was asked for runs only after that was "
            "said or accepted."
        ),
        work.ran_changed_code_unsaid,
        deep=True,
    ),
    Invariant(
        "step_done_twice",
        "P4",
        "Each execution of a step in a run has one result.",
        work.step_done_twice,
    ),
    Invariant(
        "history_forks",
        "P4",
        "The checkpoints of a run follow one another, one after each.",
        work.history_forks,
    ),
    Invariant("two_live_runs", "P4", "A thread has at most one live run.", work.two_live_runs),
    Invariant(
        "end_without_result",
        "P4",
        "A completed or paused run has the checkpoint that says so.",
        work.end_without_result,
    ),
    Invariant(
        "paused_without_question",
        "P5",
        "A paused run has exactly one open question, or waits for child runs.",
        work.paused_without_question,
    ),
    Invariant(
        "children_miscounted",
        "P3",
        "A run that waits for child runs counts those that live.",
        work.children_miscounted,
    ),
    Invariant(
        "child_outlives_parent",
        "P6",
        "No child run lives on after the run that waited for it.",
        work.child_outlives_parent,
    ),
    Invariant(
        "question_of_working_run",
        "P5",
        "A run with an open question is paused, not at work.",
        work.question_of_working_run,
    ),
    Invariant(
        "question_is_not_the_head",
        "P5",
        "An open question was asked in the state its run goes on from.",
        work.question_is_not_the_head,
    ),
    Invariant(
        "head_of_another_thread",
        "P5",
        "A thread's head is a checkpoint of its own.",
        work.head_of_another_thread,
    ),
    Invariant(
        "head_of_another_run",
        "P5",
        "A thread's head was written by its latest run.",
        work.head_of_another_run,
    ),
    Invariant("head_is_old", "P5", "No checkpoint follows a thread's head.", work.head_is_old),
    Invariant(
        "went_on_unasked",
        "P6",
        "What follows a question follows a decision that lets it go on.",
        work.went_on_unasked,
    ),
    Invariant(
        "went_on_cancelled",
        "P6",
        "A run writes nothing after its cancellation.",
        work.went_on_cancelled,
    ),
    Invariant(
        "worked_while_paused",
        "P6",
        "Between a pause and its answer no step works.",
        work.worked_while_paused,
    ),
    Invariant(
        "worked_after_end",
        "P6",
        "No step of a run begins or ends after the run's end.",
        work.worked_after_end,
    ),
    Invariant(
        "question_of_ended_run",
        "P6",
        "A run that has ended asks nothing any more.",
        work.question_of_ended_run,
    ),
    Invariant(
        "decided_on_other_content",
        "P6",
        "A decision names the revision and the content that were asked about.",
        answers.decided_on_other_content,
    ),
    Invariant(
        "approved_by_nobody",
        "P6",
        (
            "What a run acts on as approved was approved for it, by the rules that its step "
            "has, and not taken back."
        ),
        effects.approved_by_nobody,
        deep=True,
    ),
    Invariant(
        "done_for_nobody",
        "P6",
        "What a step did for an approval was approved, and is just that.",
        effects.done_for_nobody,
        deep=True,
    ),
    Invariant(
        "called_for_nobody",
        "P6",
        "A tool's call that the rules ask about was made as somebody approved it.",
        effects.called_for_nobody,
        deep=True,
    ),
    Invariant(
        "edited_at_a_stop",
        "P6",
        "What the answer to a stop changed is not taken for approved.",
        effects.edited_at_a_stop,
        deep=True,
    ),
    Invariant(
        "decided_late",
        "P8",
        "Nobody answers after the deadline; then the rules do.",
        given.decided_late,
    ),
    Invariant(
        "brought_unasked",
        "P6",
        "An answer brings data under the names that its question asked for, and no others.",
        given.brought_unasked,
        deep=True,
    ),
    Invariant(
        "judged_unseen",
        "P6",
        (
            "A verdict that came before its question names the revision and the content that it "
            "is for."
        ),
        given.judged_unseen,
        deep=True,
    ),
    Invariant(
        "stepped_around_unrecorded",
        "P6",
        (
            "A run that begins behind a review with what a person named has the decision that "
            "says who and why."
        ),
        effects.stepped_around_unrecorded,
        deep=True,
    ),
    Invariant(
        "not_announced",
        "P3",
        "A question, and its end, is soon planned to be told to those who are to know.",
        waiting.not_announced,
    ),
    Invariant(
        "not_delivered", "P3", "A message whose time has come is soon sent.", waiting.not_delivered
    ),
    Invariant(
        "sent_after_the_end", "P6", "Nobody is asked what was answered.", waiting.sent_after_the_end
    ),
    Invariant(
        "lease_without_work", "P7", "Only a run at work holds a lease.", work.lease_without_work
    ),
    Invariant(
        "deadline_not_met", "P8", "What is due acts within a sweep.", waiting.deadline_not_met
    ),
    Invariant(
        "deadline_missing",
        "P8",
        "An open question whose rules name a deadline has one.",
        waiting.deadline_missing,
    ),
    Invariant("expired_early", "P8", "Nothing expires before its deadline.", waiting.expired_early),
    Invariant(
        "expired_and_its_run_did_not",
        "P8",
        "The run of an expired question has expired.",
        waiting.expired_and_its_run_did_not,
    ),
    Invariant(
        "expired_without_its_question",
        "P8",
        "An expired run has its expired question.",
        waiting.expired_without_its_question,
    ),
    Invariant(
        "decided_by_silence",
        "P8",
        "The rules decide only what they name, and not before the deadline.",
        waiting.decided_by_silence,
    ),
    Invariant(
        "queued_but_not_begun",
        "P3",
        "A message that waits for its turn begins when the run before it has ended.",
        waiting.queued_but_not_begun,
    ),
    Invariant(
        "log_with_gaps",
        "P9",
        "A thread's log holds each number from its first that is kept to its last, once.",
        work.log_with_gaps,
    ),
    Invariant("step_untold", "P9", "Each result of a step has its event.", work.step_untold),
    Invariant(
        "ledger_tip_is_another",
        "P11",
        "A ledger's tip is the digest of its newest decision.",
        answers.ledger_tip_is_another,
    ),
    Invariant(
        "ledger_unlinked",
        "P11",
        "A decision names the digest of the one before it.",
        answers.ledger_unlinked,
    ),
    Invariant(
        "ledger_rewritten",
        "P11",
        "A decision's digest covers what it says, or its erasure vouches for it.",
        answers.ledger_rewritten,
        deep=True,
    ),
)
