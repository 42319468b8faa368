"""The shipped template of `chat-agent`.

Where the server has no model of its own, the scripted model answers, and says that it is scripted.
"""

from __future__ import annotations

from typing import Any

from runs.agents.config import ASK_HUMAN
from runs.agents.model import WORTH_RETRYING

INSTRUCTIONS = """You work for one person, in a conversation that may pause for days and go on.
Answer briefly, in Markdown. Use your tools where they help, and say what you did.
Ask with `ask_human` where you lack something that only the person knows.
A rejected call stays rejected: find another way, or say what is missing.
"""
CONFIG: dict[str, Any] = {
    "instructions": INSTRUCTIONS,
    "tools": ["clock", "calculate", "remember", "recall", "fetch", ASK_HUMAN],
    "max_loops": 15,
    "limits": {"tokens": 200_000, "tool_calls": 60, "seconds": 900},
}
RETRY: dict[str, Any] = {"attempts": 6, "base": 2, "cap": 60, "errors": list(WORTH_RETRYING)}
STEP_TEMPLATES: dict[str, dict[str, Any]] = {
    "chat-agent": {"title": "Agent", "function": "agent", "config": CONFIG}
}
TEMPLATES: dict[str, dict[str, Any]] = {
    "chat-agent": {
        "title": "Chat with an agent",
        "description": "An agent with tools, which asks before it reaches outside. Its model is "
        "the server's (WAYSTATION_MODEL); where there is none, a scripted one that works offline "
        "and says so.",
        "steps": [
            {
                "step_type": "agent",
                "name": "agent",
                "step_template_slug": "chat-agent",
                "queue": "agents",
                "max_loops": 1_000,
                "retry": RETRY,
            }
        ],
        "input_schema": {
            "type": "object",
            "properties": {
                "input": {
                    "type": "string",
                    "title": "Message",
                    "minLength": 1,
                    "maxLength": 100_000,
                }
            },
            "required": ["input"],
        },
        "needs_repository": False,
        "reducers": {"messages": "upsert_by_id"},
    }
}
