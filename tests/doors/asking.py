"""The doors at which a program asks people, served at once, in the thread and the transaction of a
test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from django.test import Client
from rest_framework.test import APIClient

from extensions.mcp.door.server import TOOLS
from hitl.models import ApiToken
from hitl.wait_gate import primitives
from runs.models import Pause
from tests.doors.mcp import CallHere, no_progress
from waystation_client import NotAnswered, Waystation

Ask = Callable[..., Pause]
"""`ask(words, **more)`: the question that who asks so gets; `more` is `key` and `valid_for`."""
TEAM = "platform"


def by_rest(token: ApiToken, secret: str) -> Ask:
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {secret}")

    def ask(words: str, **more: Any) -> Pause:
        body = {"run_id": "deploy-42", "question": words, "team": TEAM, **more}
        told = client.post("/api/v1/workflows/wait", body, format="json")
        assert told.status_code in {200, 201}, told.content
        return _named(told.json()["pause_id"])

    return ask


def in_process(token: ApiToken, secret: str) -> Ask:
    def ask(words: str, **more: Any) -> Pause:
        wait = primitives.create_checkpoint(
            "deploy-42", "go", {}, {}, "b", by=token.user, question=words, team=TEAM, **more
        )
        return Pause.objects.get(pk=wait.pause_id)

    return ask


def by_client(token: ApiToken, secret: str) -> Ask:
    waystation = client_here(secret)

    def ask(words: str, **more: Any) -> Pause:
        return _named(waystation.ask(words, team=TEAM, **more).pause_id)

    return ask


def by_decorator(token: ApiToken, secret: str) -> Ask:
    waystation = client_here(secret)

    def ask(words: str, **more: Any) -> Pause:
        called: list[int] = []
        asked_for = waystation.requires_approval(question=words, team=TEAM, timeout=0, **more)
        try:
            asked_for(called.append)(1)
        except NotAnswered as waits:
            assert not called
            return _named(waits.question.pause_id)
        assert called == [1]
        return Pause.objects.latest("id")

    return ask


def by_tool(tool: str, *, as_task: bool = False, **fixed: Any) -> Callable[[ApiToken, str], Ask]:
    def door(token: ApiToken, secret: str) -> Ask:
        def ask(words: str, **more: Any) -> Pause:
            name = "action" if tool == "request_approval" else "question"
            given = {name: words, "team": TEAM, "wait_seconds": 0, **fixed, **more}
            call: Any = CallHere(token, {}, no_progress, as_task)
            found = TOOLS[tool]
            try:
                found.run(call, found.takes.model_validate(given)).__await__().send(None)
            except StopIteration as done:  # nothing of it waits
                return _named(done.value.request_id)
            raise AssertionError("the tool waits")

        return ask

    return door


def _named(pause_id: str) -> Pause:
    return next(pause for pause in Pause.objects.all() if pause.shown_id == pause_id)


DOORS: dict[str, Callable[[ApiToken, str], Ask]] = {
    "REST": by_rest,
    "the primitives": in_process,
    "client.ask": by_client,
    "client.requires_approval": by_decorator,
    "MCP request_approval": by_tool("request_approval"),
    "MCP request_approval as a task": by_tool("request_approval", as_task=True, wait_seconds=50),
    "MCP ask_human": by_tool("ask_human"),
}
ONE_RUN = {"REST", "the primitives"}
"""Doors at which who asks names the run that waits, which has one open question at a time."""


def client_here(secret: str) -> Waystation:
    """The Python client, whose requests are served by this process."""

    def serve(request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        told = Client().generic(
            request.method,
            request.url.raw_path.decode(),
            request.content,
            content_type=headers.pop("content-type", "application/json"),
            headers=headers,
        )
        return httpx.Response(told.status_code, content=told.content, headers=dict(told.headers))

    http = httpx.Client(transport=httpx.MockTransport(serve))
    return Waystation("http://testserver", secret, http=http, attempts=1)
