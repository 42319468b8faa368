"""S4's validation levels 3 to 10, each on the running product: REST alone, and the page for 6 to 8."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.stack

PLAN = {"step_type": "planning", "step_template_slug": "tidy-planning"}
EXECUTE = {"step_type": "execute", "step_template_slug": "tidy-execute"}
REVIEW = {"step_type": "review", "step_template_slug": "tidy-review"}
DELIVER = {"step_type": "deliver", "step_template_slug": "tidy-deliver"}


def asking(step: dict[str, Any], phase: str) -> dict[str, Any]:
    return {**step, "pause_after": True, "pause_phase": phase}


@pytest.fixture(scope="module")
def templates(stack, token) -> None:
    """The levels' own templates, saved as the levels save them."""
    variants = {
        "standard-dev": [asking(PLAN, "awaiting_plan_approval"), EXECUTE, DELIVER],
        "advanced-dev": [
            asking(PLAN, "awaiting_plan_approval"),
            asking(EXECUTE, "awaiting_implementation_review"),
            asking(REVIEW, "awaiting_review_decision"),
            DELIVER,
        ],
        "quick-fix": [PLAN, EXECUTE, DELIVER],
    }
    for slug, steps in variants.items():
        status, answer = stack.call("PUT", f"/api/v1/templates/workflows/{slug}", {"steps": steps}, token=token("olga"))
        assert status == 200, answer


@pytest.fixture
def start(stack, token, templates) -> Callable[[str], str]:
    def make(template: str) -> str:
        body = {"template": template, "repository_url": str(stack.folder / "celery"), "user_request": "Tidy up", "input": {"rules": "I"}}
        status, order = stack.call("POST", "/api/v1/work-orders", body, token=token("ana"))
        assert status == 201, order
        return str(order["agent_work_order_id"])

    return make


def lines(stack, order: str, token: str) -> list[str]:
    """The order's log so far: the stream is left when its last known event was read."""
    last = stack.exchange("GET", f"/api/v1/work-orders/{order}/pause-state", token=token)[1]["ETag"]
    found = []
    events = stack.events(order, token)
    for event in events:
        found.append(event["data"].get("message", ""))
        if event["seq"] >= int(last.strip('"')):
            break
    events.close()
    return found


def test_level_3_pause_at_planning(stack, token, start):
    """S4-56."""
    order = start("standard-dev")
    state = stack.paused(order, token("ana"), "awaiting_plan_approval")
    assert (state["agent_work_order_id"], state["status"]) == (order, "active")
    assert state["pause_content"].startswith("# Plan")
    assert state["pause_timestamp"]
    now = stack.order(order, token("ana"))
    assert (now["status"], now["current_phase"], now["last_checkpoint"]) == ("paused", "awaiting_plan_approval", "awaiting_plan_approval")
    assert "Workflow paused" in lines(stack, order, token("ana"))
    stack.answer(order, token("ana"), "cancel")


def test_level_4_resume_with_approval(stack, token, start):
    """S4-57."""
    order = start("standard-dev")
    pause = stack.paused(order, token("ana"), "awaiting_plan_approval")
    stack.answer(order, token("ana"), "approve")
    stack.ended(order, token("ana"))
    assert {"Workflow resumed with decision: approve", "Executing step: execute"} <= set(lines(stack, order, token("ana")))
    answered = stack.call("GET", f"/api/v1/pauses/{pause['id']}", token=token("ana"))[1]
    assert (answered["status"], answered["user_decision"]) == ("resolved", "approve")
    assert answered["resume_timestamp"] is not None


def test_level_5_resume_with_revision_feedback(stack, token, start):
    """S4-58."""
    order = start("standard-dev")
    first = stack.paused(order, token("ana"), "awaiting_plan_approval")
    stack.answer(order, token("ana"), "revise", feedback="not in tests/ and add a diagram of the authentication flow")
    second = stack.paused(order, token("ana"), "awaiting_plan_approval", revision=2)
    assert second["pause_content"] != first["pause_content"]
    assert "diagram of the authentication flow" in second["pause_content"]  # what was not understood is said
    expected = [
        "Workflow resumed with decision: revise",
        "Re-running step: planning with feedback",
        "Revision feedback: not in tests/ and add a diagram of the authentication flow",
        "Executing step: planning",
    ]
    assert [line for line in lines(stack, order, token("ana")) if line in expected][-4:] == expected
    stored = stack.call("GET", f"/api/v1/pauses/{first['id']}", token=token("ana"))[1]
    assert stored["user_feedback"].startswith("not in tests/")
    stack.answer(order, token("ana"), "cancel")


def opened(open_page: Callable[..., Page], order: str) -> Page:
    page = open_page("ana", f"/work-orders/{order}/")
    expect(page.locator(".pause")).to_contain_text("⏸️ Waiting for Plan Approval", timeout=60_000)
    return page


def test_level_6_the_pause_card(start, open_page):
    """S4-59: header, content, relative time, three buttons; Approve makes it go and the log tells."""
    page = opened(open_page, start("advanced-dev"))
    expect(page.locator(".pause time")).to_contain_text(re.compile(r"Paused (just now|\d+ minutes? ago)"))
    for button in ("Approve", "Revise", "Cancel"):
        expect(page.locator(".pause").get_by_text(button, exact=True).first).to_be_visible()
    page.locator("[data-approve]").click()
    expect(page.locator("main")).to_contain_text("Workflow resumed with decision: approve")
    expect(page.locator(".pause")).not_to_contain_text("Waiting for Plan Approval")


def test_level_7_revise_with_the_feedback_box(start, open_page):
    """S4-60."""
    page = opened(open_page, start("advanced-dev"))
    page.locator("[data-revise]").click()
    box = page.get_by_placeholder("Provide feedback for revision...")
    expect(box).to_be_focused()
    box.fill("not in tests/")
    page.get_by_role("button", name="Submit Revision").click()
    expect(page.locator(".pause")).to_contain_text("Re-running planning with feedback...")
    expect(page.locator(".pause")).to_contain_text("Your feedback was applied", timeout=60_000)


def test_level_8_cancel(start, open_page, stack, token):
    """S4-61."""
    order = start("advanced-dev")
    page = opened(open_page, order)
    page.locator("[data-cancel]").click()
    dialog = page.locator("dialog[data-confirm]")
    expect(dialog).to_contain_text("Are you sure you want to cancel this work order?")
    page.get_by_role("button", name="No, go back").click()
    expect(dialog).not_to_be_visible()
    assert stack.order(order, token("ana"))["status"] == "paused"
    page.locator("[data-cancel]").click()
    page.get_by_role("button", name="Yes, Cancel").click()
    expect(page.locator("main")).to_contain_text("Cancelled by user at planning phase")
    expect(page.locator("main")).to_contain_text("Failed")
    expect(page.locator(".pause")).to_have_count(0)
    assert stack.order(order, token("ana"))["failure_code"] == "cancelled_by_user"


def test_level_9_multiple_checkpoints(stack, token, start):
    """S4-62; a pull request needs a forge, which this template does not speak to."""
    order = start("advanced-dev")
    for phase in ("awaiting_plan_approval", "awaiting_implementation_review", "awaiting_review_decision"):
        stack.paused(order, token("ana"), phase)
        stack.answer(order, token("ana"), "approve")
    done = stack.ended(order, token("ana"))
    assert (done["status"], done["git_commit_count"]) == ("completed", 1)


def test_level_10_no_pause_workflow(stack, token, start):
    """S4-63."""
    order = start("quick-fix")
    done = stack.ended(order, token("ana"))
    assert done["status"] == "completed"
    assert "Workflow paused" not in lines(stack, order, token("ana"))
    pauses = stack.call("GET", "/api/v1/pauses?limit=200", token=token("ana"))[1]["results"]
    assert order not in {pause["agent_work_order_id"] for pause in pauses}
    assert stack.call("GET", f"/api/v1/work-orders/{order}/pause-state", token=token("ana"))[1] is None
