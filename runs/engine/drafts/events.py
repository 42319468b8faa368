"""What events and checkpoints say of a run: the small words that all writers share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from checkpoints.models import Checkpoint, EventKind
from checkpoints.state import redaction
from runs.engine.context.claimed_run import loop_num
from runs.engine.traces import TRACE
from runs.models import Pause
from runs.states import FAILURE, SLEEPS, Lifecycle
from runs.workflows.reviews import stages

EventDraft = tuple[EventKind, dict[str, Any]]
Events = list[EventDraft]

CARRIED = (
    "git", "loops", "loops_before", "last_pause", "approved", "skipped", "edited", FAILURE, TRACE,
)  # fmt: skip
"""Metadata that each checkpoint takes over from its parent."""
MIDWAY = "midway"
"""Metadata of a checkpoint whose step asked in the middle of an execution: the question was told as
this step's result already.
"""


def created(checkpoint: Checkpoint) -> EventDraft:
    """The `checkpoint_created` event of a checkpoint."""
    return EventKind.CHECKPOINT_CREATED, {
        "checkpoint_id": checkpoint.shown_id,
        "status": checkpoint.status,
        "node_id": checkpoint.node_id or None,
        "loop_num": checkpoint.loop_num if checkpoint.node_id else None,
        "completed_nodes": checkpoint.completed_nodes,
        "total_nodes": checkpoint.total_nodes,
    }


def line(message: str, step: str = "", level: str = "info", **data: Any) -> EventDraft:
    """A log line."""
    return EventKind.LOG, {"message": message, "level": level, "step": step, **data}


def sleeping(until: dt.datetime, reason: str, step: str) -> EventDraft:
    """A log line on the timer that a run waits for."""
    words = f"Sleeps until {until:%Y-%m-%d %H:%M:%S %Z}{f': {reason}' if reason else '.'}"
    return line(words, step, code=SLEEPS, until=until.isoformat())


def unkept(given: Mapping[str, Any], step: str = "") -> Events:
    """A log line on what somebody gave under the name of a secret, which is not kept; none where
    there is no such thing.
    """
    names = list(redaction.found(given))
    message = (
        f"Not kept, since the name says that it is a secret: {', '.join(names)}. A step reads "
        "secrets from its environment."
    )
    return [line(message, step, level="warning")] if names else []


def starting(head: Checkpoint) -> Events:
    """The events that tell which step begins at a checkpoint."""
    name = head.next_step
    return [
        (EventKind.STEP_STARTED, {"step": name, "loop_num": loop_num(head, name)}),
        line(f"Executing step: {name}", name),
    ]


def asked(pause: Pause, **more: Any) -> Events:
    """The events that tell a question, in the words of both documents: `await_human_input` with the
    schema of what is missing, and `approval_requested`. A client knows one of them.
    """
    question: dict[str, Any] = {
        "pause_id": pause.shown_id,
        "prompt": pause.question,
        "phase": pause.phase,
        "revision": pause.revision,
        "step": pause.step,
        "kind": pause.kind,
        "promptId": pause.checkpoint.metadata.get("prompt_id") or pause.shown_id,
    }
    if pause.deadline_at is not None:
        question["deadline_at"] = pause.deadline_at.isoformat()
    if pause.calls:
        question["calls"] = [
            {"id": call["id"], "tool": call["tool"], "risk": call["risk"]} for call in pause.calls
        ]
    if pause.turn:
        open_now = stages.within(pause.review, pause.turn)
        question["open_stages"] = [stage["name"] for stage in open_now]
    wanted: dict[str, Any] = {"told_as": EventKind.APPROVAL_REQUESTED.value}
    if pause.required_inputs:
        question |= {"attempts": pause.attempts, "refined": pause.refined}
        wanted["required_inputs"] = pause.required_inputs
    question |= more
    return [
        (EventKind.AWAIT_HUMAN_INPUT, {**question, **wanted}),
        (EventKind.APPROVAL_REQUESTED, question),
    ]


def asking(pause: Pause, checkpoint: Checkpoint) -> Events:
    """The events of a question that opens."""
    return [
        *asked(pause),
        created(checkpoint),
        (
            EventKind.RUN_PAUSED,
            {
                "pause_id": pause.shown_id,
                "phase": pause.phase,
                "lifecycle": Lifecycle.WAITING.value,
            },
        ),
    ]
