"""How often checkpoints are written, by the template (S0-65): what is kept, what runs again after a
crash, and that the end is the same.
"""

from __future__ import annotations

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import store
from checkpoints.models import Checkpoint, Memo
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.engine.start import NothingKept
from runs.models import WorkOrder
from runs.models.frequency import PROMISES, Frequency
from runs.services import resubmit
from runs.services.forks import NothingToFork
from runs.workflows.base import Ask, Commit, Go, Report, StepFailed
from tests.conftest import drive, fresh, kinds, pause_of
from tests.killed import moments
from tests.runs.accidents.deaths import every_death
from tests.worlds import steps
from tests.worlds.histories.whole_story import broken
from tests.worlds.scripted_step import DOES, state_of
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db(transaction=True)

PLAN = {"step_type": "planning", "step_template_slug": "test-plan"}
SPARSE = [Frequency.LOOPS, Frequency.FAILURE]
"""Where nothing loops, LOOPS keeps what FAILURE does: most here is asked of that one."""
EACH = [Frequency.STEP, Frequency.NODES, *SPARSE]


def use(template, frequency):
    definitions.edit_template(template, frequency=frequency)


def nodes(order):
    """node and next step of each checkpoint."""
    found = Checkpoint.objects.filter(thread=order.thread_id).order_by("pk")
    return [(checkpoint.node_id, checkpoint.next_step, checkpoint.status) for checkpoint in found]


def head_of(order):
    head = fresh(order).thread.head
    assert head is not None
    return head


@pytest.fixture
def crash_templates(templates):
    moments.load()


def looping(times):
    return lambda state, context: Go(
        update={"n": context.loop_num}, to="execute" if context.loop_num < times else None
    )


@pytest.mark.parametrize(
    ("frequency", "between"),
    [
        (Frequency.STEP, ["planning", "execute", "review"]),
        (Frequency.NODES, ["planning", "execute", "review"]),
        (Frequency.OFF, []),
        (Frequency.LOOPS, []),
        (Frequency.FAILURE, []),
    ],
)
def test_a_straight_run_keeps_what_its_template_says_and_its_end_always(
    make_order, templates, frequency, between
):
    use("writing-quick", frequency)
    order = drive(make_order("writing-quick"))
    assert [node for node, _, _ in nodes(order)] == ["", *between, "finish"]
    assert order.status == "completed"
    assert state_of(order)["worked"] == 1 and state_of(order)["checked"], (
        "what steps in between did is in the end"
    )
    assert kinds(order).count("step_completed") == 4
    assert kinds(order).count("checkpoint_created") == 2 + len(between)
    assert broken() == {}


@pytest.mark.parametrize(
    ("frequency", "rounds"),
    [
        (Frequency.STEP, 4),
        (Frequency.NODES, 1),
        (Frequency.LOOPS, 4),
        (Frequency.FAILURE, 0),
        (Frequency.OFF, 0),
    ],
)
def test_loops_are_kept_with_the_policy_that_says_so(order_that, templates, frequency, rounds):
    """S0-17, S0-60, S0-65: before, whoever wanted a checkpoint after each node got one of each loop
    too.
    """
    order = drive(ordered(order_that, looping(4), frequency))
    assert [node for node, _, _ in nodes(order)].count("execute") == rounds
    assert state_of(order)["n"] == 4
    last = head_of(order)
    assert last.metadata["loops"] == {"planning": 1, "execute": 4, "finish": 1}
    assert broken() == {}


def ordered(order_that, function, frequency, **policy):
    """`order_that`, with a frequency: what an edit leaves out stays."""
    definitions.edit_template(
        "anything", steps=[PLAN], title="Anything", needs_repository=False, frequency=frequency
    )
    return order_that(function, **policy)


def test_pauses_and_answers_are_always_kept(make_order, templates, ana):
    use("writing", Frequency.FAILURE)
    order = drive(make_order())
    for action in ("revise", "approve", "skip_review"):
        assert head_of(order).status == "pending_input"
        services.decide(pause_of(order).pk, Answer(action, Via.PAGE, feedback="x"), by=ana)
        order = drive(order)
    assert order.status == "completed"
    assert broken() == {}


def test_a_failure_keeps_the_state_right_before_it(order_that, templates, ana):
    """S0-65: on failure. The retry begins at the step that failed, with what came before it."""

    def fails(state, context):
        raise StepFailed("no")

    order = drive(ordered(order_that, fails, Frequency.FAILURE))
    assert order.status == "failed"
    assert [(node, status) for node, _, status in nodes(order)] == [
        ("", "active"),
        ("execute", "failed"),
    ]
    assert state_of(order)["drafts"] == ["first"]
    assert broken() == {}
    key: list[str] = []

    def works(state, context):
        key.append(context.key)
        return Go()

    DOES["step"] = works
    runs.retry(order.pk, by=ana)
    assert drive(order).status == "completed"
    assert key == [f"{order.latest_run.shown_id}/execute/1"], (
        "the same execution as the one that failed"
    )
    assert broken() == {}


def test_a_step_that_is_tried_again_later_is_tried_from_right_before_it(order_that, templates):
    """Its retry waits, so the run is handed over: what came before does not run again."""
    calls = []

    def fails_once(state, context):
        calls.append(context.key)
        if len(calls) == 1:
            raise StepFailed("not yet")
        return Go()

    order = ordered(order_that, fails_once, Frequency.FAILURE, retry={"attempts": 2, "base": 60})
    drive(order)
    assert fresh(order).status == "pending"
    assert [(node, to) for node, to, _ in nodes(order)] == [
        ("", "planning"),
        ("planning", "execute"),
    ]
    assert broken() == {}
    moments.let_retries_come_due()
    assert drive(order).status == "completed"
    assert len(set(calls)) == 1, "the same execution"
    assert kinds(order).count("step_completed") == 3, "planning once"
    assert broken() == {}


def test_the_end_of_a_time_slice_is_a_checkpoint(make_order, templates):
    """The run is handed over, and whoever takes it up goes on at the next step."""
    use("writing-quick", Frequency.FAILURE)
    order = make_order("writing-quick")
    assert advance(order.latest_run_id, budget=0)
    assert [(node, to) for node, to, _ in nodes(order)] == [
        ("", "planning"),
        ("planning", "execute"),
    ]
    assert drive(order).status == "completed"
    assert broken() == {}


@pytest.mark.parametrize("frequency", SPARSE)
def test_a_commit_of_code_is_always_kept(order_that, templates, frequency):
    """Else nobody would find the code again after a crash."""
    order = ordered(
        order_that,
        lambda state, context: Go(commit=Commit(sha="a" * 40, base="b" * 40, bundle=b"x")),
        frequency,
    )
    drive(order)
    assert [node for node, _, _ in nodes(order)] == ["", "execute", "finish"]
    assert broken() == {}


def test_a_suspension_is_met_at_the_next_boundary_and_kept(order_that, templates, ana):
    order = ordered(order_that, looping(3), Frequency.FAILURE)
    runs.suspend(order.pk, by=ana)
    order = drive(order)
    assert order.status == "paused" and nodes(order)[-1][2] == "pending_input"
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    assert drive(order).status == "completed"
    assert broken() == {}


def test_an_interrupt_before_a_step_keeps_what_came_before(make_order, templates, ana):
    use("writing-quick", Frequency.FAILURE)
    order = drive(make_order("writing-quick", interrupt_before=["review"]))
    assert order.status == "paused" and state_of(order)["worked"] == 1
    assert broken() == {}
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    order = drive(order)
    assert order.status == "completed" and state_of(order)["worked"] == 1
    assert broken() == {}


def test_a_worker_may_die_at_any_moment_where_less_is_kept(crash_templates, ana, ben, team):
    """P3, P4: on either side of each commit. Steps in between run again under the same keys."""
    use("crash-straight", Frequency.FAILURE)

    def settle(order_id):
        moments.finish_order(order_id, ben)
        return order_id

    def told(order_id):
        order = WorkOrder.objects.shown().get(pk=order_id)
        state = state_of(order)
        run = order.latest_run.shown_id
        results = [key.replace(run, "run") for key in state["results"]]
        return {
            "status": order.status,
            "results": results,
            "loops": order.thread.head.metadata["loops"],
        }

    every_death(
        lambda: moments.make("crash-straight", by=ana, team=team).pk,
        moments.advance_order,
        settle,
        told,
    )
    assert broken() == {}


@pytest.mark.parametrize("frequency", [Frequency.STEP, Frequency.FAILURE])
def test_what_once_recorded_is_not_done_again(order_that, templates, frequency):
    """P4: its key is that of the execution, which is the same when a step runs again since nothing
    was kept of it.
    """
    charged: list[str] = []
    crashed: list[str] = []

    def charge(key):
        charged.append(key)
        return len(charged)

    def charges(state, context):
        receipt = context.once("charge", lambda: charge(context.key))
        return Go(update={"receipt": receipt})

    order = ordered(order_that, charges, frequency)

    def die_once():
        if not crashed:
            crashed.append("once")
            raise moments.Killed

    steps.HOOKS["finish"] = die_once
    with pytest.raises(moments.Killed):
        drive(order)
    moments.work_off()
    order = fresh(order)
    assert order.status == "completed"
    assert len(charged) == 1 and state_of(order)["receipt"] == 1
    assert Memo.objects.get().scope == f"{order.latest_run.shown_id}/execute/1"
    assert kinds(order).count("step_completed") == (3 if frequency == Frequency.STEP else 5), (
        "told as often as it was done"
    )
    assert broken() == {}


def test_a_run_that_keeps_losing_workers_behind_unkept_steps_still_ends_as_an_incident(
    order_that, templates, settings
):
    """A step in between that gets through is no sign of life for the one that kills its worker."""
    settings.WAYSTATION_LOST_ATTEMPTS = 3

    def kills(state, context):
        raise moments.Killed

    order = ordered(order_that, kills, Frequency.FAILURE)
    for _ in range(3):
        with pytest.raises(moments.Killed):
            drive(order)
        moments.expire_leases()
        lost_runs.take_back(now=timezone.now())
    assert fresh(order).latest_run.failure_code == "incident"


def test_the_end_is_the_same_with_every_frequency(order_that, templates):
    @settings(max_examples=12, deadline=None)
    @given(
        rounds=st.integers(1, 6),
        slices=st.lists(st.sampled_from([0, 60]), max_size=6),
        fails=st.integers(0, 2),
    )
    def ends_alike(rounds, slices, fails):
        first, *others = (
            end_with(frequency, order_that, rounds, slices, fails) for frequency in EACH
        )
        assert all(end == first for end in others)

    ends_alike()
    assert broken() == {}


def end_with(frequency, order_that, rounds, slices, fails):
    left = [fails]

    def function(state, context):
        if context.loop_num == 2 and left[0]:
            left[0] -= 1
            raise StepFailed("not yet")
        return Go(
            update={"sum": state.get("sum", 0) + context.loop_num},
            to="execute" if context.loop_num < rounds else None,
        )

    order = ordered(order_that, function, frequency, retry={"attempts": 3, "base": 1})
    for budget in slices:
        advance(order.latest_run_id, budget=budget)
        moments.let_retries_come_due()
    moments.work_off()
    head = head_of(order)
    return fresh(order).status, store.load(head), head.metadata["loops"], head.completed_nodes


def test_without_checkpoints_a_failure_leaves_nothing_to_go_on_from(order_that, templates, ana):
    """S0-17: per template there was no way to switch them off.

    What is lost with them is refused, in words.
    """

    def fails(state, context):
        raise StepFailed("no")

    order = drive(ordered(order_that, fails, Frequency.OFF))
    assert (order.status, order.latest_run.error) == ("failed", "no")
    assert nodes(order) == [("", "planning", "active")], "the beginning alone"
    assert broken() == {}
    assert not order.latest_run.may_be_taken_up
    with pytest.raises(NothingKept, match="Begin the work anew"):
        runs.retry(order.pk, by=ana)
    with pytest.raises(NothingToFork, match="keeps no checkpoints"):
        runs.fork(head_of(order).pk, by=ana, reason="again")
    again = fresh(resubmit.ask_again(order.pk, by=ana))
    DOES["step"] = looping(1)
    assert drive(again).status == "completed"
    assert broken() == {}


def test_without_checkpoints_a_step_that_asks_all_the_same_fails(order_that, templates):
    asks = Ask(
        question="Well?", answers={"approve": "finish"}, report=Report(content="One or two.")
    )
    order = drive(ordered(order_that, lambda state, context: asks, Frequency.OFF))
    assert (order.status, order.latest_run.failure_code) == ("failed", "checkpoints_off")
    assert broken() == {}


def test_without_checkpoints_a_person_may_still_stop_a_run(order_that, templates, ana):
    """What a person demands is kept, whatever the template says of steps."""
    order = ordered(order_that, looping(3), Frequency.OFF)
    runs.suspend(order.pk, by=ana)
    order = drive(order)
    assert order.status == "paused" and nodes(order)[-1][2] == "pending_input"
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    assert drive(order).status == "completed"
    assert broken() == {}


@pytest.mark.parametrize(
    ("steps", "repository", "words"),
    [
        (
            [{**PLAN, "pause_after": True, "pause_phase": "awaiting_plan_approval"}],
            False,
            '"planning" pauses for a person',
        ),
        ([{**PLAN, "interrupt_before": True}], False, '"planning" pauses for a person'),
        ([{**PLAN, "interrupt_after": True}], False, '"planning" pauses for a person'),
        (
            [{"step_type": "agent", "step_template_slug": "chat-agent"}],
            False,
            '"agent" pauses for a person',
        ),
        (
            [{"step_type": "planning", "step_template_slug": "multi-agent-planning"}],
            False,
            '"planning" starts child runs',
        ),
        ([PLAN], True, "Work on a repository takes checkpoints"),
    ],
)
def test_what_only_checkpoints_can_promise_is_refused_without_them(
    templates, steps, repository, words
):
    """S0-17: also where the pause is added to a template that is off already."""
    with pytest.raises(definitions.TemplateInvalid, match=words):
        definitions.edit_template(
            "short", steps=steps, needs_repository=repository, frequency="off"
        )
    definitions.edit_template("short", steps=[PLAN], needs_repository=False, frequency="off")
    with pytest.raises(definitions.TemplateInvalid, match=words):
        definitions.edit_template("short", steps=steps, needs_repository=repository)


def test_the_frequency_is_frozen_with_the_order(make_order, templates):
    """P10: an edit of the template changes what comes after it."""
    use("writing-quick", Frequency.FAILURE)
    order = make_order("writing-quick")
    use("writing-quick", Frequency.STEP)
    assert [node for node, _, _ in nodes(drive(order))] == ["", "finish"]


def test_a_template_that_says_nothing_freezes_as_before(templates):
    """Its definition's digest stays: orders of both before and after are of one definition."""
    frozen = definitions.freeze(definitions.current("writing")).content
    assert frozen.keys() == {"template", "version", "steps", "reducers"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("frequency", "sometimes"),
        ("retention", {"days": 0}),
        ("retention", {"count": 1.5}),
        ("retention", {"months": 1}),
        ("retention", []),
        ("size_budget", 0),
        ("size_budget", True),
        ("size_budget", "1"),
        ("size_budget", 2**70),
    ],
)
def test_what_cannot_be_kept_is_refused_when_the_template_is_saved(templates, field, value):
    with pytest.raises(definitions.TemplateInvalid) as refused:
        definitions.edit_template("writing", **{field: value})
    assert next(iter(refused.value.errors)).startswith(field)


def test_each_frequency_says_what_then_holds():
    assert set(PROMISES) == set(Frequency)
