"""A copy of a thread: what is kept of it, as a thread of the caller's own."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from checkpoints.export import thread_document
from checkpoints.state import codec
from extensions.langgraph.api import keys, threads
from extensions.langgraph.api.calls import Call, Given, Reply
from hitl.live.pump import StreamRefused
from hitl.threads import export
from runs.security import scopes


class CopyIn(Given):
    pass


def copy(call: Call) -> Reply:
    """Export and import in one: the history comes along as an import's, so no approval in it counts
    again, and what is asked or runs is not copied alive. Whoever copies another person's thread
    needs the right to import.
    """
    call.body(CopyIn)
    scopes.check_start()
    thread = threads.find(call)
    if thread.owner_id != call.by.pk and not call.by.has_perm(export.RIGHT):
        raise StreamRefused(
            403, "import_not_allowed", "To copy another person's thread needs the right to import."
        )
    text = codec.encode_in_order(export.export_for(call.by, thread.pk))
    document = thread_document.read(text.encode(), limit=settings.WAYSTATION_IMPORT_BYTES)
    metadata = threads.metadata_of(thread)
    team = call.by.groups.filter(pk=thread.team_id).first()

    def act() -> keys.Begun:
        with transaction.atomic(durable=True):
            made = export.load(document, owner=call.by, team=team).thread
            threads.keep(made, made.pk, metadata)
        return made.pk, made.pk

    made, _ = keys.once(call, act)
    return Reply(data=threads.shown([threads.by_key(call, made)])[0])
