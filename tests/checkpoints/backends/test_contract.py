"""One contract, four backends (S2-2, S2-6, S2-25, S2-27, S3-44, S3-52, C18); the one of rows on
both databases.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import uuid

import pytest

from checkpoints import backends
from checkpoints.backends.memory import MemoryStore
from checkpoints.contract import configured
from checkpoints.contract.base import PAGE, CheckpointStore, Entry
from checkpoints.testing import CheckpointContract
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
