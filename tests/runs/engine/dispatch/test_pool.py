"""The end of body processes that have no work: each sends what it has. Looked at in a process of
its own, which is single-threaded as a worker is when it makes their server.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.programs.begun import Begun

WORK = """
import sys, threading, time, uuid
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch
import django
django.setup()
from runs.engine.body_processes import child, fork_server
from runs.engine.dispatch import pool
from runs.engine.workers import lease

def work(run_id):
    if run_id.endswith("1"):
        child.here.spoiled = "it left something"

def leave():
    time.sleep(0.3)
    with Path(sys.argv[1]).open("a") as sent:
        sent.write("sent ")

server = fork_server.start(work, leave=leave)
pool.use(server, {})
with patch.object(lease, "renewed", lambda _: nullcontext()):
    for number in (1, 2):
        assert pool.here().take_up(uuid.UUID(int=number)) == []
pool.end()
print("ended")
"""


def test_a_worker_that_ends_waits_for_what_its_idle_and_its_spoiled_processes_send(tmp_path: Path):
    sent = tmp_path / "sent"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "project.settings"}
    done = Begun("-c", WORK, str(sent), environment=environment).ended(within=60)
    assert done.stdout == "ended\n", done.stderr
    assert sent.read_text() == "sent sent "
