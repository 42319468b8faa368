"""Retries, time limits, skipping, loops, recorded results: what a template step says about
itself.
"""

from __future__ import annotations

import copy
import datetime as dt
import threading
from contextlib import suppress
from typing import Any

import pytest
from django.utils import timezone

from checkpoints.models import Event, Memo
from hitl.threads import time_spent
from runs import definitions
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Run
from runs.models import templates as recipe_models
from runs.workflows.base import Go, StepFailed
from runs.workflows.sequence import retry_delay
from tests.conftest import drive, fresh, log_lines, pause_of
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
ANY = {"attempts": 3, "base": 5, "cap": 60}


def later(order):
    """Let the time of the next try come."""
    Run.objects.filter(work_order=order).update(due_at=timezone.now())
    return drive(order)


def test_a_failing_step_is_tried_again_later_and_then_goes_on(order_that):
    tries = []

    def flaky(state, context):
        tries.append(context.key)
        if len(tries) < 3:
            raise ConnectionError("the shop hung up")
        return Go(update={"bought": True})

    order = drive(order_that(flaky, retry=ANY))
    assert (order.status, order.latest_run.attempts) == ("pending", 1)
    assert order.latest_run.due_at <= timezone.now() + dt.timedelta(seconds=5)
    assert later(order).latest_run.attempts == 2
    assert later(order).status == "completed"
    assert len(tries) == 3
    assert len(set(tries)) == 1  # the same idempotency key at every try
    assert fresh(order).latest_run.attempts == 0


def test_a_run_that_waits_for_its_next_try_is_not_picked_up_before(order_that):
    def failing(state, context):
        raise ConnectionError("no")

    order = drive(order_that(failing, retry={"attempts": 2, "base": 3600, "cap": 3600}))
    Run.objects.update(due_at=timezone.now() + dt.timedelta(minutes=5))
    assert advance(order.latest_run.pk, budget=1) == []
    spent = time_spent.of_thread(order.thread_id, asked_at=order.created_at, now=timezone.now())
    assert (spent.spans[-1].what, spent.spans[-1].open) == ("retry", True)
    assert lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(0)) == {}


def test_a_run_that_waits_for_its_next_try_is_cancelled_at_once_and_not_tried_again(
    order_that, ana
):
    """Tried after restate#3656: in its pause between tries an invocation could not be cancelled."""
    tries = []

    def failing(state, context):
        tries.append(1)
        raise ConnectionError("no")

    order = drive(order_that(failing, retry=ANY))
    runs.cancel(order.pk, by=ana)
    assert fresh(order).latest_run.status == "cancelled"
    assert later(order).latest_run.status == "cancelled"
    assert len(tries) == 1


def test_after_its_last_try_the_run_fails_with_the_last_words(order_that):
    def failing(state, context):
        raise StepFailed("The shop is closed.", code="shop_closed")

    order = drive(order_that(failing, retry={"attempts": 2}))
    order = later(order)
    assert (order.status, order.latest_run.failure_code) == ("failed", "shop_closed")
    assert any("Tried 1 time; again in" in line for line in log_lines(order))


@pytest.mark.parametrize(
    ("errors", "again"),
    [
        (["shop_closed"], True),
        (["StepFailed"], True),
        (["Exception"], True),
        (["ValueError"], False),
    ],
)
def test_only_the_errors_that_are_named_are_tried_again(order_that, errors, again):
    def failing(state, context):
        raise StepFailed("closed", code="shop_closed")

    order = drive(order_that(failing, retry={"attempts": 2, "errors": errors}))
    assert order.status == ("pending" if again else "failed")


@pytest.mark.parametrize("attempt", [1, 2, 10, 10_000])
def test_the_delay_is_full_jitter_under_its_cap(attempt):
    assert retry_delay(attempt, base=2, cap=300, jitter=0.0) == 0.0
    assert retry_delay(attempt, base=2, cap=300, jitter=0.999) < min(
        300, 2 * 2 ** min(attempt - 1, 60)
    )
    with pytest.raises(ValueError):
        retry_delay(0, jitter=0.5)


@pytest.mark.django_db(transaction=True)
def test_a_step_that_never_returns_is_ended_and_the_run_goes_its_way(order_that, monkeypatch):
    monkeypatch.setattr("runs.engine.time_limit.GRACE", 0.1)
    ended = threading.Event()

    def endless(state, context):
        try:
            while True:
                sum(range(100))
        finally:
            ended.set()

    order = drive(order_that(endless, timeout=0.2))
    assert order.latest_run.failure_code == "timeout"
    assert ended.wait(5)


def test_a_step_whose_condition_holds_is_passed_over(order_that):
    def never(state, context):
        raise AssertionError("called")

    fits = {"properties": {"drafts": {"minItems": 1}}, "required": ["drafts"]}
    order = drive(order_that(never, skip_when=fits))
    assert order.status == "completed"
    skipped = [event.data for event in Event.objects.filter(kind="step_completed").order_by("seq")]
    assert [one.get("skipped", False) for one in skipped] == [False, True, False]


def test_a_step_whose_condition_does_not_hold_runs(order_that):
    order = drive(
        order_that(
            lambda state, context: Go(update={"ran": 1}), skip_when={"required": ["nothing"]}
        )
    )
    assert state_of(order)["ran"] == 1


def test_a_condition_matches_patterns_in_linear_time(order_that):
    """28 characters against `(a+)+$` kept a worker for 45 s: conditions used Python's `re`."""
    slow = {"properties": {"request": {"pattern": "(a+)+$"}}, "required": ["request"]}
    order = drive(
        order_that(lambda state, context: Go(update={"request": "a" * 5_000 + "b"}), skip_when=slow)
    )
    assert order.status == "completed"


def test_a_frozen_condition_that_is_refused_now_fails_its_step_in_words(order_that):
    """Definitions frozen before the check keep what it refuses; no worker runs it."""
    order = order_that(
        lambda state, context: Go(update={"ran": 1}), skip_when={"required": ["nothing"]}
    )
    steps = copy.deepcopy(order.latest_run.definition.content["steps"])
    [conditional] = [step for step in steps if step.get("skip_when")]
    conditional["skip_when"] = {"patternProperties": {"(a+)+$": {}}}
    frozen = order.latest_run.definition
    recipe_models.Definition.objects.filter(pk=frozen.pk).update(
        content={**frozen.content, "steps": steps}
    )
    recipe_models._definition.cache_clear()
    order = drive(order)
    assert (order.latest_run.failure_code, order.status) == ("skip_when_invalid", "failed")


def test_a_step_may_go_to_itself_and_each_loop_is_a_checkpoint(order_that):
    """S0-31, S0-59, S0-64: loop numbers count up, each has its own key."""

    def loop(state, context):
        return Go(update={"keys": [context.key]}, to="execute" if context.loop_num < 4 else None)

    order = drive(order_that(loop, reducers={"keys": "append"}))
    assert order.status == "completed"
    assert [key.rpartition("/")[2] for key in state_of(order)["keys"]] == ["1", "2", "3", "4"]
    loops = (
        order.thread.checkpoints.filter(node_id="execute")
        .order_by("id")
        .values_list("loop_num", flat=True)
    )
    assert list(loops) == [1, 2, 3, 4]


def test_an_update_that_does_not_fit_its_reducer_fails_the_run_and_names_the_key(order_that):
    order = drive(
        order_that(lambda state, context: Go(update={"total": "three"}), reducers={"total": "add"})
    )
    assert order.latest_run.failure_code == "merge_failed"
    assert "state.total" in order.latest_run.error


def test_what_once_recorded_is_not_done_again_by_a_later_try(order_that):
    """P4, S0-63."""
    charged, tries = [], []

    def charge():
        charged.append(1)
        return {"receipt": len(charged)}

    def buy(state, context):
        tries.append(context.key)
        receipt = context.once("charge", charge)
        if len(tries) == 1:
            raise ConnectionError("after the charge")
        return Go(update=receipt)

    order = drive(order_that(buy, retry={"attempts": 2}))
    order = later(order)
    assert order.status == "completed"
    assert (len(charged), len(tries), Memo.objects.count()) == (1, 2, 1)
    assert state_of(order)["receipt"] == 1


def test_a_retry_of_a_failed_run_keeps_its_key_and_what_was_recorded(order_that, ana):
    """S0-63: also when a person retries."""
    keys, charged = [], []

    def buy(state, context):
        keys.append(context.key)
        context.once("charge", lambda: charged.append(1))
        if len(keys) == 1:
            raise StepFailed("after the charge")
        return Go()

    order = drive(order_that(buy))
    runs.retry(order.pk, by=ana)
    assert drive(order).status == "completed"
    assert (len(charged), len(set(keys))) == (1, 1)


def test_a_key_that_is_a_number_is_its_digits(order_that):
    def count(state, context):
        told = [context.once(7, lambda: "first"), context.once("7", lambda: "second")]
        return Go(update={"told": told})

    assert state_of(drive(order_that(count)))["told"] == ["first", "first"]


def test_once_refuses_what_json_cannot_hold(order_that):
    order = drive(order_that(lambda state, context: context.once("bad", object)))
    assert "once[bad]" in order.latest_run.error


REFUSED: list[dict[str, Any]] = [
    {"retry": {}},
    {"retry": {"attempts": 0}},
    {"retry": {"attempts": 2, "base": -1}},
    {"retry": 3},
    {"timeout": 0},
    {"timeout": "soon"},
    {"skip_when": {"type": 7}},
    {"skip_when": {"$ref": "http://example.org/schema"}},
    {"skip_when": {"properties": {"text": {"pattern": "(?=a)"}}}},
    {"skip_when": {"patternProperties": {"(a+)+$": {}}}},
    {"max_loops": 0},
    {"review": {"quorum": 0}},
    {"review": {"quorum": 2, "reviewers": {"users": ["ana"]}}},
    {"review": {"who": "ana"}},
    {"review": {"reviewers": ["ana"]}},
    {"review": {"deadline": {"after": "two days"}}},
    {"review": {"deadline": {"after": "-P2D"}}},
    {"review": {"deadline": {"after": "P2D", "zone": "Berlin"}}},
    {"review": {"deadline": {"after": "P2D", "outcome": "escalate"}}},
    {"review": {"deadline": {"after": "P2D", "calendar": "nobody's"}}},
    {"review": {"deadline": {"after": "P1.5D"}}},
    {"review": {"deadline": {"after": "P2D", "outcome": "approve"}, "risk": "high"}},
    {
        "review": {"deadline": {"after": "P2D", "outcome": "approve"}},
        "required_inputs": {"type": "object", "properties": {"a": {}}},
    },
    {"review": {"deadline": {"after": "P2D"}, "reminders": ["P3D"]}},
    {
        "review": {
            "deadline": {"after": "P2D"},
            "escalation": [{"after": "P2D", "users": ["ana"]}],
        }
    },
    {"review": {"escalation": [{"after": "P2D"}, {"after": "P1D"}]}},
    {"review": {"link_answers": True}},
]


def test_what_cannot_be_kept_is_refused_when_the_template_is_saved(templates):
    """Policies of a step, and a reducer that is not known."""
    step, kept = {"step_type": "planning", "step_template_slug": "test-plan"}, []
    for policy in REFUSED:
        with suppress(definitions.TemplateInvalid):
            definitions.edit_template("bad", steps=[{**step, **policy}])
            kept.append(policy)
    assert kept == []
    with pytest.raises(definitions.TemplateInvalid):
        definitions.edit_template("bad", steps=[step], reducers={"a": "guess"})


def test_the_rules_of_a_step_are_frozen_with_the_order_and_bind_its_questions(
    templates, make_order
):
    """A later edit of the template changes no question of an order that runs."""
    rules = {
        "quorum": 2,
        "deadline": {"after": "P2D", "zone": "Europe/Berlin", "outcome": "cancel"},
    }
    step = {
        "step_type": "planning",
        "step_template_slug": "test-plan",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
    }
    definitions.edit_template("ruled", steps=[{**step, "review": rules}], needs_repository=False)
    order = make_order("ruled")
    definitions.edit_template("ruled", steps=[step], needs_repository=False)
    assert pause_of(drive(order)).review == rules


def test_a_stop_that_a_person_wanted_has_no_rules_of_a_step(templates, make_order, ana):
    step = {"step_type": "planning", "step_template_slug": "test-plan", "review": {"quorum": 2}}
    definitions.edit_template(
        "ruled", steps=[step, {"step_template_slug": "test-finish"}], needs_repository=False
    )
    order = make_order("ruled")
    runs.suspend(order.pk, by=ana)
    assert pause_of(drive(order)).review == {}
