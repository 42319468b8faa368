"""What to put into the hosts of agents, so that they speak with this server over MCP."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

NAME = "waystation"
"""What the server is called there: its tools are `mcp__waystation__…` in Claude Code."""
PATIENCE_MS = 86_400_000
"""For how long Claude Code waits for a tool: a person may take a day."""
ASKS = ("request_approval", "ask_human", "wait_for_answer", "withdraw_request")
"""Tools that only ask: nobody need be asked whether an agent may ask."""
CLAUDE_PROMPTS = (
    f'claude -p "…" --permission-prompt-tool mcp__{NAME}__permission_prompt '
    f"--allowedTools {','.join(f'mcp__{NAME}__{tool}' for tool in ASKS)}"
)
"""How Claude Code is started so that people here allow what it may do."""


@dataclass(frozen=True)
class HostConfiguration:
    host: str
    place: str
    """The file that it goes into, or where it is typed."""
    text: str


def configurations(url: str, secret: str) -> list[HostConfiguration]:
    """For each host that we know, how an agent in it reaches this URL with this token."""
    headers = {"Authorization": f"Bearer {secret}"}
    claude = {"type": "http", "url": url, "headers": headers, "timeout": PATIENCE_MS}
    opencode = {"type": "remote", "url": url, "headers": headers}
    codex = (
        f"[mcp_servers.{NAME}]\n"
        f"url = {json.dumps(url)}\n"
        f"http_headers = {{ Authorization = {json.dumps(headers['Authorization'])} }}\n"
        "tool_timeout_sec = 60\n"
    )
    return [
        HostConfiguration(
            "Claude Code",
            ".mcp.json in the project, or a file for claude --mcp-config",
            _json({"mcpServers": {NAME: claude}}),
        ),
        HostConfiguration("Codex", "~/.codex/config.toml", codex),
        HostConfiguration(
            "Cursor",
            "~/.cursor/mcp.json, or .cursor/mcp.json in the project",
            _json({"mcpServers": {NAME: {"url": url, "headers": headers}}}),
        ),
        HostConfiguration(
            "OpenCode",
            "opencode.json in the project, or ~/.config/opencode/opencode.json",
            _json({"mcp": {"servers": {NAME: opencode}}}),
        ),
    ]


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"
