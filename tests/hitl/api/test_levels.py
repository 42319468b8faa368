"""The validation levels of S4, as a program walks them over the API."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from runs.engine.recovery import lost_runs
from runs.models import Pause, WorkOrder
from tests.conftest import drive, log_lines
from tests.databases.whole import rows
from tests.doors.rest import ORDERS, problem
from tests.doors.rest import ana_api as ana_api
from tests.doors.rest import editor_api as editor_api
from tests.worlds import steps
from tests.worlds.repositories import make_repository

pytestmark = pytest.mark.django_db


class Walk:
    """One work order as a program sees it; the worker takes its turn after each request."""

    def __init__(self, client, **order):
        self.client = client
        response = client.post(ORDERS, order, format="json")
        assert response.status_code == 201, response.json()
        self.id = response.json()["agent_work_order_id"]
        self.row = WorkOrder.objects.get()
        self.work()

    def work(self):
        self.row = drive(self.row)

    def get(self, path=""):
        return self.client.get(f"{ORDERS}/{self.id}{path}").json()

    def resume(self, status=200, **answer):
        response = self.client.post(f"{ORDERS}/{self.id}/resume", answer, format="json")
        assert response.status_code == status, response.json()
        self.work()
        return response.json()


# The levels, each on a template that pauses and on one that does not.


def test_level_3_pause_at_planning(editor_api, tmp_path):
    """S4-56, S4-35, S4-9: before, the template had no further step that could have run, and nothing
    was tried that could have run one.
    """
    step = {
        "step_type": "planning",
        "step_template_slug": "test-plan",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
    }
    further = {"step_type": "execute", "step_template_slug": "test-work"}
    put = editor_api.put(
        "/api/v1/templates/workflows/standard-dev", {"steps": [step, further]}, format="json"
    )
    assert (put.status_code, put.json()["version"]) == (200, 1)
    repository = make_repository(tmp_path / "repository", {"a.py": "a = 1\n"})
    order = Walk(
        editor_api, template="standard-dev", repository_url=str(repository), user_request="Add auth"
    )
    pause = order.get("/pause-state")
    assert (pause["agent_work_order_id"], pause["pause_phase"], pause["status"]) == (
        order.id,
        "awaiting_plan_approval",
        "active",
    )
    assert pause["pause_content"].startswith("# Plan 1")
    assert pause["pause_timestamp"]
    assert Pause.objects.open().get().shown_id == pause["id"]
    assert log_lines(order.row) == ["Executing step: planning", "Workflow paused"]
    assert (order.get()["status"], order.get()["current_phase"]) == (
        "paused",
        "awaiting_plan_approval",
    )
    before = rows()
    order.work()  # a message that comes late, or twice
    a_year_on = timezone.now() + dt.timedelta(days=365)
    assert lost_runs.due_again(now=a_year_on, patience=dt.timedelta(0)) == {}, (
        "no worker is told of it, though nobody answers"
    )
    assert rows() == before
    assert [step for step, _ in steps.CALLS] == ["planning"]


def test_level_3_without_pauses(ana_api):
    order = Walk(ana_api, template="writing-quick")
    assert order.get("/pause-state") is None
    assert order.get()["status"] == "completed"


def test_level_4_resume_with_approval(ana_api):
    """S4-57, S4-24, S4-32, S4-52."""
    order = Walk(ana_api, template="writing")
    pause_id = order.get("/pause-state")["id"]
    assert (
        ana_api.post(f"{ORDERS}/{order.id}/resume", {"decision": "approve"}, format="json").json()[
            "success"
        ]
        is True
    )
    assert (order.get()["status"], order.get()["current_phase"]) == ("pending", "executing")
    assert order.get("/pause-state") is None
    resolved = ana_api.get(f"/api/v1/pauses/{pause_id}").json()
    assert (resolved["status"], resolved["user_decision"], resolved["decided_by"]) == (
        "resolved",
        "approve",
        "ana",
    )
    assert resolved["resume_timestamp"]
    order.work()
    assert log_lines(order.row)[-3:] == [
        "Workflow resumed with decision: approve",
        "Executing step: execute",
        "Workflow paused",
    ]


def test_level_4_without_pauses(ana_api):
    """S4-32: only a pause can be resumed."""
    order = Walk(ana_api, template="writing-quick")
    before = rows()
    problem(
        ana_api.post(f"{ORDERS}/{order.id}/resume", {"decision": "approve"}, format="json"),
        409,
        "not_paused",
    )
    assert rows() == before


def test_level_5_resume_with_revision_feedback(ana_api):
    """S4-58, S4-29."""
    order = Walk(ana_api, template="writing")
    first = order.get("/pause-state")
    order.resume(decision="revise", feedback="Add security considerations to the plan.")
    second = order.get("/pause-state")
    assert (second["revision"], second["pause_phase"]) == (2, "awaiting_plan_approval")
    assert "Add security considerations" in second["pause_content"]
    assert second["id"] != first["id"]
    answered = ana_api.get(f"/api/v1/pauses/{first['id']}").json()
    assert answered["user_feedback"] == "Add security considerations to the plan."
    assert log_lines(order.row)[-5:-1] == [
        "Workflow resumed with decision: revise",
        "Re-running step: planning with feedback",
        "Revision feedback: Add security considerations to the plan.",
        "Executing step: planning",
    ]


def test_level_5_without_pauses(ana_api):
    order = Walk(ana_api, template="writing-quick")
    assert order.resume(409, decision="revise", feedback="too late")["code"] == "not_paused"
    assert [step for step, _ in steps.CALLS].count("planning") == 1


def test_level_8_cancel_workflow(ana_api):
    """S4-61, S4-30, S4-52."""
    order = Walk(ana_api, template="writing")
    assert order.resume(decision="cancel")["success"] is True
    shown = order.get()
    assert (shown["status"], shown["error_message"]) == (
        "failed",
        "Cancelled by user at planning phase",
    )
    assert shown["failure_code"] == "cancelled_by_user"
    assert order.get("/pause-state") is None
    assert [step for step, _ in steps.CALLS] == ["planning"]


def test_level_8_without_pauses(ana_api):
    """An order that waits for a worker is cancelled by its own route."""
    made = ana_api.post(ORDERS, {"template": "writing-quick"}, format="json").json()
    assert ana_api.post(f"{ORDERS}/{made['id']}/cancel").json() == {"success": True}
    drive(WorkOrder.objects.get())
    shown = ana_api.get(f"{ORDERS}/{made['id']}").json()
    assert (shown["status"], shown["error_message"]) == (
        "failed",
        "Cancelled by user at planning phase",
    )
    assert steps.CALLS == []


def test_level_9_multiple_checkpoints(ana_api):
    """S4-62."""
    order = Walk(ana_api, template="writing")
    seen = []
    for _ in range(3):
        seen.append(order.get("/pause-state")["pause_phase"])
        assert order.resume(decision="approve")["success"] is True
    assert seen == [
        "awaiting_plan_approval",
        "awaiting_implementation_review",
        "awaiting_review_decision",
    ]
    shown = order.get()
    assert (shown["status"], shown["current_phase"], shown["git_commit_count"]) == (
        "completed",
        "completed",
        2,
    )
    assert shown["last_checkpoint"] == "awaiting_review_decision"  # S4-18


def test_level_9_without_pauses(ana_api):
    order = Walk(ana_api, template="writing-quick")
    shown = order.get()
    assert (shown["status"], shown["git_commit_count"], shown["last_checkpoint"]) == (
        "completed",
        2,
        None,
    )


def test_level_10_no_pause_workflow(editor_api, tmp_path):
    """S4-63, S4-11."""
    plan = {"step_type": "planning", "step_template_slug": "test-plan", "pause_after": False}
    work = {"step_type": "execute", "step_template_slug": "test-work", "pause_after": False}
    assert (
        editor_api.put(
            "/api/v1/templates/workflows/quick-fix", {"steps": [plan, work]}, format="json"
        ).status_code
        == 200
    )
    repository = make_repository(tmp_path / "repository", {"a.py": "a = 1\n"})
    order = Walk(editor_api, template="quick-fix", repository_url=str(repository))
    assert order.get()["status"] == "completed"
    assert not Pause.objects.exists()
    assert not any("paused" in line for line in log_lines(order.row))


def test_level_10_on_a_template_that_pauses_again_after_an_edit(editor_api):
    """P10: the order made before keeps the version it was made with."""
    order = Walk(editor_api, template="writing-quick")
    pausing = [
        {
            "step_type": "planning",
            "step_template_slug": "test-plan",
            "pause_after": True,
            "pause_phase": "awaiting_plan_approval",
        }
    ]
    put = editor_api.put(
        "/api/v1/templates/workflows/writing-quick", {"steps": pausing}, format="json"
    )
    assert put.json()["version"] == 2
    assert (order.get()["template_version"], order.get()["status"]) == (1, "completed")
