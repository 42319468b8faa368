"""Answering a pause.

`decide` is the one way, behind every door: page, REST, socket, admin, command. It goes straight
down:

1. `visibility.review_context`: what the person may see, and how they stand to it;
2. `scopes` and `ReviewContext.seat_for`: whether they may answer so, by the rules;
3. `answers`: whether the question takes this answer;
4. `_write`, in one transaction: the vote; or the pause closed, the run moved and the decision in
   the ledger, by `closing.close`.

Until then nothing is written, but that an answer's data did not fit.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.state import codec
from checkpoints.state.reducers import MergeFailed, StateTooLarge
from hitl.decisions import answers, closing, presence, step_up, visibility, voting
from hitl.decisions.answers import Answer
from hitl.decisions.deadlines import outcomes
from hitl.decisions.errors import (
    AlreadyAnswered,
    AnswerInvalid,
    DeadlinePassed,
    RevisionMismatch,
)
from hitl.decisions.reviewers import policy
from hitl.decisions.reviewers.policy import Actor, ReviewContext
from hitl.decisions.talk import comments, feedback
from hitl.decisions.visibility import AnyReviewContext
from hitl.models import Decision, Via, Vote, Wait
from runs import keyed
from runs import services as runs
from runs.definitions import due_times
from runs.models import Pause
from runs.security import scopes
from runs.services import PauseClosed, external_runs, uploads
from runs.states import PauseStatus
from runs.workflows import Understood
from runs.workflows.sequence import CANCEL, REVISE

SURE = dt.timedelta(seconds=clock.TOLERANCE)
"""A deadline that lies further ahead has not passed by the database's clock either."""


def decide(pause_id: uuid.UUID, answer: Answer, *, by: Actor) -> Decision | Vote:
    """Record a person's answer and let the run act on it; or, where the rules ask for more
    approvals than this one, record the vote.

    Args:
        by: whoever answers; an `Outsider` is whoever holds a link that was sent to that address,
            which the caller has verified.
    Raises:
        NotFound: no such pause for this person.
        AnswerInvalid: nothing decided, the pause stays open. Of a payload that does not fit, the
            pause keeps what was wrong.
        RevisionMismatch: the content changed; nothing written.
        AlreadyAnswered: another answer won, and is named; nothing written.
        DeadlinePassed: it came too late; the rules of the question have acted. Where these ask
            further people, an answer of theirs counts.
        policy.Refused: the rules are against it, for this person or at the moment; nothing written.
        step_up.StepUpRequired: it wants a fresh second factor; nothing written.
        forks.ReviewStands: `update` would change what was approved; nothing written.
    """
    return take(answer, visibility.review_context(pause_id, by))


def judge(pause_id: uuid.UUID, answer: Answer, *, by: Actor) -> Judged:
    """Say whether `decide` would take an answer, and take nothing: for a door that asks whether
    somebody is sure. What `take` makes of it then is judged again.

    Raises as `decide`, but never for a second factor, which is asked for last.
    """
    return _judge(answer, visibility.review_context(pause_id, by))


def decide_all(given: Sequence[tuple[uuid.UUID, Answer]], *, by: Actor) -> list[Decision | Vote]:
    """Record answers to several questions in one transaction: all of them, or none.

    Raises as `decide`, for the first that is not taken.
    """
    return _take([(answer, visibility.review_context(key, by)) for key, answer in given])


def take(answer: Answer, context: AnyReviewContext) -> Decision | Vote:
    """`decide` on a pause that was looked up for whoever answers, `answerable`."""
    return _take([(answer, context)])[0]


@dataclass(frozen=True)
class Judged:
    """An answer that the rules take, and what it was judged by."""

    pause: Pause
    answer: Answer
    context: AnyReviewContext
    seat: Actor
    understood: Understood | None = None
    """Of the words that send it back, where its step says so beforehand."""


TRIES = 5
"""How often an answer is tried while somebody else is quicker by a moment each time."""


def _take(given: Sequence[tuple[Answer, AnyReviewContext]]) -> list[Decision | Vote]:
    tries = 0
    while True:  # has an end: others may vote meanwhile once for each approval, and TRIES holds
        judged = [_prove(_judge(answer, context)) for answer, context in given]
        try:
            return _record(judged)
        except voting.VotedMeanwhile:
            pass
        except PauseClosed as moved:
            # judging it anew says why; or finds that it was so for a moment only
            if (tries := tries + 1) == TRIES:
                raise policy.NotNow("claimed", _moved_again_and_again()) from moved
        for _, context in given:
            context.look_again()


def _moved_again_and_again() -> str:
    return gettext(
        "The question changed at the same moment, several times. Your answer was not recorded; "
        "look at it again."
    )


def _judge(answer: Answer, context: AnyReviewContext) -> Judged:
    # to end work that waits is no answer; who may do that, `end_run`'s doors say
    if answer.action != CANCEL:
        scopes.check_answer()
        _check_not_asked_by_it(context.pause)
    context.wanted = answer.stage
    context = _in_time(context)
    pause = context.pause
    _check_seen(pause, answer)
    answers.check_door(pause, answer)
    words = answer.feedback
    answer = comments.along(pause, answer)
    answers.check_words(pause, answer)
    seat = context.seat_for(answer.action)
    answers.check_stage(pause, answer, context.stages)
    answer = replace(answer, stage=context.stage if policy.approves(answer.action) else "")
    answer, bad_files = answers.with_files(context.asked, answer, by=context.by)
    answers.check_owned(pause, answer)
    if context.votes and policy.approves(answer.action):
        answer = voting.confirming(pause, answer, context.votes, asked=context.asked)
    answer = answers.with_edit(pause, answer)
    answers.check_payload(
        pause,
        answer,
        asked=context.asked,
        by=context.by,
        votes=context.votes,
        bad_files=bad_files,
    )
    # before it is counted: a vote that can never be acted on helps nobody
    runs.check_update(pause, answer.action, answer.update)
    alone = answer.action == REVISE and answer.comments_until is None
    understood = feedback.check(pause, words) if alone else None
    return Judged(pause, answer, context, seat, understood)


def _prove(judged: Judged) -> Judged:
    """Add the second factor by which an answer is given. Raises StepUpRequired."""
    factor = step_up.proven(judged.pause, judged.answer.action, judged.context.by)
    return replace(judged, answer=replace(judged.answer, factor=factor))


def _record(judged: Sequence[Judged]) -> list[Decision | Vote]:
    """Write all of them, or none. Raises PauseClosed and VotedMeanwhile, too, where one of them has
    to be judged anew.
    """
    try:
        with transaction.atomic(durable=True):
            if len(judged) > 1:
                runs.lock_for_answers([each.pause for each in judged])
            return [_write(each) for each in judged]
    except StateTooLarge as error:
        raise AnswerInvalid.of("input", str(error), code=error.code) from error
    except (codec.NotJson, MergeFailed) as error:
        raise AnswerInvalid.of("input", str(error)) from error


def _check_not_asked_by_it(pause: Pause) -> None:
    """Raise scopes.OwnQuestion where the token that acts asked the question itself."""
    token = scopes.acting_token()
    if token is None or pause.run.frozen.template_slug != external_runs.SLUG:
        return  # only runs of other engines ask by tokens
    if Wait.objects.filter(pause=pause, token=token).exists():
        raise scopes.OwnQuestion()


def _in_time(context: AnyReviewContext) -> AnyReviewContext:
    """The context of whoever answers an open question in time. Raises as `check_open`.

    Whom the rules ask from the deadline on answers in the time that they got: the context is that
    which they have then.
    """
    pause = context.pause
    unasked = (
        pause.deadline_at is not None and isinstance(context, ReviewContext) and not context.seats
    )
    try:
        check_open(pause)
    except DeadlinePassed as late:
        if not unasked or late.outcome != "escalate" or pause.status != PauseStatus.OPEN:
            raise
        assert isinstance(context, ReviewContext)  # it was looked at above
        now_asked = ReviewContext(pause, context.by, takes_part=context.takes_part)
        now_asked.wanted = context.wanted
        if not now_asked.seats:
            raise
        return now_asked
    return context


def _check_seen(pause: Pause, answer: Answer) -> None:
    """Raise RevisionMismatch where the answer is to another revision, or other content."""
    if answer.revision not in {None, pause.revision} or answer.content_digest not in {
        "",
        pause.content_digest,
    }:
        raise RevisionMismatch(pause, seen=answer.revision)


def check_open(pause: Pause) -> None:
    """Raise AlreadyAnswered where a question is closed, and DeadlinePassed where its time is over:
    then its rules act first.

    The pause is as the database has it then. A deadline further off than clocks are apart is not
    asked for: whatever closes the question asks again. Call outside a transaction.
    """
    at = pause.deadline_at
    if pause.status == PauseStatus.OPEN and at is not None and at <= clock.now() + SURE:
        outcome = outcomes.meet(Pause.objects.filter(pk=pause.pk))
        if outcome:
            pause.refresh_from_db()
            decision = Decision.objects.answer_to(pause)
            if decision is None or decision.via == Via.POLICY:
                raise DeadlinePassed(pause, decision, at=at, outcome=outcome)
    if pause.status != PauseStatus.OPEN:
        raise AlreadyAnswered(pause, Decision.objects.answer_to(pause))


def _write(judged: Judged) -> Decision | Vote:
    """Close the question with a person's answer. Call inside a transaction.

    A vote after which others are missing stays alone.
    """
    pause, answer, by, seat = judged.pause, judged.answer, judged.context.by, judged.seat
    if answer.files:
        uploads.keep(pause.run, pause.step, answer.files)
    seen = judged.context.votes
    votes: list[Vote] = []
    if policy.quorum(pause) > 1:
        vote, votes = voting.cast(pause, answer, by=by, seat=seat, seen=seen)
        if vote is not None and len(votes) < policy.quorum(pause):
            keyed.made(pause.shown_id)
            presence.stop_writing(pause, by=by)
            return vote
        if vote is not None:
            answer = voting.together(pause, answer, votes)
    now = clock.now()
    while_ = (
        runs.While(_free_for_user, now, by.pk) if isinstance(by, User) else runs.While(_free, now)
    )
    return closing.close(pause, answer, by=by, seat=seat, votes=votes, at=now, while_=while_)


def _free_for_user(now: dt.datetime, key: int) -> Q:
    return policy.free_for(User(pk=key), now=now) & due_times.in_time()


def _free(now: dt.datetime) -> Q:
    return policy.free_for(None, now=now) & due_times.in_time()
