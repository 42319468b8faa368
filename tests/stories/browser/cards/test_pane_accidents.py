"""Accidents beside the list: the question changes, goes, or cannot be seen any more while somebody
reads it there. Nothing is decided that nobody saw, and no typed word is lost.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.databases.copies import TOKENS
from tests.servers.stack import SlowStack, until
from tests.stories.browser.cards.papers import BOX, DESKTOP, PHONE, decided
from tests.stories.browser.cards.papers import alone as alone
from tests.stories.browser.cards.papers import ask as ask
from tests.stories.browser.cards.papers import stack as stack
from tests.stories.browser.devices import beside, drawn_beside, row
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack
WORDS = "Half of it, and in March"
NAMES = (f"heron{number}" for number in itertools.count())
Asked = dict[str, Any]


@pytest.fixture
def desk(open_page, ask) -> Callable[..., tuple[Page, list[Asked]]]:
    """`desk(3)`: Ana's inbox with three questions alone, of which the first is open beside them."""

    def make(count: int, template: str = "paper-note", **options: Any) -> tuple[Page, list[Asked]]:
        name = next(NAMES)
        asked = [ask(template, title=f"{name} {number}") for number in range(count)]
        page = open_page("ana", f"/?q={name}&sort=oldest", cut=True, **{**DESKTOP, **options})
        expect(page.locator(".live")).to_contain_text("Live")
        look_at(page, asked[0])
        return page, asked

    return make


def look_at(page: Page, asked: Asked) -> None:
    row(page, asked).locator(".main-link").click()
    expect(beside(page, asked)).to_be_visible()


def write(page: Page) -> None:
    page.locator("[data-revise]").click()
    page.get_by_placeholder("Provide feedback").fill(WORDS)


def written(page: Page):
    return page.get_by_placeholder("Provide feedback")


def answer(stack: SlowStack, asked: Asked, who: str, **body: str) -> None:
    place = f"/api/v1/pauses/{asked['id']}/decisions"
    assert stack.call("POST", place, body, token=TOKENS[who])[0] == 201


def nothing_is_sent(page: Page, stack: SlowStack, asked: Asked, who: str = "ana") -> None:
    """Whatever was pressed: longer than an answer by a key waits."""
    page.wait_for_timeout(2_200)
    status, found = stack.call("GET", f"/api/v1/pauses/{asked['id']}", token=TOKENS[who])
    assert (status, found["state"]) == (200, "open")


def test_it_is_answered_elsewhere(stack, desk):
    """In another tab of one's own, and by a colleague."""
    page, (first, second, third) = desk(3)
    for who, asked in (("ana", first), ("ben", second)):
        look_at(page, asked)
        write(page)
        answer(stack, asked, who, decision="approve")
        expect(row(page, asked)).to_have_class(re.compile("gone"))
        expect(drawn_beside(page, asked)).to_have_count(0)
        unsent = page.locator("[data-unsent]")
        expect(unsent).to_contain_text(WORDS)
        shot(page, f"pane-answered-{who}")
        unsent.get_by_role("button", name="Dismiss").click()
        expect(unsent).to_be_hidden()
        page.locator("h1").first.click()
        page.keyboard.press("a")
    nothing_is_sent(page, stack, third)
    page.keyboard.press("j")
    expect(beside(page, third)).to_be_visible()
    page.keyboard.press("a")
    until(lambda: decided(stack, third), what="the decision")


def test_a_revision_comes_and_its_answer_goes_on_to_the_next_of_the_list(stack, desk):
    """Before: an answer to a question that came anew beside the list went nowhere."""
    page, (first, second, third) = desk(3)
    look_at(page, second)
    write(page)
    answer(stack, second, "ben", decision="revise", feedback="Shorter.")
    again = page.locator("[data-pane] .pause")
    expect(again).to_contain_text("Revision 2", timeout=30_000)
    expect(page.locator("[data-unsent]")).to_contain_text(WORDS)
    expect(written(page)).to_have_value("")
    expect(page.locator("[data-pill] button")).to_be_visible()
    shot(page, "pane-revision")
    new = again.get_attribute("data-pause")
    page.get_by_role("button", name="Dismiss").click()
    again.locator("[data-approve]").click()
    expect(beside(page, third)).to_be_visible()
    assert decided(stack, {"id": new})["user_decision"] == "approve"
    assert decided(stack, first) == decided(stack, third) == {}


LOSES = """
UPDATE checkpoints_thread SET owner_id = (SELECT id FROM auth_user WHERE username = 'ben')
  WHERE id IN (SELECT thread_id FROM runs_workorder WHERE title LIKE 'heron%');
DELETE FROM auth_user_groups WHERE user_id = (SELECT id FROM auth_user WHERE username = 'ana');
"""
GAINS = """
INSERT INTO auth_user_groups (user_id, group_id) SELECT u.id, g.id FROM auth_user u, auth_group g
  WHERE username = 'ana' AND name = 'platform';
"""


def change(stack: SlowStack, statements: str) -> None:
    with closing(sqlite3.connect(stack.folder / "data" / "waystation.sqlite3")) as database:
        database.executescript(statements)


def test_the_right_to_it_is_lost(stack, desk):
    """Before: the card stayed as it was, with its buttons, and nothing said why they failed."""
    page, (first, second) = desk(2)
    write(page)
    change(stack, LOSES)
    try:
        answer(stack, first, "ben", decision="revise", feedback="Shorter.")
        told = page.locator("[data-pane] [data-closed]")
        expect(told).to_contain_text("no longer yours to see", timeout=30_000)
        expect(written(page)).to_have_value(WORDS)
        shot(page, "pane-rights-lost")
        page.locator("[data-pane]").focus()
        page.keyboard.press("a")
        nothing_is_sent(page, stack, second, "ben")
        row(page, second).locator(".main-link").click()
        expect(page.locator("[data-place]")).to_contain_text("no longer yours to see")
    finally:
        change(stack, GAINS)


def test_the_network_is_away_for_a_while(stack, desk):
    page, (first, second) = desk(2)
    write(page)
    page.context.set_offline(True)
    page.locator("[data-approve]").click()
    expect(page.locator(".lost")).to_contain_text("answer again, it counts only once")
    row(page, second).locator(".main-link").click()
    expect(page.locator("[data-place]")).to_contain_text("could not be opened")
    shot(page, "pane-offline")
    page.keyboard.press("a")
    page.context.set_offline(False)
    nothing_is_sent(page, stack, first)
    assert decided(stack, second) == {}
    look_at(page, second)
    look_at(page, first)
    expect(written(page)).to_have_value(WORDS)
    written(page).press("Control+Enter")
    until(lambda: decided(stack, first), what="the decision")
    assert decided(stack, first)["user_feedback"] == WORDS


def test_the_list_is_filtered_anew(stack, desk):
    page, (first, second) = desk(2)
    write(page)
    page.get_by_role("searchbox").fill(page.url.split("q=")[1].split("&")[0] + " 0")
    page.get_by_role("searchbox").press("Enter")
    expect(row(page, second)).to_have_count(0)
    expect(page.locator("[data-place]")).to_contain_text("Choose a question")
    look_at(page, first)
    expect(written(page)).to_have_value(WORDS)
    nothing_is_sent(page, stack, first)


def test_back_and_forward_find_the_question_and_what_was_typed(stack, desk):
    page, (first, second) = desk(2)
    look_at(page, second)
    write(page)
    page.get_by_role("link", name="Work orders").first.click()
    page.wait_for_url("**/work-orders/")
    page.go_back()
    expect(beside(page, second)).to_be_visible()
    expect(written(page)).to_have_value(WORDS)
    page.go_forward()
    page.wait_for_url("**/work-orders/")
    page.go_back()
    expect(beside(page, second)).to_be_visible()
    answer(stack, second, "ben", decision="approve")
    page.go_forward()
    page.go_back()
    expect(page.locator(f"[data-row={second['id']}]:not(.gone)")).to_have_count(0)
    expect(drawn_beside(page, second)).to_have_count(0)
    page.keyboard.press("a")
    nothing_is_sent(page, stack, first)


WIDE: ViewportSize = {"width": 1300, "height": 900}
NARROW: dict[str, ViewportSize] = {
    "a smaller window": {"width": 800, "height": 900},
    "200 %": {"width": 640, "height": 450},
    "a tablet that is turned": {"width": 1024, "height": 1366},
}


def test_the_window_becomes_narrow_and_wide_again(stack, desk):
    """Before: the question was hidden, and keys went on answering it."""
    page, (first, _) = desk(2, viewport=WIDE)
    write(page)
    for what, size in NARROW.items():
        if what == "200 %":  # a browser may take the focus from what is hidden before it tells so
            page.evaluate("document.activeElement.blur()")
        page.set_viewport_size(size)
        expect(page.locator("[data-pane]")).to_be_hidden()
        expect(row(page, first).locator(".main-link")).to_be_focused()
        for key in ("a", "x", "x", "]"):  # X chooses the row, and leaves it
            page.keyboard.press(key)
        expect(page.locator("[data-will] p")).to_have_count(0)
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), what
        page.set_viewport_size(WIDE)
        expect(beside(page, first)).to_be_visible()
        expect(written(page)).to_have_value(WORDS)
        written(page).focus()
    nothing_is_sent(page, stack, first)
    page.set_viewport_size(NARROW["200 %"])
    row(page, first).locator(".main-link").click()
    page.wait_for_url(f"**{first['path']}*")
    expect(written(page)).to_have_value(WORDS)


def test_the_window_becomes_narrow_while_an_answer_is_sent(stack, desk):
    page, (first, second) = desk(2)
    held: list[Any] = []
    page.route("**/decide", lambda route: held.append(route))
    beside(page, first).locator("[data-approve]").click()
    page.wait_for_timeout(300)
    page.set_viewport_size({"width": 800, "height": 900})
    held[0].continue_()
    expect(row(page, first)).to_have_class(re.compile("gone"))
    until(lambda: decided(stack, first), what="the decision")
    expect(page.locator(".lost")).to_have_count(0)
    page.set_viewport_size({"width": 1300, "height": 900})
    expect(page.locator("[data-pane]")).to_be_visible()
    assert decided(stack, second) == {}


def test_a_phone_is_turned(stack, open_page, ask):
    asked = ask("paper-note")
    page = open_page("ana", asked["path"], **PHONE)
    write(page)
    for width, height in ((844, 390), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        expect(written(page)).to_have_value(WORDS)
        expect(written(page)).to_be_focused()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("[data-approve]").scroll_into_view_if_needed()
        box = page.locator("[data-approve]").evaluate(BOX)
        assert 0 <= box["top"] < box["bottom"] <= height
    assert decided(stack, asked) == {}
    page.get_by_role("button", name="Submit Revision").tap()
    until(lambda: decided(stack, asked), what="the decision")


def test_a_double_click_answers_one_question(stack, desk):
    """Before: the next question came under the pointer, and the second click approved it."""
    page, asked = desk(4)
    for between, (clicked, comes) in ((60, asked[:2]), (250, asked[1:3])):
        box = beside(page, clicked).locator("[data-approve]").bounding_box()
        assert box is not None
        page.wait_for_timeout(700)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for _ in range(3):
            page.mouse.click(x, y)
            page.wait_for_timeout(between)
        expect(beside(page, comes)).to_be_visible()
        until(partial(decided, stack, clicked), what="the decision")
        nothing_is_sent(page, stack, comes)
    beside(page, asked[2]).locator("[data-approve]").click()
    until(lambda: decided(stack, asked[2]), what="the decision")
    assert decided(stack, asked[3]) == {}


WATCH_THE_BUTTON = """() => new MutationObserver(() => {
  const button = document.querySelector("[data-approve]"), card = document.querySelector(".pause");
  if (!button || card.textContent.includes("Revision 1")) return;
  const { left, top, width, height } = button.getBoundingClientRect();
  const hit = document.elementFromPoint(left + width / 2, top + height / 2);
  window.hit ??= hit.closest("button") === button;
}).observe(document.body, { subtree: true, childList: true })"""
"""Notes whether a click would press *Approve* at the moment at which its card comes."""


def test_a_question_that_comes_under_the_pointer_takes_no_click_at_once(stack, open_page, ask):
    """On its own page too: a colleague sends it back a moment before it is approved."""
    asked = ask("paper-note")
    page = open_page("ana", asked["path"], cut=True, **DESKTOP)
    expect(page.locator(".live")).to_contain_text("Live")
    page.evaluate(WATCH_THE_BUTTON)
    answer(stack, asked, "ben", decision="revise", feedback="Shorter.")
    expect(page.locator(".pause")).to_contain_text("Revision 2", timeout=30_000)
    assert page.evaluate("window.hit") is False
    page.locator("[data-approve]").click()
    expect(page.locator("main > .notice")).to_contain_text("You approved.")
