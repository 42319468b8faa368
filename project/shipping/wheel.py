"""What `pip wheel .` adds to the modules: their requirements, translations compiled, and the commit
that they are of. Hatchling runs it in an environment of its own, without Waystation's packages.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

EXTRAS = ("agents", "forges", "otel", "saml", "sentry")
IN_EXTENSIONS = ("langgraph", "mcp")


class Requirements(MetadataHookInterface):  # type: ignore[misc]  # has no types here
    """Name the packages that the requirements files pin: what was tried together, and no other."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        metadata["dependencies"] = _pins(root / "requirements.txt")
        extras = {name: _pins(root / f"requirements-{name}.txt") for name in EXTRAS}
        for name in IN_EXTENSIONS:
            extras[name] = _pins(root / "extensions" / name / "requirements.txt")
        extras["testing"] = [
            pin for pin in _pins(root / "requirements-dev.txt") if pin.startswith("pytest==")
        ]
        metadata["optional-dependencies"] = extras


class Built(BuildHookInterface):  # type: ignore[misc]  # as above
    """Put into the wheel what is not in git."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # the checkout itself is what runs
            return
        made = Path(self.directory) / ".made"
        made.mkdir(parents=True, exist_ok=True)
        for source in sorted((Path(self.root) / "hitl/locale").rglob("*.po")):
            place = source.relative_to(self.root).with_suffix(".mo")
            target = made / "-".join(place.parts)
            target.write_bytes(_compiled(source))
            build_data["force_include"][str(target)] = str(place)
        (made / "built.json").write_text(
            json.dumps({"version": self.metadata.version, "commit": self._commit()})
        )
        build_data["force_include"][str(made / "built.json")] = "checkpoints/built.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        made = Path(self.directory) / ".made"
        for path in made.glob("*"):
            path.unlink()
        if made.exists():
            made.rmdir()

    def _commit(self) -> str:
        """Find what WAYSTATION_COMMIT says, else what is checked out; "" where neither is known."""
        if named := os.environ.get("WAYSTATION_COMMIT", "").strip():
            return named[:40]
        command = ["git", "-C", self.root, "rev-parse", "--show-toplevel", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True)
        top, _, head = done.stdout.strip().partition("\n")
        # a repository further up is somebody else's
        return head if head and Path(top).resolve() == Path(self.root).resolve() else ""


def _pins(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    return [line for line in lines if line and not line.startswith(("#", "-r "))]


def _compiled(source: Path) -> bytes:
    with source.open("rb") as file:
        catalogue = read_po(file)
    made = io.BytesIO()
    write_mo(made, catalogue)
    return made.getvalue()
