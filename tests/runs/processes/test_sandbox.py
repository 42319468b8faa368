"""What operators put before command line agents: it gets the order's folders, the agent runs behind
it, and all of it ends together.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from extensions.coding.command import command
from runs import checks, env
from runs.processes import sandbox
from runs.workflows.base import Stopped
from tests.runs.processes.desks import alive, hostile
from tests.runs.processes.desks import desk as desk
from tests.servers.stack import until
from tests.worlds.repositories import failure

pytestmark = pytest.mark.one_database
WALL = Path(__file__).resolve().parents[2] / "programs" / "sandbox.py"


def wall(tmp_path, *places):
    return [sys.executable, str(WALL), str(tmp_path / "note"), *places, "--"]


@pytest.fixture
def walled(desk, tmp_path):
    desk.sandbox = wall(tmp_path, "{workspace}", "rw={home}:{home}", "{tmp}", "{mirror}")
    return desk


def test_an_agent_runs_behind_it_with_the_orders_own_folders(walled, tmp_path):
    """Its answer and its change come through as without; the prompt's placeholders are none of the
    sandbox's.
    """
    script = (
        "import os, pathlib; pathlib.Path('new.txt').write_text(os.environ['BEHIND_THE_WALL']); "
        "print('Done {' + 'home}')"
    )
    walled.config = {"command": [sys.executable, "-c", script], "stdin": True}
    outcome = walled.take(command)
    folder = str(walled.path)
    note = json.loads((tmp_path / "note").read_text())
    assert note["places"] == [
        folder,
        f"rw={folder}.home:{folder}.home",
        f"{folder}.tmp",
        f"{folder}.mirror",
    ]
    assert (note["cwd"], note["home"], note["program"][0]) == (
        folder,
        f"{folder}.home",
        sys.executable,
    )
    assert outcome.update["answer"] == "Done {home}" and walled.read("new.txt") == b"1"
    assert len(walled.subjects()) == 1


def test_the_check_of_a_coding_order_runs_behind_it_too(walled):
    """It runs what the agent wrote."""
    with walled.workspace() as workspace:
        workspace.restore()
        said: list[str] = []
        script = "import os; print(os.environ.get('BEHIND_THE_WALL'))"
        assert (
            workspace.follow([sys.executable, "-c", script], lambda name, line: said.append(line))
            == 0
        )
        assert said == ["1"]


def test_what_an_agent_leaves_behind_the_wall_ends_with_it(walled):
    marker = f"walled-{os.getpid()}-a"
    assert hostile(walled, "daemons", marker).take(command).update["answer"] == "Gone."
    assert alive(marker) == []


def test_a_cancelled_agent_behind_the_wall_is_killed_with_the_wall(walled):
    """It ignores being asked, and is in another session."""
    marker = f"walled-{os.getpid()}-b"

    def check() -> None:
        if any("No." in text for text in walled.said):
            raise Stopped("cancelled")

    began = time.monotonic()
    with pytest.raises(Stopped):
        hostile(walled, "stubborn", marker).attempt(command, check=check)
    assert time.monotonic() - began < 15
    until(lambda: not alive(marker) and not alive(str(WALL)), seconds=20, what="the end of both")


def test_exit_codes_come_through(walled):
    walled.config = {
        "command": [sys.executable, "-c", "raise SystemExit(3)"],
        "stdin": True,
        "exit_codes": {"3": "agent_out_of_credit"},
    }
    assert failure(walled.attempt, command).code == "agent_out_of_credit"


def test_a_missing_wall_or_agent_is_said(walled):
    """An agent is never run without the wall; one that is only inside need not be outside."""
    walled.config = {"command": ["no-such-agent", "{prompt}"]}
    assert failure(walled.attempt, command).code == "program_missing"
    walled.sandbox = ["no-such-wall", "{workspace}"]
    walled.config = {"command": [sys.executable, "-c", "print(1)"], "stdin": True}
    error = failure(walled.attempt, command)
    assert error.code == "program_missing" and "no-such-wall" in str(error)


# the setting


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["bwrap", "{workspce}"], "{workspce}: no placeholder"),
        (["{workspace}", "x"], "The first argument is a program"),
        (["bwrap", "--unshare-pid"], "could not reach the work tree"),
    ],
)
def test_what_cannot_be_meant_stops_the_start(given, words, settings):
    settings.WAYSTATION_COMMAND_SANDBOX = given
    (message,) = checks.as_set_up()
    assert message.id == "runs.E001" and words in message.msg
    assert checks.as_it_is() == []
    with pytest.raises(SystemExit):
        checks.at_start()


def test_a_worker_tries_it_before_it_takes_work(settings, tmp_path):
    settings.WAYSTATION_COMMAND_SANDBOX = []
    checks.at_start()
    settings.WAYSTATION_COMMAND_SANDBOX = wall(
        tmp_path, *(f"{{{name}}}" for name in sandbox.PLACES)
    )
    checks.at_start()
    note = json.loads((tmp_path / "note").read_text())
    assert note["program"] == ["true"] and not Path(note["places"][0]).exists()
    for broken in (
        ["no-such-wall", "{workspace}"],
        [sys.executable, "-c", "raise SystemExit('no namespaces here')", "{workspace}"],
    ):
        settings.WAYSTATION_COMMAND_SANDBOX = broken
        (message,) = checks.as_it_is()
        assert message.id == "runs.E002" and (
            "no namespaces here" in message.msg or "No such file" in message.msg
        )
    with pytest.raises(SystemExit, match="Command line agents"):
        checks.at_start()


@pytest.mark.parametrize("raw", ["bwrap {workspace}", '{"a": 1}', '["a", 1]', '["a\\u0000b"]'])
def test_a_setting_that_is_no_list_of_words_names_the_variable(raw, monkeypatch):
    monkeypatch.setenv("WAYSTATION_COMMAND_SANDBOX", raw)
    with pytest.raises(ImproperlyConfigured, match="WAYSTATION_COMMAND_SANDBOX"):
        env.arguments("WAYSTATION_COMMAND_SANDBOX")


def test_a_list_of_words_is_one(monkeypatch):
    assert env.arguments("WAYSTATION_COMMAND_SANDBOX") == []
    monkeypatch.setenv("WAYSTATION_COMMAND_SANDBOX", '["bwrap", "{workspace}"]')
    assert env.arguments("WAYSTATION_COMMAND_SANDBOX") == ["bwrap", "{workspace}"]
