"""The whole product in real processes: Daphne, Celery workers (prefork), beat, on PostgreSQL and
Redis, or the one embedded process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

from tests.databases import copies
from tests.programs import warm
from tests.programs.begun import UMASK
from tests.servers.private import free_port

ROOT = Path(__file__).resolve().parents[2]
QUEUES = "control,steps,agents,outbound"
SERVERS = {
    "daphne": ("-b", "127.0.0.1", "-p"),
    "uvicorn": (
        "--host",
        "127.0.0.1",
        "--log-level",
        "warning",
        "--ws-per-message-deflate",
        "false",
        "--port",
    ),
}
T = TypeVar("T")
REQUESTS = 0.2
"""Seconds between two that ask how a work order stands: each takes a server's time."""


def until(
    look: Callable[[], T],
    *,
    seconds: float = 60,
    what: str | Callable[[], str] = "it",
    every: float = 0.05,
) -> T:
    """Look again and again until there is something to see; fails with what was seen last.

    Look less often where that takes the product's time and what is waited for stays. What a page's
    listener is to note comes only while Playwright is asked something: look by the page then.
    """
    end = time.monotonic() + seconds
    while not (seen := look()):
        if time.monotonic() > end:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {seconds} s for {told}; saw {seen!r}")
        time.sleep(every)  # nothing tells what other processes have done
    return seen


def threads_of(groups: Collection[int]) -> int:
    """How many threads the processes of these groups have; one that ends meanwhile has none."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.getpgid(int(name)) in groups:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


class Stack:
    """Processes that share a data folder and a database.

    Each runs in a group of its own, so that a kill takes its children along.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self.root = ROOT
        """Where the code stands that is started; another version's is elsewhere."""
        self.processes: list[subprocess.Popen[bytes]] = []
        self.own: dict[str, dict[str, str]] = {}
        """What a process is told alone, by its name."""
        self.under: dict[str, list[str]] = {}
        """Words before its command, by its name."""
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("WAYSTATION_", "TEST_", "DATABASE_", "REDIS_", "DJANGO_"))
        }
        self.environment = {
            **inherited,
            "WAYSTATION_DATA": str(folder / "data"),
            "WAYSTATION_REPOSITORIES": str(folder),
            "WAYSTATION_LEASE_SECONDS": "3",
            "WAYSTATION_SWEEP_SECONDS": "1",
            "WAYSTATION_PATIENCE_SECONDS": "2",
            "WAYSTATION_MCP": "1",
            "WAYSTATION_LANGGRAPH": "1",
            "WAYSTATION_LANGGRAPH_ORIGINS": "https://ui.example",
            "PYTHONUNBUFFERED": "1",
            "WAYSTATION_MODEL_ALLOW": "127.0.0.1",
            **environment,
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = self._begin(
                arguments,
                under=self.under.get(name, []),
                environment={**self.environment, **self.own.get(name, {})},
                output=log,
                errors=log,
            )
        self.processes.append(process)
        return process

    def _begin(
        self,
        arguments: Sequence[str],
        *,
        environment: dict[str, str],
        output: IO[bytes],
        errors: IO[bytes],
        under: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        if not under and warm.may_be(environment):
            return warm.start(
                arguments,
                environment=environment,
                output=output.fileno(),
                errors=errors.fileno(),
                umask=UMASK,
                of_product=self.root == ROOT,
                root=self.root,
            )
        return subprocess.Popen(
            [*under, sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            stdout=output,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            umask=UMASK,
        )

    def web(self, server: str = "daphne") -> subprocess.Popen[bytes]:
        self.environment["DATABASE_POOL"] = "8"
        process = self.start(
            "web", "-m", server, *SERVERS[server], str(self.port), "project.asgi:application"
        )
        del self.environment["DATABASE_POOL"]
        self.wait_for_web()
        return process

    def worker(
        self,
        name: str = "worker",
        *,
        queues: str = QUEUES,
        concurrency: int = 2,
        pool: str = "prefork",
    ) -> subprocess.Popen[bytes]:
        options = [
            f"--pool={pool}",
            f"--concurrency={concurrency}",
            f"--queues={queues}",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            f"--hostname={name}@tests",
        ]
        return self.start(name, "-m", "celery", "-A", "project", "worker", *options)

    def beat(self) -> subprocess.Popen[bytes]:
        return self.start(
            "beat",
            "-m",
            "celery",
            "-A",
            "project",
            "beat",
            "--scheduler=celery.beat:Scheduler",
            "--max-interval=1",
        )

    def standalone(self, *options: str, patience: float = 60) -> subprocess.Popen[bytes]:
        process = self.start(
            "standalone", "manage.py", "standalone", "--port", str(self.port), *options
        )
        self.wait_for_web(patience)
        return process

    def wait_for_web(self, patience: float = 60) -> None:
        server = self.processes[-1]

        def answers() -> bool:
            assert server.poll() is None, f"the server ended: {self.log_tail()}"
            try:
                return self.call("GET", "/login")[0] == 200
            except OSError:
                return False

        until(answers, seconds=patience, what="the server")

    def log_tail(self) -> str:
        return " | ".join(
            path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.log")
        )

    def manage(self, *arguments: str, check: bool = True) -> str:
        with TemporaryFile() as output, TemporaryFile() as errors:
            code = self._begin(
                ["manage.py", *arguments],
                environment=self.environment,
                output=output,
                errors=errors,
            ).wait()
            output.seek(0)
            errors.seek(0)
            said, complained = output.read().decode(), errors.read().decode()
        assert not check or code == 0, complained
        return said + (complained if not check else "")

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """kill -9 of the process and its children."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Let its processes run; from then on they stand still, and cost nothing."""
        self._tell(signal.SIGCONT)
        until(lambda: self.call("GET", "/readyz")[0] == 200, what="signs of life", every=0.2)
        yield
        self._tell(signal.SIGSTOP)

    def _tell(self, what: signal.Signals) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, what)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """One request; gives the status, and the JSON or text of the answer."""
        status, _, answer = self.exchange(method, path, body, token=token, headers=headers)
        return status, answer

    def exchange(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, Any]:
        sent = {
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {token}"} if token else {}),
            **(headers or {}),
        }
        # closed also where no answer came: a server that begins takes connections at once
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            try:
                connection.request(
                    method, path, json.dumps(body) if body is not None else None, sent
                )
                response = connection.getresponse()
                text = response.read().decode()
            except OSError as error:
                error.add_note(self.log_tail())
                raise
        is_json = "json" in (response.getheader("Content-Type") or "")
        return response.status, response.headers, json.loads(text) if is_json and text else text

    def events(
        self, order_id: str, token: str, *, after: int = 0
    ) -> Generator[dict[str, Any], None, None]:
        """The order's events from the live stream, until it ends."""
        path = f"/api/v1/work-orders/{order_id}/logs/stream?after={after}"
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            with connection.getresponse() as response:
                assert response.status == 200, response.read()
                for line in response:
                    if line.startswith(b"data: "):
                        yield json.loads(line[6:])

    def wait_for_log(self, order_id: str, token: str, start: str) -> None:
        """Wait until the order's live log has a line that starts so."""
        with closing(self.events(order_id, token)) as events:
            assert any(str(event["data"].get("message", "")).startswith(start) for event in events)

    def paused(self, order_id: str, token: str, phase: str, *, revision: int = 1) -> dict[str, Any]:
        """Wait until the order asks in this phase."""

        def look() -> dict[str, Any] | None:
            state = self.call("GET", f"/api/v1/work-orders/{order_id}/pause-state", token=token)[1]
            return (
                state
                if state and (state["pause_phase"], state["revision"]) == (phase, revision)
                else None
            )

        found = until(
            look,
            what=lambda: (
                f"{phase} of {order_id}; it is {self.order(order_id, token)}; {self.log_tail()}"
            ),
            every=REQUESTS,
        )
        assert found is not None
        return found

    def order(self, order_id: str, token: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.call("GET", f"/api/v1/work-orders/{order_id}", token=token)[1]
        return answer

    def ended(self, order_id: str, token: str, status: str = "completed") -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            order = self.order(order_id, token)
            return order if order["status"] in {"completed", "failed"} else None

        order = until(look, what=f"the end of {order_id}", every=REQUESTS)
        assert order is not None
        assert order["status"] == status, order
        return order

    def answer(self, order_id: str, token: str, decision: str, **more: Any) -> None:
        status, answer = self.call(
            "POST",
            f"/api/v1/work-orders/{order_id}/resume",
            {"decision": decision, **more},
            token=token,
        )
        assert (status, answer["success"]) == (200, True), answer


class SlowStack(Stack):
    """A stack on the templates of `tests.servers.slow_steps`, which write down what they did."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(folder, environment)
        self.ledger = folder / "ledger"
        self.environment.update(
            {
                "DJANGO_SETTINGS_MODULE": "tests.servers.slow_settings",
                "TEST_LEDGER": str(self.ledger),
            }
        )

    def load(self, more: str = "") -> None:
        """Make the templates, and what some more lines of Python make."""
        self.manage(
            "shell", "-c", f"from tests.servers import slow_steps; slow_steps.load()\n{more}"
        )

    def begin(self, template: str, token: str) -> str:
        """Make a work order; gives its id."""
        status, order = self.call(
            "POST", "/api/v1/work-orders", {"template": template}, token=token
        )
        assert status == 201, order
        return str(order["id"])

    def noted(self, what: str, run: str) -> list[str]:
        """The keys under which a run's steps noted `began` or `done`, in order."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [key for kind, key in map(str.split, lines) if kind == what and key.startswith(run)]


@contextmanager
def standing_alone(folder: Path, *loads: str) -> Iterator[SlowStack]:
    """All in one process on SQLite, whose tables are there; mail goes to files.

    `loads`: code that makes people and templates.
    """
    stack = SlowStack(folder, {})
    copies.sqlite(stack.folder / "data")
    stack.load("".join(loads))
    stack.standalone()
    try:
        yield stack
    finally:
        stack.stop()
