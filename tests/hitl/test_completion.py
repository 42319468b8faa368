"""The completion checklist of S4, box by box: each is ticked by what the product does when somebody
tries it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.test import Client
from rest_framework.test import APIClient

from runs import tasks
from runs.models import Pause, WorkOrder
from tests import run
from tests.conftest import drive, log_lines, pause_of
from tests.doors.html import with_sign
from tests.doors.rest import ORDERS
from tests.worlds import steps

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parent.parent.parent
CHECKLIST = """
Database migration for pause states created and run
Work order checkpoint columns added
Pause phases added to AgentWorkflowPhase enum
WorkflowPauseState model created
PauseDecision enum created
PauseService implemented (create, get, resume methods)
Workflow orchestrator pause logic added (_pause_for_approval method)
Resume events (asyncio.Event) working
Three checkpoint integrations (after planning, execute, review)
Revision logic works (re-run step with feedback)
Cancellation logic works (fail work order)
Pause API routes created (resume, get pause state)
PauseStateCard component created
usePauseQueries hook created (with polling)
Detail view shows pause state
All backend tests pass
All frontend tests pass
No ruff/mypy/TypeScript errors
Integration test completes full pause/resume cycle
Multiple checkpoints work
Workflows without checkpoints still work (backward compat)
"""
"""As the document prints it.

Its names of modules and classes are those of another product (C1, C17, C18): what they do is looked
at.
"""


class Try:
    """An order as a program and a browser see it; a worker takes its turn when it is told to."""

    def __init__(
        self, client: APIClient, page: Client, committing: Callable[[], Any], told: list[str]
    ) -> None:
        self.client, self.page, self.committing, self.told = client, page, committing, told

    def order(self, template: str = "writing") -> None:
        made = self.client.post(ORDERS, {"template": template}, format="json")
        assert made.status_code == 201, made.json()
        self.address = f"{ORDERS}/{made.json()['agent_work_order_id']}"
        self.row = WorkOrder.objects.latest("id")

    def paused(self) -> Any:
        self.order()
        return self.work()

    def work(self) -> Any:
        """Gives the pause that it comes to, or None."""
        self.row = drive(self.row)
        return self.get("/pause-state")

    def get(self, tail: str = "", **headers: str) -> Any:
        return self.client.get(f"{self.address}{tail}", headers=headers).json()

    def resume(self, decision: str, **more: str) -> int:
        return int(
            self.client.post(
                f"{self.address}/resume", {"decision": decision, **more}, format="json"
            ).status_code
        )

    def shown(self) -> str:
        shown = self.page.get(f"/work-orders/{self.row.shown_id}/").content.decode()
        return with_sign(shown)


@pytest.fixture
def tried(templates, ana, api, page, sending_at_once, monkeypatch, committing):
    told: list[str] = []
    monkeypatch.setattr(
        tasks.advance_run, "apply_async", lambda arguments, queue, priority: told.extend(arguments)
    )
    return Try(api(ana), page, committing, told)


def the_table_of_pauses(tried: Try) -> None:
    tried.paused()
    executor = MigrationExecutor(connection)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
    with connection.cursor() as cursor:
        columns = {
            one.name for one in connection.introspection.get_table_description(cursor, "runs_pause")
        }
        cursor.execute("SELECT status, phase FROM runs_pause")
        assert cursor.fetchall() == [("open", "awaiting_plan_approval")]
    assert {"id", "run_id", "phase", "content", "status", "opened_at", "closed_at"} <= columns
    second = {
        field.attname: getattr(pause_of(tried.row), field.attname)
        for field in Pause._meta.concrete_fields
        if field.name != "id"
    }
    with pytest.raises(IntegrityError), transaction.atomic():
        Pause.objects.bulk_create([Pause(**second)])


def what_an_order_resumes_from(tried: Try) -> None:
    tried.order()
    assert not tried.get()["last_checkpoint"]
    tried.work()
    order = tried.get()
    assert order["last_checkpoint"] == "awaiting_plan_approval"
    assert order["checkpoint_data"]["step_outputs"]["planning"]["content"].startswith("# Plan 1")


def the_model_of_a_pause(tried: Try) -> None:
    wanted = {
        "id", "agent_work_order_id", "pause_phase", "pause_content", "pause_timestamp",
        "resume_timestamp", "user_decision",
        "user_feedback", "status", "created_at", "updated_at",
    }  # fmt: skip
    assert wanted <= set(tried.paused())


def the_decisions(tried: Try) -> None:
    for decision in ("approve", "revise", "cancel"):
        pause = tried.paused()
        assert tried.resume(decision, feedback="shorter") == 200
        assert tried.client.get(f"/api/v1/pauses/{pause['id']}").json()["user_decision"] == decision
    tried.paused()
    assert tried.resume("maybe") == 422


def the_service_of_pauses(tried: Try) -> None:
    tried.order()
    assert tried.get("/pause-state") is None
    made = tried.work()
    assert (made["status"], made["user_decision"], made["resume_timestamp"]) == (
        "active",
        None,
        None,
    )
    assert tried.get("/pause-state") == made
    assert tried.resume("revise", feedback="shorter") == 200
    assert tried.get("/pause-state") is None
    resolved = tried.client.get(f"/api/v1/pauses/{made['id']}").json()
    assert (resolved["status"], resolved["user_decision"], resolved["user_feedback"]) == (
        "resolved",
        "revise",
        "shorter",
    )
    assert resolved["resume_timestamp"] > made["pause_timestamp"]


def the_orchestrator_pauses(tried: Try) -> None:
    pause = tried.paused()
    assert pause["pause_content"].startswith("# Plan 1"), "what its step came to"
    assert log_lines(tried.row) == ["Executing step: planning", "Workflow paused"]
    assert [("planning", steps.CALLS[0][1])] == steps.CALLS


def a_decision_wakes(tried: Try) -> None:
    tried.paused()
    tried.told.clear()
    with tried.committing():
        assert tried.resume("approve") == 200
    assert tried.told == [str(tried.row.latest_run_id)], "one message, after the commit"
    tasks.advance_run(tried.told[0])
    assert tried.get()["current_phase"] == "awaiting_implementation_review"


def a_revision(tried: Try) -> None:
    first = tried.paused()
    assert tried.resume("revise", feedback="Add error handling") == 200
    second = tried.work()
    assert [step for step, _ in steps.CALLS] == ["planning", "planning"]
    assert (
        "Add error handling" in second["pause_content"]
        and "Add error handling" not in first["pause_content"]
    )
    assert (second["id"] != first["id"], second["revision"]) == (True, 2)
    assert log_lines(tried.row)[-5:-1] == [
        "Workflow resumed with decision: revise",
        "Re-running step: planning with feedback",
        "Revision feedback: Add error handling",
        "Executing step: planning",
    ]


def a_cancellation(tried: Try) -> None:
    tried.paused()
    assert tried.resume("cancel") == 200
    assert tried.work() is None
    order = tried.get()
    assert (order["status"], order["error_message"], order["failure_code"]) == (
        "failed",
        "Cancelled by user at planning phase",
        "cancelled_by_user",
    )
    assert [step for step, _ in steps.CALLS] == ["planning"]


def the_routes(tried: Try) -> None:
    pause = tried.paused()
    printed = f"/api/agent-work-orders/{tried.row.shown_id}"
    assert tried.client.get(f"{printed}/pause-state").json() == pause
    answered = tried.client.post(f"{printed}/resume", {"decision": "approve"}, format="json")
    assert (answered.status_code, answered.json()["success"]) == (200, True)
    assert tried.client.get(f"{printed}/pause-state").json() is None


def the_card(tried: Try) -> None:
    tried.paused()
    [card] = re.findall(r'<article class="card pause".*?</article>', tried.shown(), re.DOTALL)
    for words in (
        "⏸️ Waiting for Plan Approval",
        "<h1>Plan 1</h1>",
        "Paused just now",
        "Approve",
        "Revise",
        "Cancel",
    ):
        assert words in card


def the_polling(tried: Try) -> None:
    tried.paused()
    address = f"{tried.address}/pause-state"
    etag = tried.client.get(address)["ETag"]
    assert tried.client.get(address, headers={"if-none-match": etag}).status_code == 304
    assert 'data-terminal="false"' in tried.shown()
    assert tried.resume("cancel") == 200
    changed = tried.client.get(address, headers={"if-none-match": etag})
    assert (changed.status_code, changed.json()) == (200, None)
    assert 'data-terminal="true"' in tried.shown(), "and the page asks no more"


def the_page_shows_it(tried: Try) -> None:
    tried.order()
    assert "⏸️" not in tried.shown()
    tried.work()
    shown = tried.shown()
    assert (
        shown.index('<h1 dir="auto">Writing')
        < shown.index("⏸️ Waiting for Plan Approval")
        < shown.index("Execution log")
    )


def the_tests_are_run(_: Try) -> None:
    """That they pass is told by the run that this one is of; here, that it leaves none out and
    takes no failure for a success.
    """
    assert "-m tests.run" in would_run("test")
    assert not {"-k", "-m", "--ignore", "--deselect", "--lf"} & set(run.SPREAD)
    lenient = "x" + "fail"
    assert [path for path in (ROOT / "tests").rglob("*.py") if lenient in path.read_text()] == []


def the_browsers_tests_are_run(_: Try) -> None:
    """As above: the run fails without a browser, and no story steps aside."""
    assert "chromium-headless-shell" in run.NEEDED
    stories = [
        text
        for path in (ROOT / "tests" / "stories").rglob("test_*.py")
        if "open_page" in (text := path.read_text())
    ]
    assert len(stories) > 5 and not [
        text for text in stories if re.search(r"mark\.skip|pytest\.skip|importorskip", text)
    ]


def the_linters_are_run(_: Try) -> None:
    check = would_run("check")
    for command in (
        "ruff format --check .",
        "ruff check .",
        "mypy extensions project hitl runs checkpoints tests",
        "-m tests.node.javascript",
    ):
        assert command in check
    programs = json.loads((ROOT / "tests" / "node" / "package.json").read_text())["dependencies"]
    assert {"typescript", "@biomejs/biome"} <= set(programs)


def would_run(target: str) -> str:
    return subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def a_whole_cycle(tried: Try) -> None:
    first = tried.paused()
    assert tried.resume("approve") == 200
    second = tried.work()
    assert (second["id"] != first["id"], second["pause_phase"]) == (
        True,
        "awaiting_implementation_review",
    )
    assert log_lines(tried.row)[-3:] == [
        "Workflow resumed with decision: approve",
        "Executing step: execute",
        "Workflow paused",
    ]
    assert [step for step, _ in steps.CALLS] == ["planning", "execute"], (
        "what was done before the pause is not done again"
    )


def after_each_of_three_steps(tried: Try) -> None:
    tried.order()
    phases, asked = [tried.get()["current_phase"]], []
    while pause := tried.work():
        asked.append(pause["pause_phase"])
        phases.append(tried.get()["current_phase"])
        assert tried.resume("approve") == 200
        phases.append(tried.get()["current_phase"])
    order = tried.get()
    assert asked == phases[1::2] == [
        "awaiting_plan_approval", "awaiting_implementation_review", "awaiting_review_decision",
    ]  # fmt: skip
    assert [*phases[::2], order["current_phase"]] == [
        "planning", "executing", "reviewing", "reviewing", "completed",
    ]  # fmt: skip
    assert [step for step, _ in steps.CALLS] == ["planning", "execute", "review", "finish"]
    assert (order["status"], order["git_commit_count"]) == ("completed", 2)
    assert order["last_checkpoint"] == "awaiting_review_decision"


def no_pauses(tried: Try) -> None:
    tried.order("writing-quick")
    assert tried.work() is None
    order = tried.get()
    assert (order["status"], order["git_commit_count"], order["last_checkpoint"]) == (
        "completed",
        2,
        None,
    )
    assert not Pause.objects.exists() and "Workflow paused" not in log_lines(tried.row)


LOOKS = [
    the_table_of_pauses, what_an_order_resumes_from, after_each_of_three_steps,
    the_model_of_a_pause, the_decisions, the_service_of_pauses,
    the_orchestrator_pauses, a_decision_wakes, after_each_of_three_steps, a_revision,
    a_cancellation, the_routes, the_card, the_polling,
    the_page_shows_it, the_tests_are_run, the_browsers_tests_are_run, the_linters_are_run,
    a_whole_cycle, after_each_of_three_steps, no_pauses,
]  # fmt: skip
"""What is looked at for each box, in their order; what ticks several is done once."""
BOXES = {look: box for box, look in zip(CHECKLIST.strip().splitlines(), LOOKS, strict=True)}


@pytest.mark.parametrize("look", BOXES, ids=BOXES.values())
def test_each_box_of_the_completion_checklist_is_ticked(tried, look):
    """S4-64: before, a box was ticked where the docstring of any test named its numbers, whatever
    that test did. They look at the levels of S4-57, S4-58, S4-61 and S4-62 too, and at S4-18,
    S4-19, S4-21, S4-24, S4-28, S4-29, S4-30, S4-32, S4-33, S4-37, S4-38, S4-48, S4-50, S4-52 and
    S4-53.
    """
    look(tried)
