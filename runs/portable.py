"""The runs of an exported thread: facts about each, and what an import makes of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Thread
from checkpoints.portable import Document, Loaded, time_of
from runs import definitions
from runs.models import Definition, Run
from runs.states import CANCELLED, COMPLETED, ENDED, FAILED, RunStatus

FIELDS = ("status", "input", "interrupt_before", "interrupt_after", "reason", "error", "failure_code")
IMPORTED = "imported"
"""`failure_code` of a run that was under way when its thread was exported."""


def export(thread: Thread, *, without: Collection[str] = ()) -> list[Document]:
    """The thread's runs, oldest first, but for those named."""
    rows = Run.objects.filter(thread=thread).select_related("definition").order_by("pk")
    return [_run(run) for run in rows if run.shown_id not in without]


def repository_of(thread: Thread) -> str:
    order = getattr(thread, "work_order", None)
    return order.repository_url if order else ""


def _run(run: Run) -> Document:
    times = {name: getattr(run, name).isoformat() if getattr(run, name) else None for name in ("created_at", "started_at", "ended_at")}
    return {
        "id": run.shown_id,
        "template_slug": run.definition.template_slug,
        "template_version": run.definition.template_version,
        "definition": run.definition_id,
        "retry_of": ids.show(Run.PREFIX, run.retry_of_id) if run.retry_of_id else None,
        **{
            name: getattr(run, name)
            for name in ("status", "input", "interrupt_before", "interrupt_after", "reason", "error", "failure_code")
        },
        **times,
    }


def load(document: Document, loaded: Loaded) -> list[Run]:
    """Write the runs that could be gone on with here: their template is known, and has every step that their checkpoints name.

    The others stay history: their checkpoints are there, and no run is. One that was under way has failed here, so that it can be
    resumed; one that waited for child runs, which are not in the document, was cancelled, and can be forked. Call inside a transaction.
    """
    if document["thread"]["repository_url"]:  # such a run works on a work order's repository, and this thread has no order
        return []
    runs: dict[str, Run] = {}
    for row in document["runs"]:
        definition = definitions.known(row["definition"], row["template_slug"])
        if definition is not None and _steps_named(document, row["id"]) <= {step["name"] for step in definition.steps}:
            runs[row["id"]] = _made(row, definition, loaded, earlier=runs, waits=_gathers(document, row["id"]))
    times = [(run, time_of(row["created_at"])) for row in document["runs"] if (run := runs.get(row["id"]))]
    made = Run.objects.bulk_create(runs.values())
    for run, at in times:
        run.created_at = at
    Run.objects.bulk_update(made, ["created_at"])
    return made


def _steps_named(document: Document, run_id: str) -> set[str]:
    rows = [row for row in document["checkpoints"] if row["run_id"] == run_id]
    named = {row[field] for row in rows for field in ("node_id", "next_step")}
    return named.union(*(row["metadata"].get("loops", {}) for row in rows)) - {""}


def _gathers(document: Document, run_id: str) -> bool:
    """Whether it was waiting for child runs."""
    head = next((row for row in document["checkpoints"] if row["id"] == document["thread"]["head"]), None)
    return head is not None and head["run_id"] == run_id and "gather" in head["metadata"] and not head["next_step"]


def _made(row: Document, definition: Definition, loaded: Loaded, *, earlier: dict[str, Run], waits: bool) -> Run:
    status, code, error = RunStatus(row["status"]), row["failure_code"], row["error"]
    if status not in ENDED or (waits and status == FAILED):
        words = f"It was {row['status']} when it was exported. Resume it, or fork one of its checkpoints."
        status, code, error = (CANCELLED if waits else FAILED), IMPORTED, error or words
    stops = {name: [one for one in row[name] if isinstance(one, str)] for name in ("interrupt_before", "interrupt_after")}
    first: Any = earlier.get(row["retry_of"])
    return Run(
        id=loaded.run_ids[row["id"]],
        thread=loaded.thread,
        definition=definition,
        status=status,
        retry_of_id=first.pk if first else None,
        input=row["input"],
        reason=row["reason"],
        error="" if status == COMPLETED else error,
        failure_code=code,
        due_at=timezone.now(),
        started_at=time_of(row["started_at"]) if row["started_at"] else None,
        ended_at=time_of(row["ended_at"]) if row["ended_at"] else timezone.now(),
        **stops,
    )
