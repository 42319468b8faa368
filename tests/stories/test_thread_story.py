"""A thread in a browser: a person says something, the run asks, the answer is a message, and the run goes on with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.stack import SlowStack
from tests.stories.conftest import make_slow_stack, shot

pytestmark = pytest.mark.stack
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    """With a template for threads, which the product does not ship yet."""
    own = make_slow_stack(tmp_path_factory.mktemp("threads"), "threads")
    try:
        own.worker()
        own.beat()
        own.web()
        yield own
    finally:
        own.stop()


def open_thread(page: Page, title: str) -> None:
    page.get_by_role("link", name="Threads").first.click()
    page.get_by_label("What it is about").fill(title)
    page.get_by_label("Team").select_option("platform")
    page.get_by_role("button", name="Open the thread").click()
    page.wait_for_url(re.compile(r"/threads/thr_"))


def say(page: Page, words: str) -> None:
    page.get_by_label("Message", exact=True).fill(words)
    page.get_by_role("button", name="Send").click()


def card(page: Page) -> Locator:
    return page.locator(".pause", has_text="⏸️ Which city?")


def said(page: Page) -> list[str]:
    return [line.strip() for line in page.locator("[data-live=said] li .doc").all_inner_texts()]


def seen(page: Page, what: Callable[[], Locator], *, live: bool) -> None:
    """Wait until it is there: by itself, or by reloading where there is no JavaScript."""
    for _ in range(60):
        if live or what().count():
            break
        page.wait_for_timeout(500)
        page.reload()
    expect(what()).to_be_visible(timeout=60_000)


@pytest.mark.parametrize("live", [True, False], ids=["live", "without JavaScript"])
def test_a_person_talks_with_a_thread_through_a_question_and_a_second_turn(open_page, live):
    """S0-47, S0-72, S0-74, S1-23, S2-24: the message answers the question, and the next one begins a turn that knows what came before."""
    page = open_page("ana", "/", java_script_enabled=live)
    open_thread(page, f"Journeys {live}")
    page.get_by_label("Template").select_option("slow-talk")
    say(page, "Hello")
    expect(page.locator("main")).to_contain_text("A new run began.")
    seen(page, lambda: card(page), live=live)
    expect(card(page)).to_contain_text("You said Hello.")
    expect(page.locator("[data-approve]")).to_have_count(0)
    expect(page.locator("main")).not_to_contain_text("APPROVE")
    expect(card(page)).to_contain_text("If you answer")
    shot(page, f"thread-asking-{'live' if live else 'plain'}")
    say(page, "Lisbon")
    expect(page.locator("main")).to_contain_text("Taken as your answer.")
    seen(page, lambda: page.get_by_role("heading", name="The run is complete"), live=live)
    assert said(page) == ["Hello", "Lisbon", "Lisbon it is."]
    say(page, "Once more")
    seen(page, lambda: card(page), live=live)
    say(page, "REJECT")
    expect(page.locator("main")).to_contain_text("Taken as rejection: the run was cancelled.")
    seen(page, lambda: page.get_by_role("heading", name="The run was cancelled"), live=live)
    assert said(page) == ["Hello", "Lisbon", "Lisbon it is.", "Once more"]
    shot(page, f"thread-cancelled-{'live' if live else 'plain'}")


def test_a_colleague_answers_on_a_phone_and_the_thread_goes_on_before_both(open_page):
    """S0-50, P9: nothing is reloaded on either device; a stranger finds nothing."""
    desktop = open_page("ana", "/", color_scheme="dark")
    open_thread(desktop, "Together")
    desktop.get_by_label("Template").select_option("slow-talk")
    say(desktop, "Hello")
    expect(card(desktop)).to_be_visible(timeout=60_000)
    path = re.sub(r"^https?://[^/]+", "", desktop.url)
    phone = open_page("ben", path, **PHONE)
    expect(card(phone)).to_be_visible(timeout=60_000)
    shot(phone, "thread-asking-phone")
    say(phone, "Rome")
    for device in (phone, desktop):
        expect(device.get_by_role("heading", name="The run is complete")).to_be_visible(timeout=60_000)
        assert said(device) == ["Hello", "Rome", "Rome it is."]
    shot(desktop, "thread-completed-desktop-dark")
    stranger = open_page("zoe", "/")
    answer = stranger.request.get(path)
    assert answer.status == 404
