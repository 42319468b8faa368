"""Child runs in a browser: two plans are made at the same time by real workers, each asks on the
order's page, and both join.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.stories.browser.devices import PHONE
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack
TEMPLATE = """
from runs import definitions
ask = {"step_type": "planning", "step_template_slug": "tidy-planning", "pause_after": True, "pause_phase": "awaiting_plan_approval"}
subs = [{**ask, "name": name} for name in ("first plan", "second plan")]
definitions.edit_step_template("two-plans", title="Two plans", config={"parallel": True}, sub_steps=subs)
steps = [{"step_type": "planning", "step_template_slug": "two-plans"}, {"step_type": "execute", "step_template_slug": "tidy-execute"}]
definitions.edit_template("two-plans", title="Two plans", steps=steps)
"""


@pytest.fixture
def order(stack, token) -> str:
    stack.manage("shell", "-c", TEMPLATE)
    body = {
        "template": "two-plans",
        "repository_url": str(stack.folder / "celery"),
        "input": {"rules": "I001"},
        "team": "platform",
    }
    status, made = stack.call("POST", "/api/v1/work-orders", body, token=token("ana"))
    assert status == 201, made
    return str(made["id"])


def card(page: Page):
    return page.locator(".pause", has_text="⏸️ Waiting for Plan Approval")


def test_two_plans_are_asked_about_on_one_page_and_joined(stack, open_page, token, order):
    """S4-5, S4-28, P9: each child's card names the child; one is answered on the desktop, the other
    on a phone; nothing is reloaded.
    """
    page = open_page("ana", f"/work-orders/{order}/")
    expect(card(page)).to_be_visible(timeout=60_000)
    expect(page.locator("main")).to_contain_text("1 more question of this order", timeout=60_000)
    family = (
        page.get_by_role("region", name=re.compile("Child runs"))
        .or_(page.locator("section", has_text="Child runs"))
        .first
    )
    for name in ("first plan", "second plan"):
        expect(family).to_contain_text(name)
    shot(page, "family-desktop")
    asks = card(page).inner_text()
    phone = open_page("ben", f"/work-orders/{order}/", **PHONE)
    shot(phone, "family-phone")
    page.locator("[data-approve]").click()
    expect(page.locator("main")).not_to_contain_text(
        "1 more question of this order", timeout=60_000
    )
    expect(card(phone)).to_be_visible(timeout=60_000)
    expect(phone.locator("main")).not_to_contain_text(
        "1 more question of this order", timeout=60_000
    )
    assert ("first plan" in asks) != ("second plan" in asks)
    phone.locator("[data-approve]").click()
    for device in (page, phone):
        expect(device.get_by_role("heading", name="Completed")).to_be_visible(timeout=60_000)
    shot(page, "family-completed-desktop")
    assert stack.order(order, token("ana"))["status"] == "completed"
