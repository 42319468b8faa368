"""From a question to a mail to an answer, in a browser that never logs in; and the pages on which
people say where they are told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.databases.copies import PASSWORD, PEOPLE, TOKENS
from tests.servers.stack import SlowStack, standing_alone, until
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
}
EASY = """
from runs import definitions
from runs.models import Template
steps = Template.objects.filter(slug="slow-asking").order_by("-version").first().steps
steps[0]["review"] = {"risk": "low", "link_answers": True, "reviewers": {"users": ["ben"]}}
definitions.edit_template("slow-asking", steps=steps, needs_repository=False)
User.objects.filter(username__in=["ben", "olga"]).update(email="ben@example.org")
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    with standing_alone(tmp_path_factory.mktemp("links"), PEOPLE + EASY) as stack:
        yield stack


def mails(stack: SlowStack) -> list[str]:
    folder = Path(stack.environment["WAYSTATION_DATA"]) / "mail"
    return [
        text
        for path in folder.glob("*.log")
        for text in path.read_text().split("-" * 79)
        if text.strip()
    ]


def link_in(stack: SlowStack) -> str:
    """The newest link that was mailed; lines of a mail may be broken."""
    found = re.findall(r"http://\S+/l/[\w=\n-]+", "\n".join(mails(stack)))
    return str(found[-1]).replace("=\n", "").split()[0]


def log_in(page: Page, stack: SlowStack, path: str) -> None:
    page.goto(f"{stack.url}/login?next={path}")
    page.get_by_label("Username").fill("olga")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"**{path}")


def test_a_mail_leads_to_an_answer_without_a_login_or_javascript(alone, chromium: Browser):
    """F1, S3-28: asked by mail, answered from its link by POST, followed up; in one process, as
    `make up` starts it.
    """
    token = TOKENS["ben"]
    order = alone.begin("slow-asking", token)
    until(lambda: mails(alone), what="the mail")
    page = chromium.new_context(java_script_enabled=False, **PHONE).new_page()
    page.goto(link_in(alone))
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    shot(page, "link-phone")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("alert")).to_contain_text("ticking the box")
    page.get_by_label("I am Ben, and this is my answer").check()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    assert alone.ended(order, token)["status"] == "completed"
    page.goto(link_in(alone))
    expect(page.get_by_text("Ben answered “Approve” on")).to_be_visible()
    shot(page, "link-used")

    desk = chromium.new_context(
        color_scheme="dark", viewport={"width": 1200, "height": 900}
    ).new_page()
    log_in(desk, alone, "/notifications/")
    desk.get_by_label("How").select_option("webhook")
    desk.get_by_label("Address").fill("http://10.0.0.1/")
    desk.get_by_role("button", name="Add", exact=True).click()
    expect(desk.get_by_text("This host is inside a network")).to_be_visible()
    shot(desk, "notifications")
    desk.get_by_role("button", name="Send a test").click()
    until(lambda: any("This is a test" in text for text in mails(alone)), what="the test mail")
    desk.goto(f"{alone.url}/deliveries/")
    expect(desk.get_by_text("Asked · Mail to Ben")).to_be_visible()
    shot(desk, "deliveries")
    small = chromium.new_context(**PHONE).new_page()
    log_in(small, alone, "/notifications/")
    shot(small, "notifications-phone")
    small.goto(f"{alone.url}/deliveries/")
    shot(small, "deliveries-phone")
