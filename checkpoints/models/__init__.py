"""The memory's tables: threads with their checkpoints and log, and what LangGraph's saver keeps."""

# ruff: noqa: E402  # before any model is made, and this package is imported before all others
from checkpoints.models import labels

labels.translate()

from checkpoints.models import fields as fields  # Django looks for tables here
from checkpoints.models import graphs as graphs  # Django looks for tables here
from checkpoints.models.threads import (
    Blob,
    Checkpoint,
    CheckpointStatus,
    Chore,
    Chunk,
    Event,
    EventKind,
    JsonTextField,
    Mark,
    Memo,
    RestingThread,
    SealedJsonField,
    Thread,
    WhenBusy,
)

__all__ = [
    "Blob",
    "Checkpoint",
    "CheckpointStatus",
    "Chore",
    "Chunk",
    "Event",
    "EventKind",
    "JsonTextField",
    "Mark",
    "Memo",
    "RestingThread",
    "SealedJsonField",
    "Thread",
    "WhenBusy",
]
