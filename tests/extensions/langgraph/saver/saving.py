"""A saver of a person's, and checkpoints put into it by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from langgraph.checkpoint.conformance.test_utils import generate_checkpoint, generate_metadata

from extensions.langgraph.saver import DjangoSaver


@pytest.fixture
def owner(file_database: None) -> User:
    return User.objects.create_user("ana", password="ana's long password")


@pytest.fixture
def saver(owner: User) -> Iterator[DjangoSaver]:
    with DjangoSaver(owner=owner) as opened:
        yield opened


def config(thread: str = "t", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **more}}


def put(
    saver: Any,
    values: dict[str, Any],
    *,
    parent: Any = None,
    thread: str = "t",
    version: Any = None,
    **metadata: Any,
) -> Any:
    """A checkpoint with new versions of all its channels."""
    versions = {name: version or saver.get_next_version(None, None) for name in values}
    checkpoint = generate_checkpoint(channel_values=values, channel_versions=versions)
    return saver.put(parent or config(thread), checkpoint, generate_metadata(**metadata), versions)


def values(saver: Any, at: Any = None) -> dict[str, Any]:
    found = saver.get_tuple(at or config())
    assert found is not None
    return dict(found.checkpoint["channel_values"])


def change(table: Any, **columns: Any) -> None:
    """Change stored bytes behind the product's back."""
    table._default_manager.update(**columns)
