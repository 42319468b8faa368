"""`/langgraph` as a plain ASGI application beside Django: which route, whose token, what for; then
an answer, or a stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings
from rest_framework.response import Response

from checkpoints.extension import Door
from extensions.langgraph.api import (
    assistants,
    copying,
    cors,
    runs,
    searching,
    states,
    storing,
    threads,
)
from extensions.langgraph.api.calls import Call, Reply, Streamed
from extensions.langgraph.api.kept import configurations, crons
from extensions.langgraph.api.protocol import commands, following
from extensions.langgraph.api.streaming import runs as streams
from extensions.langgraph.api.streaming import threads as thread_streams
from extensions.langgraph.api.streaming.frames import as_json
from hitl.http import incoming
from hitl.http.authentication import Caller
from hitl.http.refusals import exception_handler
from hitl.live import admission, pump
from hitl.live.admission import Receive, Send
from hitl.live.pump import EventStream, StreamRefused, send_problem
from hitl.live.topics import in_database_thread
from runs.security import scopes
from runs.security.scopes import Scope

READS = (Scope.READ, *scopes.ASKS)
REVIEWS = (*READS, Scope.ANSWER)
"""Of which a token that only answers sees what it is asked."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Route:
    """An address, with what it takes beside `write`."""

    method: str
    path: str
    run: Callable[[Call], Reply | Streamed] | None
    """None: this server has no such thing, and says so."""
    scopes: tuple[str, ...] = ()
    acts: bool = False
    """Takes more than what it reads: each of its commands looks at the scope anew."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path))

    @property
    def reads(self) -> bool:
        return Scope.READ in self.scopes and not self.acts


THREAD, RUN = "/threads/{thread_id}", "/threads/{thread_id}/runs/{run_id}"
ASSISTANT = "/assistants/{assistant_id}"
CRON = "/runs/crons/{cron_id}"
ROUTES = (
    Route("POST", "/assistants/search", assistants.search, READS),
    Route("POST", "/assistants/count", assistants.count, READS),
    Route("GET", ASSISTANT, assistants.get, READS),
    Route("POST", "/assistants", configurations.create),
    Route("PATCH", ASSISTANT, configurations.change),
    Route("DELETE", ASSISTANT, configurations.delete),
    Route("POST", f"{ASSISTANT}/versions", configurations.versions, READS),
    Route("POST", f"{ASSISTANT}/latest", configurations.set_latest),
    Route("GET", f"{ASSISTANT}/schemas", assistants.schemas, READS),
    Route("GET", f"{ASSISTANT}/graph", assistants.graph, READS),
    Route("POST", "/threads", threads.create, scopes.ASKS),
    Route("POST", "/threads/search", searching.search, REVIEWS),
    Route("POST", "/threads/count", searching.count, REVIEWS),
    Route("GET", THREAD, states.thread, REVIEWS),
    Route("PATCH", THREAD, threads.change, scopes.ASKS),
    Route("DELETE", THREAD, threads.delete),
    Route("POST", f"{THREAD}/copy", copying.copy, scopes.ASKS),
    Route("GET", f"{THREAD}/state", states.get, REVIEWS),
    Route("POST", f"{THREAD}/state", runs.update_state, scopes.ASKS),
    Route("POST", f"{THREAD}/state/checkpoint", states.at_given, READS),
    Route("GET", THREAD + "/state/{checkpoint_id}", states.at, READS),
    Route("GET", f"{THREAD}/history", states.history, READS),
    Route("POST", f"{THREAD}/history", states.history, READS),
    Route("GET", f"{THREAD}/stream", thread_streams.join, READS),
    Route("GET", f"{THREAD}/runs", runs.listed, READS),
    Route("POST", f"{THREAD}/runs", runs.create, scopes.EITHER),
    Route("POST", f"{THREAD}/runs/stream", streams.begin, scopes.EITHER),
    Route("POST", f"{THREAD}/runs/wait", streams.begin_and_wait, scopes.EITHER),
    Route("POST", "/runs", runs.create, scopes.ASKS),
    Route("POST", "/runs/stream", streams.begin, scopes.ASKS),
    Route("POST", "/runs/wait", streams.begin_and_wait, scopes.ASKS),
    Route("GET", RUN, runs.get, READS),
    Route("DELETE", RUN, runs.delete),
    Route("GET", f"{RUN}/join", streams.join, READS),
    Route("GET", f"{RUN}/stream", streams.rejoin, READS),
    Route("POST", f"{RUN}/cancel", runs.cancel, scopes.ASKS),
    Route("POST", "/runs/cancel", runs.cancel_many, scopes.ASKS),
    Route("POST", f"{THREAD}/runs/crons", crons.refuse_bound),
    Route("POST", "/runs/crons", crons.create),
    Route("POST", "/runs/crons/search", crons.search, (Scope.READ,)),
    Route("POST", "/runs/crons/count", crons.count, (Scope.READ,)),
    Route("PATCH", CRON, crons.change),
    Route("DELETE", CRON, crons.delete),
    Route("POST", f"{THREAD}/commands", commands.obey, (*READS, Scope.ANSWER), acts=True),
    Route("POST", f"{THREAD}/stream/events", following.stream, READS),
    Route("PUT", "/store/items", storing.put, scopes.ASKS),
    Route("GET", "/store/items", storing.get, READS),
    Route("DELETE", "/store/items", storing.delete, scopes.ASKS),
    Route("POST", "/store/items/search", storing.search, READS),
    Route("POST", "/store/namespaces", storing.listed, READS),
    *(
        Route(method, path, None)
        for method, path in (
            ("GET", f"{ASSISTANT}/subgraphs"),
            ("POST", "/threads/prune"),
            ("POST", "/runs/batch"),
        )
    ),
)
FREE = {
    "/ok": {"ok": True},
    "/info": {
        "version": "1",
        "flags": {"assistants": True, "crons": True, "langsmith": False, "store": True},
    },
}
"""What anybody may read."""


def route_of(
    method: str, path: str, routes: Sequence[Route] = ROUTES
) -> tuple[Route, dict[str, str]]:
    """Raises StreamRefused where there is none, or this server has no such thing."""
    found = [
        (route, match.groupdict()) for route in routes if (match := route.pattern.fullmatch(path))
    ]
    for route, names in found:
        if route.method != method:
            continue
        if route.run is None:
            break
        return route, names
    if any(route.method == method for route, _ in found):
        raise StreamRefused(501, "not_supported", "This server has no such thing.")
    if found:
        allow = ", ".join(sorted({route.method for route, _ in found}))
        raise StreamRefused(405, "method_not_allowed", f"Use {allow}.", allow=allow)
    raise StreamRefused(404, "not_found", "There is nothing at this address.")


def door(path: str, application: Any, *, socket: bool = False) -> Door:
    """A door below `/langgraph/`, open to whom the settings say."""
    return Door(
        path=path,
        application=application,
        socket=socket,
        origins=settings.WAYSTATION_LANGGRAPH_ORIGINS,
        loopback=settings.WAYSTATION_LANGGRAPH == "loopback",
    )


def application(routes: Sequence[Route] = ROUTES) -> Any:
    """Serve these routes, as ASGI."""

    async def serve(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if origin := cors.origin_of(scope):
            send = cors.showing(origin, send)
        path = "/" + scope["url_route"]["kwargs"]["path"]
        if scope["method"] == "OPTIONS" and origin:
            await cors.preflight(send)
            return
        if path in FREE and scope["method"] == "GET":
            await _answer(send, Reply(data=FREE[path]))
            return
        try:
            caller = await in_database_thread(admission.admit)(scope, methods=METHODS)
            body = await admission.body_of(receive, limit="BODY_BYTES")
            route, names = route_of(scope["method"], path, routes)
            done = await in_database_thread(_act)(route, caller, _call(scope, caller, names, body))
        except StreamRefused as refused:
            await send_problem(send, refused)
            return
        except Exception as error:  # of any layer below: the layer above tells a client's from ours
            # it may look up how things stand now
            problem = await in_database_thread(exception_handler)(error, {})
            if problem is None:
                raise
            await _problem(send, problem)
            return
        if isinstance(done, Streamed):
            await _follow(scope, caller, done, receive, send)
        else:
            await _answer(send, done)

    return serve


def _call(scope: dict[str, Any], caller: Caller, names: dict[str, str], body: bytes) -> Call:
    """Raises StreamRefused."""
    try:
        data = incoming.read(body) if body else None
    except incoming.UnreadableBody as error:
        raise StreamRefused(400, "parse_error", str(error)) from error
    query: dict[str, str] = {}
    for name, value in parse_qsl(scope["query_string"].decode("latin-1")):
        query[name] = f"{query[name]},{value}" if name in query else value
    return Call(
        by=caller.user,
        names=names,
        query=query,
        data=data,
        headers={
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        },
    )


def _act(route: Route, caller: Caller, call: Call) -> Reply | Streamed:
    """Do what the route does, as this token. In a database thread."""
    refused = scopes.refusal(caller.scope, route.scopes)
    if refused is not None:
        raise refused
    assert route.run is not None
    with scopes.acting(caller.scope, caller.token_key):
        return route.run(call)


async def _follow(
    scope: dict[str, Any], caller: Caller, streamed: Streamed, receive: Receive, send: Send
) -> None:
    def may_stay(again: Caller) -> bool:
        with scopes.acting(again.scope, again.token_key):
            return streamed.may_stay()

    as_result: dict[str, Any] = {"media": b"application/json", "beat": b" ", "opening": b""}
    as_frames = {"opening": b":\n\n"}  # or headers would wait for the first frame
    stream = EventStream(
        scope=scope,
        person=caller.user.pk,
        frames=streamed.frames,
        may_stay=may_stay,
        headers=_encoded(streamed.headers),
        heartbeat=streams.HEARTBEAT,
        **(as_result if streamed.is_result else as_frames),
    )
    await pump.run(stream, receive, send)


async def _answer(send: Send, reply: Reply) -> None:
    body = b"" if reply.status == 204 else as_json(reply.data).encode()
    headers = [(b"content-type", b"application/json")] if body else []
    await _sent(send, reply.status, [*headers, *_encoded(reply.headers)], body)


async def _problem(send: Send, problem: Response) -> None:
    headers = [(b"content-type", b"application/problem+json"), *_encoded(problem.headers)]
    await _sent(send, problem.status_code, headers, as_json(problem.data).encode())


def _encoded(headers: Any) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower().encode(), str(value).encode())
        for name, value in headers.items()
        if name.lower() != "content-type"
    ]


async def _sent(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    headers = [*headers, (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
