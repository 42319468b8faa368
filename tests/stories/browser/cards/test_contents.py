"""What a card holds under real pointers and keys: patches, tables and files."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.databases.copies import TOKENS
from tests.servers.stack import until
from tests.stories.browser.cards.papers import (
    BOX,
    DESKTOP,
    PHONE,
    decided,
)
from tests.stories.browser.cards.papers import alone as alone
from tests.stories.browser.cards.papers import ask as ask
from tests.stories.browser.cards.papers import stack as stack
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack


def test_a_patch_is_read_file_by_file_and_spoken_of_line_by_line(stack, open_page, ask):
    """Issues 19 and 36: as on GitHub. Lines come where a reader comes near; `]` goes to the next
    file that was not seen; a click on a line opens the form for a comment there; what is ticked and
    chosen is kept; the comment goes back with Revise and names its place.
    """
    asked = ask("paper-patch")
    page = open_page("ana", asked["path"], **DESKTOP)
    first, second, long = (
        page.locator(f"[data-path='{name}']") for name in ("a.py", "b.py", "c.py")
    )
    line = first.locator("[data-at='new:8']")
    expect(line.locator("ins").first).to_have_text("round(")
    expect(line.locator("i.k")).to_have_text("return")
    assert line.evaluate(BOX)["bottom"] < page.locator(".bar").evaluate(BOX)["top"], (
        "on the first screen"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    last = long.locator("[data-at='new:900']")
    expect(last).to_have_count(0)
    page.keyboard.press("[")
    expect(long).to_be_focused()
    long.locator(".later").scroll_into_view_if_needed()
    expect(long.locator("[data-at='new:400']")).to_have_count(1)
    page.keyboard.press("]")
    expect(first).to_be_focused()
    line.click()
    text = page.get_by_label("Your comment It decides nothing. Revise")
    expect(text).to_be_focused()
    expect(page.get_by_label("Line", exact=True)).to_have_value("8")
    expect(page.get_by_label("File", exact=True)).to_have_value("a.py")
    page.keyboard.type("Round to cents?")
    shot(page, "card-comment-at-line")
    page.get_by_role("button", name="Side by side").click()
    expect(first.locator("[data-at='old:8'] + [data-at='new:8']")).to_be_visible()
    expect(page.get_by_role("button", name="Side by side")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(text).to_have_value("Round to cents?")
    page.get_by_role("button", name="Comment", exact=True).first.click()
    said = page.locator("#said")
    expect(said).to_contain_text("a.py, line 8")
    expect(said).to_contain_text("Round to cents?")
    remark = first.locator("[data-at='new:8'] + .remark")
    expect(remark).to_have_text("Ana Round to cents?")
    remark.click()
    assert page.evaluate("location.hash") == f"#{said.locator('li').get_attribute('id')}"
    page.get_by_role("button", name="Hide white space").click()
    expect(page.locator(".patch .notice")).to_contain_text("white space alone are not shown")
    page.get_by_role("button", name="Side by side").click()
    expect(first.locator("[data-at='old:8'] + [data-at='new:8']")).to_be_visible()
    expect(page.locator("[data-files].beside")).to_have_count(0)
    width = line.evaluate("e => getComputedStyle(e).whiteSpace")
    page.get_by_role("button", name="Wrap lines").click()
    expect(page.locator("[data-files].cut")).to_have_count(1)
    assert line.evaluate("e => getComputedStyle(e).whiteSpace") != width
    first.get_by_role("button", name="Mark as seen").click()
    expect(page.locator("[data-seen-count]")).to_have_text("1 of 3 seen")
    expect(page.locator(".tree a.seen")).to_have_text("a.py")
    expect(second).to_be_focused()
    page.reload()
    expect(page.locator("[data-seen-count]")).to_have_text("1 of 3 seen")
    expect(page.locator("[data-files].cut")).to_have_count(1)
    expect(page.get_by_role("button", name="Hide white space")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(line).to_be_hidden()
    page.locator(".tree").get_by_text("a.py").click()
    expect(line).to_have_class(re.compile("said"))
    expect(remark).to_have_count(1)
    shot(page, "card-patch-seen")
    page.locator("[data-revise]").click()
    page.get_by_placeholder("Provide feedback").fill("See the comment.")
    page.keyboard.press("Control+Enter")
    until(lambda: decided(stack, asked), what="the decision")
    assert "- Ana at a.py, line 8: Round to cents?" in decided(stack, asked)["user_feedback"]
    expect(page.locator(".pause")).to_contain_text("Revision 2", timeout=30_000)
    expect(page.locator("[data-seen-count]")).to_have_text("1 of 3 seen")
    phone = open_page("ana", asked["path"], **PHONE)
    expect(phone.locator(".tree")).to_be_hidden()
    phone.get_by_role("link", name="Files", exact=True).click()
    phone.locator(".tree").get_by_text("b.py").click()
    expect(phone.locator(".tree")).to_be_hidden()
    expect(phone.locator("[data-path='b.py'] summary")).to_be_in_viewport()
    phone.get_by_role("link", name="About this order").click()
    expect(phone.locator("#about")).to_be_in_viewport()
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360f8cf500f0003860180a0d7d4a80000000049454e44ae426082"
)


def test_a_form_with_a_table_and_a_file_names_what_is_wrong_and_loses_nothing(
    open_page, alone, ask
):
    """Rows come and go, an error leads to its field, and a file that was sent stays with the
    form.
    """
    asked = ask("paper-table")
    page = open_page("ben", asked["path"], **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == 390, "a long choice wraps"
    page.get_by_role("button", name="Add to line items").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("[name='input.lines.1.item']")).to_be_focused()
    page.keyboard.type("P")
    page.get_by_role("button", name="Remove Line items 1").click()
    expect(page.locator("[name='input.lines.0.item']")).to_have_value("P")
    page.locator("[name='input.lines.0.kind']").select_option("service")
    scan = {"name": "scan.png", "mimeType": "image/png", "buffer": PIXEL}
    page.locator("[name='input.scan']").set_input_files(scan)
    page.locator("[data-approve]").click()

    problem = page.locator("[data-problem]")
    expect(problem).to_contain_text("Line items 1, Item: Must have at least 2 characters.")
    expect(page.get_by_role("img", name="Preview of scan.png")).to_be_visible()
    assert page.locator(".kept-file img").evaluate("e => e.naturalWidth") == 1
    expect(page.locator("[name='input.lines.0.kind']")).to_have_value("service")
    problem.get_by_role("link", name="Line items 1, Item").click()
    expect(page.locator("[name='input.lines.0.item']")).to_be_focused()
    shot(page, "form-phone")

    page.locator("[name='input.lines.0.item']").fill("Paper")
    page.get_by_label("medium").check()
    page.locator("[data-approve]").click()
    until(lambda: decided(alone, asked))
    given = alone.call(
        "GET", f"/api/v1/work-orders/{asked['order']}/artifacts", token=TOKENS["ana"]
    )
    assert given[1]["results"][0]["filename"] == "scan.png"


def test_without_javascript_a_row_is_added_by_the_server(open_page, ask):
    page = open_page("ben", ask("paper-table")["path"], java_script_enabled=False)

    page.get_by_role("button", name="Add to line items").click()

    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("[name='input.lines.1.item'][autofocus]")).to_have_count(1)


@pytest.mark.parametrize("live", [True, False], ids=["live", "without JavaScript"])
def test_a_call_has_its_fields_where_they_are_chosen_and_is_repeated_before_it_is_made(
    stack, open_page, ask, live
):
    """Issue 36: the fields of *Edit* and *Reject* stood there all the time, and the second look
    named neither the arguments nor what was changed of them.
    """
    asked = ask("paper-calls")
    page = open_page("ana", asked["path"], java_script_enabled=live, **DESKTOP)
    pay, mail = (page.get_by_role("group", name=re.compile(name)) for name in ("^pay", "^mail"))
    total, why = pay.locator("textarea[name$='edit.0']"), pay.get_by_label(re.compile("^Reason"))
    words = mail.locator("textarea[name$='.result']")
    expect(pay.locator(".arguments")).to_contain_text("sum")
    for field in (total, why, words):
        expect(field).to_be_hidden()
    pay.get_by_label("Reject", exact=True).check()
    expect(why).to_be_visible()
    expect(total).to_be_hidden()
    why.fill("Too much.")
    pay.get_by_label("Approve with changes", exact=True).check()
    expect(why).to_be_hidden()
    total.fill("9")
    mail.get_by_label("Answer in its place", exact=True).check()
    words.fill("Ada knows.")
    shot(page, f"card-calls-{'live' if live else 'plain'}")
    page.get_by_role("button", name=re.compile("^Send decisions")).click()

    sure = page.get_by_role("dialog") if live else page.locator("main")
    expect(sure).to_contain_text("High risk: are you sure?")
    expect(sure.locator(".call-title")).to_have_text(re.compile(r"pay\s+high risk", re.IGNORECASE))
    given = sure.locator(".arguments > div")
    expect(given).to_have_text([re.compile(r"sum\s*7\s*9"), re.compile(r"to\s*Ada")])
    expect(given.first.locator("del")).to_have_text("7")
    expect(given.first.locator("ins")).to_have_text("9")
    expect(sure.locator(".happens")).to_contain_text(
        "mail is not called; your words are its result."
    )
    shot(page, f"card-calls-sure-{'live' if live else 'plain'}")
    assert decided(stack, asked) == {}
    sure.get_by_role("button", name=re.compile("^Yes, Send decisions")).click()
    until(lambda: decided(stack, asked), what="the decision")
