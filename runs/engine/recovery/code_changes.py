"""Step code that is not the code a run was made with: said before it runs, or the run is held until
an operator or the code comes.

A held run is pending and due a little later, with the reason in `held_because`: no worker has it,
nothing counts as lost or failed, and it goes on by itself once the code is back.
"""

from __future__ import annotations

import logging
import uuid

from django.db import transaction

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.events import log
from runs.definitions.compatibility import holds
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.drafts.events import line
from runs.models import Run
from runs.states import PENDING
from runs.workflows.base import Stopped
from runs.workflows.code import compatibility
from runs.workflows.registry import latest_version
from runs.workflows.sequence import FrozenStep

logger = logging.getLogger(__name__)

LOOK_AGAIN = 30.0
"""Until the code of a held run is looked at again."""
CODE = "code_changed"
"""Of the log lines that say so."""


class NotHeld(Exception):
    """The run is not held for an operator: it goes on, has ended, or waits for code that is
    missing. Nothing was changed.
    """

    code = "not_held"


def reason_to_hold(held: ClaimedRun, name: str) -> str:
    """Why the step of that name may not begin; "" where it may."""
    step = next((step for step in held.steps if step["name"] == name), None)
    if step is None:
        return ""
    verdict = compatibility.judge(step)
    if verdict == "missing":
        return (
            f"The step {step['title']} needs {_function_of(step)}, which the code "
            "on this worker does not have. "
            "Nothing was lost: the run waits, and goes on by itself when a worker has that code "
            "again."
        )
    if (
        verdict == "changed"
        and holds(step)
        and held.progress.code_seen.get(name) != compatibility.current(step)
    ):
        return (
            f"The code of the step {step['title']} has changed since this work was asked for, "
            "and its template holds such runs. "
            "The run waits until an operator accepts the new code on the Operations page, or the "
            "old code is back."
        )
    return ""


def _function_of(step: FrozenStep) -> str:
    version = step.get("function_version", 1)
    others = latest_version(step["function"]) != version
    return f"the function {step['function']!r}" + (f", version {version}" if others else "")


def hold(held: ClaimedRun) -> bool:
    """Hold a pending run whose next step may not begin; whether it is held.

    A reason is said once.
    """
    progress = held.progress
    why = "" if progress.joining else reason_to_hold(held, progress.at)
    if why:
        _hold(held.run, progress.at, why)
    return bool(why)


@transaction.atomic(durable=True)
def _hold(run: Run, step: str, why: str) -> None:
    waits = Run.objects.filter(pk=run.pk, status=PENDING, epoch=run.epoch)
    if waits.update(due_at=clock.FromNow(LOOK_AGAIN), held_because=why) and run.held_because != why:
        log.append(run.thread_id, run.pk, [line(why, step, level="warning", code=CODE)])
        logger.warning("%s is held: %s", run.shown_id, why)


def tell(held: ClaimedRun) -> None:
    """Say once that the step at hand runs with changed code, before it runs.

    Raises Stopped where the run is no longer ours.
    """
    step = next((step for step in held.steps if step["name"] == held.progress.at), None)
    if step is None or compatibility.judge(step) != "changed":
        return
    now = compatibility.current(step) or ""
    if held.progress.code_seen.get(step["name"]) != now:
        _tell(held, step, now)


@transaction.atomic(durable=True)
def _tell(held: ClaimedRun, step: FrozenStep, now: str) -> None:
    seen = {**held.progress.code_seen, step["name"]: now}
    if not Run.objects.held(held.run.pk, held.epoch).update(code_seen=seen):
        raise Stopped(f"{held.run.shown_id} was cancelled or taken over by another worker")
    message = (
        f"The code of the step {step['title']} has changed since this work was asked for. The "
        "step runs with the code as it is now."
    )
    event = line(
        message, step["name"], level="warning", code=CODE, was=step.get("fingerprint", ""), now=now
    )
    log.append(held.run.thread_id, held.run.pk, [event])
    held.progress.see_code(seen)


@transaction.atomic(durable=True)
def accept(run_id: uuid.UUID, *, by: User) -> Run:
    """Let a held run go on with the code of its next step as it is now.

    The caller has checked the right, and nudges. Raises NotHeld.
    """
    run = Run.objects.select_related("thread__head", "definition").get(pk=run_id)
    name = run.thread.head.next_step if run.thread.head else ""
    step = next((step for step in run.frozen.steps if step["name"] == name), None)
    now = compatibility.current(step) if step is not None else None
    fields = {
        "code_seen": {**run.code_seen, name: now},
        "held_because": "",
        "due_at": clock.FromNow(),
    }
    waits = Run.objects.filter(pk=run.pk, status=PENDING, epoch=run.epoch).exclude(held_because="")
    if not now or not waits.update(**fields):
        raise NotHeld(
            "This run is not held for an operator, so there is nothing to accept. Nothing "
            "was changed."
        )
    note = f"{by.get_username()} accepted the changed code of the step {name}"
    log.append(run.thread_id, run.pk, [line(note, name, code=CODE, by=by.get_username(), now=now)])
    return run
