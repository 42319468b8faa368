"""Every page that there is, of the product and of the admin, in a browser: axe finds nothing, and
nothing is wider than the window.

The pages are answered to the tests' own client and shown to Chromium, which asks nobody: a page is
what the server sent, with its style sheets and scripts.
"""

from __future__ import annotations

import mimetypes
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from playwright.sync_api import Page, Route, ViewportSize

from tests.matrix.addresses import ADDRESSES, REST, served
from tests.matrix.desk.walk import url_of
from tests.matrix.walk import fill
from tests.matrix.world import BY_NAME, STATES, World
from tests.programs import browser

pytestmark = pytest.mark.django_db
AXE = (
    Path(__file__).resolve().parents[2] / ".venv" / "node" / "node_modules" / "axe-core/axe.min.js"
)
HOST = "http://pages.example"
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """async (tags) => (await axe.run(document, {
  runOnly: tags, resultTypes: ["violations"], iframes: false,
})).violations.map((found) => `${found.id}: ${found.help}: ` + found.nodes.slice(0, 3).map(
  (node) => `${node.target.join(" ")} (${[...node.any, ...node.all, ...node.none][0]?.message})`
).join("; "))"""
UNFOLD = """() => document.querySelectorAll("details").forEach((one) => { one.open = true; })"""
"""What is folded is read too, and axe looks at nothing that is not shown."""
TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return "";
  const wide = [...document.body.querySelectorAll("*")].filter(
    (one) => one.getBoundingClientRect().right > width + 1);
  const last = wide[wide.length - 1];
  return `${document.documentElement.scrollWidth} px in ${width}: ` +
    (last ? `${last.tagName}.${last.className}: ${last.textContent.trim().slice(0, 60)}` : "?");
}"""
ALL = os.environ.get("AXE") == "all"
"""Every page in both ways, the admin's of every model: `make accessible`.

Else every second page of the product in each way, and of the admin those of a few models.
"""
WAYS = [(1280, "light"), (390, "dark")]
SIZE: dict[int, ViewportSize] = {
    1280: {"width": 1280, "height": 900},
    390: {"width": 390, "height": 844},
}
LARGER: ViewportSize = {"width": 640, "height": 800}
"""What a window of 1280 is at 200 %."""


@dataclass(frozen=True)
class Shown:
    """A page as the server sent it."""

    path: str
    body: bytes


def _html(world: World, role: str, url: str) -> Shown | None:
    answer = world.client(BY_NAME[role]).get(url)
    if answer.streaming or answer.status_code != 200:
        return None
    if not answer["Content-Type"].startswith("text/html"):
        return None
    return Shown(url, answer.content)


def _pages(world: World) -> Iterator[Shown]:
    """Each address in the state in which it has most to show, or in several."""
    of_admin = {path: admin for path, _, admin in served()}
    for path, address in sorted(ADDRESSES.items()):
        if "GET" not in address.methods or path.startswith(REST) or path in PARTS:
            continue
        for state in STATES if path in EACH else ("paused", "failed", "completed"):
            url, present = fill(world, path, state)
            page = _html(world, "superuser", url) if present else None
            if page:
                yield page
                if path not in EACH:
                    break
    for path in (path for path, admin in of_admin.items() if admin and path not in PARTS):
        url = url_of(world, path)
        page = _html(world, "superuser", url) if ALL or STANDS.match(url) else None
        if page:
            yield page


STANDS = re.compile(r"/admin/($|auth/user/|runs/pause/|checkpoints/thread/)")
"""Pages of the admin that stand for all."""
PARTS = {"admin/search/", "rows", "filters/<slug:listed>"}
"""No pages: what a page puts into itself."""
ASKED = {
    "/api/schema/": "application/vnd.oai.openapi",
    "/api/reference/?script=": "text/javascript",
    "/admin/jsi18n/": "text/javascript",
}
"""Addresses that pages ask for beside static files: what comes from them."""
EACH = {"work-orders/<wo:order_id>/", "pauses/<pse:pause_id>/", "threads/<thr:thread_id>/"}
"""Pages that are another one in each state."""


@pytest.fixture(scope="module")
def pages(world: World) -> list[Shown]:
    found = {page.path: page for page in _pages(world)}
    assert len(found) > (120 if ALL else 60)
    return list(found.values())


@pytest.fixture(scope="module")
def asked(world: World) -> dict[str, Shown]:
    """What pages ask for."""
    client = world.client(BY_NAME["superuser"])
    return {path: Shown(path, client.get(path).content) for path in ASKED}


OF_SWAGGER = {"heading-order", "nested-interactive", "region", "select-name", "target-size"}
"""Of the API's reference: how Swagger UI builds its rows, which no style sheet mends."""


class Viewer:
    """A browser that is given pages instead of asking for them."""

    def __init__(self, page: Page, asked: dict[str, Shown]) -> None:
        self.page, self.asked, self.shown = page, asked, Shown("", b"")
        self.axe = AXE.read_text()
        page.route("**/*", self._answer)

    def _answer(self, route: Route) -> None:
        url = route.request.url.removeprefix(HOST)
        path = url.split("?")[0]
        if url in ASKED:
            route.fulfill(content_type=ASKED[url], body=self.asked[url].body)
        elif route.request.is_navigation_request():
            route.fulfill(content_type="text/html; charset=utf-8", body=self.shown.body)
        elif path.startswith("/static/") and (file := finders.find(path.removeprefix("/static/"))):
            kind = mimetypes.guess_type(path)[0] or "text/plain"
            route.fulfill(path=str(file), content_type=kind)
        else:
            route.abort()

    def open(self, shown: Shown) -> None:
        self.shown = shown
        self.page.goto(HOST + shown.path, wait_until="load")
        if shown.path == "/api/reference/":  # made when its document is there
            self.page.locator(".opblock").first.wait_for(timeout=60_000)

    def violations(self) -> list[str]:
        self.page.evaluate(UNFOLD)
        self.page.evaluate(self.axe)
        found: list[str] = self.page.evaluate(RUN, WCAG)
        meant = OF_SWAGGER if self.shown.path == "/api/reference/" else set()
        return [words for words in found if words.split(":")[0] not in meant]


@pytest.fixture
def chromium() -> Iterator[Any]:
    if not AXE.exists():
        pytest.skip("Pages are not looked at by axe: it is not installed (make .venv/node).")
    with browser.chromium() as opened:
        yield opened


def test_axe_finds_nothing_and_nothing_is_wider_than_its_window(
    pages: list[Shown], asked: dict[str, Shown], chromium: Any
) -> None:
    """S4-54: WCAG 2.2 AA and axe's best practices, on our pages, the admin's and the API's; and at
    200 % what is read scrolls in one direction (WCAG 1.4.10).
    """
    wrong = [
        f"{scheme} {width}: {words}"
        for at, (width, scheme) in enumerate(WAYS)
        for words in _faults(
            chromium, asked, pages if ALL else pages[at :: len(WAYS)], width, scheme
        )
    ]
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


def _faults(
    chromium: Any, asked: dict[str, Shown], pages: list[Shown], width: int, scheme: str
) -> Iterator[str]:
    context = chromium.new_context(viewport=SIZE[width], color_scheme=scheme, bypass_csp=True)
    viewer = Viewer(context.new_page(), asked)
    for shown in pages:
        viewer.open(shown)
        yield from (f"{shown.path}: {words}" for words in viewer.violations())
        for size in (SIZE[width], *([LARGER] if width > LARGER["width"] else [])):
            viewer.page.set_viewport_size(size)
            if wide := viewer.page.evaluate(TOO_WIDE):
                yield f"{shown.path}: {wide}"
        viewer.page.set_viewport_size(SIZE[width])
