"""Threads as LangGraph's clients know them: their own ids, metadata, and where they stand."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from checkpoints.database import clock
from checkpoints.models import Checkpoint, Thread
from checkpoints.models.fields import Locked
from checkpoints.state import codec
from extensions.langgraph.api import assistants, interrupts
from extensions.langgraph.api.calls import Call, Given, Reply, invalid, key_of
from extensions.langgraph.api.values import values_of
from hitl.decisions.services import NotFound
from hitl.live.pump import StreamRefused
from hitl.models import LangGraphTag, LangGraphThread, Via
from hitl.threads import messages
from runs.export import IMPORTED
from runs.models import Pause, QueuedTurn, Run
from runs.security import scopes
from runs.states import EXPIRED, FAILED, LIVE
from runs.threads import opening

IDLE, BUSY, INTERRUPTED, ERROR = "idle", "busy", "interrupted", "error"
TEAM = "waystation_team"
"""Key of a new thread's metadata: the team of its owner that sees it and answers too."""
TITLE, LONGEST_TITLE = "title", 200
MOST_KEYS, LONGEST_KEY = 50, 100


class ThreadIn(Given):
    thread_id: str = ""
    metadata: dict[str, Any] = {}
    if_exists: str = "raise"


class ThreadChangeIn(Given):
    metadata: dict[str, Any] = {}


def visible(call: Call) -> Any:
    """The threads that a call may see: as REST lists them, less what was hidden here."""
    mine = scopes.own(Thread.objects.visible_to(call.by), owner=call.by)
    return mine.exclude(langgraph__hidden_at__isnull=False)


def find(call: Call) -> Thread:
    """The thread of the address. Raises NotFound, StreamRefused."""
    return find_by(call, call.key("thread_id"))


def find_by(call: Call, wire: uuid.UUID) -> Thread:
    rows = visible(call).select_related("owner", "team", "langgraph")
    thread: Thread | None = rows.filter(
        Q(langgraph__wire_id=wire) | Q(pk=wire, langgraph=None)
    ).first()
    if thread is None:
        raise NotFound("There is no such thread.")
    return thread


def by_key(call: Call, thread_id: uuid.UUID) -> Thread:
    """A thread by this server's own id. Raises NotFound."""
    thread: Thread | None = visible(call).select_related("langgraph").filter(pk=thread_id).first()
    if thread is None:
        raise NotFound("There is no such thread.")
    return thread


def sees(call: Call, thread_id: uuid.UUID) -> bool:
    """Whether a call may still see a thread."""
    return bool(visible(call).filter(pk=thread_id).exists())


def wire_id(thread_id: uuid.UUID) -> str:
    """The id under which clients know a thread."""
    rows = LangGraphThread.objects.filter(thread=thread_id)
    return str(rows.values_list("wire_id", flat=True).first() or thread_id)


def shown(threads: Sequence[Thread], *, values: bool = True) -> list[dict[str, Any]]:
    rows = []
    for thread in threads:
        row = getattr(thread, "langgraph", None)
        head = Checkpoint.objects.filter(pk=thread.head_id).first() if thread.head_id else None
        last = Run.objects.filter(thread=thread).order_by("-id").first()
        slug = last.frozen.template_slug if last else ""
        known = {"graph_id": slug, "assistant_id": assistants.id_of_run(last)} if last else {}
        pauses = messages.open_on(thread.pk)
        changed = (head.created_at if head else thread.created_at).isoformat()
        rows.append(
            {
                "thread_id": str(row.wire_id if row else thread.pk),
                "created_at": thread.created_at.isoformat(),
                "updated_at": changed,
                "state_updated_at": changed,
                "metadata": {**known, **(row.metadata if row else {})},
                "status": status_of(last, pauses),
                "config": {},
                "error": last.error if last and failed(last) else None,
                "values": values_of(head) if values and head else None,
                "interrupts": {
                    interrupts.task_of(pause): [interrupts.listed(pause)] for pause in pauses
                },
            }
        )
    return rows


def status_of(last: Run | None, pauses: Sequence[Pause]) -> str:
    if pauses:
        return INTERRUPTED
    if last is None:
        return IDLE
    if last.status in LIVE or QueuedTurn.objects.waiting().filter(thread=last.thread_id).exists():
        return BUSY
    return ERROR if failed(last) else IDLE


def failed(run: Run) -> bool:
    """Whether a run went wrong; one that came along with an import and had not ended did not."""
    return run.status in {FAILED, EXPIRED} and run.failure_code != IMPORTED


def create(call: Call) -> Reply:
    given = call.body(ThreadIn)
    if given.if_exists not in {"raise", "do_nothing"}:
        raise invalid("if_exists is raise or do_nothing.")
    wire = key_of(given.thread_id, "thread_id") if given.thread_id else None
    thread = made(call, wire, given.metadata, known=given.if_exists == "do_nothing")
    return Reply(data=shown([thread])[0])


def made(call: Call, wire: uuid.UUID | None, metadata: Mapping[str, Any], *, known: bool) -> Thread:
    """A new thread under a client's id; with `known` the one that has it already.

    Raises StreamRefused, NotFound where somebody else's has it.
    """
    scopes.check_start()
    check(metadata)
    team = None
    if metadata.get(TEAM):
        team = call.by.groups.filter(name=str(metadata[TEAM])).first()
        if team is None:
            raise invalid(f"metadata.{TEAM}: you are in no team of this name.")
    if wire is not None and _is_taken(wire):
        if known:
            return find_by(call, wire)
        raise StreamRefused(409, "thread_exists", "There is a thread of this id already.")
    try:
        with transaction.atomic(durable=True):
            thread = opening.make_thread(by=call.by, team=team, title=_title(metadata))
            if wire is not None or metadata:
                keep(thread, wire or thread.pk, metadata)
    except IntegrityError:  # of two at once one wins
        if known and wire is not None:
            return find_by(call, wire)
        raise StreamRefused(409, "thread_exists", "There is a thread of this id already.") from None
    return find_by(call, wire or thread.pk)


def _title(metadata: Mapping[str, Any]) -> str:
    """As pages of this server show the thread; the metadata keeps it whole."""
    said = metadata.get(TITLE)
    return codec.readable(said)[:LONGEST_TITLE] if isinstance(said, str) else ""


def keep(thread: Thread, wire: uuid.UUID, metadata: Mapping[str, Any]) -> None:
    """Keep what a client says of a new thread. Call inside a transaction."""
    _tag(LangGraphThread.objects.create(thread=thread, wire_id=wire, metadata=dict(metadata)))


def _is_taken(wire: uuid.UUID) -> bool:
    return (
        LangGraphThread.objects.filter(wire_id=wire).exists()
        or Thread.objects.filter(pk=wire).exists()
    )


def check(metadata: Mapping[str, Any]) -> None:
    if len(metadata) > MOST_KEYS or any(len(key) > LONGEST_KEY for key in metadata):
        raise invalid(f"metadata: up to {MOST_KEYS} keys of up to {LONGEST_KEY} characters.")
    try:
        codec.check(dict(metadata), "metadata")
    except codec.NotJson as error:
        raise invalid(f"metadata: {error}") from error


def _tag(row: LangGraphThread) -> None:
    """Write what the thread is found by. Call inside a transaction."""
    LangGraphTag.objects.filter(thread=row).delete()
    LangGraphTag.objects.bulk_create(
        LangGraphTag(thread=row, key=key, digest=digest(value))
        for key, value in row.metadata.items()
    )


def digest(value: Any) -> str:
    return codec.digest(codec.encode(value))


def metadata_of(thread: Thread) -> dict[str, Any]:
    """What clients said of a thread. Raises StreamRefused where it cannot be opened now."""
    row = getattr(thread, "langgraph", None)
    if row is not None and isinstance(row.metadata, Locked):
        raise StreamRefused(503, "state_locked", str(row.metadata.error))
    return dict(row.metadata) if row is not None else {}


def change(call: Call) -> Reply:
    given = call.body(ThreadChangeIn)
    thread = find(call)
    with transaction.atomic(durable=True):
        LangGraphThread.objects.get_or_create(thread=thread, defaults={"wire_id": thread.pk})
        # of two changes at once the second one joins what the first one wrote
        row = LangGraphThread.objects.select_for_update().get(thread=thread)
        thread.langgraph = row
        row.metadata = {**metadata_of(thread), **given.metadata}
        check(row.metadata)
        row.save(update_fields=["metadata"])
        _tag(row)
    if "return=minimal" in call.headers.get("prefer", ""):
        return Reply(status=204)
    return Reply(data=shown([find(call)])[0])


def delete(call: Call) -> Reply:
    """Hide a thread at this door, and end what runs or asks there. Its record stays: erasing is an
    act of its own, with a reason.
    """
    thread = find(call)
    if thread.owner_id != call.by.pk:
        raise StreamRefused(403, "not_owner", "Only the thread's owner deletes it here.")
    for turn in QueuedTurn.objects.waiting().filter(thread=thread):
        messages.withdraw(thread.pk, turn.pk, by=call.by)
    live = Run.objects.live().filter(thread=thread).first()
    if live is not None:
        messages.cancel(live.pk, by=call.by, via=Via.LANGGRAPH)
    LangGraphThread.objects.update_or_create(
        thread=thread,
        defaults={"hidden_at": clock.now()},
        create_defaults={"hidden_at": clock.now(), "wire_id": thread.pk},
    )
    return Reply(status=204)
