"""Erasing a whole thread, with all that belongs to it, on request: for people who have the right to
it, and recorded.

What goes: the thread and those of its child runs, checkpoints, log, memos, runs, work order,
questions, the words of decisions, the workspace, and the blobs and chunks that nothing else refers
to. What stays: that it happened (`Erasure`), and of each decision its place in the ledger, who took
it, when, and its digest, so that the ledger's chain can still be verified.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import F, QuerySet

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.models import Checkpoint, Event, Memo, Thread, append_only
from checkpoints.models.graphs import (
    GraphBlob,
    GraphCheckpoint,
    GraphNamespace,
    GraphThread,
    GraphWrite,
)
from checkpoints.retention import garbage
from checkpoints.retention.rules import Tally, weight
from checkpoints.state import codec
from checkpoints.store import bodies
from hitl.decisions.services import NotFound
from hitl.models import (
    Decision,
    EarlyAnswer,
    Erasure,
    Import,
    OuterRun,
    Presence,
    Snooze,
    Vote,
    Wait,
    idempotency,
)
from hitl.models.outbound import Delivery, Endpoint, Link
from hitl.threads import descendants
from runs import keyed, retention
from runs.engine.context import workspace_path
from runs.models import Artifact, Pause, QueuedTurn, Run, WorkOrder

logger = logging.getLogger(__name__)

LONGEST = 2000
RIGHT = "checkpoints.erase_thread"


class CannotErase(Exception):
    """The thread cannot be erased as it stands: the message says what to do first.

    Nothing was changed.
    """

    code = "cannot_erase"


class NotConfirmed(Exception):
    """Who wants to erase did not name what is to go once more. Nothing was changed."""

    code = "not_confirmed"


def look(thread_id: uuid.UUID) -> Tally:
    """What `erase` would take away. Raises as it does."""
    threads = _family(thread_id)
    tally = Tally()
    for kind, rows in _rows(threads).items():
        column = {"checkpoints": "body", "events": "data", "memos": "value"}.get(kind)
        tally.add(kind, rows.count(), weight(rows, column) if column else 0)
    for kind, model in garbage.KINDS.items():
        tally.add(kind, *garbage.weigh(model._default_manager.filter(pk__in=_referred(threads))))
    return tally


def erase(thread_id: uuid.UUID, *, by: str, reason: str) -> Erasure:
    """Erase a thread and its child runs' threads.

    Raises:
        NotFound: there is no such thread.
        CannotErase: no reason, a live run, or a thread that belongs to a child run.
    """
    reason = reason.strip()
    if not reason or len(reason) > LONGEST or reason != codec.readable(reason):
        raise CannotErase(
            f"Say why, in up to {LONGEST} characters: an erasure is recorded with its reason."
        )
    digests = _referred(_family(thread_id))
    erasure, workspaces = _erase(thread_id, by=by, reason=reason)
    freed = garbage.free(digests, retention.rules().sources)
    logger.warning(
        "%s: %s was erased by %s; freed %s", erasure, ids.show(Thread.PREFIX, thread_id), by, freed
    )
    for folder in workspaces:
        _remove(folder)
    return erasure


@transaction.atomic(durable=True)
def _erase(thread_id: uuid.UUID, *, by: str, reason: str) -> tuple[Erasure, list[Path]]:
    """All rows, or none.

    The threads' rows come first: nobody begins a run or writes a checkpoint meanwhile.
    """
    for key in sorted(_family(thread_id)):
        Thread.objects.filter(pk=key).update(first_seq=F("first_seq"))
    threads = _family(thread_id)
    rows = _rows(threads)
    decisions = rows.pop("decisions")
    erasure = Erasure(
        thread_id=thread_id,
        erased_by=by[:150],
        reason=reason,
        erased_at=clock.now(),
        counts={
            **{kind: found.count() for kind, found in rows.items()},
            "decisions": decisions.count(),
        },
        decisions=list(decisions.order_by("pk").values_list("digest", flat=True)),
    )
    erasure.digest = erasure.compute_digest()
    erasure.save(force_insert=True)
    idempotency.erase(_shown(threads))
    keyed.made(erasure.shown_id)
    workspaces = sorted({workspace_path(run) for run in Run.objects.filter(thread__in=threads)})
    decisions.update(**Decision.ERASED, erasure=erasure)
    WorkOrder.objects.filter(again_of__thread__in=threads).update(again_of=None)
    bodies.drop_on_commit(rows["checkpoints"].values_list("body", flat=True).iterator())
    with append_only.opened(append_only.ERASE):
        for found in rows.values():
            # they refer to each other; the database's keys are checked at the commit
            found._raw_delete(using=DEFAULT_DB_ALIAS)
    return erasure, workspaces


def _shown(threads: Sequence[uuid.UUID]) -> set[str]:
    """The ids under which the API speaks of these threads."""
    runs = Run.objects.filter(thread__in=threads)
    pauses = Pause.objects.filter(run__in=runs)
    found = {ids.show(Thread.PREFIX, key) for key in threads}
    for rows in (
        WorkOrder.objects.filter(thread__in=threads),
        runs,
        pauses,
        Decision.objects.filter(pause__in=pauses),
    ):
        found |= {ids.show(rows.model.PREFIX, key) for key in rows.values_list("pk", flat=True)}
    return found


def _family(thread_id: uuid.UUID) -> list[uuid.UUID]:
    """The thread and those of the runs below its own. Raises as `erase`."""
    if not Thread.objects.filter(pk=thread_id).exists():
        raise NotFound("There is no such thread.")
    if (
        Run.objects.filter(thread=thread_id, parent__isnull=False).exists()
        or Import.objects.filter(pk=thread_id, within__isnull=False).exists()
    ):
        raise CannotErase(
            "This thread belongs to a child run. Erase the thread of the run that started it."
        )
    found = [thread_id, *descendants.below(thread_id)]
    live = Run.objects.live().filter(thread__in=found).first()
    if live is not None:
        raise CannotErase(
            f"{live.shown_id} is {live.get_status_display().lower()}. Cancel it first; "
            "nothing was erased."
        )
    return found


def _rows(threads: Sequence[uuid.UUID]) -> dict[str, QuerySet[Any]]:
    """Kind → rows of these threads, in the order in which they go."""
    runs = Run.objects.filter(thread__in=threads).values("pk")
    return {
        "decisions": Decision.objects.filter(
            pause__in=Pause.objects.filter(run__in=runs).values("pk")
        ),
        "votes": Vote.objects.filter(pause__in=Pause.objects.filter(run__in=runs).values("pk")),
        "snoozes": Snooze.objects.filter(pause__in=Pause.objects.filter(run__in=runs).values("pk")),
        "presences": Presence.objects.filter(pause__run__in=runs),
        "links": Link.objects.filter(pause__run__in=runs),
        "deliveries": Delivery.objects.filter(pause__run__in=runs),
        "endpoints": Endpoint.objects.filter(thread__in=threads),
        "early_answers": EarlyAnswer.objects.filter(thread__in=threads),
        "waits": Wait.objects.filter(outer__thread__in=threads),
        "outer_runs": OuterRun.objects.filter(thread__in=threads),
        "pauses": Pause.objects.filter(run__in=runs),
        "artifacts": Artifact.objects.filter(thread__in=threads),
        "events": Event.objects.filter(thread__in=threads),
        "memos": Memo.objects.filter(thread__in=threads),
        **_graphs(threads),
        "imports": Import.objects.filter(thread__in=threads),
        "queued_turns": QueuedTurn.objects.filter(thread__in=threads),
        "runs": Run.objects.filter(thread__in=threads),
        "work_orders": WorkOrder.objects.filter(thread__in=threads),
        "checkpoints": Checkpoint.objects.filter(thread__in=threads),
        "threads": Thread.objects.filter(pk__in=threads),
    }


def _graphs(threads: Sequence[uuid.UUID]) -> dict[str, QuerySet[Any]]:
    """What a graph keeps of its own."""
    namespaces = GraphNamespace.objects.filter(thread__in=threads)
    return {
        "graph_writes": GraphWrite.objects.filter(namespace__in=namespaces.values("pk")),
        "graph_checkpoints": GraphCheckpoint.objects.filter(namespace__in=namespaces.values("pk")),
        "graph_blobs": GraphBlob.objects.filter(namespace__in=namespaces.values("pk")),
        "graph_namespaces": namespaces,
        "graph_threads": GraphThread.objects.filter(pk__in=threads),
    }


def _referred(threads: Sequence[uuid.UUID]) -> set[str]:
    """The digests of what these threads may refer to."""
    found = set(
        Pause.objects.filter(run__thread__in=threads)
        .exclude(patch_digest="")
        .values_list("patch_digest", flat=True)
    )
    found |= set(
        Decision.objects.filter(pause__run__thread__in=threads)
        .exclude(evidence="")
        .values_list("evidence", flat=True)
    )
    found |= set(
        Artifact.objects.filter(thread__in=threads, dropped_at=None).values_list(
            "digest", flat=True
        )
    )
    for thread_id in threads:
        cursor = ""
        while True:
            digests, cursor = garbage.checkpoints(cursor, garbage.PAGE, thread_id=thread_id)
            found |= digests
            if not cursor:
                break
    return found


def _remove(folder: Path) -> None:
    """A workspace, with what lies next to it.

    On a host that shares no folder with this one it stays: docs/how-to/erasure.md.
    """
    for path in (folder, *folder.parent.glob(f"{folder.name}.*")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
