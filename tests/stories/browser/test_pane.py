"""The question beside the list of the inbox: as mail programs have it, and a page of its own where
there is no room.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.databases.copies import TOKENS
from tests.stories.browser.devices import PHONE
from tests.stories.browser.test_keys import TAKEN, WILL, decided
from tests.stories.browser.test_keys import alone as alone
from tests.stories.browser.test_keys import ask as ask
from tests.stories.browser.test_keys import stack as stack
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}


def row(page: Page, asked: dict[str, Any]):
    return page.locator(f"[data-row={asked['id']}]")


def beside(page: Page, asked: dict[str, Any]):
    return page.locator(f"[data-pane] [data-pause={asked['id']}]")


def test_an_inbox_is_read_and_answered_beside_its_list(stack, open_page, ask):
    """Issue 36: J and K open, N goes on without an answer, a decision goes on to the next of the
    same list, what is typed stays, and reloading and coming back find the same place.
    """
    first, second, third, fourth = [ask(kind) for kind in ("edited", "later", "brief", "edited")]
    page = open_page("ana", "/", **DESKTOP)
    page.goto("/?template=&sort=oldest")
    expect(page.locator(".live")).to_contain_text("Live")
    seen: list[tuple[str, int]] = []
    page.on("response", lambda one: seen.append((one.request.method, one.status)))
    row(page, first).locator(".main-link").focus()
    page.keyboard.press("j")
    expect(beside(page, second)).to_be_visible()
    expect(row(page, second)).to_have_attribute("aria-current", "true")
    expect(row(page, second).locator(".main-link")).to_be_focused()
    page.keyboard.press("k")
    expect(beside(page, first)).to_be_visible()
    page.keyboard.press("r")
    expect(page.locator("#feedback")).to_be_focused()
    page.keyboard.type("Jog? Shorter, and next time sooner")
    page.keyboard.press("Escape")
    expect(page.locator("[data-revise]")).to_be_focused()
    page.locator("[data-pane] [data-next]").click()
    expect(beside(page, second)).to_be_visible()
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.press("n")
    expect(beside(page, third)).to_be_visible()
    page.keyboard.press("Shift+N")
    expect(beside(page, second)).to_be_visible()
    page.keyboard.press("k")
    expect(beside(page, first)).to_be_visible()
    expect(page.locator("#feedback")).to_have_value("Jog? Shorter, and next time sooner")
    assert ("GET", 304) in seen, "a page that is held is shown once its version was asked for"
    assert not [one for one in seen if one[0] == "POST"]
    shot(page, "inbox-pane-desktop")

    page.keyboard.press("j")
    expect(beside(page, second)).to_be_visible()
    page.keyboard.press("a")
    expect(page.locator(WILL)).to_contain_text("sent in 2 s")
    page.keyboard.press("j")
    expect(page.locator(WILL)).to_have_text(TAKEN)
    expect(beside(page, third)).to_be_visible()
    page.wait_for_timeout(2_200)
    assert not decided(stack, second) and not decided(stack, third)

    page.keyboard.press("k")
    total = page.locator("[data-pill]")
    expect(beside(page, second)).to_be_visible()
    beside(page, second).locator("[data-approve]").click()
    expect(beside(page, third)).to_be_visible()
    expect(page.locator("#question")).to_be_focused()
    expect(row(page, second)).to_have_class(re.compile("gone"))
    notice = page.locator("[data-pane] [data-notices]")
    expect(notice).to_contain_text("You approved.")
    expect(notice.get_by_role("link", name="Look at it")).to_have_attribute(
        "href", re.compile(second["path"])
    )
    expect(total).to_be_hidden()
    assert decided(stack, second) == "approve" and not decided(stack, third)
    page.keyboard.press("j")
    expect(beside(page, fourth)).to_be_visible()
    expect(notice).to_be_empty()

    page.reload()
    expect(beside(page, fourth)).to_be_visible()
    page.get_by_role("link", name="Open its own page").click()
    page.wait_for_url(re.compile(r"\?list=sort%3Doldest"))
    page.go_back()
    expect(beside(page, fourth)).to_be_visible()
    expect(total).to_be_hidden()
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.emulate_media(color_scheme="dark")
    shot(page, "inbox-pane-wide-dark")


def test_a_list_that_is_older_than_the_question_beside_it_says_so(stack, open_page, ask):
    asked = ask("edited")
    page = open_page("ana", "/", cut=True, **DESKTOP)
    page.route_web_socket("**/ws/inbox*", lambda _: None)
    page.reload()
    page.route(re.compile(r"/\?(seen=\w+&)?live$"), lambda route: route.abort())
    claim = f"/api/v1/pauses/{asked['id']}/claim"
    assert stack.call("POST", claim, {}, token=TOKENS["ben"])[0] in {200, 201, 204}
    row(page, asked).locator(".main-link").click()
    expect(beside(page, asked)).to_contain_text("Ben")
    expect(page.locator("#question")).to_be_focused()
    expect(page.locator("[data-pill]")).to_contain_text("The list is older than this question")
    page.route(re.compile(r"/work-orders/"), lambda route: route.abort())
    page.locator("[data-pane] [data-whole]").focus()
    row(page, asked).locator(".main-link").click()  # it is there already, and stays
    expect(beside(page, asked)).to_contain_text("Ben")


def test_on_a_phone_a_question_is_a_page_of_its_own(open_page, ask):
    asked = ask("edited")
    page = open_page("ana", "/", **PHONE)
    expect(page.locator("[data-pane]")).to_be_hidden()
    row(page, asked).locator(".main-link").click()
    page.wait_for_url(f"**{asked['path']}")
    expect(page.locator("[data-approve]")).to_be_visible()
    page.get_by_role("link", name="Next question").click()
    page.wait_for_url(lambda url: not url.endswith(asked["path"]))
