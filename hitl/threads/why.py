"""Why does it not go on? What a run, an order, a thread or a question waits for: the machine's part
(`runs.threads.why`), with whom it waits for among people.

It only reads, in a number of queries that does not grow with the tables. The order's page, REST and
`manage.py why` say the same words.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace

from django.core.exceptions import ObjectDoesNotExist
from django.utils.translation import gettext, ngettext

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.database.snapshot import one_moment
from checkpoints.models import Thread
from checkpoints.text import dates
from hitl.decisions import undo
from hitl.decisions.deadlines import wording
from hitl.decisions.errors import NotFound
from hitl.decisions.reviewers import policy, turns
from hitl.models import Vote, Wait
from hitl.rendering.own_words import own_faults
from runs.definitions import due_times
from runs.models import Pause, QueuedTurn, Run, WorkOrder
from runs.services import limits
from runs.states import LIVE
from runs.threads import why
from runs.threads.reasons import Code, Reason
from runs.workflows.reviews import stages

SHOWN = 6
"""Runs that are explained at once: the one that was asked about, and child runs that it waits
for.
"""


def of_id(shown_id: str, *, now: dt.datetime) -> list[Reason]:
    """As `of_run`, of whatever has this id, for an operator at the shell.

    Raises:
        ValueError: it is no id of a run, an order, a thread or a question.
        NotFound: there is no such thing here.
    """
    prefix, _, _ = shown_id.partition("_")
    if prefix not in {Run.PREFIX, WorkOrder.PREFIX, Thread.PREFIX, Pause.PREFIX}:
        raise ValueError(
            f"{shown_id[:60]!r} is no id of a run (run_…), an order (wo_…), a thread (thr_…) or a "
            "question (pse_…)."
        )
    key = ids.parse(prefix, shown_id)
    try:
        match prefix:
            case Run.PREFIX:
                run_id = Run.objects.values_list("pk", flat=True).get(pk=key)
            case WorkOrder.PREFIX:
                run_id = WorkOrder.objects.values_list("latest_run", flat=True).get(pk=key)
            case Pause.PREFIX:
                run_id = Pause.objects.values_list("run", flat=True).get(pk=key)
            case _:
                thread_id = Thread.objects.values_list("pk", flat=True).get(pk=key)
                return of_thread(thread_id, by=None, now=now)
    except ObjectDoesNotExist as error:
        raise NotFound(f"There is no {shown_id} here.") from error
    return of_run(run_id, by=None, now=now)


def of_thread(thread_id: uuid.UUID, *, by: User | None, now: dt.datetime) -> list[Reason]:
    """As `of_run`, of a thread's latest run, with the messages that wait for their turn there."""
    latest = Run.objects.filter(thread=thread_id).order_by("-pk").values_list("pk", "status")
    run_id, status = latest.first() or (None, "")
    waiting = QueuedTurn.objects.waiting().filter(thread=thread_id).count()
    reasons = of_run(run_id, by=by, now=now)
    if not waiting:
        return reasons
    words = ngettext(
        "%(count)s message waits for its turn on the thread.",
        "%(count)s messages wait for their turn on the thread.",
        waiting,
    ) % {"count": waiting}
    advice = (
        gettext("They begin one after the other, when the run before each has ended.")
        if status in LIVE
        else gettext("No run is at work there: the next sweep begins the first of them.")
    )
    return [*reasons, Reason(code=Code.TURN, words=words, advice=advice)]


def of_run(run_id: uuid.UUID | None, *, by: User | None, now: dt.datetime) -> list[Reason]:
    """Why a run does not go on: its own reason first, then those of child runs that it waits for.

    Args:
        run_id: of a run that the reader may see; None where none has begun.
        by: who reads it; None for an operator at the shell, who may see everything.
        now: the database's time.
    """
    if run_id is None:
        words = gettext("No run has begun on the thread, so there is nothing that could go on.")
        return [Reason(code=Code.NOT_BEGUN, words=words)]
    reasons: list[Reason] = []
    level = [run_id]
    with one_moment():  # a question that closes in between would look like a run that is stuck
        while level and len(reasons) < SHOWN:
            runs = {run.pk: run for run in why.runs_to_explain().filter(pk__in=level)}
            asked = _questions(level)
            reasons += [
                _whole(runs[key], asked.get(key), by=by, now=now) for key in level if key in runs
            ]
            below = Run.objects.live().filter(parent__in=level).order_by("pk")
            level = list(below.values_list("pk", flat=True)[: SHOWN - len(reasons)])
    return reasons


def of_order(order: WorkOrder, *, by: User, now: dt.datetime) -> Reason | None:
    """As `of_run`, of an order's run alone, read with what its page shows; None where none has
    begun.
    """
    run = order.latest_run
    if run is None:
        return None
    run.thread, run.definition, run.work_order = order.thread, order.definition, order
    return _whole(run, None, by=by, now=now)


def _questions(run_ids: list[uuid.UUID]) -> Mapping[uuid.UUID, Pause]:
    read = Pause.objects.open().answerable().select_related("run__thread__owner")
    found = read.select_related("run__thread__team", "claimed_by").filter(run__in=run_ids)
    return {pause.run_id: pause for pause in found.defer("checkpoint__body")}


def _whole(run: Run, asked: Pause | None, *, by: User | None, now: dt.datetime) -> Reason:
    reason = why.of_run(run, now=now, asked=asked)
    match reason.code:
        case Code.LATER:
            return _undoable(reason, run, now)
        case Code.PLACE:
            seen, others = limits.in_the_way(run.pk, by=by)
            return replace(reason, holders=seen, other_holders=others)
        case Code.PERSON | Code.OUTSIDE | Code.STOPPED | Code.SUSPENDED:
            assert asked is not None
            return _of_people(reason, asked, now)
        case _:
            return reason


def _undoable(reason: Reason, run: Run, now: dt.datetime) -> Reason:
    """Of a run that goes on later the answer that may be taken back until then, if that is why."""
    decision = undo.waiting([run], now=now)
    if decision is None:
        return reason
    words = gettext("%(who)s answered, and the rules leave time to take that back.")
    return replace(
        reason,
        code=Code.UNDO,
        words=words % {"who": decision.who},
        since=decision.decided_at,
        advice=gettext("Who answered may undo it until then; else it goes on by itself."),
    )


def _of_people(reason: Reason, pause: Pause, now: dt.datetime) -> Reason:
    """A question's reason, with who may answer it, who did, and what its deadline does."""
    votes = list(Vote.objects.filter(pause=pause).select_related("voter", "seat").order_by("pk"))
    details = [*_elsewhere(reason), *_who(pause, votes), *_claim(pause, now)]
    if pause.attempts:
        words = ngettext(
            "%(count)s answer did not fit what is asked: %(refined)s",
            "%(count)s answers did not fit what is asked: %(refined)s",
            pause.attempts,
        )
        details.append(words % {"count": pause.attempts, "refined": own_faults(pause.refined)})
    if not policy.answerers(pause).exists() and not pause.outside.get("to"):
        details.append(
            gettext("Nobody of them can answer now: none has an active account that may approve.")
        )
    if problem := pause.times.get("problem"):
        words = gettext("It should have a deadline and has none: %(problem)s")
        details.append(words % {"problem": problem})
    if pause.stage < len(wording.escalation_of(pause)):
        further = due_times.stages(pause)[pause.stage :]
        if further:
            words = gettext("From %(at)s on these may answer too: %(people)s.")
            at = dates.told(further[0])
            details.append(words % {"at": at, "people": wording.next_people(pause)})
    then = ""
    if pause.deadline_at is not None:
        then = gettext("if nobody answers by then, %(outcome)s") % {
            "outcome": wording.outcome_of(pause)
        }
        if pause.deadline_at <= now:
            details.append(gettext("Its deadline has passed: the next sweep settles it."))
    return replace(
        reason,
        details=details,
        until=pause.deadline_at,
        then=then,
        advice=gettext("Whoever may answer does so on its page, or over REST."),
    )


def _elsewhere(reason: Reason) -> Iterator[str]:
    if reason.code == Code.OUTSIDE and reason.pause is not None:
        wait = Wait.objects.filter(pause=reason.pause).select_related("outer").first()
        if wait is not None:
            words = gettext("The run %(name)s of another engine waits for it, at %(node)s.")
            yield words % {"name": wait.outer.name, "node": wait.node_id}


def _who(pause: Pause, votes: list[Vote]) -> Iterator[str]:
    """Who may answer, and who has approved; by stages, where the review has any."""
    if turns.staged(pause):
        standing = turns.statuses(pause, votes)
        for stage in stages.of(pause.review):
            yield _stage(stage["name"], pause, votes, standing[stage["name"]])
    else:
        yield gettext("Who may answer: %(who)s.") % {"who": policy.who_answers(pause)}
        if policy.quorum(pause) > 1:
            words = gettext("%(count)s of %(quorum)s approvals so far%(by)s.")
            by = f": {', '.join(vote.who for vote in votes)}" if votes else ""
            yield words % {"count": len(votes), "quorum": policy.quorum(pause), "by": by}
    if not pause.review.get("self_approval", True):
        yield gettext("Who asked for the work may not approve it.")


def _stage(name: str, pause: Pause, votes: list[Vote], status: stages.Status) -> str:
    stage = next(one for one in stages.of(pause.review) if one["name"] == name)
    mine = [vote.who for vote in votes if vote.stage == name]
    facts = {
        "stage": stages.titled(stage),
        "who": ", ".join(mine if status == "complete" else turns.asked(stage)),
        "count": len(mine),
        "quorum": stage.get("quorum", 1),
        "before": turns.titles(pause, stage.get("after", [])),
    }
    if status == "complete":
        return gettext("%(stage)s: approved by %(who)s.") % facts
    if status == "waiting":
        return gettext("%(stage)s: asked after %(before)s (%(who)s).") % facts
    return gettext("%(stage)s: asked now, %(count)s of %(quorum)s approvals (%(who)s).") % facts


def _claim(pause: Pause, now: dt.datetime) -> Iterator[str]:
    if pause.claimed_by is None or pause.claimed_until is None or pause.claimed_until <= now:
        return
    words = gettext("%(who)s has claimed it until %(until)s; others may answer after that.")
    until = dates.told(pause.claimed_until)
    yield words % {"who": policy.name_of(pause.claimed_by), "until": until}
