"""Server-sent events as a client reads them."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from asgiref.testing import ApplicationCommunicator

from project.asgi import application
from tests.hitl.live.sockets import PATIENCE


class Stream:
    """An open request."""

    def __init__(self, path, headers, method="GET"):
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
        }
        self.asgi = ApplicationCommunicator(
            application, {**scope, "root_path": "", "scheme": "http", "http_version": "1.1"}
        )
        self.text = ""

    async def open(self):
        await self.asgi.send_input({"type": "http.request", "body": b""})
        start = await self.asgi.receive_output(timeout=PATIENCE)
        self.status = start["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return self

    async def more(self):
        """Read one piece; False when the answer is over."""
        message = await self.asgi.receive_output(timeout=PATIENCE)
        self.text += message.get("body", b"").decode()
        return message.get("more_body", False)

    async def frames(self, count):
        """The first `count` events as (id, event, data)."""
        while len(found := self.parsed()) < count:
            assert await self.more()
        return found[:count]

    async def rest(self):
        while await self.more():
            pass
        return self.parsed()

    def parsed(self):
        found = []
        for block in self.text.split("\n\n")[:-1]:
            fields = dict(
                line.split(": ", 1) for line in block.split("\n") if not line.startswith(":")
            )
            if "data" in fields:
                found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
        return found


@asynccontextmanager
async def stream(path, headers=(), method="GET"):
    async with asyncio.timeout(3 * PATIENCE):
        opened = await Stream(path, list(headers), method).open()
        yield opened
        if not opened.asgi.future.done():
            await opened.asgi.send_input({"type": "http.disconnect"})
            await opened.asgi.wait(timeout=PATIENCE)
