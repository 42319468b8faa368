"""What a process says of itself in its sign of life: its version, the commit of git that it was
made from, and how it is set up.
"""

from __future__ import annotations

import functools
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.crypto import salted_hmac

from checkpoints.text import extras

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 2.0


@functools.cache
def _built() -> dict[str, str]:
    try:
        return dict(json.loads(extras.BUILT.read_text()))
    except (OSError, ValueError):
        return {}


@functools.cache
def version() -> str:
    """The version; "" where the apps stand in a project that has another `pyproject.toml`."""
    if built := _built():
        return built["version"]
    try:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    except (OSError, ValueError, KeyError):
        return ""
    return str(project.get("version", "")) if project.get("name") == "waystation" else ""


@functools.cache
def commit() -> str:
    """The commit that WAYSTATION_COMMIT names, as an image without git has it, that the wheel was
    built of, or that is checked out here; "" where none is known.
    """
    if named := settings.WAYSTATION_COMMIT.strip():
        return str(named[:40])
    if built := _built():
        return built["commit"]
    try:
        asked = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "--show-toplevel", "HEAD"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    top, _, head = asked.stdout.strip().partition("\n")
    # a repository further up is somebody else's
    return head if head and Path(top).resolve() == ROOT else ""


def shown() -> str:
    """Version and commit as people read them; "" where neither is known."""
    return " · ".join(filter(None, [version(), commit()[:7]]))


def own_facts() -> dict[str, Any]:
    """What has to be alike, or to fit, in all processes of an installation; no secrets."""
    options = settings.DATABASES["default"].get("OPTIONS", {})
    return {
        "database_pool": (options.get("pool") or {}).get("max_size", 0),
        # tells two keys apart, and nothing of either
        "secret_key": salted_hmac("runs.models.installation", "", algorithm="sha256").hexdigest()[
            :8
        ],
    }
