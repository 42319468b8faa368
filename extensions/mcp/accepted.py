"""The tools that an operator accepted, registered for agents when this is imported: before modules
of workflows are, which may name them.
"""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from extensions.mcp import client

if settings.WAYSTATION_MCP_TOOLS:
    client.register(Path(settings.WAYSTATION_MCP_TOOLS))
