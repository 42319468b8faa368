"""Sections of a thread's document: each layer describes its own, and registers it."""

import json

import pytest

from checkpoints.export import sections, thread_document
from checkpoints.export.schema import document_schema, record, shown, text
from checkpoints.export.sections import Section
from checkpoints.export.thread_document import ImportRefused
from hitl.threads import export as whole
from tests.worlds.histories.documents import signed

LIMIT = 10_000_000
NOTES = Section(
    name="notes",
    after="runs",
    row=record({"id": shown("art"), "run_id": shown("run"), "about": {}, "words": text(100)}),
    prefix="art",
    write=lambda thread, *, root: [],
    run_column="run_id",
    redacted=("about",),
    blobs=lambda row: [row["words"]],
)


@pytest.fixture
def notes(monkeypatch):
    """A section that an app of somebody's brings along."""
    monkeypatch.setattr(sections, "_SECTIONS", {**sections._SECTIONS})
    sections.register(NOTES)
    document_schema.cache_clear()
    yield NOTES
    document_schema.cache_clear()


def test_each_layer_describes_its_own_sections():
    """Before, `checkpoints` wrote down what the layers above have in a document: runs, questions,
    votes and decisions.
    """
    names = list(document_schema()["properties"])
    first, last = names.index("blobs") + 1, names.index("graph")
    assert names[first:last] == ["runs", "pauses", "decisions", "artifacts"]
    where = {one.name: one.write.__module__ for one in sections.registered()}
    assert where == {
        "runs": "runs.export",
        "artifacts": "runs.export",
        "pauses": "hitl.threads.document",
        "decisions": "hitl.threads.document",
    }


def test_two_sections_of_one_name_are_refused(notes):
    sections.register(notes)
    with pytest.raises(ValueError, match="two sections of a document are called 'notes'"):
        sections.register(Section(name="notes", after="", row={}, prefix="", write=notes.write))


@pytest.mark.django_db
def test_a_registered_section_is_written_and_checked_like_those_that_are_shipped(make_order, notes):
    document = whole.export(make_order().thread_id)
    assert document["notes"] == []
    assert list(document_schema()["properties"]).index("notes") == (
        list(document_schema()["properties"]).index("runs") + 1
    )
    row = {"id": "art_" + "0" * 26, "run_id": "run_" + "0" * 26, "about": {}, "words": ""}
    assert _refused(document, [{**row, "unknown": 1}]) == "document_invalid"
    assert _refused(document, [{**row, "words": "\0"}]) == "document_invalid"
    assert _refused(document, [row, row]) == "duplicate_id"
    read = thread_document.read(signed({**document, "notes": [row]}), limit=LIMIT)
    names = thread_document.named([read])
    assert row["run_id"] in names.run_ids
    assert {row["id"], row["run_id"]} <= names.names.keys()


@pytest.mark.django_db
def test_a_registered_section_says_what_blobs_it_needs_and_where_secrets_may_not_be(
    make_order, notes, ana
):
    document = json.loads(signed(whole.export(make_order().thread_id)))
    row = {"id": "art_" + "0" * 26, "run_id": "run_" + "0" * 26, "about": {}, "words": ""}
    assert _unloaded(document, {**row, "words": "0" * 64}, ana) == "blob_missing"
    assert _unloaded(document, {**row, "about": {"password": "x"}}, ana) == "secret_in_document"


def _refused(document, rows):
    with pytest.raises(ImportRefused) as refused:
        thread_document.read(signed({**document, "notes": rows}), limit=LIMIT)
    return refused.value.code


def _unloaded(document, row, owner):
    read = thread_document.read(signed({**document, "notes": [row]}), limit=LIMIT)
    with pytest.raises(ImportRefused) as refused:
        whole.load(read, owner=owner)
    return refused.value.code
