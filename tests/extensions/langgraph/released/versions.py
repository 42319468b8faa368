"""Released versions of LangGraph's clients, each from its registry and unmodified: `make released`
tries them all, the tests the one that is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.node import HERE
from tests.stories.live.node_programs import PATH

INSTALLED = version("langgraph-sdk")
PYTHON = ("0.1.74", "0.2.15", "0.3.0", "0.3.15", "0.4.1", "0.4.3", INSTALLED)
NODE = ("1.10.2", "1.11.2", "1.12.9", "1.13.0", "1.14.0", "1.15.0", "2.0.0")
RELEASES = [("python", one) for one in PYTHON] + [("javascript", one) for one in NODE]
KEEPS = ["store", "assistants", "crons", "edited"]
HELD = [
    *("title", "asked", "answered", *KEEPS, "custom", "joined", "state", "history", "found"),
    "cancelled",
]
"""What each does, in its order; `no-` before a word of KEEPS where a version has not the methods.
"""


def of_one(folder: Path, language: str, release: str, where: list[str]) -> dict[str, object]:
    """What one version did, and the end of what it said where it stopped."""
    folder.mkdir()
    try:
        words = (python if language == "python" else node)(folder, release)
        done = subprocess.run(
            [*words, *where],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder), "PATH": PATH},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except subprocess.SubprocessError as error:
        return {"held": [], "error": str(error)}
    held = done.stdout.split()
    if lacking := [word for word in held if word in {f"no-{kept}" for kept in KEEPS}]:
        print(language, release, *lacking)
    held = [word.removeprefix("no-") if word in lacking else word for word in held]
    last = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    return {"held": held, **({"error": last[0][:300]} if last else {})}


def python(folder: Path, release: str) -> list[str]:
    if release == INSTALLED:
        return [sys.executable, str(Path(__file__).with_name("client.py"))]
    uv = Path(sys.executable).with_name("uv")
    package = f"langgraph-sdk=={release}"
    words = [f"{uv}", "pip", "install", "--quiet", "--no-deps", "--target", f"{folder}", package]
    subprocess.run(words, check=True, timeout=120)
    return [sys.executable, str(Path(__file__).with_name("client.py"))]


def node(folder: Path, release: str) -> list[str]:
    packages = [f"@langchain/langgraph-sdk@{release}", "@langchain/core@1"]
    words = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run([*words, *packages], cwd=folder, env={**os.environ, "PATH": PATH}, check=True)
    shutil.copy(HERE / "langgraph_released.mjs", folder)
    return ["node", "langgraph_released.mjs"]
