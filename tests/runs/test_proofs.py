"""Demands and failures by number that no other test proves: what an answer is, what a lock covers,
and how runs may end.
"""

from __future__ import annotations

import datetime as dt
import re
import socket
import subprocess
import sys
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from checkpoints import store
from checkpoints.models import Checkpoint, Event, Memo
from checkpoints.state import codec
from hitl.decisions import services
from hitl.decisions.deadlines import outcomes
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from runs import services as runs
from runs import tasks
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run
from runs.services.forks import NothingToFork
from runs.states import ENDED, RunEnded
from runs.workflows.base import Ask, Done, Go, Report, State, StepFailed
from tests.conftest import drive, fresh, kinds, log_lines, pause_of
from tests.databases.whole import at_once, rows
from tests.databases.whole import file_database as file_database
from tests.servers.stack import ROOT
from tests.worlds import lost_worker, steps
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db
LONG_AGO = timezone.now() - dt.timedelta(hours=1)


def answer(order, by, action="approve", feedback=""):
    services.decide(pause_of(order).pk, Answer(action, Via.PAGE, feedback=feedback), by=by)
    return drive(order)


def called():
    return [step for step, _ in steps.CALLS]


def asking(given, answers, **update):
    """A step that keeps the states it was given, and asks."""

    def ask(state, context):
        given.append(state)
        return Ask(
            question="Which account?",
            answers=answers,
            report=Report(content="Two fit."),
            update=update,
        )

    return ask


def test_a_valid_answer_joins_the_state_and_the_run_goes_on_from_the_saved_step(order_that, ana):
    """S3-16, S3-17, S3-32: with all that was found out before the pause, and without finding it out
    again.
    """
    given: list[State] = []
    order = drive(
        order_that(asking(given, {"approve": "finish", "revise": "execute"}, extracted="invoice 7"))
    )
    saved = state_of(order)
    assert saved["extracted"] == "invoice 7"
    services.decide(pause_of(order).pk, Answer("revise", Via.REST, feedback="account 4400"), by=ana)
    assert fresh(order).thread.head.next_step == "execute"
    order = drive(order)
    assert given[1] == {
        **saved,
        "revision_feedback": "account 4400",
        "decided": {"execute": "revise"},
    }
    assert answer(order, ana).status == "completed"
    assert called() == ["planning", "finish"]
    assert kinds(order).count("run_started") == 1


def test_a_run_goes_on_where_its_answer_says_though_the_template_says_otherwise_by_now(
    order_that, ana
):
    """S3-17: the node is stored with the question; nothing is looked up by position when the answer
    comes.
    """
    given: list[State] = []
    order = drive(order_that(asking(given, {"approve": "finish", "back": "planning"})))
    order_that(lambda state, context: Done())  # another version of the template, and of the step
    services.decide(pause_of(order).pk, Answer("back", Via.PAGE), by=ana)
    head = fresh(order).thread.head
    assert (head.node_id, head.next_step) == ("execute", "planning")


def test_an_answer_is_a_small_checkpoint_however_large_the_state_is(order_that, ana):
    """S3-19: it holds the answer and nothing else, and nothing before the pause is run or told
    again.
    """
    given: list[State] = []
    order = drive(
        order_that(
            asking(
                given,
                {"approve": "finish", "revise": "execute"},
                transcript=["so much was said"] * 20_000,
            )
        )
    )
    told = list(
        Event.objects.filter(thread=order.thread_id).order_by("seq").values_list("seq", "kind")
    )
    services.decide(pause_of(order).pk, Answer("revise", Via.REST, feedback="shorter"), by=ana)
    head = fresh(order).thread.head
    assert not head.is_snapshot
    assert head.body["set"] == {"revision_feedback": "shorter", "decided": {"execute": "revise"}}
    assert head.size < 200 < 100_000 < len(codec.encode(state_of(order)))
    drive(order)
    assert called() == ["planning"]
    assert len(given) == 2
    assert (
        list(
            Event.objects.filter(thread=order.thread_id).order_by("seq").values_list("seq", "kind")
        )[: len(told)]
        == told
    )


@pytest.fixture
def offline(monkeypatch):
    """Whoever opens a connection from Python fails the test."""

    def refuse(*args, **kwargs):
        raise AssertionError(f"a connection was opened: {args[1:]}")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("offline")
def test_asking_checking_routing_and_storing_call_nobody(make_order, ana):
    """S3-18: between the steps nothing thinks: the same answers lead to the same checkpoints, byte
    for byte, without a network.
    """
    digests = []
    for _ in range(2):
        order = drive(make_order())
        with pytest.raises(services.AnswerInvalid):
            answer(order, ana, "revise")
        order = answer(answer(answer(order, ana, "revise", "shorter"), ana), ana, "skip_review")
        assert order.status == "completed"
        digests.append(
            list(
                Checkpoint.objects.filter(thread=order.thread_id)
                .order_by("id")
                .values_list("digest", "node_id", "next_step")
            )
        )
    assert digests[0] == digests[1]


WITHOUT = [
    "django",
    "celery",
    "channels",
    "rest_framework",
    "redis",
    "openai",
    "anthropic",
    "litellm",
    "requests",
    "httpx",
    "aiohttp",
    "urllib3",
]
ALONE = f"""
import sys
sys.modules.update(dict.fromkeys({WITHOUT!r}))  # whoever imports one of them gets an ImportError
from pathlib import Path
import runs.workflows
from runs.workflows import base, registry, sequence

@registry.step("alone.look")
def look(state, context):
    context.log("looking")
    context.check()
    seen = context.once("seen", lambda: 7)
    return base.Go(update={{"seen": seen, "said": state["revision_feedback"]}}, report=base.Report(content=context.order.title))

order = base.Order(id="wo_1", title="T", request="", input={{}}, repository_url="", branch="b")
lines = []
context = base.Context(run_id="run_1", step="look", loop_num=1, key="k", config={{}}, order=order, log=lines.append,
                       once=lambda key, function: function(), check=lambda: None, workspace=None)
frozen = {{"name": "look", "pause_after": True, "revise_to": "look", "choices": [], "pause_phase": "p",
          "max_revisions": 3, "title": "Look"}}
outcome = sequence.conclude([frozen], "look", registry.find("alone.look")({{"revision_feedback": "x"}}, context))
assert isinstance(outcome, base.Ask) and outcome.update == {{"seen": 7, "said": "x"}} and lines == ["looking"], outcome
print("alone")
"""


def test_steps_get_all_they_use_from_outside_and_know_neither_a_framework_nor_a_model():
    """S4-25, S3-18: in an interpreter where none of these can be imported, the shipped steps load,
    and one runs on stand-ins.
    """
    found = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.stdout == "alone\n", found.stderr


def test_a_pause_is_a_row_and_a_line_and_its_answer_is_read_from_the_rows(paused, ana):
    """S4-27, S4-26: nothing is kept in memory that another process would miss, and nothing is left
    behind afterwards.
    """
    [line] = [
        one.data
        for one in Event.objects.filter(thread=paused.thread_id, kind="log")
        if one.data["message"] == "Workflow paused"
    ]
    assert (line["work_order_id"], line["phase"]) == (paused.shown_id, "awaiting_plan_approval")
    pause = pause_of(paused)
    services.decide(pause.pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    pause.refresh_from_db()
    assert (pause.status, pause.closed_at is None) == ("answered", False)
    assert not Pause.objects.open().exists()
    assert log_lines(paused)[-3] == "Workflow resumed with decision: revise"
    assert state_of(drive(paused))["drafts"] == ["first", "shorter"]


def impatient(job):
    """Do a job on a connection that waits for no lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "PRAGMA busy_timeout = 0"
            if connection.vendor == "sqlite"
            else "SET lock_timeout = '100ms'"
        )
    return job()


def at_its_commit(monkeypatch, job, other):
    """Do `job`; right before it commits, somebody else tries `other`.

    Gives what became of `other`.
    """
    backend: Any = connection
    found: list[Any] = []
    commit = backend._commit

    def late():
        monkeypatch.undo()
        found.extend(at_once(lambda: impatient(other)))
        commit()

    monkeypatch.setattr(backend, "_commit", late, raising=False)
    job()
    return found[0]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_an_answer_holds_its_question_until_it_is_committed(paused, ana, ben, monkeypatch):
    """F7, F0: nobody gets through between the end of the work and the commit; after it, the second
    is told who won.
    """
    pause = pause_of(paused)

    def decide(by):
        return services.decide(pause.pk, Answer("approve", Via.PAGE), by=by)

    assert isinstance(
        at_its_commit(monkeypatch, lambda: decide(ana), lambda: decide(ben)), OperationalError
    )
    with pytest.raises(services.AlreadyAnswered):
        decide(ben)
    assert [decision.decided_by for decision in Decision.objects.all()] == [ana]
    assert kinds(paused).count("approval_received") == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_a_claim_holds_its_run_until_it_is_committed(make_order, monkeypatch):
    """F7, F0: of a claim and another at its commit, one comes through."""
    order = make_order()

    def claim():
        with transaction.atomic():
            return lost_worker.claim(order.latest_run_id, now=timezone.now())

    assert isinstance(at_its_commit(monkeypatch, claim, claim), OperationalError)
    assert not claim()
    assert Run.objects.get().epoch == 1


def test_a_run_whose_worker_is_gone_keeps_nobody_from_working(make_order, ana):
    """F12: neither other orders, nor a person who cancels, nor what is begun anew; and it frees
    itself with the next sweep.
    """
    ghost, other, cancelled = (
        make_order("writing-quick"),
        make_order("writing-quick"),
        make_order("writing-quick"),
    )
    for order in (ghost, cancelled):
        assert lost_worker.claim(order.latest_run_id, now=timezone.now())
    Run.objects.filter(status="running").update(lease_until=LONG_AGO)
    assert drive(other).status == "completed"
    services.cancel_order(cancelled.pk, by=ana, via=Via.PAGE)
    first = Checkpoint.objects.filter(thread=cancelled.thread_id).earliest("id")
    services.fork(first.pk, by=ana, reason="begin anew")
    assert drive(cancelled).status == "completed"
    with pytest.raises(NothingToFork):
        # it may still be at work, as far as anybody knows
        services.fork(fresh(ghost).thread.head.pk, by=ana, reason="impatient")
    assert lost_runs.take_back(now=timezone.now()) == [(ghost.latest_run_id, "steps")]
    assert drive(ghost).status == "completed"
    assert not Run.objects.filter(status="running").exists()


def test_a_later_try_is_a_row_that_the_sweep_fires_and_no_message_waits_in_the_broker(
    order_that, sending_at_once, monkeypatch
):
    """F13: nothing is sent ahead of time; what is sent a hundred times is done once."""
    sent, tries = [], []
    monkeypatch.setattr(
        tasks.advance_run,
        "apply_async",
        lambda args, kwargs=None, **options: sent.append((args, options)),
    )

    def flaky(state, context):
        tries.append(context.key)
        if len(tries) == 1:
            raise ConnectionError("the shop hung up")
        return Go()

    order = order_that(flaky, retry={"attempts": 3, "base": 3600, "cap": 3600})
    tasks.advance_run(str(order.latest_run_id))
    Run.objects.update(due_at=timezone.now() + dt.timedelta(minutes=30))
    tasks.sweep()
    assert (sent, len(tries)) == ([], 1)
    Run.objects.update(due_at=LONG_AGO)
    tasks.sweep()
    assert sent == [((str(order.latest_run_id),), {"queue": "steps", "priority": 0})]
    for _ in range(100):
        tasks.advance_run(*sent[0][0])
    assert (fresh(order).status, len(tries)) == ("completed", 2)


def test_no_code_of_ours_lets_a_broker_keep_time():
    """F13: no `eta`, no `countdown`."""
    sources = [
        path
        for app in ("checkpoints", "runs", "hitl", "project", "extensions")
        for path in (ROOT / app).rglob("*.py")
    ]
    assert len(sources) > 50
    assert not [path for path in sources if re.search(r"\b(eta|countdown)\s*=", path.read_text())]


def test_each_turn_of_a_loop_gets_the_answer_to_its_own_question(order_that, ana):
    """F17: answers and recorded results belong to (step, turn, question), not to a place in a
    list.
    """

    def ask(state, context):
        number = context.once("number", lambda: context.loop_num)
        answers = {"more": "execute", "enough": "finish"}
        return Ask(
            question=f"Turn {number}?",
            answers=answers,
            report=Report(content=str(number)),
            update={"turns": number},
        )

    order = drive(order_that(ask, reducers={"turns": "append"}))
    first = pause_of(order)
    for action in ("more", "more", "enough"):
        order = answer(order, ana, action)
    assert order.status == "completed"
    assert state_of(order)["turns"] == [1, 2, 3]
    pauses = Pause.objects.order_by("id")
    assert [(pause.question, pause.revision, pause.decisions.get().action) for pause in pauses] == [
        ("Turn 1?", 1, "more"),
        ("Turn 2?", 2, "more"),
        ("Turn 3?", 3, "enough"),
    ]
    assert [memo.scope.rpartition("/")[2] for memo in Memo.objects.order_by("id")] == [
        "1",
        "2",
        "3",
    ]
    with pytest.raises(services.AlreadyAnswered):
        services.decide(first.pk, Answer("enough", Via.PAGE), by=ana)


def test_a_branch_asks_for_itself_and_takes_no_answer_of_another_branch(make_order, ana):
    """F17: after a fork from before the question, the old answer is nobody's; after one from behind
    it, it still holds.
    """
    order = answer(drive(make_order()), ana, "revise", "shorter")
    asked = Checkpoint.objects.get(
        thread=order.thread_id, node_id="planning", loop_num=1, status="pending_input"
    )
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    start = Checkpoint.objects.filter(thread=order.thread_id).earliest("id")
    services.fork(start.pk, by=ana, reason="another way")
    order = drive(order)
    assert (order.phase, pause_of(order).revision) == ("awaiting_plan_approval", 1)
    assert state_of(order) == {**store.load(asked), "drafts": ["first"]}
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    answered = Checkpoint.objects.get(thread=order.thread_id, parent=asked, next_step="planning")
    services.fork(answered.pk, by=ana, reason="as it was")
    assert state_of(drive(order))["drafts"] == ["first", "shorter"]


WISHES = {
    "cancel": lambda order, by: services.cancel_order(order.pk, by=by, via=Via.PAGE),
    "suspend": lambda order, by: runs.suspend(order.pk, by=by),
    "answer": lambda order, by: services.answer_order(order.pk, Answer("approve", Via.REST), by=by),
}


def test_a_wish_that_comes_after_the_end_is_refused_and_changes_nothing(make_order, ana):
    """F22: whoever is not refused was heard; there is no inbox in which a wish could be
    forgotten.
    """
    order = drive(make_order("writing-quick"))
    before = rows()
    for wish in WISHES.values():
        with pytest.raises((RunEnded, services.NotPaused)):
            wish(order, ana)
    assert rows() == before


def test_a_cancellation_that_comes_during_the_last_step_counts(make_order, ana):
    """F22, F23: the run does not complete over it, and does not begin again."""
    order = make_order("writing-quick")
    steps.HOOKS["finish"] = lambda: WISHES["cancel"](order, ana)
    order = drive(order)
    assert (order.latest_run.status, kinds(order).count("run_completed")) == ("cancelled", 0)
    assert kinds(order)[-2:] == ["run_cancelled", "checkpoint_created"]
    assert called() == ["planning", "execute", "review", "finish"]
    assert lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(0)) == {}


@pytest.mark.parametrize("step", ["finish", "execute"])
def test_a_suspension_wanted_while_a_run_ends_ends_with_it(make_order, ana, step):
    """F22: it neither keeps the run from ending nor stops the next run, and the log says what
    became of the wish.
    """
    order = make_order("writing-quick" if step == "finish" else "writing-fail")
    steps.HOOKS[step] = lambda: WISHES["suspend"](order, ana)
    order = drive(order)
    assert order.status == ("completed" if step == "finish" else "failed")
    assert order.latest_run.suspend_by == ""
    assert "Suspension wanted by Ana Ruiz: the run stops here by itself." in log_lines(order)
    assert not Pause.objects.exists()
    if step == "execute":
        steps.HOOKS.clear()
        assert runs.retry(order.pk, by=ana).suspend_by == ""
        assert drive(order).status == "failed"


def wait_for_a_try(order_that):
    def failing(state, context):
        raise ConnectionError("no")

    return drive(order_that(failing, retry={"attempts": 3, "base": 3600}))


STANDING = {
    "paused": lambda make_order, order_that, ana: drive(make_order()),
    "waiting for its next try": lambda make_order, order_that, ana: wait_for_a_try(order_that),
    "pending": lambda make_order, order_that, ana: make_order(),
}


@pytest.mark.parametrize("standing", STANDING)
def test_a_cancelled_run_waits_for_nothing_any_more(make_order, order_that, ana, standing):
    """F23: no open question, no later try, no lease; no time brings it back."""
    order = STANDING[standing](make_order, order_that, ana)
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    assert not Pause.objects.open().exists()
    Run.objects.update(due_at=LONG_AGO)
    before = rows()
    assert lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(0)) == {}
    assert advance(order.latest_run_id, budget=60) == []
    assert rows() == before


def broken(error):
    def step(state, context):
        raise error

    return step


def endless(state, context):
    while True:
        context.check()


def lose_workers(order):
    while fresh(order).status == "pending":
        assert lost_worker.claim(order.latest_run_id, now=timezone.now())
        Run.objects.update(lease_until=LONG_AGO)
        lost_runs.take_back(now=timezone.now())


ENDINGS = {f"run_{status}" for status in ENDED}
ENDS: dict[str, tuple[str, str, Any, dict[str, Any]]] = {
    "done": ("completed", "", lambda state, context: Done(), {}),
    "went on past the last step": ("completed", "", lambda state, context: Go(), {}),
    "passed over": ("completed", "", broken(ValueError()), {"skip_when": {}}),
    "answered": ("completed", "", asking([], {"approve": "finish"}), {}),
    "answered with the end": ("completed", "", asking([], {"approve": ""}), {}),
    "cancelled": ("cancelled", "cancelled_by_user", asking([], {"approve": "finish"}), {}),
    "failed": ("failed", "shop_closed", broken(StepFailed("closed", code="shop_closed")), {}),
    "crashed": ("failed", "step_error", broken(ValueError("surprise")), {}),
    "out of tries": (
        "failed",
        "step_error",
        broken(ValueError("surprise")),
        {"retry": {"attempts": 1}},
    ),
    "out of time": ("failed", "timeout", endless, {"timeout": 0.02}),
    "out of loops": (
        "failed",
        "loop_limit",
        lambda state, context: Go(to="execute"),
        {"max_loops": 2},
    ),
    "not JSON": ("failed", "state_not_json", lambda state, context: Go(update={"x": object()}), {}),
    "not mergeable": (
        "failed",
        "merge_failed",
        lambda state, context: Go(update={"n": "x"}),
        {"reducers": {"n": "add"}},
    ),
    "nowhere to go": ("failed", "step_error", lambda state, context: Go(to="nowhere"), {}),
    "workers lost": ("failed", "incident", None, {}),
    "expired": (
        "expired",
        "expired",
        asking([], {"approve": "finish"}),
        {"review": {"deadline": {"after": "PT1H"}}},
    ),
}


WORDS = {"crashed": "ValueError: surprise", "out of time": "The step took longer than it may."}


@pytest.mark.parametrize(
    "end",
    [
        # its step works in a thread, which sees what is committed
        pytest.param(end, marks=pytest.mark.django_db(transaction=True))
        if "timeout" in how
        else end
        for end, (*_, how) in ENDS.items()
    ],
)
def test_every_way_a_run_can_end_is_gone_from_its_beginning(order_that, ana, end):
    """F29: the row, the log, the checkpoint and the questions say the same."""
    status, code, function, policy = ENDS[end]
    order = order_that(function, **policy)
    if end == "workers lost":
        lose_workers(order)
    else:
        drive(order)
    if status == "expired":
        outcomes.fire_due(now=timezone.now() + dt.timedelta(hours=1))
    if fresh(order).status == "paused":
        answer(order, ana, "cancel" if status == "cancelled" else "approve")
    order = fresh(order)
    run = order.latest_run
    assert (run.status, run.failure_code, bool(run.error)) == (status, code, status != "completed")
    assert run.error == WORDS.get(end, run.error)
    assert run.ended_at is not None
    assert [kind for kind in kinds(order) if kind in ENDINGS] == [f"run_{status}"]
    assert order.thread.head.status == ("failed" if status == "expired" else status)
    assert not Pause.objects.open().exists()
    assert advance(run.pk, budget=60) == []


def test_there_are_no_other_ends():
    """F29: whoever adds one proves it above."""
    assert {status for status, *_ in ENDS.values()} == {str(status) for status in ENDED}
