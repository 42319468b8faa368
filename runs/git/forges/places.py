"""Where a forge is, and whether it may be reached from here: only origins that operators named,
whatever an address resolves to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from runs.workflows.refusals import in_json

USUAL = {"github": "https://api.github.com", "gitlab": "https://gitlab.com"}
"""Kind of forge → its own service, where a repository names no other."""
TITLES = {"github": "GitHub", "gitlab": "GitLab"}
LONGEST = 500
_SEGMENT = re.compile(r"[A-Za-z0-9_.-]+")


class BadForge(ValueError):
    """A forge that may not be reached, or settings that name none.

    The message is for the operator.
    """


@dataclass(frozen=True, kw_only=True)
class ForgeRepository:
    """A repository at a forge, and how it is reached."""

    kind: str
    """A key of USUAL."""
    url: str
    """What the forge's REST addresses begin with, as `checked_url` gives it."""
    project: str
    """`owner/name`; at GitLab also with groups in between."""
    token: str = field(repr=False)
    seconds: float = 20.0
    """How long the forge may keep us waiting, each time."""


def checked_url(kind: str, url: str, *, allowed: Sequence[str]) -> str:
    """The normalised base address of a forge of that kind.

    Args:
        url: e.g. `https://git.example.org/api/v3` for GitHub's own servers,
            `https://git.example.org` for GitLab; "" for the usual one.
        allowed: origins such as `https://git.example.org:8443`. Without TLS only where an origin
            says so itself.
    Raises:
        BadForge: what is wrong with it.
    """
    if kind not in USUAL:
        raise BadForge(
            f"There is no forge of the kind {in_json(kind)}; there are {', '.join(USUAL)}."
        )
    url = url.strip() or USUAL[kind]
    if (
        len(url) > LONGEST
        or not url.isascii()
        or not url.isprintable()
        or re.search(r"[\s\\]", url)
    ):
        raise BadForge(
            f"Write the address in up to {LONGEST} ASCII characters, without spaces or backslashes."
        )
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise BadForge("This is no address: write https://host/path.") from None
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise BadForge("Write the address as https://host/path, without “?” or “#”.")
    if parts.username is not None or parts.password is not None:
        raise BadForge(
            "Leave user and password out of the address: a forge is reached with a credential."
        )
    if ".." in unquote(parts.path).split("/"):
        raise BadForge("The path of the address has no “..”.")
    shown = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{shown}" + (
        f":{port}" if port and port != {"http": 80, "https": 443}[parts.scheme] else ""
    )
    if origin not in {entry.lower().rstrip("/") for entry in allowed}:
        raise BadForge(
            f"Forges at {origin} may not be reached from here. Operators allow origins by "
            "WAYSTATION_FORGES."
        )
    return origin + parts.path.rstrip("/")


def project_of(repository_url: str, *, kind: str, forge_url: str) -> str:
    """`owner/name` of a repository's URL. Raises BadForge where the URL has none.

    Args:
        forge_url: as `checked_url` gives it; GitLab under a path has that path before its projects,
            too.
    """
    if repository_url.startswith("/"):
        raise BadForge(
            "The repository is a local folder: name its project at the forge, owner/name."
        )
    path = (
        urlsplit(repository_url).path
        if "://" in repository_url
        else repository_url.partition(":")[2]
    )
    if kind == "gitlab":
        path = path.removeprefix(urlsplit(forge_url).path)
    return checked_project(path.strip("/").removesuffix(".git"), kind=kind)


def checked_project(project: str, *, kind: str) -> str:
    """The project as it was, if it can be one. Raises BadForge."""
    segments = project.split("/")
    fits = len(segments) == 2 if kind == "github" else len(segments) >= 2
    if not fits or not all(
        _SEGMENT.fullmatch(segment) and segment not in {".", ".."} for segment in segments
    ):
        raise BadForge(
            f"{in_json(project, 100)} is no project at {TITLES.get(kind, 'a forge')}: "
            "that is owner/name."
        )
    return project
