"""Addresses of sockets and streams, which are served beside Django."""

from __future__ import annotations

from typing import Any

from django.urls import path, re_path

from hitl.live import consumers, sse
from hitl.live.inbox_feed import Teller
from hitl.live.socket_messages import ProblemOf
from hitl.live.work_feed import WorkWriter


def websockets(
    problem_of: ProblemOf, tell: Teller | None = None, writer: WorkWriter | None = None
) -> list[Any]:
    """`problem_of` says what an error is to a client, `tell` what a question and `writer` what an
    order at work is to a page: all belong to layers above.
    """
    thread: Any = consumers.ThreadConsumer.as_asgi(problem_of=problem_of, writer=writer)
    run: Any = consumers.RunConsumer.as_asgi(problem_of=problem_of)
    chat: Any = consumers.ChatRunConsumer.as_asgi(problem_of=problem_of)
    workflow: Any = consumers.WorkflowConsumer.as_asgi(problem_of=problem_of)
    inbox: Any = consumers.InboxConsumer.as_asgi(problem_of=problem_of, tell=tell)
    other: Any = consumers.NoSuchSocket.as_asgi()
    return [
        path("ws/threads/<thr:thread_id>/stream", thread),
        path("ws/runs/<run:run_id>/stream", run),
        # so that a client has one base for REST and for its socket
        path("runs/<run:run_id>/stream/ws", chat),
        path("api/v1/runs/<run:run_id>/stream/ws", chat),
        path("ws/workflows/<str:run_id>/stream", workflow),
        path("ws/inbox", inbox),
        re_path("", other),
    ]


def streams() -> list[tuple[str, Any]]:
    """Routes with their applications."""
    return [
        ("api/v1/threads/<thr:thread_id>/stream", sse.stream(sse.thread_of)),
        ("api/v1/runs/<run:run_id>/stream", sse.stream(sse.run_of)),
        ("api/v1/workflows/<str:run_id>/stream", sse.stream(sse.workflow_of)),
        ("api/v1/work-orders/<wo:order_id>/logs/stream", sse.stream(sse.order_of)),
        # for clients of agent work orders (`hitl.api.printed_urls`)
        ("api/agent-work-orders/<wo:order_id>/logs/stream", sse.stream(sse.order_of)),
    ]
