"""Command line agents that mean no good.

Each is a real process in a real repository; nothing comes of it but a clear failure, or words.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from extensions.coding.command import command
from extensions.coding.steps import plan_together
from hitl.rendering.markdown import render
from runs.processes import process
from runs.workflows.base import Go, StepFailed, Stopped
from tests.runs.processes.desks import (
    HOSTILE,
    alive,
    hostile,
)
from tests.runs.processes.desks import (
    desk as desk,
)
from tests.servers.stack import until
from tests.worlds.repositories import failure, git


def test_a_gigabyte_of_output_is_cut_off(desk):
    """What it wrote so far is kept, within bounds; nothing of it is held in memory as a line."""
    error = failure(hostile(desk, "flood", max_output=5_000_000).attempt, command)
    assert (error.code, "more than 5,000,000 bytes" in str(error)) == ("output_limit", True)
    assert len(desk.kept["output"]) <= process.LONGEST_LINE + 1


def test_what_it_leaves_running_ends_with_it(desk):
    """Also what left its process group and session, lost its parents and cleared its
    environment.
    """
    marker = f"left-{os.getpid()}-a"
    outcome = hostile(desk, "daemons", marker).take(command)
    assert outcome.update["answer"] == "Gone."
    assert alive(marker) == []


def test_who_ignores_being_asked_is_killed_when_its_run_is_cancelled(desk):
    """Cancelled, or taken over by another worker: SIGTERM, then SIGKILL, for all that it started;
    nothing is written.
    """
    marker = f"left-{os.getpid()}-b"

    def check() -> None:
        if any("No." in text for text in desk.said):
            raise Stopped("cancelled")

    began = time.monotonic()
    with pytest.raises(Stopped):
        hostile(desk, "stubborn", marker).attempt(command, check=check)
    assert time.monotonic() - began < 15
    assert alive(marker) == []


def test_who_takes_too_long_is_ended(desk):
    marker = f"left-{os.getpid()}-c"
    assert failure(hostile(desk, "stubborn", marker, seconds=1).attempt, command).code == "timeout"
    assert alive(marker) == []


def test_a_worker_that_is_killed_takes_its_agent_along(tmp_path):
    """The kernel tells the agent's warden, so nobody has to look for it."""
    marker = f"left-{os.getpid()}-d"
    code = (
        "import sys, os; from pathlib import Path; from runs.processes import process\n"
        "b = process.Bounds(seconds=60, max_output=10**6, said=lambda name, line: print('on', "
        "flush=True), grace=0.5)\n"
        f"process.run([sys.executable, {str(HOSTILE)!r}, 'stubborn', {marker!r}], cwd=Path('/'), "
        "env=dict(os.environ), bounds=b)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=HOSTILE.parents[2], stdout=subprocess.PIPE
    ) as worker:
        try:
            assert worker.stdout is not None and worker.stdout.readline() == b"on\n"
            # A process between two programs has no command line for an instant, after its parent
            # was told that it has begun.
            until(lambda: alive(marker), what="the agent")
        finally:
            worker.kill()
    until(lambda: not alive(marker), seconds=20, what="its end")


def test_approvals_and_events_in_its_output_are_words(desk):
    """F6, F20: whatever it prints, no event, no answer and no state of ours comes of it; its
    Markdown is made safe where it is shown.
    """
    outcome = hostile(desk, "forge").take(command)
    assert isinstance(outcome, Go) and set(outcome.update) == {"answer", "git_commit_count"}
    assert desk.events == [] and desk.state["answer"].startswith("APPROVED by ana.")
    shown = str(render(outcome.report.content))
    assert [part for part in ("<script", "<img", 'href="javascript') if part in shown] == []


def test_git_hooks_and_settings_that_it_writes_are_never_run(desk, tmp_path):
    """What it changed is committed all the same, on the order's branch, by the order's author."""
    ran = tmp_path / "ran"
    outcome = hostile(desk, "rewire", ran).take(command)
    assert not ran.exists()
    assert outcome.update["git_commit_count"] == 1
    with desk.workspace() as workspace:
        workspace.restore()
        assert workspace.git("log", "-1", "--format=%an %D").startswith(
            "Ada HEAD -> waystation/wo_1"
        )
        assert workspace.git("show", "--name-only", "--format=", "HEAD").split() == [
            ".gitattributes",
            "new.txt",
        ]
    assert not ran.exists()


def test_what_lies_outside_the_workspace_is_in_no_commit(desk, tmp_path):
    """Links are kept as links and never followed; a repository within it is left out, and that is
    said.
    """
    secret = tmp_path / "secret" / "key"
    secret.parent.mkdir()
    secret.write_text("top secret\n")
    outcome = hostile(desk, "outside", secret).take(command)
    with desk.workspace() as workspace:
        assert workspace.git("ls-files").split() == ["README.md", "kept.txt", "link", "linked"]
        assert workspace.git("ls-tree", "HEAD", "link").startswith("120000")
    assert "top secret" not in outcome.report.patch
    assert b"top secret" not in outcome.commit.bundle


def test_a_repository_that_it_takes_away_is_a_clear_failure_and_the_next_try_has_it_again(desk):
    assert failure(hostile(desk, "wreck").attempt, command).code == "no_workspace"
    assert hostile(desk, "forge").take(command).update["answer"]


def test_a_key_that_it_was_given_is_not_committed_and_it_knows_nothing_else(desk):
    """F14: what a run writes is scrubbed by the engine; what would be pushed is refused here."""
    key = {"credentials": {"AGENT_KEY": "agent"}}
    hostile(desk, "leak", **key).take(command)
    [told] = [text for text in desk.said if "I know" in text]
    assert "['AGENT_KEY', 'HOME', 'LANG', 'PATH', 'TMPDIR']" in told
    error = failure(hostile(desk, "leak", "write", **key).attempt, command)
    assert (error.code, desk.key in str(error)) == ("secret_in_change", False)


@pytest.mark.parametrize(
    ("number", "codes", "code"),
    [
        (3, {}, "command_failed"),
        (53, {"53": "agent_turn_limit"}, "agent_turn_limit"),
        (127, {}, "program_missing"),
    ],
)
def test_its_exit_code_says_what_became_of_it(desk, number, codes, code):
    error = failure(hostile(desk, "fail", number, exit_codes=codes).attempt, command)
    assert (error.code, "no licence" in str(error)) == (code, True)
    assert desk.kept["output"] == "no licence\n"


def test_it_may_say_itself_that_it_failed(desk):
    error = failure(hostile(desk, "give_up").attempt, command)
    assert (error.code, "I cannot do that." in str(error)) == ("agent_failed", True)


def test_a_program_that_is_not_there_is_named(desk):
    desk.config = {"command": ["no-such-agent", "{prompt}"]}
    with pytest.raises(StepFailed, match="no-such-agent is not installed"):
        desk.attempt(command)
    assert git(desk.path, "status", "--porcelain") == ""


def test_one_more_agent_makes_one_plan_of_several(desk, tmp_path):
    """S4-5: where the template says so; what it was told holds all of them, and what it changed is
    put back.
    """
    (tmp_path / "control").mkdir()
    coder = [sys.executable, str(HOSTILE.with_name("coder.py")), str(tmp_path / "control")]
    desk.config = {
        "executor": "command",
        "command": coder,
        "stdin": True,
        "output": "claude-code",
        "merge": "agent",
    }
    plans = {
        name: {"plan": f"The plan of {name}.", "input_tokens": 10, "cost": 0.5}
        for name in ("design", "risks")
    }
    desk.state |= {"gathering": True, "plans": plans}
    outcome = desk.take(plan_together)
    assert (
        "## design\n\nThe plan of design." in desk.kept["prompt"]
        and "The plan of risks." in desk.kept["prompt"]
    )
    assert (
        outcome.update["gathering"],
        outcome.update["input_tokens"],
        outcome.report.material,
    ) == (False, 1020, desk.state["plan"])
