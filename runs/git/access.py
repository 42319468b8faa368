"""How git gets at a remote repository that wants to know who asks, without a token in a file, an
argument or a log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

USER = "x-access-token"
"""GitHub's name for a token; GitLab and others take any."""

# git calls it with its question as the only argument; `set -u` is not needed, an unset name only
# answers nothing.
ASKPASS = b"""#!/bin/sh
# Answers git's questions about one origin, from the environment of that one git process.
case "$1" in
  "Username for '$WAYSTATION_ORIGIN'"*) printf '%s\\n' "$WAYSTATION_USER" ;;
  "Password for '$WAYSTATION_ORIGIN_OF_USER'"*) printf '%s\\n' "$WAYSTATION_TOKEN" ;;
  *) exit 1 ;;
esac
"""


@dataclass(frozen=True, kw_only=True)
class Access:
    """What an origin is told who asks for a user and a password."""

    token: str = field(repr=False)
    user: str = USER


def asks_for_token(url: str) -> bool:
    """Whether an origin is reached by HTTP: others know who asks by a key of the host's, or need
    not.
    """
    return urlsplit(url).scheme in {"http", "https"}


def environment(access: Access, url: str, *, askpass: Path) -> dict[str, str]:
    """What git's environment holds besides, for a command that speaks to `url`: nothing unless that
    is HTTP.

    `askpass` is where ASKPASS is, to be executed. It answers for the origin of `url` alone.
    """
    if not asks_for_token(url):
        return {}
    parts = urlsplit(url)
    return {
        "GIT_ASKPASS": str(askpass),
        "WAYSTATION_ORIGIN": f"{parts.scheme}://{parts.netloc}",
        "WAYSTATION_ORIGIN_OF_USER": f"{parts.scheme}://{access.user}@{parts.netloc}",
        "WAYSTATION_USER": access.user,
        "WAYSTATION_TOKEN": access.token,
    }


def write_askpass(file: Path) -> None:
    """It holds no secret, so it may lie beside a workspace."""
    if not file.is_file() or file.is_symlink() or file.read_bytes() != ASKPASS:
        file.unlink(missing_ok=True)
        file.write_bytes(ASKPASS)
    file.chmod(0o700)
