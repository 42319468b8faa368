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

MADE_FOR = ["--target", "es2022", "--module", "nodenext"]
CHECKED = ["--strict", "--skipLibCheck", "--noEmit", "--lib", "es2023,dom,dom.asynciterable"]
COMPILER = str(INSTALLED / "node_modules" / ".bin" / "tsc")


def prepare(folder: Path) -> None:
    """Put the program, and what it imports, into a folder."""
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(INSTALLED / "node_modules")
    (folder / "client.ts").write_text((HERE / "client.ts").read_text())


def only_its_types_left_out() -> list[str]:
    """What makes JavaScript of the program, in the folder, without a look at any type."""
    return [COMPILER, *MADE_FOR, "--noCheck", "--noResolve", "client.ts"]


def main(document: str) -> int:
    if program("openapi-typescript") is None:
        sys.stdout.write(
            "LEFT OUT: openapi-typescript is not on this machine, so no client was made in"
            " TypeScript. `make .venv/node` says why.\n"
        )
        return 0
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        generator = str(INSTALLED / "node_modules" / ".bin" / "openapi-typescript")
        for words in (
            [generator, str(Path(document).resolve()), "--output", "schema.ts"],
            [COMPILER, *MADE_FOR, *CHECKED, "client.ts"],
        ):
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
