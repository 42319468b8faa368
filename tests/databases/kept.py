"""Tables that an earlier run of the tests made: a PostgreSQL server's folder and an embedded
database, kept in `tests/.artifacts` until what they are made of changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.servers.private import copy, find, postgresql

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests" / ".artifacts" / "tables"
APPS = ("checkpoints", "runs", "hitl", "project", "extensions")
MADE_OF = (
    *(f"{app}/**/{where}" for app in APPS for where in ("migrations/*.py", "models/*.py")),
    *(f"{app}/{name}.py" for app in APPS for name in ("models", "apps", "ids", "settings")),
    "checkpoints/database/*.py",
    "hitl/ledger/*.py",
    "hitl/testing/*.py",
    "requirements*.txt",
    "extensions/*/requirements.txt",
    "tests/databases/copies.py",
    "tests/databases/kept.py",
)
"""Migrations, what they import, what the models are like, and what Django does after migrations:
permissions of models, triggers of the ledger.
"""
NUMBER_OF_KEPT = 3
"""So many are kept, for those who go from branch to branch."""


def put(folder: Path) -> Path:
    """Put an embedded database with tables into `folder/data`, and where `hitl.testing` looks for
    its own; give a PostgreSQL server's files, in which are such tables too, to copy.
    """
    kept = KEPT / _key()
    if not kept.exists():
        print("Making tables, which the next run finds made", flush=True)
        _make(kept, folder / "making")
    (folder / "data").mkdir()
    shutil.copyfile(kept / "prepared.sqlite3", folder / "data" / "prepared.sqlite3")
    shutil.copytree(kept / "kit", folder, dirs_exist_ok=True)
    return kept / "db"


def _key() -> str:
    known = hashlib.sha256()
    known.update(subprocess.check_output([str(find("postgres")), "--version"]))
    for path in sorted({path for pattern in MADE_OF for path in ROOT.glob(pattern)}):
        known.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode())
        known.update(path.read_bytes())
    return known.hexdigest()[:16]


def _make(kept: Path, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)  # PostgreSQL runs as somebody else
    (folder / "kit").mkdir()
    with postgresql(folder / "pg") as url:
        environment = {
            **os.environ,
            "DATABASE_URL": url,
            "WAYSTATION_DATA": str(folder / "data"),
            "TMPDIR": str(folder / "kit"),
        }

        def make(function: str) -> None:
            code = f"from tests.databases import copies; copies.{function}()"
            subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, umask=0o077
            )

        with ThreadPoolExecutor() as pool:
            list(pool.map(make, ["postgresql_tables", "sqlite_tables", "tables_of_kit"]))
    # its server has ended, so that its files are whole
    unfinished = kept.with_name(f"{kept.name}.{os.getpid()}")
    unfinished.mkdir(parents=True)
    copy(folder / "pg" / "db", unfinished / "db")
    shutil.copyfile(folder / "data" / "prepared.sqlite3", unfinished / "prepared.sqlite3")
    for tables in (folder / "kit").glob("waystation-tables-*"):
        shutil.copytree(tables, unfinished / "kit" / tables.name)
    shutil.rmtree(folder)
    try:
        unfinished.rename(kept)
    except OSError:  # somebody else was faster
        shutil.rmtree(unfinished)
    for old in sorted(KEPT.iterdir(), key=lambda path: -path.stat().st_mtime)[NUMBER_OF_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
