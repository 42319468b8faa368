"""Many watchers in one process, as cheap as they can be: `python -m bench.clients.watchers` with
its wish as JSON on stdin; speaks JSON lines.

First `{"open": n}` when all are connected and silent, then, after all events or a time limit, what
each of them saw.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import struct
import sys
import time
from typing import Any

LINE = 2**22


async def sse(wish: dict[str, Any], path: str, seen: list[Any]) -> None:
    """Server-sent events; the frames' chunks are short, so lines are looked for in what comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", wish["port"], limit=LINE)
    writer.write(
        (
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
            f"{wish['token']}\r\n\r\n"
        ).encode()
    )
    status = await reader.readline()
    assert b" 200 " in status, status
    while (await reader.readline()).strip():
        pass
    await reader.readuntil(b"retry: 2000")
    seen.append("open")
    while line := await reader.readline():
        if line.startswith(b"data: "):
            took(seen, json.loads(line[6:]))


async def ws(wish: dict[str, Any], path: str, seen: list[Any]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", wish["port"], limit=LINE)
    key = base64.b64encode(os.urandom(16)).decode()
    upgrade = (
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\n"
    )
    writer.write(
        (
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{upgrade}Authorization: Bearer "
            f"{wish['token']}\r\n\r\n"
        ).encode()
    )
    status = await reader.readline()
    assert b" 101 " in status, status
    while (await reader.readline()).strip():
        pass
    send(writer, 1, b'{"type": "ping"}')
    while True:
        opcode, payload = await frame(reader)
        if opcode == 8:
            return
        if opcode == 9:
            send(writer, 10, payload)
        if opcode == 1:
            message = json.loads(payload)
            if message.get("type") == "pong":
                seen.append("open")
            elif "seq" in message:
                took(seen, message)


async def frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, length = await reader.readexactly(2)
    if length == 126:
        (length,) = struct.unpack(">H", await reader.readexactly(2))
    elif length == 127:
        (length,) = struct.unpack(">Q", await reader.readexactly(8))
    return first & 15, await reader.readexactly(length)


def send(writer: asyncio.StreamWriter, opcode: int, payload: bytes) -> None:
    """A masked frame; a mask of zeros leaves the bytes as they are."""
    assert len(payload) < 126
    writer.write(bytes([128 | opcode, 128 | len(payload)]) + bytes(4) + payload)


async def redis(wish: dict[str, Any], path: str, seen: list[Any]) -> None:
    """The machine's own limit: plain Redis publishing to as many connections."""
    reader, writer = await asyncio.open_connection("127.0.0.1", wish["redis_port"], limit=LINE)
    writer.write(b"SUBSCRIBE bench-fanout\r\n")
    await reader.readuntil(b":1\r\n")
    seen.append("open")
    while True:
        line = await reader.readline()
        if line.startswith(b"{"):
            took(seen, json.loads(line))


def took(seen: list[Any], event: dict[str, Any]) -> None:
    sent = event["data"].get("sent")
    if sent is not None:
        seen.append((event["seq"], time.time() - sent))


async def main() -> None:
    wish = json.loads(sys.stdin.readline())
    watch = {"sse": sse, "ws": ws, "redis": redis}[wish["kind"]]
    seen: list[list[Any]] = [[] for _ in wish["paths"]]
    tasks = []
    for path, mine in zip(wish["paths"], seen, strict=True):
        tasks.append(asyncio.create_task(watch(wish, path, mine)))
        # Daphne refuses a handshake that it has not answered within five seconds
        await until(lambda: len(tasks) - sum(map(bool, seen)) < 40, tasks)
    await until(lambda: all(seen), tasks)
    print(json.dumps({"open": sum(map(bool, seen))}), flush=True)
    await until(lambda: all(len(mine) > wish["events"] for mine in seen), tasks)
    await asyncio.sleep(0.5)  # what comes twice would come now
    waits = [[wait for _, wait in mine[1:]] for mine in seen]
    doubled = sum(len(mine[1:]) - len({seq for seq, _ in mine[1:]}) for mine in seen)
    missed = sum(wish["events"] - len({seq for seq, _ in mine[1:]}) for mine in seen)
    ordered = all(
        [seq for seq, _ in mine[1:]] == sorted(seq for seq, _ in mine[1:]) for mine in seen
    )
    print(
        json.dumps(
            {
                "waits": [wait for mine in waits for wait in mine],
                "later": [wait for mine in waits for wait in mine[1:]],
                "doubled": doubled,
                "missed": missed,
                "ordered": ordered,
            }
        ),
        flush=True,
    )
    for task in tasks:
        task.cancel()


async def until(true: Any, tasks: list[asyncio.Task[None]], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        for task in tasks:
            if task.done() and task.exception():
                task.result()
        await asyncio.sleep(0.02)  # looks again: the servers are other processes


if __name__ == "__main__":
    asyncio.run(main())
