"""What steps write to their runs' logs: gathered, live, in order; of a flood the beginning."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from checkpoints import store
from checkpoints.models import Event
from runs import definitions
from runs.engine.context.lines import Lines, LongText
from runs.models import Artifact, Run
from runs.workflows.base import Context, Done, Outcome, State, StepFailed, Stopped
from runs.workflows.registry import step
from tests.conftest import drive
from tests.databases.whole import file_database as file_database

BODY: list[Any] = []


@step("test.chatter")
def chatter(state: State, context: Context) -> Outcome:
    for happens in BODY:
        happens(context)
    return Done()


@pytest.fixture
def chatting(make_order):
    definitions.edit_step_template("test-chatter", title="Talk", function="test.chatter", config={})
    steps = [{"step_type": "chatter", "step_template_slug": "test-chatter"}]
    definitions.edit_template("chatting", steps=steps, title="Chatting", needs_repository=False)
    BODY.clear()
    return make_order("chatting")


def said_by(order):
    """What the step said, of lines and of words."""
    events = Event.objects.filter(
        thread=order.thread_id, kind__in=["log", "streaming_chunk"]
    ).order_by("seq")
    texts = [event.data.get("message", event.data.get("content")) for event in events]
    return [text for text in texts if not text.startswith(("Executing", "Workflow"))]


def gathered(written, *, shown=2000, kept=None):
    return Lines(
        lambda lines: written.append([line["message"] for line in lines]),
        lambda name, text, whole: kept.append((name, text, whole)) if kept is not None else None,
        shown=shown,
        longest=1_000_000,
    )


def flat(written):
    return [message for batch in written for message in batch]


@pytest.mark.django_db
def test_many_lines_take_few_commits_and_stay_in_order():
    written: list[list[str]] = []
    lines = gathered(written)
    for number in range(1000):
        lines.add(str(number))
    lines.close()
    assert flat(written) == [str(number) for number in range(1000)]
    assert len(written) < 60
    assert max(len(batch) for batch in written) == 100


@pytest.mark.django_db
def test_a_line_of_a_quiet_step_is_written_before_the_call_returns():
    written: list[list[str]] = []
    lines = gathered(written)
    lines.add("early")
    assert written == [["early"]]


@pytest.mark.django_db(transaction=True)
def test_a_line_that_nothing_follows_is_written_by_itself():
    written: list[list[str]] = []
    second = threading.Event()

    def write(batch):
        written.append([line["message"] for line in batch])
        if len(written) == 2:
            second.set()

    lines = Lines(write, lambda *_: None, shown=9, longest=1000)
    lines.add("first")
    lines.add("second")
    assert second.wait(10)
    assert written == [["first"], ["second"]]


@pytest.mark.django_db
def test_a_flood_is_cut_and_kept_whole():
    written: list[list[str]] = []
    kept: list[tuple[str, str, int]] = []
    lines = gathered(written, shown=2000, kept=kept)
    begun = time.monotonic()
    for number in range(20_000):
        lines.add(f"line {number}")
    lines.close()
    assert time.monotonic() - begun < 10
    said = flat(written)
    assert said[:2000] == [f"line {number}" for number in range(2000)]
    assert "What follows is left out here" in said[2000]
    assert said[2001:] == ["… 18,000 lines left out; the artifact log has them"]
    [(name, text, whole)] = kept
    assert name == "log"
    assert whole == len(text.encode()) + 1
    assert text.splitlines()[19_999].endswith("info: line 19999")


@pytest.mark.django_db
def test_a_flood_that_may_not_be_kept_says_so():
    written: list[list[str]] = []
    lines = gathered(written, shown=1)

    def refuse(name, text, whole):
        raise StepFailed("too large", code="artifacts_too_large")

    lines._keep = refuse
    lines.add("one")
    lines.add("two")
    lines.close()
    assert flat(written)[-1] == "… 1 line left out; they are not kept: too large"


@pytest.mark.django_db
def test_a_line_that_json_cannot_hold_takes_no_other_with_it():
    written: list[list[str]] = []
    lines = gathered(written)
    lines.add("before")
    with pytest.raises(TypeError):
        lines.add("wrong", what=object())
    lines.add("after")
    lines.close()
    assert flat(written) == ["before", "after"]


@pytest.mark.django_db
def test_a_line_says_what_was_so_when_it_was_said():
    written: list[dict[str, Any]] = []
    lines = Lines(written.extend, lambda *_: None, shown=9, longest=1000)
    lines.add("first")
    items = [1]
    lines.add("second", items=items)
    items.append(2)
    lines.close()
    assert written[1]["items"] == [1]


@pytest.mark.django_db
def test_a_step_whose_lines_nobody_writes_is_told_by_a_later_one():
    lines = gathered([])
    lines.add("first")

    def write(batch):
        raise Stopped("taken over")

    lines._write = write
    lines.add("second")
    with pytest.raises(Stopped):
        lines.flush()
    with pytest.raises(Stopped):
        lines.add("third")


def test_of_a_long_text_beginning_and_end_are_kept():
    text = LongText(100)
    for number in range(100):
        text.add(f"{number:09}")
    kept = str(text).splitlines()
    assert kept[:5] == [f"{number:09}" for number in range(5)]
    assert kept[-5:] == [f"{number:09}" for number in range(95, 100)]
    assert "[900 bytes are left out here]" in kept
    assert text.size == 1000


@pytest.mark.django_db
def test_lines_and_words_stay_in_the_order_in_which_they_were_said(chatting):
    for number in range(3):
        BODY.append(lambda context, n=number: context.log(f"line {n}"))
        BODY.append(lambda context, n=number: context.stream(f"word {n}"))
    drive(chatting)
    assert said_by(chatting) == ["line 0", "word 0", "line 1", "word 1", "line 2", "word 2"]


@pytest.mark.django_db
def test_lines_stand_before_what_is_recorded_or_told_after_them(chatting):
    def told(value):
        return "log", {"message": "charged", "level": "info"}

    BODY.append(lambda context: context.log("first"))
    BODY.append(lambda context: context.log("second"))
    BODY.append(lambda context: context.once("charge", lambda: 1, tell=told))
    BODY.append(lambda context: context.log("third"))
    BODY.append(lambda context: context.emit("log", {"message": "emitted", "level": "info"}))
    drive(chatting)
    assert said_by(chatting) == ["first", "second", "charged", "third", "emitted"]


@pytest.mark.django_db
def test_the_last_lines_of_a_step_that_fails_are_written(chatting):
    def fail(context):
        raise StepFailed("no", code="no")

    BODY.extend(lambda context, n=number: context.log(f"line {n}") for number in range(5))
    BODY.append(fail)
    drive(chatting)
    assert said_by(chatting)[:5] == [f"line {number}" for number in range(5)]


@pytest.mark.django_db
def test_who_lost_the_run_logs_nothing_more(chatting):
    BODY.append(lambda context: context.log("ours"))
    BODY.append(lambda _: Run.objects.filter(pk=chatting.latest_run_id).update(epoch=99))
    BODY.append(lambda context: context.log("late"))
    drive(chatting)
    assert said_by(chatting) == ["ours"]


@pytest.mark.django_db
def test_a_flood_of_a_step_is_an_artifact_of_its_run(chatting, settings):
    settings.WAYSTATION_LOG_LINES = 10
    BODY.extend(lambda context, n=number: context.log(f"line {n}", n=n) for number in range(50))
    drive(chatting)
    said = said_by(chatting)
    assert said[9] == "line 9"
    assert said[11:] == ["… 40 lines left out; the artifact log has them"]
    artifact = Artifact.objects.get(run=chatting.latest_run_id)
    assert (artifact.name, artifact.step, artifact.loop_num) == ("log", "chatter", 1)
    text = store.get_blob(artifact.digest).decode()
    assert len(text.splitlines()) == 50
    assert text.endswith('info: line 49 {"n":49}')


@pytest.mark.usefixtures("file_database")
@pytest.mark.django_db(transaction=True)
def test_lines_are_seen_while_the_step_still_works(chatting):
    seen = []

    def look(context):
        end = time.monotonic() + 10
        while len(found := said_by(chatting)) < 2 and time.monotonic() < end:
            time.sleep(0.005)  # nothing tells when another thread has written
        seen.extend(found)

    BODY.append(lambda context: context.log("first"))
    BODY.append(lambda context: context.log("second"))
    BODY.append(look)
    drive(chatting)
    assert seen == ["first", "second"]


@pytest.mark.django_db
def test_a_run_keeps_no_more_artifacts_than_it_may(chatting, settings):
    settings.WAYSTATION_ARTIFACTS_BYTES = 1000
    BODY.append(lambda context: context.keep("a", "x" * 600))
    BODY.append(lambda context: context.keep("a", "y" * 900))  # takes the place of the first
    BODY.append(lambda context: context.keep("b", "z" * 200))
    drive(chatting)
    run = Run.objects.get(pk=chatting.latest_run_id)
    assert (run.status, run.failure_code) == ("failed", "artifacts_too_large")
    assert "1,100 bytes; it may keep 1,000" in run.error
    assert [artifact.name for artifact in Artifact.objects.filter(run=run)] == ["a"]
