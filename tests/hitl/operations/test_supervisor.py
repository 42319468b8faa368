"""What the process above the embedded server does at what its servers say."""

from __future__ import annotations

import signal
import socket
from typing import Any

import pytest

from hitl.management import supervisor


@pytest.fixture
def above(monkeypatch):
    """A supervisor that forks nothing, with the servers that it should have begun in `begun`."""
    begun: list[Any] = []

    def fork(self: Any, *, beside: bool) -> None:
        self._changed = False
        ours, its = socket.socketpair()
        server = supervisor._Server(len(begun) + 1, ours, 0.0, has_port=not beside)
        self._servers.append(server)
        begun.append((server, its))

    monkeypatch.setattr(supervisor._Supervisor, "_fork", fork)
    monkeypatch.setattr(supervisor._Server, "code", lambda self: 0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket.socket() as listener:
        one: Any = supervisor._Supervisor(listener, print)
        one.begun = begun
        one._fork(beside=False)
        yield one
    for server, its in begun:
        server.connection.close()
        its.close()


@pytest.mark.parametrize("saved", ["while the one before ends", "once it has ended"])
def test_a_file_that_is_saved_soon_after_another_is_loaded_too(above, saved):
    """What the new server said of it while the one before finished its requests was not heard, and
    it did not say it again: the file was served as it was until the next save.
    """
    [first] = above._servers
    above._hear(first, supervisor.READY)
    above._hear(first, supervisor.CHANGED)
    second = above._servers[1]
    above._hear(second, supervisor.LOADED)
    above._hear(first, supervisor.CLOSED)
    above._hear(second, supervisor.READY)
    if saved == "while the one before ends":
        above._hear(second, supervisor.CHANGED)
        assert len(above.begun) == 2, "there are two servers at most"
    above._hear(first, b"")
    if saved == "once it has ended":
        assert len(above.begun) == 2
        above._hear(second, supervisor.CHANGED)
    assert above._servers == [server for server, _ in above.begun[1:]]
    assert len(above.begun) == 3
    assert not above._servers[1].has_port
