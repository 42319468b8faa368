"""`make drills ARGS="redis_full silent_beat"`: each drill by name, all of them without one.

    DRILL_SECONDS=20 make drills ARGS=redis_full

makes its trouble last for 20 seconds instead of 120. Each has PostgreSQL and Redis of its own, and
prints one line of JSON; exits with 1 where one found a breach.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.chaos.__main__ import prepare, servers
from bench.drills import DRILLS
from tests.run import install_missing

LEASE = 9.0


def main(names: list[str]) -> int:
    if unknown := set(names) - set(DRILLS):
        sys.exit(f"No drill is called {', '.join(sorted(unknown))}; there are {', '.join(DRILLS)}.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends as well
    if len(names) != 1:  # Django knows one database for as long as its process lives
        return max(alone(name) for name in names or DRILLS)
    install_missing()
    (name,) = names
    line = {"drill": name, "load": os.getloadavg()[0], **drill(name)}
    print(json.dumps(line), flush=True)
    return 1 if line.get("breaches") else 0


def alone(name: str) -> int:
    """The drill in a process of its own."""
    with subprocess.Popen([sys.executable, "-m", "bench.drills", name]) as child:
        try:
            return child.wait()
        except BaseException:
            child.terminate()
            raise


def drill(name: str) -> dict[str, Any]:
    fault = importlib.import_module(f"bench.drills.{name}").DRILL
    if reason := fault.possible():
        return {"not_possible": reason}
    with tempfile.TemporaryDirectory(
        prefix="waystation-drill-", ignore_cleanup_errors=True
    ) as place:
        folder = Path(place)
        folder.chmod(0o755)
        with servers(folder, argparse.Namespace(hosts=False)) as (postgresql, redis, _):
            stack = prepare(folder, postgresql.url, redis, lease=LEASE)
            from bench.drills.world import Drive, Product  # they know the models

            world = Product(stack, postgresql, redis, lease=LEASE)
            try:
                return Drive(world, name, fault).run()
            finally:
                world.stop()
                if keep := os.environ.get("DRILL_LOGS"):
                    subprocess.run(["cp", *folder.glob("*.log"), keep], check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
