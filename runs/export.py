"""The runs of an exported thread and of its child runs' threads: facts about each, and what an
import makes of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.export.schema import (
    COUNT,
    DIGEST,
    DIGEST_OR_EMPTY,
    LIST,
    MARK,
    OBJECT,
    TIME,
    TIME_OR_NULL,
    one_of,
    record,
    shown,
    text,
)  # fmt: skip
from checkpoints.export.sections import Section
from checkpoints.export.thread_document import Document, ImportRefused, Loaded, time_of
from checkpoints.models import Thread
from runs import definitions
from runs.models import Artifact, Definition, Run
from runs.states import CANCELLED, COMPLETED, ENDED, FAILED, RunStatus

FIELDS = (
    "status",
    "input",
    "interrupt_before",
    "interrupt_after",
    "reason",
    "error",
    "failure_code",
)
IMPORTED = "imported"
"""`failure_code` of a run that was under way when its thread was exported."""
Plan = Mapping[str, Definition]
"""The runs that are made of a family, parents first, by their old ids."""
RUN_ROW = record(
    {
        "id": shown("run"),
        "template_slug": text(80),
        "template_version": COUNT,
        "definition": {**DIGEST, "description": "Of the frozen template."},
        "status": one_of(
            "pending", "running", "paused", "completed", "failed", "cancelled", "expired"
        ),
        "input": OBJECT,
        "retry_of": shown("run", null=True),
        "interrupt_before": LIST,
        "interrupt_after": LIST,
        "reason": text(),
        "error": text(),
        "failure_code": text(64),
        "created_at": TIME,
        "started_at": TIME_OR_NULL,
        "ended_at": TIME_OR_NULL,
        "parent": {
            **shown("run", null=True),
            "description": "The run that waits for this one, where it is in the document too.",
        },
        "child_name": {**text(100), "minLength": 1, "description": "What that one calls it."},
        "optional": {
            "type": "boolean",
            "description": "That one goes on without it where it fails.",
        },
        "imported": MARK,
    },
    optional=("parent", "child_name", "optional", "imported"),
)
FILE = ("media", "filename")
"""Of a file that somebody handed in."""
ARTIFACT_ROW = record(
    {
        "id": shown("art"),
        "run_id": shown("run"),
        "step": text(100),
        "loop_num": COUNT,
        "name": text(100),
        "digest": {
            **DIGEST_OR_EMPTY,
            "description": "The blob that holds the text; empty where retention dropped it.",
        },
        "size": {
            "type": "integer",
            "minimum": 0,
            "maximum": 2**62,
            "description": "Bytes as the step gave it.",
        },
        "cut": {"type": "boolean", "description": "Its middle is left out."},
        "media": {**text(100), "description": "Of a file that somebody handed in."},
        "filename": text(200),
        "created_at": TIME,
        "dropped_at": TIME_OR_NULL,
    },
    optional=FILE,
    oneOf=[
        {"properties": {"digest": DIGEST, "dropped_at": {"type": "null"}}},
        {"properties": {"digest": {"const": ""}, "dropped_at": {"type": "string"}}},
    ],
)


def export(thread: Thread, *, root: bool) -> list[Document]:
    """Give the thread's runs, oldest first.

    Of a family's `root` nobody waits for them.
    """
    rows = Run.objects.filter(thread=thread).select_related("definition").order_by("pk")
    return [_run(run, root=root) for run in rows]


def apart(rows: Sequence[Document]) -> list[Document]:
    """Runs without those that wait for them."""
    return [
        {
            name: value
            for name, value in row.items()
            if name not in {"parent", "child_name", "optional"}
        }
        for row in rows
    ]


def repository_of(thread: Thread) -> str:
    order = getattr(thread, "work_order", None)
    return order.repository_url if order else ""


def _run(run: Run, *, root: bool) -> Document:
    times = {
        name: getattr(run, name).isoformat() if getattr(run, name) else None
        for name in ("created_at", "started_at", "ended_at")
    }
    waits = None if root or run.parent_id is None else run.parent_id
    child = (
        {
            "parent": ids.show(Run.PREFIX, waits),
            "child_name": run.child_name,
            "optional": run.optional,
        }
        if waits
        else {}
    )
    return {
        "id": run.shown_id,
        "template_slug": run.definition.template_slug,
        "template_version": run.definition.template_version,
        "definition": run.definition_id,
        "retry_of": ids.show(Run.PREFIX, run.retry_of_id) if run.retry_of_id else None,
        **{name: getattr(run, name) for name in FIELDS},
        **times,
        **child,
    }


def plan(documents: Sequence[Document]) -> Plan:
    """The runs of a family that could be gone on with here: they are of their template's version of
    today, and so are their steps.

    A child run is made only where the run above it is. Call inside a transaction.
    """
    definitions_by_digest: dict[str, Definition] = {}
    waiting = [(document, row) for document in documents for row in document["runs"]]
    while waiting:
        made = len(definitions_by_digest)
        for document, row in waiting:
            above = row.get("parent")
            if above is None or above in definitions_by_digest:
                definition = _known(document, row, definitions_by_digest[above] if above else None)
                if definition is not None:
                    definitions_by_digest[row["id"]] = definition
        waiting = [
            (document, row)
            for document, row in waiting
            if row.get("parent") is not None and row["id"] not in definitions_by_digest
        ]
        if len(definitions_by_digest) == made:
            break
    return definitions_by_digest


def _known(document: Document, row: Document, above: Definition | None) -> Definition | None:
    # such a run works on a work order's repository, and this thread has no order
    if document["thread"]["repository_url"]:
        return None
    known = (
        definitions.below(above, row["definition"])
        if above
        else definitions.of_today(row["definition"], row["template_slug"])
    )
    named = _steps_named(document, row["id"])
    return known if known is not None and named <= {step["name"] for step in known.steps} else None


def joined(document: Document, made: Plan) -> Document:
    """A document whose checkpoints name child runs only where all of them are made: else nothing
    could ever join them.
    """
    return {**document, "checkpoints": [_parted(row, made) for row in document["checkpoints"]]}


def _parted(row: Document, made: Plan) -> Document:
    gather = row["metadata"].get("gather")
    listed = (gather or {}).get("children", ())
    if gather is None or ("pages" not in gather and all(one["run_id"] in made for one in listed)):
        return row
    kept = {key: value for key, value in gather.items() if key != "pages"}
    return {**row, "metadata": {**row["metadata"], "gather": {**kept, "children": []}}}


def load(documents: Sequence[Document], loaded: Sequence[Loaded], made: Plan) -> list[Run]:
    """Write the runs that `plan` gave, of documents that were `joined`.

    The others stay history: their checkpoints are there, and no run is. One that was under way has
    failed here, so that it can be resumed; one that waited for child runs that are not all here was
    cancelled, and can be forked. Call inside a transaction.
    """
    places = {
        row["id"]: (document, row, loaded_run)
        for document, loaded_run in zip(documents, loaded, strict=True)
        for row in document["runs"]
    }
    runs: dict[str, Run] = {}
    for name, definition in made.items():
        document, row, loaded_run = places[name]
        runs[name] = _made(
            row, definition, loaded_run, earlier=runs, waits=_gathers(document, name)
        )
    created = Run.objects.bulk_create(runs.values())
    for name, run in runs.items():
        run.created_at = time_of(places[name][1]["created_at"])
    Run.objects.bulk_update(created, ["created_at"])
    return created


def _steps_named(document: Document, run_id: str) -> set[str]:
    rows = [row for row in document["checkpoints"] if row["run_id"] == run_id]
    named = {row[field] for row in rows for field in ("node_id", "next_step")}
    return named.union(*(row["metadata"].get("loops", {}) for row in rows)) - {""}


def _gathers(document: Document, run_id: str) -> bool:
    """Whether it was waiting for child runs that are not in the document."""
    head = next(
        (row for row in document["checkpoints"] if row["id"] == document["thread"]["head"]), None
    )
    if head is None or head["run_id"] != run_id or head["next_step"]:
        return False
    return "gather" in head["metadata"] and not head["metadata"]["gather"].get("children")


def _made(
    row: Document, definition: Definition, loaded: Loaded, *, earlier: dict[str, Run], waits: bool
) -> Run:
    status, code, error = RunStatus(row["status"]), row["failure_code"], row["error"]
    if status not in ENDED or (waits and status == FAILED):
        words = (
            f"It was {row['status']} when it was exported. Resume it, or fork one of its "
            "checkpoints."
        )
        status, code, error = (CANCELLED if waits else FAILED), IMPORTED, error or words
    stops = {
        name: [item for item in row[name] if isinstance(item, str)]
        for name in ("interrupt_before", "interrupt_after")
    }
    first, above = earlier.get(row["retry_of"]), earlier.get(row.get("parent") or "")
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
        due_at=clock.now(),
        started_at=time_of(row["started_at"]) if row["started_at"] else None,
        ended_at=time_of(row["ended_at"]) if row["ended_at"] else clock.now(),
        imported_at=loaded.thread.imported_at,
        **_child(row, above),
        **stops,
    )


def _child(row: Document, above: Run | None) -> dict[str, Any]:
    if above is None:
        return {}
    return {
        "parent_id": above.pk,
        "depth": above.depth + 1,
        "child_name": row.get("child_name", "child"),
        "optional": row.get("optional", False),
    }


ARTIFACT = ("step", "loop_num", "name", "digest", "size", "cut")


def artifacts(thread: Thread, *, root: bool) -> list[Document]:
    """Give what the thread's steps kept for people; the texts are blobs of the document."""
    return [_artifact(row) for row in Artifact.objects.filter(thread=thread).order_by("pk")]


ONE = ("run_id", "step", "loop_num", "name", "media")
"""What names one artifact."""


def _check_artifacts(rows: Sequence[Document]) -> None:
    executions = {tuple(row.get(name, "") for name in ONE) for row in rows}
    if len(executions) < len(rows):
        raise ImportRefused(
            "duplicate_id", "artifacts: one of an execution is given more than once."
        )


def _artifact(one: Artifact) -> Document:
    return {
        "id": one.shown_id,
        "run_id": ids.show(Run.PREFIX, one.run_key),
        **{name: getattr(one, name) for name in ARTIFACT},
        **({name: getattr(one, name) for name in FILE} if one.media else {}),
        "created_at": one.created_at.isoformat(),
        "dropped_at": one.dropped_at.isoformat() if one.dropped_at else None,
    }


def load_artifacts(document: Document, loaded: Loaded, made: Plan) -> None:
    """Write them, also those of runs that are history only.

    Call inside a transaction, after `load`.
    """
    rows = []
    for artifact in document["artifacts"]:
        key = loaded.run_ids[artifact["run_id"]]
        run: dict[str, Any] = (
            {"run_id": key} if artifact["run_id"] in made else {"imported_run": key}
        )
        rows.append(
            Artifact(
                id=ids.parse(Artifact.PREFIX, loaded.names[artifact["id"]]),
                thread=loaded.thread,
                **run,
                **{name: artifact[name] for name in ARTIFACT},
                **{name: artifact.get(name, "") for name in FILE},
                created_at=time_of(artifact["created_at"]),
                dropped_at=time_of(artifact["dropped_at"]) if artifact["dropped_at"] else None,
            )
        )
    Artifact.objects.bulk_create(rows)


SECTIONS = (
    Section(
        name="runs",
        after="blobs",
        row=RUN_ROW,
        prefix=Run.PREFIX,
        write=export,
        run_column="id",
        redacted=("input",),
    ),
    Section(
        name="artifacts",
        after="runs",
        row=ARTIFACT_ROW,
        prefix=Artifact.PREFIX,
        write=artifacts,
        description="What steps kept for people: an agent's prompt and all that it printed.",
        run_column="run_id",
        blobs=lambda row: [row["digest"]],
        check=_check_artifacts,
    ),
)
"""What a document says of a thread's runs."""
