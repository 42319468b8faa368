"""The size of what people and programs send, judged before it is kept, read or parsed; and the one
reader of their JSON.

Each address has a limit of its own: a view says `body_limit = "ORDER_BYTES"`, a name in
`runs.limits`; all others have BODY_BYTES. A body whose length is told is refused by that; one that
comes in pieces is counted while it comes (`bounded`, around Django).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import IO, Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import Resolver404, resolve
from rest_framework import exceptions
from rest_framework.parsers import BaseParser, MultiPartParser

from hitl.http import problems
from hitl.models import ApiToken
from runs import limits

UNTYPED = frozenset({"", "application/x-www-form-urlencoded"})
"""Content types of a body that its sender said nothing about: none, and what curl says by
itself.
"""

Handler = Callable[[HttpRequest], HttpResponse]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class UnreadableBody(ValueError):
    """A text that is no JSON, or more of it than is read."""


class BodyTooLarge(exceptions.APIException):
    """`limit` is told to the client too."""

    status_code = 413
    default_code = "too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(words(limit))
        self.limit = limit


def words(limit: int) -> str:
    return (
        f"The body of a request may have up to {limit:,} bytes here; this one was not read, and "
        "nothing was changed."
    )


def limit_of(path: str) -> int:
    """The bytes that the body of a request to this path may have."""
    try:
        view = resolve(path).func
    except Resolver404:
        return value("BODY_BYTES")
    return value(getattr(getattr(view, "view_class", view), "body_limit", "BODY_BYTES"))


def value(name: str) -> int:
    """A limit as operators set it."""
    return int(getattr(settings, f"WAYSTATION_{name}", getattr(limits, name)))


def middleware(get_response: Handler) -> Handler:
    """413 in the words of its kind, for what tells its length.

    Behind it Django's own limit, which knows no addresses, is never reached.
    """

    def handle(request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or "0"
        size = int(length[:15]) if length.isdecimal() else 0
        # nearly all: without looking at the address
        if size <= min(value("BODY_BYTES"), limits.EVENT_BYTES):
            return get_response(request)
        limit = limit_of(request.path_info)
        if size <= limit:
            return get_response(request)
        if request.path_info.startswith("/api/"):
            return problems.response(413, BodyTooLarge.default_code, words(limit), limit=limit)
        return render(request, "413.html", {"limit": limit}, status=413)

    return handle


def bounded(application: Any) -> Any:
    """An ASGI application that gets no longer a body than its address takes, whether its length was
    told or not: Django would keep all of it in a file before any view or middleware is asked.
    """

    async def serve(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or dict(scope["headers"]).get(b"content-length"):
            # servers hold a body to the length that it tells
            await application(scope, receive, send)
            return
        limit, size, answered = (
            limit_of(scope["path"].removeprefix(scope.get("root_path", ""))),
            0,
            False,
        )

        async def counted() -> dict[str, Any]:
            nonlocal size, answered
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit and not answered:
                answered = True
                await _refuse(send, limit)
            return {"type": "http.disconnect"} if answered else message

        async def unless_answered(message: dict[str, Any]) -> None:
            if not answered:
                await send(message)

        await application(scope, counted, unless_answered)

    return serve


async def _refuse(send: Send, limit: int) -> None:
    response = problems.response(413, BodyTooLarge.default_code, words(limit), limit=limit)
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(response.content)).encode()),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})


class JsonParser(BaseParser):
    """Reads a request's JSON: bounded in bytes, values, depth and digits, before anything is made
    of it.
    """

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Any = None
    ) -> Any:
        view = (parser_context or {}).get("view")
        limit = value(getattr(view, "body_limit", "BODY_BYTES"))
        raw: bytes = stream.read(limit + 1)
        if len(raw) > limit:
            raise BodyTooLarge(limit)
        try:
            return read(raw)
        except UnreadableBody as error:
            raise exceptions.ParseError(f"{error} Nothing was changed.") from error


class UntypedJsonParser(JsonParser):
    """Reads JSON that a program sends without saying so, as `curl -d` does.

    Only with a token: no page of another site can send one. A browser's cookie comes along with any
    site's form, so its owner's requests say `application/json`, which no form can.
    """

    media_type = "*/*"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Any = None
    ) -> Any:
        token = parser_context["request"].auth if parser_context else None
        if (
            not isinstance(token, ApiToken)
            or (media_type or "").partition(";")[0].strip().lower() not in UNTYPED
        ):
            raise exceptions.UnsupportedMediaType(media_type or "")
        return super().parse(stream, media_type, parser_context)


WITH_FILES = [JsonParser, MultiPartParser, UntypedJsonParser]
"""Of addresses whose `input` may hold files: as JSON, or as a form (`runs.api.requests`)."""


def read(raw: bytes | str, *, parts: int = limits.BODY_PARTS) -> Any:
    """The value of a JSON text. Raises UnreadableBody.

    Values are counted before they are made: a megabyte of brackets would become a hundred.
    """
    count_parts(raw, parts=parts)
    try:
        value = json.loads(raw, parse_constant=_no_constant)
    except RecursionError as error:
        raise UnreadableBody("The JSON is nested too deeply.") from error
    except ValueError as error:  # a text that is no UTF-8 too
        raise UnreadableBody(f"This is not JSON: {str(error)[:200]}.") from error
    _check(value)
    return value


def count_parts(raw: bytes | str, *, parts: int) -> None:
    """Raises UnreadableBody where a JSON text may hold more values than `parts`.

    Signs inside its texts count too.
    """
    count = (
        raw.count(b",") + raw.count(b"[") + raw.count(b"{")
        if isinstance(raw, bytes)
        else raw.count(",") + raw.count("[") + raw.count("{")
    )
    if count > parts:
        raise UnreadableBody(f"The JSON holds more than {parts:,} values.")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


LARGEST = 10**limits.NUMBER_DIGITS


def _check(document: Any) -> None:
    """Level by level, so that no depth exhausts Python's own."""
    level, depth = [document], 0
    while level:
        if depth > limits.BODY_DEPTH:
            raise UnreadableBody(f"The JSON is nested more than {limits.BODY_DEPTH} deep.")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif (isinstance(value, float) and value in (float("inf"), float("-inf"))) or (
                isinstance(value, int) and abs(value) >= LARGEST
            ):
                raise UnreadableBody(
                    f"A number is too large: up to {limits.NUMBER_DIGITS} digits are taken."
                )
        level, depth = below, depth + 1
