"""What becomes of the machine's rows: how they are exported, kept and erased."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.db.models import Exists, OuterRef

from checkpoints import registry
from checkpoints.export import tables as memory
from checkpoints.registry import Ages, Rows, Table
from runs import retention
from runs.git.housekeeping import workspace_path
from runs.models import (
    Artifact,
    Occurrence,
    Pause,
    Place,
    QueuedTurn,
    Run,
    StepTraceback,
    Upload,
    WorkOrder,
)


def _workspaces(runs: Rows) -> Iterable[Path]:
    return {workspace_path(run) for run in runs}


def _let_go_of_successors(orders: Rows) -> None:
    """An order that asked for one of these again stays, and asks for none."""
    WorkOrder.objects.filter(again_of__in=orders.values("pk")).update(again_of=None)


def _forget_order(occurrences: Rows, erasure: Any) -> None:
    """An occurrence says when a schedule started something; what that was is gone."""
    occurrences.update(order=None, why="its order was erased")


TABLES = (
    Table(
        model=Place,
        kind="places",
        of=lambda threads: Place.objects.filter(run__thread__in=threads),
        unexported="It says which work is done at this moment.",
    ),
    Table(
        model=StepTraceback,
        kind="step_tracebacks",
        of=lambda threads: StepTraceback.objects.filter(run__thread__in=threads),
        unexported="It quotes the code of this server.",
    ),
    Table(
        model=Occurrence,
        kind="occurrences",
        of=lambda threads: Occurrence.objects.filter(order__thread__in=threads),
        unexported="It belongs to a schedule of this server.",
        erase=_forget_order,
    ),
    Table(
        model=Pause,
        kind="pauses",
        of=lambda threads: Pause.objects.filter(run__thread__in=threads),
        section="pauses",
        references=lambda pause: filter(None, [pause.patch_digest]),
        referring=lambda rows: rows.only("patch_digest"),
        spares=(
            Exists(Pause.objects.filter(checkpoint=OuterRef("pk"))),
            Exists(Pause.objects.filter(checkpoint=OuterRef("parent"))),  # the answer to it
        ),
        named=True,
    ),
    Table(
        model=Artifact,
        kind="artifacts",
        of=lambda threads: Artifact.objects.filter(thread__in=threads),
        section="artifacts",
        references=lambda artifact: [artifact.digest],
        referring=lambda rows: rows.filter(dropped_at=None).only("digest"),
        ages=Ages(droppable=retention.old_artifacts, drop=retention.drop_texts),
    ),
    Table(
        model=Upload,
        kind="uploads",
        of=lambda threads: Upload.objects.none(),
        unexported="It is no thread's before an answer or an order brings it.",
        references=lambda upload: [upload.digest],
        referring=lambda rows: rows.only("digest"),
    ),
    Table(
        model=QueuedTurn,
        kind="queued_turns",
        of=lambda threads: QueuedTurn.objects.filter(thread__in=threads),
        unexported="A message that waits is work of this server; an import begins none.",
    ),
    Table(
        model=Run,
        kind="runs",
        of=lambda threads: Run.objects.filter(thread__in=threads),
        section="runs",
        spares=(Exists(Run.objects.filter(forked_from=OuterRef("pk"))),),
        folders=_workspaces,
        named=True,
    ),
    Table(
        model=WorkOrder,
        kind="work_orders",
        of=lambda threads: WorkOrder.objects.filter(thread__in=threads),
        unexported="It belongs to a template and a repository of this server; of these the thread "
        "has the URL, and its runs have the input.",
        prepare=_let_go_of_successors,
        named=True,
    ),
)
registry.register(TABLES, above=memory.TABLES)
