"""A coding order from its request to its pull request, with a real command line agent, and a worker
that is killed in each phase.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import copies
from tests.databases.copies import TOKENS
from tests.servers.forge import PROJECT, TOKEN, Forge, serving
from tests.servers.private import redis
from tests.servers.stack import Stack, until
from tests.worlds.repositories import bare_copy, git, make_repository

pytestmark = pytest.mark.stack
CODER = Path(__file__).resolve().parents[2] / "programs" / "coder.py"
REPOSITORY = """from runs.models import Repository
Repository.objects.create(
    name="project", url={url!r}, check_command={check!r}, push_policy="branch", pull_request_policy="ready", forge="github",
    forge_url={forge!r}, credential="FORGE_TOKEN",
)"""


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """It holds the repository, behind a token."""
    folder = tmp_path_factory.mktemp("forge")
    bare = folder / "srv" / f"{PROJECT}.git"
    bare.parent.mkdir(parents=True)
    bare_copy(make_repository(folder / "project", {"README.md": "# Project\n"}), bare)
    with serving(folder / "srv") as forge:
        yield forge


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, forge: Forge) -> Iterator[Stack]:
    """The server and beat, with a scripted agent as the one that writes code; the test starts its
    workers.
    """
    folder = tmp_path_factory.mktemp("coding")
    (folder / "control").mkdir()
    config = {
        "command": [sys.executable, str(CODER), str(folder / "control")],
        "stdin": True,
        "output": "claude-code",
    }
    (folder / "coder.json").write_text(json.dumps(config))
    database = copies.postgresql(f"coding_{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}")
    with redis(folder) as url:
        places = {"DATABASE_URL": database, "REDIS_URL": url, "WAYSTATION_FORGES": forge.url}
        git_at = {"WAYSTATION_GIT_SCHEMES": "http", "WAYSTATION_GIT_HOSTS": "127.0.0.1"}
        token = {"WAYSTATION_CREDENTIALS_FROM_ENV": "FORGE_TOKEN", "FORGE_TOKEN": TOKEN}
        stack = Stack(
            folder, {**places, **git_at, **token, "WAYSTATION_CODER": str(folder / "coder.json")}
        )
        try:
            stack.beat()
            stack.web()
            yield stack
        finally:
            stack.stop()


class Held:
    """The agent waits in a phase, until it is let go."""

    def __init__(self, own: Stack, phase: str) -> None:
        self.control, self.phase = own.folder / "control", phase
        self.before = len(self.started())
        (self.control / f"hold-{phase}").touch()

    def started(self) -> list[int]:
        """Process ids of its agents, in the order of their starts."""
        return [int(path.read_text() or 0) for path in sorted(self.control.glob(f"{self.phase}-*"))]

    def wait(self, number: int = 1) -> list[int]:
        until(
            lambda: len(self.started()) >= self.before + number and all(self.started()),
            what=f"{self.phase} to begin",
        )
        return self.started()[self.before :]

    def let_go(self) -> None:
        (self.control / f"hold-{self.phase}").unlink()


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def killed_in(
    own: Stack, phase: str, victim: subprocess.Popen[bytes], held: Held, number: int = 1
) -> subprocess.Popen[bytes]:
    """Kill the worker while the agent works; its agents die with it, and another worker does the
    phase again.
    """
    pids = held.wait(number)
    own.kill(victim)
    until(
        lambda: not any(map(is_there, pids)),
        seconds=15,
        what=f"the agents of {phase} to end with their worker",
    )
    held.let_go()
    return own.worker(f"after-{phase}")


def test_an_order_comes_through_a_killed_worker_in_each_phase_as_if_nothing_had_happened(
    own, forge
):
    """S4-5, S4-10, S4-62, P4: two plan, one codes, one reviews, one corrects; the branch holds each
    change once, and there is one pull request.
    """
    own.manage(
        "shell",
        "-c",
        REPOSITORY.format(
            url=forge.clone_url, forge=forge.url, check=[sys.executable, "test_greeting.py"]
        ),
    )
    token = TOKENS["ana"]
    held = Held(own, "plan")
    worker = own.worker("first")
    body = {
        "template": "advanced-dev-workflow",
        "title": "Add a greeting",
        "user_request": "Greet the world.",
        "repository_url": forge.clone_url,
    }
    status, made = own.call("POST", "/api/v1/work-orders", body, token=token)
    assert status == 201, made
    order = str(made["id"])
    assert own.order(order, token)["current_phase"] == "planning"
    worker = killed_in(own, "plan", worker, held, 2)
    plan = own.paused(order, token, "awaiting_plan_approval")
    assert (
        "**The design.**" in plan["pause_content"]
        and "**What could break, for whom, and how each" in plan["pause_content"]
    )

    held = Held(own, "execute")
    own.answer(order, token, "approve")
    worker = killed_in(own, "execute", worker, held)
    done = own.paused(order, token, "awaiting_implementation_review")
    assert 'GREETING = "Hello"' in done["patch"]
    assert own.order(order, token)["git_commit_count"] == 1

    held = Held(own, "review")
    own.answer(order, token, "approve")
    worker = killed_in(own, "review", worker, held)
    found = own.paused(order, token, "awaiting_review_decision")
    assert (
        "check passes" in found["pause_content"]
        and "says nothing about itself" in found["pause_content"]
    )

    held = Held(own, "execute")
    own.answer(order, token, "revise", feedback="Give it a docstring")
    worker = killed_in(own, "execute", worker, held)
    own.paused(order, token, "awaiting_implementation_review", revision=2)
    own.answer(order, token, "approve")
    last = own.paused(order, token, "awaiting_review_decision", revision=2)
    assert "All is well." in last["pause_content"]
    opened, answered = threading.Event(), threading.Event()

    def hold() -> None:
        opened.set()
        answered.wait(30)

    forge.before_answer = hold
    own.answer(order, token, "approve")
    assert opened.wait(60)
    own.kill(worker)  # the pull request is there, and nobody here knows
    forge.before_answer = None
    answered.set()
    worker = own.worker("last")
    end = own.ended(order, token)
    own.kill(worker)

    [pull] = forge.pulls
    assert end["github_pull_request_url"] == f"{forge.url}/{PROJECT}/pull/{pull['number']}"
    assert pull["title"] == "Add a greeting"
    origin = forge.repositories / f"{PROJECT}.git"
    assert end["git_commit_count"] == 2
    assert git(origin, "log", "--format=%s", f"main..{end['branch']}").splitlines() == [
        "Add a greeting",
        "Add a greeting",
    ]
    assert (
        git(origin, "show", f"{end['branch']}:greeting.py").splitlines()[-1]
        == 'GREETING = "Hello, world"'
    )
    # of what was recorded: two plans, two changes, two reviews
    assert end["usage"]["input_tokens"] == 6000
    status, kept = own.call("GET", f"/api/v1/work-orders/{order}/artifacts", token=token)
    assert status == 200 and {one["name"] for one in kept["results"]} == {"prompt", "output"}
    assert own.manage("invariants").strip().endswith("hold.")
