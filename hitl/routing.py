"""WebSocket addresses."""

from django.urls import path, re_path

from hitl import consumers

websockets = [
    path("ws/threads/<thr:thread_id>/stream", consumers.ThreadConsumer.as_asgi()),
    path("ws/inbox", consumers.InboxConsumer.as_asgi()),
    re_path("", consumers.NoSuchSocket.as_asgi()),
]
