"""The ASGI application: Django, streams beside it, sockets."""

import os
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator, OriginValidator
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django_application: Any = get_asgi_application()

from checkpoints import checks  # noqa: E402  # their models need the line above
from hitl import routing, sse  # noqa: E402

checks.at_start(reach=False)


class SameOrigin(OriginValidator):
    """A browser always tells the page's origin, and it must be ours; a program that sends none is no other site's page."""

    def valid_origin(self, parsed_origin: Any) -> bool:
        return parsed_origin is None or super().valid_origin(parsed_origin)


def same_origin(application: Any) -> Any:
    return SameOrigin(application, AllowedHostsOriginValidator(application).allowed_origins)


logs: Any = AuthMiddlewareStack(sse.order_stream)
http: Any = [path("api/v1/work-orders/<wo:order_id>/logs/stream", logs), re_path("", django_application)]
application = ProtocolTypeRouter({"http": URLRouter(http), "websocket": same_origin(AuthMiddlewareStack(URLRouter(routing.websockets)))})
