"""Every page that there is, of the product and of the admin, in a browser: axe finds nothing, and
nothing is wider than the window; in English, light, on a desk, and in German, dark, on a phone.

A page is loaded once: what it says in German is put in place of the English, since pages of two
languages differ in nothing else. The pages are answered to the tests' own client and shown to
Chromium by a server that knows nothing else: a page is what the product sent, with its style sheets
and scripts, which the browser keeps.
"""

from __future__ import annotations

import html
import json
import mimetypes
import os
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.staticfiles import finders
from django.utils import timezone
from playwright.sync_api import Page, ViewportSize

from runs.models import Run
from runs.states import RUNNING
from tests.databases.undone import undone
from tests.matrix.addresses import ADDRESSES, REST, served
from tests.matrix.desk.walk import url_of
from tests.matrix.questions import Asked, of_forms, of_questions
from tests.matrix.walk import fill
from tests.matrix.world import BY_NAME, STATES, World
from tests.programs import browser

pytestmark = pytest.mark.django_db
AXE = (
    Path(__file__).resolve().parents[2] / ".venv" / "node" / "node_modules" / "axe-core/axe.min.js"
)
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
AGAIN = [
    *("color-contrast", "link-in-text-block", "target-size", "scrollable-region-focusable"),
    *("label-content-name-mismatch", "landmark-unique", "button-name", "link-name", "label"),
]
"""Of these rules what depends on colours, width and words, and on what only a phone shows. How a
page is built is the same to both.
"""
RUN = """async (rules) => (await axe.run(document, {
  runOnly: rules, resultTypes: ["violations"], iframes: false, preload: false,
})).violations.map((found) => `${found.id}: ${found.help}: ` + found.nodes.slice(0, 3).map(
  (node) => `${node.target.join(" ")} (${[...node.any, ...node.all, ...node.none][0]?.message})`
).join("; "))"""
"""Preloaded, style sheets would be read once more for a single rule: that no page is locked to how
a device is held.
"""
UNFOLD = """() => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  for (const one of document.querySelectorAll(".answering")) one.style.position = "static";
  scrollTo(0, 0);
}"""
"""What is folded is read too, and axe looks at nothing that is not shown. At the top nothing lies
under the bar that stays there, and the one below is put where nothing is under it.
"""
TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return "";
  const wide = [...document.body.querySelectorAll("*")].filter(
    (one) => one.getBoundingClientRect().right > width + 1);
  const last = wide[wide.length - 1];
  return `${document.documentElement.scrollWidth} px in ${width}: ` +
    (last ? `${last.tagName}.${last.className}: ${last.textContent.trim().slice(0, 60)}` : "?");
}"""
BOXES = """() => [...document.querySelectorAll("input:is([type=checkbox], [type=radio])")]
  .filter((one) => one.checkVisibility() && [one, one.closest("label")].every((it) => {
    const { width, height } = it?.getBoundingClientRect() ?? {};
    return !(width >= 24 && height >= 24);
  })).map((one) => `${one.name || one.id} is smaller than 24 pixels`)"""
SKIPS = """() => {
  const decision = document.querySelector("main #decision");
  if (!decision?.checkVisibility() || decision.closest("[data-pane]")) return [];
  const stops = [...document.querySelectorAll("a[href], button, input")].slice(0, 2);
  return stops.some((one) => one.hash === "#decision") ? [] : ["no way past all to the decision"];
}"""
SAY = """(words) => {
  let changed = 0;
  const said = (text) => {
    const other = words[text.trim()] ?? text;
    changed += other.trim() !== text.trim();
    return other;
  };
  document.documentElement.lang = "de";
  const texts = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = said(texts.currentNode.data);
  for (const one of document.querySelectorAll("[aria-label], [title]"))
    for (const name of ["aria-label", "title"])
      if (one.hasAttribute(name)) one.setAttribute(name, said(one.getAttribute(name)));
  return changed;
}"""
"""Have the page say the same in other words; give how often they are others."""
LEAVE = "document.documentElement.remove()"
"""What is shown no longer need not be laid out in the next size."""
KEYS = """() => [...document.querySelectorAll("button:has(kbd), a:has(kbd)")]
  .filter((one) => !one.disabled && !one.hasAttribute("aria-keyshortcuts"))
  .map((one) => `${one.textContent.trim()} names its key to nobody who listens`)"""
HTML = "text/html; charset=utf-8"
OURS = (BOXES, SKIPS, KEYS)
"""What is to hold on each page of the product beside axe's rules."""
ALL = os.environ.get("AXE") == "all"
"""The admin's pages of every model: `make accessible`. Else those of a few."""
DESK: ViewportSize = {"width": 1280, "height": 900}
LARGER: ViewportSize = {"width": 640, "height": 800}
"""What a window of 1280 is at 200 %."""
PHONE: ViewportSize = {"width": 390, "height": 844}


@dataclass(frozen=True)
class Shown:
    """A page as the server sent it."""

    name: str
    path: str
    body: bytes
    german: Mapping[str, str]
    """What it says in English, and in German."""
    opens: str = ""
    """What is clicked there, of the rows of a list on a desk,"""
    then: Mapping[str, bytes] = field(default_factory=dict)
    """and what comes of it."""


def _sent(world: World, asked: Asked, language: str) -> bytes | None:
    """A page for a person who may all, else for nobody; what was done for it is taken back."""
    for role in ("superuser", "anonymous"):
        client = world.client(BY_NAME[role])
        send = client.post if asked.method == "POST" else client.get
        with undone(), patch.object(client, "cookies", deepcopy(client.cookies)):
            answer = send(asked.path, dict(asked.body), headers={"accept-language": language})
        if answer.status_code != 302:
            break
    assert answer.status_code != 500, asked
    if answer.streaming or answer.status_code not in ANSWERS:
        return None
    is_html = answer["Content-Type"].startswith("text/html")
    marks = (b"<main", b"data-page=", b'id="swagger-ui"')
    is_page = is_html and any(mark in answer.content for mark in marks)
    return answer.content if is_page else None


ANSWERS = {200, 404, 409, 410, 422}
WORDS = re.compile(
    rb'>[^<]*(?=<)|\b(?:value|title|action|href|content|datetime|aria-label|data-[a-z-]+)="[^"]+"'
    rb"|_\w{26}\b"
)
"""What is no part of how a page is built: its words and addresses, and the names of rows. A form
that is refused often is the page of another one that is, but for a sentence.
"""


def _shown(world: World, asked: Asked, body: bytes) -> Shown:
    german = {}
    if not asked.path.startswith(("/admin/", "/api/")):
        other = _sent(world, asked, "de")
        assert other is not None
        told = [said(one) for one in (body, other)]
        assert len(told[0]) == len(told[1]), f"{asked.path} is built otherwise in German"
        german = dict(zip(*told, strict=True))
    then = {}
    if asked.opens:
        row = asked.opens.split("=")[1].split("]")[0]
        href = re.search(rf'data-row="{row}".*?href="([^"]+)"', body.decode(), re.DOTALL)
        assert href is not None
        place = html.unescape(href[1])
        then = {f"{place}&live=": _sent(world, Asked(f"{place}&live="), "en") or b""}
    return Shown(f"{asked.method} {asked.path}", asked.path, body, german, asked.opens, then)


def said(body: bytes) -> list[str]:
    """What a page says, in its order: its texts, and what names things to who listens."""
    page = CATALOGUE.sub("", body.decode())
    return [html.unescape(one.group(one.lastindex or 0)).strip() for one in SAID.finditer(page)]


CATALOGUE = re.compile(r'<script src="/words\.js[^>]*></script>')
"""What the words of scripts come from, on pages that are not English."""
SAID = re.compile(r'>([^<]*)(?=<)|\b(?:title|aria-label)="([^"]+)"')


def _asked(world: World) -> Iterator[Asked]:
    """Each address in the state in which it has most to show, or in several; and more."""
    for path, address in sorted(ADDRESSES.items()):
        if "GET" not in address.methods or path.startswith(REST) or path in PARTS:
            continue
        for state in STATES if path in EACH else ("paused", "failed", "completed"):
            url, present = fill(world, path, state)
            if not present:
                continue
            yield Asked(url)
            if path not in EACH:
                break
    yield from of_questions(world)
    yield from of_forms(world)
    for path in (path for path, _, admin in served() if admin and path not in PARTS):
        url = url_of(world, path)
        if ALL or STANDS.match(url):
            yield Asked(url)


STANDS = re.compile(r"/admin/($|auth/user/|runs/pause/|checkpoints/thread/)")
"""Pages of the admin that stand for all."""
PARTS = {"admin/search/", "rows", "filters/<slug:listed>"}
"""No pages: what a page puts into itself."""
ASKED = {
    "/words.js?language=de": "text/javascript",
    "/api/schema/": "application/vnd.oai.openapi",
    "/api/reference/?script=": "text/javascript",
    "/admin/jsi18n/": "text/javascript",
}
"""Addresses that pages ask for beside static files: what comes from them."""
EACH = {"work-orders/<wo:order_id>/", "pauses/<pse:pause_id>/", "threads/<thr:thread_id>/"}
"""Pages that are another one in each state."""


def elements(body: bytes) -> list[tuple[bytes, ...]]:
    """What a page is built of, in its order: each element, and what it is by its attributes."""
    return [(name, *IS.findall(rest)) for name, rest in ELEMENT.findall(body)]


ELEMENT, IS = re.compile(rb"<([a-z]\w*)([^>]*)"), re.compile(rb' (?:class|type|role|name)="[^"]*"')


def holds(page: list[tuple[bytes, ...]], other: list[tuple[bytes, ...]]) -> bool:
    """Whether all that the other page is built of is here, in the same order."""
    here = iter(page)
    return all(one in here for one in other)


@pytest.fixture(scope="module")
def pages(world: World) -> list[Shown]:
    """A page is left out where a form that was refused is the same page, with its errors."""
    built: dict[bytes, Shown] = {}
    with undone():
        # a worker that is gone: its run is stuck, and says so with its buttons
        Run.objects.filter(status=RUNNING).update(lease_until=timezone.now())
        for asked in _asked(world):
            if not (body := _sent(world, asked, "en")):
                continue
            plan = WORDS.sub(b"", body) + asked.opens.encode()
            if plan not in built:
                built[plan] = _shown(world, asked, body)
    refused = [page for page in built.values() if page.name.startswith("POST")]
    larger = [elements(page.body) for page in refused]
    others = [page for page in built.values() if page.name.startswith("GET")]
    found = refused + [
        page for page in others if not any(holds(one, elements(page.body)) for one in larger)
    ]
    [operations] = (page for page in found if page.name == "GET /operations/")
    assert b"/send-again" in operations.body
    assert len(found) > (160 if ALL else 90), [page.name for page in found]
    return found


@pytest.fixture(scope="module")
def asked(world: World) -> dict[str, bytes]:
    """What pages ask for. Of the API's document one operation of each method, that with the longest
    path, and five models: the others are shown in the same way, after seconds.
    """
    client = world.client(BY_NAME["superuser"])
    told = {path: client.get(path).content for path in ASKED}
    document = client.get("/api/schema/", headers={"accept": "application/json"}).json()
    paths, schemas = document["paths"], document["components"]["schemas"]
    few = {method: path for path in sorted(paths, key=len) for method in paths[path]}
    document["paths"] = {path: {method: paths[path][method]} for method, path in few.items()}
    document["components"]["schemas"] = dict(list(schemas.items())[:5])
    return {**told, "/api/schema/": json.dumps(document).encode()}


OF_SWAGGER = {"heading-order", "nested-interactive", "region", "select-name", "target-size"}
"""Of the API's reference: how Swagger UI builds its rows, which no style sheet mends."""


class Viewer(ThreadingHTTPServer):
    """A browser's page, and the server that gives it what is shown."""

    def __init__(self, page: Page, asked: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.page, self.asked = page, asked
        self.shown = Shown("", "", b"", {})
        Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, url: str, *, leads: bool) -> tuple[str, bytes] | None:
        """The kind and the words of what is at this address; `leads`: the browser goes there."""
        path = url.split("?")[0]
        if leads:
            return HTML, self.shown.body
        if url in self.shown.then:
            return HTML, self.shown.then[url]
        if known := next((one for one in ASKED if url.startswith(one)), ""):
            return ASKED[known], self.asked[known]
        static = path.startswith("/static/") and finders.find(path.removeprefix("/static/"))
        if not (found := AXE if path == "/axe.js" else static):
            return None
        return mimetypes.guess_type(path)[0] or "text/plain", Path(found).read_bytes()

    def open(self, shown: Shown) -> None:
        self.shown = shown
        self.page.goto(f"http://127.0.0.1:{self.server_port}{shown.path}", wait_until="load")
        if shown.path == "/api/reference/":  # made when its document is there
            self.page.locator(".opblock").first.wait_for(timeout=60_000)
        if shown.opens:
            self.page.locator(shown.opens).click()
            self.page.locator("[data-pane] [data-pause]").wait_for()
        self.page.evaluate(UNFOLD)
        self.page.add_script_tag(url="/axe.js")

    def problems(self, shown: Shown) -> Iterator[str]:
        """What is wrong with a page."""
        self.page.set_viewport_size(DESK)
        self.page.emulate_media(color_scheme="light")
        self.open(shown)
        yield from self.violations(WCAG)
        yield self.page.evaluate(TOO_WIDE)
        for narrow in (LARGER, PHONE):
            self.page.set_viewport_size(narrow)
            yield self.page.evaluate(TOO_WIDE)
        self.page.emulate_media(color_scheme="dark")
        others = self.page.evaluate(SAY, shown.german)
        assert others > 5 or not shown.german, f"{shown.name} says nothing in German"
        yield self.page.evaluate(TOO_WIDE)
        yield from self.violations(AGAIN)
        self.page.evaluate(LEAVE)

    def violations(self, rules: list[str]) -> list[str]:
        found: list[str] = self.page.evaluate(RUN, rules)
        meant = OF_SWAGGER if self.shown.path == "/api/reference/" else set()
        own = [] if meant or self.shown.path.startswith("/admin/") else OURS
        return [
            *(words for words in found if words.split(":")[0] not in meant),
            *(words for rule in own for words in self.page.evaluate(rule)),
        ]


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Viewer

    def do_GET(self) -> None:
        leads = self.headers["Sec-Fetch-Mode"] == "navigate"
        answer = self.server.answer(self.path, leads=leads)
        kind, body = answer or ("text/plain", b"")
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store" if kind == HTML else "max-age=3600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def chromium() -> Iterator[Any]:
    if not AXE.exists():
        pytest.skip("Pages are not looked at by axe: it is not installed (make .venv/node).")
    with browser.chromium() as opened:
        yield opened


def test_axe_finds_nothing_and_nothing_is_wider_than_its_window(
    pages: list[Shown], asked: dict[str, bytes], chromium: Any
) -> None:
    """S4-54: WCAG 2.2 AA and axe's best practices, on our pages, the admin's and the API's; and at
    200 % what is read scrolls in one direction (WCAG 1.4.10). Boxes can be hit, what decides is the
    second stop of Tab, keys are named to who listens.
    """
    viewer = Viewer(chromium.new_context(bypass_csp=True).new_page(), asked)
    wrong = [
        f"{shown.name}: {words}" for shown in pages for words in viewer.problems(shown) if words
    ]
    viewer.shutdown()
    viewer.server_close()
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
