"""The document that a thread is exported as, version 4, as a JSON Schema (2020-12).

`manage.py export_thread --schema` prints it.

What it cannot say, `thread_document` and `hitl.threads.export` check: ids are unique, parents are
there and in no circle, digests match.
"""

from __future__ import annotations

from typing import Any

from checkpoints.models import CheckpointStatus, EventKind

FORMAT = "waystation-thread"
VERSION = 4
VERSIONS = (1, 2, 3, 4)
"""Those that are read.

Version 1 has no graph and no children, version 2 no artifacts, version 3 no marks of what was
imported before.
"""
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
RUN = record(
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
NAMES: dict[str, Any] = {
    "by_name": {**text(), "description": "What the person was called then."},
    "for_name": {**text(), "description": "And who that one stood in for."},
    "early_at": {
        **TIME_OR_NULL,
        "description": "When it came, where that was before its question.",
    },
}
VOTE = record(
    {
        "id": shown("vote"),
        "action": text(64),
        "feedback": text(),
        "payload": {"type": ["object", "null"]},
        "edited_content": text(),
        "voter": {
            "type": ["string", "null"],
            "maxLength": 200,
            "description": "Null where external.",
        },
        "seat": {"type": ["string", "null"], "maxLength": 200, "description": "Whose vote it is."},
        "external": {
            **text(254),
            "description": "The mail address of who voted without an account.",
        },
        "voted_at": TIME,
        "via": text(16),
        "content_digest": DIGEST,
        "digest": DIGEST,
        **NAMES,
    },
    optional=tuple(NAMES),
)
PAUSE = record(
    {
        "id": shown("pse"),
        "run_id": shown("run"),
        "checkpoint_id": shown("ckpt"),
        "step": text(100),
        "phase": text(64),
        "status": one_of("open", "answered", "cancelled", "expired"),
        "question": text(300),
        "content": text(),
        "patch_digest": DIGEST_OR_EMPTY,
        "facts": LIST,
        "effects": LIST,
        "content_digest": DIGEST,
        "revision": COUNT,
        "max_revisions": COUNT,
        "ways": OBJECT,
        "labels": OBJECT,
        "required_inputs": OBJECT,
        "known": OBJECT,
        "bare": LIST,
        "kind": text(16),
        "calls": LIST,
        "attempts": COUNT,
        "refined": text(),
        "opened_at": TIME,
        "closed_at": TIME_OR_NULL,
        "outside": {
            **OBJECT,
            "description": "Who without an account was asked too, and what they were shown.",
        },
        "votes": {
            **listed(VOTE),
            "description": "Also those of a question that was then closed otherwise.",
        },
        "imported": MARK,
    },
    optional=("kind", "calls", "outside", "votes", "imported"),
)
DECISION = record(
    {
        "id": shown("dec"),
        "pause_id": shown("pse"),
        "action": text(64),
        "feedback": text(),
        "payload": {
            "type": ["object", "null"],
            "description": "The data that came with the answer.",
        },
        "edited_content": {
            **text(),
            "description": "The content as it was approved, where a reviewer edited it.",
        },
        "decided_by": {
            "type": ["string", "null"],
            "maxLength": 200,
            "description": "Null where the template's rules answered.",
        },
        "external": {
            **text(254),
            "description": (
                "The mail address of who answered by the link sent there, without an account."
            ),
        },
        "on_behalf_of": {
            "type": ["string", "null"],
            "maxLength": 200,
            "description": "For whom, by a delegation.",
        },
        "votes": {
            **LIST,
            "description": (
                "Digests of the votes where several had to approve; they are with the question."
            ),
        },
        "evidence": {
            **DIGEST_OR_EMPTY,
            "description": "The blob that holds what the reviewer was shown.",
        },
        "goes_on_at": {**TIME_OR_NULL, "description": "Until then it could be taken back."},
        "undoes": {
            **shown("dec", null=True),
            "description": "The decision that this one takes back.",
        },
        "decided_at": TIME,
        "via": text(16),
        "revision": COUNT,
        "content_digest": DIGEST,
        "ledger": {
            **OBJECT,
            "description": (
                "Its place in the chain of the server where it was given; the chain itself "
                "stays there."
            ),
        },
        "data_only": {"type": "boolean", "description": "It brought data, and approved nothing."},
        **NAMES,
        "imported": MARK,
    },
    optional=(
        "edited_content",
        "external",
        "on_behalf_of",
        "votes",
        "evidence",
        "goes_on_at",
        "undoes",
        "data_only",
        *NAMES,
        "imported",
    ),
)
ARTIFACT = record(
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
        "created_at": TIME,
        "dropped_at": TIME_OR_NULL,
    },
    oneOf=[
        {"properties": {"digest": DIGEST, "dropped_at": {"type": "null"}}},
        {"properties": {"digest": {"const": ""}, "dropped_at": {"type": "string"}}},
    ],
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

DOCUMENT: dict[str, Any] = {
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
    "runs": listed(RUN),
    "pauses": listed(PAUSE),
    "decisions": listed(DECISION),
    "artifacts": {
        **listed(ARTIFACT),
        "description": "What steps kept for people: an agent's prompt and all that it printed.",
    },
    "graph": {**GRAPH, "description": "What LangGraph's saver goes on from."},
    "digest": {
        **DIGEST,
        "description": (
            "sha256 of the canonical JSON of all the rest: sorted keys, no spaces, ASCII."
        ),
    },
}
CHILDREN = {
    **listed(record(DOCUMENT, optional=("graph", "artifacts"))),
    "maxItems": 10_000,
    "description": "Threads of child runs, at any depth.",
}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A thread of Waystation",
    **record({**DOCUMENT, "children": CHILDREN}, optional=("graph", "children", "artifacts")),
}
