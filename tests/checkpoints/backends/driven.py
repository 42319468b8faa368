"""The driver of the contract's processes, begun warm: Django is what most of its start costs."""

from __future__ import annotations

import io
import os
import signal
import sys

from checkpoints.testing import driver
from tests.programs import warm


class Driven:
    """As `subprocess.Popen` is used by the contract."""

    def __init__(self, order: str, environment: dict[str, str]) -> None:
        reads, writes = os.pipe()
        self.stdout = os.fdopen(reads)
        try:
            words = ["-m", __name__, order]
            told = {**environment, **warm.OWN}
            assert warm.may_be(told)
            self.process = warm.start(words, environment=told, output=writes, errors=2, umask=0o022)
        finally:
            os.close(writes)
        self.returncode: int | None = None

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        with self.stdout:
            said = self.stdout.read()
        self.returncode = self.process.wait(timeout)
        return said, None

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.stdin = io.StringIO(sys.argv[1])
    driver.main()
