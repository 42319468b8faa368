"""The patch of a question as people talk about it: its files and lines, and who has seen which."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.utils.translation import gettext

from checkpoints import store
from checkpoints.database.people import User
from hitl.decisions import visibility
from hitl.decisions.errors import NotFound
from hitl.models import SeenFile
from hitl.rendering.patches import reading
from runs.models import Pause


def read(pause: Pause) -> reading.ReadPatch:
    """The patch under review, by file. Raises CheckpointDamaged, Blob.DoesNotExist."""
    return reading.parse(store.get_blob(pause.patch_digest).decode("utf-8", "surrogateescape"))


def mark_seen(patch: reading.ReadPatch, pause: Pause, by: User) -> None:
    """Note in a patch which of its files this person has ticked as seen."""
    rows = SeenFile.objects.filter(thread=pause.run.thread_id, person=by.pk)
    seen = set(rows.values_list("digest", flat=True))
    for file in patch.files:
        file.seen = file.digest in seen


def tick(pause_id: uuid.UUID, digest: str, *, seen: bool, by: User) -> Pause:
    """Tick a file of the patch as seen, or take the tick back. It decides nothing.

    Args:
        digest: of the file's part, as `FileDiff.digest`.
    Raises:
        NotFound: there is no such question, or file, for this person.
    """
    pause = visibility.find_shown(pause_id, by=by)
    files = read(pause).files if pause.patch_digest else []
    if all(file.digest != digest for file in files):
        raise NotFound(gettext("There is no such file in the patch of this question."))
    _tick(pause, digest, seen, by)
    return pause


@transaction.atomic(durable=True)
def _tick(pause: Pause, digest: str, seen: bool, by: User) -> None:
    thread = pause.run.thread
    if seen:
        SeenFile.objects.get_or_create(thread=thread, person=by, digest=digest)
    else:
        SeenFile.objects.filter(thread=thread, person=by, digest=digest).delete()
