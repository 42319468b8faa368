"""A model's endpoint over real HTTP, which says what a script tells it to: chat completions,
streamed, and every way to fail at it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LISTENS = 0.02
"""Seconds between two signs of life of an answer that is held."""
TAGS = ("<think>", "</think>")
"""Each a token of its own for the models that write them."""
KEY = "sk-a-key-that-nobody-may-read"


@dataclass
class ModelReply:
    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    """(tool, arguments): an object, or the text that the model writes for one."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Mapping[str, Any] = field(default_factory=dict)
    cut: bool = False
    """The connection ends in the middle."""
    hold: threading.Event | None = None
    """After the first word nothing comes until this is set."""
    tokens: tuple[int, int] = (100, 10)
    thinking: str = ""
    """Sent before the text, as `reasoning_content`."""
    refusal: str = ""
    """Sent in the field of that name, in place of the text."""
    finish: str = ""
    """The `finish_reason`; "" for what belongs to a whole answer."""


Script = Callable[[list[dict[str, Any]]], ModelReply]


@dataclass
class Endpoint:
    """`url` is what a template's `base_url` names; `requests` are the bodies that came."""

    script: Script
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)
    """A client closed its connection in the middle of an answer."""


def by_loop(*answers: ModelReply) -> Script:
    """The n-th answer to the n-th request of a turn, however often that comes; the last one from
    then on.
    """

    def script(messages: list[dict[str, Any]]) -> ModelReply:
        last: int = max(
            place for place, message in enumerate(messages) if message["role"] == "user"
        )
        before: int = sum(one["role"] == "assistant" for one in messages[last:])
        return answers[min(before, len(answers) - 1)]

    return script


def in_order(*answers: ModelReply) -> Script:
    """The n-th answer to the n-th request; the last one from then on."""
    left = list(answers)

    def script(messages: list[dict[str, Any]]) -> ModelReply:
        return left.pop(0) if len(left) > 1 else left[0]

    return script


@contextmanager
def serving(script: Script) -> Iterator[Endpoint]:
    endpoint = Endpoint(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.requests.append(body)
            endpoint.keys.append(self.headers.get("Authorization", "").removeprefix("Bearer "))
            _give(self, endpoint, endpoint.script(body["messages"]))

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()


def _give(handler: BaseHTTPRequestHandler, endpoint: Endpoint, answer: ModelReply) -> None:
    if answer.status != 200:
        body = json.dumps({"error": {"message": "no", "type": "x", **answer.error}}).encode()
        handler.send_response(answer.status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **answer.headers,
        }.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)
        return
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.close_connection = True
    try:
        for number, piece in enumerate(_pieces(answer)):
            handler.wfile.write(f"data: {piece}\n\n".encode())
            handler.wfile.flush()
            if number == 1 and answer.cut:
                return
            if number == 1 and answer.hold is not None:
                # a comment now and then finds out whether anybody still listens
                while not answer.hold.wait(LISTENS):
                    handler.wfile.write(b": still here\n\n")
                    handler.wfile.flush()
    except OSError:
        endpoint.hung_up.set()


def _pieces(answer: ModelReply) -> Iterator[str]:
    def piece(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return json.dumps(
            {
                "id": "c1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "test",
                "choices": choices,
                **more,
            }
        )

    yield piece({"role": "assistant", "content": ""})
    for word in answer.thinking.split():
        yield piece({"reasoning_content": f"{word} "})
    for word in answer.refusal.split():
        yield piece({"refusal": f"{word} "})
    for word in answer.text.split(" ") if answer.text or not answer.refusal else []:
        yield piece({"content": word if word in TAGS else f"{word} "})
    for place, (tool, arguments) in enumerate(answer.calls):
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        head = {
            "index": place,
            "id": f"call_{place}",
            "type": "function",
            "function": {"name": tool, "arguments": ""},
        }
        yield piece({"tool_calls": [head]})
        yield piece({"tool_calls": [{"index": place, "function": {"arguments": written}}]})
    yield piece({}, answer.finish or ("tool_calls" if answer.calls else "stop"))
    read, wrote = answer.tokens
    usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
    yield json.dumps(
        {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "test",
            "choices": [],
            "usage": usage,
        }
    )
    yield "[DONE]"


with suppress(AttributeError):  # a client that hangs up is what the tests want
    ThreadingHTTPServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # is quiet
