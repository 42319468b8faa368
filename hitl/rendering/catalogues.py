"""Our translations, `locale/<language>/LC_MESSAGES/*.po`, compiled for gettext as Python compiles
modules: beside them, and anew where the text is newer.

So a clone, an image and a test need no program of the machine's, and no binary file is committed.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

ROOT = Path(__file__).parents[1] / "locale"
logger = logging.getLogger(__name__)


def compiled(language: str, domain: str) -> Path:
    return ROOT / language / "LC_MESSAGES" / f"{domain}.mo"


def compile_outdated() -> None:
    """Compile what is not, or no more. Where the folder cannot be written, texts stay English."""
    for source in sorted(ROOT.glob("*/LC_MESSAGES/*.po")):
        target = source.with_suffix(".mo")
        if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
            continue
        try:
            _compile(source, target)
        except OSError as error:
            logger.warning("%s is not compiled (%s): its texts stay English", source, error)


def _compile(source: Path, target: Path) -> None:
    """Write it beside its place first: another process may read it at the same moment."""
    with source.open("rb") as file:
        catalogue = read_po(file)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "wb") as file:
            write_mo(file, catalogue)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
