from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings

from checkpoints import extension


class AguiConfig(extension.Extension):
    name = "extensions.agui"
    label = "agui_extension"

    def doors(self) -> Iterable[extension.Door]:
        if settings.WAYSTATION_LANGGRAPH:
            from extensions.agui import running  # here: models are not there before
            from extensions.langgraph.api import server  # as above

            path = r"^langgraph/(?P<path>agui/.*)$"
            yield server.door(path, server.application(running.ROUTES))
