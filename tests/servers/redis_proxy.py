"""A proxy in front of a private Redis that counts the commands that go through it, and breaks Redis
at the n-th of them.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.servers.private import Redis, free_port

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: the connection ends with a reset, as that of a killed server does."""
ANSWER_SECONDS = 0.02
"""What Redis gets to carry out a command whose answer the client shall not hear."""
Direction = Callable[[socket.socket, socket.socket, threading.Event], None]
PREFIXES = (
    "unacked",
    "_kombu",
    "steps",
    "control",
    "agents",
    "outbound",
    "specific",
    "asgi",
    "waystation",
    "celery",
)


@dataclass(frozen=True)
class Command:
    """One command that a client sent.

    `name` has its first argument where that is a key of the product's.
    """

    name: str
    raw: bytes


class Commands:
    """Takes a client's bytes, gives whole commands: RESP arrays of bulk strings, which is all that
    clients send.
    """

    def __init__(self) -> None:
        self.buffer = b""

    def feed(self, data: bytes) -> list[Command]:
        self.buffer += data
        found = []
        while (command := self._next()) is not None:
            found.append(command)
        return found

    def _next(self) -> Command | None:
        end = self.buffer.find(b"\r\n")
        if end < 0:
            return None
        assert self.buffer[:1] == b"*", self.buffer[:40]
        place, words = end + 2, []
        for _ in range(int(self.buffer[1:end])):
            end = self.buffer.find(b"\r\n", place)
            if end < 0:
                return None
            size = int(self.buffer[place + 1 : end])
            place = end + 2 + size + 2
            if len(self.buffer) < place:
                return None
            words.append(self.buffer[end + 2 : end + 2 + size].decode(errors="replace"))
        raw, self.buffer = self.buffer[:place], self.buffer[place:]
        return Command(_name(words), raw)


def _name(words: list[str]) -> str:
    key = words[1] if len(words) > 1 else ""
    stem = next((prefix for prefix in PREFIXES if key.startswith(prefix)), "")
    return f"{words[0].upper()} {stem}".strip()


@dataclass
class RedisProxy:
    """Clients connect to `url`.

    `arm(n, how)` breaks Redis at the n-th command from now on (of this name, where one is given:
    `BRPOP`, `LPUSH`), and `mend()` ends that.

    How:
        kill: Redis is killed before the command reaches it, with all that it kept, and refuses
            connections.
        cut: Redis carries the command out, but all connections are reset before the answer comes.
            It keeps all.
        hang: Redis is stopped (SIGSTOP) with the command in its hands.
        oom, readonly: Redis refuses what writes.
        loading: it refuses everything.
    """

    redis: Redis
    port: int = field(default_factory=free_port)
    names: list[str] = field(default_factory=list)
    """The commands since it was armed."""
    broken: threading.Event = field(default_factory=threading.Event)
    _at: int = 0
    _how: str = ""
    _only: str = ""
    _refuses: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: set[tuple[socket.socket, socket.socket]] = field(default_factory=set)
    """Clients, each with its connection to Redis."""
    _keeping: threading.Lock = field(default_factory=threading.Lock)
    _listener: socket.socket | None = None
    _listening: list[threading.Thread] = field(default_factory=list)
    _carrying: list[threading.Thread] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._listen()

    def stop(self) -> None:
        """No socket of it is open after this, and no thread is left."""
        self._close_listener()
        for thread in self._listening:  # they add to what is to be reset
            thread.join(10)
        self._reset_all()
        for thread in self._carrying:
            thread.join(10)

    def arm(self, number: int, how: str, *, only: str = "") -> None:
        """Break at the command of that number; with 0 only count."""
        with self._lock:
            self.names, self._at, self._how, self._only = [], number, how, only
            self.broken.clear()

    def mend(self) -> None:
        """End what was broken; harmless where nothing is."""
        with self._lock:
            was, self._at = self._how if self.broken.is_set() else "", 0
            match was:
                case "kill":
                    self.redis.start()
                    self._listen()
                case "hang":
                    self._signal(signal.SIGCONT)
                case "oom":
                    self._ask("CONFIG", "SET", "maxmemory", "0")
                case "readonly":
                    self._ask("REPLICAOF", "NO", "ONE")
                case "loading":
                    self._refuses = False

    def _break(self, send: Callable[[], None]) -> None:
        """Call with the lock held: nothing else goes through meanwhile.

        `send` lets the command through.
        """
        match self._how:
            case "kill":
                self.redis.kill()
                self._close_listener()
                self._reset_all()
            case "cut":
                send()
                time.sleep(ANSWER_SECONDS)  # the server works on it, and nobody hears of it
                self._reset_all()
            case "hang":
                self._signal(signal.SIGSTOP)
                send()
            case "oom":
                self._ask("CONFIG", "SET", "maxmemory", "1")
                send()
            case "readonly":
                self._ask("REPLICAOF", "127.0.0.1", "1")
                send()
            case "loading":
                self._refuses = True
        self.broken.set()

    def _signal(self, how: signal.Signals) -> None:
        assert self.redis.process is not None
        self.redis.process.send_signal(how)

    def _ask(self, *words: str) -> None:
        with socket.create_connection(("127.0.0.1", self.redis.port), timeout=5) as own:
            own.sendall(
                b"*%d\r\n" % len(words)
                + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
            )
            answer = own.recv(1000)
            assert answer.startswith(b"+OK"), answer

    def _listen(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port))
        self._listener = listener
        self._listening.append(_begin(self._accept, listener))

    def _close_listener(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                if self._listener is not listener:
                    return
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.redis.port))
            # whoever comes while Redis is killed is refused, whether or not more may come
            except OSError:
                _reset(client)
                continue
            self._carry(client, server)

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on what both say, until one of them has no more to say, or `_reset_all`."""
        pair = (client, server)
        with contextlib.suppress(OSError):  # the client may have gone already
            for one in pair:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        silent = threading.Event()
        with self._keeping:
            self._open.add(pair)
        for work in (self._to_server, self._to_client):
            self._carrying.append(_begin(self._until_the_end, work, client, server, silent))

    def _reset_all(self) -> None:
        with self._keeping:
            pairs, self._open = self._open, set()
        for pair in pairs:
            for one in pair:
                _reset(one)

    def _until_the_end(
        self, work: Direction, client: socket.socket, server: socket.socket, silent: threading.Event
    ) -> None:
        """In a thread: however it ends, both sockets are closed then."""
        try:
            with contextlib.suppress(OSError):
                work(client, server, silent)
        finally:
            with self._keeping:
                self._open.discard((client, server))
            for one in (client, server):
                _reset(one)

    def _to_server(
        self, client: socket.socket, server: socket.socket, silent: threading.Event
    ) -> None:
        commands = Commands()
        while data := client.recv(65536):
            self._pass(commands.feed(data), client, server, silent)

    def _to_client(
        self, client: socket.socket, server: socket.socket, silent: threading.Event
    ) -> None:
        while data := server.recv(65536):
            if not silent.is_set():
                client.sendall(data)

    def _pass(
        self,
        batch: list[Command],
        client: socket.socket,
        server: socket.socket,
        silent: threading.Event,
    ) -> None:
        for command in batch:
            with self._lock:
                counts = command.name.startswith(self._only)
                if counts:
                    self.names.append(command.name)
                if counts and len(self.names) == self._at:

                    def send(raw: bytes = command.raw) -> None:
                        if self._how == "cut":
                            silent.set()
                        server.sendall(raw)

                    self._break(send)
                    if not self._refuses:
                        continue
                if self._refuses:
                    client.sendall(b"-LOADING Redis is loading the dataset in memory\r\n")
                    continue
            server.sendall(command.raw)


def _begin(work: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, name="redis-proxy", daemon=True)
    thread.start()
    return thread


def _reset(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        one.shutdown(socket.SHUT_RDWR)
    one.close()
