"""Keep Waystation's files from all other users of this machine.

States, mails with live links and the secret key lie in those files. `settings` sets the umask
before anything is written; this module closes what an earlier version, or a person, left open.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

logger = logging.getLogger(__name__)


def tighten(places: Iterable[Path], *, umask: int) -> int:
    """Take from files and folders the permissions that `umask` names; return how many changed, and
    log that in one line.

    A folder that is closed already hides what is in it, so what is below is looked at only where
    the folder itself was open. Links are not followed. What belongs to somebody else stays as it
    is, and the log says so.
    """
    changed, refused = 0, ""
    for place in places:
        for path, mode in list(_open(place, umask)):
            try:
                path.chmod(mode & ~umask)
                changed += 1
            except FileNotFoundError:
                continue
            except OSError as error:
                refused = refused or f"{path}: {error.strerror}"
    if changed:
        logger.warning(
            "%d files and folders of Waystation could be read by other users of this "
            "machine; now they cannot.",
            changed,
        )
    if refused:
        logger.warning(
            "Other users of this machine may read what Waystation keeps, and it could not "
            "be closed: %s.",
            refused,
        )
    return changed


def _open(place: Path, umask: int) -> Iterator[tuple[Path, int]]:
    """Find the files and folders that are open to others, with their modes.

    The outermost folder comes last: after a stop half-way it is still open, so the next start looks
    into it again.
    """
    try:
        status = place.lstat()
    except OSError:
        return
    if not status.st_mode & umask & 0o777 or stat.S_ISLNK(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        for folder, folders, files in os.walk(place):
            for name in (*folders, *files):
                path = Path(folder, name)
                try:
                    inner = path.lstat()
                except OSError:
                    continue
                if inner.st_mode & umask & 0o777 and not stat.S_ISLNK(inner.st_mode):
                    yield path, stat.S_IMODE(inner.st_mode)
    yield place, stat.S_IMODE(status.st_mode)
