"""A database that was restored, and a store of states beside it that was not."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connection

from checkpoints.contract.base import shown
from checkpoints.database import clock
from checkpoints.events import watermark
from checkpoints.models import Checkpoint
from checkpoints.store import beside
from hitl.operations.doctor import Level, store
from tests.conftest import drive


@pytest.fixture
def noting(db, monkeypatch):
    """A worker that notes each time it looks."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite is one process, with nothing beside it")
    cache.delete_many([watermark.MARK, watermark.BACK])
    monkeypatch.setattr(watermark, "EVERY", -1.0)
    yield watermark.note
    cache.delete_many([watermark.MARK, watermark.BACK])


def _seen(number: int) -> None:
    kept = {"number": watermark._newest() + number, "at": clock.now().isoformat()}
    cache.set(watermark.MARK, kept)


def test_a_database_that_goes_on_is_nothing_to_tell(noting):
    noting()
    noting()
    assert list(store.went_back()) == []


def test_a_database_behind_what_redis_has_seen_is_told_before_and_after_workers_go_on(noting):
    _seen(5)
    (found,) = store.went_back()
    assert found.level is Level.WARNING and "older than it was" in found.words
    noting()
    noting()
    assert [finding.words for finding in store.went_back()] == [found.words]


def test_states_without_rows_and_rows_without_states_are_named(
    settings, tmp_path: Path, make_order, monkeypatch
):
    settings.CHECKPOINTS = {
        "BACKEND": "checkpoints.backends.file.FileStore",
        "OPTIONS": {"folder": str(tmp_path)},
    }
    monkeypatch.setattr(beside, "SETTLED", -1e15)
    order = drive(make_order())
    (found,) = store.states()
    assert found.level is Level.FINE
    gone = Checkpoint.objects.filter(thread=order.thread_id).latest("pk").pk
    (body,) = tmp_path.rglob(f"{gone.hex}.body")
    later = body.with_name(f"f{gone.hex[1:]}.body")
    body.rename(later)
    missing, unknown = store.states()
    assert missing.level is Level.WRONG and shown(gone) in missing.words
    assert unknown.level is Level.WARNING and "1 states" in unknown.words
