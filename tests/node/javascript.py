"""`python -m tests.node.javascript FOLDER [FILES…]`: lint and type-check the pages' JavaScript with
Biome and TypeScript (S4-54).

Biome's recommended rules, as `biome.json` has them. TypeScript reads plain JavaScript and its
JSDoc, as strict as `tsconfig.json` says: strict but for null and for what has no type, since a
selector's result has neither; `dom.d.ts` says what is taken to be on it.

Where Node's programs are missing it says so, and why, and is no failure: somebody without a
registry can still check the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.node import HERE, search_path
from tests.node.install import WHY

ROOT = HERE.parent.parent
SECONDS = 300


def main(folder: Path, files: list[str]) -> int:
    programs = folder.resolve() / "node_modules" / ".bin"
    biome, tsc = programs / "biome", programs / "tsc"
    for program in (biome, tsc):
        if (why := why_not(program, folder)) is not None:
            print(f"JavaScript was not checked: {why}", flush=True)
            return 0
    given = [str(Path(file).resolve()) for file in files]
    lint: Sequence[str | Path] = [
        biome,
        "lint",
        "--error-on-warnings",
        f"--config-path={HERE}",
        *(given or ["static/js"]),
    ]
    # what it found out last time is kept beside it: a script that nobody changed is not read again
    kept = ["--incremental", "--tsBuildInfoFile", str(folder.resolve() / "pages.tsbuildinfo")]
    types: Sequence[str | Path] = [tsc, "--project", HERE / "tsconfig.json", *kept]
    if given:  # options of the project do not hold for files that are named
        types = [tsc, *OPTIONS, HERE / "dom.d.ts", *given]
    return max(abs(run(words).returncode) for words in (lint, types))


OPTIONS = [
    "--noEmit",
    "--checkJs",
    "--allowJs",
    "--strict",
    "--strictNullChecks",
    "false",
    "--noImplicitAny",
    "false",
    "--skipLibCheck",
]


def why_not(program: Path, folder: Path) -> str | None:
    """Why a program cannot be used here; None where it can."""
    try:
        tried = run([program, "--version"], quietly=True)
    except (OSError, subprocess.SubprocessError) as error:
        told = folder / WHY
        return (
            told.read_text().strip()
            if told.exists()
            else f"{program.name} does not run here: {error}."
        )
    return (
        None
        if tried.returncode == 0
        else f"{program.name} does not run here: {tried.stdout.strip()[-300:]}."
    )


def run(words: Sequence[str | Path], *, quietly: bool = False) -> subprocess.CompletedProcess[str]:
    into, errors = (subprocess.PIPE, subprocess.STDOUT) if quietly else (None, None)
    environment = {**os.environ, "PATH": search_path()}
    return subprocess.run(
        words,
        cwd=ROOT,
        env=environment,
        stdout=into,
        stderr=errors,
        check=False,
        text=True,
        timeout=SECONDS,
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
