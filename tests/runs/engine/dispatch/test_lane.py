"""Runs in threads of their own, beside those of the worker."""

from __future__ import annotations

import threading

from runs.engine.dispatch.lane import Lane


def test_the_urgent_go_first_each_once_and_an_error_ends_no_thread():
    go, seen, done = threading.Event(), [], threading.Event()

    def work(run_id: str) -> None:
        go.wait(10)
        seen.append(run_id)
        if run_id == "last":
            done.set()
        if run_id == "urgent":
            raise ValueError("an engine that fell")

    lane = Lane(work, threads=1)
    lane.give("first", 5)
    while lane._known:  # it is at work, and waits
        pass
    for run_id, priority in (("last", 9), ("later", 6), ("urgent", 0), ("later", 0), ("first", 3)):
        lane.give(run_id, priority)
    go.set()
    assert done.wait(10)
    # "first" came again while it was at work, so it is looked at again
    assert seen == ["first", "urgent", "first", "later", "last"]


def test_a_lane_that_closes_waits_for_what_is_at_work_and_takes_nothing_more():
    begun, go, seen = threading.Event(), threading.Event(), []

    def work(run_id: str) -> None:
        begun.set()
        go.wait(10)
        seen.append(run_id)

    lane = Lane(work, threads=1)
    lane.give("one", 0)
    begun.wait(10)
    lane.give("two", 0)
    assert not lane.close(0.1)
    go.set()
    assert lane.close(10)
    assert seen == ["one"]
