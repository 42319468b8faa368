"""The memory's tables: threads with their checkpoints and log, and what LangGraph's saver keeps."""

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
    "SealedJsonField",
    "Thread",
    "WhenBusy",
]
