"""Child runs that are more than a step wants at once: they wait in their parent's row, and start as
others end.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from django.db.models import F, Q
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from checkpoints.models import Checkpoint
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions, limits
from runs import services as runs
from runs.engine import children
from runs.engine.advance import advance
from runs.engine.children import plans
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run, WorkOrder
from runs.states import LIVE, FailureCode
from runs.threads import why
from runs.workflows.base import Go, rates
from tests.conftest import fresh, log_lines
from tests.runs.engine.children.crews import (
    ASKING,
    PLAYS,
    answer,
    asked,
    fails,
    kids,
    sub,
    work_off,
    worked,
)
from tests.runs.engine.children.crews import (
    crew as crew,
)
from tests.runs.engine.children.crews import (
    many as many,
)
from tests.worlds import steps
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db
ONE = pytest.mark.one_database


def live(order: WorkOrder) -> int:
    return Run.objects.filter(work_order=order, depth=1, status__in=sorted(LIVE)).count()


def counts(order: WorkOrder) -> dict[str, int]:
    return dict(fresh(order).latest_run.gather_counts or {})


@pytest.mark.both_databases
def test_more_than_the_width_wait_their_turn_and_join_in_their_order(many, settings):
    """Before, the step failed, and the message named no way out."""
    settings.WAYSTATION_GATHER_WIDTH = 2
    order = many(5)
    started = advance(order.latest_run_id, budget=60)
    assert len(started) == live(order) == 2
    order = fresh(order)
    assert (order.status, order.latest_run.awaited) == ("running", 5)
    assert counts(order) == {"total": 5, "queued": 3, "live": 2, "ended": 0, "failed": 0}
    last, first = started[1], started[0]
    [third] = advance(last[0], budget=60)  # whoever ends first makes room
    assert kids(order)["c2"].pk == third[0]
    assert counts(order) == {"total": 5, "queued": 2, "live": 2, "ended": 1, "failed": 0}
    assert order.latest_run.progress_now == {"done": 0, "of": 5, "unit": ""}
    assert fresh(order).latest_run.progress_now == {"done": 1, "of": 5, "unit": ""}
    advance(first[0], budget=60)
    order = worked(order)
    assert order.status == "completed"
    state = state_of(order)
    assert (state["count"], state["said"]) == (5, ["0", "1", "2", "3", "4"])
    assert {one["status"] for one in state["gathered"].values()} == {"completed"}
    assert counts(order) == {"total": 5, "queued": 0, "live": 0, "ended": 5, "failed": 0}


@ONE
def test_a_page_of_children_is_as_good_as_another(many, monkeypatch):
    """Also where their changes stand each under its name."""
    monkeypatch.setattr(plans, "PAGE", 2)
    order = worked(many(7, at_once=3, into="parts"))
    parts = state_of(order)["parts"]
    assert {name: part["said"] for name, part in parts.items()} == {
        f"c{number}": [str(number)] for number in range(7)
    }
    assert len(steps.CALLS) == 10
    keys = list(Run.objects.filter(depth=1).order_by("pk").values_list("child_name", flat=True))
    assert keys == [f"c{number}" for number in range(7)]


@ONE
def test_children_of_several_steps_that_ask_and_are_sent_back_join_all_the_same(many, ana):
    subs = [sub("count", **ASKING), sub("more")]
    PLAYS.clear()
    order = many(3, subs=subs, at_once=1)
    work_off()
    for number in range(3):
        assert live(order) == 1  # one that waits for a person keeps its place
        answer(asked(f"c{number}"), ana, "revise", "again")
        answer(asked(f"c{number}"), ana)
    state = state_of(fresh(order))
    assert state["said"] == [word for number in "012" for word in (number, number, "more")]
    assert state["count"] == 6


@ONE
def test_what_a_child_changed_is_found_without_reading_what_it_began_with(
    many, django_assert_max_num_queries
):
    """A join costs a few statements for each page of children, and none for each of them."""
    order = many(40, at_once=39)
    for run_id, _ in advance(order.latest_run_id, budget=60):
        advance(run_id, budget=60)
    [last] = Run.objects.filter(depth=1, status="pending")
    assert advance(last.pk, budget=60) == [(order.latest_run_id, "steps")]
    with django_assert_max_num_queries(30):
        advance(order.latest_run_id, budget=0)
    assert state_of(fresh(order))["count"] == 40


def test_a_child_that_fails_leaves_the_others_alone_and_the_join_says_who_and_why(many, settings):
    def count(state, context):
        if state["number"] == 1:
            return fails(state, context)
        return Go(update={"count": 1})

    PLAYS["count"] = count
    order = worked(many(4, at_once=1, on_child_failure="continue"))
    assert order.status == "completed"
    state = state_of(order)
    assert state["count"] == 3
    assert {name: (one["status"], one["error"]) for name, one in state["gathered"].items()} == {
        "c0": ("completed", ""),
        "c1": ("failed", "No paper left."),
        "c2": ("completed", ""),
        "c3": ("completed", ""),
    }
    assert counts(order) == {"total": 4, "queued": 0, "live": 0, "ended": 4, "failed": 1}


def test_a_poison_child_that_loses_every_worker_ends_alone(many, settings):
    settings.WAYSTATION_LOST_ATTEMPTS = 2
    order = many(3, at_once=2, on_child_failure="continue")
    (poison, _), _ = advance(order.latest_run_id, budget=60)
    for _ in range(2):
        Run.objects.filter(pk=poison).update(
            status="running", lease_owner="gone:1", lease_until=timezone.now() - dt.timedelta(1)
        )
        lost_runs.take_back(now=timezone.now())
    order = worked(order)
    gathered = state_of(order)["gathered"]
    assert {name: one["status"] for name, one in gathered.items()} == {
        "c0": "failed",
        "c1": "completed",
        "c2": "completed",
    }
    assert "lost its worker 2 times" in gathered["c0"]["error"]


@ONE
def test_the_first_failure_starts_no_other_and_a_retry_goes_on_in_turn(many, ana):
    """P5: what completed is not done again; what had not begun begins."""

    def count(state, context):
        if state["number"] == 1 and not mended:
            return fails(state, context)
        return Go(update={"count": 1})

    mended: list[bool] = []
    PLAYS["count"] = count
    order = worked(many(5, at_once=2))
    assert (order.status, order.latest_run.failure_code) == ("failed", "child_failed")
    assert "c1 did not complete: No paper left." in order.latest_run.error
    assert not live(order)
    begun = Run.objects.filter(depth=1).count()
    assert begun < 5
    mended.append(True)
    done = {name for name, run in kids(order).items() if run.status == "completed"}
    steps.CALLS.clear()
    runs.retry(order.pk, by=ana)
    again = fresh(order).latest_run_id
    assert again is not None
    advance(again, budget=60)
    assert live(order) == 2
    order = worked(order)
    assert order.status == "completed"
    assert state_of(order)["count"] == 5
    assert len(steps.CALLS) == 5 - len(done) + 1
    assert Run.objects.filter(depth=1, status="completed").count() == 5


@ONE
def test_cancelling_the_order_starts_none_of_those_that_wait(many, ana):
    order = many(4, at_once=2)
    advance(order.latest_run_id, budget=60)
    services.cancel_order(order.pk, by=ana, via=Via.REST)
    work_off()
    assert Run.objects.filter(depth=1).count() == 2
    assert {run.failure_code for run in kids(order).values()} == {"cancelled_with_parent"}
    assert counts(order)["queued"] == 2


@ONE
def test_a_suspended_order_starts_the_next_ones_only_when_somebody_lets_them(many, ana):
    order = many(3, at_once=1)
    work = advance(order.latest_run_id, budget=60)
    runs.suspend(order.pk, by=ana)
    advance(work[0][0], budget=60)
    work_off()
    pause = Pause.objects.open().get()
    assert (pause.run.child_name, pause.phase) == ("c1", "interrupted_before")
    answer(pause, ana)
    work_off()
    assert fresh(order).status == "completed"
    assert state_of(fresh(order))["count"] == 3


@ONE
def test_what_does_not_fit_the_state_fails_the_child_alone(many):
    order = worked(many(3, at_once=2, update={"said": {"no": "list"}, "count": "x"},
                        on_child_failure="continue"))  # fmt: skip
    gathered = state_of(order)["gathered"]
    assert {one["status"] for one in gathered.values()} == {"failed"}
    assert "could not begin: state.count (add)" in gathered["c0"]["error"]
    assert {run.failure_code for run in kids(order).values()} == {FailureCode.CHILD_CANNOT_START}


@pytest.mark.both_databases
def test_no_more_start_in_a_time_than_the_rate_says(many):
    order = many(5, rate="2/min")
    assert len(advance(order.latest_run_id, budget=60)) == 2
    work_off()
    assert (live(order), counts(order)["ended"]) == (0, 2)
    parent = fresh(order).latest_run
    assert parent is not None and parent.gather_due_at is not None
    wait = (parent.gather_due_at - timezone.now()).total_seconds()
    assert 50 < wait <= 60
    reason = why.of_run(parent, now=timezone.now())
    assert (reason.words, reason.until) == (
        "2 of its 5 child runs have ended.",
        parent.gather_due_at,
    )
    assert reason.details == ["3 of them begin when others have ended."]
    assert children.start_more(parent.pk).woken == []
    # of the first of the two the minute is over, then of the second, too
    for seconds, ended in (({"c0": 60, "c1": 30}, 3), ({"c1": 30, "c2": 60}, 5)):
        for name, second in seconds.items():
            earlier = F("created_at") - dt.timedelta(seconds=second)
            Run.objects.filter(depth=1, child_name=name).update(created_at=earlier)
        Run.objects.filter(pk=parent.pk).update(gather_due_at=timezone.now())
        work_off()
        assert counts(order)["ended"] == ended
    assert fresh(order).status == "completed"
    assert state_of(fresh(order))["count"] == 5


@ONE
@pytest.mark.parametrize(
    ("text", "rate"),
    [("60/min", (60, 60.0)), ("1/s", (1, 1.0)), ("500/h", (500, 3600.0)),
     ("10/day", (10, 86400.0)), ("3/5min", (3, 300.0))],
)  # fmt: skip
def test_a_rate_is_so_many_in_a_time(text, rate):
    assert rates.parse(text) == rate


@ONE
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"at_once": 0}, "`at_once` is a whole number from 1, not 0."),
        ({"at_once": True}, "`at_once` is a whole number from 1, not True."),
        ({"rate": "60"}, "'60' is no rate: write how many begin in which time, such as 60/min."),
        ({"rate": "0/min"}, "is no rate"),
        ({"rate": "20000/min"}, "is no rate"),
        ({"on_child_failure": "go on"}, '`on_child_failure` is "stop" or "continue"'),
    ],
)
def test_what_no_gather_can_be_is_refused_in_words(many, options, words):
    order = worked(many(3, **options))
    assert order.latest_run.failure_code == "gather_invalid"
    assert words in order.latest_run.error


@ONE
def test_more_children_than_the_limit_are_refused_with_both_numbers(many, monkeypatch):
    monkeypatch.setattr(limits, "GATHER_CHILDREN", 3)
    order = worked(many(4))
    assert order.latest_run.failure_code == "gather_too_wide"
    assert "up to 3 child runs; this one wants 4" in order.latest_run.error


@ONE
def test_the_log_names_some_of_many_and_tells_how_far_they_are(many, monkeypatch):
    monkeypatch.setattr("runs.engine.ending.TOLD", 10)
    PLAYS["count"] = lambda state, context: (
        fails(state, context) if state["number"] == 7 else Go(update={"count": 1})
    )
    order = worked(many(40, at_once=4, on_child_failure="continue"))
    lines = log_lines(order)
    assert any("up to 4 at once: c0, " in line and "c9 and 30 more" in line for line in lines)
    assert not [line for line in lines if line.endswith(": completed")][:-1]
    assert "c7: failed: No paper left." in lines
    assert "20 of 40 child runs have ended; 1 of them did not complete." in lines
    assert len([line for line in lines if "of 40 child runs have ended" in line]) <= 10


@ONE
def test_what_is_shown_after_very_many_says_how_many_and_who_failed(many, monkeypatch):
    monkeypatch.setattr("runs.engine.children.joining.PARTS", 3)
    PLAYS["count"] = lambda state, context: (
        fails(state, context) if state["number"] < 2 else Go(update={"count": 1})
    )
    order = many(5, at_once=2, on_child_failure="continue")
    definitions.edit_template(
        "crew", steps=[{**one, **(ASKING if one.get("name") == "crew" else {})}
                       for one in order.template.steps],
        title="Crew", needs_repository=False, reducers={"said": "append", "count": "add"},
    )  # fmt: skip
    order = worked(runs.submit("crew", by=order.created_by))
    pause = Pause.objects.open().get()
    assert pause.content == (
        "3 of 5 child runs are complete.\n\nNot completed:\n\n"
        "- **c0**: No paper left.\n- **c1**: No paper left."
    )
    assert dict(pause.facts) == {"Child runs": 5, "Not completed": 2}


@ONE
def test_a_secret_in_what_a_child_begins_with_is_kept_nowhere(many):
    order = many(3, at_once=1, update={"password": "hunter2"})
    advance(order.latest_run_id, budget=60)
    kept = plans.of(fresh(order).thread.head)
    assert kept is not None
    passwords = [(entry.update or {})["password"] for entry in plans.starting(kept, 0, 3)]
    assert passwords != ["hunter2"] * 3
    assert "hunter2" not in str(list(plans.batches(kept)))


@ONE
def test_what_an_older_worker_left_behind_is_put_right(many):
    """It counts no queue, so one that waits for nobody may have one: nothing is started for it."""
    order = many(3, at_once=1)
    advance(order.latest_run_id, budget=60)
    run = fresh(order).latest_run
    head = fresh(order).thread.head
    assert head is not None
    head.metadata = {key: value for key, value in head.metadata.items() if key != "gather"}
    Checkpoint.objects.filter(pk=head.pk).update(metadata=head.metadata)
    Run.objects.filter(pk=run.pk).update(gather_due_at=timezone.now())
    assert children.start_more(run.pk).woken == []
    assert Run.objects.get(pk=run.pk).gather_queued == 0
    Run.objects.filter(Q(pk=run.pk) | Q(parent=run)).update(
        status="failed", awaited=0, error="x", ended_at=timezone.now()
    )


def played(order: WorkOrder, at_once: int, turns: Iterator[int]) -> None:
    """Workers take runs in any order; at every moment no more are under way than may be."""
    while True:
        due = [key for key, _ in lost_runs.due_again(
            now=timezone.now(), patience=dt.timedelta(hours=-1))]  # fmt: skip
        if not due:
            return
        run_id = due[next(turns) % len(due)]
        if next(turns) % 5 == 0:  # its worker is lost
            Run.objects.filter(pk=run_id, status="pending").update(
                status="running", lease_owner="gone:1", epoch=F("epoch") + 1,
                lease_until=timezone.now() - dt.timedelta(hours=1),
            )  # fmt: skip
        else:
            advance(run_id, budget=60)
        assert live(order) <= at_once
        parent = Run.objects.get(work_order=order, depth=0)
        if parent.awaited:
            assert parent.gather_live == live(order)


@ONE
@examples(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    count=st.integers(1, 9),
    at_once=st.integers(1, 6),
    bad=st.sets(st.integers(0, 8), max_size=3),
    turns=st.lists(st.integers(0, 50), min_size=1, max_size=20),
)
def test_never_more_than_at_once_are_under_way_and_each_is_done_once(
    many, settings, count, at_once, bad, turns
):
    settings.WAYSTATION_LOST_ATTEMPTS = 1_000
    steps.CALLS.clear()
    PLAYS["count"] = lambda state, context: (
        fails(state, context) if state["number"] in bad
        else Go(update={"count": 1, "said": [str(state["number"])]})
    )  # fmt: skip
    order = many(count, at_once=at_once, on_child_failure="continue")

    def endless() -> Iterator[int]:
        while True:
            yield from turns
            yield 1  # not all of them are lost

    played(order, at_once, endless())
    order = fresh(order)
    assert order.status == "completed"
    good = [str(number) for number in range(count) if number not in bad]
    assert state_of(order).get("said", []) == good
    assert Run.objects.filter(work_order=order, depth=1).count() == count


def test_of_two_who_start_the_next_at_once_one_does(many):
    """The parent's row is taken by compare-and-set, and the key of a child is its place."""
    order = many(3, at_once=1)
    [(first, _)] = advance(order.latest_run_id, budget=60)
    kept = plans.of(fresh(order).thread.head)
    assert kept is not None
    assert plans.starting(kept, 0, 1)[0].run_id == first
    assert children.start_more(order.latest_run_id).woken == []
    advance(first, budget=60)
    assert children.start_more(order.latest_run_id).woken == []
    assert Run.objects.filter(depth=1).count() == 2


@ONE
def test_a_child_that_a_person_ends_makes_room_at_the_next_look(many, ana):
    order = many(2, subs=[sub("count", **ASKING)], at_once=1, on_child_failure="continue")
    work_off()
    services.decide(asked("c0").pk, Answer("cancel", Via.REST), by=ana)
    assert live(order) == 0
    due = lost_runs.due_again(now=timezone.now(), patience=dt.timedelta())
    assert (order.latest_run_id, "steps") in due
    work_off()
    assert asked("c1")
    answer(asked("c1"), ana)
    assert fresh(order).status == "completed"
