"""Which queue a run's message goes to: that of the step it waits for."""

from __future__ import annotations

import datetime as dt

import pytest
from celery import current_app
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions, tasks
from runs import services as runs
from runs.engine.recovery import lost_runs
from runs.models import Run
from runs.urgency import SHARE, Urgency
from tests.conftest import drive, pause_of
from tests.servers.private import Redis
from tests.worlds import steps

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

QUEUES = {"control", "steps", "agents"}


@pytest.fixture
def sent(sending_at_once, monkeypatch):
    """(run, queue) of each message, in order."""
    messages: list[tuple[str, str]] = []
    monkeypatch.setattr(
        tasks.advance_run,
        "apply_async",
        lambda arguments, queue, priority: messages.append((*arguments, queue)),
    )
    return messages


@pytest.fixture
def mixed(templates):
    """`mixed`: two steps for anybody, two for agents, of which the second asks, and one for anybody
    again.
    """

    def step(name: str, **more: object) -> dict[str, object]:
        return {"name": name, "step_type": "execute", "step_template_slug": "test-work", **more}

    asking = {"pause_after": True, "pause_phase": "awaiting_review_decision", "queue": "agents"}
    chain = [
        step("one"),
        step("two"),
        step("three", queue="agents"),
        step("four", **asking),
        step("five"),
    ]
    definitions.edit_template("mixed", steps=chain, needs_repository=False)


def test_a_slice_ends_where_the_next_step_belongs_to_another_queue(mixed, make_order, sent):
    """P4: what is done is committed, and the message names the other queue."""
    run = str(make_order("mixed").latest_run_id)
    tasks.advance_run(run)
    assert [step for step, _ in steps.CALLS] == ["one", "two"]
    assert sent == [(run, "agents")]
    tasks.advance_run(run)
    assert [step for step, _ in steps.CALLS] == ["one", "two", "three", "four"]
    assert sent == [(run, "agents")]


def test_an_answer_is_announced_to_the_queue_of_the_step_it_leads_to(
    mixed, make_order, sent, committing, ben
):
    """P3: approve leads to `five` in steps, revise back to `four` in agents."""
    for action, queue in [("approve", "steps"), ("revise", "agents")]:
        sent.clear()
        order = drive(make_order("mixed"))
        with committing():
            services.decide(pause_of(order).pk, Answer(action, Via.PAGE, feedback="again"), by=ben)
        assert sent == [(str(order.latest_run_id), queue)]
        assert Run.objects.get(work_order=order).queue == queue


def test_an_order_whose_first_step_is_an_agents_starts_there(
    templates, make_order, sent, committing
):
    step = {"step_type": "execute", "step_template_slug": "test-work", "queue": "agents"}
    definitions.edit_template("agent", steps=[step], needs_repository=False)
    with committing():
        order = make_order("agent")
    assert sent == [(str(order.latest_run_id), "agents")]


def test_the_sweep_sends_each_run_to_the_queue_it_waits_in(mixed, make_order, sent):
    """F10, F11: a lost message of a run that waits for an agent, and an agent that was lost."""
    waiting, working, plain = make_order("mixed"), make_order("mixed"), make_order("mixed")
    for order in (waiting, working):
        tasks.advance_run(str(order.latest_run_id))
    long_ago = timezone.now() - dt.timedelta(hours=1)
    Run.objects.update(due_at=long_ago)
    Run.objects.filter(pk=working.latest_run_id).update(
        status="running", lease_owner="gone", lease_until=long_ago
    )
    sent.clear()
    tasks.sweep()
    assert sorted(sent) == sorted(
        [
            (str(waiting.latest_run_id), "agents"),
            (str(working.latest_run_id), "agents"),
            (str(plain.latest_run_id), "steps"),
        ]
    )


@pytest.mark.parametrize("queue", ["control", "fast", "", 7])
def test_a_template_names_queues_that_there_are(templates, queue):
    """`control` is the sweep's alone."""
    step = {"step_type": "execute", "step_template_slug": "test-work", "queue": queue}
    with pytest.raises(definitions.TemplateInvalid) as refusal:
        definitions.edit_template("agent", steps=[step], needs_repository=False)
    assert "steps.0.queue" in refusal.value.errors


def test_each_queue_gets_its_own_messages_only():
    """Queues that share an exchange and a routing key would each get every message."""
    queues = current_app.amqp.queues
    assert {(name, queues[name].exchange.name, queues[name].routing_key) for name in QUEUES} == {
        (name, name, name) for name in QUEUES
    }
    assert set(queues) >= QUEUES


def test_the_sweep_waits_behind_no_step_of_an_agent():
    assert current_app.amqp.router.route({}, "runs.tasks.sweep")["queue"].name == "control"


def test_a_message_to_a_queue_that_no_worker_listens_to_keeps_nobody_elses_back():
    """A definition may be older than the list of queues."""
    assert (
        current_app.amqp.router.route({"queue": "of-old"}, "runs.tasks.advance_run")["queue"].name
        == "of-old"
    )


def test_a_backlog_of_agents_hides_no_overdue_run_of_another_queue(
    mixed, make_order, sent, monkeypatch
):
    """P3, P12: slow steps that wait for their workers do not keep the sweep from others."""
    monkeypatch.setattr(lost_runs, "BATCH", 2)
    orders = [make_order("mixed") for _ in range(4)]
    waiting = [str(order.latest_run_id) for order in orders]
    Run.objects.filter(pk__in=waiting[:3]).update(queue="agents")
    Run.objects.update(due_at=timezone.now() - dt.timedelta(hours=1))
    tasks.sweep()
    assert sorted(queue for _, queue in sent) == ["agents", "agents", "steps"]
    assert (waiting[3], "steps") in sent


def test_an_answer_goes_before_a_burst_of_new_orders_and_a_burst_before_nobody(
    mixed, make_order, sending_at_once, monkeypatch, committing, ana, ben
):
    """P3, P12: an answer waited 20.7 s behind 1 200 new orders, and so did everybody's first order
    behind one person's burst.
    """
    urgencies: list[tuple[str, int]] = []
    monkeypatch.setattr(
        tasks.advance_run,
        "apply_async",
        lambda arguments, queue, priority: urgencies.append((*arguments, priority)),
    )
    asked = make_order("mixed")
    for _ in range(2):
        tasks.advance_run(str(asked.latest_run_id))
    urgencies.clear()
    with committing():
        burst = [runs.submit("mixed", by=ana) for _ in range(SHARE + 2)]
        first = runs.submit("mixed", by=ben)
        services.decide(pause_of(asked).pk, Answer("approve", Via.PAGE), by=ana)
    by_run = dict(urgencies)
    assert [by_run[str(order.latest_run_id)] for order in burst] == [Urgency.NEW] * SHARE + [
        Urgency.CROWDED
    ] * 2
    assert by_run[str(first.latest_run_id)] == Urgency.NEW
    assert by_run[str(asked.latest_run_id)] == Urgency.GOING_ON

    # every message is lost: the sweep sends them again, in this order though the answer is the
    # newest; they became due at one moment, and the database has the rows the other way round
    urgencies.clear()
    long_ago = timezone.now() - dt.timedelta(minutes=1)
    for run in Run.objects.filter(status="pending").order_by("-pk"):
        Run.objects.filter(pk=run.pk).update(due_at=long_ago)
    monkeypatch.setattr(tasks, "_room", lambda queues: dict.fromkeys(queues, 1000))
    tasks.sweep()
    assert urgencies[0] == (str(asked.latest_run_id), Urgency.GOING_ON)
    assert dict(urgencies) == by_run
    assert [urgency for _, urgency in urgencies] == sorted(urgency for _, urgency in urgencies)


@pytest.mark.one_database
def test_a_worker_takes_the_most_urgent_message_first(tmp_path):
    """P3: as Redis keeps them."""
    broker = Redis(tmp_path)
    broker.start()
    try:
        with current_app.connection_for_write(broker.url) as connection:
            line = connection.SimpleQueue("urgency")
            for number, urgency in enumerate(
                [Urgency.CROWDED, Urgency.NEW, Urgency.GOING_ON, Urgency.NEW]
            ):
                line.put(number, priority=int(urgency))
            assert line.qsize() == 4
            assert [line.get(timeout=5).payload for _ in range(4)] == [2, 1, 3, 0]
    finally:
        broker.kill()
