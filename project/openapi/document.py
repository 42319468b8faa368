"""What the document says besides the views: the streams, which are served beside Django, and the
names of its parts.
"""

from __future__ import annotations

import re
from typing import Any

from django.urls.converters import get_converters

from hitl.live import routing
from hitl.live.subscriptions import LEVELS
from project.openapi.operation import name_of, tag_of
from runs.security.scopes import Scope

TAGS = {
    "agent-work-orders": "Work orders under the addresses of S4.",
    "artifacts": "Texts that steps kept.",
    "channels": "What was answered in mails and chats.",
    "checkpoints": "States after steps: read them, compare them, go on from one.",
    "decisions": "Answers with their receipts.",
    "deliveries": "Messages about questions.",
    "endpoints": "Where messages about questions go.",
    "inbound": "Signed events from outside.",
    "ledger": "The chain of all decisions.",
    "pauses": "Questions that wait for a person or a system.",
    "repositories": "Where code is worked on.",
    "resume": "Answers by trace and prompt.",
    "runs": "Attempts to carry a thread on.",
    "templates": "Templates of work.",
    "threads": "Lines of history: conversations, and those of work orders.",
    "tools": "What agents may call.",
    "work-orders": "What somebody asked for.",
    "workflows": "Runs of other engines that wait here.",
}


def with_streams(
    result: dict[str, Any], generator: Any, request: Any, public: bool
) -> dict[str, Any]:
    """Adds the streams, which no view serves."""
    for route, _ in routing.streams():
        result["paths"]["/" + re.sub(r"<\w+:(\w+)>", r"{\1}", route)] = {"get": _stream(route)}
    result["paths"] = dict(sorted(result["paths"].items()))
    return result


def _stream(route: str) -> dict[str, Any]:
    tag = tag_of(route)
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
        "summary": f"Follow a {tag.replace('-', ' ').removesuffix('s')} live",
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
                "description": "The events, until it ends.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            "204": {"description": "It has ended, and all of it was told before."},
            **refused,
        },
    }


def with_tags(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Names the tags that operations have."""
    used = {
        tag
        for path in result["paths"].values()
        for operation in path.values()
        for tag in operation["tags"]
    }
    result["tags"] = [
        {"name": tag, "description": TAGS.get(tag, f"{tag.capitalize()}.")} for tag in sorted(used)
    ]
    return result
