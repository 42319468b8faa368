"""The thread's log: numbers without a gap, the same facts for everybody, news only of what is
committed.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from checkpoints.events import live, log
from checkpoints.models import Event, EventKind, Thread

pytestmark = pytest.mark.django_db


@pytest.fixture
def thread() -> Thread:
    return Thread.objects.create(owner=User.objects.create_user("owner"))


@pytest.fixture
def sent(monkeypatch):
    """What goes to the channel layer."""
    messages: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(live, "_send", lambda to, message: messages.append((to, message)))
    return messages


def line(text):
    return EventKind.LOG, {"message": text}


def test_events_get_consecutive_numbers(thread):
    """S2-13, S2-17: each is numbered when it is written, and the next writer goes on from there."""
    log.append(thread.pk, None, [line("a"), line("b")])
    log.append(thread.pk, None, [line("c")])
    assert [(event.seq, event.data["message"]) for event in log.after(thread.pk, 0)] == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
    ]
    assert Thread.objects.get().last_seq == 3


def test_a_reader_gets_what_follows_its_number_page_by_page(thread):
    """P9, S2-16."""
    log.append(thread.pk, None, [line(str(number)) for number in range(7)])
    seen, page = [], log.after(thread.pk, 2, limit=2)
    while page:
        seen += [event.seq for event in page]
        page = log.after(thread.pk, seen[-1], limit=2)
    assert seen == [3, 4, 5, 6, 7]


def test_threads_count_on_their_own(thread):
    other = Thread.objects.create(owner=thread.owner)
    log.append(thread.pk, None, [line("a")])
    log.append(other.pk, None, [line("b")])
    assert [event.seq for event in log.after(other.pk, 0)] == [1]


def test_several_logs_are_written_at_once_each_in_its_order(thread):
    """Also where two facts of one call are of one log; found by a planted fault."""
    other = Thread.objects.create(owner=thread.owner)
    log.append(thread.pk, None, [line("a")])
    several = [(thread.pk, "bc"), (other.pk, "x"), (thread.pk, "d")]
    log.append_each([(key, None, [line(text) for text in texts]) for key, texts in several])
    found = [(event.seq, event.data["message"]) for event in log.after(thread.pk, 0)]
    assert found == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert [(event.seq, event.data["message"]) for event in log.after(other.pk, 0)] == [(1, "x")]
    assert dict(Thread.objects.values_list("pk", "last_seq")) == {thread.pk: 4, other.pk: 1}


def test_a_thread_that_is_not_there_has_no_log():
    with pytest.raises(Thread.DoesNotExist):
        log.append(uuid.uuid4(), None, [line("a")])
    assert not Event.objects.exists()


def test_an_event_has_the_same_envelope_on_every_wire(thread):
    """S0-28."""
    run = uuid.uuid4()
    [event] = log.append(thread.pk, run, [(EventKind.RUN_PAUSED, {"phase": "x"})])
    envelope = log.envelope(event)
    assert envelope == log.envelope(Event.objects.get())
    assert list(envelope) == ["event", "data", "seq", "run_id", "thread_id", "at"]
    assert (envelope["event"], envelope["thread_id"]) == ("run_paused", thread.shown_id)


def test_odd_text_survives(thread):
    log.append(thread.pk, None, [line("a\x00b \udcff")])
    assert log.after(thread.pk, 0)[0].data == {"message": "a\x00b \udcff"}


def test_nothing_is_announced_before_the_commit(thread, sent, committing):
    """F10."""
    with committing():
        log.append(thread.pk, None, [line("a"), line("b")])
        assert sent == []
    [(to, message)] = sent
    assert (to, message["seq"]) == (live.group(thread.pk), 2)
    assert [event["seq"] for event in message["events"]] == [1, 2]


def test_what_is_rolled_back_is_never_announced(thread, sent, committing):
    with committing(), pytest.raises(ZeroDivisionError), transaction.atomic():
        log.append(thread.pk, None, [line("a")])
        raise ZeroDivisionError
    assert sent == []
    assert Thread.objects.get().last_seq == 0


def test_a_hint_stays_small_however_large_its_events_are(thread, sent, committing):
    with committing():
        log.append(thread.pk, None, [line("x" * live.INLINE_LIMIT)])
    [(_, message)] = sent
    assert message["events"] == []
    assert message["seq"] == 1


@pytest.mark.parametrize(
    ("one", "other", "seq", "numbers"),
    [
        ((3, [2, 3]), (5, [4, 5]), 5, [2, 3, 4, 5]),
        ((5, [4, 5]), (3, [2, 3]), 5, [2, 3, 4, 5]),
        ((3, [2, 3]), (6, [5, 6]), 6, []),
        ((3, [3]), (3, [3]), 3, []),
        ((3, []), (4, [4]), 4, []),
        ((3, [3]), (4, []), 4, []),
    ],
)
def test_hints_that_wait_for_their_turn_go_as_one(one, other, seq, numbers):
    """P9: with the events of both where none is missing between them; without, whoever hears it
    reads the log.
    """

    def hint(last, numbers):
        return {
            "type": "thread.hint",
            "thread": "x",
            "seq": last,
            "events": [{"seq": number} for number in numbers],
        }

    joined = live._joined(hint(*one), hint(*other))
    assert (joined["seq"], [event["seq"] for event in joined["events"]]) == (seq, numbers)


def test_two_messages_that_say_look_again_are_one():
    assert live._joined({"type": "other.hint"}, {"type": "other.hint"}) == {"type": "other.hint"}
