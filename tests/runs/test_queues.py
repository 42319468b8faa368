"""Which queue a run's message goes to: that of the step it waits for."""

from __future__ import annotations

import datetime as dt

import pytest
from celery import current_app
from django.utils import timezone

from hitl import services
from hitl.models import Via
from runs import definitions, tasks
from runs.engine import recovery
from runs.models import Run
from tests import steps
from tests.conftest import drive, pause_of

pytestmark = pytest.mark.django_db

QUEUES = {"control", "steps", "agents"}


@pytest.fixture
def sent(monkeypatch):
    """(run, queue) of each message, in order."""
    messages: list[tuple[str, str]] = []
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
    monkeypatch.setattr(tasks._sender, "give", lambda job: job() or True)
    monkeypatch.setattr(tasks.advance_run, "apply_async", lambda arguments, queue: messages.append((*arguments, queue)))
    return messages


@pytest.fixture
def mixed(templates):
    """`mixed`: two steps for anybody, two for agents, of which the second asks, and one for anybody again."""

    def step(name: str, **more: object) -> dict[str, object]:
        return {"name": name, "step_type": "execute", "step_template_slug": "test-work", **more}

    asking = {"pause_after": True, "pause_phase": "awaiting_review_decision", "queue": "agents"}
    chain = [step("one"), step("two"), step("three", queue="agents"), step("four", **asking), step("five")]
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


def test_an_answer_is_announced_to_the_queue_of_the_step_it_leads_to(mixed, make_order, sent, committing, ben):
    """P3: approve leads to `five` in steps, revise back to `four` in agents."""
    for action, queue in [("approve", "steps"), ("revise", "agents")]:
        sent.clear()
        order = drive(make_order("mixed"))
        with committing():
            services.decide(pause_of(order).pk, action=action, by=ben, via=Via.PAGE, feedback="again")
        assert sent == [(str(order.latest_run_id), queue)]
        assert Run.objects.get(work_order=order).queue == queue


def test_an_order_whose_first_step_is_an_agents_starts_there(templates, make_order, sent, committing):
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
    Run.objects.filter(pk=working.latest_run_id).update(status="running", lease_owner="gone", lease_until=long_ago)
    sent.clear()
    tasks.sweep()
    assert sorted(sent) == sorted(
        [(str(waiting.latest_run_id), "agents"), (str(working.latest_run_id), "agents"), (str(plain.latest_run_id), "steps")]
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
    assert {(name, queues[name].exchange.name, queues[name].routing_key) for name in QUEUES} == {(name, name, name) for name in QUEUES}
    assert set(queues) >= QUEUES


def test_the_sweep_waits_behind_no_step_of_an_agent():
    assert current_app.amqp.router.route({}, "runs.tasks.sweep")["queue"].name == "control"


def test_a_message_to_a_queue_that_no_worker_listens_to_keeps_nobody_elses_back():
    """A definition may be older than the list of queues."""
    assert current_app.amqp.router.route({"queue": "of-old"}, "runs.tasks.advance_run")["queue"].name == "of-old"


def test_a_backlog_of_agents_hides_no_overdue_run_of_another_queue(mixed, make_order, sent, monkeypatch):
    """S4-56, P3: slow steps that wait for their workers do not keep the sweep from others."""
    monkeypatch.setattr(recovery, "BATCH", 2)
    orders = [make_order("mixed") for _ in range(4)]
    waiting = [str(order.latest_run_id) for order in orders]
    Run.objects.filter(pk__in=waiting[:3]).update(queue="agents")
    Run.objects.update(due_at=timezone.now() - dt.timedelta(hours=1))
    tasks.sweep()
    assert sorted(queue for _, queue in sent) == ["agents", "agents", "steps"]
    assert (waiting[3], "steps") in sent
