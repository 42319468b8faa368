"""Agent Inbox, unmodified, is an inbox for people whom rules make reviewers: Zoe takes part in none
of Ana's threads, and decides what they ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.databases.copies import PEOPLE, TOKENS
from tests.servers.stack import SlowStack, until
from tests.stories.conftest import shot
from tests.stories.foreign import pages

pytestmark = [pytest.mark.stack, pytest.mark.one_database]
SECRET = "nobody else's business"
REVIEWED = """
from runs import definitions

made = {"slow-note": ("slow.paper", {"parts": 1}), "slow-calls": ("slow.calls", {}),
        "slow-wire": ("slow.calls", {"alone": True})}
for slug, (function, config) in made.items():
    definitions.edit_step_template(slug, title=slug, function=function, config=config)
review = {"reviewers": {"users": ["zoe"]}, "self_approval": False}
ask = {"step_type": "planning", "step_template_slug": "slow-note", "pause_after": True,
       "pause_phase": "awaiting_plan_approval"}
tick = {"step_type": "execute", "step_template_slug": "slow-tick"}
rules = {"note": {}, "edited": {"edits": True}, "reasoned": {"reason_required": ["approve"]}}
ways = {slug: [{**ask, "review": {**review, **more}}, tick] for slug, more in rules.items()}
for slug, own in {"pay": "slow-calls", "wire": "slow-wire"}.items():
    step = {"name": slug, "step_type": "execute", "step_template_slug": own, "review": review}
    ways[slug] = [step]
for slug, steps in ways.items():
    definitions.edit_template(slug, title=slug, steps=steps, needs_repository=False)
digest = ApiToken.digest_of("wst_zoe-answer")
zoe = User.objects.get(username="zoe")
ApiToken.objects.create(user=zoe, name="inbox", scope="answer", digest=digest)
"""
ANSWERING = "wst_zoe-answer"
"""Zoe's token that can do nothing but answer."""


@pytest.fixture(scope="module")
def inbox() -> Iterator[str]:
    with pages.served(pages.INBOX) as url:
        yield url


@pytest.fixture(scope="module")
def server(inbox: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    with pages.product(tmp_path_factory.mktemp("inbox"), inbox, PEOPLE + REVIEWED) as stack:
        yield stack


@pytest.fixture
def opened(server: SlowStack, inbox: str, chromium: Browser) -> Iterator[Callable[[str], Page]]:
    """Zoe's inbox of one template, made in its own forms."""
    contexts = []

    def open_for(graph: str) -> Page:
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.goto(inbox)
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("LangSmith API Key").fill(ANSWERING)
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Add Inbox").click()
        dialog.get_by_label("Assistant/Graph ID").fill(graph)
        dialog.get_by_label("Deployment URL").fill(f"{server.url}/langgraph")
        with page.expect_navigation():  # it loads itself again, and welcomes again
            dialog.get_by_role("button", name="Add Inbox").click()
        page.goto(inbox)
        return page

    yield open_for
    for context in contexts:
        context.close()


def asked(server: SlowStack, template: str) -> str:
    """Ana's order, which asks."""
    body = {"template": template, "title": SECRET}
    status, order = server.call("POST", "/api/v1/work-orders", body, token=TOKENS["ana"])
    assert status == 201, order
    key = str(order["id"])
    until(lambda: waits(server, key), what=f"the question of {order}")
    return key


def waits(server: SlowStack, order: str) -> Any:
    return server.call("GET", f"/api/v1/work-orders/{order}/pause-state", token=TOKENS["ana"])[1]


def open_row(page: Page, action: str = "planning") -> None:
    page.get_by_text(action, exact=True).click()
    expect(page.get_by_role("button", name="Mark as Resolved")).to_be_visible()


def left(page: Page) -> None:
    """The question is gone from her list."""
    expect(page.get_by_text("No threads found")).to_be_visible()


def test_a_reviewer_accepts_what_waits_on_a_thread_that_is_not_hers(server, opened, decided):
    order = asked(server, "note")
    page = opened("note")
    expect(page.get_by_text("Waiting for Plan Approval")).to_be_visible()
    shot(page, "agent-inbox-list")
    open_row(page)
    expect(page.get_by_text("What is to be done in part 1").first).to_be_visible()
    shot(page, "agent-inbox-question")
    assert SECRET not in page.content()
    page.get_by_role("button", name="Accept").click()
    left(page)
    shot(page, "agent-inbox-accepted")
    server.ended(order, TOKENS["ana"])
    assert decided() == [("approve", "zoe", "langgraph", "")]


def test_a_reviewer_approves_with_changes(server, opened, decided):
    order = asked(server, "edited")
    page = opened("edited")
    open_row(page)
    page.locator("textarea").nth(1).fill("# The plan\n\nHalf of it.")
    shot(page, "agent-inbox-edited")
    page.get_by_role("button", name="Submit").click()
    left(page)
    server.ended(order, TOKENS["ana"])
    assert decided() == [("approve", "zoe", "langgraph", "# The plan\n\nHalf of it.")]


def test_a_reviewer_sends_back_with_words_and_is_asked_again(server, opened, decided):
    order = asked(server, "note")
    page = opened("note")
    open_row(page)
    page.get_by_placeholder("Your response here").fill("Shorter, please")
    page.get_by_role("button", name="Send Response").click()
    server.paused(order, TOKENS["ana"], "awaiting_plan_approval", revision=2)
    shot(page, "agent-inbox-sent-back")
    page.goto(page.url.split("?")[0])
    open_row(page)
    expect(page.get_by_text("As was asked: Shorter, please").first).to_be_visible()
    shot(page, "agent-inbox-asked-again")
    page.get_by_role("button", name="Accept").click()
    left(page)
    server.ended(order, TOKENS["ana"])
    assert decided() == [
        ("revise", "zoe", "langgraph", "Shorter, please"), ("approve", "zoe", "langgraph", "")
    ]  # fmt: skip


def test_a_reviewer_ignores_which_cancels(server, opened, decided):
    asked(server, "note")
    page = opened("note")
    open_row(page)
    page.get_by_role("button", name="Ignore").click()
    left(page)
    assert decided() == [("cancel", "zoe", "langgraph", "")]


def test_who_does_not_take_part_resolves_nothing(server, opened, decided):
    """*Mark as Resolved* ends a thread, which is for those who take part in it."""
    order = asked(server, "note")
    page = opened("note")
    open_row(page)
    page.get_by_role("button", name="Mark as Resolved").click()
    expect(page.get_by_text("Failed to ignore thread", exact=True)).to_be_visible()
    assert decided() == []
    assert waits(server, order)
    server.answer(order, TOKENS["zoe"], "approve")


def test_an_answer_that_comes_too_late_or_that_a_rule_refuses_decides_nothing(
    server, opened, decided
):
    order = asked(server, "reasoned")
    page = opened("reasoned")
    open_row(page)
    page.get_by_role("button", name="Accept").click()
    expect(page.get_by_text("Failed to submit response.", exact=True)).to_be_visible()
    shot(page, "agent-inbox-refused")
    assert decided() == []
    server.answer(order, TOKENS["zoe"], "approve", feedback="It is right.")
    page.get_by_role("button", name="Accept").click()
    # its SDK tries what is refused with 409 again, for half a minute
    failed = page.get_by_text("Failed to submit response.", exact=True)
    expect(failed).to_be_hidden()
    expect(failed).to_be_visible(timeout=60_000)
    assert len(decided()) == 1


def test_several_calls_are_accepted_at_once(server, opened, decided):
    order = asked(server, "pay")
    page = opened("pay")
    open_row(page, "pay")
    shot(page, "agent-inbox-calls")
    page.get_by_role("button", name="Accept").click()
    left(page)
    server.ended(order, TOKENS["ana"])
    assert decided() == [("approve", "zoe", "langgraph", "")]


def test_a_call_that_cannot_be_edited_shows_its_numbers(server, opened, decided):
    """The page's own view of arguments shows texts alone."""
    order = asked(server, "wire")
    page = opened("wire")
    open_row(page, "wire")
    shot(page, "agent-inbox-call")
    expect(page.get_by_text('"sum": 7')).to_be_visible()
    page.get_by_role("button", name="Accept").click()
    left(page)
    server.ended(order, TOKENS["ana"])
    assert decided() == [("answer", "zoe", "langgraph", "")]
