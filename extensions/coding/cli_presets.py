"""Well-known coding agents as configurations of the `command` step: data, from their public
documentation. See docs/how-to/coding-agents.md.
"""

from __future__ import annotations

from typing import Any

_TOOLS = ("Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "TodoWrite", "WebFetch", "Write")
_CLAUDE = [
    "claude",
    "--print",
    "--output-format",
    "stream-json",
    "--verbose",
    "--permission-mode",
    "default",
    # settings of the repository could allow what a person is to be asked about
    "--setting-sources",
    "user",
    "--append-system-prompt",
    # of several calls in one answer only the last can wait for a person
    "If the repository has a CLAUDE.md or an AGENTS.md, read it first. Call Bash and WebFetch "
    "alone, never together with other tools.",
]
_GATED = [*_CLAUDE, "--settings", "{gate}", "--tools", ",".join(_TOOLS)]
CLAUDE_CODE: dict[str, Any] = {
    "command": _GATED,
    "resume_command": [*_GATED, "--resume", "{session}"],
    "read_command": _CLAUDE,
    "gate": "claude-code",
    "stdin": True,
    "credentials": {"ANTHROPIC_API_KEY": "anthropic"},
    "output": [
        {
            "when": {"/type": "assistant"},
            "each": "/message/content",
            "where": {"/type": "text"},
            "text": "/text",
        },
        {
            "when": {"/type": "assistant"},
            "each": "/message/content",
            "where": {"/type": "tool_use"},
            "call": {"id": "/id", "name": "/name", "arguments": "/input"},
        },
        {
            "when": {"/type": "user"},
            "each": "/message/content",
            "where": {"/type": "tool_result"},
            "answer": {"id": "/tool_use_id", "result": "/content"},
        },
        {
            "when": {"/type": "result"},
            "result": "/result",
            "failed": {"/is_error": True},
            "error": "/result",
            "input_tokens": "/usage/input_tokens",
            "output_tokens": "/usage/output_tokens",
            "cost": "/total_cost_usd",
        },
        {
            "when": {"/type": "result", "/stop_reason": "tool_deferred"},
            "deferred": {
                "session": "/session_id",
                "id": "/deferred_tool_use/id",
                "name": "/deferred_tool_use/name",
                "arguments": "/deferred_tool_use/input",
            },
        },
    ],
}

CODEX: dict[str, Any] = {
    "command": ["codex", "exec", "--json", "--ephemeral", "--sandbox", "workspace-write", "-"],
    "read_command": ["codex", "exec", "--json", "--ephemeral", "--sandbox", "read-only", "-"],
    "stdin": True,
    "credentials": {"CODEX_API_KEY": "openai"},
    "output": [
        {"when": {"/type": "item.completed", "/item/type": "agent_message"}, "text": "/item/text"},
        {
            "when": {"/type": "item.started", "/item/type": "command_execution"},
            "call": {"id": "/item/id", "name": "shell", "arguments": "/item/command"},
        },
        {
            "when": {"/type": "item.completed", "/item/type": "command_execution"},
            "answer": {"id": "/item/id", "result": "/item/aggregated_output"},
        },
        {
            "when": {"/type": "item.completed", "/item/type": "file_change"},
            "call": {"id": "/item/id", "name": "file_change", "arguments": "/item/changes"},
        },
        {
            "when": {"/type": "turn.completed"},
            "input_tokens": "/usage/input_tokens",
            "output_tokens": "/usage/output_tokens",
        },
        {
            "when": {"/type": "turn.failed"},
            "failed": {"/type": "turn.failed"},
            "error": "/error/message",
        },
    ],
}

GEMINI: dict[str, Any] = {
    "command": [
        "gemini",
        "--output-format",
        "stream-json",
        "--approval-mode",
        "auto_edit",
        "--skip-trust",
    ],
    "read_command": [
        "gemini",
        "--output-format",
        "stream-json",
        "--approval-mode",
        "default",
        "--skip-trust",
    ],
    "stdin": True,
    "credentials": {"GEMINI_API_KEY": "gemini"},
    "exit_codes": {"42": "agent_input_refused", "53": "agent_turn_limit"},
    "output": [
        {"when": {"/type": "message", "/role": "assistant"}, "text": "/content"},
        {
            "when": {"/type": "tool_use"},
            "call": {"id": "/tool_id", "name": "/tool_name", "arguments": "/parameters"},
        },
        {"when": {"/type": "tool_result"}, "answer": {"id": "/tool_id", "result": "/output"}},
        {
            "when": {"/type": "result"},
            "failed": {"/status": "error"},
            "error": "/error/message",
            "input_tokens": "/stats/input_tokens",
            "output_tokens": "/stats/output_tokens",
        },
    ],
}

PRESETS: dict[str, dict[str, Any]] = {
    "claude-code": CLAUDE_CODE,
    "codex": CODEX,
    "gemini-cli": GEMINI,
}
