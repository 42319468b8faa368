"""A model's endpoint that speaks Anthropic's messages, streamed: it wants the calls of a script,
one message after the other, and ends with what they gave.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Block = dict[str, Any]
Script = Sequence[Mapping[str, Any] | Sequence[Mapping[str, Any]]]


@contextmanager
def wanting(calls: Script) -> Iterator[str]:
    """The address of an endpoint whose model wants these calls, `{"name", "input"}` each, or
    several of them in one message; `{tree}` is where the agent says that it works.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "count_tokens" in self.path:
                return self._give("application/json", b'{"input_tokens": 10}')
            return self._give("text/event-stream", _streamed(_blocks(body, calls)))

        def do_HEAD(self) -> None:
            self._give("text/plain", b"")

        def _give(self, kind: str, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _blocks(body: Any, calls: Script) -> list[Block]:
    """What the model answers: the calls of the next message, or what all of them gave."""
    offered = {tool["name"] for tool in body.get("tools", [])}
    results = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]
    tree = re.search(r"Primary working directory: ([^\\\n]+)", json.dumps(body))
    script = json.loads(json.dumps(calls).replace("{tree}", tree[1] if tree else ""))
    number = 0
    for message in ([call] if isinstance(call, dict) else call for call in script):
        if number == len(results) and all(call["name"] in offered for call in message):
            return [
                {"type": "tool_use", "id": f"toolu_{place}", **call}
                for place, call in enumerate(message, start=number)
            ]
        number += len(message)
    return [{"type": "text", "text": "\n".join(str(result["content"]) for result in results)}]


def _streamed(blocks: Sequence[Block]) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted"}
    used = {"input_tokens": 100, "output_tokens": 10}
    events: list[tuple[str, Any]] = [
        ("message_start", {"message": {**message, "content": [], "usage": used}})
    ]
    for number, block in enumerate(blocks):
        if block["type"] == "text":
            begins: Block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"] or "Done."}
        else:
            begins = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            ("content_block_start", {"index": number, "content_block": begins}),
            ("content_block_delta", {"index": number, "delta": delta}),
            ("content_block_stop", {"index": number}),
        ]
    why = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
    events += [
        ("message_delta", {"delta": {"stop_reason": why}, "usage": {"output_tokens": 10}}),
        ("message_stop", {}),
    ]
    return b"".join(
        f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()
        for name, data in events
    )
