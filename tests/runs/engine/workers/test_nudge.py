"""Messages to workers are hints: sent after the commit, never needed, and a dead broker costs
nobody an answer.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import threading
import uuid
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest
from celery.exceptions import Reject
from django.db import transaction
from django.utils import timezone

from checkpoints.events import live
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs import tasks
from runs.engine.body_processes import child as body_process
from runs.engine.dispatch.sender import Sender
from runs.engine.workers import lease, shutdown
from runs.models import Run
from runs.states import PENDING, RUNNING
from runs.urgency import Urgency
from tests.conftest import fresh, log_lines, pause_of
from tests.programs.begun import Begun
from tests.worlds import lost_worker, steps

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


@pytest.fixture
def sent(sending_at_once, monkeypatch):
    """The run ids in messages, in order."""
    messages: list[str] = []
    monkeypatch.setattr(
        tasks.advance_run,
        "apply_async",
        lambda arguments, queue, priority: messages.extend(arguments),
    )
    return messages


@pytest.fixture
def broker_down(sending_at_once, monkeypatch):
    """Every send fails; gives the list of attempts."""
    attempts: list[str] = []

    def refuse(arguments, queue, priority):
        attempts.extend(arguments)
        raise ConnectionError("no broker")

    monkeypatch.setattr(tasks.advance_run, "apply_async", refuse)
    return attempts


class Hanging:
    """A broker that takes a message and does not answer before it is let go."""

    def __init__(self) -> None:
        self.reached, self.answers = threading.Event(), threading.Event()
        self.taken: list[str] = []

    def take(self, arguments, queue, priority):
        self.reached.set()
        assert self.answers.wait(30)
        self.taken.extend(arguments)


@pytest.fixture
def hanging(monkeypatch):
    """A sender of this test's own before a broker that hangs."""
    broker = Hanging()
    monkeypatch.setattr(tasks, "_sender", Sender())
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
    monkeypatch.setattr(tasks.advance_run, "apply_async", broker.take)
    yield broker
    broker.answers.set()
    # before the broker is put back: no message of this test goes to it
    assert tasks._sender.flush(30)


def test_a_new_order_is_announced_after_its_commit(templates, ana, sent, committing):
    """F10."""
    with committing():
        order = runs.submit("writing", by=ana)
        assert sent == []
    assert sent == [str(order.latest_run_id)]


def test_an_answer_is_announced_after_its_commit(paused, ana, sent, committing):
    """P3, S4-26."""
    with committing():
        services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
        assert sent == []
    assert sent == [str(paused.latest_run_id)]


def test_a_rolled_back_order_is_never_announced(templates, ana, sent, committing):
    with committing(), pytest.raises(ZeroDivisionError), transaction.atomic():
        tasks.nudge_on_commit(uuid.uuid4())
        raise ZeroDivisionError
    assert sent == []


def test_with_the_broker_away_the_answer_counts_all_the_same(paused, ana, broker_down, committing):
    """P2."""
    with committing():
        services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
    assert fresh(paused).status == "pending"
    assert broker_down == [str(paused.latest_run_id)]


def test_after_a_failed_send_nobody_waits_for_the_broker_again_for_a_while(
    broker_down, monkeypatch
):
    for _ in range(5):
        tasks.nudge(uuid.uuid4())
    assert len(broker_down) == 1
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
    tasks.nudge(uuid.uuid4())
    assert len(broker_down) == 2


def test_whoever_nudges_does_not_wait_for_a_broker_that_hangs(hanging):
    """P2, STACK §9: the send is at work while the caller has gone on."""
    runs = [uuid.uuid4() for _ in range(3)]
    for run in runs:
        tasks.nudge(run)
    assert hanging.reached.wait(30)
    assert hanging.taken == []
    hanging.answers.set()
    assert tasks._sender.flush(30)
    assert hanging.taken == [str(run) for run in runs]


def test_messages_do_not_pile_up_while_the_broker_hangs(hanging, monkeypatch):
    """The one at work and those that may wait; the others are the sweep's."""
    monkeypatch.setattr(tasks, "_sender", Sender(waiting=5))
    tasks.nudge(uuid.uuid4())
    assert hanging.reached.wait(30)
    for _ in range(20):
        tasks.nudge(uuid.uuid4())
    hanging.answers.set()
    assert tasks._sender.flush(30)
    assert len(hanging.taken) == 1 + 5


def test_once_the_broker_failed_what_waited_is_left_to_the_sweep(hanging, monkeypatch):
    def fail(arguments, queue, priority):
        hanging.take(arguments, queue, priority)
        raise ConnectionError("no answer")

    monkeypatch.setattr(tasks.advance_run, "apply_async", fail)
    for _ in range(5):
        tasks.nudge(uuid.uuid4())
    hanging.answers.set()
    assert tasks._sender.flush(30)
    assert len(hanging.taken) == 1


def test_a_process_that_ends_waits_for_its_messages_but_not_for_ever(hanging):
    """P3: the end of a command such as `workorder`."""
    assert tasks._sender.flush(30)
    tasks.nudge(uuid.uuid4())
    assert hanging.reached.wait(30)
    assert not tasks._sender.flush(0.01)
    hanging.answers.set()
    assert tasks._sender.flush(30)


def test_a_command_has_sent_its_messages_when_it_is_over():
    """P3: nothing but the end of the process waits for them."""
    ending = """
import uuid, django
django.setup()
from runs import tasks
tasks.advance_run.apply_async = lambda arguments, queue, priority: print(*arguments, queue)
tasks.nudge(uuid.UUID(int=7), "agents")
"""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "project.settings"}
    done = Begun("-c", ending, environment=environment).ended()
    assert done.stdout.strip() == f"{uuid.UUID(int=7)} agents", done.stderr


def test_a_forked_child_has_a_sender_of_its_own(hanging, monkeypatch):
    """A worker's child inherits what its parent was about to send, but not the thread that sends
    it.
    """
    tasks.nudge(uuid.uuid4())
    assert hanging.reached.wait(30)
    before = tasks._sender
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        monkeypatch.setattr(
            tasks.advance_run,
            "apply_async",
            lambda arguments, queue, priority: os.write(writing, arguments[0].encode()),
        )
        tasks.nudge(uuid.UUID(int=8))
        os._exit(not tasks._sender.flush(30))
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reading, 1000).decode() == str(uuid.UUID(int=8))
    os.close(reading)
    assert tasks._sender is before


def test_the_sweep_sends_what_was_lost_again_and_leaves_alone_what_is_not_overdue(
    make_order, paused, sent
):
    """P3, F10: a run whose message was lost. F11: one of a lost worker, once.

    P7: neither a paused run, nor one just made, nor one that is due later, nor one at work.
    """
    now, minute = timezone.now(), dt.timedelta(minutes=1)
    make_order()
    unsent, later, working, lost = (
        Run.objects.filter(pk=make_order().latest_run_id) for _ in range(4)
    )
    unsent.update(due_at=now - minute)
    later.update(due_at=now + minute)
    for run, until in ((working, now + minute), (lost, now - 60 * minute)):
        run.move({PENDING}, RUNNING, lease_until=until, due_at=now - 60 * minute)
    tasks.sweep()
    assert sorted(sent) == sorted(str(run.get().pk) for run in (unsent, lost))


def overdue_orders(make_order, number):
    orders = [make_order() for _ in range(number)]
    for minutes, order in enumerate(orders):
        Run.objects.filter(pk=order.latest_run_id).update(
            due_at=timezone.now() - dt.timedelta(hours=1) + dt.timedelta(minutes=minutes)
        )
    return [str(order.latest_run_id) for order in orders]


def test_a_sweep_only_fills_up_the_queue_of_workers_that_are_behind(make_order, sent, monkeypatch):
    """F10, P3: the oldest go first, and one at any rate; else each sweep would add the same
    messages to those that wait already.
    """
    monkeypatch.setattr(tasks, "FULL", 5)
    runs = overdue_orders(make_order, 4)
    for waiting, expected in ((0, 4), (2, 3), (5, 1), (100, 1)):
        monkeypatch.setattr(tasks, "_waiting_in", lambda channel, queue, many=waiting: many)
        tasks.sweep()
        assert sent == runs[:expected], waiting
        sent.clear()


def test_a_sweep_counts_what_waits_in_the_broker(monkeypatch):
    """On the embedded broker; an empty or unknown queue holds nothing."""
    app = tasks.advance_run.app
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
    with app.connection_for_write() as broker, broker.channel() as channel:
        producer, queue = broker.Producer(channel), app.amqp.queues["agents"]
        queue(channel).declare()
        queue(channel).purge()  # of what other tests have sent
        for number in range(3):
            producer.publish(
                {"number": number},
                exchange=queue.exchange,
                routing_key=queue.routing_key,
                declare=[queue],
            )
        try:
            assert tasks._room({"agents", "nobody's"}) == {
                "agents": tasks.FULL - 3,
                "nobody's": tasks.FULL,
            }
        finally:
            queue(channel).purge()


def test_a_sweep_that_cannot_ask_the_broker_sends_nothing_and_the_next_one_asks_again(
    make_order, sent, monkeypatch
):
    """The message that brought the next one says that the broker is back."""
    overdue_orders(make_order, 1)
    asked = []

    def refuse(channel, queue):
        asked.append(queue)
        raise ConnectionError("no broker")

    monkeypatch.setattr(tasks, "_waiting_in", refuse)
    tasks.sweep()
    assert (sent, asked) == ([], ["steps"])
    tasks.sweep()
    assert (sent, asked) == ([], ["steps", "steps"])


def test_a_worker_that_ends_hands_its_runs_over_and_tells_others(make_order, sent):
    """P3, F11: no lost attempt is counted, and what it still writes is refused; runs of other
    processes stay where they are.
    """
    order, other = make_order(), make_order()
    assert lost_worker.claim(order.latest_run_id, now=timezone.now())
    assert lost_worker.claim(other.latest_run_id, now=timezone.now())
    Run.objects.filter(pk=other.latest_run_id).update(lease_owner=lease.owner(1))
    tasks.hand_back([os.getpid()])
    assert sent == [str(order.latest_run_id)]
    run = fresh(order).latest_run
    assert (run.status, run.lost_attempts, run.lease_owner, run.lease_until) == (
        "pending",
        0,
        "",
        None,
    )
    assert not Run.objects.held(run.pk, run.epoch).exists()
    assert (
        log_lines(order)[-1] == f"The worker {lease.owner()} was stopped; another one takes over."
    )
    assert fresh(other).latest_run.status == "running"
    tasks.hand_back([os.getpid()])
    assert len(sent) == 1


def test_a_question_ends_the_task_and_its_answer_queues_another(make_order, ana, sent, committing):
    """C1, P7: nothing waits in between: no lease, no thread, no further message, and no row that
    names a worker; whoever comes finds the decision.
    """
    threads: set[threading.Thread] = set()
    for _ in range(2):  # the process starts its threads in the first round
        order = make_order()
        tasks.advance_run(str(order.latest_run_id))
        run = Run.objects.get(work_order=order)
        assert (run.status, run.lease_owner, run.lease_until, sent, lease._held[os.getpid()]) == (
            "paused",
            "",
            None,
            [],
            Counter(),
        )
        asked = set(threading.enumerate())
        with committing():
            services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
        assert sent == [str(run.pk)]
        done = list(steps.CALLS)
        tasks.advance_run(sent.pop())
        assert [step for step, _ in steps.CALLS[len(done) :]] == ["execute"]
        assert (fresh(order).phase, sent) == ("awaiting_implementation_review", [])
        new, threads = asked - threads, set(threading.enumerate())
    assert new == set(), "a thread that waits for the answer"


def test_a_run_whose_time_slice_is_over_asks_for_another_message(make_order, sent, settings):
    settings.WAYSTATION_SLICE_SECONDS = 0
    order = make_order("writing-quick")
    tasks.advance_run(str(order.latest_run_id))
    assert [step for step, _ in steps.CALLS] == ["planning"]
    assert fresh(order).status == "pending"
    assert sent == [str(order.latest_run_id)]


@pytest.mark.parametrize("template", ["writing", "writing-quick"])
def test_messages_that_come_late_or_twice_change_nothing(make_order, sent, template):
    """F13, F0."""
    order = make_order(template)
    tasks.advance_run(str(order.latest_run_id))
    calls = list(steps.CALLS)
    tasks.advance_run(str(order.latest_run_id))
    tasks.advance_run(str(uuid.uuid4()))
    assert calls == steps.CALLS


def test_a_worker_that_stops_leaves_its_messages_to_another(make_order, sent, monkeypatch):
    """P3: the message goes back to the queue, and the run is not touched."""
    order = make_order()
    monkeypatch.setattr(shutdown, "_flag", bytearray([1]))
    with pytest.raises(Reject) as refusal:
        tasks.advance_run(str(order.latest_run_id))
    assert refusal.value.args == (None, True)  # reason, requeue
    assert (fresh(order).status, steps.CALLS, sent) == ("pending", [], [])


def test_a_run_is_handed_back_at_the_boundary_once_its_worker_stops(make_order, sent, monkeypatch):
    """P4, P5: what is done is kept, the lease is given back, and a message names the run."""
    flag = bytearray(1)
    monkeypatch.setattr(shutdown, "_flag", flag)
    order = make_order("writing-quick")
    steps.HOOKS["execute"] = shutdown.stop
    tasks.advance_run(str(order.latest_run_id))
    assert [step for step, _ in steps.CALLS] == ["planning", "execute"]
    run = Run.objects.get(pk=order.latest_run_id)
    assert (run.status, run.lease_owner, run.lease_until) == ("pending", "", None)
    assert sent == [str(run.pk)]
    flag[0] = 0
    tasks.advance_run(str(run.pk))
    assert [step for step, _ in steps.CALLS] == ["planning", "execute", "review", "finish"]
    assert fresh(order).status == "completed"


def test_what_a_body_process_has_to_send_goes_out_from_its_worker(
    templates, ana, sent, committing, monkeypatch
):
    """One connection to the broker, and one sender of hints, for all body processes of a worker."""
    said: list[object] = []
    process = SimpleNamespace(say=lambda *message: said.append(message))
    thread = uuid.uuid4()
    with monkeypatch.context() as patch:
        patch.setattr(body_process, "here", process)
        patch.setattr(live, "relay", partial(process.say, "hint"))
        with committing():
            order = runs.submit("writing", by=ana)
        assert order.latest_run_id
        tasks.send(order.latest_run_id, "agents", Urgency.NEW)
        tasks.next_turn(thread)
        tasks._nudge_later(order.latest_run_id, "steps", timezone.now())
    assert sent == []
    heard = json.loads(json.dumps(said))  # as the pipe carries it
    assert [name for name, *_ in heard if name != "hint"] == ["nudge", "nudge", "turn", "later"]

    begun: list[str] = []
    hints: list[str] = []
    monkeypatch.setattr(tasks.advance_run.app, "send_task", lambda _, ids: begun.extend(ids))
    monkeypatch.setattr(tasks, "_nudge_later", lambda run_id, *_: tasks.nudge(run_id))
    relays = {**tasks.RELAYS, "hint": lambda to, message: hints.append(message["type"])}
    for name, *words in heard:
        relays[name](*words)
    assert sent == [str(order.latest_run_id)] * 3
    assert begun == [str(thread)]
    assert set(hints) >= {"thread.hint"}
