"""WebSocket addresses."""

from typing import Any

from channels.consumer import AsyncConsumer
from django.urls import path, re_path

from hitl import consumers


def _application(consumer: type[AsyncConsumer]) -> Any:
    """Django's `path` is typed for views; Channels' router takes ASGI applications by the same function."""
    return consumer.as_asgi()


websockets = [
    path("ws/threads/<thr:thread_id>/stream", _application(consumers.ThreadConsumer)),
    path("ws/inbox", _application(consumers.InboxConsumer)),
    re_path("", _application(consumers.NoSuchSocket)),
]
