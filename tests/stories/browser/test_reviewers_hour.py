"""A reviewer's hour, by keys: questions of eight kinds, one after the other, while others answer
some, some expire, and the server dies.

`make reviewer` asks 200; the tests fewer. Seconds per decision are printed.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.databases.copies import PEOPLE, TOKENS
from tests.servers.stack import SlowStack, standing_alone, until
from tests.stories.browser.cards.papers import stack as stack
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack
ASKED = int(os.environ.get("REVIEWER_QUESTIONS", "12"))
"""Twelve are each kind, and the first four of them once more."""
ELSEWHERE = ("in the row", "on the page", "at the same moment")
"""Where the reviewer is when somebody else answers."""
KINDS = ("note", "paper", "edited", "sent-back", "high", "data", "reason", "patch")
PAPERS = """
from runs import definitions
definitions.edit_step_template("slow-note", title="Write a note", function="slow.paper", config={"parts": 1})
definitions.edit_step_template("slow-brief", title="Write a word", function="slow.paper", config={"brief": True})
diff = "diff --git a/a.py b/a.py\\n--- a/a.py\\n+++ b/a.py\\n@@ -7,2 +7,2 @@\\n one\\n-return total\\n+return round(total)\\n"
definitions.edit_step_template("slow-patch", title="Change it", function="slow.paper", config={"parts": 1, "patch": diff})
ask = {"step_type": "planning", "step_template_slug": "slow-note", "pause_after": True, "pause_phase": "awaiting_plan_approval"}
tick = {"step_type": "execute", "step_template_slug": "slow-tick"}
text = {"type": "string"}
asked = {"type": "object", "required": ["surname", "iban"],
         "properties": {"surname": text, "iban": {**text, "pattern": "^DE[0-9]{20}$"}}}
for slug, more in {
    "note": {"step_template_slug": "slow-brief"},
    "paper": {},
    "edited": {"review": {"edits": True}},
    "sent-back": {},
    "high": {"review": {"risk": "high"}},
    "data": {"required_inputs": asked},
    "reason": {"review": {"reason_required": ["approve"]}},
    "patch": {"step_template_slug": "slow-patch"},
    "expires": {"review": {"deadline": {"after": "PT20S", "outcome": "expire"}}},
}.items():
    definitions.edit_template(slug, title=slug.capitalize(), steps=[{**ask, **more}, tick], needs_repository=False)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    with standing_alone(tmp_path_factory.mktemp("hour"), PEOPLE + PAPERS) as stack:
        yield stack


class Hour:
    """What is asked, what the reviewer means to answer, and what others do."""

    def __init__(self, stack: SlowStack, page: Page) -> None:
        self.stack, self.page = stack, page
        self.kinds: dict[str, str] = {}
        """Title of an order → the kind of its question."""
        self.meant: dict[tuple[str, int], tuple[str, str]] = {}
        """A question and its revision → who answered, and how."""
        self.seconds: list[float] = []

    def order(self, template: str, number: int) -> str:
        title = f"Hour {number:03} {template}"
        body = {"template": template, "team": "platform", "title": title}
        status, made = self.stack.call("POST", "/api/v1/work-orders", body, token=TOKENS["ana"])
        assert status == 201, made
        self.kinds[title] = template
        return str(made["id"])

    def row(self) -> tuple[str, str]:
        """The id and the title where the focus is; empty at none."""
        found: list[str] = self.page.evaluate(
            "() => { const row = document.activeElement.closest('[data-row]');"
            " return row ? [row.dataset.row, row.textContent] : ['', '']; }"
        )
        return found[0], next((title for title in self.kinds if title in found[1]), "")

    def go_to_next(self, *, leave: set[str]) -> tuple[str, str]:
        """J, as often as it takes to come to a question that is not left alone."""
        seen = ""
        for _ in range(60):
            self.page.keyboard.press("j")
            question, title = self.row()
            if question == seen or not question:
                break
            if self.kinds[title] not in leave:
                return question, title
            seen = question
        return "", ""

    def answers_elsewhere(self, question: str, revision: int) -> None:
        status, told = self.stack.call(
            "POST",
            f"/api/v1/pauses/{question}/decisions",
            {"decision": "cancel", "feedback": "No longer needed.", "revision": revision},
            token=TOKENS["ana"],
        )
        assert status == 201, told
        self.meant[question, revision] = ("ana", "cancel")

    def answered(self, question: str, revision: int = 1) -> None:
        card = self.page.locator(f"[data-pause={question}]")
        expect(card.filter(has_text=f"Revision {revision}")).to_have_count(0, timeout=20_000)
        expect(self.page.locator("main > .notice").first).to_contain_text("You", timeout=20_000)

    def means(self, question: str, revision: int, action: str) -> None:
        self.meant[question, revision] = ("ben", action)

    def answer(self, question: str, kind: str) -> None:
        """On the question's own page, by keys where there are keys."""
        page, press = self.page, self.page.keyboard.press
        expect(page.locator(".pause")).to_be_visible()
        expect(page.locator(".live")).to_contain_text("Live")  # keys are heard
        again = "Revision 2" in page.locator(".pause .facts").inner_text()
        action = {"sent-back": "approve" if again else "revise", "patch": "cancel"}.get(
            kind, "approve"
        )
        if kind == "edited":
            page.get_by_text("Edit and approve").click()
            page.get_by_label("The text that you approve").fill("Only half of it.")
            expect(page.locator("[data-approve]")).to_contain_text("with")
            press("Control+Enter")
        elif kind == "sent-back" and not again:
            press("r")
            page.get_by_placeholder("Provide feedback").fill("Shorter, please.")
            press("Control+Enter")
        elif kind == "high":
            press("a")
            page.locator("dialog[open] [data-sure] .button.cancel").click()
        elif kind == "data":
            page.get_by_label("surname").fill("Ada")
            page.get_by_label("iban").fill("DE" + "1" * 20)
            press("Control+Enter")
        elif kind == "reason":
            page.locator("#reason").fill("It is due.")
            press("Control+Enter")
        elif kind == "patch":
            page.locator("main h1").first.click()
            press("x")
            page.get_by_role("button", name="Yes, Cancel").click()
        else:
            press("a")
        self.answered(question, 2 if again else 1)
        self.means(question, 2 if again else 1, action)

    def has_ended(self, order: str) -> bool:
        status = self.stack.order(order, TOKENS["ana"])["status"]
        return status in {"completed", "failed", "cancelled"}

    def decisions(self) -> dict[tuple[str, int], tuple[str, str]]:
        """What stands in the record."""
        found: dict[tuple[str, int], tuple[str, str]] = {}
        cursor = "/api/v1/decisions?limit=100"
        while cursor:
            status, told = self.stack.call("GET", cursor, token=TOKENS["ana"])
            assert status == 200, told
            for one in told["results"]:
                key = one["pause_id"], one["revision"]
                assert key not in found
                found[key] = (one["decided_by"], one["action"])
            cursor = (told["next"] or "").removeprefix(self.stack.url)
        return found


GONE = re.compile(r"\bgone\b")


def answered_by_another(hour: Hour, where: str, question: str, row: Locator) -> None:
    """Somebody cancels what the reviewer has before them; their key then answers nothing."""
    page = hour.page
    if where == "in the row":
        hour.answers_elsewhere(question, 1)
        expect(row).to_have_class(GONE)
        page.keyboard.press("a")
        return
    page.keyboard.press("Enter")
    card = page.locator(f"[data-pause={question}]")
    expect(card).to_be_visible()
    if where == "at the same moment":
        page.context.set_offline(True)
        hour.answers_elsewhere(question, 1)
        page.context.set_offline(False)
        page.keyboard.press("a")
        expect(page.locator("main")).to_contain_text("Ana", timeout=30_000)
    else:
        hour.answers_elsewhere(question, 1)
    expect(card).to_have_count(0, timeout=30_000)
    page.keyboard.press("a")
    page.goto("/")


def kill_while_words_wait(hour: Hour, question: str) -> bool:
    """The server dies under a revision that is written; it is sent when the server is back."""
    page = hour.page
    expect(page.locator(".pause")).to_be_visible()
    page.keyboard.press("r")
    wish = page.get_by_placeholder("Provide feedback")
    wish.fill("Shorter, after all.")
    hour.stack.kill(hour.stack.processes[-1])
    page.keyboard.press("Control+Enter")
    expect(page.locator(".pause")).to_contain_text("could not be reached")
    expect(wish).to_have_value("Shorter, after all.")
    hour.stack.standalone()
    page.keyboard.press("Control+Enter")
    hour.answered(question)
    hour.means(question, 1, "revise")
    return True


def test_nothing_is_lost_and_nothing_answered_that_was_not_meant(stack, open_page):
    """Eight kinds by keys; three answered by somebody else meanwhile, two that expire, one server
    killed while words wait to be sent.
    """
    # where each question has a page of its own; beside the list: test_keys.py
    page = open_page("ben", "/", cut=True, viewport={"width": 1180, "height": 900})
    hour = Hour(stack, page)
    orders = [hour.order(KINDS[number % len(KINDS)], number) for number in range(ASKED)]
    late = [hour.order("expires", 900 + number) for number in range(2)]
    until(
        lambda: stack.call("GET", "/api/v1/pauses?limit=1", token=TOKENS["ben"])[1],
        what="questions",
    )
    for order in [*orders, *late]:
        stack.paused(order, TOKENS["ana"], "awaiting_plan_approval")
    page.goto("/")
    others, killed = list(ELSEWHERE), False
    met: dict[str, str] = {}
    while True:
        began = time.monotonic()
        question, title = hour.go_to_next(leave={"expires"})
        if not question:
            if page.url.endswith("/") and not page.locator("[data-row]:not(.gone)").count():
                break
            page.goto("/")
            question, title = hour.go_to_next(leave={"expires"})
            if not question:
                break
        kind, row = hour.kinds[title], page.locator(f"[data-row={question}]")
        new = title not in met
        met[title] = kind
        second = new and list(met.values()).count(kind) == 2
        if second and kind in {"note", "paper", "edited"}:
            answered_by_another(hour, others.pop(0), question, row)
        elif kind == "note":
            page.keyboard.press("a")
            expect(row).to_have_class(GONE)
            expect(row).to_contain_text("Ben")
            hour.means(question, 1, "approve")
            hour.seconds.append(time.monotonic() - began)
        else:
            page.keyboard.press("Enter")
            if second and kind == "sent-back":
                killed = kill_while_words_wait(hour, question)
            else:
                hour.answer(question, kind)
            hour.seconds.append(time.monotonic() - began)
            page.wait_for_load_state()  # keys are heard
            page.keyboard.press("g")
            page.keyboard.press("i")
            page.wait_for_url(f"{stack.url}/")
    assert not others and killed
    shot(page, "reviewers-hour-done")
    for order in [*orders, *late]:
        until(partial(hour.has_ended, order), what=f"the end of {order}")
    assert hour.decisions() == hour.meant
    spread = statistics.quantiles(hour.seconds, n=20)
    told = {
        "questions": ASKED + len(late),
        "decisions": len(hour.meant),
        "actions": Counter(action for _, action in hour.meant.values()),
        "seconds_median": round(statistics.median(hour.seconds), 2),
        "seconds_p95": round(spread[-1], 2),
    }
    print(json.dumps(told))
