"""Erasing a whole thread, with all that belongs to it, on request: for people who have the right to
it, and recorded.

What goes: the thread and those of its child runs, and the rows that belong to them in every table
of the registry: checkpoints, log, memos, runs, work order, questions, the words of decisions; the
workspace, and the blobs and chunks that nothing else refers to. What stays: that it happened
(`Erasure`), and of each decision its place in the ledger, who took it, when, and its digest, so
that the ledger's chain can still be verified.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils.translation import gettext

from checkpoints import ids, registry
from checkpoints.database import clock
from checkpoints.models import Thread, append_only
from checkpoints.retention import garbage
from checkpoints.retention.rules import Tally, weight
from checkpoints.state import codec
from checkpoints.text.states import state_words
from hitl.decisions.services import NotFound
from hitl.models import Decision, Erasure, Import, idempotency
from hitl.threads import descendants
from runs import keyed
from runs.models import Run

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
    """Count what `erase` would take away. Raises as it does."""
    threads = _family(thread_id)
    tally = Tally()
    for table in registry.registered():
        rows = table.of(threads)
        bytes = weight(rows, table.weighed) if table.weighed else 0
        tally.add(table.kind, rows.count(), bytes)
    digests = registry.referred(threads)
    for kind, model in garbage.KINDS.items():
        rows = model._default_manager.filter(pk__in=digests)
        tally.add(kind, *garbage.weigh(rows))
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
            gettext(
                "Say why, in up to %(longest)s characters: an erasure is recorded with its reason."
            )
            % {"longest": LONGEST}
        )
    digests = registry.referred(_family(thread_id))
    erasure, folders = _erase(thread_id, by=by, reason=reason)
    freed = garbage.free(digests, registry.sources().values())
    logger.warning(
        "%s: %s was erased by %s; freed %s", erasure, ids.show(Thread.PREFIX, thread_id), by, freed
    )
    for folder in folders:
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
    tables = [(table, table.of(threads)) for table in registry.registered()]
    decisions = Decision.objects.filter(pause__run__thread__in=threads).order_by("pk")
    erasure = Erasure(
        thread_id=thread_id,
        erased_by=by[:150],
        reason=reason,
        erased_at=clock.now(),
        counts={table.kind: rows.count() for table, rows in tables},
        decisions=list(decisions.values_list("digest", flat=True)),
    )
    erasure.digest = erasure.compute_digest()
    erasure.save(force_insert=True)
    idempotency.erase({shown for table, rows in tables if table.named for shown in _ids(rows)})
    keyed.made(erasure.shown_id)
    folders = sorted({folder for table, rows in tables for folder in table.folders(rows)})
    for table, rows in tables:
        table.prepare(rows)
    with append_only.open_exemption(append_only.ERASE):
        for table, rows in tables:
            table.erase(rows, erasure)
    return erasure, folders


def _ids(rows: QuerySet[Any]) -> list[str]:
    """The ids under which the API speaks of some rows."""
    prefix = rows.model.PREFIX
    return [ids.show(prefix, key) for key in rows.values_list("pk", flat=True)]


def _family(thread_id: uuid.UUID) -> list[uuid.UUID]:
    """The thread and those of the runs below its own. Raises as `erase`."""
    if not Thread.objects.filter(pk=thread_id).exists():
        raise NotFound("There is no such thread.")
    if (
        Run.objects.filter(thread=thread_id, parent__isnull=False).exists()
        or Import.objects.filter(pk=thread_id, within__isnull=False).exists()
    ):
        raise CannotErase(
            gettext(
                "This thread belongs to a child run. Erase the thread of the run that started it."
            )
        )
    thread_ids = [thread_id, *descendants.below(thread_id)]
    live = Run.objects.live().filter(thread__in=thread_ids).first()
    if live is not None:
        raise CannotErase(
            gettext("%(run)s is %(status)s. Cancel it first; nothing was erased.")
            % {"run": live.shown_id, "status": state_words(live.status).lower()}
        )
    return thread_ids


def _remove(folder: Path) -> None:
    """A workspace, with what lies next to it.

    On a host that shares no folder with this one it stays: docs/how-to/erasure.md.
    """
    for path in (folder, *folder.parent.glob(f"{folder.name}.*")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
