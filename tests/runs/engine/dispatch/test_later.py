"""Hints for later, on one thread of a process."""

from __future__ import annotations

import queue
import threading
from functools import partial

from runs.engine.dispatch.later import Later


def test_each_job_is_done_at_its_time_whatever_came_first():
    later, done = Later(), queue.Queue[str]()
    for name, seconds in {"last": 0.3, "first": 0.0, "second": 0.1}.items():
        assert later.give(seconds, partial(done.put, name))
    assert [done.get(timeout=60) for _ in range(3)] == ["first", "second", "last"]


def test_a_job_that_fails_keeps_nobody_waiting(caplog):
    later, done = Later(), threading.Event()
    later.give(0, lambda: 1 / 0)
    later.give(0, done.set)
    assert done.wait(60)
    assert "a hint for later was lost" in caplog.text


def test_so_many_wait_and_no_more():
    later = Later(waiting=2)
    assert [later.give(3600, print) for _ in range(3)] == [True, True, False]
    later.forget()
    assert later.give(3600, print)
