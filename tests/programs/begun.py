"""A program that begins warm, and what it says."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile

from tests.programs import warm

UMASK = 0o022
"""As most shells have it: what others on the machine may read is up to Waystation."""


class Begun:
    """`python <arguments>` in the repository's folder or another one, with this environment and
    what warm programs are told. `search`: its PYTHONPATH, for modules that nothing else has.
    """

    def __init__(
        self,
        *arguments: str,
        environment: dict[str, str],
        of_product: bool = True,
        begins_more: bool = False,
        root: Path = warm.ROOT,
        search: str = "",
    ) -> None:
        self._files = [TemporaryFile() for _ in range(2)]  # noqa: SIM115  # closed as it ends
        output, errors = (file.fileno() for file in self._files)
        told = {**environment, **warm.OWN}
        assert warm.may_be(told)
        if search:
            told["PYTHONPATH"] = search
        self.process = warm.start(
            arguments,
            environment=told,
            output=output,
            errors=errors,
            umask=UMASK,
            of_product=of_product,
            begins_more=begins_more,
            root=root,
        )
        self.pid = self.process.pid

    def ended(self, *, within: float | None = None) -> CompletedProcess[str]:
        """Wait for its end; what it ended with, and what it said. Once."""
        code, said = self.process.wait(within), []
        while self._files:
            with self._files.pop(0) as file:
                file.seek(0)
                said.append(file.read().decode())
        return CompletedProcess(self.process.args, code, *said)

    def stands_still(self) -> bool:
        """Whether it was stopped (SIGSTOP); it may not have ended."""
        assert self.process.poll() is None, self.ended()
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def end(self) -> None:
        """Kill it, if it lives."""
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.ended()


def plain() -> dict[str, str]:
    """The environment without what our own test run put into it."""
    ours = ("DATABASE_URL", "TEST_", "WAYSTATION", "DJANGO", "PYTEST", "REDIS")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
