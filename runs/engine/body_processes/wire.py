"""What a worker and its body processes say to one another: JSON behind its length."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!I")


def send(to: socket.socket, message: Any) -> None:
    """Raises OSError where nobody hears it any more."""
    data = json.dumps(message).encode()
    to.sendall(_LENGTH.pack(len(data)) + data)


def receive(of: socket.socket) -> Any:
    """The next message; None where the other side has ended."""
    head = _exactly(of, _LENGTH.size)
    if head is None:
        return None
    data = _exactly(of, _LENGTH.unpack(head)[0])
    return None if data is None else json.loads(data)


def _exactly(of: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        try:
            part = of.recv(size - len(parts))
        except ConnectionError:
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)
