"""Dying at a chosen moment, coming back as production does, and steps whose effects can be counted.

A moment is the start of any statement, the end of one that commits itself, and either side of a
COMMIT. Moments are numbered as they come, so a test that goes 1, 2, 3 … until an operation gets
through has met all of them. Most of them leave the same behind; `statements=False` goes through
those that do not (tests/runs/accidents/test_moments.py).
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.backends.signals import connection_created
from django.utils import timezone

from checkpoints import store
from checkpoints.models import Checkpoint, Event, EventKind, Thread
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions import services
from hitl.decisions.services import AlreadyAnswered, Answer
from hitl.models import Decision, Ledger, Via
from runs import definitions
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.engine.workers.shutdown import ProcessEnds
from runs.models import Pause, Run, WorkOrder
from runs.services.forks import NothingToFork
from runs.states import ENDED, FAILED, PAUSED, PENDING, RUNNING, RunEnded
from runs.workflows.base import Context, Done, Go, Outcome, Report, State, StepFailed
from runs.workflows.registry import step

LONG_AGO = dt.timedelta(hours=1)
LOST = "was lost; another one takes over."


class Killed(ProcessEnds):
    """The process ends here. No `except Exception` sees it."""


def leave() -> None:
    """The end of a real process, for `killing` in a child: no rollback, no finally, nothing."""
    os._exit(9)


class Moments:
    def __init__(
        self, kill_at: int, die: Callable[[], None] | None, *, statements: bool = True
    ) -> None:
        self.kill_at, self.die, self.statements = kill_at, die, statements
        self.count = 0
        self.dead = False
        self.done_outside = outside()

    def tick(self) -> None:
        self.count += 1
        if self.dead or self.count == self.kill_at:
            if self.die:
                self.die()
            self.dead = True  # whatever a `finally` still sends is not sent by a dead process
            raise Killed

    def around(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        done, self.done_outside = self.done_outside, outside()
        keeps_nothing = connection.in_atomic_block or sql.startswith(("SELECT", "BEGIN"))
        if keeps_nothing and not self.statements:
            if done != self.done_outside:
                self.tick()
            return execute(sql, params, many, context)
        self.tick()
        result = execute(sql, params, many, context)
        if not connection.in_atomic_block and not sql.startswith("BEGIN"):
            self.tick()
        return result

    def watch(self, backend: Any) -> None:
        """Let the commits of a connection be moments."""
        commit, rollback = backend._commit, backend._rollback

        def dying_commit() -> None:
            try:
                self.tick()
            except Killed:
                rollback()
                raise
            commit()
            self.tick()

        backend._commit = dying_commit


@contextmanager
def killing(
    kill_at: int = 0, die: Callable[[], None] | None = None, *, statements: bool = True
) -> Iterator[Moments]:
    """Die at that moment of this block (0: never, only count).

    In the test's own process a death is `Killed` and a rollback.

    Without `statements` moments are those that leave different things behind: the two sides of each
    commit, and the first statement after something was done outside.

    A step with a time limit, in a thread and with a connection of its own, dies alike. The
    heartbeat is left out: it comes when it likes.
    """
    moments = Moments(kill_at, die, statements=statements)
    backend: Any = connection

    def watch(sender: Any, connection: Any, **_: Any) -> None:
        if threading.current_thread().name.startswith("step "):
            connection.execute_wrappers.append(moments.around)
            moments.watch(connection)

    connection_created.connect(watch)
    moments.watch(backend)
    try:
        with connection.execute_wrapper(moments.around):
            yield moments
    except Killed:
        connection.run_on_commit.clear()  # a dead process sends nothing afterwards
        connection.rollback()  # all that its end does here: the product locks nothing else
    finally:
        connection_created.disconnect(watch)
        del backend._commit  # the class's own is there again


EFFECTS: Counter[str] = Counter()
"""key → how often the effect was asked for.

A service that honours keys does each once, however often it is asked.
"""
FAILURES: Counter[str] = Counter()
"""`<order>/<step>` → how often it still has to fail."""
CHARGES: Counter[str] = Counter()
"""key → how often a function given to `context.once` was called."""


def outside() -> tuple[int, int, int]:
    """How much was done outside."""
    return EFFECTS.total(), CHARGES.total(), FAILURES.total()


def effect(state: State, context: Context) -> dict[str, Any]:
    """Do something outside under this attempt's key, and give the state that records its result."""
    EFFECTS[context.key] += 1
    return {"results": [*state.get("results", []), context.key], "said": state["revision_feedback"]}


@step("model.work")
def work(state: State, context: Context) -> Outcome:
    context.log(f"working on {context.step}")
    return Go(
        update=effect(state, context), report=Report(content=f"{context.step} {context.loop_num}")
    )


@step("model.fail")
def fail(state: State, context: Context) -> Outcome:
    """Fails as often as FAILURES says."""
    place = f"{context.order.id}/{context.step}"
    if FAILURES[place]:
        FAILURES[place] -= 1
        raise StepFailed("Not yet.", code="not_yet")
    return Go(update=effect(state, context))


@step("model.branch")
def branch(state: State, context: Context) -> Outcome:
    return Go(update=effect(state, context), to=context.order.input["branch"])


@step("model.loop")
def loop(state: State, context: Context) -> Outcome:
    """Goes to itself until it has run `loops` times since somebody else's step."""
    rounds = state.get("rounds", 0) + 1
    times = int(context.order.input["loops"])
    if rounds < times:
        return Go(update={**effect(state, context), "rounds": rounds}, to=context.step)
    return Go(
        update={**effect(state, context), "rounds": 0}, report=Report(content=f"{times} rounds")
    )


@step("model.flow")
def flow(state: State, context: Context) -> Outcome:
    """Fails as often as FAILURES says, then goes to itself until it has run `loops` times."""
    outcome = fail(state, context)
    assert isinstance(outcome, Go)
    rounds = state.get("rounds", 0) + 1
    again = rounds < int(str(context.config["loops"]))
    return replace(
        outcome,
        update={**outcome.update, "rounds": rounds if again else 0},
        to=context.step if again else None,
    )


@step("model.end")
def end(state: State, context: Context) -> Outcome:
    return Done(update=effect(state, context))


@step("model.charge")
def charge(state: State, context: Context) -> Outcome:
    """Charges once, fails as often as FAILURES says after that, and keeps the receipt."""

    def pay() -> int:
        CHARGES[context.key] += 1
        return CHARGES[context.key]

    receipt = context.once("charge", pay, optional=True)
    outcome = fail(state, context)
    assert isinstance(outcome, Go)
    return replace(outcome, update={**outcome.update, "receipt": receipt})


@step("model.slow")
def slow(state: State, context: Context) -> Outcome:
    """Works past its time as often as FAILURES says."""
    place = f"{context.order.id}/{context.step}"
    if FAILURES[place]:
        FAILURES[place] -= 1
        while True:
            context.check()
    context.log("in time")
    return Go(update=effect(state, context))


@step("model.freeze")
def freeze(state: State, context: Context) -> Outcome:
    """Stops its process in the middle, until somebody continues it."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return Go(update={**effect(state, context), "process": os.getpid()})


def load() -> None:
    """Templates for crashing: `crash` pauses after its first step, `crash-straight` nowhere,
    `frozen` stops its worker.

    The others are named for what their step `do` does: it fails and is not tried again; it records
    a charge and is tried again; it is passed over; it has a time limit of next to nothing, or of an
    hour.
    """
    EFFECTS.clear()
    FAILURES.clear()
    CHARGES.clear()
    for name in ("work", "fail", "branch", "loop", "end", "charge", "slow", "freeze"):
        definitions.edit_step_template(
            f"model-{name}", title=name.capitalize(), function=f"model.{name}", config={}
        )
    ask = {
        "step_type": "planning",
        "name": "plan",
        "step_template_slug": "model-work",
        "pause_after": True,
        "pause_phase": "asking",
    }
    finish = {"step_type": "deliver", "name": "finish", "step_template_slug": "model-end"}

    def template(slug: str, *steps: dict[str, Any]) -> None:
        definitions.edit_template(slug, title=slug, needs_repository=False, steps=list(steps))

    template(
        "crash",
        ask,
        {"step_type": "execute", "name": "do", "step_template_slug": "model-work"},
        finish,
    )

    def do(kind: str, **policy: Any) -> dict[str, Any]:
        return {
            "step_type": "execute",
            "name": "do",
            "step_template_slug": f"model-{kind}",
            **policy,
        }

    draft = {"step_type": "planning", "name": "draft", "step_template_slug": "model-work"}
    template("crash-straight", draft, do("work"), finish)
    template("crash-failing", do("fail"), finish)
    template("crash-charge", do("charge", retry={"attempts": 2, "base": 60}), finish)
    template("crash-skip", draft, do("work", skip_when={"required": ["results"]}), finish)
    template("crash-slow", do("slow", timeout=0.02), finish)
    template("crash-timed", do("slow", timeout=3600), finish)
    template("frozen", do("freeze"), finish)


def expire_leases() -> None:
    """Time passes, and no heart beats: who held them is another one, since this process lives, and
    its heart may be about to renew what it looked up before.
    """
    past = timezone.now() - LONG_AGO
    Run.objects.filter(status=RUNNING).update(lease_until=past, lease_owner="somebody:dead")


def let_retries_come_due() -> None:
    """Time passes for runs that wait for their next try."""
    Run.objects.filter(status=PENDING).update(due_at=timezone.now() - LONG_AGO)


def work_off() -> None:
    """Sweep, and workers for what it names, until nothing is left to do."""
    expire_leases()
    while due := _due_in_order():
        let_retries_come_due()
        for run_id in due:
            while advance(run_id, budget=60):
                pass


_at_work = Prepared(lambda: Run.objects.filter(status=RUNNING).only("pk"))
_due = Prepared(
    lambda now, patience: (
        Run.objects.overdue(before=patience) | Run.objects.gathers_due(now=now)
    ).only("due_at", "epoch"),
    dt.datetime,
    dt.datetime,
)


def _due_in_order() -> list[uuid.UUID]:
    """What a sweep would name (tests/runs/accidents/test_recovery.py). Lost runs first, then the
    longest due: which of a family goes first is no part of a story, and must not depend on who
    died.
    """
    now = timezone.now()
    lost = {run.pk for run in _at_work.get()}
    if lost:
        lost_runs.take_back(now=now)
    due = _due.get(now, now + LONG_AGO)
    due.sort(key=lambda run: (run.pk not in lost, run.due_at, run.epoch == 0, run.pk))
    return [run.pk for run in due]


def latest_run(order_id: uuid.UUID) -> Run:
    return Run.objects.select_related("work_order").get(
        pk=WorkOrder.objects.values_list("latest_run", flat=True).get(pk=order_id)
    )


def finish_order(order_id: uuid.UUID, by: User) -> None:
    """Everybody does their part until the order ends: workers work, and a person approves what is
    asked and retries what failed.
    """
    for _ in range(20):
        work_off()
        run = latest_run(order_id)
        if run.status == PAUSED:
            services.decide(
                Pause.objects.open().get(run=run).pk, Answer("approve", Via.REST), by=by
            )
        elif run.status == FAILED:
            runs.retry(order_id, by=by)
        elif run.status in ENDED:
            return
    raise AssertionError(f"{order_id} does not end; it is {run.status}")


def insist(operation: Callable[[], object]) -> None:
    """A person whose answer was not acknowledged gives it again, and is content to read that it was
    taken.
    """
    with suppress(AlreadyAnswered, RunEnded, NothingToFork):
        operation()


def story(order_id: uuid.UUID) -> dict[str, Any]:
    """All that a person could tell about an order, without ids, times and log lines.

    Also checks what holds at any moment.
    """
    order = WorkOrder.objects.shown().get(pk=order_id)
    its_runs = list(Run.objects.filter(work_order=order).order_by("created_at", "pk"))
    names = {run.shown_id: f"run {number}" for number, run in enumerate(its_runs, start=1)}

    def nameless(keys: list[str]) -> list[str]:
        return [names[key.split("/")[0]] + key[key.index("/") :] for key in keys]

    head = order.thread.head
    assert head is not None
    state = store.load(head)
    written = history(order)
    results = state.get("results", [])
    assert len(results) == len(set(results)), "a result was recorded twice"
    assert set(results) <= set(EFFECTS) or not EFFECTS, "a result without its effect"
    done = [key for key in EFFECTS if key.split("/")[0] in names]
    return {
        "status": (order.status, order.phase, order.current_step),
        "runs": [(run.status, run.failure_code, run.error) for run in its_runs],
        "state": {**state, "results": nameless(results)},
        "effects": sorted(nameless(done)),
        "checkpoints": [told(at) for at in check_thread(order, written)],
        "left behind": sorted(
            [told(at) for at in chain_to(leaf)] for leaf in leaves(written) if leaf.pk != head.pk
        ),
        "pauses": list(
            Pause.objects.filter(run__work_order=order)
            .order_by("opened_at", "pk")
            .values_list("step", "revision", "status", "content")
        ),
        "decisions": list(
            Decision.objects.filter(pause__run__work_order=order)
            .order_by("position")
            .values_list("action", "feedback", "decided_by__username", "revision")
        ),
        "events": facts(order.thread_id),
    }


def facts(thread_id: uuid.UUID) -> list[tuple[str, str]]:
    """The thread's events as (kind, step), without log lines.

    A step begun again by the next worker is told once.
    """
    found: list[tuple[str, str]] = []
    for event in Event.objects.filter(thread=thread_id).exclude(kind=EventKind.LOG).order_by("seq"):
        fact = (str(event.kind), str(event.data.get("step", "")))
        if found and fact == found[-1] and event.kind == EventKind.STEP_STARTED:
            continue
        found.append(fact)
    return found


def told(at: Checkpoint) -> tuple[Any, ...]:
    return at.status, at.node_id, at.next_step, at.loop_num, at.completed_nodes, at.total_nodes


def chain_to(leaf: Checkpoint | None) -> list[Checkpoint]:
    """From the first checkpoint on: ids of several processes tell no order."""
    chain: list[Checkpoint] = []
    while leaf is not None:
        chain.insert(0, leaf)
        leaf = leaf.parent
    return chain


def history(order: WorkOrder) -> list[Checkpoint]:
    """All checkpoints of an order's thread, each with its parent."""
    written = Checkpoint.objects.filter(thread=order.thread_id).in_bulk()
    for at in written.values():
        if at.parent_id in written:
            at.parent = written[at.parent_id]
    return list(written.values())


def leaves(written: list[Checkpoint]) -> list[Checkpoint]:
    followed = {at.parent_id for at in written}
    return [at for at in written if at.pk not in followed]


def check_thread(order: WorkOrder, written: list[Checkpoint] | None = None) -> list[Checkpoint]:
    """What holds for every order at every moment: a log without gaps, a chain of checkpoints, one
    answer per answered pause.

    The history branches where somebody forked, and nowhere else. Returns the chain that ends in the
    head. `written` is its `history`, where that is known.
    """
    written = history(order) if written is None else written
    seqs = list(
        Event.objects.filter(thread=order.thread_id).order_by("seq").values_list("seq", flat=True)
    )
    assert seqs == list(range(1, Thread.objects.get(pk=order.thread_id).last_seq + 1)), seqs
    heads = [at for at in leaves(written) if at == order.thread.head]
    assert heads, "a history that goes on behind the head"
    its_runs = list(Run.objects.filter(work_order=order))
    forks: Counter[uuid.UUID | None] = Counter(
        run.forked_from_id for run in its_runs if run.forked_from_id
    )
    children: Counter[uuid.UUID | None] = Counter(at.parent_id for at in written)
    assert all(count <= 1 + forks[parent] for parent, count in children.items()), (
        "a branch that nobody made"
    )
    for run in its_runs:
        first = [
            at
            for at in written
            if at.run_id == run.pk and (not at.parent or at.parent.run_id != run.pk)
        ]
        assert len(first) == 1, "a run that begins twice, or never"
        assert run.forked_from_id in {None, first[0].parent_id}, "a fork from elsewhere"
    pauses = list(Pause.objects.filter(run__work_order=order).prefetch_related("decisions"))
    for pause in pauses:
        assert len(pause.decisions.all()) == (pause.status != "open"), pause.status
    live = [run for run in its_runs if run.status not in ENDED]
    assert len(live) <= 1
    assert sum(pause.status == "open" for pause in pauses) == sum(
        run.status == PAUSED for run in live
    )
    return chain_to(heads[0])


def check_ledgers() -> None:
    """Each ledger's decisions are chained without a gap up to its tip."""
    for ledger in Ledger.objects.all():
        tip = ""
        decisions = list(Decision.objects.filter(ledger=ledger).order_by("position"))
        assert [decision.position for decision in decisions] == list(range(1, ledger.length + 1))
        for decision in decisions:
            assert (decision.previous, decision.digest) == (tip, decision.compute_digest())
            tip = decision.digest
        assert ledger.tip == tip


WARNINGS = (
    "error,ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning:"
    "langsmith._internal._beta_decorator"  # from Python 3.14 on, where a graph is imported
)


def child_environment(**more: str) -> dict[str, str]:
    """Environment of a child process that works on the database of this test."""
    parts = connection.settings_dict
    name = parts["NAME"]
    url = (
        f"sqlite:///{name}"
        if connection.vendor == "sqlite"
        else f"postgresql://{parts['USER']}@/{name}?host={parts['HOST']}"
    )
    return {
        **os.environ,
        "DATABASE_URL": url,
        "REDIS_URL": "",
        "PYTHONWARNINGS": WARNINGS,
        "WAYSTATION_MODEL_ALLOW": "127.0.0.1",
        **more,
    }


def die_in_turn(operation: str, ids: list[str]) -> None:
    """In a child: do an operation on each order in a process of its own, the n-th of which ends at
    its n-th moment; print exit codes.
    """
    for each in ids:
        # as a worker that has been at work for a while has read it
        assert latest_run(uuid.UUID(each)).frozen
    connection.close()
    codes = []
    for number, each in enumerate(ids, start=1):
        pid = os.fork()
        if not pid:
            with killing(number, die=leave):
                OPERATIONS[operation](uuid.UUID(each))
            os._exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        if codes[-1] != 9:
            break
    print(*codes)


def advance_order(order_id: uuid.UUID) -> None:
    while advance(latest_run(order_id).pk, budget=60):
        pass


def approve_order(order_id: uuid.UUID) -> None:
    services.answer_order(
        order_id, Answer("approve", Via.REST), by=User.objects.get(username="ben")
    )


OPERATIONS: dict[str, Callable[[uuid.UUID], None]] = {
    "advance": advance_order,
    "approve": approve_order,
}


def make(
    template: str,
    *,
    by: User,
    team: Group | None,
    title: str = "",
    input: dict[str, Any] | None = None,
    **stops: Any,
) -> WorkOrder:
    return runs.submit(template, by=by, team=team, title=title, input=input or {}, **stops)
