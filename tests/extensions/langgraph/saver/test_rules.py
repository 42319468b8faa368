"""What LangGraph expects of a saver and its kit does not look at, and what Waystation promises
beyond it.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connections, transaction
from django.db.backends.signals import connection_created
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance.test_utils import generate_checkpoint, generate_metadata

from checkpoints.models import Checkpoint, Thread
from checkpoints.models.graphs import GraphBlob, GraphWrite
from extensions.langgraph.saver import DjangoSaver, worker
from tests.databases.whole import at_once, file_database
from tests.extensions.langgraph.saver import graphs
from tests.extensions.langgraph.saver.saving import config, put, values
from tests.extensions.langgraph.saver.saving import owner as owner
from tests.extensions.langgraph.saver.saving import saver as saver

__all__ = ["file_database"]


def test_pending_writes_come_in_the_order_of_live_execution(saver):
    at = put(saver, {})
    saver.put_writes(at, [("a", 1), ("a", 2)], "task 1", "~2")
    saver.put_writes(at, [("a", 3)], "task 9", "~1")
    saver.put_writes(at, [("a", 4)], "task 5")
    assert [write[2] for write in saver.get_tuple(config()).pending_writes] == [4, 3, 1, 2]


def test_a_tasks_writes_stay_as_first_written_but_errors_and_questions_are_replaced(saver):
    at = put(saver, {})
    saver.put_writes(at, [("a", "first")], "task")
    saver.put_writes(at, [("a", "second"), ("b", "new")], "task")
    saver.put_writes(at, [("__interrupt__", "one")], "task")
    saver.put_writes(at, [("__interrupt__", "two")], "task")
    saver.put_writes(at, [("__error__", "e"), ("__resume__", "r")], "task")
    assert dict(GraphWrite.objects.values_list("idx", "channel")) == {
        0: "a",
        1: "b",
        -3: "__interrupt__",
        -1: "__error__",
        -4: "__resume__",
    }
    pending = {channel: value for _, channel, value in saver.get_tuple(config()).pending_writes}
    assert pending == {
        "a": "first",
        "b": "new",
        "__interrupt__": "two",
        "__error__": "e",
        "__resume__": "r",
    }


def test_writes_may_come_before_their_checkpoint(saver):
    checkpoint = generate_checkpoint()
    saver.put_writes(config(checkpoint_id=checkpoint["id"]), [("__interrupt__", "well?")], "task")
    assert saver.get_tuple(config()) is None
    saver.put(config(), checkpoint, generate_metadata(), {})
    assert saver.get_tuple(config()).pending_writes == [("task", "__interrupt__", "well?")]
    assert Checkpoint.objects.get().status == "pending_input"


@pytest.mark.parametrize("version", [1, 2.5, "00000000000000000000000000000003.0.8"])
def test_versions_keep_their_type(saver, version):
    put(saver, {"list": [1], "text": "x"}, version=version)
    found = saver.get_tuple(config())
    assert found.checkpoint["channel_versions"] == {"list": version, "text": version}
    assert found.checkpoint["channel_values"] == {"list": [1], "text": "x"}


def test_versions_grow_and_differ_between_branches(saver):
    first = saver.get_next_version(None, None)
    one, other = saver.get_next_version(first, None), saver.get_next_version(first, None)
    assert first < one and first < other and one != other
    assert saver.get_next_version(7, None) > saver.get_next_version(5, None)
    last = first
    for _ in range(1200):
        last, before = saver.get_next_version(last, None), last
        assert last > before


def test_two_branches_with_their_own_version_of_a_list_do_not_mix(saver):
    root = put(saver, {"log": ["root " * 100]})
    left = put(saver, {"log": ["root " * 100, "left"]}, parent=root)
    right = put(saver, {"log": ["root " * 100, "right"]}, parent=root)
    assert values(saver, left)["log"][1:] == ["left"]
    assert values(saver, right)["log"][1:] == ["right"]
    assert values(saver, root)["log"][1:] == []


def test_a_checkpoint_written_again_is_the_same_row(saver):
    checkpoint = generate_checkpoint()
    for source in ("input", "loop"):
        saver.put(config(), checkpoint, generate_metadata(source=source), {})
    assert [found.metadata["source"] for found in saver.list(config())] == ["loop"]
    assert Checkpoint.objects.get().metadata["source"] == "loop"


def test_a_parent_that_was_never_written_is_named_all_the_same(saver):
    missing = str(uuid6())
    at = put(saver, {}, parent=config(checkpoint_id=missing))
    assert saver.get_tuple(at).parent_config["configurable"]["checkpoint_id"] == missing
    assert Checkpoint.objects.get().parent is None


def test_filters_look_into_objects_and_at_keys_with_underscores(saver):
    put(saver, {}, a__b={"c": 1, "d": 2})
    put(saver, {}, a__b={"c": 2})
    assert [
        found.metadata["a__b"] for found in saver.list(config(), filter={"a__b": {"c": 1}})
    ] == [{"c": 1, "d": 2}]
    assert list(saver.list(config(), filter={"a": {"b": {"c": 1}}})) == []


def test_a_filter_finds_what_lies_many_pages_back(saver):
    at = put(saver, {}, wanted=True)
    for _ in range(120):
        at = put(saver, {}, parent=at)
    assert len(list(saver.list(config(), filter={"wanted": True}, limit=1))) == 1
    assert len(list(saver.list(config()))) == 121
    assert list(saver.list(config(), limit=0)) == []
    assert len(list(saver.list(None, limit=70))) == 70


def test_metadata_may_hold_any_text(saver):
    put(saver, {}, nested={"nul": "a\x00b", "half": "\ud800"}, top="x\x00y")
    metadata = saver.get_tuple(config()).metadata
    assert metadata["nested"] == {"nul": "a\x00b", "half": "\ud800"}
    assert metadata["top"] == "xy"


def test_an_id_that_no_graph_makes_is_not_found_and_not_written(saver):
    put(saver, {})
    for text in ("x", "00000000000000000000000000000000", str(uuid.uuid4()).upper()):
        assert saver.get_tuple(config(checkpoint_id=text)) is None
        assert list(saver.list(config(checkpoint_id=text))) == []
    with pytest.raises(ValueError, match="UUID"):
        saver.put(config(), {**generate_checkpoint(), "id": "x"}, generate_metadata(), {})
    with pytest.raises(ValueError, match="NUL"):
        saver.get_tuple(config("a\x00b"))


@pytest.mark.parametrize("thread", ["ünï/çode?&", "x" * 5000, "a:b|c", 7])
def test_any_text_is_a_thread(saver, thread):
    put(saver, {"a": 1}, thread=thread)
    assert values(saver, config(thread)) == {"a": 1}
    assert Thread.objects.get().title == str(thread)[:200]


def test_prune_refuses_what_it_does_not_know(saver):
    with pytest.raises(TypeError):
        saver.prune("t")
    with pytest.raises(ValueError, match="keep_most"):
        saver.prune(["t"], strategy="keep_most")


def test_two_owners_may_use_the_same_name_and_never_meet(saver, owner):
    zoe = User.objects.create_user("zoe")
    put(saver, {"a": "ana's"}, run_id="r")
    theirs = saver.owned_by(zoe, Group.objects.create(name="team"))
    assert theirs.get_tuple(config()) is None
    assert list(theirs.list(None)) == []
    put(theirs, {"a": "zoe's"})
    assert Thread.objects.get(owner=zoe).team.name == "team"
    theirs.delete_for_runs(["r"])
    theirs.copy_thread("t", "u")
    theirs.prune(["t"], strategy="delete")
    theirs.delete_thread("t")
    assert values(saver) == {"a": "ana's"}
    assert [found.config["configurable"]["thread_id"] for found in theirs.list(None)] == ["u"]


def serving() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "langgraph saver"]


def test_a_graph_leaves_no_connection_and_no_thread_behind(owner):
    """P7. Each of LangGraph's threads would open a connection of its own."""
    opened: list[Any] = []

    def note(sender: Any, connection: Any, **_: Any) -> None:
        opened.append((threading.current_thread().name, connection))

    connection_created.connect(note)
    with DjangoSaver(owner=owner) as saver:
        for _ in range(3):
            graphs.looping(saver, times=5).invoke({"log": ["in"]}, config())
        assert [name for name, _ in opened] == ["langgraph saver"]
        assert serving()
    connection_created.disconnect(note)
    assert not serving()
    assert opened[0][1].connection is None


def test_without_work_the_connection_is_closed_and_opened_again_when_there_is(saver, monkeypatch):
    monkeypatch.setattr(worker, "IDLE", 0.05)
    put(saver, {"a": 1})
    deadline = time.monotonic() + 10
    while serving():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # a thread that ends tells nobody
    assert values(saver) == {"a": 1}


@pytest.mark.one_database
def test_what_a_graph_wrote_stays_when_the_caller_rolls_back(saver):
    """On SQLite, a transaction of the caller's holds the one write lock."""
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        put(saver, {"a": 1})
        raise ZeroDivisionError
    assert values(saver) == {"a": 1}


def test_a_bad_write_fails_alone(saver):
    """Jobs that wait together go in one transaction; the one that cannot be written says why, the
    others are written.
    """
    held = threading.Event()
    blocked = saver._worker.submit(held.wait, worker.Kind.READ)
    waiting = [
        saver._worker.submit(
            saver._put(config(str(n)), generate_checkpoint(), generate_metadata(), {}),
            worker.Kind.ADD,
        )
        for n in range(3)
    ]
    bad = saver._worker.submit(lambda: 1 / 0, worker.Kind.ADD)
    held.set()
    blocked.result(10)
    assert [future.result(10) for future in waiting] == [None] * 3
    with pytest.raises(ZeroDivisionError):
        bad.result(10)
    assert len(list(saver.list(None))) == 3


async def test_who_stops_waiting_stops_nobody_else(saver):
    """A cancelled task leaves a write that is done all the same, and a worker that goes on."""
    held = threading.Event()
    blocked = saver._worker.submit(held.wait, worker.Kind.READ)
    task = asyncio.create_task(saver.aput(config(), generate_checkpoint(), generate_metadata(), {}))
    await asyncio.sleep(0)  # the task begins
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.set()
    await asyncio.wrap_future(blocked)
    assert await saver.aget_tuple(config()) is not None


def test_many_writers_of_one_new_thread(owner):
    savers = [DjangoSaver(owner=owner) for _ in range(4)]
    made = at_once(*(lambda saver=saver: put(saver, {"log": ["x" * 300]}) for saver in savers))
    assert all(isinstance(one, dict) for one in made), made
    assert Thread.objects.count() == 1
    assert len(list(savers[0].list(config()))) == 4
    for one in savers:
        one.close()


def test_a_list_is_written_whole_where_another_process_dropped_what_it_grew_from(saver, owner):
    items = [f"item {number} " + "x" * 100 for number in range(5)]
    at = put(saver, {"log": items[:4]})
    with DjangoSaver(owner=owner) as other:
        other.delete_thread("t")
    put(saver, {"log": items}, parent=at)
    assert values(saver) == {"log": items}
    assert GraphBlob.objects.get().base is None


def test_appending_while_another_process_prunes(owner):
    """Whatever comes first, what is there can be read: F25."""
    with DjangoSaver(owner=owner) as one, DjangoSaver(owner=owner) as other:
        put(one, {"log": ["in"]})

        def append() -> None:
            at, log = config(), ["in " * 100]
            for number in range(40):
                log = [*log, f"{number} " + "y" * 50]
                at = put(one, {"log": log}, parent=at)

        def prune() -> None:
            for _ in range(15):
                other.prune(["t"])

        assert at_once(append, prune) == [None, None]
        assert len(values(other)["log"]) == 41
        assert all(found.checkpoint["channel_values"]["log"] for found in other.list(config()))


def test_a_fork_of_a_checkpoint_that_another_process_dropped_is_whole_all_the_same(saver, owner):
    """Values that did not change are written again where they are not there any more."""
    at = put(saver, {"log": ["x" * 300], "kept": ["y" * 300]})
    found = saver.get_tuple(at)
    put(saver, {"log": ["new"], "kept": ["new"]}, parent=at)
    with DjangoSaver(owner=owner) as other:
        other.prune(["t"])
    versions = found.checkpoint["channel_versions"] | {
        "log": saver.get_next_version(found.checkpoint["channel_versions"]["log"], None)
    }
    fork = generate_checkpoint(
        channel_values={"log": ["fork"], "kept": ["y" * 300]}, channel_versions=versions
    )
    put_at = saver.put(at, fork, generate_metadata(), {"log": versions["log"]})
    assert values(saver, put_at) == {"log": ["fork"], "kept": ["y" * 300]}


def test_a_forked_process_has_a_worker_of_its_own(saver):
    import os

    put(saver, {"a": 1})
    pid = os.fork()
    if not pid:
        connections["default"].connection = None  # the parent's
        try:
            put(saver, {"a": 2}, parent=config())
            saver.close()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert values(saver) == {"a": 2}
