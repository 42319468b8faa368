"""CopilotKit, unmodified, over our AG-UI door: its `useInterrupt` shows what a template asks, and
its answer decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.databases.copies import TOKENS
from tests.servers.stack import SlowStack
from tests.stories.conftest import shot
from tests.stories.foreign import pages
from tests.stories.live.langgraph_loads import LOADS

pytestmark = [pytest.mark.stack, pytest.mark.one_database]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    # its runtime asks from its own server: no browser's origin is let in
    with pages.product(tmp_path_factory.mktemp("copilotkit"), "https://ui.example", LOADS) as stack:
        yield stack


@pytest.fixture
def opened(server: SlowStack, chromium: Browser) -> Iterator[Callable[[str], Page]]:
    """Ana's page, whose agent is a template of ours."""
    closing = []

    def open_for(template: str) -> Page:
        about = {
            "AGENT_URL": f"{server.url}/langgraph/agui/{template}",
            "AGENT_TOKEN": TOKENS["ana"],
        }
        page_server = pages.served(pages.COPILOTKIT, about)
        url = page_server.__enter__()
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        closing.append((context, page_server))
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.goto(url)
        return page

    yield open_for
    for context, page_server in closing:
        context.close()
        page_server.__exit__(None, None, None)


def say(page: Page, words: str) -> None:
    box = page.get_by_role("textbox").first
    box.fill(words)
    box.press("Enter")


def test_an_interrupt_is_shown_and_its_answer_decides(server, opened, decided):
    page = opened("slow-talk")
    say(page, "Hello")
    expect(page.get_by_text("Which city?").first).to_be_visible()
    page.get_by_label("Words").fill("Rome")
    shot(page, "copilotkit-question")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("Rome it is.").first).to_be_visible()
    shot(page, "copilotkit-answered")
    assert decided() == [("answer", "ana", "langgraph", "Rome")]


def test_an_interrupt_is_cancelled(server, opened, decided):
    page = opened("slow-asking")
    say(page, "Hello")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()
    assert decided() == [("cancel", "ana", "langgraph", "")]


def test_a_rule_keeps_out_who_asked(server, opened, decided):
    page = opened("two-people")
    say(page, "Hello")
    page.get_by_role("button", name="Answer").click()
    page.wait_for_timeout(3000)  # nothing is told of a refusal
    shot(page, "copilotkit-refused")
    assert decided() == []
