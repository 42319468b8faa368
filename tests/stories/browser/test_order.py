"""The main job in a browser: two people, live, on desktop and phone, with and without
JavaScript.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Response, expect

from tests.stories.browser.devices import PHONE, card
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack
NEW = "/work-orders/new"
WHOLE_WORDS = r"""() => [...document.querySelectorAll(".steps li > span:first-child")].every((step) => {
  const range = document.createRange();
  return [...step.textContent.matchAll(/\S+/g)].every((word) => {
    range.setStart(step.firstChild, word.index);
    range.setEnd(step.firstChild, word.index + word[0].length);
    return range.getClientRects().length === 1;
  });
})"""


def make_order(page: Page, repository: object, rules: str = "I, UP") -> str:
    """Fill in the form of a new order, at which the page is; gives its id."""
    page.get_by_label("Repository").fill(str(repository))
    page.get_by_label(re.compile("Rule", re.IGNORECASE)).first.fill(rules)
    if page.get_by_label("Team").count():
        page.get_by_label("Team").select_option("platform")
    page.get_by_role("button", name=re.compile("Start|Create|Make")).click()
    page.wait_for_url(re.compile(r"/work-orders/wo_"))
    return page.url.rstrip("/").rpartition("/")[2]


def looks_of(page: Page) -> list[str]:
    """What the page fetches to show itself anew, from now on."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url) if "live" in request.url else None)
    return found


def both_ask(asked: dict[Page, list[str]], question: str) -> None:
    """Every device shows the question, and fetched little for it."""
    for device, urls in asked.items():
        expect(card(device, question)).to_be_visible(timeout=60_000)
        assert len(urls) <= 4, urls


def test_a_person_takes_an_order_from_plan_to_commits_without_reloading(stack, open_page):
    """S4-1, S4-36, S4-37, S4-60, S0-25, F28: nothing is reloaded; every change comes by itself.

    P7, P9: what happens is written once for all who watch, so they fetch but what is their own, a
    question.
    """
    page = open_page("ana", NEW)
    order = make_order(page, stack.folder / "celery")
    phone = open_page("ben", f"/work-orders/{order}/", **PHONE)
    asked = {device: looks_of(device) for device in (page, phone)}
    both_ask(asked, "Waiting for Plan Approval")
    expect(page.locator(".live")).to_contain_text("Live")
    expect(page.locator(".pause")).to_contain_text("just now")
    shot(page, "plan-desktop")
    page.locator("[data-revise]").click()
    words = page.get_by_placeholder("Provide feedback for revision...")
    words.fill("skip UP032, not in tests/")
    page.get_by_role("button", name="Submit Revision").click()
    expect(page.locator(".pause.working")).to_contain_text("Re-running planning with feedback...")
    expect(card(page, "Waiting for Plan Approval")).to_contain_text(
        "Your feedback was applied", timeout=60_000
    )
    shot(page, "plan-revision-2-desktop")
    for urls in asked.values():
        urls.clear()
    page.get_by_role("button", name="Approve", exact=False).first.click()
    expect(phone.locator("[data-answered]")).to_contain_text("Ana approved at")
    both_ask(asked, "Waiting for Implementation Review")
    phone.context.close()
    shot(page, "implementation-desktop")
    assert page.evaluate(WHOLE_WORDS), "the progress above the card broke “Implementation” in two"
    page.locator("[data-approve]").click()
    expect(card(page, "Waiting for Review Decision")).to_be_visible(timeout=60_000)
    page.locator("[data-approve]").click()
    expect(page.locator("main")).to_contain_text("Completed", timeout=60_000)
    expect(page.locator(".pause")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("Workflow resumed with decision: approve")
    shot(page, "completed-desktop")
    assert order in page.url


def test_two_people_at_one_question_are_brought_what_the_other_does(stack, open_page, token):
    """F8, F9: comments, a claim and its end come alone, each once; the card is not written anew,
    and what somebody types stays. Each sees the other at the question, and the answer of one, on a
    phone, turns the card of the other.
    """
    desktop = open_page("ana", NEW)
    order = make_order(desktop, stack.folder / "celery", rules="I")
    expect(card(desktop, "Waiting for Plan Approval")).to_be_visible(timeout=60_000)
    pause = desktop.locator("[data-presence]").get_attribute("data-presence")
    desktop.locator("[data-revise]").click()
    words = desktop.get_by_placeholder("Provide feedback for revision...")
    words.fill("half a sentence")
    looks: list[Response] = []
    desktop.on(
        "response", lambda response: looks.append(response) if "?live" in response.url else None
    )
    for path, body, words_of_it in (
        ("comments", {"text": "Is it so?"}, "commented"),
        ("comments", {"text": "And this?"}, "commented"),
        ("claim", {}, "claimed the question"),
        ("release", {}, "released the question"),
    ):
        if path == "claim":
            expect(desktop.locator("[data-live=talk]")).to_contain_text("And this?")
            expect(words).to_have_value("half a sentence")
        status, _ = stack.call("POST", f"/api/v1/pauses/{pause}/{path}", body, token=token("ben"))
        assert status in {200, 201}
        expect(desktop.locator(".timeline li").first).to_contain_text(f"Ben {words_of_it}")
    expect(desktop.locator("[data-live=talk]")).to_contain_text("Is it so?")
    # unsent, while it was claimed
    expect(desktop.locator("main")).to_contain_text("half a sentence")
    rows = desktop.locator(".timeline li").evaluate_all("rows => rows.map(({ id }) => id)")
    assert len(rows) == len(set(rows))
    assert rows == sorted(rows, key=lambda row: -int(row.rpartition("-")[2]))
    told = [look.text() for look in looks if look.status == 200]
    assert told
    assert not [text for text in told if 'data-live="card"' in text]
    phone = open_page("ben", "/", **PHONE)
    expect(phone.locator("main")).to_contain_text("Waiting for you")
    shot(phone, "inbox-phone")
    phone.goto(f"/work-orders/{order}/")
    shot(phone, "plan-phone")
    expect(desktop.locator("[data-presence]")).to_have_text("Ben is viewing")
    expect(phone.locator("[data-presence]")).to_have_text("Ana is writing a decision")
    phone.locator("[data-revise]").click()
    phone.get_by_placeholder("Provide feedback for revision...").press_sequentially("shor")
    expect(desktop.locator("[data-presence]")).to_have_text("Ben is writing a decision")
    shot(desktop, "presence-desktop")
    shot(phone, "presence-phone")
    phone.locator("[data-revise]").click()
    phone.locator("[data-cancel]").click()
    expect(phone.locator("dialog")).to_contain_text(
        "Are you sure you want to cancel this work order?"
    )
    shot(phone, "cancel-phone")
    phone.get_by_role("button", name="Yes, Cancel").click()
    expect(phone.locator("main")).to_contain_text("Cancelled by user at planning phase")
    expect(desktop.locator("main")).to_contain_text("Cancelled by user at planning phase")
    expect(desktop.locator("[data-approve]")).to_have_count(0)
    expect(desktop.locator("main .status").first).to_have_text("Cancelled")
    expect(desktop.locator("[data-unsent]")).to_contain_text("half a sentence")
    shot(desktop, "cancelled-desktop")


def unplug(page: Page) -> None:
    """Something between browser and server lets neither sockets nor streams through."""
    page.route_web_socket(re.compile("/ws/"), lambda socket: socket.close(code=1011))
    page.route(re.compile("/stream$"), lambda route: route.abort())


def test_with_the_socket_down_the_page_polls_keeps_up_and_tells_a_late_answer_the_calm_truth(
    stack, open_page, token
):
    """S4-7, S4-46, S4-47, S4-67, F27: neither sockets nor streams; the page says so and follows by
    polling, most answers being 304. F8: it still shows the question when another's answer wins.
    """
    page = open_page("ana", NEW, cut=True)
    unplug(page)
    answers: list[int] = []
    page.on(
        "response",
        lambda response: answers.append(response.status) if "/events?" in response.url else None,
    )
    order = make_order(page, stack.folder / "celery", rules="I")
    expect(page.locator(".live")).to_contain_text("Checking every 2 s")
    expect(card(page, "Waiting for Plan Approval")).to_be_visible(timeout=60_000)
    with page.expect_response(
        lambda response: "/events?" in response.url and response.status == 304
    ):
        pass
    pause = page.locator("[data-presence]").get_attribute("data-presence")
    assert stack.call("POST", f"/api/v1/pauses/{pause}/presence", {}, token=token("ben"))[0] == 200
    expect(page.locator("[data-presence]")).to_have_text("Ben is viewing", timeout=15_000)
    stack.answer(order, token("ben"), "approve")
    expect(card(page, "Waiting for Implementation Review")).to_be_visible(timeout=60_000)
    page.route("**/events?*", lambda route: route.abort())  # the page learns of no answer
    stack.answer(order, token("ben"), "cancel")
    page.locator("[data-approve]").click()
    expect(page.locator("[data-problem]")).to_contain_text("Already cancelled by Ben")
    shot(page, "late-answer-desktop")
    page.unroute("**/events?*")
    expect(page.locator("main")).to_contain_text(
        "Cancelled by user at executing phase", timeout=30_000
    )
    assert 304 in answers
