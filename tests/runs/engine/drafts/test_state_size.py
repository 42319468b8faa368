"""How large a state may become, whoever would make it larger; and what is kept."""

from __future__ import annotations

import pytest

from checkpoints import store
from checkpoints.models import Blob, Checkpoint, Chunk
from checkpoints.state import codec
from checkpoints.state.reducers import StateTooLarge
from checkpoints.store import Entry
from hitl.decisions import services
from hitl.models import Decision, Via
from runs import services as runs
from runs.models import Pause
from runs.workflows.base import Ask, Go, Report
from tests.conftest import drive, fresh
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def small(settings):
    settings.WAYSTATION_STATE_BYTES = 50_000


def growing(state, context):
    return Go(update={"text": "x" * 100_000})


def test_a_step_that_makes_the_state_too_large_fails_its_run(order_that):
    chunks = Chunk.objects.count()
    order = drive(order_that(growing))
    run = order.latest_run
    assert (run.status, run.failure_code) == ("failed", "state_too_large")
    assert "of which 100,002 stand under 'text'; it may have 50,000" in run.error
    assert "the state before is kept" in run.error
    assert "text" not in state_of(order)
    assert Chunk.objects.count() == chunks, "nothing of it was written"


def test_a_list_that_is_too_long_writes_no_chunks(order_that):
    order = drive(order_that(lambda state, context: Go(update={"rows": ["x" * 100] * 1000})))
    assert order.latest_run.failure_code == "state_too_large"
    assert not Chunk.objects.exists()


def test_a_retry_goes_on_from_the_state_that_was_kept(order_that, ana, settings):
    order = drive(order_that(growing))
    settings.WAYSTATION_STATE_BYTES = 0
    runs.retry(order.pk, by=ana)
    assert drive(order).status == "completed"


def test_a_state_that_was_too_large_already_may_stay_and_shrink(order_that, settings):
    settings.WAYSTATION_STATE_BYTES = 0

    def thrice(state, context):
        settings.WAYSTATION_STATE_BYTES = 50_000 if "text" in state else 0
        size = {1: 100_000, 2: 90_000, 3: 1}[context.loop_num]
        to = "execute" if context.loop_num < 3 else None
        return Go(update={"text": "x" * size}, to=to)

    order = drive(order_that(thrice))
    assert order.status == "completed", order.latest_run.error


def test_an_answer_that_makes_it_too_large_is_refused_and_the_question_stays(order_that, ana):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    def asks(state, context):
        return Ask(
            question="Which?",
            answers={"approve": "finish"},
            report=Report(content="x"),
            required_inputs=schema,
        )

    order = drive(order_that(asks))
    pause = Pause.objects.open().get()
    answer = services.Answer("approve", Via.REST, payload={"text": "x" * 60_000})
    with pytest.raises(services.AnswerInvalid) as refused:
        services.decide(pause.pk, answer, by=ana)
    assert refused.value.code == "state_too_large"
    assert Pause.objects.open().get() == pause and not Decision.objects.exists()
    services.decide(pause.pk, services.Answer("approve", Via.REST, payload={"text": "x"}), by=ana)
    assert drive(order).status == "completed"


def test_a_fork_with_a_state_that_is_too_large_is_refused_with_422(order_that, ana, client):
    order = drive(order_that(lambda state, context: Go()))
    first = Checkpoint.objects.filter(thread=order.thread).order_by("id").first()
    client.force_login(ana)
    response = client.post(
        f"/api/v1/checkpoints/{first.shown_id}/fork",
        {"reason": "larger", "state": {"text": "x" * 60_000}},
        content_type="application/json",
    )
    assert (response.status_code, response.json()["code"]) == (422, "state_too_large")
    assert fresh(order).latest_run_id == order.latest_run_id


def test_the_size_is_known_without_another_look():
    """What it says is the length of the canonical text, or very nearly."""
    state = codec.state({"rows": [{"n": number} for number in range(100)], "text": "é" * 10})
    codec.state_digest(state)
    assert codec.size(state) - len(codec.encode(state)) in range(0, 3)


def test_nobody_who_writes_without_a_bound_is_refused(order_that):
    order = drive(order_that(lambda state, context: Go()))
    run, state, entry = order.latest_run, {"text": "x" * 60_000}, Entry(status="active")
    args = (order.thread_id, run.pk, state, entry)
    store.build(*args, parent=None, before=None)
    with pytest.raises(StateTooLarge):
        store.build(*args, parent=None, before=None, most=50_000)
    assert not Blob.objects.exists()
