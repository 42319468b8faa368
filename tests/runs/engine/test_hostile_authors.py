"""Steps that no author should have written: each fails its own run, in words that say what to do,
and the worker goes on with the runs of others.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from checkpoints.models import Event
from runs.engine.advance import advance
from runs.engine.context import bodies
from runs.engine.workers.shutdown import ProcessEnds
from runs.workflows.base import Ask, Child, Done, Gather, Go, Report, Sleep, StepFailed
from tests.conftest import drive, fresh
from tests.databases.whole import at_once
from tests.worlds.histories.whole_story import broken
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db(transaction=True)


class Worse(BaseException):
    """Past every `except Exception`."""


class Wordless(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Moody(dict[str, Any]):
    """Every look at it ends badly."""

    def __iter__(self):
        raise RuntimeError("not now")

    keys = items = __iter__


class MoodyList(list[Any]):
    __iter__ = Moody.__iter__


class MoodyNumber(int):
    bit_length = Moody.__iter__


def raising(error):
    def step(state, context):
        raise error

    return step


def writing(value):
    return lambda state, context: made(Go, update={"x": value})


def answering(value):
    return lambda state, context: value


def asking(**parts):
    whole = {"question": "q", "answers": {"approve": "finish"}, "report": Report(content="x")}
    return lambda state, context: Ask(**{**whole, **parts})


def endless(state, context):
    return endless(state, context)


async def later(state, context):
    """Never awaited by anybody."""


def cyclic():
    value: dict[str, Any] = {}
    value["again"] = value
    return value


def deep(levels=5_000):
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def opens_a_transaction(state, context):
    transaction.atomic().__enter__()
    return Go(update={"x": 1})


def opens_one_and_fails(state, context):
    transaction.atomic().__enter__()
    raise StepFailed("of its own", code="own")


def commits_by_hand(state, context):
    connection.set_autocommit(False)
    return Go(update={"x": 1})


def leaves_a_coroutine(state, context):
    coroutine = later(state, context)
    coroutine.close()
    return coroutine


def made(kind: Any, **parts: Any) -> Any:
    """An answer of an author who asks no type checker."""
    return kind(**parts)


FAILS = {
    "leaves": (raising(SystemExit(3)), "step_left", "SystemExit: 3, which is for ending a program"),
    "worse": (raising(Worse("!")), "step_left", "by what it returns, or by an Exception"),
    "generator-exit": (raising(GeneratorExit()), "step_left", "GeneratorExit"),
    "cancelled": (raising(asyncio.CancelledError()), "step_left", "CancelledError"),
    "group": (raising(BaseExceptionGroup("g", [SystemExit(1)])), "step_left", "g \\(1 sub"),
    "memory": (raising(MemoryError()), "step_error", "^MemoryError$"),
    "wordless": (raising(Wordless()), "step_error", "^Wordless: it has no words"),
    "half-a-character": (raising(ValueError("\ud800\x00")), "step_error", "^ValueError: "),
    "endless": (endless, "step_error", "RecursionError: maximum recursion depth"),
    "nan": (writing(float("nan")), "state_not_json", "state.x is nan, which JSON cannot hold"),
    "bytes": (writing(b"x"), "state_not_json", "state.x is a bytes"),
    "huge-number": (writing(10**5_000), "state_not_json", "more than 4096 bits"),
    "cyclic": (writing(cyclic()), "state_not_json", "nested deeper than 60 levels"),
    "deep": (writing(deep()), "state_not_json", "nested deeper than 60 levels"),
    "unpicklable": (writing(threading.Lock()), "state_not_json", "state.x is a lock"),
    "number-as-key": (writing({1: 2}), "state_not_json", "the key 1, which is no text"),
    "moody": (writing(Moody(a=1)), "state_not_json", "cannot be read: RuntimeError"),
    "moody-list": (writing(MoodyList([1])), "state_not_json", "cannot be read: RuntimeError"),
    "moody-number": (writing(MoodyNumber(1)), "state_not_json", "cannot be read: RuntimeError"),
    "moody-update": (answering(made(Go, update=Moody(a=1))), "step_error", "RuntimeError: not now"),
    "list-update": (answering(made(Go, update=[1])), "update_invalid", "update is a list"),
    "nothing": (answering(None), "step_error", "answers Go, Ask, Done, Gather or Sleep, not None"),
    "class": (answering(Go), "step_error", "not <class"),
    "coroutine": (leaves_a_coroutine, "step_error", "not <coroutine object later"),
    "no-such-step": (answering(made(Go, to=["a"])), "step_error", "has no step"),
    "report": (
        answering(made(Done, report=7)),
        "answer_invalid",
        "`report` of type int, and a Report",
    ),
    "commit": (answering(made(Go, commit="x")), "answer_invalid", "no attribute 'sha'"),
    "children": (answering(made(Gather, children=[7])), "step_error", "AttributeError"),
    "child": (answering(made(Gather, children=[made(Child, name=7)])), "step_error", "TypeError"),
    "sleep": (
        answering(Sleep(until=dt.datetime.max.replace(tzinfo=dt.UTC))),
        "sleep_invalid",
        "3660 days",
    ),
    "no-report": (asking(report=None), "answer_invalid", "says what it is about"),
    "content": (
        asking(report=made(Report, content=b"x")),
        "answer_invalid",
        "`content` of type bytes",
    ),
    "facts": (
        asking(report=made(Report, content="", facts={"a": []})),
        "answer_invalid",
        "`facts\\['a'\\]`",
    ),
    "effects": (asking(report=made(Report, content="", effects=[7])), "answer_invalid", "recorded"),
    "question": (asking(question=None), "answer_invalid", "`question` of type NoneType"),
    "answers": (asking(answers=["approve"]), "answer_invalid", "`answers` of type list"),
    "labels": (asking(labels={"approve": 7}), "answer_invalid", "of type int, and a text"),
    "long-answer": (asking(answers={"a" * 65: "finish"}), "answer_invalid", "more than 64"),
    "long-phase": (asking(phase="p" * 65), "answer_invalid", "more than 64 characters"),
    "rounds": (asking(max_revisions=10**30), "answer_invalid", "OverflowError"),
    "transaction": (opens_a_transaction, "transaction_left_open", "with transaction.atomic"),
    "own-words": (opens_one_and_fails, "own", "^of its own$"),
    "by-hand": (commits_by_hand, "transaction_left_open", "so it was rolled back"),
}


BOTH = pytest.mark.both_databases


@BOTH
def test_one_worker_gets_through_all_of_them_and_then_does_what_is_anothers(order_that, make_order):
    """P12, F14: most of these left the worker with a traceback, and the run was lost again and
    again until it was an incident; an open transaction took the runs of others along.
    """
    orders, wanted = {}, {}
    for name, (step, code, words) in FAILS.items():
        orders[name] = order_that(step)
        assert advance(orders[name].latest_run.pk, budget=60) == [], name
        wanted[name] = "failed", code, words
    other = drive(make_order("writing-quick"))
    [(beside, found)] = at_once(lambda: _seen(other, orders))  # what is committed
    for name, (*_, reason) in found.items():
        assert re.search(wanted[name][2], reason), (name, reason)
    assert {name: told for name, (*told, _) in found.items()} == {
        name: told for name, (*told, _) in wanted.items()
    }
    assert beside == "completed"
    assert broken() == {}


def _seen(other, orders):
    runs = {name: fresh(order).latest_run for name, order in orders.items()}
    found = {name: (run.status, run.failure_code, run.error) for name, run in runs.items()}
    return fresh(other).status, found


def test_a_step_with_a_time_limit_is_no_way_around(order_that, make_order):
    """P12."""
    order, other = order_that(raising(SystemExit(0)), timeout=5), make_order("writing-quick")
    advance(order.latest_run.pk, budget=60)
    assert fresh(order).latest_run.failure_code == "step_left"
    assert drive(other).status == "completed"


@pytest.fixture
def as_it_was() -> Iterator[None]:
    """What a step does to its process is taken back after the test."""
    place, environment, limit = os.getcwd(), dict(os.environ), sys.getrecursionlimit()
    yield
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.setrecursionlimit(limit)


def moves_away(state, context):
    os.chdir("/")


def empties_the_environment(state, context):
    os.environ.clear()
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()


def lowers_the_limit(state, context):
    sys.setrecursionlimit(300)


def closes_the_connection(state, context):
    connection.close()


def runs_a_loop(state, context):
    asyncio.run(asyncio.sleep(0))


@pytest.mark.usefixtures("as_it_was")
@pytest.mark.parametrize(
    "does",
    [
        moves_away, empties_the_environment, lowers_the_limit, runs_a_loop,
        pytest.param(closes_the_connection, marks=BOTH),
    ],
)  # fmt: skip
def test_what_a_step_does_to_its_process_hurts_no_run(order_that, make_order, does):
    """P12."""

    def step(state, context):
        does(state, context)
        return Go(update={"x": 1})

    order, other = order_that(step), make_order("writing-quick")
    assert drive(order).status == drive(other).status == "completed"
    assert state_of(order)["x"] == 1
    assert broken() == {}


def test_a_thread_that_outlives_its_step_and_its_run_writes_nothing_more(order_that, make_order):
    """P6, P12."""
    ended, refused = threading.Event(), []

    def late(context):
        ended.wait(30)
        try:
            context.log("I am still here")
        except Exception as error:  # noqa: BLE001  # told to the test
            refused.append(type(error).__name__)

    def step(state, context):
        thread = threading.Thread(target=late, args=[context])
        thread.start()
        threads.append(thread)
        return Go()

    threads: list[threading.Thread] = []
    order, other = order_that(step), make_order("writing-quick")
    assert drive(order).status == "completed"
    ended.set()
    threads[0].join()
    assert refused == ["Stopped"]
    assert not [event for event in Event.objects.all() if "still here" in str(event.data)]
    assert drive(other).status == "completed"


def test_an_error_of_millions_of_characters_is_kept_in_part(order_that, make_order):
    """P12: lists of runs show it."""
    order = order_that(raising(ValueError("x" * 3_000_000)))
    drive(order)
    assert len(fresh(order).latest_run.error) < 11_000
    assert drive(make_order("writing-quick")).status == "completed"


@pytest.mark.parametrize("end", [SystemExit(-241), KeyboardInterrupt(), ProcessEnds()])
def test_the_end_of_a_process_is_no_failure_of_the_step(order_that, end):
    """P12: a worker's child leaves with a code below 0 where it got a signal."""
    order = order_that(raising(end))
    with pytest.raises(type(end)):
        advance(order.latest_run.pk, budget=60)
    assert fresh(order).latest_run.status == "running"  # until its lease is over


def test_a_worker_that_is_told_to_stop_fails_no_step(order_that, monkeypatch):
    """P12."""
    order = order_that(raising(SystemExit(0)))
    monkeypatch.setattr(bodies, "stopping", lambda: True)
    with pytest.raises(SystemExit):
        advance(order.latest_run.pk, budget=60)
    assert fresh(order).latest_run.status == "running"
