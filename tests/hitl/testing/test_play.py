"""`play`: a workflow as its author tests it, on the real engine, with no server and no clock to
wait for.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import textwrap
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from hitl.decisions.errors import AnswerInvalid, NotFound
from hitl.testing import (
    Engine,
    LinkRefused,
    NotCrashProof,
    NothingAsked,
    play,
    survives_every_crash,
)
from runs import tasks
from runs.agents.model.scripted import Wanted
from runs.engine.context import streaming
from runs.services import InputInvalid
from runs.workflows import Done, Go, Report, Sleep, step, timing, use, workflow
from runs.workflows.reviews.review import Review
from tests.databases.copies import ROOT
from tests.hitl.testing import shop
from tests.hitl.testing.shop import BANK, PARTS, PAY, PRICE, REFUND, flow


@pytest.fixture(autouse=True)
def empty_bank():
    BANK.reset()


def test_a_workflow_asks_is_sent_back_approved_and_done():
    """17-3: before, only the product's own tests could run a workflow."""
    run = play(REFUND, input={"amount": 200}, request="a refund")
    assert (run.question.title, run.question.content) == (
        "Approve the result of “Price”?",
        "# 200 EUR",
    )
    assert run.question.answers == ["approve", "revise", "cancel"]
    assert run.question.effects == ["200 EUR are paid. That cannot be undone."]
    assert (run.question.phase, run.question.revision, run.status) == (
        "awaiting_price",
        1,
        "paused",
    )
    run.revise("too dear")
    assert (run.question.revision, run.question.facts) == (2, {"Feedback": "too dear"})
    assert not BANK.paid
    run.approve()
    assert run.done and not run.failed and run.question is None and run.error == ""
    assert run.state["receipt"] == run.effects["pay"] == "receipt 180"
    assert [amount for _, amount in BANK.paid] == [180]
    assert "paid receipt 180" in run.logs
    assert run.decisions == [("price", "revise", "reviewer"), ("price", "approve", "reviewer")]
    assert [at.step for at in run.checkpoints if at.status == "completed"] == ["pay"]
    with pytest.raises(NothingAsked, match="the run is completed"):
        run.approve()


def test_what_is_refused_in_the_product_is_refused_here():
    """The rules are the engine's own, not copies of them."""
    run = play(flow(PRICE | {"max_revisions": 1}, PAY))
    run.revise("once")
    with pytest.raises(AnswerInvalid, match="sent back 1 times"):
        run.revise("twice")
    assert run.cancel("no").status == "cancelled"
    with pytest.raises(NothingAsked, match="the run is cancelled"):
        run.approve()
    schema = {"type": "object", "required": ["amount"]}
    with pytest.raises(InputInvalid, match="amount"):
        play(flow(PRICE, input_schema=schema))
    with pytest.raises(LookupError, match="no template 'nothing'"):
        play(REFUND, template="nothing")


def test_work_that_asks_nothing_is_cancelled_as_on_the_page_of_its_order():
    """Before, only a question could be cancelled: no test saw what a sleeping run cleans up."""
    asleep = play(flow(PRICE, {"function": "shop.rest"}, PAY)).approve()
    assert asleep.cancel("no").status == "cancelled" and not BANK.paid
    with pytest.raises(NothingAsked, match="the run is cancelled"):
        asleep.cancel()
    with pytest.raises(NotFound):
        play(flow(PRICE, {"function": "shop.rest"}, PAY)).approve().cancel(by="a stranger")
    parts = play(PARTS)
    assert len(parts.questions) == 2
    assert parts.cancel(order=True).status == "cancelled" and parts.questions == []


def test_somebody_of_a_stage_sends_it_back_or_ends_it():
    stages = [
        {"name": name, "reviewers": {"groups": [f"{name}s"]}} for name in ("lawyer", "accountant")
    ]
    run = play(flow(PRICE | {"review": {"stages": stages}}, PAY))
    run.approve(stage="lawyer").revise("Less.", stage="accountant")
    assert run.question.revision == 2 and not any(one.approvals for one in run.question.stages)
    run.cancel("No.", stage="accountant")
    assert run.decisions == [
        ("price", "revise", "accountants-1"),
        ("price", "cancel", "accountants-1"),
    ]


def test_data_that_was_asked_for_comes_with_the_answer():
    run = play(flow({"function": "shop.ask_address"}))
    assert run.question.schema["required"] == ["street"] and run.question.kind == "input"
    with pytest.raises(AnswerInvalid):
        run.answer(street="")
    assert run.answer(street="Main Street").done
    assert run.state["label"] == "To Main Street"


def test_a_retry_waits_for_its_time_and_a_deadline_acts_at_its_time():
    """No test sleeps: the clock is the test's."""
    tried = {"attempts": 3, "base": 600, "cap": 600}
    deadline = {"deadline": {"after": "P2D", "outcome": "expire"}}
    run = play(flow(PRICE | {"review": deadline}, PAY | {"retry": tried}))
    BANK.refusals = 2
    run.advance(hours=47).approve()
    assert run.status == "pending" and run.wakes_at is not None
    assert any("The bank is closed. Tried 1 time; again in 300 s." in line for line in run.logs)
    run.advance(hours=1)
    assert run.done and [amount for _, amount in BANK.paid] == [100]

    asleep = play(flow(PRICE, {"function": "shop.rest"}, PAY)).approve()
    assert asleep.status == "pending" and asleep.advance(days=29).status == "pending"
    assert asleep.advance(days=1).done and len(BANK.paid) == 2

    waits = flow({"function": "shop.paid"})
    assert play(waits).answer(amount=40).state["amount"] == 40
    assert play(waits).advance(days=15).status == "expired"

    late = play(flow(PRICE | {"review": deadline}, PAY)).advance(days=3)
    assert (late.status, late.failed, len(BANK.paid)) == ("expired", True, 2)
    with pytest.raises(ValueError, match="forward only"):
        late.advance(hours=-1)


def test_several_people_approve_by_the_rules_and_an_edited_text_counts():
    review = {"quorum": 2, "reviewers": {"groups": ["finance"], "users": ["cleo"]}, "edits": True}
    plain = flow(PRICE | {"review": review}, {"function": "shop.secret"})
    run = play(plain, people={"cleo": []}, credentials={"bank": "k3y-of-the-bank"})
    assert run.approve(by="cleo").question.approvals == 1
    assert run.approve().done
    assert run.decisions == [("price", "approve", "finance-1")]


def test_child_runs_ask_and_are_answered_one_by_one():
    run = play(PARTS)
    assert sorted(question.child for question in run.questions) == ["box", "card"]
    run.approve(at="card").approve(at="box")
    assert run.done and run.state["made"] == {"box": "receipt 1", "card": "receipt 1"}
    assert sorted((effect.child, effect.key) for effect in run.recorded) == [
        ("box", "made"),
        ("card", "made"),
    ]


def test_a_secret_is_in_nothing_that_the_kit_shows(capsys):
    run = play(flow({"function": "shop.secret"}), credentials={"bank": "k3y-of-the-bank"})
    assert run.done
    assert "k3y" not in f"{run.logs} {run.state} {run.events} {run.checkpoints} {run.exported()}"
    assert capsys.readouterr().out == "the key is k3y-of-the-bank\n"  # the step's own print


@pytest.mark.parametrize("writes_already", [False, True])
def test_an_agents_model_says_what_the_test_says(monkeypatch, writes_already):
    """No thread writes beside the test: it would write to another database. Before, the writer that
    the process had already did, and the step failed where that database was forbidden.
    """
    if writes_already:
        with streaming._changed:
            streaming._ensure_writer()
    else:
        monkeypatch.setattr(streaming, "_writers", {})
    flowing = {
        "STEP_TEMPLATES": {
            "answer": {
                "title": "Answer",
                "function": "agent",
                "config": {"model": "openai:gpt-5-mini", "tools": ["calculate"]},
            }
        },
        "TEMPLATES": {
            "ask": {
                "title": "Ask",
                "needs_repository": False,
                "steps": [{"step_type": "answer", "step_template_slug": "answer"}],
            }
        },
    }
    script = [Wanted("calculate", '{"expression": "6*7"}'), "It is 42."]
    run = play(flowing, request="How much is it?", model=script)
    assert run.done, run.error
    assert "It is 42." in str(run.state)
    assert writes_already or not streaming._writers
    assert any(kind == "streaming_chunk" for kind, _ in run.events)


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        ("shop.again", "loop_limit", "has run 100 times"),
        ("shop.odd", "state_not_json", "handle"),
        ("shop.hang", "timeout", "did not end within 0.1 s"),
    ],
)
def test_what_an_author_may_get_wrong_ends_in_words(function, code, words):
    """Hostile: endless loops of steps and in a step, and what is no JSON."""
    patience = {"patience": 0.1} if function == "shop.hang" else {}
    run = play(flow({"function": function}), engine=Engine.on_sqlite(**patience))
    assert (run.status, run.failure_code) == ("failed", code)
    assert words in run.error
    with pytest.raises(NothingAsked, match="the run is failed: "):
        run.approve()


def test_a_step_that_does_not_end_fails_where_another_has_the_alarm_too():
    """As with pytest-timeout, and in a thread: before, such a test hung."""
    theirs = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        run = play(flow({"function": "shop.hang"}), engine=Engine.on_sqlite(patience=0.1))
        assert (run.status, run.failure_code) == ("failed", "timeout")
    finally:
        signal.signal(signal.SIGALRM, theirs)


def test_a_huge_state_is_kept_whole_or_refused_by_the_templates_budget():
    assert len(play(flow({"function": "shop.huge"})).state["lines"]) == 3000
    tight = play(flow({"function": "shop.huge"}, PAY, size_budget=20_000))
    assert tight.done or tight.failed


def test_what_failed_is_retried_from_where_it_stopped():
    run = play(REFUND)
    BANK.refusals = 1
    assert (run.approve().failed, run.failure_code) == (True, "bank_closed")
    assert run.retry().done and len(BANK.paid) == 1


def test_two_plays_at_once_know_nothing_of_each_other():
    first, second = play(REFUND, input={"amount": 10}), play(REFUND, input={"amount": 20})
    assert second.approve().state["receipt"] == "receipt 20"
    assert first.question.content == "# 10 EUR"
    assert first.approve().state["receipt"] == "receipt 10"


def test_the_kit_runs_in_a_process_that_knows_nothing_of_django(tmp_path):
    """17-3: an author's pytest has no settings, no database and no server; what is set up on the
    machine is left alone.
    """
    module = textwrap.dedent(shop_in_one_file())
    (tmp_path / "bare_shop.py").write_text(module)
    (tmp_path / "walk.py").write_text(
        "import bare_shop\nfrom hitl.testing import play\n"
        "run = play(bare_shop, request='x').approve()\n"
        "assert run.done and run.state['sent'] == 'x', run.error\n"
        "run = play('bare', request='y')\n"
        "print(run.question.content)\n"
    )
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{ROOT}:{tmp_path}",
        "WAYSTATION_WORKFLOWS": "bare_shop",
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:9/production",
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(
        [sys.executable, tmp_path / "walk.py"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "Send y?\n", done.stdout + done.stderr


def shop_in_one_file():
    return """
    from runs.workflows import Done, Go, Report, step

    @step("bare.ask")
    def ask(state, context):
        return Go(report=Report(content=f"Send {context.order.request}?"))

    @step("bare.send")
    def send(state, context):
        return Done(update={"sent": context.once("send", lambda: context.order.request)})

    STEP_TEMPLATES = {
        "bare-ask": {"title": "Ask", "function": "bare.ask"},
        "bare-send": {"title": "Send", "function": "bare.send"},
    }
    TEMPLATES = {
        "bare": {
            "title": "Bare",
            "needs_repository": False,
            "steps": [
                {
                    "step_type": "ask",
                    "step_template_slug": "bare-ask",
                    "pause_after": True,
                    "pause_phase": "awaiting_yes",
                },
                {"step_type": "send", "step_template_slug": "bare-send"},
            ],
        }
    }
    """


def test_a_step_can_be_replaced_and_the_process_is_left_as_it_was(monkeypatch):
    """What an engine needs is put in place for each operation; no message is sent to a broker."""
    sent: list[object] = []
    monkeypatch.setattr(tasks._sender, "give", sent.append)
    before = (settings.DATABASES["default"]["NAME"], connection.settings_dict["NAME"], timezone.now)
    monkeypatch.setattr(shop.BANK, "pay", lambda key, amount: f"faked {amount}")
    assert play(REFUND).approve().state["receipt"] == "faked 100"
    assert not sent
    assert before == (
        settings.DATABASES["default"]["NAME"],
        connection.settings_dict["NAME"],
        timezone.now,
    )


def test_the_engine_of_postgresql_plays_the_same():
    """What each database writes differently is the engine's own there too."""
    engine = Engine.on_postgresql(os.environ["DATABASE_URL"])
    try:
        run = play(REFUND, engine=engine).revise("too dear").approve()
        assert run.done and run.state["receipt"] == "receipt 90" and len(BANK.paid) == 1
        with pytest.raises(NotImplementedError, match="on SQLite"):
            run.advance(hours=1)
        again = Engine.on_postgresql(os.environ["DATABASE_URL"])
        broken = flow({"function": "broken.bare"})
        with pytest.raises(NotCrashProof, match=r"put this into context\.once"):
            survives_every_crash(broken, engine=again, watch=["tests.hitl.testing.broken.send"])
        again.close()
    finally:
        engine.close()


@step("t.breaks")
def breaks(state, context):
    return Go(update={"sum": 1 / state.get("parts", 0)})


def test_what_is_asked_of_failed_work_says_why_it_failed_and_where():
    """Before, it was None, and the test failed of that."""
    run = play(workflow("breaks", title="Breaks", steps=[use(breaks, pause_after=True)]))
    with pytest.raises(NothingAsked) as nothing:
        assert run.question
    assert "ZeroDivisionError" in str(nothing.value) or "division" in str(nothing.value)
    assert f"{__file__}, line " in str(nothing.value) and "in breaks" in str(nothing.value)


BERLIN = ZoneInfo("Europe/Berlin")


@step("t.until_midnight")
def until_midnight(state, context):
    today = timing.now().astimezone(BERLIN)
    tomorrow = (today + dt.timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return Sleep(until=tomorrow)


@step("t.agree")
def agree(state, context):
    return Go(report=Report(content="As agreed."))


@step("t.end")
def end(state, context):
    return Done()


OUTSIDE = "billing@supplier.example"
RULES: Review = {
    "reviewers": {"users": ["cleo"]},
    "external": [OUTSIDE],
    "link_answers": True,
    "risk": "low",
}
AGREED = workflow(
    "agreed", title="Agreed", steps=[use(agree, pause_after=True, review=RULES), use(end)]
)


@pytest.mark.parametrize(("day", "hours"), [((3, 27), 24), ((3, 28), 23), ((10, 31), 25)])
def test_the_clock_of_a_test_is_set_to_a_day_whose_hours_are_not_24(day, hours):
    steps = [use(until_midnight), use(end)]
    begins = dt.datetime(2027, day[0], day[1], tzinfo=BERLIN)
    run = play(workflow("night", title="Night", steps=steps), at=begins)
    assert run.wakes_at is not None
    assert run.wakes_at - begins.astimezone(dt.UTC) == dt.timedelta(hours=hours)
    run.advance(until=begins + dt.timedelta(days=1, minutes=-1))
    assert run.status == "pending"
    assert run.advance(until=begins + dt.timedelta(days=1)).done


def test_the_clock_goes_forward_only_and_by_moments_alone():
    engine = Engine.on_sqlite()
    with pytest.raises(ValueError, match="no moment without a time zone"):
        play(AGREED, engine=engine, at=dt.datetime(2027, 3, 28))
    run = play(AGREED, engine=engine, at=dt.datetime(2027, 3, 28, tzinfo=BERLIN))
    for back in (
        lambda: run.advance(until=dt.datetime(2027, 3, 27, tzinfo=BERLIN)),
        lambda: play(AGREED, engine=engine, at=dt.datetime(2027, 3, 27, tzinfo=BERLIN)),
    ):
        with pytest.raises(ValueError, match="forward only"):
            back()


def test_somebody_outside_answers_by_their_address_and_nobody_else_does():
    run = play(AGREED)
    with pytest.raises(NotFound):
        run.approve(by="stranger@elsewhere.example")
    run.approve(by=OUTSIDE.upper())
    assert (run.done, run.decisions) == (True, [("agree", "approve", OUTSIDE)])


@pytest.mark.parametrize("to", ["cleo", OUTSIDE])
def test_a_link_answers_once_for_its_revision_and_while_it_is_good(to):
    run = play(AGREED, at=dt.datetime(2027, 1, 1, tzinfo=BERLIN))
    old = run.link(to)
    run.revise("shorter", by="cleo")
    with pytest.raises(LinkRefused, match="has changed"):
        run.approve(by=old)
    late = run.link(to)
    run.advance(days=settings.WAYSTATION_LINK_DAYS + 1)
    with pytest.raises(LinkRefused, match="expired"):
        run.approve(by=late)
    good = run.link(to)
    run.approve(by=good)
    assert (run.done, run.decisions[-1]) == (True, ("agree", "approve", to))
    with pytest.raises(LinkRefused, match="answered already"):
        run.approve(by=good)


def test_a_link_answers_only_where_the_rules_let_it():
    closed = use(agree, pause_after=True, review={"reviewers": {"users": ["cleo"]}})
    run = play(workflow("closed", title="Closed", steps=[closed, use(end)]))
    for to in ("cleo", OUTSIDE):
        with pytest.raises(LinkRefused, match="Log in to answer"):
            run.approve(by=run.link(to))
    assert run.approve().done
