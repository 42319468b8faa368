"""A graph's checkpoints, encrypted at rest: nothing readable in a dump, all of it readable with the
keys, and keys can change.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from langgraph.types import Command

from checkpoints import store
from checkpoints.models import Checkpoint
from checkpoints.models.graphs import GraphBlob, GraphCheckpoint, GraphWrite
from checkpoints.security import key_rotation
from checkpoints.state import encryption
from checkpoints.store import CheckpointDamaged, StateLocked
from extensions.langgraph.saver import DjangoSaver
from tests.databases.encryption_keys import NEW, OLD, dump, keys
from tests.databases.whole import file_database
from tests.extensions.langgraph.saver import graphs
from tests.extensions.langgraph.saver.saving import owner as owner
from tests.extensions.langgraph.saver.saving import saver as saver

__all__ = ["file_database"]
WORD = "Wiesenschaumkraut"
AT: Any = {"configurable": {"thread_id": "t"}}


def sealed_with() -> set[str]:
    """The keys of all that graphs keep, as the database has it."""
    found = set()
    with connection.cursor() as cursor:
        for model in (GraphCheckpoint, GraphBlob, GraphWrite):
            cursor.execute(f"SELECT content FROM {model._meta.db_table}")
            found |= {encryption.key_of(bytes(content)) for (content,) in cursor.fetchall()}
    return found


def test_a_dump_shows_nothing_of_a_graph_and_the_saver_everything(saver):
    """The graph's own tables too: values, what it goes on from, and what is asked and answered."""
    with keys(NEW):
        graph = graphs.line(saver)
        graph.invoke({"log": [f"{WORD} input"] * 30}, AT)
        graph.invoke(Command(resume=f"{WORD} answer"), AT)
        assert WORD not in dump()
        assert sealed_with() == {encryption.Key.parse(NEW).id}
        assert graph.get_state(AT).values["answers"] == [f"{WORD} answer"]
        assert len(list(graph.get_state_history(AT))) == 6
        shown = store.load(Checkpoint.objects.latest("pk"))
        assert shown["log"][:1] == [f"{WORD} input"]


def test_the_same_words_stand_in_a_dump_without_keys(saver):
    """So the test above can fail."""
    graphs.line(saver).invoke({"log": ["in"], "name": f"{WORD} name"}, AT)
    assert WORD in dump()


def test_lists_still_grow_by_what_is_new_and_survive_a_change_of_keys(saver, owner):
    """Digests are over what is inside, so a list finds what it grew from under any key."""
    with keys(OLD):
        graphs.looping(saver).invoke({"log": ["in"]}, AT)
        before = GraphBlob.objects.filter(base__isnull=False).count()
        assert before > 3
    with keys(NEW, OLD):
        call_command("rotate_keys", stdout=StringIO())
        assert sealed_with() == {encryption.Key.parse(NEW).id}
    with keys(NEW), DjangoSaver(owner=owner) as other:
        graph = graphs.looping(other)
        log = graph.invoke({"log": ["more"]}, AT)["log"]
        assert len(log) == 20
        assert [len(state.values.get("log", [])) for state in graph.get_state_history(AT)][
            ::-1
        ] == [0, *range(1, 11), 10, *range(11, 21)]
        assert GraphBlob.objects.filter(base__isnull=False).count() > before


@pytest.mark.parametrize("known", [(NEW, OLD), (encryption.PLAIN, OLD)])
def test_a_rotation_takes_all_rows_of_a_key_of_several_columns(saver, known):
    with keys(OLD):
        graphs.parallel(saver).invoke({}, AT)
        count = GraphWrite.objects.count()
        assert count > 3
    with keys(*known):
        found = {one.column: one for one in key_rotation.rotate(dry_run=False, batch=2)}
        assert found["checkpoints_graphwrite.content"].keys == {encryption.Key.parse(OLD).id: count}
        assert not [one for one in key_rotation.rotate(dry_run=True, batch=2) if one.count]
    wanted = encryption.PLAIN if known[0] == encryption.PLAIN else encryption.Key.parse(NEW).id
    assert sealed_with() == {wanted}


def test_a_missing_key_is_named_and_a_graph_does_not_begin_anew(saver, owner):
    """C24."""
    with keys(OLD):
        graphs.line(saver).invoke({"log": ["in"]}, AT)
    with keys(NEW), DjangoSaver(owner=owner) as other:
        with pytest.raises(StateLocked, match=encryption.Key.parse(OLD).id):
            graphs.line(other).invoke(Command(resume="yes"), AT)
        with pytest.raises(StateLocked, match=encryption.Key.parse(OLD).id):
            store.load(Checkpoint.objects.latest("pk"))


@pytest.mark.parametrize("model", [GraphCheckpoint, GraphBlob, GraphWrite])
def test_bytes_that_were_changed_are_found(saver, owner, model):
    with keys(NEW):
        graphs.line(saver).invoke({"log": ["in" * 200]}, AT)
        key = f"wse1.{encryption.Key.parse(NEW).id}."
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {model._meta.db_table} SET content = %s", [key.encode() + b"x" * 60]
            )
        with (
            DjangoSaver(owner=owner) as other,
            pytest.raises(CheckpointDamaged, match="stored bytes were changed"),
        ):
            graphs.line(other).get_state(AT)
