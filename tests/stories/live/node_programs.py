"""Programs of Node's that are clients of a door: they get its address and Ana's token."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.databases.copies import TOKENS
from tests.node import HERE, INSTALLED
from tests.servers.stack import SlowStack

OWN = str(Path(sys.executable).parent)
"""Where Node from a wheel is."""
PATH = f"{os.environ['PATH']}{os.pathsep}{OWN}"


def came(folder: Path, server: SlowStack, program: str, *words: str) -> Any:
    """What a program of Ana's prints."""
    (folder / "node_modules").symlink_to(INSTALLED / "node_modules")
    shutil.copy(HERE / program, folder)
    done = subprocess.run(
        ["node", program, f"{server.url}/langgraph", str(TOKENS["ana"]), *words],
        cwd=folder,
        env={**os.environ, "PATH": PATH},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
