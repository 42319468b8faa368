"""Pages of a patch: as much of it as a reader asks for, laid out as they chose, at a cost that does
not grow with the patch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from hitl.rendering.patches import reading
from runs.models import Pause, WorkOrder
from runs.workflows.base import Ask, Report
from tests.conftest import drive, pause_of
from tests.doors.faces import Cost, Face, counted
from tests.doors.html import join
from tests.worlds.large_patch import FILES, FOLDERS, large_patch, part_of
from tests.worlds.ruled_order import browser
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db
MOST = {"elements": 2_500, "bytes": 120_000, "calls": 155_000}
"""Of the order page with such a patch; half of the calls look for colours."""
Asked = Callable[..., Pause]


LARGE = large_patch()
SMALL = part_of("a.py", 4) + part_of("b <i>.py", 4)


@pytest.fixture
def asked(order_that: Callable[..., WorkOrder]) -> Asked:
    """Give a question about a patch."""

    def ask(patch: str) -> Pause:
        report = Report(content="Changed.", patch=patch)

        def step(state: Any, context: Any) -> Ask:
            return Ask(question="Fine?", answers={"approve": "finish"}, report=report)

        return pause_of(drive(order_that(step)))

    return ask


def home_of(pause: Pause) -> str:
    order = pause.run.work_order
    assert order is not None
    return f"/work-orders/{order.shown_id}/"


class Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.count = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.count += 1


@pytest.mark.one_database
def test_the_page_of_a_large_patch_is_small(page, asked):
    """Issue 36: 3 000 lines in 50 files; elements, bytes and calls before anybody scrolls."""
    home = home_of(asked(LARGE))
    cost = counted(Face(name="patch", bar=Cost(calls=0, queries=0), act=lambda: page.get(home)))
    html = page.get(home).content.decode()
    found = {"elements": Elements(html).count, "bytes": len(html.encode()), "calls": cost.calls}
    assert not {name: count for name, count in found.items() if count > MOST[name]}, found
    assert cost.queries <= 13, cost
    assert html.count("data-path=") == FILES
    assert len(re.findall(r'<li class="d\d', html)) == FILES + FOLDERS


def test_every_line_can_be_reached_with_and_without_javascript(page, asked):
    """By pieces, as static/js/patch.js asks for them; by the links that stand there without it."""
    pause = asked(LARGE)
    html = page.get(home_of(pause)).content.decode()
    lines = re.findall(r'data-at="\w+:\d+"', html)
    more = [one.replace("&amp;", "&") for one in re.findall(r'data-later="([^"]+)"', html)]
    assert len(more) > FILES / 2
    while more:
        piece = page.get(more.pop()).content.decode()
        assert "<html" not in piece
        lines += re.findall(r'data-at="\w+:\d+"', piece)
        more += [one.replace("&amp;", "&") for one in re.findall(r'data-later="([^"]+)"', piece)]
    expected = sum(len(file.rows) - 4 for file in reading.parse(LARGE).files)
    assert len(lines) == expected
    base = f"/pauses/{pause.shown_id}/files"
    assert f'href="{base}"' in html
    whole = page.get(base).content.decode()
    assert len(re.findall(r'data-at="\w+:\d+"', whole)) == expected
    assert "data-later" not in whole
    one = page.get(f"{base}?file=49").content.decode()
    assert one.count("data-path=") == 1
    assert 'rel="prev"' in one
    assert 'rel="next"' not in one


def test_what_there_is_not_is_404(page, asked, zoe, subtests):
    pause = asked(SMALL)
    base = f"/pauses/{pause.shown_id}/files"
    for query in ("?file=2", "?file=-1", "?file=x", "?file=0&from=99", "?file=9&from=0", "?from=x"):
        with subtests.test(query):
            assert page.get(base + query).status_code == 404
    assert page.get(f"{base}?file=1&from=0").status_code == 200
    assert browser(zoe).get(base).status_code == 404
    assert browser(zoe).post(f"/pauses/{pause.shown_id}/look", {"view": "split"}).status_code == 404
    assert page.get(f"/pauses/{asked('').shown_id}/files").status_code == 404


def test_a_choice_of_how_patches_look_is_kept_in_the_browser(page, asked):
    """Issue 36: without JavaScript, by buttons of a form; one choice leaves the others alone."""
    pause = asked(SMALL.replace("+    return", "+  return"))
    home, look = home_of(pause), f"/pauses/{pause.shown_id}/look"

    def shown(**choice: str) -> str:
        answered = page.post(look, choice)
        assert (answered.status_code, answered["Location"]) == (302, f"{home}#patch")
        return str(page.get(home).content.decode())

    assert 'class="files"' in page.get(home).content.decode()
    split = shown(view="split")
    assert 'class="files beside"' in split
    assert 'data-at="old:1"' in split
    assert 'name="wrap"' not in split, "side by side always wraps"
    assert 'class="files beside"' in shown(wrap="off")
    assert 'class="files cut"' in shown(view="unified")
    assert "Changes of white space alone" not in shown(view="sideways", wrap="", spaces="no")
    hidden = shown(spaces="hide")
    assert "Changes of white space alone are not shown" in hidden
    assert 'class="files cut"' in hidden
    assert page.cookies["patch_look"].value == "cut.hide"
    assert page.cookies["patch_look"]["httponly"]
    page.cookies["patch_look"] = "<script>.split"
    odd = page.get(home).content.decode()
    assert 'class="files beside"' in odd
    assert "<script>." not in odd
    assert page.get(look).status_code == 405


def test_the_tree_leads_to_files_and_says_which_were_seen(page, asked):
    pause = asked(SMALL)
    html = page.get(home_of(pause)).content.decode()
    assert re.search(r'<a href="#file-1" ?>b &lt;i&gt;.py</a>', html)
    assert html.count("b &lt;i&gt;.py") >= 2
    assert "b <i>.py" not in html
    assert 'href="#file-0" data-next-unseen' in html
    [first, _] = re.findall(r'name="file" value="(\w{64})"', html)
    page.post(f"/pauses/{pause.shown_id}/seen", {"file": first})
    html = join(page.get(home_of(pause)).content.decode())
    assert '<a href="#file-0" class="seen">a.py</a>' in html
    assert 'href="#file-1" data-next-unseen' in html
    assert re.search(r'id="file-0"[^>]*><details ?>', html), "a file that was seen is folded"
    assert "1 of 2 seen" in html
    assert 'href="#about"' in html, "facts of the order are not below all files alone"


def test_a_receipt_shows_the_patch_whole(page, asked):
    pause = asked(LARGE)
    page.post(f"/pauses/{pause.shown_id}/decide", {"action": "approve", "revision": "1"})
    receipt = re.search(r"/decisions/dec_\w+/", page.get("/").content.decode())
    html = page.get(receipt.group()).content.decode()
    assert html.count("data-path=") == FILES
    assert "data-later" not in html
    assert "Mark as seen" not in html


def test_what_diff_writes_is_drawn_and_what_can_be_read_twice_is_not(page, asked):
    drawn = asked("--- old.txt\t2026-11-28\n+++ new.txt\t2026-11-29\n@@ -1 +1 @@\n-a\n+b\n")
    html = page.get(home_of(drawn)).content.decode()
    assert "old.txt → new.txt" in html
    assert "more than one way" not in html
    odd = asked("--- a\n+++ a\n@@ -1 +1 @@\n-a\n+b\nOnly in b: c\n")
    html = page.get(home_of(odd)).content.decode()
    assert "can be read in more than one way" in html
    assert "data-path=" not in html
