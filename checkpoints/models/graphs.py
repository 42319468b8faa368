"""Tables of LangGraph's checkpoints: what its saver contract needs beyond a `Checkpoint`.

Written by `extensions.langgraph.saver` only.

A graph's checkpoint is a row of `Checkpoint`, so pages, API and permissions know it, and one of
`GraphCheckpoint` with what the graph goes on from. Values of channels are blobs, once per version;
a list that grew is the new items and a reference to what it grew from.

Contents are sealed at rest; digests are over what is inside, so lists still find what they grew
from.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.models.fields import SealedBinaryField


class GraphThread(models.Model):
    """Any text that a person's graphs name a thread by, and the thread it stands for.

    Two people may use the same text.
    """

    thread = models.OneToOneField(
        "checkpoints.Thread", models.CASCADE, primary_key=True, related_name="graph"
    )
    # the constraint has one
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False
    )
    name = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="graph_thread_once_per_owner")
        ]

    def __str__(self) -> str:
        return self.name


class GraphNamespace(models.Model):
    """A graph within a thread: the empty name is the graph itself, others are its sub-graphs'
    calls.
    """

    id = models.BigAutoField(primary_key=True)
    thread = models.ForeignKey(
        GraphThread, models.CASCADE, related_name="namespaces", db_index=False
    )
    name = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "name"], name="graph_namespace_once_per_thread"
            )
        ]

    def __str__(self) -> str:
        return self.name or "(root)"


class GraphCheckpoint(models.Model):
    """What a graph goes on from at one of its checkpoints: everything but the values that are
    blobs, as the saver's serializer wrote it.
    """

    checkpoint = models.OneToOneField(
        "checkpoints.Checkpoint", models.CASCADE, primary_key=True, related_name="graph"
    )
    namespace = models.ForeignKey(
        GraphNamespace, models.CASCADE, related_name="checkpoints", db_index=False
    )
    key = models.UUIDField(
        help_text="LangGraph's checkpoint_id, a time-ordered UUID; the same in a copied thread."
    )
    parent = models.UUIDField(null=True, help_text="The parent's key.")
    run = models.TextField(blank=True, help_text="LangGraph's run_id.")
    kind = models.CharField(
        max_length=40, help_text="How content was serialised: see checkpoints.store.graph_state."
    )
    content = SealedBinaryField()

    class Meta:
        constraints = [  # also the look-up of one, and of the latest
            models.UniqueConstraint(
                fields=["namespace", "key"], name="graph_checkpoint_once_per_namespace"
            ),
        ]
        # delete_for_runs
        indexes = [
            models.Index(fields=["run"], name="graph_checkpoint_by_run", condition=~Q(run=""))
        ]

    def __str__(self) -> str:
        return str(self.key)


class GraphBlob(models.Model):
    """The value of a channel at one version.

    With a `base`, content is what a list has got since then.
    """

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    namespace = models.ForeignKey(
        GraphNamespace, models.CASCADE, related_name="blobs", db_index=False
    )
    channel = models.TextField()
    version = models.TextField()
    # graph_blob_by_base
    base = models.ForeignKey("self", models.DO_NOTHING, null=True, related_name="+", db_index=False)
    depth = models.PositiveSmallIntegerField(
        help_text=(
            "Rows between this one and the nearest that sums up those before it; 0 for such a one."
        )
    )
    items = models.PositiveIntegerField(
        null=True, help_text="Of the whole list; null for what is none."
    )
    kind = models.CharField(max_length=40)
    content = SealedBinaryField()
    digest = models.BinaryField(
        help_text="sha256 of the whole value as it was serialised, of a list without its header."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "channel", "version"], name="graph_blob_once_per_version"
            )
        ]
        # for its foreign key
        indexes = [
            models.Index(
                fields=["base"], name="graph_blob_by_base", condition=Q(base__isnull=False)
            )
        ]

    def __str__(self) -> str:
        return f"{self.channel} {self.version}"


class GraphWrite(models.Model):
    """What a task wrote at a checkpoint, before the next one takes it in.

    It may be there before its checkpoint is: no foreign key.
    """

    pk: Any = models.CompositePrimaryKey("namespace", "checkpoint_key", "task_id", "idx")
    namespace = models.ForeignKey(
        GraphNamespace, models.CASCADE, related_name="writes", db_index=False
    )
    checkpoint_key = models.UUIDField()
    task_id = models.TextField()
    idx = models.IntegerField(
        help_text="Its place among the task's writes; negative for errors, interrupts and answers."
    )
    task_path = models.TextField(blank=True)
    channel = models.TextField()
    kind = models.CharField(max_length=40)
    content = SealedBinaryField()

    def __str__(self) -> str:
        return f"{self.task_id} {self.channel}"


class GraphDrawing(models.Model):
    """What a graph of the settings looks like, as a process that ran it saw it; of each shape the
    latest.

    Written by `extensions.langgraph.graphs.kept_drawings`.
    """

    name = models.CharField(max_length=200, help_text="By which templates name the graph.")
    shape = models.CharField(
        max_length=64,
        blank=True,
        help_text="Digest of its nodes and edges; empty where it could not be loaded.",
    )
    content = models.JSONField(help_text="Nodes and edges; empty where it could not be loaded.")
    problem = models.TextField(blank=True, help_text="Why it could not be loaded.")
    loaded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "shape"], name="graph_drawing_once_per_shape")
        ]

    def __str__(self) -> str:
        return self.name
