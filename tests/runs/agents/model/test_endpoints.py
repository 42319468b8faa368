"""Endpoints that refuse, break off, are silent, or cost too much: each ends in a retry or in a
clear failure, and no run is stuck.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.utils import timezone

from checkpoints.models import Checkpoint, Event
from extensions.chat import templates as chat
from hitl.models import Via
from hitl.threads import messages as doors
from runs import definitions
from runs.agents import model
from runs.models import Run
from runs.security import ssrf
from runs.threads import turns
from runs.threads.turns import Turn
from tests.databases.whole import file_database as file_database
from tests.killed import moments
from tests.servers.model_endpoint import KEY, ModelReply, by_loop, in_order
from tests.servers.stack import until
from tests.worlds import agents
from tests.worlds.agents import FINE
from tests.worlds.agents import endpoint as endpoint
from tests.worlds.agents import thread as thread

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
]

LOOK = ("test_look", {"what": "x"})


@pytest.fixture
def server():
    """Sets what operators settle; as it was afterwards."""
    before = model.server()
    yield lambda **changes: model.configure(replace(before, **changes))
    model.configure(before)


def later(run: Run) -> Run:
    """Time passes until the next try."""
    moments.let_retries_come_due()
    return agents.go_on(run)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (ModelReply(status=503), "is away (HTTP 503)"),
        (ModelReply(status=429, headers={"Retry-After": "100"}), "takes no more requests"),
        (ModelReply("Half of the", cut=True), "stopped in the middle"),
        (ModelReply("Half of it", [("test_look", '{"what')], cut=True), "stopped in the middle"),
    ],
    ids=["503", "429", "cut in the text", "cut in a call"],
)
def test_what_another_try_may_mend_is_tried_again(endpoint, thread, ana, fault, words):
    """The step's retry policy decides; the finished loop before it is not done again."""
    endpoint.script = in_order(ModelReply("", [LOOK]), fault, FINE)
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.attempts) == ("pending", 1)
    told = (
        Event.objects.filter(thread=thread, kind="log", data__contains="again in")
        .latest("seq")
        .data["message"]
    )
    assert words in told
    assert later(run).status == "completed"
    assert sum(agents.MADE.values()) == 1
    assert len(endpoint.requests) == 3
    assert agents.mind(thread.pk)["usage"]["requests"] == 2, "what failed gave nothing"


def test_an_endpoint_says_when_it_may_be_asked_again(endpoint, thread, ana):
    """Retry-After is honoured: the run waits for at least that long, as a row."""
    endpoint.script = in_order(ModelReply(status=429, headers={"Retry-After": "1000"}), FINE)
    run = agents.say(thread, "Go", by=ana)
    assert 990 < (run.due_at - timezone.now()).total_seconds() < 1001


def test_a_silent_endpoint_is_given_up_and_tried_again(endpoint, thread, ana, server):
    server(silence=0.3)
    never = threading.Event()
    endpoint.script = in_order(ModelReply("One moment", hold=never), FINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.servers.model_endpoint.LISTENS", 60.0)
        run = agents.say(thread, "Go", by=ana)
        never.set()
    assert run.status == "pending"
    assert later(run).status == "completed"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (
            ModelReply(
                status=400,
                error={
                    "code": "context_length_exceeded",
                    "message": "maximum context length is 8192 tokens",
                },
            ),
            "context_overflow",
        ),
        (
            ModelReply(
                status=400, error={"message": "This model's maximum context length is 8192 tokens"}
            ),
            "context_overflow",
        ),
        (ModelReply(status=400, error={"message": "no such parameter"}), "model_refused"),
        (
            ModelReply(status=401, error={"message": f"Incorrect API key provided: {KEY}"}),
            "model_key_refused",
        ),
        (ModelReply(status=404, error={"message": "no such model"}), "model_unknown"),
        (ModelReply(status=429, error={"code": "insufficient_quota"}), "model_quota"),
    ],
    ids=["context by code", "context by words", "refused", "key", "model", "quota"],
)
def test_what_only_a_person_can_mend_ends_the_run_with_words(
    endpoint, thread, ana, fault, code, monkeypatch, settings
):
    """The work before it is kept; a retry goes on at that loop.

    The key is in nothing that is kept or told.
    """
    monkeypatch.setenv("MODEL_KEY", KEY)
    settings.WAYSTATION_CREDENTIALS_FROM_ENV = ["MODEL_KEY"]
    agents.load(endpoint.url, retry=chat.RETRY, credential="MODEL_KEY")
    endpoint.script = in_order(ModelReply("", [LOOK]), fault, FINE)
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.failure_code) == ("failed", code)
    assert set(endpoint.keys) == {KEY}
    assert KEY not in run.error
    assert not Event.objects.filter(thread=thread, data__contains=KEY).exists()
    again = doors.resume(run.pk, by=ana, via=Via.REST).run
    assert agents.go_on(again).status == "completed"
    assert sum(agents.MADE.values()) == 1


def test_an_endpoint_that_is_not_there_is_said_so(thread, ana):
    agents.load("http://127.0.0.1:9/v1")
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.failure_code) == ("failed", "model_unreachable")


def test_a_run_that_is_cancelled_lets_go_of_its_request(endpoint, thread, ana):
    """Nothing is waited for: the connection is closed in the middle of the answer, and nothing is
    written for a run that has ended.
    """
    never = threading.Event()
    endpoint.script = by_loop(ModelReply("One moment please", hold=never))
    run = turns.invoke(thread.pk, Turn(template="agent-test", input={"input": "Go"}), by=ana)
    worker = threading.Thread(target=_work, args=[run])
    worker.start()
    said = Event.objects.filter(thread=thread, kind="streaming_chunk")
    until(said.exists, what="a word of the answer")
    assert worker.is_alive()
    doors.cancel(run.pk, by=ana, via=Via.REST)
    assert endpoint.hung_up.wait(10)
    worker.join(10)
    assert Run.objects.get(pk=run.pk).status == "cancelled"
    assert not Checkpoint.objects.filter(run_id=run.pk, status="completed").exists()


def _work(run):
    try:
        agents.go_on(run)
    finally:
        connection.close()


def many(*calls):
    return ModelReply("", calls or [LOOK])


@pytest.mark.parametrize(
    ("config", "script", "code", "requests"),
    [
        ({"max_loops": 2}, by_loop(many()), "loop_limit", 2),
        ({"limits": {"tokens": 150}}, by_loop(many()), "limit_tokens", 2),
        ({"limits": {"tool_calls": 3}}, by_loop(many(LOOK, LOOK)), "limit_tool_calls", 2),
        ({"limits": {"cost": 0.0001}}, by_loop(many()), "limit_cost", 1),
    ],
    ids=["loops", "tokens", "tool calls", "cost"],
)
def test_a_limit_stops_the_run_and_keeps_its_work(
    endpoint, thread, ana, server, config, script, code, requests
):
    """A person who retries gives the limit anew; nothing that was done is done again."""
    server(prices={"openai:test": model.Price(input=1.0, output=2.0)})
    agents.load(endpoint.url, **config)
    endpoint.script = script
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.failure_code) == ("failed", code), run.error
    assert "kept" in run.error
    assert len(endpoint.requests) == requests
    made = dict(agents.MADE)
    endpoint.script = by_loop(FINE)
    again = agents.go_on(doors.resume(run.pk, by=ana, via=Via.REST).run)
    assert again.status == "completed", again.error
    assert all(agents.MADE[key] == count for key, count in made.items())


def test_time_is_a_limit_too(endpoint, thread, ana):
    never = threading.Event()
    agents.load(endpoint.url, limits={"seconds": 0.3})
    endpoint.script = by_loop(ModelReply("One moment", hold=never))
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.failure_code) == ("failed", "limit_seconds")


def test_a_cost_limit_needs_a_price(endpoint, thread, ana):
    agents.load(endpoint.url, limits={"cost": 1})
    endpoint.script = by_loop(many())
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.failure_code) == ("failed", "price_unknown")
    assert len(endpoint.requests) == 1


def test_tokens_and_cost_are_told_per_loop_run_and_thread_with_what_is_left(
    endpoint, thread, ana, server
):
    server(prices={"openai:test": model.Price(input=1.0, output=2.0)})
    agents.load(endpoint.url, limits={"tokens": 1000, "cost": 1})
    endpoint.script = by_loop(many(), FINE)
    for _ in range(2):
        agents.say(thread, "Go", by=ana)
    told = [data for data in agents.events(thread, "log") if data.get("what") == "usage"]
    assert [
        (one["loop_num"], one["requests"], one["input_tokens"], one["output_tokens"])
        for one in told
    ] == [
        (1, 1, 100, 10),
        (2, 1, 100, 10),
    ] * 2
    assert told[-1]["cost"] == pytest.approx(0.00012)
    assert (told[-1]["run"]["requests"], told[-1]["thread"]["requests"]) == (2, 4)
    assert told[-1]["thread"]["cost"] == pytest.approx(0.00048)
    assert told[-1]["limit"] == {"total_tokens": 1000, "cost": 1}
    assert told[-1]["left"]["total_tokens"] == 780


def test_an_endpoint_inside_is_refused_when_the_step_template_is_saved(db, server):
    """SSRF: whoever edits step templates had a worker send requests, and read the answers, anywhere
    inside.
    """
    server(allow=())
    with pytest.raises(definitions.TemplateInvalid, match="WAYSTATION_MODEL_ALLOW"):
        agents.load("https://169.254.169.254/v1")


def test_an_endpoint_whose_name_leads_inside_is_not_asked(
    endpoint, thread, ana, server, monkeypatch
):
    """SSRF by a name: it is looked up once, when the model is asked, and what was found is
    checked.
    """
    server(allow=())
    run = agents.say(thread, "Go", by=ana)
    assert (run.status, run.failure_code) == ("failed", "model_address")
    assert "is inside a network" in run.error
    assert not endpoint.requests


def test_a_request_goes_to_the_address_that_was_checked_however_the_name_answers_next(
    endpoint, thread, ana, server, monkeypatch
):
    """DNS rebinding: the name that was public at the check leads inside at the connection."""
    asked: list[str] = []

    def rebinding(url, **_):
        asked.append(url)
        return ssrf.parse(url), "127.0.0.1"

    port = urlsplit(endpoint.url).port
    agents.load(f"http://models.invalid:{port}/v1")
    monkeypatch.setattr(ssrf, "check", rebinding)
    endpoint.script = in_order(FINE)
    run = agents.say(thread, "Go", by=ana)
    # models.invalid has no address at all: only the checked one can have been used
    assert run.status == "completed", run.error
    assert len(asked) == len(endpoint.requests) == 1


def test_the_operators_own_endpoint_may_be_inside(endpoint, thread, ana, server):
    """WAYSTATION_MODEL_URL needs no line in WAYSTATION_MODEL_ALLOW."""
    server(allow=(), default=model.ModelEndpoint(model="openai:test", base_url=endpoint.url))
    agents.load("", model="")
    endpoint.script = in_order(FINE)
    assert agents.say(thread, "Go", by=ana).status == "completed"
