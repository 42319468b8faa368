"""Why a run does not go on: what its rows say that it waits for, in words, with when that ends and
what can be done.

This is the machine's part. What people have to do with it (who may answer, votes, claims, answers
that may be taken back) is `hitl.threads.why`, which every door asks.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext, ngettext

from checkpoints.models import Event, EventKind
from checkpoints.text import dates
from runs.engine import places
from runs.models import Heartbeat, HeartbeatKind, Pause, Run
from runs.models.heartbeats import LASTS, bound, silence
from runs.states import (
    CANCELLED,
    COMPLETED,
    ENDED,
    EXPIRED,
    FAILED,
    PAUSED,
    PENDING,
    RUNNING,
    STOPS,
    SUSPENDED,
    TRIES_AGAIN,
    PauseKind,
    RunStatus,
)
from runs.threads.reasons import Code, Reason

LIMITS = 3
"""Limits whose places a run waits for, of which is said how it stands."""
LOOKED_THROUGH = 50
"""Log lines of a run in which its last failure is looked for."""
LONGEST = 300
"""Characters of a failure that are quoted."""


def runs_to_explain() -> QuerySet[Run]:
    """Runs, with what `of_run` reads of each."""
    related = ("thread__head", "thread__owner", "thread__team", "definition")
    return Run.objects.select_related(*related, "work_order__created_by").defer(
        "thread__head__body"
    )


def of_run(run: Run, *, now: dt.datetime, asked: Pause | None = None) -> Reason:
    """Why a run does not go on: a few queries, whatever there is in the tables.

    Args:
        run: read as `runs_to_explain` has it.
        now: the database's time.
        asked: its open question, where it has one.
    """
    match RunStatus(run.status):
        case RunStatus.PENDING:
            return _pending(run, now)
        case RunStatus.RUNNING:
            return _running(run, now)
        case RunStatus.PAUSED:
            return _paused(run, asked)
        case _:
            return _ended(run)


def _running(run: Run, now: dt.datetime) -> Reason:
    owner = {"worker": run.lease_owner, "step": _step_title(run)}
    losses = _losses(run)
    if run.lease_until is not None and run.lease_until > now:
        words = gettext("The worker %(worker)s has it, at the step %(step)s.") % owner
        return Reason(
            code=Code.AT_WORK,
            words=words,
            run=run,
            details=[*_suspending(run), *losses],
            until=run.lease_until,
            then=gettext("its lease ends, unless the worker lives and renews it, as it does."),
            advice=gettext("Nothing has to be done. Whoever cancels it ends the step."),
        )
    words = gettext(
        "The worker %(worker)s, which had it at the step %(step)s, does not renew its lease any "
        "more."
    )
    beat = _beat(_heartbeats(), now)
    return Reason(
        code=Code.WORKER_LOST,
        words=words % owner,
        run=run,
        details=[
            gettext(
                "The next sweep, within %(seconds)s s, takes it back; another worker does the step "
                "again from its last checkpoint."
            )
            % {"seconds": f"{settings.WAYSTATION_SWEEP_SECONDS:g}"},
            *_suspending(run),
            *losses,
            *beat,
        ],
        since=run.lease_until,
        advice=_start_beat() if beat else gettext("Nothing has to be done."),
    )


def _losses(run: Run) -> list[str]:
    """How often in a row its step lost its worker, or ended its process."""
    said = []
    if run.lost_attempts:
        words = gettext(
            "Workers lost in a row at this step: %(lost)s. At %(most)s it stops as an incident."
        )
        said.append(words % {"lost": run.lost_attempts, "most": settings.WAYSTATION_LOST_ATTEMPTS})
    if run.deaths:
        words = gettext("Processes that this step ended in a row: %(deaths)s.")
        said.append(words % {"deaths": run.deaths})
    return said


def _suspending(run: Run) -> list[str]:
    if not run.suspend_by:
        return []
    who = ": ".join(filter(None, [run.suspend_by, run.suspend_because]))
    return [gettext("It stops after this step, as %(who)s asked.") % {"who": who}]


def _pending(run: Run, now: dt.datetime) -> Reason:
    if run.held_because:
        return Reason(
            code=Code.HELD,
            words=run.held_because,
            run=run,
            until=run.due_at,
            then=gettext("a worker looks at its code again."),
        )
    if line := places.positions(run, now=now, most=LIMITS):
        return _in_line(run, line)
    if run.due_at > now:
        return _later(run, now)
    return _due(run, now)


def _in_line(run: Run, line: Sequence[places.Position]) -> Reason:
    first, *others = [sentence for position in line for sentence in _position(position)]
    return Reason(
        code=Code.PLACE,
        words=first,
        run=run,
        details=others,
        since=min(position.since for position in line),
        advice=gettext(
            "It holds nothing meanwhile, and goes on by itself when it is its turn. Who may change "
            "templates may raise the limit."
        ),
    )


def _position(position: places.Position) -> list[str]:
    facts = {
        "limit": position.limit,
        "busy": position.busy,
        "most": position.limit.most,
        "ahead": position.ahead,
    }
    if position.busy < position.limit.most:
        words = gettext(
            "It waits for its turn: %(busy)s of %(most)s at work, %(ahead)s before it (%(limit)s)."
        )
        return [words % facts]
    words = gettext("It waits for a place: %(busy)s of %(most)s at work (%(limit)s).")
    if not position.ahead:
        return [words % facts, gettext("It is the next whose turn it is.")]
    before = ngettext(
        "%(ahead)s run that waits goes before it.",
        "%(ahead)s runs that wait go before it.",
        position.ahead,
    )
    return [words % facts, before % facts]


def _later(run: Run, now: dt.datetime) -> Reason:
    nothing = gettext("It holds no worker meanwhile, and goes on by itself.")
    step = {"step": _step_title(run)}
    begins = gettext("the step %(step)s begins.") % step
    if run.sleeping_until is not None and run.thread.head is not None:
        metadata = run.thread.head.metadata
        reason = str(metadata.get("sleep_reason", ""))
        return Reason(
            code=Code.TIMER,
            words=reason or gettext("A step set a timer."),
            run=run,
            until=run.due_at,
            then=begins,
            advice=nothing,
        )
    if run.attempts:
        words = gettext("The step %(step)s failed, and is tried again: try %(next)s of %(most)s.")
        return Reason(
            code=Code.RETRY,
            words=words % {**step, "next": run.attempts + 1, "most": _tries(run)},
            run=run,
            details=_last_failure(run),
            until=run.due_at,
            then=gettext("the step begins anew."),
            advice=nothing,
        )
    return Reason(
        code=Code.LATER,
        words=gettext(
            "The database, or the store of its states, was away when a worker had it; nothing "
            "failed."
        ),
        run=run,
        details=_losses(run),
        until=run.due_at,
        then=begins,
        advice=nothing,
    )


def _tries(run: Run) -> int | str:
    """How often the step at hand is tried in all, as its template has it."""
    name = run.thread.head.next_step if run.thread.head else ""
    step = next((step for step in run.frozen.steps if step["name"] == name), None)
    retry = step.get("retry") if step is not None else None
    return retry["attempts"] if retry else "?"


def _last_failure(run: Run) -> list[str]:
    lines = Event.objects.filter(thread_id=run.thread_id, run_id=run.pk, kind=EventKind.LOG)
    for event in lines.order_by("-seq")[:LOOKED_THROUGH]:
        if isinstance(event.data, dict) and event.data.get("code") == TRIES_AGAIN:
            error, _, _ = str(event.data.get("message", "")).rpartition(" Tried ")
            return [first_line(error)]
    return []


def first_line(error: str) -> str:
    """What is quoted of a failure."""
    return next(iter(error.strip().splitlines()), "")[:LONGEST]


def _due(run: Run, now: dt.datetime) -> Reason:
    seen = _heartbeats()
    workers = [row for row in seen if row.kind == HeartbeatKind.WORKER and run.queue in row.queues]
    queue = {"queue": run.queue}
    if not workers:
        words = gettext(
            "It is due, and no worker that takes the queue %(queue)s was seen in the last "
            "%(lasts)s s."
        )
        return Reason(
            code=Code.NO_WORKER,
            words=words % {**queue, "lasts": f"{LASTS:g}"},
            run=run,
            details=_losses(run),
            since=run.due_at,
            advice=gettext(
                "Start a worker of that queue (manage.py start); the run then goes on by itself."
            ),
        )
    waits = (now - run.due_at).total_seconds()
    patience = settings.WAYSTATION_PATIENCE_SECONDS
    ahead = Run.objects.filter(status=PENDING, queue=run.queue, due_at__lt=run.due_at).count()
    busy = Run.objects.filter(status=RUNNING, queue=run.queue).count()
    crowd = ngettext(
        "%(workers)s worker takes the queue %(queue)s: %(busy)s runs are at work there, and "
        "%(ahead)s due before this one wait.",
        "%(workers)s workers take the queue %(queue)s: %(busy)s runs are at work there, and "
        "%(ahead)s due before this one wait.",
        len(workers),
    ) % {**queue, "workers": len(workers), "busy": busy, "ahead": ahead}
    details = [crowd, *_losses(run)]
    sent_at = run.due_at if waits <= patience else max(run.due_at, _looked_at(seen) or run.due_at)
    if waits <= patience:
        return Reason(
            code=Code.QUEUED,
            words=gettext("It is due, and its message was sent to the queue %(queue)s.") % queue,
            run=run,
            details=details,
            since=run.due_at,
            sent_at=sent_at,
            until=run.due_at + dt.timedelta(seconds=patience),
            then=gettext("its message is sent again, if no worker has taken it by then."),
            advice=gettext("Nothing has to be done: the next free worker takes it."),
        )
    if beat := _beat(seen, now):
        return Reason(
            code=Code.NO_SWEEP,
            words=gettext("It is due, and no worker took it: its message may be lost."),
            run=run,
            details=[*beat, *details],
            since=run.due_at,
            sent_at=sent_at,
            advice=_start_beat(),
        )
    again = gettext(
        "Its message went to the queue %(queue)s when it was due, and is sent again every "
        "%(seconds)s s."
    ) % {**queue, "seconds": f"{settings.WAYSTATION_SWEEP_SECONDS:g}"}
    if waits <= bound():
        return Reason(
            code=Code.QUEUED,
            words=again,
            run=run,
            details=details,
            since=run.due_at,
            sent_at=sent_at,
            advice=gettext("Nothing has to be done: the next free worker takes it."),
        )
    words = gettext("It has been due for longer than %(bound)s s, and no worker took it.")
    return Reason(
        code=Code.STUCK,
        words=words % {"bound": f"{bound():g}"},
        run=run,
        details=[again, *details],
        since=run.due_at,
        sent_at=sent_at,
        advice=gettext(
            "An operator presses “Send its message again”. If it stays, all "
            "workers are busy (add some, or cancel what holds them) or hang (restart them)."
        ),
    )


def _heartbeats() -> list[Heartbeat]:
    """Signs of life that count, and when beat's look was last carried out, however long ago."""
    lately = Heartbeat.objects.lately() | Heartbeat.objects.filter(kind=HeartbeatKind.LOOK)
    return list(lately.order_by("pk"))


def _looked_at(seen: Sequence[Heartbeat]) -> dt.datetime | None:
    return next((row.seen_at for row in seen if row.kind == HeartbeatKind.LOOK), None)


def _beat(seen: Sequence[Heartbeat], now: dt.datetime) -> list[str]:
    """What is wrong with beat's look, which takes lost runs back and sends messages again."""
    looked = _looked_at(seen)
    if looked is None:
        return [gettext("Beat's look, which sends messages again, was never carried out.")]
    if (now - looked).total_seconds() <= silence():
        return []
    words = gettext("Beat's look, which sends messages again, was last carried out at %(at)s.")
    return [words % {"at": dates.told(looked, exact=True)}]


def _start_beat() -> str:
    return gettext(
        "Start beat (manage.py start beat) and a worker for its rounds (manage.py start control), "
        "or press “Send them again now” on the Operations page."
    )


def _paused(run: Run, asked: Pause | None) -> Reason:
    if run.awaited:
        return _gathering(run)
    if asked is None:
        return Reason(
            code=Code.STUCK,
            words=gettext("It is paused, but asks nothing and waits for no child run."),
            run=run,
            advice=gettext(
                "Report it with what manage.py invariants says. Cancel the run to give it up."
            ),
        )
    return Reason(
        code=_asking(asked),
        words=asked.question or asked.shown_id,
        run=run,
        since=asked.opened_at,
        pause=asked,
    )


def _asking(pause: Pause) -> Code:
    if pause.phase == SUSPENDED:
        return Code.SUSPENDED
    if pause.phase in STOPS:
        return Code.STOPPED
    return Code.OUTSIDE if pause.kind == PauseKind.EXTERNAL else Code.PERSON


def _gathering(run: Run) -> Reason:
    below = Run.objects.filter(parent=run)
    total = run.gather_size or below.count()
    counts = {"ended": total - run.awaited, "all": total}
    if not run.gather_queued and not below.live().exists():
        return Reason(
            code=Code.STUCK,
            words=gettext("It waits for child runs, and all %(all)s of them have ended.") % counts,
            run=run,
            advice=gettext(
                "Report it with what manage.py invariants says. Cancel the run to give it up."
            ),
        )
    failed = below.filter(status__in=sorted(ENDED - {COMPLETED})).order_by("pk")
    queued = gettext("%(queued)s of them begin when others have ended.")
    return Reason(
        code=Code.CHILDREN,
        words=gettext("%(ended)s of its %(all)s child runs have ended.") % counts,
        run=run,
        details=[
            *([queued % {"queued": run.gather_queued}] if run.gather_queued else []),
            *(
                gettext("%(child)s did not complete: %(error)s")
                % {"child": child.child_name, "error": first_line(child.error)}
                for child in failed.only("child_name", "error")[:LIMITS]
            ),
        ],
        until=run.gather_due_at,
        then=gettext("the next child run begins.") if run.gather_due_at else "",
        advice=gettext("It holds no worker meanwhile, and goes on when the last of them ends."),
    )


def _ended(run: Run) -> Reason:
    taken_up = Run.objects.filter(retry_of=run).order_by("-pk").only("pk").first()
    details = [gettext("Its code is %(code)s.") % {"code": run.failure_code}]
    if taken_up is not None:
        went_on = gettext("The work went on in %(run)s.") % {"run": taken_up.shown_id}
        return Reason(
            code=Code(run.status),
            words=first_line(run.error) or str(Code(run.status).label),
            run=run,
            details=[went_on],
            since=run.ended_at,
        )
    words, advice = {
        COMPLETED: (gettext("All of its steps are done."), ""),
        FAILED: (
            first_line(run.error),
            gettext("Whoever takes part may retry it: finished steps do not run again."),
        ),
        CANCELLED: (
            first_line(run.error) or gettext("Somebody cancelled it."),
            gettext("It stays so. The order can be started over as a new one."),
        ),
        EXPIRED: (
            gettext("Its question was not answered by the deadline."),
            gettext("Whoever takes part may reopen the question, with its full time."),
        ),
    }[RunStatus(run.status)]
    return Reason(
        code=Code(run.status),
        words=words,
        run=run,
        details=details if run.failure_code else (),
        since=run.ended_at,
        advice=advice if run.status not in {FAILED, EXPIRED} or run.may_be_taken_up else "",
    )


def _step_title(run: Run) -> str:
    """The title of the step that a run is at."""
    head = run.thread.head
    if head is None:
        return ""
    name = head.node_id if run.status == PAUSED else head.next_step or head.node_id
    steps = run.frozen.steps
    return next((step["title"] for step in steps if step["name"] == name), name)
