"""Takes in files: those sent with an order or an answer, those uploaded before on its page, and
those that an order names by a path in an allowed folder.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils.translation import gettext

from checkpoints import ids, store
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models import Thread
from checkpoints.state import codec
from checkpoints.text import media
from runs.limits import UPLOADS
from runs.models import Artifact, Run, Upload
from runs.workflows import attachments
from runs.workflows.attachments import LONGEST_NAME, MAX_BYTES


class BadFile(ValueError):
    """A file that cannot be taken. `field` is its place in the input, as a dotted path."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Brought:
    """A file that came along."""

    field: str
    name: str
    size: int
    sha256: str
    content: bytes | None = None
    """None where it is kept already."""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where files may come from."""

    owner: User | str | None
    """Whose uploads count: a person, or the address of somebody without an account."""
    folders: Sequence[Path] = ()
    """Of files that may be named by their path."""
    thread: Thread | None = None
    """The thread whose files may be named by their digest."""
    brought: list[Brought] = field(default_factory=list)

    def take(self, path: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Take one file, and give what is kept in its place. Raises BadFile."""
        ways = [way for way in ("content", "path", "upload", "sha256") if given.get(way)]
        if len(ways) != 1:
            raise BadFile(path, gettext("Send the file once: by its content, or by its name here."))
        made = {
            "content": self._sent,
            "path": self._lying,
            "upload": self._uploaded,
            "sha256": self._known,
        }[ways[0]](path, given)
        self.brought.append(made)
        return {"name": made.name, "bytes": made.size, "sha256": made.sha256}

    def _sent(self, path: str, given: Mapping[str, Any]) -> Brought:
        try:
            content = base64.b64decode(str(given["content"]), validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadFile(path, gettext("The content of the file is not base64.")) from error
        if len(str(given.get("name") or "")) > LONGEST_NAME:
            raise BadFile(
                f"{path}.name",
                gettext("The name of a file may have up to %(most)s characters.")
                % {"most": LONGEST_NAME},
            )
        return brought(path, str(given.get("name") or ""), content)

    def _lying(self, path: str, given: Mapping[str, Any]) -> Brought:
        name, content = _read(path, str(given["path"]), self.folders)
        return brought(path, name, content)

    def _uploaded(self, path: str, given: Mapping[str, Any]) -> Brought:
        row = find(str(given["upload"]), self.owner)
        if row is None:
            raise BadFile(path, gettext("The file is not kept any more. Choose it again."))
        return Brought(path, row.name, row.size, row.digest)

    def _known(self, path: str, given: Mapping[str, Any]) -> Brought:
        rows = Artifact.objects.exclude(media="").filter(
            digest=codec.readable(str(given["sha256"]))
        )
        row = rows.filter(thread=self.thread).first() if self.thread is not None else None
        if row is None:
            raise BadFile(path, gettext("There is no such file here. Send it."))
        return Brought(path, row.filename, row.size, row.digest)


def brought(path: str, name: str, content: bytes) -> Brought:
    """A file as it came. Raises BadFile where it is empty or too large."""
    if not content:
        raise BadFile(path, gettext("The file is empty."))
    if len(content) > MAX_BYTES:
        raise BadFile(
            path,
            gettext("The file has %(size)s bytes; up to %(max_bytes)s can be taken.")
            % {"size": f"{len(content):,}", "max_bytes": f"{MAX_BYTES:,}"},
        )
    digest = hashlib.sha256(content).hexdigest()
    return Brought(path, _plain(name) or path, len(content), digest, content)


def _plain(name: str) -> str:
    """The last part of a name, without what no list can show."""
    last = os.path.basename(name.replace("\\", "/"))
    return "".join(sign for sign in last if sign.isprintable()).strip()[:LONGEST_NAME]


NOT_TAKEN = {"name": "-", "bytes": 1, "sha256": "0" * 64}
"""Stands for a file that was not taken while the rest is looked at."""


def take_in(schema: Mapping[str, Any], values: Any, desk: Desk) -> tuple[Any, dict[str, list[str]]]:
    """The values with each file as it is kept, which `desk` has then, and what was wrong with those
    that cannot be taken: dotted path → sentences.
    """
    errors: dict[str, list[str]] = {}

    def take(path: str, given: Mapping[str, Any]) -> Any:
        try:
            return desk.take(path, given)
        except BadFile as error:
            errors[error.field] = [str(error)]
            return NOT_TAKEN

    return attachments.each_taken(schema, values, take), errors


def keep(run: Run, step: str, files: Sequence[Brought]) -> None:
    """Keep files with a run. Call inside a transaction."""
    for file in files:
        mine = Artifact.objects.filter(run=run, step=step, name=file.field[:100]).exclude(media="")
        if mine.filter(digest=file.sha256).exists():
            continue
        content = store.get_blob(file.sha256) if file.content is None else file.content
        store.put_blob(content)  # touched, too: see keeping
        latest = mine.aggregate(latest=Max("loop_num"))["latest"]
        Artifact.objects.create(
            run=run,
            thread_id=run.thread_id,
            step=step,
            name=file.field[:100],
            loop_num=(latest or 0) + 1,
            filename=file.name,
            media=media.of(content),
            digest=file.sha256,
            size=file.size,
            created_at=clock.now(),
        )


def upload(content: bytes, name: str, *, owner: User | str, field: str) -> Upload:
    """Keep a file until its form is sent whole: the newest UPLOADS of a person are.

    Raises BadFile.
    """
    file = brought(field, name, content)
    with transaction.atomic(durable=True):
        row = Upload.objects.create(
            **_owned(owner),
            name=file.name,
            digest=store.put_blob(content),
            size=file.size,
            media=media.of(content),
            made_at=clock.now(),
        )
        newest = Upload.objects.filter(**_owned(owner)).order_by("-pk")[:UPLOADS]
        Upload.objects.filter(**_owned(owner)).exclude(
            pk__in=list(newest.values_list("pk", flat=True))
        ).delete()
    return row


def find(shown_id: str, owner: User | str | None) -> Upload | None:
    """An upload of this person's own."""
    try:
        key = ids.parse(Upload.PREFIX, shown_id)
    except ValueError:
        return None
    return None if not owner else Upload.objects.filter(pk=key, **_owned(owner)).first()


def _owned(owner: User | str) -> dict[str, Any]:
    return {"address": owner} if isinstance(owner, str) else {"owner": owner}


def _read(field: str, path: str, folders: Sequence[Path]) -> tuple[str, bytes]:
    """Never tells of a path outside the folders whether it is there."""
    if codec.holds_unreadable(path) or not path.startswith("/"):
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
