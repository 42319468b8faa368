"""A workflow builds nothing that it works with: whoever runs it hands that in."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers.stack import ROOT

pytestmark = pytest.mark.one_database

PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
from runs.git.workspace import GitWorkspace
from runs.workflows.base import Context, StepFailed
from extensions.coding.command import command
from tests.worlds.repositories import make_repository, never, order_for

folder, told, kept = Path(sys.argv[1]), [], {}
order = order_for(make_repository(folder / "project", {"README.md": "# Project"}), request="Do it.")
agent = [sys.executable, "-c", "import os; open('new.txt', 'w').write(os.environ['KEY']); print('Done.')"]
with GitWorkspace(folder / "workspace", order, at=None, check=never) as workspace:
    context = Context(
        run_id="run_1", step="s", loop_num=1, key="k", order=order, workspace=workspace, check=never,
        config={"command": agent, "stdin": True, "credentials": {"KEY": "agent"}},
        log=lambda message, **data: told.append(message), once=lambda key, compute, tell=None: compute(),
    )
    context = replace(context, keep=kept.__setitem__, credential=lambda name: f"of-{name}", stream=told.append)
    try:
        command({"revision_feedback": ""}, context)
    except StepFailed as error:
        print(error.code)
    print(kept["output"].strip(), kept["prompt"].strip())
print(sorted({name.partition(".")[0] for name in sys.modules} & {"django", "celery", "channels", "redis"}))
"""


def test_a_step_does_all_its_work_with_what_it_is_handed(tmp_path):
    """S4-25: workspace, agent, credentials, log, artifacts.

    In a process without Django, Celery or a database, so there is nothing else.

    The credential that it was handed is in what the agent wrote; the step knows that from the same
    hand, and refuses the change.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["secret_in_change", "Done. Do it.", "[]"], done.stderr
