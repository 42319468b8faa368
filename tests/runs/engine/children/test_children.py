"""Child runs: started by one step, worked on by anybody, joined when all have ended."""

from __future__ import annotations

import datetime as dt
import uuid

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints.models import Checkpoint, Event
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions, limits
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run
from runs.services import InputInvalid
from runs.workflows.base import (
    Child,
    Commit,
    Gather,
    Go,
    Report,
)
from tests.conftest import fresh, log_lines
from tests.runs.engine.children.crews import (
    ASKING,
    PLAYS,
    answer,
    asked,
    definitions_of_nested,
    fails,
    kids,
    says,
    sub,
    work_off,
    worked,
)
from tests.runs.engine.children.crews import (
    crew as crew,
)
from tests.worlds import steps
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db
ONE = pytest.mark.one_database


def test_sub_steps_run_one_after_the_other_in_a_child_run(crew):
    """S4-5: what the last of them reports is what the step reports."""
    order = worked(crew([sub("research"), sub("draft")], step=ASKING))
    assert [step for step, _ in steps.CALLS] == ["planning", "research", "draft"]
    assert list(kids(order)) == ["crew"]
    assert state_of(order)["said"] == ["research", "draft"]
    pause = Pause.objects.open().get()
    assert (pause.run_id, pause.step, pause.content) == (
        order.latest_run_id,
        "crew",
        "I say draft.",
    )


@pytest.mark.both_databases
def test_parallel_sub_steps_are_runs_of_their_own_that_join(crew):
    """S4-5: each on a thread of its own, to be taken by any worker; their changes join in the order
    of the sub-steps.
    """
    order = crew([sub("one"), sub("two"), sub("three")], parallel=True)
    wanted = advance(order.latest_run_id, budget=60)
    assert len(wanted) == 3
    order = fresh(order)
    assert (order.status, order.current_step, order.latest_run.awaited) == ("running", "crew", 3)
    for run_id, _ in reversed(wanted):  # whoever ends first
        woken = advance(run_id, budget=60)
    assert woken == [(order.latest_run_id, "steps")]
    order = worked(order)
    assert order.status == "completed"
    state = state_of(order)
    assert state["said"] == ["one", "two", "three"]
    assert state["one"] and state["two"] and state["three"]
    assert {name: one["status"] for name, one in state["gathered"].items()} == dict.fromkeys(
        ("one", "two", "three"), "completed"
    )
    assert len({run.thread_id for run in Run.objects.filter(work_order=order)}) == 4


def test_a_parent_that_waits_for_its_children_holds_nothing(crew):
    """P7: no lease, no worker, no message, and a message to it changes nothing."""
    order = crew([sub("one"), sub("two")], parallel=True)
    advance(order.latest_run_id, budget=60)
    run = fresh(order).latest_run
    assert (run.status, run.lease_owner, run.lease_until) == ("paused", "", None)
    assert advance(run.pk, budget=60) == []
    due = lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(hours=-1))
    assert order.latest_run_id not in {run_id for run_id, _ in due}


@pytest.mark.both_databases
def test_children_pause_one_by_one_and_their_cards_name_the_order(crew, ana):
    """S4-5, S4-28, C14: both wait at once, by name; each answer moves its own child; the order says
    paused while one of them asks.
    """
    order = worked(crew([sub("one", **ASKING), sub("two", **ASKING), sub("three")], parallel=True))
    assert Pause.objects.open().count() == 2
    assert {pause.run.work_order_id for pause in Pause.objects.open()} == {order.pk}
    for pause in (asked("one"), asked("two")):
        pause.pk, pause._state.adding = uuid.uuid4(), True
        with (
            pytest.raises(
                IntegrityError,
                match=r"pause_one_open_per_run|UNIQUE constraint failed: runs_pause\.run_id",
            ),
            transaction.atomic(),
        ):
            Pause.objects.bulk_create([pause])
    with pytest.raises(services.SeveralQuestions):  # neither is meant where none is named
        services.answer_order(order.pk, Answer("approve", Via.REST), by=ana)
    assert (order.status, order.phase, order.current_step) == (
        "paused",
        "awaiting_plan_approval",
        "crew",
    )
    answer(asked("two"), ana)
    assert fresh(order).status == "paused"
    answer(asked("one"), ana, "revise", "louder")
    assert asked("one").revision == 2
    answer(asked("one"), ana)
    order = fresh(order)
    assert order.status == "completed"
    assert state_of(order)["decided"] == {"one": "approve", "two": "approve"}
    assert state_of(order)["said"] == ["one", "one", "two", "three"]


@ONE
def test_a_child_asks_in_a_loop_and_is_answered_while_its_sibling_works(crew, ana):
    """Tried after mastra#10746 and mastra#9288: a sibling that ended took the loop's round with it,
    or set what was done back to waiting.
    """
    order = crew([sub("one", **ASKING), sub("two")], parallel=True)

    def working(state, context):
        answer(asked("one"), ana, "revise", "again")
        answer(asked("one"), ana, "revise", "and again")
        answer(asked("one"), ana)
        assert kids(order)["one"].status == "completed"
        return says("two")(state, context)

    PLAYS["two"] = working
    order = worked(order)
    assert order.status == "completed"
    assert state_of(order)["said"] == ["one", "one", "one", "two"]
    assert {run.status for run in kids(order).values()} == {"completed"}


@ONE
def test_an_order_may_be_stopped_before_and_after_single_sub_steps(crew, ana):
    """S1-24: `step/sub-step` names them; the same name elsewhere is not meant."""
    stops = {"interrupt_before": ["crew/two"], "interrupt_after": ["crew/one"]}
    order = worked(crew([sub("one"), sub("two"), sub("finish")], parallel=True, order=stops))
    assert {(pause.run.child_name, pause.phase) for pause in Pause.objects.open()} == {
        ("one", "interrupted_after"),
        ("two", "interrupted_before"),
    }
    assert [name for name, _ in steps.CALLS] == ["planning", "one", "finish"]
    answer(asked("one"), ana)
    answer(asked("two"), ana)
    assert fresh(order).status == "completed"
    assert [name for name, _ in steps.CALLS] == ["planning", "one", "finish", "two", "finish"]


@ONE
def test_an_order_cannot_be_stopped_at_a_sub_step_that_is_none(crew):
    for name in ("one", "crew/nobody", "crew/one/deeper", "finish/one", "/one", "crew/"):
        with pytest.raises(InputInvalid, match="has no step"):
            crew([sub("one")], order={"interrupt_before": [name]})


def test_the_first_failure_cancels_the_others_and_fails_the_order(crew):
    """F23: in the transaction in which the parent fails, open questions are closed and no child run
    is left.
    """
    PLAYS["bad"] = fails
    order = worked(crew([sub("waiting", **ASKING), sub("bad")], parallel=True))
    assert (order.status, order.latest_run.failure_code) == ("failed", "child_failed")
    assert "bad" in order.latest_run.error
    assert "No paper left." in order.latest_run.error
    assert {name: run.status for name, run in kids(order).items()} == {
        "waiting": "cancelled",
        "bad": "failed",
    }
    assert kids(order)["waiting"].failure_code == "cancelled_with_parent"
    assert [pause.status for pause in Pause.objects.all()] == ["cancelled"]


def test_a_failure_may_be_collected(crew):
    PLAYS["bad"] = fails
    order = worked(crew([sub("good"), sub("bad")], parallel=True, on_failure="collect"))
    assert order.status == "completed"
    state = state_of(order)
    assert state["said"] == ["good"]
    assert (state["gathered"]["bad"]["status"], state["gathered"]["bad"]["error"]) == (
        "failed",
        "No paper left.",
    )


@pytest.mark.both_databases
def test_cancelling_the_order_ends_every_child_and_closes_every_question(crew, ana):
    """F23: whether it asks, waits for a worker, or is worked on."""
    subs = [sub("asking", **ASKING), sub("pending"), sub("nested")]
    definitions_of_nested(subs)
    order = crew(subs, parallel=True)
    for run_id, _ in advance(order.latest_run_id, budget=60):
        if Run.objects.get(pk=run_id).child_name != "pending":
            advance(run_id, budget=60)
    assert Run.objects.live().filter(work_order=order).count() == 6
    services.cancel_order(order.pk, by=ana, via=Via.REST)
    order = fresh(order)
    assert (order.status, order.latest_run.failure_code) == ("failed", "cancelled_by_user")
    below = Run.objects.filter(work_order=order, depth__gt=0)
    assert {run.failure_code for run in below} == {"cancelled_with_parent"}
    assert {run.error for run in below} == {"Cancelled with its parent run at planning phase"}
    assert not Pause.objects.open().exists()
    work_off()
    assert fresh(order).status == "failed"


def test_child_runs_may_have_child_runs(crew):
    subs = [sub("flat"), sub("nested")]
    definitions_of_nested(subs)
    order = worked(crew(subs, parallel=True))
    assert order.status == "completed"
    assert state_of(order)["said"] == ["flat", "deep", "deeper"]
    assert sorted(Run.objects.filter(work_order=order).values_list("depth", flat=True)) == [
        0,
        1,
        1,
        2,
        2,
    ]


@pytest.mark.both_databases
def test_a_retry_takes_up_only_the_children_that_did_not_complete(crew, ana):
    """P5: what a child finished is not done again; the one that failed goes on where it stopped."""
    PLAYS["bad"] = fails
    order = worked(crew([sub("good"), sub("bad")], parallel=True))
    assert order.status == "failed"
    steps.CALLS.clear()
    PLAYS["bad"] = says("bad")
    runs.retry(order.pk, by=ana)
    order = worked(order)
    assert order.status == "completed"
    assert [step for step, _ in steps.CALLS] == ["bad", "finish"]
    assert state_of(order)["said"] == ["good", "bad"]


def test_a_sub_workflow_that_failed_goes_on_at_its_own_step(crew, ana):
    PLAYS["second"] = fails
    order = worked(crew([sub("first"), sub("second")]))
    steps.CALLS.clear()
    PLAYS["second"] = says("second")
    runs.retry(order.pk, by=ana)
    order = worked(order)
    assert [step for step, _ in steps.CALLS] == ["second", "finish"]
    assert state_of(order)["said"] == ["first", "second"]


@ONE
def test_revise_after_the_join_runs_the_sub_workflow_again_with_the_feedback(crew, ana):
    """S4-29: the same step through its sub-steps, which see the feedback."""
    heard = []

    def listen(state, context):
        heard.append(state["revision_feedback"])
        return Go(
            update={"said": [f"take {len(heard)}"]}, report=Report(content=f"Take {len(heard)}.")
        )

    PLAYS["draft"] = listen
    order = worked(crew([sub("draft")], step=ASKING))
    answer(Pause.objects.open().get(), ana, "revise", "shorter")
    assert heard == ["", "shorter"]
    pause = Pause.objects.open().get()
    assert (pause.revision, pause.content) == (2, "Take 2.")
    answer(pause, ana)
    assert fresh(order).status == "completed"


@ONE
def test_a_step_of_ones_own_fans_out_over_what_it_finds(crew):
    """Each child takes sub-steps of the step's template, with an update of its own; numbers and
    lists join by their reducers.
    """

    def fan_out(state, context):
        return Gather(
            children=[
                Child(name=f"part {number}", steps=["count"], update={"part": number})
                for number in range(5)
            ],
            update={"parts": 5, "count": 100},
            into="results",
        )

    PLAYS["crew"] = fan_out
    PLAYS["count"] = lambda state, context: Go(
        update={"count": state["part"], "seen": state["parts"]}
    )
    state = state_of(worked(crew([sub("count")], function="test.play")))
    assert state["results"]["part 3"] == {"count": 3, "seen": 5}
    assert state["count"] == 100  # kept apart under `results`

    PLAYS["crew"] = lambda state, context: Gather(
        children=fan_out(state, context).children, update={"count": 100, "parts": 5}
    )
    state = state_of(worked(crew([sub("count")], function="test.play")))
    assert state["count"] == 110


def gathers(children):
    return lambda state, context: Gather(children=children)


@ONE
def test_what_cannot_be_gathered_fails_the_step_in_words(crew, monkeypatch):
    monkeypatch.setattr(limits, "GATHER_CHILDREN", 3)
    for children, code in (
        ([Child(name="a"), Child(name="a")], "gather_invalid"),
        ([Child(name="")], "gather_invalid"),
        ([Child(name="x" * 101)], "gather_invalid"),
        ([Child(name="a", steps=["nowhere"])], "gather_invalid"),
        ([Child(name=str(number)) for number in range(4)], "gather_too_wide"),
    ):
        PLAYS["crew"] = gathers(children)
        order = worked(crew([sub("one")], function="test.play"))
        assert (order.status, order.latest_run.failure_code) == ("failed", code), children
        assert Run.objects.filter(work_order=order).count() == 1


@ONE
def test_children_are_not_nested_without_end(crew, settings):
    subs = [sub("flat"), sub("nested")]
    definitions_of_nested(subs)
    order = crew(subs, parallel=True)
    settings.WAYSTATION_GATHER_DEPTH = 1
    order = worked(order)
    assert order.latest_run.failure_code == "child_failed"
    assert kids(order)["nested"].failure_code == "gather_too_deep"


def test_a_step_template_cannot_be_its_own_sub_step(crew):
    with pytest.raises(definitions.TemplateInvalid):
        definitions.edit_step_template(
            "test-plan",
            title="Plan",
            sub_steps=[{"step_type": "planning", "step_template_slug": "test-plan"}],
        )


@ONE
def test_a_gather_of_nobody_goes_on_at_once(crew):
    PLAYS["crew"] = lambda state, context: Gather(children=[], update={"x": 1})
    order = worked(crew([sub("one")], function="test.play"))
    assert order.status == "completed"
    assert state_of(order)["x"] == 1


@ONE
def test_the_code_that_one_child_changed_goes_on_with_its_parent(crew):
    """And where two changed it, nothing is silently lost: the run stops and names both commits."""

    def commits(sha):
        return lambda state, context: Go(update={}, commit=Commit(sha=sha, base="0" * 40))

    PLAYS["writer"] = commits("a" * 40)
    order = worked(crew([sub("writer"), sub("reader")], parallel=True))
    assert order.thread.head.metadata["git"]["commit"] == "a" * 40

    PLAYS["reader"] = commits("b" * 40)
    order = worked(crew([sub("writer"), sub("reader")], parallel=True))
    assert order.latest_run.failure_code == "children_changed_code"
    assert "a" * 12 in order.latest_run.error
    assert "b" * 12 in order.latest_run.error


@ONE
def test_whoever_watches_the_order_hears_of_its_children(crew, ana):
    order = worked(crew([sub("one", **ASKING), sub("two")], parallel=True))
    answer(asked("one"), ana)
    lines = log_lines(order)
    assert [line for line in lines if line.startswith(("one:", "two:"))] == [
        "one: asks: Waiting for Plan Approval",
        "two: completed",
        "one: answered with approve by Ana Ruiz",
        "one: completed",
    ]
    assert "Waiting for 2 child runs: one, two" in lines


@pytest.mark.both_databases
def test_a_lost_child_is_taken_back_and_joins_all_the_same(crew, settings):
    """P3: and one that keeps losing its workers fails its parent as an incident of the child."""
    settings.WAYSTATION_LOST_ATTEMPTS = 2
    order = crew([sub("one"), sub("two")], parallel=True)
    wanted = advance(order.latest_run_id, budget=60)
    lost = wanted[0][0]
    for _ in range(2):
        Run.objects.filter(pk=lost).update(
            status="running",
            lease_until=timezone.now() - dt.timedelta(hours=1),
            lease_owner="gone:1",
        )
        lost_runs.take_back(now=timezone.now())
    assert Run.objects.get(pk=lost).failure_code == "incident"
    order = worked(order)
    assert order.latest_run.failure_code == "child_failed"
    assert not Run.objects.live().filter(work_order=order).exists()


def test_cancelling_a_child_at_its_question_fails_the_order(crew, ana):
    order = worked(crew([sub("one", **ASKING), sub("two", **ASKING)], parallel=True))
    answer(asked("one"), ana, "cancel")
    order = fresh(order)
    assert (order.status, order.latest_run.failure_code) == ("failed", "child_failed")
    assert "Cancelled by user at planning phase" in order.latest_run.error
    assert not Pause.objects.open().exists()


def test_a_suspended_order_stops_its_children_at_their_next_boundary(crew, ana):
    order = crew([sub("one"), sub("two")])
    advance(order.latest_run_id, budget=60)
    runs.suspend(order.pk, by=ana)
    order = worked(order)
    pause = Pause.objects.open().get()
    assert (pause.run.child_name, pause.step, pause.phase) == ("crew", "one", "suspended")
    answer(pause, ana)
    assert fresh(order).status == "completed"


def test_an_order_suspended_while_its_children_take_their_last_steps_stops_after_the_join(
    crew, ana
):
    """The wish was for the order: that a child had no boundary left does not end it."""
    order = crew([sub("one"), sub("two")], parallel=True)
    advance(order.latest_run_id, budget=60)
    runs.suspend(order.pk, by=ana, reason="wait for Ben")
    order = worked(order)
    pause = Pause.objects.open().get()
    assert (pause.run_id, pause.step, pause.phase) == (order.latest_run_id, "crew", "suspended")
    assert pause.question == "Suspended by Ana Ruiz: wait for Ben"
    answer(pause, ana)
    assert fresh(order).status == "completed"


@ONE
def test_children_are_pinned_to_what_was_frozen_with_the_order(crew, ana):
    """P10: an edit of the step template while the order waits changes neither its sub-steps nor
    their configuration.
    """
    order = worked(crew([sub("one")], step={"interrupt_before": True}))
    definitions.edit_step_template("test-crew", title="Crew", config={}, sub_steps=[sub("other")])
    answer(Pause.objects.open().get(), ana)
    assert fresh(order).status == "completed"
    assert state_of(order)["said"] == ["one"]


def test_the_join_is_told_once_and_the_log_has_no_gap(crew):
    order = worked(crew([sub("one"), sub("two")], parallel=True))
    told = Event.objects.filter(thread=order.thread_id, kind="step_completed").order_by("seq")
    assert [event.data["step"] for event in told] == ["planning", "crew", "finish"]
    chain = [at.node_id for at in Checkpoint.objects.filter(thread=order.thread_id).order_by("id")]
    assert chain == ["", "planning", "crew", "crew", "finish"]


def test_a_child_that_asked_when_another_failed_asks_the_same_again_after_the_retry(crew, ana):
    """P5: what it had done before its question is not done again."""
    PLAYS["bad"] = fails
    order = worked(crew([sub("asking", **ASKING), sub("bad")], parallel=True))
    asked_before = Pause.objects.get()
    PLAYS["bad"] = says("bad")
    steps.CALLS.clear()
    runs.retry(order.pk, by=ana)
    work_off()
    pause = asked("asking")
    assert (pause.content_digest, pause.revision, pause.run_id != asked_before.run_id) == (
        asked_before.content_digest,
        1,
        True,
    )
    assert fresh(order).status == "paused"
    answer(pause, ana)
    order = fresh(order)
    assert order.status == "completed"
    assert [step for step, _ in steps.CALLS] == ["bad", "finish"]
    assert state_of(order)["said"] == ["asking", "bad"]


def test_a_child_whose_answer_was_taken_when_another_failed_is_not_asked_again_after_the_retry(
    crew, ana
):
    """P5: the approval was its last step's, and no worker had yet taken note of it when the run
    ended.
    """
    PLAYS["bad"] = fails
    order = crew([sub("asking", **ASKING), sub("bad")], parallel=True)
    first, second = advance(order.latest_run_id, budget=60)
    advance(first[0], budget=60)
    services.decide(asked("asking").pk, Answer("approve", Via.REST), by=ana)
    advance(second[0], budget=60)
    advance(order.latest_run_id, budget=60)
    assert fresh(order).latest_run.failure_code == "child_failed"
    PLAYS["bad"] = says("bad")
    steps.CALLS.clear()
    runs.retry(order.pk, by=ana)
    order = worked(order)
    assert not Pause.objects.open().exists()
    assert [step for step, _ in steps.CALLS] == ["bad", "finish"]
    assert state_of(order)["said"] == ["asking", "bad"]


@ONE
def test_a_question_that_is_asked_again_counts_its_revisions_on(crew, ana):
    """F16: a revision number names one content, also across a retry; and the limit of revisions
    holds.
    """
    PLAYS["bad"] = fails
    order = crew([sub("asking", **ASKING, max_revisions=2), sub("bad")], parallel=True)
    first, second = advance(order.latest_run_id, budget=60)
    advance(first[0], budget=60)
    services.decide(asked("asking").pk, Answer("revise", Via.REST, feedback="louder"), by=ana)
    advance(first[0], budget=60)
    assert asked("asking").revision == 2
    advance(second[0], budget=60)
    advance(order.latest_run_id, budget=60)
    PLAYS["bad"] = says("bad")
    runs.retry(order.pk, by=ana)
    work_off()
    assert asked("asking").revision == 2
    answer(asked("asking"), ana, "revise", "softer")
    assert asked("asking").revision == 3
    with pytest.raises(services.AnswerInvalid):
        answer(asked("asking"), ana, "revise", "once more")
