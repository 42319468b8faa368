"""A run that waits for child runs, against a plain picture of the whole family: whoever works
first, asks, fails, is lost or cancelled.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from checkpoints import ids, store
from checkpoints.models import Checkpoint
from checkpoints.store.prepared_queries import Prepared, PreparedCount
from hitl.decisions import services
from hitl.decisions.services import Answer, AnswerInvalid
from hitl.models import Decision, Via
from runs import definitions
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run, WorkOrder
from runs.services import PauseClosed
from runs.services.forks import NothingToFork
from runs.states import RunEnded
from runs.workflows.base import Child, Context, Gather, Go, Outcome, Report, State, StepFailed
from runs.workflows.registry import step
from tests.killed import moments
from tests.runs.model.speed import QUICK
from tests.worlds import lost_worker
from tests.worlds.histories.whole_story import broken

LOST_ATTEMPTS = 3
LIVE = {"pending", "running", "paused"}
KIDS = {"asks": "ask", "fails": "flaky", "works": "toil"}
"""Child → its only step."""
MEANWHILE: list[Callable[[], None]] = []
"""What happens while the next step is at work."""


def did(context: Context) -> dict[str, Any]:
    while MEANWHILE:
        MEANWHILE.pop()()
    return {"results": [context.key]}


@step("kin.work")
def work(state: State, context: Context) -> Outcome:
    return Go(update=did(context), report=Report(content=context.key))


@step("kin.flaky")
def flaky(state: State, context: Context) -> Outcome:
    update = did(context)
    if moments.FAILURES[context.order.id]:
        moments.FAILURES[context.order.id] -= 1
        raise StepFailed("Not yet.", code="not_yet")
    return Go(update=update)


@step("kin.toil")
def toil(state: State, context: Context) -> Outcome:
    """Twice."""
    return Go(update=did(context), to=context.step if context.loop_num == 1 else None)


@step("kin.crew")
def crew(state: State, context: Context) -> Outcome:
    children = [Child(name=name, steps=[step]) for name, step in KIDS.items()]
    policy = context.order.input["on_failure"]
    return Gather(
        children=children,
        update=did(context),
        on_failure="collect" if policy == "collect" else "fail_fast",
    )


def load() -> None:
    """plan → crew (three children: one asks, one fails at will, one takes two steps) → finish."""
    moments.load()
    for name in ("work", "flaky", "toil"):
        definitions.edit_step_template(f"kin-{name}", title=name, function=f"kin.{name}", config={})
    act: dict[str, Any] = {"step_type": "execute", "step_template_slug": "kin-work"}
    ask = {**act, "name": "ask", "pause_after": True, "pause_phase": "asking", "max_revisions": 1}
    subs = [
        ask,
        {**act, "name": "flaky", "step_template_slug": "kin-flaky"},
        {**act, "name": "toil", "step_template_slug": "kin-toil"},
    ]
    definitions.edit_step_template(
        "kin-crew", title="Crew", function="kin.crew", config={}, sub_steps=subs
    )
    steps = [
        {**act, "name": "plan"},
        {**act, "name": "crew", "step_template_slug": "kin-crew"},
        {**act, "name": "finish"},
    ]
    definitions.edit_template(
        "kin", title="Kin", needs_repository=False, steps=steps, reducers={"results": "append"}
    )


@dataclass
class One:
    """A run, as one would play it on paper."""

    at: str
    """The step it is at; `join` once children have been started."""
    pk: uuid.UUID | None = None
    status: str = "pending"
    lost: int = 0
    ran: list[str] = field(default_factory=list)
    """The steps whose results it holds, with those that it started from."""

    @property
    def live(self) -> bool:
        return self.status in LIVE


@dataclass
class Kid(One):
    base: int = 0
    """How many results it started from."""
    revision: int = 0
    answered: bool = False
    cut: bool = False
    """It was ended with its parent."""
    asking: bool = False
    """It had an open question then."""


@dataclass(frozen=True)
class Mark:
    """A checkpoint of the order's own thread, and what a fork from it starts with."""

    status: str
    at: str
    ran: tuple[str, ...]


@dataclass
class Family:
    on_failure: str
    failures: int
    top: One = field(default_factory=lambda: One("plan"))
    kids: dict[str, Kid] = field(default_factory=dict)
    awaited: int = 0
    again: bool = False
    """Children that did not complete are taken up before the join."""
    tops: int = 1
    decisions: int = 0
    marks: list[Mark] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mark("active")

    def mark(self, status: str) -> None:
        self.marks.append(Mark(status, self.top.at.replace("join", "crew"), tuple(self.top.ran)))

    @property
    def members(self) -> list[One]:
        return [self.top, *self.kids.values()]

    def work(self, one: One) -> None:
        """A worker takes one step of a run that is due."""
        one.lost = 0
        if isinstance(one, Kid):
            self.work_kid(one)
        elif one.at == "join":
            self.join()
        else:
            one.ran.append(one.at)
            if one.at == "crew":
                one.at = "join"
                self.kids = {
                    name: Kid(step, ran=list(one.ran), base=len(one.ran))
                    for name, step in KIDS.items()
                }
                self.wait()
            elif one.at == "plan":
                one.at = "crew"
                self.mark("active")
            else:
                one.status = "completed"
                self.mark("completed")

    def wait(self) -> None:
        self.top.status = "paused"
        self.awaited = sum(kid.status != "completed" for kid in self.kids.values())
        self.mark("active")

    def join(self) -> None:
        kids = self.kids.values()
        if self.again:
            self.again = False
            if any(kid.status != "completed" for kid in kids):
                for kid in kids:
                    self.take_up(kid)
                return self.wait()
        if self.on_failure == "fail_fast" and any(
            kid.status != "completed" and not kid.live and not kid.cut for kid in kids
        ):
            return self.fail(self.top)
        for kid in kids:
            self.top.ran += kid.ran[kid.base :] if kid.status == "completed" else []
        self.top.at = "finish"
        return self.mark("active")

    def take_up(self, kid: Kid) -> None:
        if kid.status == "completed":
            return
        kid.status, kid.lost = "paused" if kid.cut and kid.asking else "pending", 0
        if kid.status == "pending":
            kid.revision = 0  # another run, which counts anew
        if not kid.cut:  # it failed, or a person cancelled it: its step is done again
            kid.answered = False
        kid.cut = kid.asking = False

    def work_kid(self, kid: Kid) -> None:
        if kid.answered:
            return self.end(kid, "completed")
        if kid.at == "flaky" and self.failures:
            self.failures -= 1
            return self.end(kid, "failed")
        kid.ran.append(kid.at)
        if kid.at == "ask":
            kid.status, kid.revision = "paused", kid.revision + 1
        elif kid.at != "toil" or kid.ran.count("toil") == 2:
            self.end(kid, "completed")
        return None

    def end(self, kid: Kid, status: str) -> None:
        kid.status = status
        if self.top.status == "paused":
            self.awaited -= 1
            if not self.awaited or (status != "completed" and self.on_failure == "fail_fast"):
                self.top.status, self.awaited = "pending", 0

    def fail(self, one: One) -> None:
        if isinstance(one, Kid):
            return self.end(one, "failed")
        self.top.status = "failed"
        self.cut()
        return self.mark("failed")

    def cut(self) -> None:
        """What still lives for the run ends with it."""
        self.awaited = 0
        for kid in self.kids.values():
            if kid.live:
                kid.asking, kid.cut, kid.status = kid.status == "paused", True, "cancelled"

    def lose(self, one: One) -> None:
        one.lost += 1
        one.status = "pending"
        if one.lost >= LOST_ATTEMPTS:
            self.fail(one)

    def answer(self, kid: Kid, action: str) -> None:
        self.decisions += 1
        if action == "cancel":
            self.end(kid, "cancelled")
        else:
            kid.status, kid.answered = "pending", action == "approve"

    def cancel(self) -> None:
        self.top.status = "cancelled"
        self.cut()
        self.mark("cancelled")

    def begin(self) -> None:
        self.top.status, self.top.lost, self.tops = "pending", 0, self.tops + 1
        self.mark("active")


MOVES = [
    "work",
    "work",
    "work",
    "work_on",
    "answer",
    "answer",
    "interrupted",
    "cancel",
    "retry",
    "retry",
    "fork",
    "lose",
    "lose_for_good",
]


# asked after each move
_orders = Prepared(
    lambda key: WorkOrder.objects.select_related("thread__head").filter(pk=key), uuid.UUID
)
_runs = Prepared(
    lambda key: Run.objects.select_related("thread__head").filter(work_order=key), uuid.UUID
)
_asked = PreparedCount(
    lambda key: Pause.objects.open().filter(run__work_order=key).values_list("pk"), uuid.UUID
)
_decided = PreparedCount(
    lambda key: Decision.objects.filter(pause__run__work_order=key).values_list("pk"), uuid.UUID
)


class Engine(RuleBasedStateMachine):
    person: ClassVar[User]

    def __init__(self) -> None:
        super().__init__()
        self.families: dict[uuid.UUID, Family] = {}
        self.undone = transaction.atomic()
        # durable blocks may lie inside
        self.undone._from_testcase = True  # type: ignore[attr-defined]  # as Django's TestCase
        self.undone.__enter__()

    def teardown(self) -> None:
        try:
            assert broken(deep=False) == {}
            for order_id, family in self.families.items():
                written = Checkpoint.objects.filter(thread__work_order=order_id).order_by("id")
                found = [(at.status, tuple(steps_of(at))) for at in written]
                assert found == [(mark.status, mark.ran) for mark in family.marks]
        finally:
            MEANWHILE.clear()
            transaction.set_rollback(True)
            self.undone.__exit__(None, None, None)

    @initialize(
        on_failure=st.sampled_from(["fail_fast", "fail_fast", "collect"]),
        failures=st.integers(0, 2),
    )
    def submit(self, on_failure, failures):
        order = runs.submit("kin", by=self.person, input={"on_failure": on_failure})
        moments.FAILURES[order.shown_id] = failures
        self.families[order.pk] = Family(on_failure, failures)
        self.look_up(order.pk)

    @rule(move=st.sampled_from(MOVES), data=st.data())
    def move(self, move, data):
        """One rule for all moves: of several, Hypothesis switches some off in each example, and
        families get nowhere.
        """
        ((order_id, family),) = self.families.items()
        getattr(self, move)(order_id, family, data.draw)
        self.look_up(order_id)

    def look_up(self, order_id) -> None:
        """Which rows the runs of the picture are."""
        family, [order] = self.families[order_id], _orders.get(order_id)
        family.top.pk = order.latest_run_id
        for child in order.thread.head.metadata.get("gather", {}).get("children", []):
            family.kids[child["name"]].pk = ids.parse("run", child["run_id"])

    def due(self, family) -> list[One]:
        return [member for member in family.members if member.status == "pending"]

    def work(self, order_id, family, draw, budget=0) -> None:
        """A worker takes a step of any run; told of one that is not due, it does nothing.

        Who is due now is told to others.
        """
        one = draw(st.sampled_from(self.due(family) or family.members))
        before = {id(other) for other in self.due(family)} - {id(one)}
        was_due = one.status == "pending"
        wake = advance(one.pk, budget=budget)
        if was_due:
            family.work(one)
            while budget and one.status == "pending":
                family.work(one)
        self.look_up(order_id)
        told = (
            {other.pk for other in self.due(family) if id(other) not in before}
            if was_due
            else set()
        )
        assert {run_id for run_id, _ in wake} == told

    def work_on(self, order_id, family, draw) -> None:
        self.work(order_id, family, draw, budget=60)

    def answer(self, order_id, family, draw, action="") -> None:
        kid = family.kids.get("asks")
        pause = Pause.objects.filter(run=kid.pk if kid else None).order_by("id").last()
        if kid is None or pause is None:
            return
        action = action or draw(st.sampled_from(["approve", "approve", "revise", "cancel"]))

        def give():
            services.decide(pause.pk, Answer(action, Via.REST, feedback="shorter"), by=self.person)

        if kid.status != "paused":
            with pytest.raises(PauseClosed):
                give()
        elif action == "revise" and kid.revision > 1:
            with pytest.raises(AnswerInvalid):
                give()
        else:
            assert pause.revision == kid.revision
            give()
            family.answer(kid, action)

    def cancel(self, order_id, family, draw) -> None:
        if not family.top.live:
            with pytest.raises(RunEnded):
                services.cancel_order(order_id, by=self.person, via=Via.REST)
            return
        services.cancel_order(order_id, by=self.person, via=Via.REST)
        family.cancel()

    def interrupted(self, order_id, family, draw) -> None:
        """While a step is at work, a person cancels the order or the child that asks, or the sweep
        takes its run for lost.
        """
        at_work = [
            one
            for one in self.due(family)
            if one.at != "join" and not (isinstance(one, Kid) and one.answered)
        ]
        if not at_work:
            return
        one, what = (
            draw(st.sampled_from(at_work)),
            draw(st.sampled_from(["cancel", "cancel a child", "lose"])),
        )

        def meanwhile():
            one.status = "running"
            if what == "cancel":
                self.cancel(order_id, family, draw)
            elif what == "cancel a child":
                self.answer(order_id, family, draw, action="cancel")
            else:
                moments.expire_leases()
                lost_runs.take_back(now=timezone.now())
                family.lose(one)

        MEANWHILE.append(meanwhile)
        advance(one.pk, budget=0)
        assert MEANWHILE == []
        if one.status == "running":
            one.status = "pending"
            family.work(one)
        elif one.at == "flaky" and family.failures:
            family.failures -= 1  # its step failed, and nobody heard of it

    def retry(self, order_id, family, draw) -> None:
        if family.top.status != "failed":
            with pytest.raises(RunEnded):
                runs.retry(order_id, by=self.person)
            return
        runs.retry(order_id, by=self.person)
        family.again = family.top.at == "join"
        family.begin()

    def fork(self, order_id, family, draw) -> None:
        """From any checkpoint of the order, or of a child, which is refused."""
        written = list(Checkpoint.objects.filter(thread__work_order=order_id).order_by("id"))
        number = draw(st.integers(0, len(written) - 1))
        mark = family.marks[number]
        if family.top.live or mark.status == "completed":
            with pytest.raises(NothingToFork):
                services.fork(written[number].pk, by=self.person, reason="anew")
            return
        for child in Checkpoint.objects.filter(run_id__in=[kid.pk for kid in family.kids.values()])[
            :1
        ]:
            with pytest.raises(NothingToFork):
                services.fork(child.pk, by=self.person, reason="anew")
        services.fork(written[number].pk, by=self.person, reason="anew")
        family.top = One(mark.at, ran=list(mark.ran))
        family.kids, family.again = {}, False
        family.begin()

    def lose(self, order_id, family, draw, times=1) -> None:
        """A worker takes a run and is lost with it."""
        due = self.due(family)
        one = draw(st.sampled_from(due)) if due else None
        for _ in range(times):
            if one is None or one.status != "pending":
                return
            assert lost_worker.claim(one.pk, now=timezone.now())
            moments.expire_leases()
            wake = lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(hours=1))
            family.lose(one)
            assert {run_id for run_id, _ in wake} <= {other.pk for other in self.due(family)}

    def lose_for_good(self, order_id, family, draw) -> None:
        self.lose(order_id, family, draw, times=LOST_ATTEMPTS)

    @invariant()
    def pictures_agree(self) -> None:
        for order_id, family in self.families.items():
            [order] = _orders.get(order_id)
            rows: dict[uuid.UUID | None, Run] = {row.pk: row for row in _runs.get(order_id)}
            for name, one in [("the order", family.top), *family.kids.items()]:
                row = rows[one.pk]
                assert (name, row.status, row.lost_attempts if one.live else 0) == (
                    name,
                    one.status,
                    one.lost if one.live else 0,
                )
                assert (name, steps_of(row.thread.head)) == (name, one.ran)
            assert rows[order.latest_run_id].awaited == family.awaited
            assert sum(row.parent_id is None for row in rows.values()) == family.tops
            assert sum(row.status in LIVE for row in rows.values()) == sum(
                member.live for member in family.members
            )
            asking = sum(kid.status == "paused" for kid in family.kids.values())
            assert (_asked.get(order_id), _decided.get(order_id)) == (
                [[asking]],
                [[family.decisions]],
            )


def steps_of(checkpoint) -> list[str]:
    """The steps whose results a state holds; each once."""
    keys = store.load(checkpoint).get("results", [])
    assert len(set(keys)) == len(keys), keys
    return [key.split("/")[1] for key in keys]


@pytest.mark.django_db
@pytest.mark.one_database
def test_a_family_of_runs_does_what_its_picture_does(templates, ana, settings, caplog):
    """P1, P3-P6, F23, S4-5: gather, ask, answer, fail, join, cancel, retry, fork, lose workers, in
    any order and in the middle of steps.
    """
    settings.WAYSTATION_LOST_ATTEMPTS = LOST_ATTEMPTS
    load()
    Engine.person = ana
    caplog.set_level(logging.CRITICAL)
    run_state_machine_as_test(Engine, settings=QUICK)
