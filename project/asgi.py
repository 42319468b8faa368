"""The ASGI application: Django, streams beside it, sockets."""

import os
from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator, OriginValidator
from channels.sessions import SessionMiddlewareStack
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django_application: Any = get_asgi_application()

from checkpoints import checks  # noqa: E402  # their models need the line above
from hitl import routing  # noqa: E402
from hitl.backpressure import patient  # noqa: E402
from project.errors import exception_handler  # noqa: E402

checks.at_start(reach=False)


class SameOrigin(OriginValidator):
    """A browser always tells the page's origin, and it must be ours; a program that sends none is no other site's page."""

    def valid_origin(self, parsed_origin: Any) -> bool:
        return parsed_origin is None or super().valid_origin(parsed_origin)


def same_origin(application: Any) -> Any:
    return SameOrigin(application, AllowedHostsOriginValidator(application).allowed_origins)


def beside_django(application: Any) -> Any:
    """Who asks is looked up by the application itself, in the hub's database threads and again later; here is only the session's cookie."""
    return patient(SessionMiddlewareStack(application))


streams = [path(route, beside_django(stream)) for route, stream in routing.streams()]
http: Any = [*streams, re_path("", django_application)]
sockets = same_origin(beside_django(URLRouter(routing.websockets(exception_handler))))
application = ProtocolTypeRouter({"http": URLRouter(http), "websocket": sockets})
