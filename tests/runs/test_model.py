"""The engine against a plain picture of it: whatever people, workers and accidents do in whatever order, both agree.

And flows made at random, whose counters can be told beforehand.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, precondition, rule, run_state_machine_as_test

from checkpoints import store
from checkpoints.models import Event
from hitl import services
from hitl.models import Decision, Via
from hitl.services import AlreadyAnswered, AnswerInvalid, NotPaused
from runs import definitions
from runs import services as runs
from runs.engine import lease, recovery
from runs.engine.advance import advance
from runs.models import Pause, Run, WorkOrder
from runs.states import RunEnded
from tests import crash
from tests.anything import state_of

QUICK = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
LOST_ATTEMPTS = 3

STEPS = ["plan", "fork", "left", "right", "check", "finish"]
NEXT = {"plan": "fork", "fork": "", "left": "right", "right": "check", "check": "finish", "finish": ""}
ASKS = {"plan", "check"}


def load() -> None:
    """plan (asks) → fork → left (fails at will) → right (loops) → check (asks; revise goes back to right) → finish."""
    crash.load()
    kinds = {"plan": "work", "fork": "branch", "left": "fail", "right": "loop", "check": "work", "finish": "end"}
    steps: list[dict[str, Any]] = [
        {"name": name, "step_type": "execute", "step_template_slug": f"model-{kinds[name]}", "max_revisions": 2} for name in STEPS
    ]
    steps[0] |= {"pause_after": True, "pause_phase": "asking", "choices": [{"name": "skip", "label": "Skip", "to": "check"}]}
    steps[4] |= {"pause_after": True, "pause_phase": "asking", "revise_to": "right"}
    definitions.edit_template("model", title="Model", needs_repository=False, steps=steps)


@dataclass
class Picture:
    """An order as one would play it on paper."""

    branch: str
    loops: int
    failures: int
    status: str = "pending"
    at: str = "plan"
    """The step that comes next, or that asks."""
    runs: int = 1
    ran: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    """Questions of the latest run."""
    answers: int = 0
    rounds: int = 0
    lost: int = 0

    @property
    def live(self) -> bool:
        return self.status in {"pending", "running", "paused"}

    def work(self) -> None:
        """One step of a pending run."""
        if self.at == "left" and self.failures:
            self.failures -= 1
            self.status, self.lost = "failed", 0
            return
        self.lost = 0
        self.ran[self.at] += 1
        if self.at in ASKS:
            self.asked[self.at] += 1
            self.status = "paused"
        elif self.at == "fork":
            self.at = self.branch
        elif self.at == "right" and self.rounds + 1 < self.loops:
            self.rounds += 1
        elif self.at == "finish":
            self.status = "completed"
        else:
            self.rounds = 0
            self.at = NEXT[self.at]

    def answer(self, action: str) -> None:
        self.answers += 1
        if action == "cancel":
            self.status = "cancelled"
            return
        self.status = "pending"
        self.at = {"approve": NEXT[self.at], "skip": "check", "revise": "plan" if self.at == "plan" else "right"}[action]

    def may(self, action: str) -> bool:
        if action == "skip":
            return self.at == "plan"
        return action != "revise" or self.asked[self.at] <= 2


class Engine(RuleBasedStateMachine):
    """Orders are worked on step by step, by workers that may be lost, for people who may be late."""

    person: ClassVar[User]
    orders = Bundle("orders")

    def __init__(self) -> None:
        super().__init__()
        self.pictures: dict[Any, Picture] = {}
        self.undone = transaction.atomic()
        self.undone._from_testcase = True  # type: ignore[attr-defined]  # as Django's TestCase does: durable blocks may lie inside
        self.undone.__enter__()

    def teardown(self) -> None:
        try:
            for order_id in self.pictures:
                self.agree(order_id)
                crash.story(order_id)  # a log without gaps, one chain of checkpoints, one answer per question
            crash.check_ledgers()
        finally:
            transaction.set_rollback(True)
            self.undone.__exit__(None, None, None)

    @rule(target=orders, branch=st.sampled_from(["left", "right"]), loops=st.integers(1, 3), failures=st.integers(0, 2))
    def submit(self, branch, loops, failures):
        if len(self.pictures) >= 2:
            return multiple()
        order = runs.submit("model", by=self.person, input={"branch": branch, "loops": loops})
        crash.FAILURES[f"{order.shown_id}/left"] = failures
        self.pictures[order.pk] = Picture(branch, loops, failures)
        return order.pk

    @rule(order_id=orders, steps=st.integers(1, 4))
    def work(self, order_id, steps):
        """A worker takes a few steps, each in a time slice of its own. Told of a run that is not due, it does nothing."""
        picture = self.pictures[order_id]
        for _ in range(steps):
            more = advance(crash.latest_run(order_id).pk, budget=0)
            if picture.status == "pending":
                picture.work()
                assert bool(more) == (picture.status == "pending")
            else:
                assert not more

    @rule(order_id=orders)
    def work_on(self, order_id):
        """A worker takes all the steps there are in one time slice."""
        picture = self.pictures[order_id]
        assert not advance(crash.latest_run(order_id).pk, budget=60)
        while picture.status == "pending":
            picture.work()

    @rule(order_id=orders, action=st.sampled_from(["approve", "approve", "approve", "revise", "skip", "cancel"]))
    def answer(self, order_id, action):
        picture = self.pictures[order_id]

        def give():
            services.answer_order(order_id, action=action, by=self.person, via=Via.REST, feedback="shorter")

        if picture.status != "paused":
            with pytest.raises((NotPaused, AlreadyAnswered)):
                give()
        elif not picture.may(action):
            with pytest.raises(AnswerInvalid):
                give()
        else:
            give()
            picture.answer(action)

    @rule(order_id=orders)
    def answer_again(self, order_id):
        """Somebody answers a question that was answered before."""
        closed = Pause.objects.filter(run__work_order=order_id).exclude(status="open").first()
        if closed is not None:
            with pytest.raises(AlreadyAnswered):
                services.decide(closed.pk, action="approve", by=self.person, via=Via.PAGE)

    @rule(order_id=orders)
    def cancel(self, order_id):
        picture = self.pictures[order_id]
        if not picture.live:
            with pytest.raises(RunEnded):
                services.cancel_order(order_id, by=self.person, via=Via.REST)
            return
        services.cancel_order(order_id, by=self.person, via=Via.REST)
        picture.answers += picture.status == "paused"
        picture.status = "cancelled"

    @rule(order_id=orders)
    def retry(self, order_id):
        picture = self.pictures[order_id]
        if picture.status != "failed":
            with pytest.raises(RunEnded):
                runs.retry(order_id, by=self.person)
            return
        runs.retry(order_id, by=self.person)
        picture.status, picture.lost = "pending", 0
        picture.runs += 1
        picture.asked.clear()

    @rule(order_id=orders)
    def claim(self, order_id):
        """A worker takes the run, and nothing is heard of it."""
        picture = self.pictures[order_id]
        assert lease.claim(crash.latest_run(order_id).pk, now=timezone.now()) == (picture.status == "pending")
        if picture.status == "pending":
            picture.status = "running"

    @precondition(lambda self: any(picture.status == "running" for picture in self.pictures.values()))
    @rule()
    def sweep_after_a_while(self):
        crash.expire_leases()
        self.sweep()
        for picture in self.pictures.values():
            if picture.status == "running":
                picture.lost += 1
                picture.status = "failed" if picture.lost >= LOST_ATTEMPTS else "pending"

    @rule()
    def sweep(self):
        """A sweep names just what is due; it takes nothing from a worker whose lease is good."""
        due = recovery.due_again(now=timezone.now(), patience=-crash.LONG_AGO)
        assert set(due) == set(Run.objects.filter(status="pending").values_list("pk", "queue"))

    @invariant()
    def pictures_agree(self):
        for order_id in self.pictures:
            self.agree(order_id)

    def agree(self, order_id) -> None:
        picture = self.pictures[order_id]
        order = WorkOrder.objects.shown().get(pk=order_id)
        run, head = order.latest_run, order.thread.head
        assert run is not None
        assert head is not None
        assert run.status == picture.status
        assert Run.objects.filter(work_order=order).count() == picture.runs
        if picture.status in {"pending", "running", "failed"}:
            assert head.next_step == picture.at
        assert order.current_step == picture.at
        state = store.load(head)
        ran = Counter(key.split("/")[1] for key in state.get("results", []))
        assert ran == +picture.ran
        assert state.get("rounds", 0) == picture.rounds
        assert head.metadata.get("loops", {}) == dict(+picture.ran)
        assert Decision.objects.filter(pause__run__work_order=order).count() == picture.answers
        assert Event.objects.filter(thread=order.thread_id, kind="step_completed").count() == picture.ran.total()
        if picture.status in {"pending", "running"}:
            assert run.lost_attempts == picture.lost


@pytest.mark.django_db
def test_the_engine_does_what_its_picture_does(templates, ana, settings, caplog):
    """P1, P3, P4, P6: submit, work, answer, cancel, retry, lost workers and sweeps in any order."""
    settings.WAYSTATION_LOST_ATTEMPTS = LOST_ATTEMPTS
    load()
    Engine.person = ana
    caplog.set_level(logging.CRITICAL)
    run_state_machine_as_test(Engine, settings=QUICK)


@dataclass(frozen=True)
class Planned:
    """One step of a flow made at random."""

    loops: int
    asks: bool
    revisions: int
    failures: int
    losses: int


FLOWS = st.lists(
    st.builds(
        Planned,
        loops=st.integers(1, 3),
        asks=st.booleans(),
        revisions=st.integers(0, 2),
        failures=st.integers(0, 2),
        losses=st.integers(0, 2),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.django_db
def test_random_flows_end_with_the_counters_that_were_told_beforehand(templates, ana, caplog):
    """P3, P4: steps that loop, ask, are sent back, fail and lose their workers; each counts exactly as often as it should."""
    crash.load()
    caplog.set_level(logging.CRITICAL)

    @settings(QUICK, max_examples=15)
    @given(flow=FLOWS, budget=st.sampled_from([0, 60]))
    def check(flow, budget):
        order_id = play(flow, budget, ana)
        state = state_of(WorkOrder.objects.get(pk=order_id))
        asked = [step.revisions if step.asks else 0 for step in flow]
        expected = {f"s{number}": step.loops * (1 + asked[number]) for number, step in enumerate(flow)}
        assert Counter(key.split("/")[1] for key in state["results"]) == expected
        assert len(set(state["results"])) == len(state["results"])
        assert Run.objects.filter(work_order=order_id).count() == 1 + sum(step.failures for step in flow)
        assert Decision.objects.filter(pause__run__work_order=order_id).count() == sum(asked) + sum(step.asks for step in flow)
        assert crash.story(order_id)["status"][0] == "completed"

    check()


def play(flow, budget, person):
    """Run a flow to its end: every person and every accident does what the plan says."""
    steps: list[dict[str, Any]] = []
    for number, planned in enumerate(flow):
        definitions.edit_step_template(f"flow-{planned.loops}", title="Flow", function="model.flow", config={"loops": planned.loops})
        steps.append({"name": f"s{number}", "step_type": "execute", "step_template_slug": f"flow-{planned.loops}"})
        if planned.asks:
            steps[-1] |= {"pause_after": True, "pause_phase": "asking"}
    definitions.edit_template("flow", title="Flow", needs_repository=False, steps=steps)
    order = runs.submit("flow", by=person)
    losses, revisions = {"": 0}, {}  # "": a question was the last thing
    for number, planned in enumerate(flow):
        name = f"s{number}"
        crash.FAILURES[f"{order.shown_id}/{name}"] = planned.failures
        losses[name], revisions[name] = planned.losses, planned.revisions
    for _ in range(200):
        fresh = WorkOrder.objects.shown().get(pk=order.pk)
        run, head = fresh.latest_run, fresh.thread.head
        match run.status:
            case "pending" if losses[head.next_step]:
                losses[head.next_step] -= 1
                assert lease.claim(run.pk, now=timezone.now())
                crash.expire_leases()
                recovery.take_back(now=timezone.now())
            case "pending":
                advance(run.pk, budget=budget)
            case "paused":
                action = "revise" if revisions[head.node_id] else "approve"
                revisions[head.node_id] -= action == "revise"
                services.answer_order(order.pk, action=action, by=person, via=Via.REST, feedback="again")
            case "failed":
                runs.retry(order.pk, by=person)
            case status:
                assert status == "completed"
                return order.pk
    raise AssertionError("the flow does not end")
