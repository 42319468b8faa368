"""A body that is to end gets one exception, and never within what the engine does for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from runs.engine.body_processes import endable
from runs.engine.body_processes.endable import BodyEnds


@pytest.fixture(autouse=True)
def body() -> Iterator[None]:
    """One is at work."""
    endable.begin()
    yield
    endable.end()


def test_it_is_thrown_once():
    with pytest.raises(BodyEnds):
        endable.want()
    endable.want()
    assert endable.end()


def test_a_body_that_is_over_hears_nothing():
    assert not endable.end()
    endable.want()


def test_within_what_the_engine_does_it_waits_for_the_end_of_that():
    done = []
    with pytest.raises(BodyEnds), endable.shielded():
        with endable.shielded():
            endable.want()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_a_function_that_the_engine_calls_for_the_body_is_the_bodys():
    with pytest.raises(BodyEnds), endable.shielded():
        endable.want()
        with endable.exposed():
            pytest.fail("it was wanted before")
    endable.begin()
    with endable.shielded(), endable.exposed(), pytest.raises(BodyEnds):
        endable.want()


def test_an_error_of_the_engines_work_comes_before():
    with pytest.raises(BodyEnds) as thrown, endable.shielded():
        endable.want()
        raise ValueError("first")
    assert isinstance(thrown.value.__context__, ValueError)


def test_what_other_threads_ask_of_the_engine_shields_nothing():
    holds, go = threading.Event(), threading.Event()

    def work() -> None:
        with endable.shielded():
            holds.set()
            go.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    holds.wait(10)
    with pytest.raises(BodyEnds):
        endable.want()
    go.set()
    thread.join()
