"""A real repository to try a work order on, made offline from the source of a library that is
installed anyway.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.metadata import Distribution, distribution
from pathlib import Path

PACKAGE = "celery"
_MARK = "waystation sample"
_WHO = "Waystation sample <sample@waystation.invalid>"
_WHEN = "2024-01-01T00:00:00+00:00"
_README = """# {name} {version}, a sample for Waystation

The Python source of {name} {version} as it is installed beside Waystation, under its own licence
(see `LICENSE`).
`tests` holds what it ships for testing, moved there from `celery.contrib.testing`.
`src/sample/report.py` is no part of it: a small module of Waystation's own, untidy on purpose.
It is here to try work orders on, and for nothing else. The project itself:
https://pypi.org/project/{name}/
"""
_UNTIDY = '''"""A report on prices, untidy on purpose: imports that nobody uses, in no order."""

import sys
import os, json
from decimal import Decimal
from collections import OrderedDict
from typing import Dict, List


def total(prices: List[Decimal]) -> Decimal:
    return sum(prices, Decimal(0))


def render(prices: Dict[str, Decimal]) -> str:
    return "\\n".join("{}: {}".format(name, price) for name, price in sorted(prices.items()))
'''
_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")


class FolderInUse(Exception):
    """The folder holds something that is not this sample; it was not touched."""


def make_sample(directory: Path) -> Path:
    """Make the sample repository in `directory`, or leave it be if it is there; the real path.

    Raises FolderInUse.
    """
    directory = Path(os.path.realpath(directory))
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        if not _is_sample(directory):
            raise FolderInUse(
                f"{directory} is not empty. Name a folder that is empty or not there yet."
            )
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    # Made beside and renamed: a killed command leaves no half sample that the next one would
    # refuse.
    new = directory.with_name(f".{directory.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    _fill(new, distribution(PACKAGE))
    _commit(new)
    if directory.exists():
        directory.rmdir()
    new.rename(directory)
    return directory


def _fill(folder: Path, package: Distribution) -> None:
    """Laid out as projects are, so that "not in tests/" means something."""
    source = Path(str(package.locate_file(PACKAGE)))
    shutil.copytree(source, folder / "src" / PACKAGE, ignore=_IGNORED)
    shutil.move(folder / "src" / PACKAGE / "contrib" / "testing", folder / "tests")
    licence = next(
        path
        for path in package.files or []
        if path.name.startswith(("LICENSE", "COPYING")) and ".dist-info" in str(path)
    )
    shutil.copyfile(Path(str(package.locate_file(licence))), folder / "LICENSE")
    (folder / "README.md").write_text(_README.format(name=PACKAGE, version=package.version))
    (folder / "src" / "sample").mkdir()
    (folder / "src" / "sample" / "report.py").write_text(_UNTIDY)
    # a copy keeps the modes of what is installed, which everybody reads
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)


def _commit(folder: Path) -> None:
    _git(folder, "init", "-q", "--template=", "-b", "main")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", f"{PACKAGE} {distribution(PACKAGE).version} ({_MARK})")


def _is_sample(folder: Path) -> bool:
    if not (folder / ".git").is_dir():
        return False
    return _MARK in _git(folder, "log", "--format=%s", "--max-parents=0", "HEAD", fine=False)


def _git(folder: Path, *arguments: str, fine: bool = True) -> str:
    name, _, mail = _WHO.removesuffix(">").partition(" <")
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (("NAME", name), ("EMAIL", mail), ("DATE", _WHEN))
        },
    }
    options = [
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.autocrlf=false",
        "-c",
        "safe.directory=*",
    ]
    done = subprocess.run(
        ["git", *options, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=fine,
    )
    return done.stdout
