"""The door `/langgraph`, served at once, in the thread and the transaction of a test."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import SyncLangGraphClient
from langgraph_sdk.errors import APIStatusError

from checkpoints import ids as checkpoint_ids
from checkpoints.database.people import User
from extensions.agui import running
from extensions.langgraph.api import server
from extensions.langgraph.api.calls import Call, Reply, Streamed
from extensions.langgraph.api.streaming.frames import as_json
from hitl.http import authentication
from hitl.http.authentication import Caller
from hitl.http.refusals import exception_handler
from hitl.live.pump import StreamRefused

ROUTES = (*server.ROUTES, *running.ROUTES)
"""Of the door and, below it, of AG-UI's."""
KINDS = {"thread_id": "thr", "run_id": "run", "checkpoint_id": "ckpt"}


def acting() -> set[str]:
    """The routes that change something, as `graph POST threads/<thr:thread_id>/runs`."""
    return {
        f"graph {route.method} {_shown(route.path)}"
        for route in ROUTES
        if route.run is not None and not route.reads
    }


def _shown(path: str) -> str:
    return re.sub(
        r"\{(\w+)\}", lambda name: f"<{KINDS.get(name[1], 'str')}:{name[1]}>", path
    ).lstrip("/")


def acted(
    caller: Caller,
    method: str,
    path: str,
    body: Any = None,
    *,
    key: str | None = None,
    query: Mapping[str, str] | None = None,
) -> Reply | Streamed:
    """What a route does for a caller, with this `Idempotency-Key`; raises as it does."""
    route, names = server.route_of(method, path, ROUTES)
    headers = {} if key is None else {"idempotency-key": key}
    call = Call(by=caller.user, names=names, query=query or {}, data=body, headers=headers)
    return server._act(route, caller, call)


@dataclass(frozen=True)
class _Here(httpx.BaseTransport):
    """Answers requests of a client at once; no streams."""

    caller: Caller

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.read() or b"null")
        try:
            reply = acted(
                self.caller, request.method, request.url.path, body, query=request.url.params
            )
        except StreamRefused as refused:
            return httpx.Response(refused.status, json={"detail": str(refused)})
        except Exception as error:
            problem = exception_handler(error, {})
            if problem is None:
                raise
            return httpx.Response(problem.status_code, text=as_json(problem.data))
        assert isinstance(reply, Reply), "a stream"
        text = "" if reply.status == 204 else as_json(reply.data)
        return httpx.Response(reply.status, text=text, headers=dict(reply.headers))


def sdk_of(user: User, scope: str = "write") -> SyncLangGraphClient:
    """LangGraph's own client, with a token of this person and scope."""
    caller = Caller(user=user, scope=scope)
    return SyncLangGraphClient(
        httpx.Client(transport=_Here(caller), base_url="http://waystation.example")
    )


def refused(act: Any, *words: Any, **more: Any) -> tuple[int, str]:
    """The status and the words that such a client is refused with."""
    with pytest.raises(APIStatusError) as error:
        act(*words, **more)
    return error.value.response.status_code, error.value.response.json()["detail"]


def sent(
    by: User,
    method: str,
    path: str,
    body: Any = None,
    *,
    scope: str = "write",
    key: str | None = None,
) -> Any:
    """What a route answers, or the headers of its stream."""
    done = acted(Caller(user=by, scope=scope), method, path, body, key=key)
    return done.data if isinstance(done, Reply) else done.headers


def called_here(authorization: str, method: str, path: str, body: Any) -> tuple[int, str]:
    """What a route answers to the token of this header: the status, and the words."""
    caller = authentication.caller_by(authorization.removeprefix("Bearer "), method=method)
    if caller is None:
        return 401, ""
    try:
        reply = acted(caller, method, path, body)
    except StreamRefused as refused:
        return refused.status, str(refused)
    except Exception as error:
        problem = exception_handler(error, {})
        if problem is None:
            raise
        return problem.status_code, as_json(problem.data)
    assert isinstance(reply, Reply), "a stream"
    return reply.status, as_json(reply.data)


def moved_here(authorization: str, door: str, ids: Mapping[str, str], body: Any) -> tuple[int, str]:
    """The same of a door as `acting` names it, at things with these shown ids."""
    method, _, path = door.partition(" ")
    for name, shown in ids.items():
        prefix = shown.partition("_")[0]
        key = checkpoint_ids.parse(prefix, shown) if "_" in shown else uuid.UUID(int=0)
        path = path.replace(f"<{KINDS[name]}:{name}>", str(key))
    return called_here(authorization, method, f"/{path}", body or None)
