"""What steps say while they work: gathered, in order, live, and in no checkpoint."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection, connections

from checkpoints.models import Checkpoint, Event
from runs import definitions
from runs.engine.context import streaming
from runs.engine.context.streaming import Chunks
from runs.models import Run
from runs.workflows.base import Context, Done, Outcome, State, Stopped
from runs.workflows.registry import step
from tests.conftest import drive, kinds
from tests.databases.whole import file_database as file_database
from tests.databases.whole import let_writer_go

SAID: list[str] = []
MEANWHILE: list[object] = []


@step("test.say")
def say(state: State, context: Context) -> Outcome:
    for text in SAID:
        context.stream(text)
    for happens in MEANWHILE:
        happens()  # type: ignore[operator]  # a list of any functions
    context.stream("")
    return Done(update={"said": len(SAID)})


@pytest.fixture
def talking(make_order):
    definitions.edit_step_template("test-say", title="Say", function="test.say", config={})
    steps = [{"step_type": "say", "step_template_slug": "test-say"}]
    definitions.edit_template("talking", steps=steps, title="Talking", needs_repository=False)
    SAID.clear()
    MEANWHILE.clear()
    return make_order("talking")


def chunks_of(order):
    return [
        event.data
        for event in Event.objects.filter(thread=order.thread_id, kind="streaming_chunk").order_by(
            "seq"
        )
    ]


@pytest.mark.usefixtures("file_database")
@pytest.mark.django_db(transaction=True)
def test_what_a_step_says_is_whole_in_order_and_before_its_end(talking):
    """S0-13, 14, S0-19, S0-29, S0-32: chunks, then `run_completed`; the state knows nothing of
    them.
    """
    SAID.extend(f"token {number} \x00é " for number in range(2000))
    order = drive(talking)
    chunks = chunks_of(order)
    assert "".join(chunk["content"] for chunk in chunks) == "".join(SAID).replace(
        "\x00", "\N{REPLACEMENT CHARACTER}"
    )
    assert len(chunks) < 100, "they are gathered"
    assert {(chunk["step"], chunk["loop_num"]) for chunk in chunks} == {("say", 1)}
    assert kinds(order)[-2:] == ["run_completed", "checkpoint_created"]
    assert "token" not in "".join(
        str(body) for body in Checkpoint.objects.values_list("body", flat=True)
    )


@pytest.mark.usefixtures("file_database")
@pytest.mark.django_db(transaction=True)
def test_what_is_said_is_seen_while_the_step_still_works(talking):
    """S0-3."""
    seen = []

    def look():
        end = time.monotonic() + 10
        while not (found := chunks_of(talking)) and time.monotonic() < end:
            time.sleep(0.005)  # nothing tells when another thread has written
        seen.extend(found)

    SAID.append("early")
    MEANWHILE.append(look)
    drive(talking)
    assert [chunk["content"] for chunk in seen] == ["early"]


@pytest.mark.usefixtures("file_database")
@pytest.mark.django_db(transaction=True)
def test_who_lost_the_run_says_nothing_more(talking):
    """P6: another worker has it."""
    SAID.append("first")
    MEANWHILE.append(lambda: Run.objects.filter(pk=talking.latest_run_id).update(epoch=99))
    MEANWHILE.append(lambda: SAID.append("late"))
    drive(talking)
    assert "late" not in "".join(chunk["content"] for chunk in chunks_of(talking))


def test_pieces_wait_for_each_other_but_never_long():
    """S0-68: At most one commit in 50 ms, and nothing waits longer than that and a commit."""
    written: list[tuple[float, str]] = []
    chunks = Chunks(lambda text: written.append((time.monotonic(), text)))
    begun = time.monotonic()
    while time.monotonic() < begun + 0.5:
        chunks.add("x")
        time.sleep(0.001)  # so many pieces a second
    chunks.close()
    assert 2 <= len(written) <= 12
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(written[:-1])]
    assert all(gap >= 0.9 * streaming.EVERY for gap in gaps)


def test_a_long_piece_is_cut():
    written: list[str] = []
    chunks = Chunks(written.append)
    chunks.add("x" * (2 * streaming.LONGEST + 1))
    chunks.close()
    assert [len(text) for text in written] == [streaming.LONGEST, streaming.LONGEST, 1]


def test_a_step_that_is_faster_than_the_database_waits_for_it(monkeypatch):
    monkeypatch.setattr(streaming, "HELD_BACK", 10)
    held, free = [], threading.Event()

    def write(text):
        free.wait(5)
        held.append(len(text))

    chunks = Chunks(write)

    def talk():
        for _ in range(5):
            chunks.add("x" * 10)

    talker = threading.Thread(target=talk)
    talker.start()
    talker.join(0.2)
    assert talker.is_alive()
    free.set()
    talker.join(5)
    assert not talker.is_alive()
    chunks.close()
    assert sum(held) == 50


@pytest.mark.parametrize("error", [Stopped("taken over"), OperationalError("gone")])
def test_what_cannot_be_written_is_raised_in_the_step(error):
    def write(text):
        raise error

    chunks = Chunks(write)
    chunks.add("x")
    with pytest.raises(type(error)):
        chunks.close()
    with pytest.raises(type(error)):
        chunks.add("y")


def test_a_step_that_is_over_is_not_heard():
    """A thread that a time limit gave up."""
    written: list[str] = []
    chunks = Chunks(written.append)
    chunks.close()
    with pytest.raises(Stopped):
        chunks.add("late")
    assert written == []


@pytest.mark.django_db(transaction=True)
def test_the_writer_lets_its_connection_go_when_it_is_told_to(monkeypatch):
    """`make test-model` fell at its teardown: nobody waited for the writer's connection, only for
    some time to pass.
    """
    monkeypatch.setattr(streaming, "IDLE", 20.0)
    theirs, spoken = [], threading.Event()

    def write(text):
        connection.ensure_connection()
        theirs.append(connections[connection.alias])
        spoken.set()

    Chunks(write).add("x")
    assert spoken.wait(10)
    let_writer_go()
    assert connection.vendor == "sqlite" or theirs[0].connection is None


def test_a_writer_that_wrote_nothing_yet_makes_no_connection_when_it_rests():
    """One that rested while a test of somebody's had a database of its own in the place of this
    process's wrote there ever after, and that was gone.
    """
    with ThreadPoolExecutor(1) as pool:
        pool.submit(streaming._close).result()
        assert pool.submit(connections.all, initialized_only=True).result() == []
