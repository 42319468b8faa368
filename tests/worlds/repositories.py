"""Real git repositories and real workspaces for tests; nothing here is a stand-in."""

from __future__ import annotations

import atexit
import copy
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from extensions.repo_tidy import steps
from runs.git.workspace import GitWorkspace, Saved, WorkspaceLimits
from runs.workflows.base import (
    Approval,
    Commit,
    Context,
    Done,
    Go,
    Order,
    Outcome,
    Step,
    StepFailed,
)

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{
        f"GIT_{role}_{part}": "dev@example.org"
        for role in ("AUTHOR", "COMMITTER")
        for part in ("NAME", "EMAIL")
    },
}
SAFE = ["-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null"]


def git(folder: Path, *arguments: str, fine: bool = True) -> str:
    done = subprocess.run(
        ["git", *SAFE, *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, check=False
    )
    assert not fine or done.returncode == 0, done.stderr
    return os.fsdecode(done.stdout).strip()


_made: dict[tuple[object, ...], Path] = {}
"""What a repository is made of → one that this process made, to be copied."""


def make_repository(folder: Path, files: Mapping[str, str | bytes], branch: str = "main") -> Path:
    made_of = (branch, *files.items())
    if made_of not in _made:
        place = Path(tempfile.mkdtemp(prefix="waystation-repository-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        git(place, "init", "-q", "-b", branch)
        _made[made_of] = add_commit(place, files)
    shutil.copytree(_made[made_of], folder, symlinks=True)
    return folder


def add(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())


def add_commit(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    add(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Work")
    return folder


def bare_copy(repository: Path, folder: Path) -> Path:
    git(repository.parent, "clone", "-q", "--bare", str(repository), str(folder))
    return folder


def never() -> None:
    """A check that never stops."""


def order_for(origin: Path | str, **changes: Any) -> Order:
    fields: dict[str, Any] = {
        "id": "wo_1", "title": "Tidy", "request": "", "input": {}, "repository_url": str(origin),
        "branch": "waystation/wo_1", "author": "Ada <ada@example.org>",
    }  # fmt: skip
    return Order(**fields | changes)


class Desk:
    """Plays the engine for one order: keeps the state and the commit, and hands each step a
    workspace.
    """

    def __init__(self, folder: Path, origin: Path | str, **order: Any) -> None:
        self.path = folder / "workspaces" / "wo_1"
        self.order = order_for(origin, **order)
        self.state: dict[str, Any] = {"revision_feedback": ""}
        self.commit: Commit | None = None
        self.lines: list[str] = []
        self.text = self.patch = ""  # what tests keep of a plan's and an execution's report
        self.limits = WorkspaceLimits(lock_seconds=5)
        self.sandbox: list[str] = []
        self.approvals: dict[str, Approval] = {}

    def copied_to(self, folder: Path) -> Desk:
        """The same elsewhere, as far as it has come."""
        made = copy.copy(self)
        made.path = folder / "workspaces" / "wo_1"
        shutil.copytree(self.path.parent, made.path.parent, symlinks=True)
        made.state, made.lines, made.approvals = copy.deepcopy(self.state), [], {}
        return made

    def workspace(self, check: Callable[[], None] = never) -> GitWorkspace:
        commit = self.commit
        at = (
            Saved(sha=commit.sha, base=commit.base, read_bundle=lambda: commit.bundle)
            if commit
            else None
        )
        return GitWorkspace(
            self.path, self.order, at=at, check=check, limits=self.limits, sandbox=self.sandbox
        )

    def log(self, message: str, *, level: str = "info", **data: Any) -> None:
        self.lines.append(message)

    def attempt(self, function: Step, *, check: Callable[[], None] = never) -> Outcome:
        """Run a step and record nothing, as for a worker that is killed before its commit."""
        with self.workspace(check) as workspace:
            context = Context(
                run_id="run_1",
                step="s",
                loop_num=1,
                key="k",
                config={},
                order=self.order,
                log=self.log,
                once=lambda key, compute, tell=None, optional=False: compute(),
                check=check,
                workspace=workspace,
                approvals=self.approvals,
            )
            return function(dict(self.state), context)

    def take(self, function: Step, feedback: str = "") -> Any:
        self.state["revision_feedback"] = feedback
        outcome = self.attempt(function)
        assert isinstance(outcome, Go | Done)
        self.state.update(outcome.update)
        self.commit = outcome.commit
        return outcome

    def subjects(self) -> list[str]:
        with self.workspace() as workspace:
            return workspace.git("log", "--format=%s", f"{workspace.base()}..HEAD").splitlines()

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


UNTIDY: dict[str, str | bytes] = {
    "src/app.py": "import os\nimport sys\nfrom typing import List, Optional\n\n\n"
    "def names(a: Optional[List[str]]) -> bool:\n    return a == None\n",
    "src/other.py": "import json\nimport abc\n\nprint(abc, json, '{}'.format(1))\n",
    "tests/test_app.py": "import re\nfrom src import app\n\nassert app\n",
    "docs/conf.py": "l = 1\n",
    "README.md": "# Hello\n",
}


def codes(desk: Desk) -> dict[str, int]:
    """Of the plan: how many fixes each rule has."""
    return {rule["code"]: rule["fixable"] for rule in desk.state["plan"]["rules"]}


def failure(call: Callable[..., object], *arguments: Any, **named: Any) -> StepFailed:
    with pytest.raises(StepFailed) as failed:
        call(*arguments, **named)
    return failed.value


def deliver_all(desk: Desk) -> Any:
    for step in (steps.plan, steps.execute, steps.review, steps.deliver):
        outcome = desk.take(step)
    return outcome
