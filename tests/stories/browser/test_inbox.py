"""The inbox and a question's page, live, on several devices: nothing moves under the pointer; an
answer is everywhere within a second.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.servers.stack import Stack, until
from tests.stories.browser.devices import BLANK, PHONE
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack
WITHIN = 1.0
"""Seconds from a commit to whoever looks, by the page's own clock: each page is told by its socket
which question it was, and waits for no fetch to take its buttons away.
"""
ALONE = 12.0
"""The same without hints: a look every 5 s, and what a machine that does other things takes for it.

It was 30 s once.
"""
NOTE_THE_MOMENT = """(selector) => {
  window.moments = [];
  const seen = new Set();
  new MutationObserver(() => {
    for (const node of document.querySelectorAll(selector)) {
      const key = node.dataset.row ?? location.pathname;
      if (!node.hidden && !seen.has(key)) { seen.add(key); window.moments.push(Date.now() / 1000); }
    }
  }).observe(document.body, { subtree: true, childList: true, attributes: true });
}"""
PLACES = """() => Object.fromEntries([...document.querySelectorAll("[data-row]")].map((row) => {
  const { top, left, height } = row.getBoundingClientRect();
  return [row.dataset.row, [top, left, height].map(Math.round)];
}))"""
STUB = """
  window.asked = 0; window.notes = [];
  window.Notification = class {
    static permission = "default";
    static async requestPermission() { window.asked += 1; return (Notification.permission = window.verdict ?? "granted"); }
    constructor(title, options) { window.notes.push([title, options.tag]); }
  };
  Object.defineProperty(document, "hidden", { get: () => window.away ?? false });
"""


class Desk:
    """Asks questions as another engine does, so no worker is needed."""

    def __init__(self, stack: Stack, token: Any, prefix: str) -> None:
        self.stack, self.token, self.prefix, self.asked = stack, token, prefix, 0

    def ask(self) -> dict[str, Any]:
        self.asked += 1
        body = {
            "run_id": f"{self.prefix}-{self.asked}",
            "node_id": "x",
            "blocking_reason": "approval",
            "team": "platform",
            "question": f"Question {self.asked} of {self.prefix}?",
        }
        status, wait = self.stack.call(
            "POST", "/api/v1/workflows/wait", body, token=self.token("ana")
        )
        assert status == 201, wait
        found: dict[str, Any] = wait
        return found

    def answer(self, wait: dict[str, Any], decision: str = "approve", *, by: str = "ben") -> None:
        status, answer = self.stack.call(
            "POST",
            f"/api/v1/pauses/{wait['pause_id']}/decisions",
            {"decision": decision},
            token=self.token(by),
        )
        assert status == 201, answer

    def call(self, wait: dict[str, Any], what: str, *, by: str) -> None:
        address = f"/api/v1/pauses/{wait['pause_id']}/{what}"
        status, answer = self.stack.call("POST", address, {}, token=self.token(by))
        assert status in {200, 201, 204}, answer

    def answered_at(self, wait: dict[str, Any]) -> float:
        events = self.stack.call(
            "GET", f"/api/v1/threads/{wait['thread_id']}/events", token=self.token("ana")
        )[1]
        return dt.datetime.fromisoformat(
            next(
                event["at"] for event in events["results"] if event["event"] == "approval_received"
            )
        ).timestamp()


@pytest.fixture
def desk(stack, token, request):
    return Desk(stack, token, request.function.__name__[5:15])


def row(page: Page, wait: dict[str, Any]):
    return page.locator(f"[data-row={wait['pause_id']}]")


def test_rows_stay_where_they_are_and_say_who_answered_them_elsewhere(desk, open_page):
    """F9, S0-69: new questions wait behind a pill; one that was answered elsewhere has no button
    any more.
    """
    first, *others = [desk.ask() for _ in range(4)]
    page, phone = open_page("ana", "/"), open_page("ben", "/", **PHONE)
    for device in (page, phone):
        expect(device.locator(".live")).to_contain_text("Live")
        device.evaluate(NOTE_THE_MOMENT, ".gone")
    row(page, first).get_by_role("link", name="Review").hover()  # which scrolls to it
    before, count = page.evaluate(PLACES), int(page.locator("[data-count]").inner_text())
    desk.ask()
    desk.ask()
    expect(page.locator("[data-pill]")).to_contain_text("2 new — show")
    expect(page).to_have_title(f"({count + 2}) Inbox · Waystation")
    assert page.evaluate(PLACES) == before, "nothing moved"
    for wait in others:
        desk.answer(wait)
        expect(row(page, wait)).to_contain_text("Ben")
        expect(row(page, wait).locator(".verdict, .by")).to_contain_text("Approved")
        expect(row(page, wait).locator(".button, input:enabled")).to_have_count(0)
    assert page.evaluate(PLACES) == before, "nothing moved"
    expect(phone.locator(".gone")).to_have_count(len(others))
    for device in (page, phone):
        late = [
            moment - desk.answered_at(wait)
            for moment, wait in zip(device.evaluate("window.moments"), others, strict=True)
        ]
        assert max(late) < WITHIN, late
    expect(page).to_have_title(f"({count - 1}) Inbox · Waystation")
    history = page.get_by_role("region", name="History")
    for wait in others:
        expect(history).to_contain_text(wait["question"])
    left = page.locator("[data-row] input:enabled:not([type=hidden])").count()
    expect(page.locator("[data-selected]")).to_contain_text(f"Select all {left}")
    shot(page, "inbox-live-desktop")
    page.locator("[data-pill] button").click()
    expect(page.locator("[data-pill] button")).to_be_hidden()
    expect(row(page, others[0])).to_have_count(0)
    expect(page.locator("[data-row]").filter(has_text=f"of {desk.prefix}?")).to_have_count(3)


def is_look(url: str) -> bool:
    return re.search(r"/\?(seen=\w+&)?live$", url) is not None


def asked_of_server(page: Page) -> list[str]:
    """What the page asks for from now on, by itself."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url.partition(page_origin(page))[2]))
    return found


def page_origin(page: Page) -> str:
    return str(page.evaluate("location.origin"))


def test_an_open_inbox_is_told_all_and_asks_for_nothing(desk, open_page):
    """S0-69, F9, P7: who answered, a claim and its end come as rows that are written once for all;
    the list is fetched by who wants to see it anew.
    """
    wait, other, third = desk.ask(), desk.ask(), desk.ask()
    page = open_page("ana", "/", cut=True)
    expect(page.locator(".live")).to_contain_text("Live")
    row(page, third).get_by_role("checkbox").check()
    page.mouse.move(0, 0)
    row(page, wait).get_by_role("link", name="Review").focus()  # which scrolls to it
    before, asked = page.evaluate(PLACES), asked_of_server(page)
    desk.answer(wait)
    expect(row(page, wait)).to_contain_text("Approved · Ben")
    expect(row(page, wait).locator(".button, input:enabled")).to_have_count(0)
    expect(row(page, wait).locator(".main-link")).to_be_focused()
    expect(row(page, other).locator(".button")).to_have_count(2)
    assert page.evaluate(PLACES) == before, "nothing moved"
    history = page.get_by_role("region", name="History")
    expect(history.locator("li").first).to_contain_text("Approved")
    expect(history.locator(f"[data-of={wait['pause_id']}]")).to_have_count(1)
    desk.call(third, "claim", by="ben")
    expect(row(page, third)).to_contain_text("claimed by Ben")
    expect(row(page, third).get_by_role("button", name="Approve")).to_have_count(0)
    expect(row(page, third).get_by_role("checkbox")).to_be_checked()
    desk.call(third, "release", by="ben")
    expect(row(page, third).get_by_role("button", name="Approve")).to_have_count(1)
    expect(row(page, third)).not_to_contain_text("claimed by")
    desk.ask()
    expect(page.locator("[data-pill]")).to_contain_text("1 new — show")
    assert page.evaluate(PLACES) == before, "nothing moved"
    assert asked == []
    row(page, third).get_by_role("button", name="Approve").click()
    expect(row(page, third)).to_contain_text("Approved · Ana")
    page.route(is_look, lambda route: route.abort())
    page.locator("[data-pill] button").click()
    expect(page.locator("[data-announce]")).to_contain_text("the list is as it was. Try again.")
    page.unroute(is_look)
    page.locator("[data-pill] button").click()
    expect(page.locator("[data-pill] button")).to_be_hidden()
    expect(page.locator("[data-row]").filter(has_text=f"of {desk.prefix}?")).to_have_count(2)


def test_a_page_that_was_cut_off_learns_what_it_missed(desk, open_page):
    """P9: from the first message of its new socket, which says what waits and since when it is so."""
    wait, other, third = desk.ask(), desk.ask(), desk.ask()
    page, sockets = open_page("ana", "/", cut=True), []
    cut = False

    def through(socket: Any) -> None:
        if cut:
            socket.close(code=1012)
        else:
            socket.connect_to_server()
            sockets.append(socket)

    page.route_web_socket("**/ws/inbox*", through)
    page.reload()
    expect(page.locator(".live")).to_contain_text("Live")
    page.route(is_look, lambda route: route.abort())
    cut = True
    sockets.pop().close(code=1012)
    expect(page.locator(".live")).not_to_contain_text("Live")
    desk.answer(wait)
    desk.call(other, "claim", by="ben")
    desk.ask()
    cut = False
    page.unroute(is_look)
    expect(page.locator(".live")).to_contain_text("Live", timeout=20_000)
    expect(row(page, wait).locator(".button")).to_have_count(0)
    expect(row(page, third).locator(".button")).to_have_count(2)
    expect(row(page, other)).to_contain_text("claimed by Ben")
    expect(page.locator("[data-pill]")).to_contain_text("1 new — show")
    page.locator("[data-pill] button").click()
    expect(row(page, wait)).to_have_count(0)
    expect(row(page, other)).to_contain_text("claimed by Ben")


def test_a_row_stays_as_it_was_read_under_the_pointer(desk, open_page):
    """P1, S0-69: somebody is about to press its button; what changed shows when they leave it."""
    wait, other = desk.ask(), desk.ask()
    page = open_page("ana", "/")
    expect(page.locator(".live")).to_contain_text("Live")
    row(page, wait).get_by_role("button", name="Approve").hover()
    for one in (wait, other):
        desk.call(one, "claim", by="ben")
    expect(row(page, other)).to_contain_text("claimed by Ben")
    expect(row(page, wait)).not_to_contain_text("claimed by Ben")
    row(page, wait).get_by_role("button", name="Approve").click()
    expect(row(page, wait).locator(".row-problem")).to_contain_text("claimed")
    page.get_by_role("heading", name="Inbox").hover()
    page.evaluate("document.activeElement.blur()")
    expect(row(page, wait)).to_contain_text("claimed by Ben")
    expect(row(page, wait).get_by_role("button", name="Approve")).to_have_count(0)


def test_an_inbox_with_filters_asks_for_the_rows_that_changed_alone(desk, open_page):
    wait = desk.ask()
    page = open_page("ana", f"/?q={desk.prefix}")
    expect(page.locator(".live")).to_contain_text("Live")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.wait_for_load_state("networkidle")
    asked = asked_of_server(page)
    stranger = Desk(desk.stack, desk.token, f"{desk.prefix[:3]}zz")
    count = int(page.locator("[data-count]").inner_text())
    stranger.ask()
    expect(page.locator("[data-count]")).to_have_text(str(count + 1))
    desk.ask()
    expect(page.locator("[data-pill]")).to_contain_text("1 new — show")
    desk.call(wait, "claim", by="ben")
    expect(row(page, wait)).to_contain_text("claimed by Ben")
    desk.answer(wait)
    expect(row(page, wait)).to_contain_text("Approved · Ben")
    assert asked and all(url.startswith("/rows?") for url in asked), asked


def test_an_answer_on_one_device_closes_the_question_on_all(desk, open_page):
    """S0-56, S0-69, S4-8, F9: two people at desks and a phone look at one question."""
    devices = [
        open_page(who, BLANK, **how) for who, how in (("ana", PHONE), ("ben", {}), ("ana", {}))
    ]
    late: list[float] = []
    for name in ("Ana", "Ben"):
        wait = desk.ask()
        for device in devices:
            device.goto(f"/threads/{wait['thread_id']}/")
            expect(device.locator(".live")).to_contain_text("Live")
            expect(device.locator("[data-approve]")).to_be_visible()
            device.evaluate(NOTE_THE_MOMENT, "[data-answered]")
        answering = devices.pop(0)
        answering.locator("[data-approve]").click()
        expect(answering.locator("[data-approve]")).to_have_count(0)
        for device in devices:
            expect(device.locator("[data-answered]")).to_contain_text(f"{name} approved at")
            expect(device.locator("[data-approve], [data-cancel], [data-revise]")).to_have_count(0)
            late += [
                moment - desk.answered_at(wait) for moment in device.evaluate("window.moments")
            ]
        devices.append(answering)
    assert len(late) == 4
    assert max(late) < WITHIN, late


def test_with_redis_away_pages_keep_up_and_recover_by_themselves(
    desk, beside, own_redis, open_page
):
    """F27, P2, P9: an answer is taken and told without Redis; the pages stay open, and are as quick
    as ever when it is back.
    """
    beside.web()
    desk.stack = beside
    waits = [desk.ask() for _ in range(2)]
    inbox, question = open_page("ana", BLANK), open_page("ana", BLANK, **PHONE)
    inbox.goto(f"{beside.url}/")
    question.goto(f"{beside.url}/threads/{waits[0]['thread_id']}/")
    expect(inbox.locator(".live")).to_contain_text("Live")
    expect(question.locator(".live")).to_contain_text("Live")
    inbox.evaluate(NOTE_THE_MOMENT, ".gone")
    own_redis.kill()
    desk.answer(waits[0])
    expect(question.locator("[data-answered]")).to_contain_text("Ben approved at", timeout=20_000)
    expect(question.locator("[data-approve]")).to_have_count(0)
    expect(question.locator(".live")).to_contain_text("Live")
    expect(row(inbox, waits[0])).to_contain_text("Ben", timeout=20_000)
    late = inbox.evaluate("window.moments[0]") - desk.answered_at(waits[0])
    assert late < ALONE, "as prompt as the question's own page"
    own_redis.start()
    question.goto(f"{beside.url}/threads/{waits[1]['thread_id']}/")
    expect(question.locator(".live")).to_contain_text("Live")
    desk.answer(waits[1])
    expect(question.locator("[data-answered]")).to_contain_text("Ben approved at", timeout=20_000)
    for wait in waits:
        expect(row(inbox, wait)).to_contain_text("Ben", timeout=20_000)
        expect(row(inbox, wait).locator(".button")).to_have_count(0)
    expect(inbox.locator(".live")).to_contain_text("Live")


def test_a_notification_comes_only_to_who_wished_for_it_and_looks_elsewhere(desk, open_page):
    """F30: permission is asked for by a click alone; one note stands for all tabs and all
    questions.
    """
    page = open_page("ana", "/")
    page.context.add_init_script(STUB)
    page.reload()
    expect(page.locator(".live")).to_contain_text("Live")
    desk.ask()
    expect(page.locator("[data-pill] button")).to_be_visible()
    assert page.evaluate("[window.asked, window.notes]") == [0, []], (
        "nobody was asked, and nobody told"
    )
    wish = page.get_by_label("Notify me of new questions")
    page.get_by_role("button", name="Menu of").click()
    page.evaluate("window.verdict = 'denied'")
    wish.click()
    expect(page.locator("[data-announce]")).to_contain_text("does not allow notifications")
    expect(wish).not_to_be_checked()
    page.evaluate("window.verdict = 'granted'")
    wish.check()
    expect(wish).to_be_checked()
    assert page.evaluate("window.asked") == 2
    count = int(page.locator("[data-count]").inner_text())
    desk.ask()
    expect(page.locator("[data-count]")).to_have_text(str(count + 1))
    assert page.evaluate("window.notes") == [], "who looks at the page sees it there"
    page.evaluate("window.away = true")
    desk.ask()
    # the page forbids what wait_for_function does
    until(lambda: page.evaluate("window.notes.length") == 1, what="the notification")
    assert page.evaluate("window.notes") == [[f"{count + 2} questions wait for you", "waiting"]]
    wish.uncheck()
    desk.ask()
    expect(page.locator("[data-count]")).to_have_text(str(count + 3))
    assert page.evaluate("window.notes.length") == 1
    page.context.close()  # its script is of all pages there


def test_an_inbox_is_cleared_with_keys_alone(desk, open_page):
    """PEERS 2, 5, 6, 18: J and K move, X chooses, A answers in the row and goes on to the next
    question; several go to the page that looks them over. `?` and Ctrl+K are dialogs.
    """
    waits = [desk.ask() for _ in range(6)]
    # alone: the page would scroll to a row below what others left open
    page = open_page("ana", f"/?q={desk.prefix}", viewport={"width": 1280, "height": 1700})
    expect(page.locator(".live")).to_contain_text("Live")
    rows = [row(page, wait) for wait in waits]
    rows[0].locator(".main-link").focus()
    before = page.evaluate(PLACES)
    page.keyboard.press("j")
    expect(rows[1].locator(".main-link")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("a")
    expect(rows[0]).to_have_class(re.compile("gone"))
    expect(rows[1].locator(".main-link")).to_be_focused()
    expect(page.locator("[data-announce]")).to_contain_text("You approved.")
    expect(page.locator("[data-announce]")).to_contain_text(f"Next: {waits[1]['question']}")
    assert page.evaluate(PLACES) == before, "nothing moved"
    rows[1].get_by_role("button", name="Approve").click()
    expect(rows[1]).to_contain_text("Approved · Ana")
    expect(rows[2].locator(".main-link")).to_be_focused()
    desk.answer(waits[2])
    expect(rows[2]).to_contain_text("Ben")
    page.keyboard.press("a")  # which neither the row nor its question beside the list takes
    expect(page.locator("[data-will]")).to_be_empty()
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("Shift+J")
    chosen = page.locator("[data-selected]")
    expect(chosen).to_contain_text(re.compile(r"2 of \d+ selected"))
    assert page.evaluate(PLACES) == before, "nothing moved"
    shot(page, "inbox-chosen-by-keys")
    page.get_by_role("checkbox", name=re.compile("selected")).click()
    expect(page.locator("[data-row] input:enabled:not(:checked):not([type=hidden])")).to_have_count(
        0
    )
    page.get_by_role("checkbox", name=re.compile("selected")).click()
    expect(chosen).to_contain_text("Select all")
    rows[3].get_by_role("checkbox").click()
    rows[4].get_by_role("checkbox").click()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("Next and previous question")
    page.keyboard.press("x")
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Find a page or an action")
    expect(field).to_be_focused()
    page.keyboard.type("my teams")
    expect(page.get_by_role("listbox").get_by_role("option")).to_have_count(1)
    page.keyboard.press("Control+k")
    expect(field).to_be_hidden()
    page.keyboard.press("a")
    expect(page.get_by_role("button", name="Approve 2")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("approve 2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="2 of 2 answered")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("threads")
    option = page.get_by_role("option", name="Threads")
    expect(option).to_have_attribute("aria-selected", "true")
    option.click()
    page.wait_for_url("**/threads/")


def test_a_row_says_what_the_server_said_where_an_answer_is_refused(desk, open_page):
    """P1, F8: another answer came first, and nothing tells this page of it."""
    wait = desk.ask()
    page = open_page("ana", "/")
    page.route_web_socket("**/ws/inbox*", lambda _: None)
    page.reload()
    page.route(is_look, lambda route: route.abort())
    desk.answer(wait)
    row(page, wait).get_by_role("button", name="Approve").click()
    expect(row(page, wait).locator(".row-problem")).to_contain_text("Ben")
    expect(row(page, wait).get_by_role("button")).to_have_count(0)


def test_filters_come_when_they_are_opened_and_keep_what_was_chosen_meanwhile(desk, open_page):
    """Issue 34: nobody pays for counts that nobody looks at; without JavaScript a button
    brings them, and what was typed stays.
    """
    desk.ask()
    page = open_page("ana", f"/?q={desk.prefix}&kind=external")
    filters = page.locator("#filters")
    asked = asked_of_server(page)
    filters.locator("summary").click()
    expect(filters.get_by_label("Risk")).to_contain_text("Normal (1)")
    expect(filters.get_by_label("Kind")).to_have_value("external")
    filters.get_by_label("Risk").select_option("normal")
    filters.locator("summary").click()
    filters.locator("summary").click()
    expect(filters.get_by_label("Risk")).to_have_value("normal")
    assert [url for url in asked if url.startswith("/filters/")] == [
        f"/filters/inbox?q={desk.prefix}&kind=external"
    ]
    filters.get_by_role("button", name="Show").click()
    page.wait_for_url("**risk=normal**")
    expect(page.locator("[data-row]")).to_have_count(1)
    plain = open_page("ana", "/", java_script_enabled=False)
    plain.goto(page.url)
    filters = plain.locator("#filters")
    filters.locator("summary").click()
    expect(filters.get_by_label("Risk")).to_have_value("normal")
    filters.get_by_label("Since").fill("1d")
    filters.get_by_role("button", name="All filters").click()
    expect(filters.get_by_label("Since")).to_have_value("1d")
    expect(filters.get_by_label("Kind")).to_contain_text("Wait gates (1)")
    expect(filters.get_by_label("Risk")).to_have_value("normal")


def test_filters_stay_usable_where_their_choices_cannot_be_had(desk, open_page):
    page = open_page("ana", "/?kind=external", cut=True)
    page.route("**/filters/**", lambda route: route.abort())
    filters = page.locator("#filters")
    filters.locator("summary").click()
    expect(filters.get_by_role("button", name="All filters")).to_be_visible()
    filters.get_by_label("Kind").select_option("")
    page.unroute("**/filters/**")
    filters.locator("summary").click()
    filters.locator("summary").click()
    expect(filters.get_by_label("Risk")).to_be_visible()
    expect(filters.get_by_label("Kind")).to_have_value("")
