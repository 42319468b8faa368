"""Child runs over REST: made by a step template, seen, answered and ended."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission

from runs.models import Pause, Run
from tests.conftest import drive
from tests.runs.engine.children.crews import ASKING, PLAYS, fails, kids, sub, work_off
from tests.runs.engine.children.crews import crew as crew
from tests.worlds import steps as test_steps  # registers the test steps

pytestmark = pytest.mark.django_db


@pytest.fixture
def call(api, ana):
    def call(method: str, path: str, body: Any = None, *, by=ana, status: int = 200) -> Any:
        response = getattr(api(by), method)(f"/api/v1/{path}", body, format="json")
        assert response.status_code == status, response.content
        return response.json()

    return call


def asked(name: str) -> Pause:
    return Pause.objects.open().get(run__child_name=name)


def test_sub_steps_are_saved_and_read_over_rest(call, templates, ana):
    """S4-5, S4-12: as the next version; a template that names them runs them."""
    ana.user_permissions.add(
        *Permission.objects.filter(codename__in=["add_steptemplate", "add_template"])
    )
    subs = [
        {"step_type": "planning", "name": name, "step_template_slug": "test-plan"}
        for name in ("one", "two")
    ]
    saved = call(
        "put",
        "templates/steps/duo",
        {"title": "Duo", "config": {"parallel": True}, "sub_steps": subs},
    )
    assert (saved["version"], saved["function"], saved["sub_steps"]) == (1, "flow.sub_steps", subs)
    assert call("get", "templates/steps/duo") == saved
    assert call("put", "templates/steps/duo", {"title": "Duo", "sub_steps": subs})["version"] == 2
    listed = [
        {
            "step_type": "planning",
            "step_template_slug": "duo",
            "interrupt_after": True,
            "queue": "agents",
        }
    ]
    assert (
        call(
            "put",
            "templates/workflows/duo",
            {"title": "Duo", "steps": listed, "needs_repository": False},
        )["version"]
        == 1
    )
    assert test_steps.CALLS == []


def test_step_templates_that_cannot_run_are_refused(call, templates, ana, subtests):
    ana.user_permissions.add(Permission.objects.get(codename="add_steptemplate"))
    child = {"step_type": "planning", "step_template_slug": "test-plan"}
    cases: list[dict[str, Any]] = [
        {"sub_steps": [{**child, "step_template_slug": "nothing"}]},
        {"sub_steps": [{**child, "queue": "nowhere"}]},
        {"sub_steps": [{**child, "interrupt_before": "yes"}]},
        {"function": "nothing.at_all"},
        {},
    ]
    for body in cases:
        with subtests.test(str(body)[:60]):
            refused = call("put", "templates/steps/bad", {"title": "Bad", **body}, status=422)
            assert refused["code"] == "template_invalid"
            missing = call("get", "templates/steps/bad", status=404)
            assert missing["code"] == "template_not_found"


def test_with_several_questions_open_an_answer_must_name_its_own(call, crew):
    """C16, F3: never "the next one of the order"."""
    order = crew([sub("one", **ASKING), sub("two", **ASKING)], parallel=True)
    work_off()
    assert call("get", f"work-orders/{order.shown_id}")["status"] == "paused"
    first, second = sorted(pause.shown_id for pause in Pause.objects.open())
    state = call("get", f"work-orders/{order.shown_id}/pause-state")
    assert (state["id"], state["also_open"]) == (first, [second])
    refused = call(
        "post", f"work-orders/{order.shown_id}/resume", {"decision": "approve"}, status=409
    )
    assert refused["code"] == "several_questions"
    assert sorted(refused["pause_ids"]) == sorted(pause.shown_id for pause in Pause.objects.open())
    assert (
        call("post", f"threads/{order.thread.shown_id}/runs", {"input": "APPROVE"}, status=409)[
            "code"
        ]
        == "several_questions"
    )
    call(
        "post",
        f"work-orders/{order.shown_id}/resume",
        {"decision": "approve", "pause_id": asked("two").shown_id},
    )
    assert [pause.run.child_name for pause in Pause.objects.open()] == ["one"]
    state = call("get", f"work-orders/{order.shown_id}/pause-state")
    assert (state["id"], state["also_open"]) == (asked("one").shown_id, [])
    # the only one left
    call("post", f"work-orders/{order.shown_id}/resume", {"decision": "approve"})
    work_off()
    assert call("get", f"work-orders/{order.shown_id}")["status"] == "completed"


@pytest.mark.one_database
def test_what_becomes_of_a_childs_question_is_news_to_who_polls_its_order(
    call, crew, api, ana, ben
):
    """S4-67: its own log tells of it, and the order's does not; the answer stayed 304."""
    order = crew([sub("one", **ASKING), sub("two")], parallel=True)
    work_off()
    address = f"/api/v1/work-orders/{order.shown_id}/pause-state"
    seen = api(ana).get(address)
    for path, held_by in (("claim", "ben"), ("release", None)):
        assert api(ana).get(address, headers={"If-None-Match": seen["ETag"]}).status_code == 304
        call("post", f"pauses/{asked('one').shown_id}/{path}", {}, by=ben)
        seen = api(ana).get(address, headers={"If-None-Match": seen["ETag"]})
        assert seen.status_code == 200, path
        claim = seen.json()["review"]["claim"]
        assert (claim and claim["by"]) == held_by


@pytest.mark.one_database
def test_a_run_that_asks_has_a_word_of_its_own(call, crew):
    """S0-83, C5: it was `paused`, as one is that waits for its children and asks nobody."""
    order = crew([sub("one", **ASKING)])
    started = call("get", f"runs/{order.latest_run.shown_id}")
    work_off()
    kid = Run.objects.exclude(parent=None).get()

    def words(run: Run) -> tuple[str, str]:
        seen = call("get", f"runs/{run.shown_id}")
        listed = {one["id"]: one for one in call("get", "runs")["results"]}
        assert listed[seen["id"]]["state"] == seen["state"]
        return seen["status"], seen["state"]

    assert (started["status"], started["state"]) == ("pending", "pending")
    assert words(kid) == ("paused", "pending_input")
    assert words(order.latest_run) == ("paused", "paused")
    call("post", f"runs/{kid.shown_id}/input", {"content": "APPROVE"}, status=201)
    work_off()
    assert words(kid) == words(order.latest_run) == ("completed", "completed")


def test_a_child_run_is_seen_and_ended_by_itself(call, crew):
    """Its order then fails, and says because of whom."""
    order = crew([sub("one", **ASKING), sub("two")], parallel=True)
    work_off()
    run = kids(order)["one"]
    seen = call("get", f"runs/{run.shown_id}")
    assert (seen["parent_run_id"], seen["child_name"], seen["work_order_id"]) == (
        order.latest_run.shown_id,
        "one",
        order.shown_id,
    )
    assert call("get", f"runs/{order.latest_run.shown_id}")["awaited"] == 1
    assert call("post", f"runs/{run.shown_id}/cancel")["status"] == "cancelled"
    work_off()
    after = call("get", f"work-orders/{order.shown_id}")
    assert (after["status"], after["failure_code"]) == ("failed", "child_failed")
    assert "one did not complete" in after["error_message"]


def test_a_childs_checkpoint_is_not_forked_by_itself(call, crew):
    order = crew([sub("one")])
    work_off()
    child = kids(order)["crew"]
    head = child.thread.checkpoints.latest("created_at")
    for body in ({"reason": "x"}, {"reason": "x", "state": {}}):
        assert (
            call("post", f"checkpoints/{head.shown_id}/fork", body, status=409)["code"]
            == "cannot_fork"
        )
    first = child.thread.checkpoints.earliest("created_at")
    assert (
        "child run"
        in call("post", f"checkpoints/{first.shown_id}/fork", {"reason": "x"}, status=409)["detail"]
    )
    refused = call("post", f"runs/{child.shown_id}/resume", {}, status=409)
    assert refused["code"] == "run_live"


def test_an_order_is_forked_from_before_its_children_and_runs_new_ones(call, crew):
    """S0-80: the old family stays in the history."""
    order = crew([sub("one"), sub("two")], parallel=True)
    work_off()
    before = order.thread.checkpoints.get(node_id="planning")
    call("post", f"checkpoints/{before.shown_id}/fork", {"reason": "again"}, status=201)
    work_off()
    assert call("get", f"work-orders/{order.shown_id}")["status"] == "completed"
    assert Run.objects.filter(work_order=order, depth=1).count() == 4


def test_a_failed_child_is_retried_with_its_order_over_rest(call, crew):
    PLAYS["two"] = fails
    order = crew([sub("one"), sub("two")], parallel=True)
    work_off()
    assert call("get", f"work-orders/{order.shown_id}")["failure_code"] == "child_failed"
    PLAYS["two"] = PLAYS["one"]
    call("post", f"work-orders/{order.shown_id}/retry")
    work_off()
    assert drive(order).status == "completed"
