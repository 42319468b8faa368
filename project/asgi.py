"""The ASGI application: Django, streams beside it, sockets."""

import os
from collections.abc import Iterable
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator, OriginValidator
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django_application = get_asgi_application()

from hitl import routing, sse  # noqa: E402  # its models need the line above


class SameOrigin(OriginValidator):  # type: ignore[misc]
    """A browser always tells the page's origin, and it must be ours; a program that sends none is no other site's page."""

    def valid_origin(self, parsed_origin: Any) -> bool:
        return parsed_origin is None or super().valid_origin(parsed_origin)


def same_origin(application: Any) -> Any:
    allowed: Iterable[str] = AllowedHostsOriginValidator(application).allowed_origins
    return SameOrigin(application, allowed)


application = ProtocolTypeRouter(
    {
        "http": URLRouter([path("api/v1/work-orders/<wo:order_id>/logs/stream", AuthMiddlewareStack(sse.order_stream)), re_path("", django_application)]),
        "websocket": same_origin(AuthMiddlewareStack(URLRouter(routing.websockets))),
    }
)
