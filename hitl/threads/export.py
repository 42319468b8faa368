"""Export and import of a thread: the memory's part, the runs, and what people were asked and
answered, in one document.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.export import graphs, thread_document
from checkpoints.export.thread_document import Document, Loaded
from checkpoints.models import Thread
from hitl.decisions.services import NotFound
from hitl.models import Import
from hitl.threads import descendants
from runs import export as runs
from runs import keyed

HISTORY = ("runs", "pauses", "decisions", "memos")
"""What a document says of people and of work that was recorded: kept to be looked at and exported
again, and no row that counts.
"""
RIGHT = "checkpoints.import_thread"


def export(thread_id: uuid.UUID) -> Document:
    """The whole document of a thread, in plain.

    Raises NotFound, and store.CheckpointDamaged where something cannot be read.
    """
    with transaction.atomic():
        thread_document.one_view()
        thread = (
            Thread.objects.select_related("owner", "team", "work_order", "imported")
            .filter(pk=thread_id)
            .first()
        )
        if thread is None:
            raise NotFound("There is no such thread.")
        document = _document(thread, root=True)
        below = (
            Thread.objects.filter(pk__in=descendants.below(thread_id))
            .select_related("owner", "team", "imported")
            .order_by("pk")
        )
        children = [thread_document.finish(_document(child, root=False)) for child in below]
        return thread_document.finish({**document, **({"children": children} if children else {})})


def _document(thread: Thread, *, root: bool) -> Document:
    """Of one thread, without header, blobs and digest."""
    document = {**thread_document.export(thread, root=root), **graphs.export(thread)}
    source = _source(thread)
    known = {run["id"] for run in source["runs"]}
    document["thread"]["repository_url"] = source["thread"]["repository_url"] or runs.repository_of(
        thread
    )
    document["memos"] = [*source.get("memos", ()), *document["memos"]]
    document["runs"] = [
        *(runs.apart(source["runs"]) if root else source["runs"]),
        *(run for run in document["runs"] if run["id"] not in known),
    ]
    for section in ("pauses", "decisions"):
        document[section] = [*source[section], *document[section]]
    return document


def export_for(user: User, thread_id: uuid.UUID) -> Document:
    """The document of a thread that this person may see; raises NotFound."""
    if not Thread.objects.visible_to(user).filter(pk=thread_id).exists():
        raise NotFound("There is no such thread.")
    return export(thread_id)


def load(document: Document, *, owner: User, team: Group | None = None) -> Loaded:
    """Import a document that `export.read` gave, with those of its child runs, as threads of that
    owner; gives the first one's.

    Raises portable.ImportRefused, and reducers.StateTooLarge; then nothing is written.
    """
    with transaction.atomic():
        made = runs.plan(thread_document.family(document))
        documents = [runs.joined(one, made) for one in thread_document.family(document)]
        names = thread_document.named(documents)
        most = settings.WAYSTATION_STATE_BYTES
        loaded = [
            thread_document.load(one, names, owner=owner, team=team, most=most) for one in documents
        ]
        runs.load(documents, loaded, made)
        for one, there in zip(documents, loaded, strict=True):
            runs.load_artifacts(one, there, made)
            graphs.load(one, there)
            _keep(one, there, owner, within=None if there is loaded[0] else loaded[0].thread)
        # after all times that came along, which are in no future: so every page tells what came
        # from what was done here
        Thread.objects.filter(pk__in=[one.thread.pk for one in loaded]).update(
            imported_at=clock.now()
        )
        keyed.made(loaded[0].thread.shown_id)
    return loaded[0]


def _keep(document: Document, loaded: Loaded, owner: User, *, within: Thread | None) -> None:
    """What the document says of people stays with its thread."""
    source = {key: document[key] for key in ("thread", "exported_at", "digest")}
    history = {
        section: loaded.translated(document[section]) for section in HISTORY if section != "memos"
    }
    history["memos"] = thread_document.memos(document, loaded)
    Import.objects.create(
        thread=loaded.thread,
        imported_by=owner,
        at=clock.now(),
        source={**source, **history},
        within=within,
    )


def _source(thread: Thread) -> Document:
    """What an imported thread brought along."""
    imported = getattr(thread, "imported", None)
    empty: Document = {"runs": [], "pauses": [], "decisions": [], "thread": {"repository_url": ""}}
    source = thread_document.opened(imported, "source") if imported else empty
    return {
        **source,
        **{
            section: [{**row, thread_document.IMPORTED: True} for row in source.get(section, ())]
            for section in HISTORY
        },
    }
