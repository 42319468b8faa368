"""The wall that operators put before programs which are not ours: an argument list (bubblewrap, a
container, a program of their own).

It stands between our warden and the program, so that what it starts ends with it like everything
else, as far as that is below it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from runs.processes import process

PLACEHOLDER = re.compile(r"\{(\w+)\}")
PLACES = ("workspace", "home", "tmp", "mirror")
"""Folders that the list may name: the work tree; the order's home and temporary folder, where
prompts are too; and the objects that the work tree's git reads besides its own, for reading only.
An order on a local repository has none of the last: its path leads to nothing."""
TRIAL_SECONDS = 60.0


def before(wall: Sequence[str], places: Mapping[str, Path]) -> list[str]:
    """The list for one order."""
    return [PLACEHOLDER.sub(lambda match: str(places[match[1]]), argument) for argument in wall]


def wrong(wall: Sequence[str]) -> str:
    """What cannot be meant, as a sentence; "" where nothing is wrong."""
    if not wall:
        return ""
    unknown = sorted(
        {name for argument in wall for name in PLACEHOLDER.findall(argument)} - set(PLACES)
    )
    if unknown:
        others, known = (", ".join(f"{{{name}}}" for name in names) for names in (unknown, PLACES))
        return f"{others}: no placeholder. There are {known}."
    if not wall[0].strip() or PLACEHOLDER.search(wall[0]):
        return "The first argument is a program: a name or a path, without placeholders."
    if not any("{workspace}" in argument for argument in wall):
        return "{workspace} is not in it, so a program behind it could not reach the work tree."
    return ""


def trial(wall: Sequence[str], *, search_path: str) -> str:
    """Run `true` behind it in folders made for that; what went wrong, or ""."""
    with tempfile.TemporaryDirectory(prefix="waystation-") as folder:
        places = {name: Path(folder) / name for name in PLACES}
        for path in places.values():
            path.mkdir()
        bounds = process.Bounds(seconds=TRIAL_SECONDS, max_output=100_000, grace=1.0)
        environment = {
            "PATH": search_path,
            "HOME": str(places["home"]),
            "TMPDIR": str(places["tmp"]),
        }
        try:
            done = process.run(
                [*before(wall, places), "true"],
                cwd=places["workspace"],
                env=environment,
                bounds=bounds,
            )
        except process.ProcessFailed as error:
            return str(error)
    lines = done.errors.decode(errors="replace").strip().splitlines()
    return (
        ""
        if done.returncode == 0
        else (lines[-1][:300] if lines else f"it ended with exit code {done.returncode}")
    )
