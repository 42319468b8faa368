"""An order's page while it works: written once for all who are shown the same, and brought to each
as far as it changed since.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl.live import work_feed
from hitl.live.work_feed import SEPARATOR, WorkFeed, WorkKind, WorkWriter, _Page
from hitl.views import orders
from tests.conftest import drive
from tests.databases.whole import file_database as file_database
from tests.hitl.live.sockets import bearer, elsewhere, receive, socket, write

KIND = WorkKind(
    uuid.UUID(int=1),
    "en",
    observes=False,
    may_prioritise=False,
    may_suspend=True,
    may_trace=False,
    by=1,
)
TEXTS = st.lists(st.sampled_from("abc"), min_size=3, max_size=4)


@given(st.lists(st.tuples(TEXTS, st.booleans()), max_size=12))
def test_who_is_brought_what_changed_has_the_whole_page(written):
    """However seldom it looks; the beginning, which says as of when it is, comes each time."""
    page, version = _Page(), 0
    have: list[str] = []
    for number, (texts, looks) in enumerate([*written, (["a", "b", "c"], True)], start=1):
        texts = [str(number), *texts]
        page.take((number, SEPARATOR.join(texts)))
        if looks:
            news = page.since(version)
            changed = [part for part, (at, _) in enumerate(page.parts) if at > version or not part]
            assert news == "".join(texts[part] for part in changed)
            have = texts if len(have) != len(texts) else have
            for part in changed:
                have[part] = texts[part]
            version = page.version
            assert have == texts
            assert page.since(version) == ""


async def test_it_is_written_once_for_all_and_not_too_often(monkeypatch):
    monkeypatch.setattr(work_feed, "EVERY", 0.1)
    monkeypatch.setattr(work_feed, "EACH", 0.0)
    monkeypatch.setattr(work_feed, "_versions", itertools.count(1))
    written: list[float] = []

    async def make(kind):
        written.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.001)  # as a database takes its time
        return 10 * len(written), f"begin{SEPARATOR}{len(written)}"

    writer, feed = WorkWriter(lambda *_: KIND, lambda kind: None), WorkFeed(lambda _: make)

    async def news(seq: int) -> tuple[int, str | None]:
        return await feed.news(KIND, writer, seq=seq, version=0, watchers=50)

    assert await asyncio.gather(*(news(7) for _ in range(50))) == [(1, "begin1")] * 50
    assert await news(10) == (1, "begin1")
    assert await asyncio.gather(*(news(seq) for seq in (11, 20))) == [(2, "begin2")] * 2
    assert len(written) == 2
    assert written[1] - written[0] >= 0.1


async def test_a_page_that_cannot_be_written_is_told_and_the_next_may_be():
    answers = [None, OSError("away"), (3, "page")]

    async def make(kind):
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    feed, writer = WorkFeed(lambda _: make), WorkWriter(lambda *_: KIND, lambda kind: None)
    assert (await feed.news(KIND, writer, seq=3, version=0, watchers=1))[1] is None
    with pytest.raises(OSError, match="away"):
        await feed.news(KIND, writer, seq=3, version=0, watchers=1)
    assert (await feed.news(KIND, writer, seq=3, version=0, watchers=1))[1] == "page"


async def test_a_page_that_was_forgotten_is_brought_whole(monkeypatch):
    """After a long step; its parts counted as known, and the page stood still."""
    monkeypatch.setattr(work_feed, "FORGOTTEN", -1.0)

    async def make(kind):
        return 9, f"begin{SEPARATOR}the rest"

    feed, writer = WorkFeed(lambda _: make), WorkWriter(lambda *_: KIND, lambda kind: None)
    version, first = await feed.news(KIND, writer, seq=1, version=0, watchers=1)
    assert not feed._pages
    assert (await feed.news(KIND, writer, seq=1, version=version, watchers=1))[1] == first
    assert first == "beginthe rest"


async def works(page):
    """The next that is brought, past the events."""
    while True:
        [message] = await receive(page, 1)
        if message.get("type") == "work":
            return message["html"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
async def test_each_is_brought_what_their_own_page_shows_and_then_what_changed(
    make_order, ana, ben, zoe
):
    """P9: in their language; programs, and pages with a question, are brought nothing."""
    order, headers = await elsewhere(
        lambda: (make_order(), {one.username: bearer(one) for one in (ana, ben)})
    )
    address = f"/ws/threads/{order.thread.shown_id}/stream?after=0"
    german = [*headers["ben"], (b"accept-language", b"de")]
    async with (
        socket(f"{address}&page", headers["ana"]) as hers,
        socket(f"{address}&page", german) as his,
        socket(address, headers["ana"]) as program,
    ):
        for page in (hers, his):
            assert await works(page) == ""
        first, other = await works(hers), await works(his)
        assert all(f'data-live="{name}"' in first for name in ("head", "steps", "log", "aside"))
        assert "Asked by" in first
        assert "Asked by" not in other
        assert "/suspend" in first, "a page of its own asks why"
        assert "csrfmiddlewaretoken" not in first, "what all are told holds nobody's token"
        await elsewhere(lambda: write(order, "something new"))
        second = await works(hers)
        assert "something new" in second
        assert 'data-live="aside"' not in second
        [seq] = re.findall(r'data-seq="(\d+)"', second)
        assert int(seq) == order.thread.last_seq + 1
        await elsewhere(lambda: drive(order))
        while (html := await works(hers)) is not None:
            assert "data-pause" not in html
        await elsewhere(lambda: write(order, "while it asks"))
        assert await works(hers) is None
        assert all("seq" in message for message in await receive(program, 3))


@pytest.mark.django_db
def test_nobody_is_written_for_who_may_not_see_it_any_more(make_order, ben, zoe, team):
    """P3: whoever it was written for before."""
    order = make_order()
    kind = orders.WRITER.kind_of(ben, order.thread_id, "en")
    assert kind is not None
    assert orders.WRITER.write(kind) is not None
    assert orders.WRITER.kind_of(zoe, order.thread_id, "en") is None
    ben.groups.remove(team)
    assert orders.WRITER.write(kind) is None
    ben.is_active = False
    ben.save()
    assert orders.WRITER.write(kind) is None
