"""A thread in a browser: a person says something, the run asks, the answer is a message, and the
run goes on with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import APIResponse, Locator, Page, Route, expect

from tests.servers.stack import until
from tests.stories.browser.devices import PHONE
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack


def open_thread(page: Page, title: str) -> None:
    page.get_by_role("link", name="Threads").first.click()
    page.get_by_label("What it is about").fill(title)
    page.get_by_label("Team optional").select_option("platform")
    page.get_by_role("button", name="Open the thread").click()
    page.wait_for_url(re.compile(r"/threads/thr_"))


def field(page: Page) -> Locator:
    """Of words to a thread: a message, or the answer to the question that waits."""
    message, answer = (page.get_by_label(name, exact=True) for name in ("Message", "Your answer"))
    return message.or_(answer)


def say(page: Page, words: str) -> None:
    field(page).fill(words)
    page.get_by_role("button", name="Send").click()


def card(page: Page) -> Locator:
    return page.locator(".pause", has_text="⏸️ Which city?")


def said(page: Page) -> list[str]:
    return [line.strip() for line in page.locator("[data-live=said] li .doc").all_inner_texts()]


def saved(page: Page) -> dict[str, object]:
    """What this browser remembers of the thread."""
    found: dict[str, object] = page.evaluate(
        "JSON.parse(localStorage.getItem('checkpoint_' + "
        "document.querySelector('[data-thread]').dataset.thread))"
    )
    return found


def told(page: Page) -> list[str]:
    """The thread's log as S0-3.3 writes it: what an agent's loops tell."""
    thread = page.locator("[data-thread]").get_attribute("data-thread")
    events = page.request.get(f"/api/v1/threads/{thread}/events?limit=1000").json()["results"]
    kinds = {
        "tool_call_started",
        "tool_call_completed",
        "approval_requested",
        "approval_received",
        "run_completed",
    }
    lines: list[str] = []
    for event in events:
        kind, data = event["event"], event["data"]
        line = (
            f"checkpoint {data['loop_num']} {data['status']}"
            if kind == "checkpoint_created" and data["node_id"]
            else kind
            if kind in kinds
            else ""
        )
        line = "chunks" if kind == "streaming_chunk" and lines[-1:] != ["chunks"] else line
        lines += [line] if line else []
    return lines


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
    """S0-47, S0-72, S0-74, S1-23, S2-24: the message answers the question, and the next one begins
    a turn that knows what came before.

    C17: the server makes the page, so all is there without JavaScript, in the same words; with it,
    the browser's note is the document's.
    """
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
    expect(page.locator(".status-bar")).to_contain_text("Waiting for your input")
    if live:
        assert (saved(page)["status"], saved(page)["loopNum"]) == ("pending_input", 1)
    page.reload()
    expect(page.locator(".resume-banner")).to_contain_text(
        "Your previous session is waiting for input."
    )
    expect(page.get_by_role("button", name="Resume Conversation")).to_be_visible()
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


def test_a_page_that_comes_late_takes_nothing_newer_away(open_page):
    """Before: where the answer to a message came after the news of what it had begun, the older
    page was shown over the newer one, and stayed: the question was gone, the field closed.
    """
    page = open_page("ana", "/")
    open_thread(page, "Late")
    page.get_by_label("Template").select_option("slow-talk")
    late: list[tuple[Route, APIResponse]] = []
    page.route("**/say", lambda route: late.append((route, route.fetch(max_redirects=5))))
    say(page, "Hello")
    expect(card(page)).to_be_visible(timeout=60_000)
    # the news may be here before the answer has come to the test
    until(lambda: late or page.wait_for_timeout(50), what="the answer to the message")
    route, answer = late[0]
    route.fulfill(response=answer)
    expect(page.locator("main > .notice", has_text="A new run began.")).to_be_visible()
    page.unroute("**/say")
    expect(card(page)).to_be_visible()
    say(page, "Lisbon")
    expect(page.locator("main")).to_contain_text("Taken as your answer.")


def test_an_agents_five_loops_are_seen_in_order_reloaded_midway_and_answered_elsewhere(open_page):
    """S0-1..6, 29..52, 56, 69, 70, 73: the whole sequence of S0-3.3, on the page and in the log, on
    two devices.
    """
    desktop = open_page("ana", "/")
    open_thread(desktop, "Trends")
    desktop.get_by_label("Template").select_option("slow-chat")
    say(desktop, "Research and summarize AI trends")
    expect(desktop.locator(".status-bar")).to_have_text(
        re.compile(r"Processing\.\.\.\s+\(Loop 1\)"), timeout=60_000
    )
    expect(desktop.get_by_label("Message", exact=True)).to_be_disabled()
    stream = desktop.locator("[data-live=stream] [data-text]")
    expect(stream).to_contain_text("Let me search for")
    thoughts = desktop.locator("[data-live=stream] .thinking")
    expect(thoughts.locator("summary")).to_have_text("Thinking")
    expect(thoughts.locator("pre")).to_be_hidden()
    thoughts.locator("summary").click()
    expect(thoughts.locator("pre")).to_have_text("Trends of which year? This one.")
    shot(desktop, "chat-streaming-desktop")
    # in the middle of a sentence: what was said is there, and goes on without a repeat
    desktop.reload()
    expect(desktop.locator(".status-bar")).to_contain_text("Processing...")
    expect(desktop.locator(".bubble.machine").first).to_contain_text(
        "Let me search for information, " * 12 + "now.", timeout=60_000
    )
    expect(desktop.locator("[data-live=said] .thinking")).to_have_count(1)
    expect(card_of_agent(desktop)).to_be_visible(timeout=60_000)
    expect(desktop.locator(".status-bar")).to_contain_text("Waiting for your input")
    expect(desktop.locator(".loop-label")).to_have_text("Loop 2 of 8")
    expect(desktop.locator(".resume-banner")).to_have_count(0)
    assert (saved(desktop)["status"], saved(desktop)["loopNum"]) == ("pending_input", 2)
    shot(desktop, "chat-asking-desktop")
    path = re.sub(r"^https?://[^/]+", "", desktop.url)
    desktop.reload()
    # S0-43: nothing is resumed by itself, unless somebody wants it so
    expect(desktop.locator(".resume-banner")).to_be_visible()
    desktop.get_by_label("Resume a waiting conversation when I open it").check()
    desktop.reload()
    expect(desktop.locator("[data-waits=true]")).to_have_count(1)
    expect(desktop.locator(".resume-banner")).to_have_count(0)
    desktop.get_by_label("Resume a waiting conversation when I open it").uncheck()
    phone = open_page("ben", path, color_scheme="dark", **PHONE)
    expect(phone.locator(".resume-banner")).to_contain_text(
        "Your previous session is waiting for input."
    )
    shot(phone, "chat-asking-phone-dark")
    phone.get_by_role("button", name="Resume Conversation").click()
    expect(phone.locator(".resume-banner")).to_have_count(0)
    field(phone).fill("Yes, include market data")
    field(phone).press("Control+Enter")
    for device in (phone, desktop):
        expect(device.get_by_role("heading", name="The run is complete")).to_be_visible(
            timeout=60_000
        )
        expect(device.locator(".loop-label")).to_have_text("Loop 5 of 8")
        expect(device.locator(".loop-segment.completed")).to_have_count(5)
        expect(device.locator(".loop-segment.has-checkpoint a")).to_have_count(5)
        last = device.locator("[data-live=said] .bubble").last
        expect(last.locator("strong")).to_have_text("agents")
        expect(last).to_contain_text("<b>calm</b>")
        assert len(said(device)) == 6
        expect(device.locator("[data-live=stream]")).to_be_hidden()
    tool = desktop.locator("[data-live=said] details.tool").first
    expect(tool.locator("[data-arguments]")).to_be_hidden()
    tool.locator("summary").click()
    expect(tool).to_contain_text("Found 1 articles.")
    shot(desktop, "chat-completed-desktop")
    loop = ["chunks", "tool_call_started", "tool_call_completed"]
    again = ["approval_requested"] * 2  # the desktop by itself, the phone by its button
    asked = [
        "chunks",
        "tool_call_started",
        "approval_requested",
        "checkpoint 2 pending_input",
        *again,
        "approval_received",
    ]
    assert told(desktop) == [
        *loop, "checkpoint 1 active", *asked, "checkpoint 2 active", "checkpoint 2 active", *loop,
        "checkpoint 3 active",
        *loop, "checkpoint 4 active", "chunks", "run_completed", "checkpoint 5 completed",
    ]  # fmt: skip


def test_an_earlier_message_is_edited_the_run_is_stopped_and_a_message_waits_its_turn(open_page):
    """S0-80: the old branch stays; what was said when it stopped is kept."""
    page = open_page("ana", "/")
    open_thread(page, "Again")
    page.get_by_label("A message sent meanwhile").select_option("queue")
    page.locator(".busy-choice button").click()
    page.get_by_label("Template").select_option("slow-chat")
    say(page, "One")
    page.locator(".status-bar").get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", name="The run was cancelled")).to_be_visible(timeout=60_000)
    say(page, "Two")
    expect(card_of_agent(page)).to_be_visible(timeout=60_000)
    say(page, "REJECT")
    expect(page.get_by_role("heading", name="The run was cancelled")).to_be_visible(timeout=60_000)
    assert said(page)[0] == "One"
    edit = page.locator(".bubble.person", has_text="Two")
    edit.locator("summary").click()
    edit.get_by_role("textbox").fill("Three")
    shot(page, "chat-editing-desktop")
    edit.get_by_role("button", name="Send edited").click()
    expect(page.locator("main > .notice")).to_contain_text("stays in the history")
    say(page, "Four")
    expect(page.locator(".queue")).to_contain_text("Four")
    expect(card_of_agent(page)).to_be_visible(timeout=60_000)
    # a page that is asked for while a turn commits may have the card before the words
    until(lambda: [w for w in said(page) if w in {"One", "Two", "Three"}] == ["One", "Three"])
    shot(page, "chat-queued-desktop")
    say(page, "REJECT")
    expect(page.locator(".queue")).to_be_hidden(timeout=60_000)
    expect(page.locator(".bubble.person").last).to_contain_text("Four")
    page.locator(".status-bar").get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", name="The run was cancelled")).to_be_visible(timeout=60_000)


def card_of_agent(page: Page) -> Locator:
    return page.locator(".pause", has_text="⏸️ Should I include market data?")
