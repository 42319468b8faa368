"""The ASGI application: Django, streams beside it, sockets.

Who asks is looked up by streams and sockets themselves, in the hub's database threads and again later: a session's middleware would
hold its objects for as long as they are open.
"""

import os
from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator, OriginValidator
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django_application: Any = get_asgi_application()

from checkpoints import checks  # noqa: E402  # their models need the line above
from hitl import routing  # noqa: E402
from hitl.backpressure import patient  # noqa: E402
from hitl.incoming import bounded  # noqa: E402
from project.errors import exception_handler  # noqa: E402

checks.at_start(reach=False)


class SameOrigin(OriginValidator):
    """A browser always tells the page's origin, and it must be ours; a program that sends none is no other site's page."""

    def valid_origin(self, parsed_origin: Any) -> bool:
        return parsed_origin is None or super().valid_origin(parsed_origin)


def same_origin(application: Any) -> Any:
    return SameOrigin(application, AllowedHostsOriginValidator(application).allowed_origins)


streams = [path(route, patient(stream)) for route, stream in routing.streams()]
http: Any = [*streams, re_path("", bounded(django_application))]
sockets = same_origin(patient(URLRouter(routing.websockets(exception_handler))))
application = ProtocolTypeRouter({"http": URLRouter(http), "websocket": sockets})
