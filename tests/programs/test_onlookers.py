"""The people of `make bench ARGS=desk`: what they miss and what they are told twice is counted."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bench.clients.onlookers import Inbox, Order, summary
from tests.doors.waiting import becomes

pytestmark = pytest.mark.one_database
WISH = {"sockets": ["/ws/inbox?page"], "fetches": "/?live"}


def inbox(http: Any = None) -> Inbox:
    opened = Inbox(WISH, "a session", http)
    opened.take({"type": "inbox", "waiting": 1, "gone": [], "new": ["pse_1"], "first": []})
    return opened


def counted(*people: Any, changes: list[str]) -> dict[str, int]:
    seen = summary(list(people), changes)
    return {what: seen[what] for what in ("missed", "doubled")}


def test_what_is_told_by_name_is_counted_by_name():
    """Issue 34: nothing is missed or doubled; what was there at the start is no news."""
    one, other = inbox(), inbox()
    one.take({"type": "inbox", "waiting": 2, "gone": ["pse_1"], "new": ["pse_2", "pse_3"]})
    changes = ["gone pse_1", "new pse_2", "new pse_3"]
    assert counted(one, changes=changes) == {"missed": 0, "doubled": 0}
    assert counted(one, other, changes=changes) == {"missed": 3, "doubled": 0}
    one.take({"type": "inbox", "waiting": 2, "gone": [], "new": ["pse_3"]})
    assert counted(one, changes=changes) == {"missed": 0, "doubled": 1}


async def test_what_a_message_does_not_name_is_shown_by_a_fetch():
    """A server that names no news is asked for the list, once for all messages of a moment."""
    asked = []

    def list_of(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, html='<div data-inbox="1" data-newest="pse_3">')

    http = httpx.AsyncClient(transport=httpx.MockTransport(list_of), base_url="http://desk")
    async with http:
        page = Inbox(WISH, "a session", http)
        for gone in ([], ["pse_1"]):
            page.take({"type": "inbox", "waiting": 1, "gone": gone})
        assert counted(page, changes=["gone pse_1", "new pse_3"])["missed"] == 2
        await becomes(lambda: not page.is_busy)
        assert counted(page, changes=["gone pse_1", "new pse_3"])["missed"] == 0
        assert counted(page, changes=["new pse_4"])["missed"] == 1
        order = Order({**WISH, "sockets": []}, "a session", http)
        for seq in (7, 8, 8):
            order.take({"event": "log", "seq": seq})
        await becomes(lambda: not order.is_busy)
        assert counted(order, changes=["7", "8", "9"]) == {"missed": 1, "doubled": 1}
    assert len(asked) == 2
