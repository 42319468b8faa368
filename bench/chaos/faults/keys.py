"""The web is killed with `kill -9` while orders are asked for under keys, and at every statement of
every address that makes something.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault
from tests.servers.stack import ROOT

if TYPE_CHECKING:
    from bench.chaos.world import World

EVERY = 5
"""Each fault of this number is a round of `tests.killed.keys`, which begins where the one before
ended.
"""
ROUND_SECONDS = 45


class Keys(Fault):
    """The web is killed while each order is asked for under a key; and beside it every creating
    address, at each statement and COMMIT, on a server that is killed there: the same key then
    answers truly, and one thing is made per key, counted from outside.
    """

    def __init__(self) -> None:
        self._turn = self._done = 0

    def make(self, world: World) -> str:
        self._turn += 1
        if self._turn % EVERY == 0:
            return self._every_address(world)
        with world.outage():
            world.kill(world.hosts["web"])
            world.start("web")
        world.await_recovery("keys", since=time.monotonic())
        return "kill web"

    def _every_address(self, world: World) -> str:
        environment = {
            **os.environ,
            "DATABASE_URL": world.postgresql.url,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "WAYSTATION_DATA": str(world.folder / "keys"),
            "REDIS_URL": "",
            "LOG_LEVEL": "CRITICAL",
        }
        command = [
            sys.executable,
            "-m",
            "tests.killed.keys",
            "--seconds",
            str(ROUND_SECONDS),
            "--from",
            str(self._done),
        ]
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if not ran.stdout:
            world.breach("wrong", f"keys: {ran.stderr[-500:]}")
            return "every address"
        report = json.loads(ran.stdout.splitlines()[-1])
        self._done = report["next"]
        for words in report["wrong"]:
            world.breach("doubled" if "it left" in words else "wrong", f"keys: {words}")
        return "every address"


FAULT = Keys()
