"""A reviewer who reads one question after the other beside the list, on `make up`: from the key to
the question that is drawn, and to the one that may be answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from playwright.sync_api import Page, sync_playwright

from bench.standalone import done_by_client
from bench.workload import as_shipped, figure, percentile
from tests.programs.browser import launch

QUESTIONS, TURNS = 200, 30
READS = 700
"""Milliseconds for which a reader looks at a question before going on."""
DRAWN = 150.0
"""Milliseconds."""
WATCH = """() => {
  const place = document.querySelector("[data-pane] [data-place]");
  const now = () => document.querySelector("[data-row][aria-current]")?.dataset.row;
  let turn = null;
  const take = (name) => requestAnimationFrame((at) => {
    turn[name] ??= at - turn.began;
    if (turn.drawn && turn.ready) turn.tell({ drawn: turn.drawn, ready: turn.ready });
  });
  const look = () => {
    if (!turn || now() === turn.was || !place.querySelector(`[data-pause="${now()}"]`)) return;
    take("drawn");
    if (!place.inert) take("ready");
  };
  const whole = { subtree: true, childList: true, attributes: true };
  new MutationObserver(look).observe(place.parentElement, whole);
  addEventListener("keydown", ({ timeStamp }) => {
    turn = { began: timeStamp, was: now() };
    window.turn = new Promise((tell, fail) => { turn.tell = tell; setTimeout(fail, 10_000); });
  }, { capture: true });
}"""
REQUESTS = "performance.getEntriesByType('resource').length"


def measure() -> Iterator[dict[str, Any]]:
    own = {"DJANGO_SETTINGS_MODULE": "bench.settings"}
    with as_shipped(own) as stack, sync_playwright() as playwright:
        keys = json.loads(done_by_client(stack, {"do": "prepare", "questions": QUESTIONS}))
        stack.standalone()
        with closing(launch(playwright)) as chromium:
            context = chromium.new_context(
                base_url=stack.url, viewport={"width": 1440, "height": 900}
            )
            context.add_cookies([{"name": "sessionid", "value": keys["session"], "url": stack.url}])
            page = context.new_page()
            _opened(page)
            yield from _turns(page, "J after a while", "j", READS, bar=DRAWN)
            yield from _turns(page, "K after a while", "k", READS, bar=DRAWN)
            _opened(page)
            yield from _turns(page, "J at once", "j", 0)


def _opened(page: Page) -> None:
    """The inbox, with its first question beside it."""
    page.goto("/")
    page.evaluate(WATCH)
    _turn(page, "j")


def _turn(page: Page, key: str) -> dict[str, float]:
    page.keyboard.press(key)
    turn: dict[str, float] = page.evaluate("window.turn")
    return turn


def _turns(
    page: Page, case: str, key: str, reads: int, *, bar: float | None = None
) -> Iterator[dict[str, Any]]:
    drawn, ready, before = [], [], page.evaluate(REQUESTS)
    for _ in range(TURNS):
        page.wait_for_timeout(reads)
        turn = _turn(page, key)
        drawn.append(turn["drawn"])
        ready.append(turn["ready"])
    for what, times in (("drawn", drawn), ("may be answered", ready)):
        yield {
            **figure(f"{case}: {what}, p50", percentile(times, 0.5), "ms", bar=bar),
            "p95": round(percentile(times, 0.95), 1),
            "worst": round(max(times), 1),
            "requests": round((page.evaluate(REQUESTS) - before) / TURNS, 2),
        }
