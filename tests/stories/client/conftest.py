"""Tokens of narrow scopes, and the client that holds one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.databases.copies import NARROW
from tests.servers.stack import ROOT, Stack
from waystation_client import Waystation


@pytest.fixture
def scoped() -> dict[tuple[str, str], str]:
    """Secrets, by person and scope."""
    return NARROW


@pytest.fixture
def client(
    stack: Stack, token: Callable[[str], str], scoped: dict[tuple[str, str], str]
) -> Iterator[Callable[..., Waystation]]:
    """A client as somebody, with all their rights or by a narrow token; closed after the test."""
    with ExitStack() as closing:

        def make(name: str, scope: str = "", url: str = "") -> Waystation:
            secret = scoped[name, scope] if scope else token(name)
            return closing.enter_context(Waystation(url or stack.url, secret))

        yield make


@pytest.fixture(scope="package")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program as its package installs it, without what it needs (which is here)."""
    folder = tmp_path_factory.mktemp("installed")
    words = [
        "uv",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--offline",
        "--python",
        sys.executable,
    ]
    subprocess.run(
        [*words, "--target", folder, ROOT / "client"],
        check=True,
        env={**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"},
    )
    assert (folder / "waystation_client" / "py.typed").exists()
    return folder
