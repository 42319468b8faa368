"""The code blocks of a Markdown page, to be run as they stand there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    """"" is a command for the shell."""
    text: str

    @property
    def commands(self) -> list[str]:
        """Its lines, each with the lines that continue it."""
        return re.sub(r"\\\n\s*", "", self.text).splitlines()


def blocks(page: str) -> list[Block]:
    return [Block(*found) for found in FENCE.findall((ROOT / page).read_text())]
