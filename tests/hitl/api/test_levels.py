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

    S4-22, S4-28, S4-38.
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


@pytest.mark.one_database
def test_a_program_that_only_polls_sees_each_pause_and_answers_it_in_three_ways(editor_api):
    """S4-65, S4-6, S4-11, S4-63: the same steps run through where nothing pauses, and otherwise
    take as long as people do.
    """
    plan = {"step_type": "planning", "step_template_slug": "test-plan"}
    steps = [plan, {"step_type": "execute", "step_template_slug": "test-work"}]
    pauses = {"pause_after": True, "pause_phase": "awaiting_plan_approval"}
    address, orders = "/api/v1/templates/workflows/polled", {}

    def order(*steps):
        put = editor_api.put(address, {"steps": steps, "needs_repository": False}, format="json")
        assert put.status_code == 200, put.json()
        made = editor_api.post(ORDERS, {"template": "polled"}, format="json").json()
        return drive(WorkOrder.objects.latest("pk")), f"{ORDERS}/{made['id']}"

    through, _ = order(*steps)
    assert (through.status, Pause.objects.count()) == ("completed", 0)
    for decision in ("approve", "revise", "cancel"):
        orders[decision], at = order({**plan, **pauses}, steps[1])
        polled = editor_api.get(f"{at}/pause-state")
        for _ in range(3):
            drive(orders[decision])
            again = editor_api.get(f"{at}/pause-state", headers={"If-None-Match": polled["ETag"]})
            assert again.status_code == 304, "it waits, however often somebody looks"
        said = {"decision": decision, "feedback": "shorter"}
        told = editor_api.post(f"{at}/resume", said, format="json").json()
        assert told["success"] is True
        drive(orders[decision])
        now = editor_api.get(f"{at}/pause-state", headers={"If-None-Match": polled["ETag"]})
        assert now.status_code == 200
        asked = now.json() and now.json()["revision"]
        status = editor_api.get(at).json()["status"]
        assert (status, asked) == {
            "approve": ("completed", None),
            "revise": ("paused", 2),
            "cancel": ("failed", None),
        }[decision]


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
