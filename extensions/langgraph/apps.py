from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from checkpoints import extension
from extensions.langgraph.words import WORDS


class LangGraphConfig(extension.Extension):
    name = "extensions.langgraph"
    label = "langgraph_extension"
    steps = ("extensions.langgraph.graphs.step",)
    words = WORDS

    def doors(self) -> Iterable[extension.Door]:
        if settings.WAYSTATION_LANGGRAPH:
            from extensions.langgraph.api import server  # here: models are not there before
            from extensions.langgraph.api.protocol import sockets  # as above

            socket: Any = sockets.ProtocolConsumer.as_asgi()
            yield server.door(r"^langgraph/(?P<path>.*)$", server.application())
            yield server.door(sockets.PATH, socket, socket=True)

    def serve_alone(self, *, demo: bool) -> None:
        if demo and "WAYSTATION_LANGGRAPH" not in os.environ:
            settings.WAYSTATION_LANGGRAPH = "loopback"
