"""The registry of tables: what is said of each, and that none is left out."""

import pytest
from django.apps import apps
from django.db import models
from django.test.utils import isolate_apps

from checkpoints import registry
from checkpoints.export.schema import document_schema
from checkpoints.models import Checkpoint
from checkpoints.registry import Table
from checkpoints.retention import housekeeping
from checkpoints.retention.jobs import RoundClaim
from hitl.models import Decision, Snooze
from runs.models import Artifact, Pause
from runs.threads import tables as machine

pytestmark = pytest.mark.one_database
OURS = {"checkpoints", "runs", "hitl"}


def ours():
    found = apps.get_models(include_auto_created=True)
    return [model for model in found if model._meta.app_label in OURS]


def test_every_table_that_refers_to_a_thread_says_how_it_is_exported_kept_and_erased():
    """Before, erasure, exports and retention knew each table by name, and a table that was left out
    failed an erasure in production. Say it in the app's `threads/tables.py`.
    """
    assert registry.unknown(ours()) == []


@pytest.mark.parametrize("left_out", [Snooze, Artifact, Decision], ids=lambda one: one.__name__)
def test_a_table_that_is_left_out_is_found(monkeypatch, left_out):
    some = [table for table in registry.registered() if table.model is not left_out]
    monkeypatch.setattr(registry, "_TABLES", some)
    assert registry.unknown(ours()) == [left_out._meta.label]


def table(name, **columns):
    """A table of `hitl` that somebody adds."""
    meta = type("Meta", (), {"app_label": "hitl"})
    return type(name, (models.Model,), {"__module__": __name__, "Meta": meta, **columns})


@isolate_apps("hitl")
def test_a_new_table_is_found_however_it_refers_to_a_thread():
    note = table("Note", pause=models.ForeignKey(Pause, models.CASCADE))
    line = table("Line", note=models.ForeignKey(note, models.CASCADE))
    plain = table("Plain", run_id=models.UUIDField())
    other = table("Other", thread_count=models.IntegerField())
    found = registry.unknown([*ours(), note, line, plain, other])
    assert found == ["hitl.Line", "hitl.Note", "hitl.Plain"]


def test_what_is_exported_is_in_a_section_of_the_document():
    sections = document_schema()["properties"].keys()
    for table in registry.registered():
        assert table.section in sections if table.section else table.unexported.endswith("."), table


def test_a_table_says_either_where_it_is_exported_or_why_it_is_not():
    for section, why in (("", ""), ("runs", "It is not.")):
        with pytest.raises(ValueError, match="either where it is exported, or why it is not"):
            Table(
                model=Pause,
                kind="x",
                of=lambda threads: Pause.objects.none(),
                section=section,
                unexported=why,
            )


def test_two_tables_of_one_kind_are_refused():
    with pytest.raises(ValueError, match="two tables are called artifacts"):
        registry.register([one for one in machine.TABLES if one.kind == "artifacts"])


def test_checkpoints_that_other_tables_refer_to_are_spared_by_retention():
    for table in registry.registered():
        fields = table.model._meta.concrete_fields
        refers = any(field.related_model is Checkpoint for field in fields)
        above = table.model._meta.app_label != "checkpoints"
        assert bool(table.spares) == (refers and above), table.kind


def test_rows_go_before_those_by_way_of_which_they_are_found():
    """Else the later ones would find nothing, and stay."""
    order = [table.model._meta.app_label for table in registry.registered()]
    assert order == sorted(order, key=["hitl", "runs", "checkpoints"].index)
    kinds = [table.kind for table in registry.registered()]
    for earlier, later in (("pauses", "runs"), ("waits", "outer_runs"), ("votes", "pauses")):
        assert kinds.index(earlier) < kinds.index(later)


def test_a_round_that_is_gone_on_with_reads_every_source_whatever_their_order_is_now(monkeypatch):
    """Before, the claim kept the place of a source in a list: a version with another order went on
    with another source, and freed what the one it passed over refers to.
    """
    marked: list[str] = []
    monkeypatch.setattr(housekeeping, "_mark_these", lambda held, found: marked.extend(found))

    def source(name):
        return lambda cursor, limit: ({f"{name}{cursor}"}, "" if cursor else "2")

    held = RoundClaim(housekeeping.NAME, 1, {"phase": "mark", "cursor": "", "since": ""})
    before = housekeeping._mark(held, {name: source(name) for name in "ab"})
    for _ in range(3):
        next(before)
    assert marked == ["a", "a2", "b"]
    for _ in housekeeping._mark(held, {name: source(name) for name in "cba"}):
        pass
    assert sorted(marked) == ["a", "a2", "b", "b2", "c", "c2"]
