"""Agent Chat UI, unmodified: Ana talks to templates of ours, and answers what they ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.databases.copies import TOKENS
from tests.servers.stack import SlowStack, until
from tests.stories.conftest import shot
from tests.stories.foreign import pages
from tests.stories.live.langgraph_loads import LOADS

TALKED = """
said = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
for slug in ("slow-talk", "slow-chat"):
    definitions.edit_template(slug, input_schema=said)
definitions.edit_template("chat-four", needs_repository=False, input_schema=said, steps=[
    {**slow_steps_asking, "review": {"self_approval": False}},
])
"""
pytestmark = [pytest.mark.stack, pytest.mark.one_database]


@pytest.fixture(scope="module")
def chat() -> Iterator[str]:
    with pages.served(pages.CHAT) as url:
        yield url


@pytest.fixture(scope="module")
def server(chat: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    with pages.product(tmp_path_factory.mktemp("chat"), chat, LOADS + TALKED) as stack:
        yield stack


@pytest.fixture
def opened(server: SlowStack, chat: str, chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Ana's chat with a template, by the page's first form."""
    contexts = []

    def open_for(template: str) -> Page:
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.goto(chat)
        page.get_by_label("Deployment URL").fill(f"{server.url}/langgraph")
        page.get_by_label("Assistant / Graph ID").fill(template)
        page.get_by_label("LangSmith API Key").fill(TOKENS["ana"])
        page.get_by_role("button", name="Continue").click()
        return page

    yield open_for
    for context in contexts:
        context.close()


def say(page: Page, words: str) -> None:
    page.get_by_placeholder("Type your message").fill(words)
    page.get_by_role("button", name="Send", exact=True).click()


def test_a_question_is_answered_in_words(server, opened, decided):
    page = opened("slow-talk")
    say(page, "Hello")
    expect(page.get_by_text("Which city?").first).to_be_visible()
    answer = page.locator("textarea").nth(-3)  # the last argument, before the reason of a rejection
    answer.fill("Rome")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()  # it is told all
    shot(page, "agent-chat-question")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("Rome it is.").first).to_be_visible()
    shot(page, "agent-chat-answered")
    assert decided() == [("answer", "ana", "langgraph", "Rome")]


def test_an_agent_speaks_and_its_questions_are_approved_and_answered(server, opened, decided):
    """This agent asks again until it is told something."""
    page = opened("slow-chat")
    say(page, "Go")
    idle = page.get_by_role("button", name="Send", exact=True)
    expect(page.get_by_text("market data").first).to_be_visible(timeout=30_000)
    expect(idle).to_be_visible()  # it is told all
    shot(page, "agent-chat-agent")
    page.get_by_role("button", name="Approve", exact=True).click()
    until(lambda: decided() == [("approve", "ana", "langgraph", "")], what="the approval")
    expect(page.get_by_text("market data").first).to_be_visible(timeout=30_000)
    expect(idle).to_be_visible()
    page.locator("textarea").nth(-3).fill("Yes")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("Based on my research").first).to_be_visible(timeout=30_000)
    assert decided()[1:] == [("answer", "ana", "langgraph", "Yes")]


def test_a_rule_keeps_out_who_asked(server, opened, decided):
    page = opened("chat-four")
    say(page, "Go")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("An error occurred")).to_be_visible()
    shot(page, "agent-chat-refused")
    assert decided() == []
