"""`make bench ARGS="steps pause_resume"`: each figure one JSON line, with the machine's own limit
measured in the same run.

`make bench ARGS="races RACE_PAUSES=100"` sets what a bench takes from its environment, here how
many questions it races for.

A line is `{"bench", "case", "value", "unit", "floor", "ratio", "bar", "met"}`. `floor` is B, the
bare commit of one 1 KiB row on the same PostgreSQL (fsync on), sampled right beside the
measurement; machines differ, so read the ratio.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.run import install_missing
from tests.servers.private import postgresql, redis

BENCHES = (
    *(
        "commit_floor",
        "steps",
        "pause_resume",
        "growth",
        "langgraph_saver",
        "scale",
        "fanout",
        "live_latency",
        "torture",
        "races",
        "pages",
        "standalone",
        "faces",
        "desk",
        "patches",
        "pane",
    ),
    *("deadlines", "burst", "idle", "deploys", "peers", "gather"),
)


WITHIN = {
    "faces": "pages.faces",
    "desk": "pages.desk",
    "patches": "pages.patches",
    "pane": "standalone.pane",
    "gather": "children.gather",
}
"""Benches that stand in another's folder."""


def main(words: list[str]) -> int:
    os.environ.update(dict(word.split("=", 1) for word in words if "=" in word))
    names = [word for word in words if "=" not in word]
    unknown = set(names) - set(BENCHES)
    if unknown:
        sys.exit(
            f"No bench is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}."
        )
    install_missing()
    missed = 0
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="waystation-bench-", ignore_cleanup_errors=True)
            )
        )
        folder.chmod(0o755)
        os.environ["DATABASE_URL"] = stack.enter_context(postgresql(folder / "pg", durable=True))
        os.environ["REDIS_URL"] = stack.enter_context(redis(folder))
        os.environ["WAYSTATION_DATA"] = str(folder / "data")
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
        os.environ["LOG_LEVEL"] = "ERROR"
        prepare()
        for name in names or BENCHES:
            for line in importlib.import_module(f"bench.{WITHIN.get(name, name)}").measure():
                print(json.dumps({"bench": name, **line}), flush=True)
                missed += line.get("met") is False
    return 1 if missed else 0


def prepare() -> None:
    """Tables, templates, and the person in whose name work is ordered."""
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from bench import workload

    workload.load()
    User.objects.create_user("bench")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
