"""`python -m tests.node.typescript DOCUMENT`: a client in TypeScript, made of the OpenAPI document.

openapi-typescript makes it, and `client.ts`, a small program that uses it, is type-checked: a list
that is no list, a null that is none or an event without a kind does not compile. Where Node's
programs are missing it says so, and is no failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.node import HERE, INSTALLED, program, search_path

COMPILER = [
    "--strict",
    "--skipLibCheck",
    "--target",
    "es2022",
    "--module",
    "nodenext",
    "--lib",
    "es2023,dom,dom.asynciterable",
]


def prepare(folder: Path) -> None:
    """Put the program, and what it imports, into a folder."""
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(INSTALLED / "node_modules")
    (folder / "client.ts").write_text((HERE / "client.ts").read_text())


def commands(document: Path, *more: str) -> list[list[str]]:
    """What makes the client and the program, in the folder."""
    programs = INSTALLED / "node_modules" / ".bin"
    made = ["--output", "schema.ts"]
    return [
        [str(programs / "openapi-typescript"), str(document.resolve()), *made],
        [str(programs / "tsc"), *COMPILER, *more, "client.ts"],
    ]


def main(document: str) -> int:
    if program("openapi-typescript") is None:
        sys.stdout.write(
            "LEFT OUT: openapi-typescript is not on this machine, so no client was made in"
            " TypeScript. `make .venv/node` says why.\n"
        )
        return 0
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for words in commands(Path(document), "--noEmit"):
            done = subprocess.run(
                words,
                cwd=folder,
                env={**os.environ, "PATH": search_path()},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                sys.stderr.write(f"{done.stdout}{done.stderr}")
                return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
