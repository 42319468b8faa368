from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec

from django.conf import settings

from checkpoints import extension
from checkpoints.text import extras
from extensions.mcp.words import WORDS


class McpConfig(extension.Extension):
    name = "extensions.mcp"
    label = "mcp_extension"
    steps = ("extensions.mcp.accepted",)
    words = WORDS

    def doors(self) -> Iterable[extension.Door]:
        from hitl.host.doors import when_asked  # here: it needs the models

        if settings.WAYSTATION_MCP:
            serve = when_asked(
                "extensions.mcp.door.server",
                "mcp",
                extras.install("mcp", "extensions/mcp/requirements.txt"),
            )
            yield extension.Door(path=r"^mcp\Z", application=serve)

    def serve_alone(self, *, demo: bool) -> None:
        if "WAYSTATION_MCP" not in os.environ:
            settings.WAYSTATION_MCP = find_spec("mcp") is not None
        if demo and "WAYSTATION_MCP_OWNER_DECIDES" not in os.environ:
            settings.WAYSTATION_MCP_OWNER_DECIDES = True  # there is one person
