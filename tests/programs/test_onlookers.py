"""The people of `make bench ARGS=desk`: what they miss and what they are told twice is counted."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bench.clients.onlookers import Inbox, Order, summary
from tests.doors.waiting import becomes

pytestmark = pytest.mark.one_database
WISH = {"sockets": ["/ws/inbox?page"], "fetches": "/?live"}


def inbox() -> Inbox:
    http: Any = None
    opened = Inbox(WISH, "a session", http)
    opened.take({"type": "inbox", "waiting": 1, "gone": [], "new": ["pse_1"], "first": []})
    return opened


def counted(*people: Any, changes: list[str]) -> dict[str, int]:
    seen = summary(list(people), changes)
    return {what: seen[what] for what in ("missed", "doubled")}


def test_what_is_told_by_name_is_counted_by_name():
    """What was there at the start is no news."""
    one, other = inbox(), inbox()
    one.take({"type": "inbox", "waiting": 2, "gone": ["pse_1"], "new": ["pse_2", "pse_3"]})
    changes = ["gone pse_1", "new pse_2", "new pse_3"]
    assert counted(one, changes=changes) == {"missed": 0, "doubled": 0}
    assert counted(one, other, changes=changes) == {"missed": 3, "doubled": 0}
    one.take({"type": "inbox", "waiting": 2, "gone": [], "new": ["pse_3"]})
    assert counted(one, changes=changes) == {"missed": 0, "doubled": 1}


async def test_what_happens_on_an_order_is_shown_by_one_fetch_for_a_moment():
    """The next waits for as long as the server names."""
    asked = []

    def part_of(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, html='<div data-order="wo_1" data-every="620">')

    http = httpx.AsyncClient(transport=httpx.MockTransport(part_of), base_url="http://desk")
    async with http:
        order = Order({**WISH, "sockets": []}, "a session", http)
        for seq in (7, 8, 8):
            order.take({"event": "log", "seq": seq})
        await becomes(lambda: not order.is_busy)
        assert counted(order, changes=["7", "8", "9"]) == {"missed": 1, "doubled": 1}
        assert 0.3 < order.pause() <= 0.62
    assert len(asked) == 1
