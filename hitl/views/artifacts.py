"""Texts that steps kept: what an agent was told, and all that it wrote; and files that people
handed in, or have uploaded for a form.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from checkpoints import store
from checkpoints.database.people import User
from checkpoints.models import Blob, Thread
from checkpoints.store.prepared_queries import Prepared
from hitl.forms.fields import FormField
from hitl.forms.kinds import KeptFile
from hitl.rendering import files, paging
from hitl.rendering.paging import ListAddress, ListPage
from hitl.views.common import person
from runs.models import Artifact, Run, Upload
from runs.services import uploads

SHOWN = 100
NEWEST = paging.ListOrder(newest=True, prefix=Artifact.PREFIX)


def of(
    thread_id: uuid.UUID, below: Iterable[Run], here: ListAddress, *, has_some: bool = True
) -> ListPage[Artifact]:
    """Those of a thread and of the child runs below its run, a page from the newest on, each page
    oldest first.

    `has_some` is false where the caller knows that the thread itself has none.
    """
    threads = {thread_id, *(run.thread_id for run in below)}

    def read(after: str, limit: int) -> list[Artifact]:
        if not after and len(threads) == 1:
            return _newest.get(thread_id) if has_some else []
        artifacts = Artifact.objects.filter(thread__in=threads).select_related("run")
        return list(NEWEST(artifacts, NEWEST.read(after) if after else None)[:limit])

    page = paging.paged(
        here, "artifacts", read, lambda row: NEWEST.write(NEWEST.place(row)), size=SHOWN
    )
    return replace(page, rows=page.rows[::-1])


_newest = Prepared(
    lambda key: NEWEST(Artifact.objects.filter(thread=key).select_related("run"))[: SHOWN + 1],
    uuid.UUID,
)
"""Of one thread alone: nearly every page asks for them."""


@require_safe
@login_required
def artifact(request: HttpRequest, artifact_id: uuid.UUID) -> HttpResponse:
    """The text as text, whatever is in it: a browser is told to make nothing else of it."""
    seen = Thread.objects.visible_to(person(request))
    row = Artifact.objects.filter(pk=artifact_id, thread__in=seen).first()
    if row is None:
        raise Http404(gettext("There is no such artifact."))
    if row.dropped_at:
        return render(
            request, "hitl/checkpoints/artifact_dropped.html", {"artifact": row}, status=410
        )
    try:
        content = store.get_blob(row.digest)
    except (store.CheckpointDamaged, Blob.DoesNotExist) as error:
        raise Http404(
            gettext("The artifact cannot be shown: %(error)s.") % {"error": error}
        ) from error
    if row.media:
        return _file(request, content, row.filename, row.media)
    response = HttpResponse(content, content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Disposition"] = f'inline; filename="{row.shown_id}.txt"'
    return response


@require_safe
@login_required
def upload(request: HttpRequest, upload_id: uuid.UUID) -> HttpResponse:
    """A file that this person has uploaded, and not sent yet."""
    row = Upload.objects.filter(pk=upload_id, owner=person(request)).first()
    if row is None:
        raise Http404(gettext("There is no such file."))
    return _file(request, store.get_blob(row.digest), row.name, row.media)


def _file(request: HttpRequest, content: bytes, name: str, kind: str) -> HttpResponse:
    """A file to save; `?preview` shows a picture, `?text` the text that is in it."""
    if "text" in request.GET:
        return files.as_text(content, kind)
    return files.as_download(content, name, kind, preview="preview" in request.GET)


def take_uploads(request: HttpRequest, fields: Iterable[FormField], owner: User | str) -> None:
    """Keep the files that came with a form, which has them by name from here on: whatever is wrong
    with its other fields, nobody chooses a file twice.
    """
    data = request.POST.copy()
    for field in fields:
        sent = request.FILES.get(field.name) if field.kind == "file" else None
        if sent is None:
            continue
        try:
            row = uploads.upload(sent.read(), sent.name or "", owner=owner, field=field.label)
        except uploads.BadFile as error:
            data[f"{field.name}.refused"] = str(error)
            continue
        # without an account there is no page that shows it
        kind = "" if isinstance(owner, str) else row.media
        data[f"{field.name}.kept"] = str(KeptFile(row.shown_id, row.size, kind, row.name))
        data.pop(f"{field.name}.drop", None)
    request.POST = data  # type: ignore[assignment]  # Django's own setter takes any QueryDict
