"""A proxy that cuts streams in their middle, as networks do."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress


class Cutter:
    """Forwards what comes to a port; each of the first event streams is cut after so many bytes."""

    def __init__(self, port: int, after: Iterable[int]) -> None:
        self.port = port
        self.left = list(after)
        self.cuts = 0
        self.serving: set[asyncio.Task[None]] = set()
        self.ends: set[asyncio.StreamWriter] = set()

    async def end(self) -> None:
        """Close what is open: sockets that are left to the garbage collection fail a later test.
        (A cancelled task of a server's connection is reported as an error by asyncio itself.)
        """
        for end in self.ends:
            end.transport.abort()
        await asyncio.gather(*self.serving, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = asyncio.current_task()
        assert mine is not None
        self.serving.add(mine)
        ends = [writer]
        self.ends.add(writer)
        ways: list[asyncio.Task[None]] = []
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.port)
            ends.append(back)
            self.ends.add(back)
            ways += [
                asyncio.create_task(self._pass(reader, back)),
                asyncio.create_task(self._back(there, writer)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in ends:
                end.transport.abort()
            await asyncio.gather(
                *ways, *(end.wait_closed() for end in ends), return_exceptions=True
            )
            self.serving.discard(mine)
            self.ends.difference_update(ends)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        most: int | None = None
        with suppress(ConnectionError):
            while piece := await reader.read(65_536):
                if most is None and self.left and _is_stream(piece):
                    most = self.left.pop(0) + piece.index(b"\r\n\r\n")
                if most is not None and len(piece) >= most:
                    writer.write(piece[:most])
                    await writer.drain()
                    self.cuts += 1
                    return
                most = None if most is None else most - len(piece)
                writer.write(piece)
                await writer.drain()


def _is_stream(piece: bytes) -> bool:
    return b"text/event-stream" in piece or b"101 Switching" in piece


@asynccontextmanager
async def cutting(port: int, after: Iterable[int]) -> AsyncIterator[tuple[str, Cutter]]:
    """Its address, and the proxy. `after`: bytes of each stream, behind its headers."""
    cutter = Cutter(port, after)
    server = await asyncio.start_server(cutter.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", cutter
    finally:
        server.close()
        await cutter.end()
        # of clients that were cut while they connected anew, asyncio leaves transports behind
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
