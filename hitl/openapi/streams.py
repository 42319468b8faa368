"""Describe the streams, which are served beside Django, and their events, for OpenAPI."""

from __future__ import annotations

import re
from typing import Any

from django.urls.converters import get_converters

from checkpoints.models import EventKind
from hitl.live import routing
from hitl.live.subscriptions import LEVELS
from hitl.openapi.operation import name_of, tag_of
from runs.security.scopes import Scope

EVENTS = {
    EventKind.RUN_STARTED: "a worker took the run for the first time",
    EventKind.STEP_STARTED: "a step begins: `step`, `loop_num`",
    EventKind.STEP_COMPLETED: "a step's result is committed: `step`",
    EventKind.STREAMING_CHUNK: "text as it comes: `content`, `step`, `loop_num`",
    EventKind.TOOL_CALL_STARTED: "a call begins: `id`, `tool`, `arguments`, `loop_num`",
    EventKind.TOOL_CALL_COMPLETED: "a call ended, once: the same, `status`, `result`, `ms`",
    EventKind.CHECKPOINT_CREATED: "`checkpoint_id`, `status`, `node_id`, `loop_num`, "
    "`completed_nodes`, `total_nodes`",
    EventKind.APPROVAL_REQUESTED: "a question opened, or an answer did not fit: `pause_id`, "
    "`prompt`, `phase`, `revision`, `step`, `kind`",
    EventKind.APPROVAL_RECEIVED: "an answer is recorded: `decision_id`, `pause_id`, `decision`, "
    "`feedback`, `by`, `via`, `revision`",
    EventKind.AWAIT_HUMAN_INPUT: "right before it, the same question in other words: the same, "
    "`required_inputs`, `told_as`",
    EventKind.RUN_PAUSED: "the run waits and holds nothing: `pause_id`, `phase`, `lifecycle`",
    EventKind.RUN_RESUMED: "the run goes on: `decision`, `step`, `lifecycle`",
    EventKind.RUN_COMPLETED: "the run ended well: `status`, `conclusion` (how, in words)",
    EventKind.RUN_FAILED: "the run failed, and no retry is due: `error`, `failure_code`, `step`",
    EventKind.RUN_CANCELLED: "a person or a rule ended the run: `error`, `by`, `reason`",
    EventKind.RUN_EXPIRED: "nobody answered in time: `error`, `pause_id`, `step`, `deadline_at`",
    EventKind.PAUSE_UPDATED: "something became of an open question that decides nothing: `what`, "
    "`pause_id`",
    EventKind.LOG: "a line for people: `message`, `level`, `step`",
}
"""Kind of event → its meaning, and the names in its `data`."""
FRAMES = (
    "The events, until it ends. A frame's `event` is a kind, its `id` the event's `seq`, its "
    "`data` an `EventOut` as JSON. Beside them: `error` (its data is a problem document) where "
    "the database does not answer, and `recovered` once it does; both have no `id`. A frame of "
    "nothing but an `id` moves the reader's place over what a filter left out. A comment comes "
    "every 15 seconds."
)
EVENT_STREAM = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": {"$ref": "#/components/schemas/EventOut"},
    "description": "The `data` of each frame.",
}


def with_streams(
    result: dict[str, Any], generator: Any, request: Any, public: bool
) -> dict[str, Any]:
    """Add the streams, which no view serves, and the kinds of their events."""
    for route, _ in routing.streams():
        result["paths"]["/" + re.sub(r"<\w+:(\w+)>", r"{\1}", route)] = {"get": _stream(route)}
    result["paths"] = dict(sorted(result["paths"].items()))
    schemas = result["components"]["schemas"]
    schemas["EventKind"] = _kinds()
    # a later server may tell of kinds that a client does not know yet
    schemas["EventOut"]["properties"]["event"] = {
        "anyOf": [{"$ref": "#/components/schemas/EventKind"}, {"type": "string"}],
        "description": "What happened. Pass over kinds that you do not know.",
    }
    result["components"]["schemas"] = dict(sorted(schemas.items()))
    return result


def _kinds() -> dict[str, Any]:
    description = "\n".join(f"* `{kind.value}` - {EVENTS[kind]}" for kind in EventKind)
    return {"type": "string", "enum": EventKind.values, "description": description}


def _stream(route: str) -> dict[str, Any]:
    tag = tag_of(route)
    noun = tag.replace("-", " ").removesuffix("s")
    named = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": f"^{get_converters()[kind].regex}$"},
        }
        for kind, name in re.findall(r"<(\w+):(\w+)>", route)
    ]
    number = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    query = [
        (
            "after",
            number,
            "Events with a higher number only; of a `Last-Event-ID` and this, the header counts.",
        ),
        (
            "level",
            {"type": "string", "enum": list(LEVELS)},
            "Log lines of at least this level, and the end.",
        ),
        ("step", {"type": "string"}, "Events of this step, and the end."),
        ("since", {"type": "string", "format": "date-time"}, "Events since then, and the end."),
    ]
    refused = {
        str(status): {"$ref": f"#/components/responses/{name_of(status)}"}
        for status in (400, 401, 403, 404, 429, 503)
    }
    description = (
        "Server-sent events, in order, each once: `id` is the event's number, `event` its kind, "
        "`data` the event as JSON. A reconnect with "
        "`Last-Event-ID` misses nothing. Scopes of tokens: "
        f"{', '.join(f'`{scope}`' for scope in (Scope.READ, Scope.ASK, Scope.WRITE))}."
    )
    return {
        "operationId": f"stream_{tag.replace('-', '_').removesuffix('s')}",
        "summary": f"Follow {'an' if noun[0] in 'aeiou' else 'a'} {noun} live",
        "description": description,
        "parameters": [
            *named,
            *(
                {"name": name, "in": "query", "schema": schema, "description": about}
                for name, schema, about in query
            ),
            {
                "name": "Last-Event-ID",
                "in": "header",
                "schema": number,
                "description": "The number of the last event that you have.",
            },
        ],
        "tags": [tag],
        "security": [{"token": []}, {"cookieAuth": []}],
        "responses": {
            "200": {
                "description": FRAMES,
                "content": {"text/event-stream": {"schema": EVENT_STREAM}},
            },
            "204": {"description": "It has ended, and all of it was told before."},
            **refused,
        },
    }
