"""A folder in which a hostile program works, and whether it still lives."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runs.workflows.base import Context
from tests.worlds.repositories import Desk, make_repository

HOSTILE = Path(__file__).resolve().parents[2] / "programs" / "hostile.py"


class Told(Desk):
    """A desk that also keeps what a step says."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.said: list[str] = []
        self.kept: dict[str, str] = {}
        self.events: list[tuple[str, Any]] = []
        self.config: dict[str, Any] = {}
        self.key = "sk-a-long-secret"

    def attempt(self, function: Any, *, check: Any = lambda: None) -> Any:
        def own(state: Any, context: Context) -> Any:
            return function(
                state,
                replace(
                    context,
                    config=self.config,
                    stream=self.said.append,
                    keep=self.kept.__setitem__,
                    emit=lambda kind, data: self.events.append((kind, data)),
                    credential=lambda name, to="": self.key,
                ),
            )

        return super().attempt(own, check=check)


@pytest.fixture
def desk(tmp_path):
    repository = make_repository(tmp_path / "project", {"README.md": "# Project\n"})
    return Told(tmp_path, repository, request="Do it.")


def hostile(desk: Told, what: str, *arguments: object, **config: Any) -> Told:
    words = [sys.executable, str(HOSTILE), what, *map(str, arguments)]
    desk.config = {
        "command": words,
        "stdin": True,
        "output": "claude-code",
        "seconds": 30,
        **config,
    }
    return desk


def alive(marker: str) -> list[str]:
    """Processes that a hostile agent started with this word."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
        except OSError:  # it has ended meanwhile
            continue
        if marker.encode() in words and b"hostile.py" not in words:
            found.append(folder.name)
    return found
