"""The names of the document's parts."""

from __future__ import annotations

from typing import Any

TAGS = {
    "agent-work-orders": "Work orders under a second set of addresses.",
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
