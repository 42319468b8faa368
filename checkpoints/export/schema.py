"""The document that a thread is exported as, version 4, as a JSON Schema (2020-12).

`manage.py export_thread --schema` prints it.

Here stand the memory's own sections; those of the layers above come from `sections`.

What a schema cannot say, `thread_document` and each section's `check` look at: ids are unique,
parents are there and in no circle, digests match.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.db import models

from checkpoints.export import sections
from checkpoints.export.sections import Section
from checkpoints.models import CheckpointStatus, EventKind, JsonTextField

FORMAT = "waystation-thread"
VERSION = 4
VERSIONS = (4,)
"""Those that are read; no earlier one was released."""
MAX_NUMBER = 2**31 - 1

OBJECT: dict[str, Any] = {"type": "object"}
LIST: dict[str, Any] = {"type": "array"}
TIME: dict[str, Any] = {
    "type": "string",
    "maxLength": 40,
    "description": "ISO 8601 with an offset.",
}
TIME_OR_NULL = {**TIME, "type": ["string", "null"]}
DIGEST: dict[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
DIGEST_OR_EMPTY: dict[str, Any] = {"type": "string", "pattern": "^([0-9a-f]{64})?$"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": MAX_NUMBER}


def text(most: int | None = None) -> dict[str, Any]:
    return {"type": "string", **({"maxLength": most} if most is not None else {})}


def of_column(model: type[models.Model], name: str) -> dict[str, Any]:
    """What a document holds of a column that it takes as it is."""
    column = model._meta.get_field(name)
    if isinstance(column, JsonTextField):
        return LIST if column.default is list else OBJECT
    assert isinstance(column, models.Field)
    return COUNT if isinstance(column, models.IntegerField) else text(column.max_length)


def shown(prefix: str, *, null: bool = False) -> dict[str, Any]:
    """An id as this product shows it."""
    return {
        "type": ["string", "null"] if null else "string",
        "pattern": f"^{prefix}_[0-9a-hjkmnp-tv-z]{{26}}$",
    }


def one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def record(
    properties: dict[str, Any], *, optional: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """An object with these keys and no others."""
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
        **more,
    }


def listed(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


MARK: dict[str, Any] = {
    "const": True,
    "description": "It was imported there, and is no fact of that server.",
}
LOOPS: dict[str, Any] = {"type": "object", "additionalProperties": COUNT}
PATCH: dict[str, Any] = {"type": ["object", "null"], "properties": {"patch": DIGEST_OR_EMPTY}}
METADATA: dict[str, Any] = {
    "type": "object",
    "description": (
        "Other keys are kept as they are; these are the engine's, which relies on their shape."
    ),
    "properties": {
        "git": record({"commit": text(64), "base": text(64), "bundle": DIGEST_OR_EMPTY}),
        "loops": LOOPS,
        "loops_before": LOOPS,
        "last_pause": text(64),
        "blocking_reason": text(64),
        "scope": text(200),
        "cleared": text(100),
        "error": text(),
        "failure_code": text(64),
        "outputs": OBJECT,
        "report": PATCH,
        "gather": {
            "type": "object",
            "properties": {
                "children": listed(record({"name": text(100), "run_id": shown("run")})),
                "report": PATCH,
            },
        },
    },
}
CHECKPOINT = record(
    {
        "id": shown("ckpt"),
        "run_id": shown("run"),
        "parent_id": shown("ckpt", null=True),
        "status": one_of(*CheckpointStatus.values),
        "node_id": text(100),
        "next_step": text(100),
        "loop_num": COUNT,
        "completed_nodes": COUNT,
        "total_nodes": COUNT,
        "metadata": METADATA,
        "created_at": TIME,
        "digest": {
            **DIGEST,
            "description": "Of the whole state, by key: see checkpoints.state.codec.",
        },
        "state": {**OBJECT, "description": "The whole state; of a checkpoint without a parent."},
        "change": {
            **OBJECT,
            "description": (
                "What turns the parent's state into this one: set, unset, extend, in. See "
                "checkpoints.state.codec."
            ),
        },
        "imported": {
            **OBJECT,
            "description": "What its ids were where it came from, if it was imported before.",
        },
    },
    optional=("state", "change", "imported"),
    oneOf=[
        {"required": ["state"], "properties": {"parent_id": {"type": "null"}}},
        {"required": ["change"], "properties": {"parent_id": {"type": "string"}}},
    ],
)
EVENT = record(
    {
        "seq": {"type": "integer", "minimum": 1, "maximum": 2**62},
        "event": one_of(*EventKind.values),
        "run_id": shown("run", null=True),
        "data": OBJECT,
        "at": TIME,
        "imported": MARK,
    },
    optional=("imported",),
)
MEMO = record(
    {
        "scope": text(200),
        "key": text(200),
        "value": {"description": "What `context.once` recorded: any JSON."},
        "imported": MARK,
    },
    optional=("imported",),
)
THREAD = record(
    {
        "id": shown("thr"),
        "title": text(200),
        "owner": text(150),
        "team": {"type": ["string", "null"], "maxLength": 150},
        "head": shown("ckpt", null=True),
        "repository_url": text(500),
        "created_at": TIME,
        "imported": MARK,
    },
    optional=("imported",),
)


UUID = {
    "type": "string",
    "format": "uuid",
    "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
}
PLAIN = {"type": "string", "pattern": "^[^\\u0000\\ud800-\\udfff]*$"}
"""Text that a column can hold."""
PAYLOAD = {
    "kind": {
        "type": "string",
        "maxLength": 40,
        "pattern": "^(z:)?(null|bytes|bytearray|json|msgpack|delta)([+][A-Za-z0-9_-]+)?$",
    },
    "content": {
        "type": "string",
        "description": (
            "As LangGraph's serializer wrote it, compressed where kind begins with z:, in base64."
        ),
    },
}
GRAPH_CHECKPOINT = record(
    {
        "id": shown("ckpt"),
        "key": {**UUID, "description": "LangGraph's checkpoint_id."},
        "parent": {"anyOf": [UUID, {"type": "null"}]},
        "run": PLAIN,
        **PAYLOAD,
        "digest": {**DIGEST, "description": "sha256 of kind, a colon and content."},
        "status": one_of(*CheckpointStatus.values),
        "node_id": {**PLAIN, "maxLength": 100},
        "next_step": {**PLAIN, "maxLength": 100},
        "completed_nodes": COUNT,
        "total_nodes": COUNT,
        "metadata": OBJECT,
        "created_at": TIME,
    }
)
GRAPH_BLOB = record(
    {
        "channel": PLAIN,
        "version": PLAIN,
        "base": {
            "type": ["integer", "null"],
            "minimum": 0,
            "description": "Place of the value that this list begins with.",
        },
        "depth": {**COUNT, "maximum": 1000},
        "items": {
            "type": ["integer", "null"],
            "minimum": 0,
            "maximum": MAX_NUMBER,
            "description": "Of the whole list; null for no list.",
        },
        **PAYLOAD,
        "digest": {
            **DIGEST,
            "description": (
                "sha256 of the whole value as it was serialised, of a list without its header."
            ),
        },
    }
)
GRAPH_WRITE = record(
    {
        "checkpoint": UUID,
        "task": PLAIN,
        "idx": {"type": "integer", "minimum": -(2**31), "maximum": MAX_NUMBER},
        "path": PLAIN,
        "channel": PLAIN,
        **PAYLOAD,
    }
)
GRAPH = record(
    {
        "name": {**PLAIN, "description": "What its owner's graphs call the thread."},
        "spaces": listed(
            record(
                {
                    "name": {
                        **PLAIN,
                        "description": "Of a graph on the thread, or of a sub-graph's call.",
                    },
                    "checkpoints": listed(GRAPH_CHECKPOINT),
                    "blobs": listed(GRAPH_BLOB),
                    "writes": listed(GRAPH_WRITE),
                }
            )
        ),
    }
)

BEFORE: dict[str, Any] = {
    "format": {"const": FORMAT},
    "version": {"enum": list(VERSIONS)},
    "exported_at": TIME,
    "thread": THREAD,
    "checkpoints": listed(CHECKPOINT),
    "events": listed(EVENT),
    "memos": listed(MEMO),
    "blobs": {
        "type": "object",
        "propertyNames": DIGEST,
        "additionalProperties": {"type": "string", "description": "Base64."},
    },
}
"""What comes before the sections of the layers above."""
AFTER: dict[str, Any] = {
    "graph": {**GRAPH, "description": "What LangGraph's saver goes on from."},
    "digest": {
        **DIGEST,
        "description": (
            "sha256 of the canonical JSON of all the rest: sorted keys, no spaces, ASCII."
        ),
    },
}


@cache
def document_schema() -> dict[str, Any]:
    """The JSON Schema of a whole document, with the sections of every layer.

    Call once all apps are ready: a section that comes later is not in it.
    """
    above = {section.name: section for section in sections.registered()}
    middle = {name: _rows(above[name]) for name in sections.in_order([*BEFORE])[len(BEFORE) :]}
    document = {**BEFORE, **middle, **AFTER}
    children = {
        **listed(record(document, optional=("graph",))),
        "maxItems": 10_000,
        "description": "Threads of child runs, at any depth.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A thread of Waystation",
        **record({**document, "children": children}, optional=("graph", "children")),
    }


def _rows(section: Section) -> dict[str, Any]:
    described = {"description": section.description} if section.description else {}
    return {**listed(dict(section.row)), **described}
