"""Takes in the files of a new work order: those sent with it, and those it names by a path in an
allowed folder.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runs.workflows.attachments import MAX_BYTES, File, names_in


class BadFile(ValueError):
    """A file that cannot be taken. `field` is the input's property."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def take_in(
    schema: Mapping[str, Any], values: Mapping[str, Any], *, folders: Sequence[Path]
) -> tuple[dict[str, Any], dict[str, File]]:
    """The input as the order keeps it, and its files as the state gets them.

    `values` fit the schema. Raises BadFile.
    """
    kept, files = dict(values), {}
    for field in names_in(schema):
        if field not in values:
            continue
        given = values[field]
        name, content = (
            _read(field, given["path"], folders) if "path" in given else _decoded(field, given)
        )
        if not content:
            raise BadFile(field, "The file is empty.")
        if len(content) > MAX_BYTES:
            raise BadFile(
                field, f"The file has {len(content):,} bytes; up to {MAX_BYTES:,} can be taken."
            )
        digest = hashlib.sha256(content).hexdigest()
        files[field] = File(name=name, content=base64.b64encode(content).decode(), sha256=digest)
        kept[field] = {"name": name, "bytes": len(content), "sha256": digest}
    return kept, files


def _decoded(field: str, given: Mapping[str, Any]) -> tuple[str, bytes]:
    name = os.path.basename(str(given.get("name") or "").replace("\\", "/")) or field
    try:
        return name, base64.b64decode(given["content"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadFile(field, "The content of the file is not base64.") from error


def _read(field: str, path: str, folders: Sequence[Path]) -> tuple[str, bytes]:
    """Never tells of a path outside the folders whether it is there."""
    if "\0" in path or not path.startswith("/"):
        raise BadFile(field, "Give the file as an absolute path.")
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
        raise BadFile(field, f"{path} is not inside a folder whose files may be used.")
    try:
        # a pipe must not hold the request
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise BadFile(
            field, f"{path} cannot be read: it is not there, or not for this server."
        ) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise BadFile(field, f"{path} is no file.")
    with open(handle, "rb") as file:
        return real.name, file.read(MAX_BYTES + 1)
