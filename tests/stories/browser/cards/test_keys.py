"""No decision by accident: keys answer where the focus is on the page itself or on a row, say so for
two seconds, and nothing that is typed is an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.databases.copies import PEOPLE, TOKENS
from tests.servers.stack import REQUESTS, ROOT, SlowStack, standing_alone, until
from tests.stories.browser.cards import probing
from tests.stories.browser.cards.papers import DESKTOP
from tests.stories.browser.cards.papers import stack as stack
from tests.stories.browser.devices import BLANK, PHONE, beside, drawn_beside, row
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack
PAPERS = """
from runs import definitions
from django.contrib.auth.models import Group
User.objects.filter(username="ben").update(email="ben@example.org")
definitions.edit_step_template("slow-note", title="Write a note", function="slow.paper", config={"parts": 1})
definitions.edit_step_template("slow-brief", title="Write a word", function="slow.paper", config={"brief": True})
part = "diff --git a/{0} b/{0}\\n--- a/{0}\\n+++ b/{0}\\n@@ -7,2 +7,2 @@\\n one\\n-return total\\n+return round(total)\\n"
definitions.edit_step_template("slow-patch", title="Change it", function="slow.paper", config={"parts": 1, "patch": part.format("a.py") + part.format("b.py")})
ask = {"step_type": "planning", "step_template_slug": "slow-note", "pause_after": True, "pause_phase": "awaiting_plan_approval"}
tick = {"step_type": "execute", "step_template_slug": "slow-tick"}
text = {"type": "string"}
asked = {"type": "object", "required": ["surname"], "properties": {
    "surname": text, "born": {**text, "format": "date"}, "many": {"type": "integer"}, "sure": {"type": "boolean"},
    "colour": {**text, "enum": ["red", "green", "blue", "black", "white", "pink"]}, "about": {**text, "maxLength": 5000}}}
from runs.workflows import attachments
files = {"type": "object", "required": ["scan"], "properties": {"scan": attachments.schema_of("Scan", path=False), "about": text}}
definitions.edit_step_template("slow-ticked", title="Write a note", function="slow.ticked", config={"parts": 1})
later = [{"name": "later", "label": "Ask me next week", "to": "execute"}]
stage = {"reviewers": {"users": ["ana", "ben"]}}
for slug, more in {
    "edited": {"review": {"edits": True}},
    "later": {"choices": later, "review": {"reason_required": ["later"]}},
    "reasons": {"choices": later, "review": {"reason_required": ["later", "approve"]}},
    "data": {"required_inputs": asked},
    "data-ways": {"required_inputs": asked, "choices": later},
    "files": {"required_inputs": files},
    "ticks": {"step_template_slug": "slow-ticked"},
    "patch": {"step_template_slug": "slow-patch"},
    "brief": {"step_template_slug": "slow-brief"},
    "stages": {"review": {"stages": [{**stage, "name": "legal"}, {**stage, "name": "money"}]}},
    "high": {"review": {"risk": "high", "quorum": 2, "deadline": {"after": "P2D", "outcome": "expire"}, "reason_required": ["cancel"]}},
    "mailed": {"required_inputs": asked, "review": {"risk": "low", "link_answers": True, "reviewers": {"users": ["ben"]}}},
    "outside": {"required_inputs": asked, "review": {"external": ["supplier@example.com"]}},
}.items():
    definitions.edit_template(f"keys-{slug}", title=slug.capitalize(), steps=[{**ask, **more}, tick], needs_repository=False)
definitions.edit_step_template("slow-calls", title="Calls", function="slow.calls", config={})
definitions.edit_template("keys-calls", title="Calls", steps=[{"step_type": "execute", "step_template_slug": "slow-calls"}], needs_repository=False)
"""
KINDS: dict[str, dict[str, str]] = {
    "edited": {"wish": "revise", "edited_content": "approve"},
    "later": {"wish": "revise", "feedback": "later"},
    "reasons": {"wish": "revise"},
    "data": {"wish": "revise", "input.": "approve"},
    "data-ways": {"wish": "revise"},
    "files": {"wish": "revise", "input.": "approve"},
    "ticks": {"wish": "revise"},
    "second look": {"wish": "revise", "edited_content": "approve"},
    "patch": {"wish": "revise"},
    "stages": {"wish": "revise"},
    "high": {"wish": "revise"},
    "calls": {},
    "chat": {"wish": "revise"},
}
"""The kinds of cards, and which fields of each belong to which answer, for Ctrl+Enter."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    with standing_alone(tmp_path_factory.mktemp("keys"), PEOPLE + PAPERS) as stack:
        yield stack


@pytest.fixture(scope="module")
def known() -> set[str]:
    """What stands alike on many pages, and was pressed on one."""
    return {""}


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(alone: SlowStack) -> Ask:
    """Asks a question of a kind; gives its pause and the path of its page."""

    def make(kind: str = "edited") -> dict[str, Any]:
        token = TOKENS["ana"]
        if kind == "chat":
            return chat(alone)
        if kind == "second look":
            return asked_again(alone, make("edited"))
        order = {"template": f"keys-{kind}", "team": "platform"}
        status, order = alone.call("POST", "/api/v1/work-orders", order, token=token)
        assert status == 201, order
        phase = "awaiting_tool_approval" if kind == "calls" else "awaiting_plan_approval"
        found = alone.paused(order["id"], token, phase)
        return {"order": order["id"], "path": f"/work-orders/{order['id']}/", **found}

    return make


def asked_again(stack: SlowStack, asked: dict[str, Any]) -> dict[str, Any]:
    """The question once it was sent back: with what changed, in tabs."""
    body, token = {"decision": "revise", "feedback": "Shorter."}, TOKENS["ana"]
    place = f"/api/v1/pauses/{asked['id']}/decisions"
    assert stack.call("POST", place, body, token=token)[0] == 201
    anew = stack.paused(asked["order"], token, "awaiting_plan_approval", revision=2)
    return {**asked, **anew}


def chat(stack: SlowStack) -> dict[str, Any]:
    token = TOKENS["ana"]
    status, thread = stack.call("POST", "/api/v1/threads", {}, token=token)
    assert status == 201, thread
    status, run = stack.call(
        "POST",
        f"/api/v1/threads/{thread['id']}/runs",
        {"template": "slow-chat", "input": "Trends?"},
        token=token,
    )
    assert status < 300, run
    questions = until(
        lambda: [
            one
            for one in stack.call("GET", "/api/v1/pauses?open=1", token=token)[1]["results"]
            if one["run_id"] == run["id"]
        ],
        what="the question of the chat",
        every=REQUESTS,
    )
    return {"id": questions[0]["id"], "path": f"/threads/{thread['id']}/"}


def decided(stack: SlowStack, asked: dict[str, Any]) -> str:
    """How the question was answered; "" while it is open."""
    status, found = stack.call("GET", f"/api/v1/pauses/{asked['id']}", token=TOKENS["ana"])
    assert status == 200
    return str(found["user_decision"]) if found["state"] != "open" else ""


def test_no_key_at_no_place_of_the_inbox_answers_but_the_control_that_says_so(
    open_page, ask, known
):
    """Before: with the focus on Review, a tab or the menu, `a` approved the row, or what was
    selected was gone over.
    """
    for _ in range(2):
        ask("patch")
    page = open_page("ana", "/", cut=True, **DESKTOP)
    watch = probing.Watch(page)
    keys = probing.keys_of(page)
    assert {"a", "r", "x", "n", "?", "Control+Enter", "Escape", "g i"} <= set(keys)
    pressing = probing.Pressing(watch, "/", "body", {}, known=known)
    assert pressing.all(keys) > 600
    pressing.type_into_all()
    watch.nothing_comes()


def test_no_key_at_no_place_of_a_card_answers_but_the_control_that_says_so(open_page, ask, known):
    """Before: with the focus on a summary or a button, `a` approved; Ctrl+Enter in a field that
    belongs to another answer, too.
    """
    page = open_page("ana", "/", cut=True, **DESKTOP)
    watch, keys = probing.Watch(page), probing.keys_of(page)
    pressed = held = 0
    for kind, goes_with in KINDS.items():
        with told_of(kind):
            path = ask(kind)["path"]
            pressing = probing.Pressing(watch, path, "main", goes_with, known=known)
            pressed += pressing.all(keys)
            pressing.type_into_all()
            held += probing.open_and_type(watch, path, known)
            if kind in ("edited", "high"):
                probing.Pressing(watch, path, "dialog", {}, known=known).all(keys)
    assert pressed > 5_000 and held >= 4, (pressed, held)
    watch.nothing_comes()


@contextmanager
def told_of(kind: str) -> Iterator[None]:
    """What fails in it says of which kind of question."""
    try:
        yield
    except AssertionError as error:
        error.add_note(f"Of the kind {kind!r}.")
        raise


def test_no_key_at_no_place_beside_the_list_answers_but_the_control_that_says_so(
    open_page, ask, known
):
    """The same of a question beside the only row of its list, so that it stays."""
    page = open_page("ana", "/", cut=True, **DESKTOP)
    watch, keys = probing.Watch(page), probing.keys_of(page)
    pressed = 0
    for kind in ("reasons", "patch", "ticks"):
        with told_of(kind):
            asked = ask(kind)
            path, opens = f"/?q={asked['order']}", f"[data-row={asked['id']}] .main-link"
            pane = probing.Pressing(watch, path, "[data-pane]", KINDS[kind], opens, known)
            pressed += pane.all(keys)
            pane.type_into_all()
    assert pressed > 1_500, pressed
    watch.nothing_comes()


def mailed(stack: SlowStack) -> str:
    """The newest link that was mailed; lines of a mail may be broken."""
    folder = Path(stack.environment["WAYSTATION_DATA"]) / "mail"
    newest = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
    found = re.findall(r"http://\S+/l/[\w=\n-]+", "\n".join(path.read_text() for path in newest))
    return str(found[-1]).replace("=\n", "").split()[0] if found else ""


def asked_by_mail(stack: SlowStack, ask: Ask, kind: str) -> str:
    """Asks, and gives the path of the link that was mailed."""
    before = mailed(stack)
    ask(kind)
    until(lambda: mailed(stack) != before, what="the mail")
    return mailed(stack).removeprefix(stack.url)


def test_no_key_at_no_place_of_a_mailed_link_answers_but_the_control_that_says_so(
    alone, chromium: Browser, ask, known
):
    """Before: Enter in a field pressed the first button of the form, Approve."""
    context = chromium.new_context(base_url=alone.url, **DESKTOP)
    watch, pressed = probing.Watch(context.new_page()), 0
    watch.page.goto("/login")
    keys = ["a", "r", "x", "n", "j", "?", "Escape", "Enter", "Control+Enter"]
    for kind in ("mailed", "outside"):
        with told_of(kind):
            place = asked_by_mail(alone, ask, kind)
            pressing = probing.Pressing(watch, place, "main", {}, known=known)
            pressed += pressing.all(keys)
            pressing.type_into_all()
    assert pressed > 200, pressed
    watch.nothing_comes()


WILL = "[data-will] p"


def test_scripts_ask_of_clicks_alone_whether_a_person_made_them():
    """So what is struck within a page is heard like a keyboard."""
    scripts = [path.read_text() for path in (ROOT / "static" / "js").glob("*.js")]
    lines = [line for text in scripts for line in text.splitlines() if "isTrusted" in line]
    assert scripts and all('["pointerdown", "click"]' in line for line in lines), lines


def test_a_key_says_for_two_seconds_what_it_sends_and_sends_it_once(stack, open_page, ask):
    asked = ask()
    page = open_page("ana", asked["path"], **DESKTOP)
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.url.endswith("/decide") else None)
    expect(page.locator(".live")).to_contain_text("Live")
    page.keyboard.press("a")
    page.keyboard.press("a")
    expect(page.locator(WILL)).to_have_text("Approve: sent in 2 s. Esc takes it back.")
    shot(page, "keys-will-desktop")
    page.wait_for_timeout(1_000)
    assert not sent and not decided(stack, asked)
    expect(page.locator("main > .notice")).to_contain_text("You approved.")
    assert len(sent) == 1 and decided(stack, asked) == "approve"


TAKEN = "Taken back: nothing was sent."


def test_an_answer_chosen_by_words_is_sent_in_two_seconds_too_and_taken_back_until_then(
    stack, open_page, ask
):
    """Before: Enter at a line of Ctrl+K answered at once, and *Edit and approve* came first."""
    asked = ask()
    page = open_page("ana", asked["path"], cut=True, **DESKTOP)
    line = page.locator(WILL)
    for words in ("app", "approve"):
        page.keyboard.press("Control+k")
        page.keyboard.type(words)
        found = page.get_by_role("listbox", name="Pages and actions").get_by_role("option")
        expect(found.first).to_have_text(re.compile("^Approve"))
        page.keyboard.press("Enter")
        expect(line).to_have_text("Approve: sent in 2 s. Esc takes it back.")
        page.keyboard.press("Escape")
        expect(line).to_have_text(TAKEN)
        expect(line).to_have_count(0)
    assert not decided(stack, asked)
    page.keyboard.press("Control+k")
    page.keyboard.type("approve")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator("main > .notice")).to_contain_text("You approved.")
    assert decided(stack, asked) == "approve"


def test_what_a_key_is_about_to_send_is_taken_back_before_it_is_sent(stack, open_page, ask):
    """By Esc, by another key, by a click, by leaving; by a question that changed, or was answered."""
    asked, other = ask(), ask()
    page = open_page("ana", asked["path"], cut=True, **DESKTOP)
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.url.endswith("/decide") else None)
    line = page.locator(WILL)
    for take_back in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.keyboard.type("@tam"),
        lambda: page.locator("header.title h1").click(),
        lambda: page.evaluate("dispatchEvent(new Event('pagehide'))"),
    ):
        page.reload()
        expect(page.locator(".live")).to_contain_text("Live")
        page.keyboard.press("a")
        expect(line).to_contain_text("sent in 2 s")
        take_back()
        expect(line.first).to_have_text(TAKEN)
    page.reload()
    page.keyboard.press("a")
    expect(line).to_contain_text("sent in 2 s")
    page.goto(other["path"])
    page.wait_for_timeout(2_200)
    assert not sent and not decided(stack, asked)
    page.goto(asked["path"])
    expect(page.locator(".live")).to_contain_text("Live")
    page.keyboard.press("a")
    expect(line).to_contain_text("sent in 2 s")
    body = {"decision": "revise", "feedback": "Anew."}
    place = f"/api/v1/pauses/{asked['id']}/decisions"
    assert stack.call("POST", place, body, token=TOKENS["ben"])[0] == 201
    expect(line).to_contain_text("has changed")
    page.wait_for_timeout(2_200)
    assert not sent and decided(stack, asked) == "revise"


def test_a_row_waits_two_seconds_too_and_is_taken_back_by_escape(stack, open_page, ask):
    first, second = ask("brief"), ask("brief")
    page = open_page("ana", "/", **DESKTOP)
    expect(page.locator(".live")).to_contain_text("Live")
    lines = [row(page, one) for one in (first, second)]
    lines[0].locator(".main-link").focus()
    page.keyboard.press("a")
    expect(page.locator(WILL)).to_contain_text("sent in 2 s")
    shot(page, "keys-will-inbox")
    page.keyboard.press("Escape")
    expect(page.locator(WILL)).to_have_text(TAKEN)
    page.wait_for_timeout(2_200)
    assert not decided(stack, first)
    for line in lines:
        line.locator(".main-link").focus()
        page.keyboard.press("a")
    for line in lines:
        expect(line).to_have_class(re.compile("gone"))
    assert [decided(stack, one) for one in (first, second)] == ["approve", "approve"]


def test_who_switched_single_keys_off_answers_by_none_and_can_still_send_what_is_typed(
    stack, open_page, ask
):
    asked = ask()
    page = open_page("ben", asked["path"], **DESKTOP)
    page.get_by_role("button", name="Menu of").click()
    page.get_by_role("button", name="Switch keyboard shortcuts off").click()
    expect(page.locator("main > .notice")).to_contain_text(
        "Keyboard shortcuts are off, in all your browsers."
    )
    other = open_page("ben", asked["path"], **DESKTOP)
    for one in (page, other):
        for key in ("a", "x", "r", "?"):
            one.keyboard.press(key)
        expect(one.locator(WILL)).to_have_count(0)
        expect(one.get_by_role("dialog")).to_have_count(0)
    other.locator("summary", has_text="Comment").click()
    other.keyboard.type("@ana is this ok")
    other.keyboard.press("Control+Enter")
    expect(other.locator("#said li")).to_contain_text("@ana is this ok")
    assert not decided(stack, asked)
    other.get_by_role("button", name="Menu of").click()
    other.get_by_role("button", name="Switch keyboard shortcuts on").click()
    other.locator("header.title h1").click()
    other.keyboard.press("a")
    expect(other.locator(WILL)).to_contain_text("sent in 2 s")


@pytest.mark.parametrize(
    ("options", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"]
)
def test_an_opened_comment_and_the_line_of_a_key_can_be_seen(open_page, ask, options, scheme):
    """For eyes, and: the field lies above the bar, and so does the line."""
    page = open_page("ana", ask("later")["path"], color_scheme=scheme, **options)
    expect(page.locator(".live")).to_contain_text("Live")
    page.keyboard.press("a")
    expect(page.locator(WILL)).to_contain_text("sent in 2 s")
    box, bar = page.locator(WILL).bounding_box(), page.locator(".bar").bounding_box()
    assert box and bar and box["y"] + box["height"] <= bar["y"] + 1
    shot(page, f"keys-will-{scheme}")
    page.keyboard.press("Escape")
    page.locator("summary", has_text="Comment").click()
    expect(page.locator("#comment")).to_be_focused()
    field, bar = page.locator("#comment").bounding_box(), page.locator(".bar").bounding_box()
    assert field and bar and field["y"] + field["height"] <= bar["y"] + 1
    shot(page, f"keys-comment-{scheme}")


def test_an_inbox_is_read_and_answered_beside_its_list(stack, open_page, ask):
    """Issue 36: J and K open, N goes on without an answer, a decision goes on to the next of the
    same list, what is typed stays, and reloading and coming back find the same place.
    """
    first, second, third, fourth = [ask(kind) for kind in ("edited", "later", "brief", "edited")]
    page = open_page("ana", "/?template=&sort=oldest", **DESKTOP)
    expect(page.locator(".live")).to_contain_text("Live")
    seen: list[tuple[str, str, int]] = []
    page.on("response", lambda one: seen.append((one.request.method, one.url, one.status)))
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
    page.locator("[data-pane] > header [data-next]").click()
    expect(beside(page, second)).to_be_visible()
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.press("n")
    expect(beside(page, third)).to_be_visible()
    page.keyboard.press("Shift+N")
    expect(beside(page, second)).to_be_visible()
    page.keyboard.press("k")
    expect(beside(page, first)).to_be_visible()
    expect(page.locator("#feedback")).to_have_value("Jog? Shorter, and next time sooner")
    gets = [status for method, _, status in seen if method == "GET"]
    assert 304 in gets, "a page that is held is shown once its version was asked for"
    # While the socket is not open, that somebody is here is said by requests.
    assert {url.rpartition("/")[2] for method, url, _ in seen if method == "POST"} <= {"presence"}
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
    pill = page.locator("[data-pill] button")
    expect(beside(page, second)).to_be_visible()
    beside(page, second).locator("[data-approve]").click()
    expect(beside(page, third)).to_be_visible()
    expect(page.locator("#question")).to_be_focused()
    expect(row(page, second)).to_have_class(re.compile("gone"))
    notice = page.locator("[data-pane] [data-notices]")
    expect(notice).to_contain_text(f"{second['question']} You approved.")
    expect(notice.get_by_role("link", name="Look at it")).to_have_attribute(
        "href", re.compile(second["path"])
    )
    expect(pill).to_be_hidden()
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
    expect(pill).to_be_hidden()
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
    search = page.get_by_role("searchbox")
    expect(search).to_be_hidden()
    page.get_by_role("checkbox", name="Show search and filters").tap()
    expect(search).to_be_visible()
    row(page, asked).locator(".main-link").click()
    page.wait_for_url(f"**{asked['path']}")
    expect(page.locator("[data-approve]")).to_be_visible()
    page.get_by_role("link", name="Next question").click()
    page.wait_for_url(lambda url: not url.endswith(asked["path"]))


def test_the_next_question_is_drawn_before_the_server_answers_and_nobody_answers_it_till_then(
    stack, open_page, ask
):
    """Issue 36: J draws what was brought while another question was read; whether it is so still is
    asked first.
    """
    first, second, third = [ask("later") for _ in range(3)]
    page = open_page("ana", BLANK, **DESKTOP)
    with page.expect_response(re.compile(second["path"])):
        page.goto("/?template=keys-later&sort=newest")
        row(page, third).locator(".main-link").focus()
        page.keyboard.press("Enter")  # the one below is brought meanwhile
        expect(page.locator("#question")).to_be_focused()
    held: list[Route] = []
    page.route(re.compile(r"/work-orders/"), lambda route: held.append(route))
    page.keyboard.press("j")
    place = page.locator("[data-place]")
    expect(drawn_beside(page, second)).to_be_visible()
    until(lambda: held or page.wait_for_timeout(50), what="the question whether it is so still")
    assert held[0].request.headers["if-none-match"]
    for key in ("r", "x", "a"):
        page.keyboard.press(key)
    expect(page.locator(WILL)).to_contain_text("sent in 2 s")
    expect(page.locator(WILL)).to_contain_text("Not sent: the server has not said yet")
    assert place.evaluate("one => one.inert")

    page.keyboard.press("a")
    expect(page.locator(WILL).last).to_contain_text("sent in 2 s")
    path, answer = f"/api/v1/pauses/{second['id']}/decisions", {"decision": "cancel"}
    assert stack.call("POST", path, answer, token=TOKENS["ben"])[0] == 201
    for route in held:
        route.continue_()
    expect(place).to_contain_text("Cancelled by")
    expect(page.locator(WILL).last).to_contain_text("Not sent: what was asked has changed")
    expect(place.locator("[data-approve]")).to_have_count(0)

    page.unroute(re.compile(r"/work-orders/"))
    page.keyboard.press("j")
    expect(beside(page, first)).to_be_visible()
    page.keyboard.press("a")
    until(lambda: decided(stack, first), what="the answer")
