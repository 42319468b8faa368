"""What was written by an older release, in today's form: one registered function per
`schema_version`, chained at every read.

Rows are never rewritten for it. Who changes the form of a body or the digest adds one to
SCHEMA_VERSION, registers here how the version before becomes the new one and how its digest was
taken, and adds a fixture of what the new code writes (`tests/checkpoints/store/version_N.json`;
`tests/checkpoints/store/test_upgrades.py` fails until all three are there).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from checkpoints.state import codec

SCHEMA_VERSION = 2
"""Of what is written: digest by key, deltas that extend, snapshots as `{"state": …, "long": [[path,
last chunk, chunks]]}`. It is the first that is released.
"""

Upgrade = Callable[[Any, bool], Any]
"""(body, whether it is a snapshot) → the body as the next version has it."""


class UnknownVersion(Exception):
    """No release that this one knows wrote that."""


@dataclass(frozen=True)
class Version:
    """How an older version is read."""

    upgrade: Upgrade
    digest: Callable[[codec.State], str]
    """Digests are never taken anew: what an old release signed is checked as it did."""


VERSIONS: dict[int, Version] = {}


def register(version: int, *, digest: Callable[[codec.State], str]) -> Callable[[Upgrade], Upgrade]:
    """Registers the decorated function as the way from `version` to the next one."""

    def keep(upgrade: Upgrade) -> Upgrade:
        if version in VERSIONS:
            raise ValueError(f"version {version} is registered already")
        VERSIONS[version] = Version(upgrade, digest)
        return upgrade

    return keep


def current(version: int, body: Any, *, is_snapshot: bool) -> Any:
    """A body as SCHEMA_VERSION has it; raises UnknownVersion."""
    if version > SCHEMA_VERSION:
        raise UnknownVersion(version)
    for older in range(version, SCHEMA_VERSION):
        body = _known(older).upgrade(body, is_snapshot)
    return body


def digest(version: int, state: codec.State) -> str:
    """The digest of a state as that version took it; raises UnknownVersion."""
    return codec.state_digest(state) if version == SCHEMA_VERSION else _known(version).digest(state)


def _known(version: int) -> Version:
    try:
        return VERSIONS[version]
    except KeyError:
        raise UnknownVersion(version) from None
