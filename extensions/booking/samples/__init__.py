"""Books and invoices to try `smart-booking` on, as files that a real house would keep.

All firms in them are invented; their numbers pass their check digits.
"""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = Path(__file__).parent
DEMO = ("paper-and-toner.xml", "hosting.pdf", "steel-frames.xml")
"""Is booked by itself; waits for a bookkeeper; waits for the supplier."""


def make_samples(books: Path, inbox: Path) -> list[Path]:
    """Copy the books into one folder and the invoices into another; files that are there stay.

    Gives the invoices' paths.
    """
    _copy(FOLDER / "books", books)
    return _copy(FOLDER / "invoices", inbox)


def _copy(samples: Path, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    copies = [folder / sample.name for sample in sorted(samples.iterdir())]
    for copy in copies:
        if not copy.exists():
            shutil.copyfile(samples / copy.name, copy)
    return copies
