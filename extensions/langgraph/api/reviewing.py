"""What reviewers see of a thread in which they take no part, and tokens that only answer of any
thread: the questions that wait for them, with what a card shows, and nothing else of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.db.models.functions import Coalesce

from checkpoints.models import Thread
from extensions.langgraph.api import assistants, interrupts, threads
from extensions.langgraph.api.calls import Call
from hitl.decisions import visibility
from hitl.decisions.reviewers import policy
from hitl.decisions.services import NotFound
from hitl.threads import messages
from runs.models import Pause, Run
from runs.security import scopes

ROOT = Coalesce("run__parent__parent__thread", "run__parent__thread", "run__thread")
"""The thread at which the question of a child run is shown."""
SHOWN = Thread.objects.exclude(langgraph__hidden_at__isnull=False)
"""Those that were not deleted here: who deletes one ends what it asks."""


@dataclass(frozen=True, kw_only=True)
class SeenThread:
    thread: Thread
    asked: list[Pause] | None = None
    """The questions that wait for a reviewer; None for who sees the whole thread."""


def find(call: Call) -> SeenThread:
    """The thread of the address, and how the caller sees it. Raises NotFound, StreamRefused."""
    wire = call.key("thread_id")
    if sees_whole():
        try:
            return SeenThread(thread=threads.find_by(call, wire))
        except NotFound:
            if scopes.asks():
                raise
    rows = SHOWN.select_related("owner", "team", "langgraph")
    thread = rows.filter(Q(langgraph__wire_id=wire) | Q(pk=wire, langgraph=None)).first()
    if thread is None or not visibility.sees(thread.pk, by=call.by):
        raise NotFound("There is no such thread.")
    return SeenThread(thread=thread, asked=asked_on(thread.pk, call))


def by_key(call: Call, thread_id: uuid.UUID) -> Thread:
    """A thread by this server's own id. Raises NotFound."""
    if not sees(call, thread_id):
        raise NotFound("There is no such thread.")
    return Thread.objects.select_related("langgraph").get(pk=thread_id)


def sees(call: Call, thread_id: uuid.UUID) -> bool:
    """Whether a call may still see a thread, or a question of it."""
    if sees_whole() and threads.sees(call, thread_id):
        return True
    shown = SHOWN.filter(pk=thread_id).exists()
    return shown and not scopes.asks() and visibility.sees(thread_id, by=call.by)


def sees_whole() -> bool:
    """Whether who takes part sees everything: not by a token that only answers."""
    try:
        scopes.check_read()
    except scopes.ScopeMissing:
        return False
    return True


def asked_on(thread_id: uuid.UUID, call: Call) -> list[Pause]:
    waiting = set(policy.waiting_for(call.by).values_list("pk", flat=True))
    return [pause for pause in messages.open_on(thread_id) if pause.pk in waiting]


def among(call: Call) -> Any:
    """The threads that a search finds: those that the caller sees, and those that ask him."""
    if scopes.asks():
        return threads.visible(call)
    asking = Q(pk__in=policy.waiting_for(call.by).annotate(root=ROOT).values("root"))
    if not sees_whole():
        return SHOWN.filter(asking)
    seen = threads.visible(call)
    return SHOWN.filter(Q(pk__in=seen.values("pk")) | asking)


def listed(call: Call, page: Sequence[Thread], *, values: bool) -> list[dict[str, Any]]:
    """The rows of a list, in its order: each thread as the caller sees it."""
    keys = [thread.pk for thread in page]
    seen = threads.visible(call).filter(pk__in=keys).values_list("pk", flat=True)
    whole = set(seen) if sees_whole() else set()
    theirs = [thread for thread in page if thread.pk in whole]
    shown = threads.shown(theirs, values=values)
    rows = {thread.pk: row for thread, row in zip(theirs, shown, strict=True)}
    for thread in page:
        if thread.pk not in rows:
            rows[thread.pk] = row_of(SeenThread(thread=thread, asked=asked_on(thread.pk, call)))
    return [rows[key] for key in keys]


def row_of(found: SeenThread) -> dict[str, Any]:
    """The thread as a reviewer sees it: of what is past nothing but that it is past."""
    asked = found.asked or []
    run = asked[0].run if asked else Run.objects.filter(thread=found.thread).order_by("-id").first()
    slug = run.frozen.template_slug if run else ""
    at = (asked[0].opened_at if asked else found.thread.created_at).isoformat()
    return {
        "thread_id": threads.wire_id(found.thread.pk),
        "created_at": found.thread.created_at.isoformat(),
        "updated_at": at,
        "state_updated_at": at,
        "metadata": {"graph_id": slug, "assistant_id": assistants.id_of(slug)} if slug else {},
        "status": threads.INTERRUPTED if asked else threads.IDLE,
        "config": {},
        "error": None,
        "values": values_of(asked),
        "interrupts": {interrupts.task_of(pause): [interrupts.listed(pause)] for pause in asked},
    }


def state_of(found: SeenThread) -> dict[str, Any]:
    """The state as a reviewer sees it: what is asked, and what a card shows."""
    asked = found.asked or []
    tasks = [interrupts.task(pause) for pause in asked]
    wire = threads.wire_id(found.thread.pk)
    place: dict[str, Any] = {"thread_id": wire, "checkpoint_ns": ""}
    if asked:
        place["checkpoint_id"] = str(asked[0].checkpoint_id)
    return {
        "values": values_of(asked),
        "next": [task["name"] for task in tasks],
        "tasks": tasks,
        "interrupts": [one for task in tasks for one in task["interrupts"]],
        "metadata": {},
        "created_at": (asked[0].opened_at if asked else found.thread.created_at).isoformat(),
        "checkpoint": place,
        "parent_checkpoint": None,
        "checkpoint_id": place.get("checkpoint_id"),
        "parent_checkpoint_id": None,
    }


def values_of(asked: Sequence[Pause]) -> dict[str, Any]:
    """In place of the thread's state: the oldest question, as its card has it."""
    if not asked:
        return {}
    pause = asked[0]
    return {"question": pause.question, "content": pause.content, "facts": dict(pause.facts)}
