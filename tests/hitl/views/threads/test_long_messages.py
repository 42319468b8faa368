"""A conversation of long messages: the newest are shown rendered, the others a link away."""

from __future__ import annotations

import re
from html import unescape

import pytest

from hitl.views.threads import chat
from runs.threads import turns
from runs.threads.turns import Turn
from tests.worlds.talking_threads import drive
from tests.worlds.talking_threads import thread as thread

pytestmark = pytest.mark.django_db


def test_a_page_ends_where_its_messages_are_long(page, thread, ana):
    """P12: two hundred messages of any length stood on one page."""
    content = "*said* " * (chat.CHARACTERS // 7 // 3)
    said = [
        {"id": f"m{number}", "role": "user", "content": f"Number {number}. {content}"}
        for number in range(7)
    ]
    drive(turns.invoke(thread.pk, Turn(template="talk", input={"messages": said}), by=ana))
    address, seen = f"/threads/{thread.shown_id}/", list[str]()
    while address:
        shown = page.get(address).content.decode()
        part = shown.partition("<ol>")[2]
        numbers = re.findall(r"<p>Number (\d)\. <em>said", part)
        assert len(numbers) <= 3
        seen = numbers + seen
        older = re.search(r'<a rel="next" href="([^"#]*said=[^"#]*)', shown)
        address = unescape(older[1]) if older else ""
    assert seen == [str(number) for number in range(7)]
