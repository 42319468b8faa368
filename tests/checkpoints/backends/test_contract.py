"""One contract, four backends (S2-2, S2-6, S2-25, S2-27, S3-44, S3-52, C18); the one of rows on
both databases.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import uuid
from pathlib import Path

import pytest

from checkpoints import backends
from checkpoints.backends.file import FileStore
from checkpoints.backends.memory import MemoryStore
from checkpoints.contract import configured
from checkpoints.contract.base import PAGE, CheckpointDamaged, CheckpointStore, Entry
from checkpoints.testing import CheckpointContract
from checkpoints.testing.hooks import chain
from checkpoints.testing.processes import Processes
from runs import env
from tests.checkpoints.backends.stores import InMemory, InRows, OnFiles, OnRedis
from tests.checkpoints.backends.stores import file_database as file_database


class TestMemoryStore(InMemory, CheckpointContract):
    pass


class TestFileStore(OnFiles, CheckpointContract):
    pass


class TestRedisStore(OnRedis, CheckpointContract):
    pass


@pytest.mark.django_db(transaction=True)
class TestDatabaseStore(InRows, CheckpointContract):
    pass


def test_every_store_there_is_passes_the_contract_and_rows_are_what_is_used_by_default():
    """C18, S2-2, S2-6, S2-25, S2-27, S2-28, S2-30, S3-44, S3-52: the test classes above are all
    stores of `checkpoints.backends`, rows and files among them; kill -9 and resume is a part of
    what each passes.
    """
    stores: set[str] = set()
    for module in pkgutil.iter_modules(backends.__path__):
        found = vars(importlib.import_module(f"checkpoints.backends.{module.name}")).values()
        stores |= {
            f"{one.__module__}.{one.__name__}"
            for one in found
            if isinstance(one, type)
            and issubclass(one, CheckpointStore)
            and not inspect.isabstract(one)
        }
    tested = {kind for kind in CheckpointContract.__subclasses__() if kind.__module__ == __name__}
    named = {
        re.findall(r"checkpoints\.backends\.\w+\.\w+", inspect.getsource(kind.setting))[0]
        for kind in tested
    }
    assert named == stores
    assert any("kill" in name for name in dir(CheckpointContract)) and issubclass(
        CheckpointContract, Processes
    )
    assert (
        configured.DEFAULT["BACKEND"]
        == configured.DATABASE
        == env.checkpoints("database:", redis="")["BACKEND"]
    )


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_a_load_that_prunes_overtake_again_and_again_finds_no_damage(kind, tmp_path, monkeypatch):
    """Three tries were made: beside two prunes on a busy machine a whole checkpoint was told to be
    damaged.
    """
    store = MemoryStore() if kind == "memory" else FileStore(folder=tmp_path / "kept")
    thread = uuid.uuid4()
    made = chain(store, thread, 20)
    keys = [kept.id for kept, _ in made]
    to_come, real = list(range(3, 15)), store.get_bodies

    def get_bodies(thread_id, wanted):
        """Before what the last reader named is read, a prune drops it."""
        if to_come and wanted[0] == keys[to_come[0]]:
            monkeypatch.setattr(store, "get_bodies", real)
            store.prune(thread_id, keep=len(keys) - to_come.pop(0) - 1)
            monkeypatch.setattr(store, "get_bodies", get_bodies)
        return real(thread_id, wanted)

    monkeypatch.setattr(store, "get_bodies", get_bodies)
    assert store.load(thread, keys[-1]) == made[-1][1]
    assert not to_come
    store.drop_bodies(thread, keys[15:16])
    with pytest.raises(CheckpointDamaged, match="does not match its digest"):
        store.load(thread, keys[-1])


@pytest.mark.parametrize("drop", ["prune", "delete"])
def test_a_reader_between_two_files_that_are_dropped_finds_no_damage(drop, tmp_path, monkeypatch):
    """The oldest went first: what built on it, and was to go next, was told to be damaged, and
    stayed so where the process was killed between the two.
    """
    store, thread = FileStore(folder=tmp_path / "kept"), uuid.uuid4()
    states, real = {kept.id: state for kept, state in chain(store, thread, 12)}, Path.unlink
    looked: list[int] = []

    def unlink(path, missing_ok=False):
        left = store.history(thread)
        assert [store.load(thread, kept.id) for kept in left] == [states[kept.id] for kept in left]
        looked.append(len(left))
        real(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    if drop == "prune":
        store.prune(thread, keep=2)
    else:
        store.delete_thread(thread)
    assert (looked[0], looked[-1]) == ((12, 3) if drop == "prune" else (12, 0))


class ByHistory(MemoryStore):
    """A store that has no look-up of a thread's head: the last entry of its history is."""

    latest = CheckpointStore.latest


def test_a_store_without_a_look_up_of_the_latest_takes_the_last_of_its_history():
    """S1-16, S1-17: such a store could not be made before.

    Forks go behind the head, and a pruned thread has one; none is none.
    """
    store, thread, run = ByHistory(), uuid.uuid4(), uuid.uuid4()
    assert store.latest(thread) is None
    first = store.put(thread, run, {"n": 0}, Entry(status="active", next_step="b"), parent=None)
    head = first
    for number in range(1, PAGE + 2):
        head = store.put(
            thread, run, {"n": number}, Entry(status="active", next_step="b"), parent=head.id
        )
        assert store.latest(thread) == head
    fork = store.fork(thread, first.id, run_id=run, reason="another way")
    assert store.latest(thread) == fork == MemoryStore.latest(store, thread)
    store.prune(thread, keep=0)
    assert store.latest(thread) == MemoryStore.latest(store, thread)
