"""A thread as one JSON document: what is written of checkpoints, events, memos and blobs, and how
it is read back. No pickle: reading one runs code.

The rest of the document is written and read by the layers above, each by its `sections`;
`hitl.threads.export` joins it all, and is what callers use. The shape is in `schema`.

- A checkpoint is its change against its parent, so a document grows as the history does and not
  with its square.
- Everything is plain: encryption at rest does not reach into a document. What redaction took is not
  in it.
- Everything is checked before anything is written: shape, the document's digest, each checkpoint's
  digest, each blob's.
- An import gets new ids. Ids in events and metadata become the new ones; in states, which digests
  cover, they stay.
- A document is its importer's word. What it brings is marked as imported; approvals and recorded
  results are kept to be looked at, and nothing relies on them.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, Group
from django.db import connection, transaction
from django.utils.dateparse import parse_datetime
from jsonschema import Draft202012Validator

from checkpoints import ids, store
from checkpoints.database import clock
from checkpoints.events import log
from checkpoints.export import sections
from checkpoints.export.schema import FORMAT, VERSION, VERSIONS, document_schema
from checkpoints.models import Blob, Checkpoint, CheckpointStatus, Event, Memo, Thread
from checkpoints.models.fields import Locked
from checkpoints.state import codec, redaction
from checkpoints.store import Entry

Document = dict[str, Any]
IMPORTED = "imported"
"""Metadata key of a checkpoint that came from elsewhere: what its ids were there.

In a document: the row was imported before.
"""
KEPT = (
    "git", "loops", "loops_before", "last_pause", "blocking_reason", "error", "failure_code",
    "outputs", "report", "gather", "reason",
    "restored_from", "damaged",
)  # fmt: skip
"""Metadata that an imported checkpoint keeps, to be looked at.

Whatever a step or an approval could rely on is not among it.
"""
BATCH = 500
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class ImportRefused(Exception):
    """The document was not imported; nothing was written.

    `code` is stable, the words are for people.
    """

    def __init__(self, code: str, words: str) -> None:
        super().__init__(f"{words} Nothing was imported.")
        self.code = code


class DocumentTooLarge(ImportRefused):
    def __init__(self, limit: int, words: str = "") -> None:
        super().__init__(
            "document_too_large", words or f"The document is larger than {limit} bytes."
        )
        self.limit = limit


# export


def export(thread: Thread, *, root: bool = True) -> Document:
    """Give all sections of a document but the graph; `root` is as for `sections.Write`.

    Raises store.CheckpointDamaged where something cannot be read.
    """
    checkpoints = list(_exported(thread))
    events = [
        _event(event)
        for event in Event.objects.filter(thread=thread).order_by("seq").iterator(chunk_size=BATCH)
    ]
    recorded = [
        {"scope": memo.scope, "key": memo.key, "value": opened(memo, "value")[0]}
        for memo in Memo.objects.filter(thread=thread).order_by("pk")
    ]
    about = {
        "id": thread.shown_id,
        "title": thread.title,
        "owner": thread.owner.get_username(),
        "team": thread.team.name if thread.team else None,
        "head": _shown(Checkpoint.PREFIX, thread.head_id),
        "repository_url": "",
        "created_at": thread.created_at.isoformat(),
        **({IMPORTED: True} if thread.imported_at else {}),
    }
    above = {section.name: section.write(thread, root=root) for section in sections.registered()}
    own = {"thread": about, "checkpoints": checkpoints, "events": events, "memos": recorded}
    return {**own, **above}


def _event(one: Event) -> Document:
    data = dict(opened(one, "data"))
    mark = {IMPORTED: True} if data.pop(log.IMPORTED_AT, None) else {}
    return {
        "seq": one.seq,
        "event": one.kind,
        "run_id": _shown("run", one.run_id),
        "data": data,
        "at": one.at.isoformat(),
        **mark,
    }


def finish(document: Document) -> Document:
    """A document with its header, the blobs that it mentions, and its digest."""
    blobs = {key: base64.b64encode(_blob(key)).decode() for key in sorted(_mentioned(document))}
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "exported_at": clock.now().isoformat(),
        **document,
        "blobs": blobs,
    }
    return {**whole, "digest": digest(whole)}


def _blob(key: str) -> bytes:
    try:
        return store.get_blob(key)
    except Blob.DoesNotExist as error:
        raise store.CheckpointDamaged(f"the blob {key[:12]} is missing") from error


def digest(document: Mapping[str, Any]) -> str:
    """Over all but the digest itself."""
    return codec.digest(
        codec.encode({key: value for key, value in document.items() if key != "digest"})
    )


def one_view() -> None:
    """From here on this transaction sees the database as it is now, whatever others commit.

    SQLite does so by itself.
    """
    if connection.vendor == "postgresql" and len(connection.savepoint_ids) == 0:
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def _exported(thread: Thread) -> Iterator[Document]:
    """The checkpoints, parents first; a state is let go when nothing that follows needs it."""
    own = Checkpoint.objects.filter(thread=thread, graph=None)  # a graph's are `graphs`'s
    rows = {checkpoint.pk: checkpoint for checkpoint in own.defer("body").order_by("pk")}
    waiting = Counter(checkpoint.parent_id for checkpoint in rows.values())
    states: dict[uuid.UUID, codec.State] = {}
    for row in _parents_first(rows):
        before = states.get(row.parent_id) if row.parent_id else None
        state = store.load(row)
        content = (
            {"state": state}
            if before is None
            else {"change": codec.difference(before, codec.state(state, before))}
        )
        if waiting[row.pk]:
            states[row.pk] = codec.state(state)
        if row.parent_id in states:
            waiting[row.parent_id] -= 1
            if not waiting[row.parent_id]:
                del states[row.parent_id]
        yield (
            _checkpoint(row, codec.state_digest(codec.state(state)), parent=before is not None)
            | content
        )


def _parents_first(rows: Mapping[uuid.UUID, Checkpoint]) -> Iterator[Checkpoint]:
    given: set[uuid.UUID] = set()
    for row in rows.values():
        line = []
        while row.pk not in given:
            line.append(row)
            given.add(row.pk)
            if row.parent_id is None or row.parent_id not in rows:
                break
            row = rows[row.parent_id]
        yield from reversed(line)


def _checkpoint(row: Checkpoint, state_digest: str, *, parent: bool) -> Document:
    metadata = dict(opened(row, "metadata"))
    origin = metadata.pop(IMPORTED, None)
    return {
        "id": row.shown_id,
        "run_id": _shown("run", row.run_id),
        "parent_id": _shown(Checkpoint.PREFIX, row.parent_id) if parent else None,
        **{name: getattr(row, name) for name in FIELDS},
        "metadata": metadata,
        "created_at": row.created_at.isoformat(),
        "digest": state_digest,
        **({IMPORTED: origin} if origin else {}),
    }


FIELDS = ("status", "node_id", "next_step", "loop_num", "completed_nodes", "total_nodes")


def opened(row: Any, name: str) -> Any:
    """A column's value; raises store.CheckpointDamaged where it is sealed and cannot be opened."""
    value = getattr(row, name)
    if isinstance(value, Locked):
        raise store.unreadable(f"{row._meta.verbose_name} {row.pk}", value.error)
    return value


def _shown(prefix: str, key: uuid.UUID | None) -> str | None:
    return ids.show(prefix, key) if key else None


def _mentioned(document: Mapping[str, Any]) -> set[str]:
    """The blobs that a document needs.

    Only where the engine puts them: a text that happens to be the address of a blob is none.
    """
    digests = {
        digest
        for section in sections.registered()
        for row in document[section.name]
        for digest in section.blobs(row)
    }
    for row in document["checkpoints"]:
        metadata = row["metadata"]
        reports = (metadata.get("report"), metadata.get("gather", {}).get("report"))
        digests |= {report.get("patch", "") for report in reports if report} | {
            metadata.get("git", {}).get("bundle", "")
        }
    return digests - {""}


# reading


def read(raw: bytes, *, limit: int) -> Document:
    """The document in these bytes, checked in all that one can see without the database.

    Raises ImportRefused.
    """
    if len(raw) > limit:
        raise DocumentTooLarge(limit)
    try:
        document = json.loads(raw, parse_constant=_no_constant)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ImportRefused(
                "document_invalid", f"This is no document of the format {FORMAT!r}."
            )
        if document.get("version") not in VERSIONS:
            known = ", ".join(map(str, VERSIONS))
            raise ImportRefused(
                "unknown_version",
                f"This document is of version {str(document.get('version'))[:20]}; known "
                f"are {known}.",
            )
        if isinstance(document.get("digest"), str) and digest(document) != document["digest"]:
            raise ImportRefused(
                "digest_mismatch",
                "The document's digest does not match: it was changed after its export.",
            )
        for child in family(document)[1:] if isinstance(document.get("children", []), list) else ():
            if not isinstance(child, dict) or child.get("digest") != digest(child):
                raise ImportRefused(
                    "digest_mismatch",
                    "A child run's digest does not match: it was changed after its export.",
                )
        _check_shape(document)
    except RecursionError as error:
        raise ImportRefused("document_too_deep", "The document is nested too deeply.") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise ImportRefused("document_invalid", f"This is not JSON: {str(error)[:200]}.") from error
    for member in family(document):
        _check_texts(member)
        _check_once(member)
    _check_apart(family(document))
    return document


def family(document: Document) -> list[Document]:
    """A document and those of its child runs' threads."""
    return [document, *document.get("children", [])]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _check_shape(document: Document) -> None:
    error = next(iter(Draft202012Validator(document_schema()).iter_errors(document)), None)
    if error is not None:
        place = (
            "".join(
                f"[{part}]" if isinstance(part, int) else f".{part[:40]}"
                for part in error.absolute_path
            )
            or "."
        )
        raise ImportRefused("document_invalid", f"At {place}: {error.message[:200]}.")


def _check_texts(document: Document) -> None:
    for section in ("memos", *_prefixes()):
        for row in document[section]:
            bad = next(
                (
                    name
                    for name, value in row.items()
                    if isinstance(value, str) and value != codec.readable(value)
                ),
                None,
            )
            if bad:
                raise ImportRefused(
                    "document_invalid", f"{section}: {bad} holds a NUL, or bytes that are no UTF-8."
                )
    if codec.holds_unreadable([document["thread"]["title"], document["thread"]["owner"]]):
        raise ImportRefused(
            "document_invalid", "The thread's title holds a NUL, or bytes that are no UTF-8."
        )


def _check_once(document: Document) -> None:
    """Ids are given once, and can be read."""
    for section, prefix in _prefixes().items():
        seen = [row["id"] for row in document[section]]
        if len(set(seen)) < len(seen):
            again = next(key for key, count in Counter(seen).items() if count > 1)
            raise ImportRefused("duplicate_id", f"{section}: {again} is given more than once.")
        for key in seen:
            _key(prefix, key)
    if len({event["seq"] for event in document["events"]}) < len(document["events"]):
        raise ImportRefused("duplicate_id", "events: a number is given more than once.")
    if len({(memo["scope"], memo["key"]) for memo in document["memos"]}) < len(document["memos"]):
        raise ImportRefused("duplicate_id", "memos: a scope and key are given more than once.")
    for above in sections.registered():
        above.check(document[above.name])


def _prefixes() -> dict[str, str]:
    """The sections whose rows have ids, and the prefix of these."""
    above = {section.name: section.prefix for section in sections.registered()}
    return {"checkpoints": Checkpoint.PREFIX, **above}


def _check_apart(documents: Sequence[Document]) -> None:
    """Threads of a family have nothing in common."""
    for section in _prefixes():
        seen = Counter(row["id"] for document in documents for row in document[section])
        if again := next((name for name, count in seen.items() if count > 1), None):
            raise ImportRefused(
                "duplicate_id", f"{section}: {again} is given in more than one thread."
            )
    if len({document["thread"]["id"] for document in documents}) < len(documents):
        raise ImportRefused("duplicate_id", "children: a thread is given more than once.")


def _key(prefix: str, text: str) -> uuid.UUID:
    try:
        return ids.parse(prefix, text)
    except ValueError as error:
        raise ImportRefused("document_invalid", f"{error}.") from error


def time_of(text: str) -> dt.datetime:
    """A time of the document, never in the future: clocks of two hosts differ.

    Before 1970 there is none that a database need hold.
    """
    try:
        moment = parse_datetime(text)
        moment = (
            moment.astimezone(dt.UTC) if moment is not None and moment.tzinfo is not None else None
        )
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment < EPOCH:
        raise ImportRefused("document_invalid", f"{text[:40]!r} is no time with an offset.")
    return min(moment, clock.now())


# import


@dataclass
class NewIds:
    """How the ids of a family become new ones."""

    run_ids: dict[str, uuid.UUID] = field(default_factory=dict)
    """Old shown id → new key, of every run that is mentioned."""
    names: dict[str, str] = field(default_factory=dict)
    """Old shown id → new shown id, of all that is."""

    def translated(self, value: Any) -> Any:
        """A value with the ids in it made new, also as the beginning of an execution's key."""
        if isinstance(value, str):
            first, slash, rest = value.partition("/")
            return self.names.get(value) or (
                f"{self.names[first]}/{rest}" if slash and first in self.names else value
            )
        if isinstance(value, dict):
            return {key: self.translated(item) for key, item in value.items()}
        return [self.translated(item) for item in value] if isinstance(value, list) else value


@dataclass
class Loaded(NewIds):
    """What was written of one document."""

    thread: Thread = field(kw_only=True)
    most: int = 0
    """Bytes that one of its states may have; 0 is any size."""
    head: Checkpoint | None = None


def load(
    document: Document,
    names: NewIds,
    *,
    owner: AbstractBaseUser,
    team: Group | None = None,
    most: int = 0,
) -> Loaded:
    """Write the memory's part of a document that `read` gave, as a new thread.

    Call inside a transaction. Raises ImportRefused, and reducers.StateTooLarge for a state of more
    than `most` bytes, where that is not 0.

    `names` is what `named` gave for the family that it belongs to.
    """
    order = _in_order(document)
    _check_secrets(document)
    blobs = _blobs(document)
    about, key = document["thread"], ids.parse(Thread.PREFIX, names.names[document["thread"]["id"]])
    last = len(document["events"])
    thread = Thread.objects.create(
        pk=key,
        owner_id=owner.pk,
        team=team,
        title=about["title"],
        last_seq=last,
        imported_at=clock.now(),
    )
    loaded = Loaded(names.run_ids, names.names, thread=thread, most=most)
    for content in blobs:
        store.put_blob(content)
    made = _write_checkpoints(document, order, loaded)
    loaded.head = made.get(document["thread"]["head"])
    Thread.objects.filter(pk=thread.pk).update(head=loaded.head)
    _write_events(document, loaded)
    return loaded


def memos(document: Document, names: NewIds) -> list[Document]:
    """The memos of a document, to be kept as history: no step is ever given one."""
    return [
        {**memo, "scope": names.translated(memo["scope"]), "value": redaction.redact(memo["value"])}
        for memo in document["memos"]
    ]


def named(documents: Sequence[Document]) -> NewIds:
    """New ids for all that a family of documents names. Raises ImportRefused."""
    new_ids = NewIds()
    for document in documents:
        _name(document, new_ids)
    return new_ids


def _name(document: Document, found: NewIds) -> None:
    found.names[document["thread"]["id"]] = ids.show(Thread.PREFIX, ids.new())
    columns = {
        **{section.name: section.run_column for section in sections.registered()},
        "checkpoints": "run_id",
        "events": "run_id",
    }
    mentioned = [
        row[column]
        for section, column in columns.items()
        if column
        for row in document[section]
        if row[column]
    ]
    for name in dict.fromkeys(mentioned):
        if name not in found.run_ids:
            _key("run", name)
            found.run_ids[name] = ids.new()
            found.names[name] = ids.show("run", found.run_ids[name])
    for section, prefix in _prefixes().items():
        if columns.get(section) != "id":  # those are the runs, which have their new ids
            found.names |= {row["id"]: ids.show(prefix, ids.new()) for row in document[section]}


def _in_order(document: Document) -> list[Document]:
    """The checkpoints, parents first."""
    rows = {row["id"]: row for row in document["checkpoints"]}
    followed = {row["parent_id"] for row in rows.values()}
    order: list[Document] = []
    waiting: dict[str | None, list[Document]] = {}
    for row in rows.values():
        if row["parent_id"] is not None and row["parent_id"] not in rows:
            raise ImportRefused(
                "parent_missing",
                f"{row['id']} follows {row['parent_id']}, which is not in the document.",
            )
        waiting.setdefault(row["parent_id"], []).append(row)
    ready = waiting.pop(None, [])[::-1]
    while ready:
        order.append(ready.pop())
        ready += waiting.pop(order[-1]["id"], [])[::-1]
    if len(order) < len(rows):
        raise ImportRefused("parent_cycle", "Some checkpoints follow each other in a circle.")
    head = document["thread"]["head"]
    if (head is None) != (not rows) or (
        head is not None and (head not in rows or head in followed)
    ):
        raise ImportRefused("head_invalid", "The thread's head is not one of its last checkpoints.")
    return order


def _check_secrets(document: Document) -> None:
    """What this server would not keep is not let in either."""
    for row in document["checkpoints"]:
        secret = next(
            redaction.found(row["state"] if "state" in row else _written(row["change"])), None
        )
        if secret:
            message = (
                f"{row['id']} holds a value under {secret[:100]!r}, which is named like a secret "
                "and not kept here."
            )
            raise ImportRefused("secret_in_document", message)
    columns = [("events", "data")] + [
        (section.name, column) for section in sections.registered() for column in section.redacted
    ]
    for name, column in columns:
        for row in document[name]:
            if secret := next(redaction.found(row[column]), None):
                raise ImportRefused(
                    "secret_in_document",
                    f"{name}: {secret[:100]!r} is named like a secret, which is not kept here.",
                )


def _written(change: Any) -> dict[str, Any]:
    """All that a change writes, as a state would hold it."""
    try:
        inner = {key: _written(part) for key, part in change.get("in", {}).items()}
        return {**change["set"], **change.get("extend", {}), **inner}
    except store.MISSHAPEN as error:
        raise ImportRefused("document_invalid", "A checkpoint's change is none.") from error


def _blobs(document: Document) -> list[bytes]:
    contents = []
    for key, text in document["blobs"].items():
        try:
            content = base64.b64decode(text.encode("ascii"), validate=True)
        except (ValueError, binascii.Error):
            content = None
        if content is None or codec.digest(content) != key:
            raise ImportRefused("blob_mismatch", f"The blob {key[:12]} does not match its digest.")
        contents.append(content)
    if missing := sorted(_mentioned(document) - document["blobs"].keys()):
        raise ImportRefused(
            "blob_missing", f"The blob {missing[0][:12]} is needed, and not in the document."
        )
    return contents


def _write_checkpoints(
    document: Document, order: Sequence[Document], loaded: Loaded
) -> dict[str, Checkpoint]:
    made: dict[str, Checkpoint] = {}
    states: dict[str, codec.State] = {}
    left = Counter(row["parent_id"] for row in order)
    for row in order:
        parent = row["parent_id"]
        before = states.get(parent) if parent else None
        state = _state(row, before)
        made[row["id"]] = _built(
            row,
            state,
            before,
            made.get(parent) if parent else None,
            loaded,
            document["thread"]["id"],
        )
        states[row["id"]] = state
        left[parent] -= 1
        for done in (parent, row["id"]):
            if done in states and not left[done]:
                del states[done]
    Checkpoint.objects.bulk_create(made.values(), batch_size=BATCH)
    for row in order:
        made[row["id"]].created_at = time_of(row["created_at"])
    Checkpoint.objects.bulk_update(made.values(), ["created_at"], batch_size=BATCH)
    return made


def _state(row: Document, before: codec.State | None) -> codec.State:
    try:
        state = codec.state(row["state"]) if before is None else codec.apply(before, row["change"])
    except codec.NotJson as error:
        raise ImportRefused(error.code, f"{row['id']}: {error}.") from error
    except store.MISSHAPEN as error:
        raise ImportRefused("document_invalid", f"{row['id']}: its change is none.") from error
    if codec.state_digest(state) != row["digest"]:
        raise ImportRefused("digest_mismatch", f"{row['id']} does not match its digest.")
    return state


def _built(
    row: Document,
    state: codec.State,
    before: codec.State | None,
    parent: Checkpoint | None,
    loaded: Loaded,
    thread_id: str,
) -> Checkpoint:
    origin = {"id": row["id"], "run_id": row["run_id"], "thread_id": thread_id}
    values = {name: row[name] for name in FIELDS}
    metadata = {
        **loaded.translated({key: value for key, value in row["metadata"].items() if key in KEPT}),
        IMPORTED: origin,
    }
    entry = Entry(**{**values, "status": CheckpointStatus(row["status"])}, metadata=metadata)
    checkpoint = store.build(
        loaded.thread.pk,
        loaded.run_ids[row["run_id"]],
        state,
        entry,
        parent=parent,
        before=before,
        most=loaded.most,
    )
    checkpoint.pk = ids.parse(Checkpoint.PREFIX, loaded.names[row["id"]])
    return checkpoint


def _write_events(document: Document, loaded: Loaded) -> None:
    """In their order, each marked, under numbers without a gap: a source may have dropped old
    ones.
    """
    assert loaded.thread.imported_at is not None  # `load` has just set it
    at = loaded.thread.imported_at.isoformat()
    facts = sorted(document["events"], key=lambda event: int(event["seq"]))
    events = [
        Event(
            thread=loaded.thread,
            seq=place,
            kind=fact["event"],
            run_id=loaded.run_ids[fact["run_id"]] if fact["run_id"] else None,
            data={**loaded.translated(fact["data"]), log.IMPORTED_AT: at},
        )
        for place, fact in enumerate(facts, start=1)
    ]
    with transaction.atomic():
        Event.objects.bulk_create(events, batch_size=BATCH)
        for event, fact in zip(events, facts, strict=True):
            event.at = time_of(fact["at"])
        Event.objects.bulk_update(events, ["at"], batch_size=BATCH)
