"""The engine against a plain picture of it: whatever people, workers and accidents do in whatever
order, both agree.

And flows made at random, whose counters can be told beforehand. Long, since the picture and the
rules that compare it are read together.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from checkpoints import store
from checkpoints.models import Checkpoint, Event
from checkpoints.store.prepared_queries import Prepared, PreparedCount
from hitl.decisions import services
from hitl.decisions.services import AlreadyAnswered, Answer, AnswerInvalid, NotPaused
from hitl.models import Decision, Via
from runs import definitions
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run, WorkOrder
from runs.services.forks import NothingToFork
from runs.states import RunEnded
from tests.killed import moments
from tests.runs.model.speed import (
    QUICK,
)
from tests.worlds import lost_worker
from tests.worlds.scripted_step import state_of

LOST_ATTEMPTS = 3

STEPS = ["plan", "fork", "left", "right", "check", "finish"]
NEXT = {
    "plan": "fork",
    "fork": "",
    "left": "right",
    "right": "check",
    "check": "finish",
    "finish": "",
}
ASKS = {"plan", "check"}
TRIES = 2
"""How often `left` is tried in one run."""


def load() -> None:
    """plan (asks) → fork → left (fails at will) → right (loops) → check (asks; revise goes back to
    right) → finish.
    """
    moments.load()
    kinds = {
        "plan": "work",
        "fork": "branch",
        "left": "fail",
        "right": "loop",
        "check": "work",
        "finish": "end",
    }
    steps: list[dict[str, Any]] = [
        {
            "name": name,
            "step_type": "execute",
            "step_template_slug": f"model-{kinds[name]}",
            "max_revisions": 2,
        }
        for name in STEPS
    ]
    steps[0] |= {
        "pause_after": True,
        "pause_phase": "asking",
        "choices": [{"name": "skip", "label": "Skip", "to": "check"}],
    }
    steps[2] |= {"retry": {"attempts": TRIES, "base": 3600, "cap": 3600}}
    steps[4] |= {"pause_after": True, "pause_phase": "asking", "revise_to": "right"}
    definitions.edit_template("model", title="Model", needs_repository=False, steps=steps)


@dataclass(frozen=True)
class Mark:
    """A checkpoint: what somebody who goes on from it starts with."""

    status: str
    node: str
    next: str
    ran: dict[str, int]
    loops: dict[str, int]
    rounds: int
    note: int


@dataclass
class Picture:
    """An order as one would play it on paper."""

    branch: str
    loops: int
    failures: int
    interrupted: str = ""
    """The step after which this run asks."""
    status: str = "pending"
    at: str = "plan"
    """The step that comes next, or that ended when the run stopped."""
    to: str = ""
    """Where an approval leads, while the run is stopped without a question of its own."""
    stopped: bool = False
    """The run is paused, but no step asked."""
    runs: int = 1
    ran: Counter[str] = field(default_factory=Counter)
    """Results in the state."""
    executed: Counter[str] = field(default_factory=Counter)
    """Executions that the checkpoint knows of, which number the loops."""
    completed: int = 0
    """Steps told of as completed, on all branches."""
    asked: Counter[str] = field(default_factory=Counter)
    """Questions of the latest run."""
    answers: int = 0
    rounds: int = 0
    note: int = 0
    """What a fork wrote into the state."""
    lost: int = 0
    tries: int = 0
    """How often `left` failed in this run and is to be tried again."""
    waits: bool = False
    """The next try is not due yet."""
    suspending: bool = False
    marks: list[Mark] = field(default_factory=list)
    forks: list[tuple[int, str]] = field(default_factory=list)
    """(number of the checkpoint, reason) of each fork."""

    def __post_init__(self) -> None:
        self.mark("active", "", self.at)

    def mark(self, status: str, node: str, to: str) -> None:
        self.marks.append(
            Mark(status, node, to, dict(+self.ran), dict(self.executed), self.rounds, self.note)
        )

    @property
    def live(self) -> bool:
        return self.status in {"pending", "running", "paused"}

    @property
    def ready(self) -> bool:
        return self.status == "pending" and not self.waits

    def fail(self) -> None:
        """The run ends at the step it is at, or is lost there."""
        self.status, self.lost, self.tries = "failed", 0, 0
        self.mark("failed", self.at, self.at)

    def work(self) -> None:
        """One step of a run that is due."""
        self.lost = 0
        if self.at == "left" and self.failures:
            self.failures -= 1
            if self.tries + 1 < TRIES:
                self.tries, self.waits = self.tries + 1, True
            else:
                self.fail()
            return
        node, self.tries = self.at, 0
        self.ran[node] += 1
        self.executed[node] += 1
        self.completed += 1
        to = NEXT[node]
        if node == "fork":
            to = self.branch
        elif node == "right":
            self.rounds = (self.rounds + 1) if self.rounds + 1 < self.loops else 0
            to = "right" if self.rounds else to
        if node in ASKS:
            self.asked[node] += 1
            self.pause(node)
        elif node == self.interrupted or (self.suspending and to):
            self.stopped, self.to = True, to
            self.pause(node)
        elif to:
            self.at = to
            self.mark("active", node, to)
        else:
            self.status = "completed"
            self.mark("completed", node, "")

    def pause(self, node: str) -> None:
        self.status, self.suspending = "paused", False
        self.mark("pending_input", node, "")

    def answer(self, action: str) -> None:
        self.answers += 1
        if action == "cancel":
            self.cancel()
            return
        node, self.status = self.at, "pending"
        ways = {
            "approve": NEXT[node],
            "skip": "check",
            "revise": "plan" if node == "plan" else "right",
        }
        self.at = self.to if self.stopped else ways[action]
        self.stopped = False
        self.mark("active", node, self.at)
        # nothing follows: the next worker completes the run, and no step runs again
        self.at = self.at or node

    def cancel(self) -> None:
        self.status, self.stopped = "cancelled", False
        self.mark("cancelled", self.at, "")

    def begin(self) -> None:
        """A new run, at the step and in the state that are set."""
        self.status, self.lost, self.tries, self.waits, self.suspending, self.stopped = (
            "pending",
            0,
            0,
            False,
            False,
            False,
        )
        self.runs += 1
        self.asked.clear()
        self.mark("active", "", self.at)

    def fork(self, number: int, edit: int) -> None:
        mark = self.marks[number]
        self.at = mark.next or mark.node
        self.ran, self.executed = Counter(mark.ran), Counter(mark.loops)
        self.rounds, self.note = mark.rounds, edit or mark.note
        self.begin()

    def may(self, action: str) -> bool:
        if self.stopped:
            return action in {"approve", "cancel"}
        if action == "skip":
            return self.at == "plan"
        return action != "revise" or self.asked[self.at] <= 2


PLANS = st.tuples(
    st.sampled_from(["left", "left", "right"]),
    st.integers(1, 3),
    st.integers(0, 4),
    st.sampled_from(["", "", "fork", "right"]),
)
"""branch, loops, failures, and the step after which the run asks."""
OFTEN = ["go_on", "go_on", "work", "answer", "retry", "fork"]
MOVES = [
    "work",
    "work_on",
    "go_on",
    "time_passes",
    "answer",
    "answer_again",
    "cancel",
    "suspend",
    "retry",
    "fork",
    "claim",
    "sweep",
    "lose",
]
ANSWERS = ["approve", "revise", "revise", "skip", "cancel"]


# asked after each move
_orders = Prepared(lambda key: WorkOrder.objects.shown().filter(pk=key), uuid.UUID)
_runs = PreparedCount(lambda key: Run.objects.filter(work_order=key).values_list("pk"), uuid.UUID)
_decided = PreparedCount(
    lambda key: Decision.objects.filter(pause__run__work_order=key).values_list("pk"), uuid.UUID
)
_done = PreparedCount(
    lambda key: Event.objects.filter(thread__work_order=key, kind="step_completed").values_list(
        "pk"
    ),
    uuid.UUID,
)


class Engine(RuleBasedStateMachine):
    """Orders are worked on step by step, by workers that may be lost, for people who may be late or
    change their minds.
    """

    person: ClassVar[User]

    def __init__(self) -> None:
        super().__init__()
        self.pictures: dict[Any, Picture] = {}
        self.undone = transaction.atomic()
        # durable blocks may lie inside
        self.undone._from_testcase = True  # type: ignore[attr-defined]  # as Django's TestCase
        self.undone.__enter__()

    def teardown(self) -> None:
        try:
            for order_id in self.pictures:
                self.agree(order_id)
                # a log without gaps, branches only where somebody forked, one answer per question
                moments.story(order_id)
                self.history_agrees(order_id)
            moments.check_ledgers()
        finally:
            transaction.set_rollback(True)
            self.undone.__exit__(None, None, None)

    @initialize(plans=st.lists(PLANS, min_size=2, max_size=2))
    def submit(self, plans):
        for branch, loops, failures, interrupted in plans:
            stops = [interrupted] if interrupted else []
            order = runs.submit(
                "model",
                by=self.person,
                input={"branch": branch, "loops": loops},
                interrupt_after=stops,
            )
            moments.FAILURES[f"{order.shown_id}/left"] = failures
            self.pictures[order.pk] = Picture(branch, loops, failures, interrupted)

    @rule(number=st.integers(0, 1), move=st.sampled_from(OFTEN + MOVES), data=st.data())
    def move(self, number, move, data):
        """One rule for all moves: of several, Hypothesis switches some off in each example, and
        orders get nowhere.
        """
        order_id = list(self.pictures)[number]
        getattr(self, move)(order_id, data.draw)
        self.agree(order_id)

    def work(self, order_id, draw):
        """A worker takes a few steps, each in a time slice of its own.

        Told of a run that is not due, it does nothing.
        """
        picture = self.pictures[order_id]
        for _ in range(draw(st.integers(1, 4))):
            more = advance(moments.latest_run(order_id).pk, budget=0)
            if picture.ready:
                picture.work()
                assert bool(more) == picture.ready
            else:
                assert not more

    def work_on(self, order_id, draw):
        """A worker takes all the steps there are in one time slice."""
        picture = self.pictures[order_id]
        assert not advance(moments.latest_run(order_id).pk, budget=60)
        while picture.ready:
            picture.work()

    def go_on(self, order_id, draw):
        """Everybody does their part without delay: what is due is worked on, what is asked
        approved.
        """
        for _ in range(draw(st.integers(1, 3))):
            self.work_on(order_id, draw)
            if self.pictures[order_id].status == "paused":
                self.answer(order_id, lambda _: "approve")

    def time_passes(self, order_id, draw):
        """The next tries are due."""
        moments.let_retries_come_due()
        for other, picture in self.pictures.items():
            picture.waits = False
            self.agree(other)

    def answer(self, order_id, draw):
        picture, action = self.pictures[order_id], draw(st.sampled_from(ANSWERS))

        def give():
            services.answer_order(
                order_id, Answer(action, Via.REST, feedback="shorter"), by=self.person
            )

        if picture.status != "paused":
            with pytest.raises((NotPaused, AlreadyAnswered)):
                give()
        elif not picture.may(action):
            with pytest.raises(AnswerInvalid):
                give()
        else:
            give()
            picture.answer(action)

    def answer_again(self, order_id, draw):
        """Somebody answers a question that was answered before."""
        closed = Pause.objects.filter(run__work_order=order_id).exclude(status="open").first()
        if closed is not None:
            with pytest.raises(AlreadyAnswered):
                services.decide(closed.pk, Answer("approve", Via.PAGE), by=self.person)

    def cancel(self, order_id, draw):
        picture = self.pictures[order_id]
        if not picture.live:
            with pytest.raises(RunEnded):
                services.cancel_order(order_id, by=self.person, via=Via.REST)
            return
        services.cancel_order(order_id, by=self.person, via=Via.REST)
        picture.answers += picture.status == "paused"
        picture.cancel()

    def suspend(self, order_id, draw):
        picture = self.pictures[order_id]
        if picture.status not in {"pending", "running"}:
            with pytest.raises(RunEnded):
                runs.suspend(order_id, by=self.person)
            return
        runs.suspend(order_id, by=self.person)
        picture.suspending = True

    def retry(self, order_id, draw):
        picture = self.pictures[order_id]
        if picture.status != "failed":
            with pytest.raises(RunEnded):
                runs.retry(order_id, by=self.person)
            return
        runs.retry(order_id, by=self.person)
        picture.begin()

    def fork(self, order_id, draw):
        """Somebody goes on from any checkpoint of an order that has ended, with its state or an
        edited one.
        """
        picture = self.pictures[order_id]
        if picture.live:
            with pytest.raises(NothingToFork):
                services.fork(self.history(order_id)[0].pk, by=self.person, reason="now")
            return
        number, edit = draw(st.integers(0, len(picture.marks) - 1)), draw(st.integers(0, 2))
        at, mark = self.history(order_id)[number], picture.marks[number]
        state = {**store.load(at), "note": edit} if edit else None
        if mark.status == "completed":
            with pytest.raises(NothingToFork):
                services.fork(at.pk, by=self.person, reason="once more", state=state)
            return
        run = services.fork(at.pk, by=self.person, reason=f"fork {edit}", state=state)
        picture.fork(number, edit)
        picture.forks.append((number, f"fork {edit}"))
        assert not set(store.load(at).get("results", [])) & {
            key for key in moments.EFFECTS if key.startswith(run.shown_id)
        }

    def claim(self, order_id, draw):
        """A worker takes the run, and nothing is heard of it."""
        picture = self.pictures[order_id]
        assert (
            lost_worker.claim(moments.latest_run(order_id).pk, now=timezone.now()) == picture.ready
        )
        if picture.ready:
            picture.status = "running"

    def lose(self, order_id, draw):
        """A worker takes the run, and is lost with it."""
        self.claim(order_id, draw)
        moments.expire_leases()
        self.sweep(order_id, draw)
        for picture in self.pictures.values():
            if picture.status == "running":
                if picture.lost + 1 < LOST_ATTEMPTS:
                    picture.status, picture.lost = "pending", picture.lost + 1
                else:
                    picture.fail()
        for other in self.pictures:
            self.agree(other)

    def sweep(self, order_id, draw):
        """A sweep names just what is due; it takes nothing from a worker whose lease is good."""
        due = lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(0))
        assert set(due) == set(
            Run.objects.filter(status="pending", due_at__lte=timezone.now()).values_list(
                "pk", "queue"
            )
        )

    def agree(self, order_id) -> None:
        """Asked of the order that was moved, where others cannot be meant; of all at the end."""
        picture = self.pictures[order_id]
        [order] = _orders.get(order_id)
        run, head = order.latest_run, order.thread.head
        assert run is not None
        assert head is not None
        mark = picture.marks[-1]
        assert run.status == picture.status
        assert _runs.get(order_id) == [[picture.runs]]
        assert (head.status, head.node_id, head.next_step) == (mark.status, mark.node, mark.next)
        assert order.current_step == picture.at
        state = store.load(head)
        ran = Counter(key.split("/")[1] for key in state.get("results", []))
        assert ran == +picture.ran
        assert (state.get("rounds", 0), state.get("note", 0)) == (picture.rounds, picture.note)
        assert head.metadata.get("loops", {}) == dict(+picture.executed)
        assert _decided.get(order_id) == [[picture.answers]]
        assert _done.get(order_id) == [[picture.completed]]
        if picture.status in {"pending", "running"}:
            assert (run.lost_attempts, run.attempts) == (picture.lost, picture.tries)
            assert (run.suspend_by != "") == picture.suspending
        if picture.status == "pending":
            assert (run.due_at > timezone.now()) == picture.waits

    def history(self, order_id) -> list[Checkpoint]:
        """In the order of writing: one process made these ids."""
        return list(Checkpoint.objects.filter(thread__work_order=order_id).order_by("id"))

    def history_agrees(self, order_id) -> None:
        """Every checkpoint on every branch is what it was when it was written, also after forks
        from it.
        """
        picture, found = self.pictures[order_id], self.history(order_id)
        for at, mark in zip(found, picture.marks, strict=True):
            assert (at.status, at.node_id, at.next_step) == (mark.status, mark.node, mark.next)
            assert Counter(
                key.split("/")[1] for key in store.load(at).get("results", [])
            ) == Counter(mark.ran)
        forks = (
            Run.objects.filter(work_order=order_id, forked_from__isnull=False)
            .order_by("id")
            .values_list("forked_from", "reason")
        )
        assert list(forks) == [(found[number].pk, reason) for number, reason in picture.forks]


@pytest.mark.django_db
def test_the_engine_does_what_its_picture_does(templates, ana, settings, caplog):
    """P1, P3, P4, P6: submit, work, answer, suspend, cancel, retry, fork, put off, lose workers and
    sweep, in any order.
    """
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
@pytest.mark.both_databases
def test_random_flows_end_with_the_counters_that_were_told_beforehand(templates, ana, caplog):
    """P3, P4: steps that loop, ask, are sent back, fail and lose their workers; each counts exactly
    as often as it should.
    """
    moments.load()
    caplog.set_level(logging.CRITICAL)

    @settings(QUICK, max_examples=10)
    @given(flow=FLOWS, budget=st.sampled_from([0, 60]))
    def check(flow, budget):
        order_id = play(flow, budget, ana)
        state = state_of(WorkOrder.objects.get(pk=order_id))
        asked = [step.revisions if step.asks else 0 for step in flow]
        expected = {
            f"s{number}": step.loops * (1 + asked[number]) for number, step in enumerate(flow)
        }
        assert Counter(key.split("/")[1] for key in state["results"]) == expected
        assert len(set(state["results"])) == len(state["results"])
        assert Run.objects.filter(work_order=order_id).count() == 1 + sum(
            step.failures for step in flow
        )
        assert Decision.objects.filter(pause__run__work_order=order_id).count() == sum(asked) + sum(
            step.asks for step in flow
        )
        assert moments.story(order_id)["status"][0] == "completed"

    check()


def play(flow, budget, person):
    """Run a flow to its end: every person and every accident does what the plan says."""
    steps: list[dict[str, Any]] = []
    for number, planned in enumerate(flow):
        definitions.edit_step_template(
            f"flow-{planned.loops}",
            title="Flow",
            function="model.flow",
            config={"loops": planned.loops},
        )
        steps.append(
            {
                "name": f"s{number}",
                "step_type": "execute",
                "step_template_slug": f"flow-{planned.loops}",
            }
        )
        if planned.asks:
            steps[-1] |= {"pause_after": True, "pause_phase": "asking"}
    definitions.edit_template("flow", title="Flow", needs_repository=False, steps=steps)
    order = runs.submit("flow", by=person)
    losses, revisions = {"": 0}, {}  # "": a question was the last thing
    for number, planned in enumerate(flow):
        name = f"s{number}"
        moments.FAILURES[f"{order.shown_id}/{name}"] = planned.failures
        losses[name], revisions[name] = planned.losses, planned.revisions
    for _ in range(200):
        fresh = WorkOrder.objects.shown().get(pk=order.pk)
        run, head = fresh.latest_run, fresh.thread.head
        match run.status:
            case "pending" if losses[head.next_step]:
                losses[head.next_step] -= 1
                assert lost_worker.claim(run.pk, now=timezone.now())
                moments.expire_leases()
                lost_runs.take_back(now=timezone.now())
            case "pending":
                advance(run.pk, budget=budget)
            case "paused":
                action = "revise" if revisions[head.node_id] else "approve"
                revisions[head.node_id] -= action == "revise"
                services.answer_order(
                    order.pk, Answer(action, Via.REST, feedback="again"), by=person
                )
            case "failed":
                runs.retry(order.pk, by=person)
            case status:
                assert status == "completed"
                return order.pk
    raise AssertionError("the flow does not end")
