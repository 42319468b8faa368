"""Assistants that a client makes: saved configurations of a template, as rows of the caller's own.

A template is configured by this server's people, so one changes little: under its id and its name
a run takes its template, and its metadata is that of each such run where the run says no other.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from pydantic import Field

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.state import codec
from extensions.langgraph.api import assistants, threads
from extensions.langgraph.api.assistants import Saved
from extensions.langgraph.api.calls import Call, Given, Reply, invalid, key_of
from hitl.live.pump import StreamRefused
from hitl.models import LangGraphAssistant, LangGraphAssistantVersion
from runs import limits
from runs.models import Template

UNTITLED = "Untitled"


class _Said(Given):
    graph_id: str = ""
    name: str = Field(default="", max_length=120)
    description: str = Field(default="", max_length=1_000)
    metadata: dict[str, Any] = {}
    config: dict[str, Any] = {}
    context: Any = None


class AssistantIn(_Said):
    assistant_id: str = ""
    if_exists: str = "raise"


class AssistantChange(_Said):
    pass


class VersionsIn(Given):
    metadata: dict[str, Any] = {}
    limit: int = 10
    offset: int = 0


class LatestIn(Given):
    version: int


def create(call: Call) -> Reply:
    """Raises StreamRefused."""
    given = call.body(AssistantIn)
    if given.if_exists not in {"raise", "do_nothing"}:
        raise invalid("if_exists is raise or do_nothing.")
    key = key_of(given.assistant_id, "assistant_id") if given.assistant_id else ids.new()
    known = assistants.saved_as(call, str(key))
    if known is not None and given.if_exists == "do_nothing":
        return _reply(known)
    _check(given)
    says = LangGraphAssistantVersion(
        number=1,
        template=assistants.find(call, given.graph_id).slug,
        name=given.name or UNTITLED,
        description=given.description,
        metadata=given.metadata,
    )
    _check_words(says)
    if _is_taken(key):
        return _made_before(call, key, given)
    try:
        with transaction.atomic(durable=True):
            _one_by_one(call)
            if LangGraphAssistant.objects.filter(owner=call.by).count() >= limits.ASSISTANTS:
                raise invalid(
                    f"You have {limits.ASSISTANTS} assistants, and may have no more. Delete one "
                    "first."
                )
            says.assistant = LangGraphAssistant.objects.create(
                id=key, owner=call.by, changed_at=clock.now()
            )
            says.save(force_insert=True)
    except IntegrityError:  # of two at once one wins
        return _made_before(call, key, given)
    return _reply(Saved(says.assistant, says))


def change(call: Call) -> Reply:
    """Make another version, which counts from now on. Raises StreamRefused."""
    given = call.body(AssistantChange)
    _check(given)
    template = assistants.find(call, given.graph_id).slug if given.graph_id else ""
    with transaction.atomic(durable=True):
        before = _mine(call)
        row, said = before.row, before.says
        newest = row.versions.order_by("-number").values_list("number", flat=True)[0]
        says = LangGraphAssistantVersion(
            assistant=row,
            number=newest + 1,
            template=template or said.template,
            name=given.name or said.name,
            description=given.description or said.description,
            metadata={**before.metadata, **given.metadata},
        )
        _check_words(says)
        says.save(force_insert=True)
        _count(row, says.number)
        kept = row.versions.order_by("-number").values("pk")[: limits.ASSISTANT_VERSIONS]
        row.versions.exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()
    return _reply(Saved(row, says))


def set_latest(call: Call) -> Reply:
    """Let a version count that is kept. Raises StreamRefused."""
    given = call.body(LatestIn)
    with transaction.atomic(durable=True):
        row = _mine(call).row
        says = row.versions.filter(number=given.version).first()
        if says is None:
            raise StreamRefused(404, "not_found", "There is no such version.")
        _count(row, says.number)
    return _reply(Saved(row, says))


def delete(call: Call) -> Reply:
    """Delete one with its versions; threads and runs stay. Raises StreamRefused."""
    if call.query.get("delete_threads", "false").lower() not in {"", "0", "false"}:
        raise invalid("delete_threads: not here; delete threads one by one.")
    with transaction.atomic(durable=True):
        _mine(call).row.delete()
    return Reply(status=204)


def versions(call: Call) -> Reply:
    """The newest first; a template's is its current one alone. Raises StreamRefused."""
    given = call.body(VersionsIn)
    found = assistants.saved_as(call, call.names["assistant_id"])
    if found is None:
        rows = [assistants.shown(assistants.find(call, call.names["assistant_id"]))]
    else:
        rows = [
            assistants.shown_saved(found.row, says, at=says.made_at)
            for says in found.row.versions.order_by("-number")
        ]
    said = given.metadata.items()
    rows = [row for row in rows if all(row["metadata"].get(key) == value for key, value in said)]
    return assistants.page(rows, given.limit, given.offset, [])


def _reply(one: Saved) -> Reply:
    return Reply(data=assistants.shown_saved(one.row, one.says))


def _one_by_one(call: Call) -> None:
    """Whoever counts or changes what this person has does so one after the other."""
    User.objects.select_for_update(no_key=True).get(pk=call.by.pk)


def _mine(call: Call) -> Saved:
    """The caller's of the address, to be changed. Call inside a transaction; raises
    StreamRefused.
    """
    _one_by_one(call)
    found = assistants.saved_as(call, call.names["assistant_id"])
    if found is None:
        assistants.find(call, call.names["assistant_id"])  # or it is unknown
        raise StreamRefused(
            403,
            "shipped_assistant",
            "Nothing was changed: this assistant is a template, which this server's people keep. "
            "Create one of your own with its graph_id.",
        )
    return found


def _count(row: LangGraphAssistant, number: int) -> None:
    row.version, row.changed_at = number, clock.now()
    row.save(update_fields=["version", "changed_at"])


def _is_taken(key: uuid.UUID) -> bool:
    slugs: Any = Template.objects.values_list("slug", flat=True).distinct()
    return LangGraphAssistant.objects.filter(pk=key).exists() or str(key) in map(
        assistants.id_of, slugs
    )


def _made_before(call: Call, key: uuid.UUID, given: AssistantIn) -> Reply:
    """The caller's own under this id, where that is enough. Raises StreamRefused."""
    known = assistants.saved_as(call, str(key)) if given.if_exists == "do_nothing" else None
    if known is None:
        raise StreamRefused(409, "assistant_exists", "There is an assistant of this id already.")
    return _reply(known)


def _check(given: _Said) -> None:
    """Refuse what would be kept and change nothing. Raises StreamRefused."""
    for name in ("config", "context"):
        said = getattr(given, name)
        if any(said.values()) if isinstance(said, Mapping) else said:
            raise invalid(f"{name}: templates are configured by this server's people.")
    threads.check(given.metadata)


def _check_words(says: LangGraphAssistantVersion) -> None:
    threads.check(says.metadata)
    for name in ("name", "description"):
        if getattr(says, name) != codec.readable(getattr(says, name)):
            raise invalid(f"{name}: there are characters in it that cannot be kept.")
    if len(codec.encode(says.metadata)) > limits.ASSISTANT_BYTES:
        raise invalid(f"metadata: up to {limits.ASSISTANT_BYTES:,} bytes.")
