"""Approvals that are counted.

All votes of a question say the same: the first names the answer and its data, those after it
confirm. Where the rules name stages, each stage brings data of its own
(`hitl.decisions.reviewers.turns`).

The count is a column of the pause. Its update locks the row until the commit, so votes are counted
one after the other on every database, and of two last ones at once one closes the question and the
other is told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.db import IntegrityError
from django.db.models import F
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.events import log
from checkpoints.models import EventKind
from checkpoints.state import codec
from hitl.decisions import notifications
from hitl.decisions.answers import Answer
from hitl.decisions.reviewers import policy, turns
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.decisions.reviewers.policy import Actor
from hitl.models import Vote, name_of
from hitl.models.outbound import Occasion
from hitl.rendering.own_words import own
from runs.definitions import due_times
from runs.models import Pause
from runs.services import PauseClosed
from runs.workflows.reviews import stages


class VotedMeanwhile(Exception):
    """Another stage brought its part after this answer was judged without it; nothing was
    written.
    """


def confirming(pause: Pause, answer: Answer, votes: Sequence[Vote], *, asked: Pause) -> Answer:
    """An approval after others: what it does not bring itself it takes over.

    `asked` is the question as it is asked who gives it. Raises policy.NotNow where it says
    something else.
    """
    first = _first(pause, answer, votes)
    if answer.payload is None and answer.update is None and first and first.payload is not None:
        answer = replace(
            answer, **{"payload" if asked.wants_data(answer.action) else "update": first.payload}
        )
    if answer.edited_content is None and votes[0].edited_content:
        answer = replace(answer, edited_content=votes[0].edited_content)
    _check_same(pause, answer, votes)
    return answer


def _first(pause: Pause, answer: Answer, votes: Sequence[Vote]) -> Vote | None:
    """The vote whose data this one's must be the same as: the first of its stage, where each stage
    brings its own.
    """
    each = turns.each_brings_its_own(pause)
    return next((vote for vote in votes if not each or vote.stage == answer.stage), None)


def together(pause: Pause, answer: Answer, votes: Sequence[Vote]) -> Answer:
    """The last approval as the decision that it makes: with the data of all stages."""
    if not turns.each_brings_its_own(pause):
        return answer
    return replace(answer, payload=turns.brought(votes) or None)


def _check_same(pause: Pause, answer: Answer, votes: Sequence[Vote]) -> None:
    first, data = votes[0], _first(pause, answer, votes)
    voter = first.name
    if answer.action != first.action:
        label = own(pause.labels.get(first.action, first.action))
        message = gettext(
            "%(voter)s voted for “%(label)s”. Give the same answer, or send it back, or cancel."
        ) % {"voter": voter, "label": label}
    elif data is not None and codec.encode(answer.brought) != codec.encode(data.payload):
        message = gettext(
            "%(name)s voted with other data. Confirm those by leaving yours out, or send "
            "it back, or cancel."
        ) % {"name": data.name}
    elif (answer.edited_content or "") != first.edited_content:
        message = gettext(
            "%(voter)s approved another text. Confirm that by leaving yours out, or send "
            "it back, or cancel."
        ) % {"voter": voter}
    else:
        return
    raise policy.NotNow(
        "vote_differs", gettext("%(message)s Nothing was recorded.") % {"message": message}
    )


def words(vote: Vote) -> str:
    """What is said to who gave a vote that did not close its question."""
    count = Vote.objects.filter(pause=vote.pause_id).count()
    return gettext(
        "your vote is recorded: %(count)s of %(quorum)s approvals; the question stays open"
    ) % {"count": count, "quorum": policy.quorum(vote.pause)}


def cast(
    pause: Pause, answer: Answer, *, by: Actor, seat: Actor, seen: Sequence[Vote]
) -> tuple[Vote | None, list[Vote]]:
    """Write an approval as a vote; give it, and all votes of the question.

    A refusal is none. Call inside a transaction.

    Args:
        seen: the votes that the answer was judged with.
    Raises:
        PauseClosed: also where somebody has just claimed it or its deadline passed.
        policy.NotNow: the vote is a second one or says something else.
        VotedMeanwhile: it has to be judged again, with the parts that other stages brought.
    """
    now, before = (
        clock.now(),
        Vote.objects.filter(pause=pause).select_related("voter").order_by("pk"),
    )
    counts = policy.approves(answer.action)
    free = Pause.objects.open().filter(
        policy.free_for(by, now=now), due_times.in_time(), pk=pause.pk
    )
    if not free.change(approvals=F("approvals") + int(counts), claimed_by=None, claimed_until=None):
        raise PauseClosed(gettext("%(shown_id)s has been answered") % {"shown_id": pause.shown_id})
    votes = list(before)
    if not counts:
        return None, votes
    _check_in_turn(pause, answer, votes)
    if votes:
        _check_same(pause, answer, votes)
    if turns.each_brings_its_own(pause) and {vote.pk for vote in votes} != {v.pk for v in seen}:
        raise VotedMeanwhile
    vote = _vote(pause, answer, by=by, seat=seat)
    try:
        vote.save(force_insert=True)
    except IntegrityError as error:  # vote_one_per_person, vote_one_per_seat, vote_one_per_address
        raise policy.NotNow(
            "already_voted", gettext("This vote was given already; it counts once.")
        ) from error
    votes.append(vote)
    begun = _begin_next_turn(pause, votes)
    if len(votes) < policy.quorum(pause):
        event = {
            "what": "voted",
            "pause_id": pause.shown_id,
            "by": policy.name_of(by),
            "decision": answer.action,
            "votes": len(votes),
        }
        event |= {
            "quorum": policy.quorum(pause),
            "via": answer.via,
            **({"early": True} if answer.early_at else {}),
            **({"review_stage": vote.stage} if vote.stage else {}),
            **({"begun": begun} if begun else {}),
        }
        event |= {**({} if seat == by else {"on_behalf_of": policy.name_of(seat)})}
        log.append(
            pause.run.thread_id,
            pause.run_id,
            [(EventKind.PAUSE_UPDATED, {**event, "feedback": answer.feedback})],
        )
    return vote, votes


def _check_in_turn(pause: Pause, answer: Answer, votes: Sequence[Vote]) -> None:
    """Raise policy.NotNow where the stage was completed at this very moment."""
    if not turns.staged(pause) or turns.statuses(pause, votes).get(answer.stage) == "open":
        return
    who = ", ".join(vote.who for vote in votes if vote.stage == answer.stage)
    raise policy.NotNow(
        "stage_answered",
        gettext("%(titles)s has approved already (%(who)s); nothing was decided twice.")
        % {"titles": turns.titles(pause, [answer.stage]), "who": who},
    )


def _begin_next_turn(pause: Pause, votes: Sequence[Vote]) -> list[str]:
    """Note which stages are open after these votes, and have those asked whose turn begins.

    Gives the names of the stages that begin.
    """
    if not turns.staged(pause):
        return []
    turn = stages.turn(pause.review, [vote.stage for vote in votes])
    # as they stand under the lock: others may have voted, or moved the deadline, since it was read
    held = Pause.objects.filter(pk=pause.pk)
    columns = held.values("turn", *due_times.COLUMNS).get()
    new = turn & ~columns["turn"]
    if turn == columns["turn"]:
        return []
    due = due_times.in_turn(columns, pause.review, turn=turn, begun=new, now=clock.now())
    held.update(turn=turn, **due)
    for name, value in due.items():
        setattr(pause, name, value)
    begun = stages.within(pause.review, new)
    pause.turn = turn
    if begun:
        notifications.plan(pause, Occasion.ASKED)
        notifications.plan_outside(pause, Occasion.ASKED)
    return [stage["name"] for stage in begun]


def _vote(pause: Pause, answer: Answer, *, by: Actor, seat: Actor) -> Vote:
    vote = Vote(
        pause=pause,
        stage=answer.stage,
        action=answer.action,
        feedback=answer.feedback,
        payload=answer.brought,
        edited_content=answer.edited_content or "",
        voter=by if isinstance(by, User) else None,
        seat=seat if isinstance(seat, User) else None,
        external=by.address if isinstance(by, Outsider) else "",
        external_key=by.key if isinstance(by, Outsider) else None,
        by_name=name_of(by) if isinstance(by, User) else "",
        for_name=name_of(seat) if isinstance(seat, User) and seat != by else "",
        early_at=answer.early_at,
        factor=answer.factor.kind if answer.factor else "",
        factor_at=answer.factor.at if answer.factor else None,
        voted_at=clock.now(),
        via=answer.via,
        content_digest=pause.content_digest,
    )
    vote.digest = vote.compute_digest()
    return vote
