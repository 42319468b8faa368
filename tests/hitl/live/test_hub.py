"""The hub: one subscription and one read per hint for all watchers, and no failure of anything
below that reaches one of them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import random
import time
import uuid
from contextlib import aclosing, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from channels.layers import get_channel_layer
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.events import live
from hitl.decisions.reviewers import watchers
from hitl.host.local_layer import LocalChannelLayer
from hitl.live import hub as hubs
from hitl.live import inbox_feed, topics
from hitl.live.hub import Hub
from hitl.live.inbox_feed import InboxOfPerson
from hitl.live.topics import Topic
from runs import hints
from tests.doors.waiting import becomes

THREAD = uuid.UUID("01a20298-56f4-764a-8bb2-2b1df175b704")


def envelope(seq, size=1):
    return {
        "event": "log",
        "data": {"message": "x" * size},
        "seq": seq,
        "run_id": None,
        "thread_id": "thr_1",
        "at": "2026-01-01T00:00:00",
    }


class Log:
    """A log of many threads, as the database would have it, with accidents."""

    def __init__(self):
        self.events = {}
        self.reads, self.asked, self.fails = 0, 0, False

    def write(self, count, *, thread=THREAD, size=1):
        mine = self.events.setdefault(thread, [])
        new = [envelope(len(mine) + 1 + index, size) for index in range(count)]
        mine.extend(topics._told(new))
        return new

    async def read(self, thread, seq, limit):
        self.reads += 1
        await asyncio.sleep(0)  # others get their turn
        if self.fails:
            raise OSError("the database is away")
        return self.events.get(thread, [])[seq : seq + limit]

    async def newest(self, threads):
        self.asked += 1
        await asyncio.sleep(0)  # others get their turn
        if self.fails:
            raise OSError("the database is away")
        return {thread: len(self.events.get(thread, [])) for thread in threads}


class Layer(LocalChannelLayer):
    """A channel layer that fails where a test wants it."""

    fails: frozenset[str] = frozenset()
    hangs: frozenset[str] = frozenset()

    def __getattribute__(self, name):
        if name in {"new_channel", "group_add", "group_discard", "receive"}:
            if name in super().__getattribute__("fails"):
                raise ConnectionError(f"{name} fails")
            if name in super().__getattribute__("hangs"):
                return lambda *args, **kwargs: asyncio.sleep(3600)  # hangs, which is the accident
        return super().__getattribute__(name)


@pytest.fixture
def log(monkeypatch):
    found = Log()
    monkeypatch.setattr(topics, "_read", found.read)
    monkeypatch.setattr(topics, "newest", found.newest)
    monkeypatch.setattr(hubs, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(hubs, "JOIN_WITHIN", 0.05)
    return found


@pytest.fixture
def layer(monkeypatch):
    made = Layer()
    monkeypatch.setattr(hubs, "get_channel_layer", lambda: made)
    return made


async def hint(layer, events, *, thread=THREAD, inline=True):
    message = {
        "type": "thread.hint",
        "thread": thread.hex,
        "seq": events[-1]["seq"],
        "events": events if inline else [],
    }
    await layer.group_send(live.group(thread), message)


async def take(hub, seq, until, *, thread=THREAD, cut=None, seen=None):
    """Follow to event number `until`; `cut` tells after which numbers the connection is lost, and
    comes back.
    """
    seen = [] if seen is None else seen
    while seq < until:
        async with aclosing(hub.follow(thread, seq)) as pages:
            async for page in pages:
                lost = False
                for told in page:
                    seen.append(told.seq)
                    seq = told.seq
                    if seq >= until or (cut is not None and cut(seq)):
                        lost = True
                        break
                if lost:
                    break
    return seen


async def settled(hub, topics):
    """All are in, and the first looks are over."""
    for _ in range(500):
        await asyncio.sleep(0.02)  # nothing tells that all are in
        looking = [one for one in hub._topics.values() if one.seq < 0 or one._looking is not None]
        if len(hub._joined) == len(hub._topics) == topics and not looking:
            return
    raise AssertionError("it does not come to rest")


@asynccontextmanager
async def quick():
    async with asyncio.timeout(90):
        yield Hub()


async def test_every_client_sees_every_event_once_however_often_it_is_cut(log, layer):
    """S2-31, P9: hints are lost and doubled; one client is cut at every event."""
    total, dice = 10_000, random.Random(7)
    async with quick() as hub:
        cuts = (
            [lambda seq: True]
            + [lambda seq, rate=rate: dice.random() < rate for rate in [0.0, 0.001, 0.01, 0.1] * 12]
            + [None]
        )
        clients = [asyncio.create_task(take(hub, 0, total, cut=cut)) for cut in cuts[:50]]
        while (written := len(log.events.get(THREAD, []))) < total:
            events = log.write(min(dice.choice([1, 1, 2, 7, 600]), total - written))
            for _ in range(dice.choice([0, 1, 1, 1, 2])):
                await hint(layer, events, inline=dice.random() < 0.8)
            if dice.random() < 0.2:
                await asyncio.sleep(0.001)  # writers pause now and then
        for client in clients:
            assert await client == list(range(1, total + 1))
        assert len(clients) == 50


@pytest.mark.parametrize("start", [0, 1, 499, 500, 501, 1199, 1200])
async def test_a_cursor_anywhere_is_taken_up(log, layer, start):
    """Replay in pages of the log, then from memory, then live."""
    log.write(1200)
    async with quick() as hub:
        client = asyncio.create_task(take(hub, start, 1201))
        await asyncio.sleep(0.01)  # whoever follows is listening by then, or reads what it missed
        await hint(layer, log.write(1))
        assert await client == list(range(start + 1, 1202))


async def test_many_watchers_cost_one_read(log, layer, monkeypatch):
    """F24: none where the hint carries the events."""
    # the look without a hint may come between a write and its hint, and reads
    monkeypatch.setattr(hubs, "LOOK_EVERY", 3600.0)
    log.write(10)
    async with quick() as hub:
        clients = [asyncio.create_task(take(hub, 10, 20)) for _ in range(200)]
        await settled(hub, 1)
        before = log.reads
        await hint(layer, log.write(5))
        await asyncio.sleep(0.01)  # whoever follows is listening by then, or reads what it missed
        assert log.reads == before
        await hint(layer, log.write(5), inline=False)
        assert [await client for client in clients] == [list(range(11, 21))] * 200
        assert log.reads - before <= 2


async def test_many_who_come_back_at_once_cost_one_read_a_page(log, layer):
    log.write(1500)
    async with quick() as hub:
        await asyncio.gather(*(take(hub, 0, 1500) for _ in range(100)))
    assert log.reads <= 6


async def test_a_thousand_quiet_threads_cost_two_queries_a_look(log, layer):
    """P7: the safety poll asks for all watched threads together."""
    threads = [uuid.uuid4() for _ in range(1000)]
    for thread in threads:
        log.write(1, thread=thread)
    async with quick() as hub:
        clients = [asyncio.create_task(take(hub, 1, 2, thread=thread)) for thread in threads]
        await settled(hub, 1000)
        began, reads, log.asked = time.monotonic(), log.reads, 0
        await asyncio.sleep(0.28)  # some looks of the hub, whose number is the measure
        looks = 1 + (time.monotonic() - began) / hubs.LOOK_EVERY
        assert log.asked <= 2 * looks
        assert log.reads == reads
        log.write(1, thread=threads[500])
        assert await clients[500] == [2]
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        assert not hub._topics


@pytest.mark.parametrize("name", ["new_channel", "group_add", "receive", "group_discard"])
@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_without_a_channel_layer_watchers_go_on_by_reading(log, layer, name, how):
    """F27: an error of the layer, or a layer that hangs, costs a moment and reaches nobody."""
    log.write(3)
    setattr(layer, how, frozenset({name}))
    async with quick() as hub:
        assert await take(hub, 0, 3) == [1, 2, 3]
        client = asyncio.create_task(take(hub, 3, 5))
        await asyncio.sleep(0.02)  # whoever follows is listening by then, or reads what it missed
        log.write(2)
        assert await client == [4, 5]
        assert not hub._topics
        setattr(layer, how, frozenset())
        client = asyncio.create_task(take(hub, 5, 6))
        await asyncio.sleep(0.15)  # more than one look of the hub
        await hint(layer, log.write(1))
        assert await client == [6]


async def test_a_layer_that_dies_and_comes_back_is_joined_again(log, layer):
    log.write(1)
    async with quick() as hub:
        client = asyncio.create_task(take(hub, 1, 4))
        await asyncio.sleep(0.02)  # whoever follows is listening by then, or reads what it missed
        layer.fails = frozenset({"new_channel", "group_add", "receive"})
        await layer.flush()
        hub._tasks[0].cancel()
        hub._tasks[0] = asyncio.create_task(hub._listen())
        log.write(1)
        await asyncio.sleep(0.12)  # more than one look of the hub
        layer.fails = frozenset()
        await settled(hub, 1)
        monkey_poll, hubs.LOOK_EVERY = hubs.LOOK_EVERY, 3600.0
        try:
            await asyncio.sleep(0.1)  # the poll that was under way
            await hint(layer, log.write(2))
            assert await client == [2, 3, 4]
        finally:
            hubs.LOOK_EVERY = monkey_poll


async def test_a_database_that_is_away_is_waited_for(log, layer):
    async with quick() as hub:
        log.write(2)
        client = asyncio.create_task(take(hub, 2, 3))
        await asyncio.sleep(0.02)  # whoever follows is listening by then, or reads what it missed
        log.fails = True
        await hint(layer, log.write(1), inline=False)
        await asyncio.sleep(0.15)  # more than one look of the hub
        assert not client.done()
        log.fails = False
        assert await client == [3]


async def test_what_is_kept_in_memory_is_bounded(log, layer):
    """By number and by size: events may be large."""
    log.write(1)
    async with quick() as hub:
        client = asyncio.create_task(take(hub, 1, 1101))
        await asyncio.sleep(0.02)  # whoever follows is listening by then, or reads what it missed
        topic = hub._topics[THREAD]
        for size in (1, 10_000):
            for _ in range(55):
                await hint(layer, log.write(10, size=size))
                await asyncio.sleep(0)  # others get their turn
            # whoever follows is listening by then, or reads what it missed
            await asyncio.sleep(0.02)
            assert len(topic.recent) <= topics.KEPT
            assert sum(len(told.text) for told in topic.recent) <= topics.KEPT_CHARACTERS
        assert await client == list(range(2, 1102))


async def test_a_watcher_that_does_not_read_holds_nothing(log, layer):
    """Nothing is queued: who does not take its page is not given another."""
    log.write(1)
    async with quick() as hub, aclosing(hub.follow(THREAD, 0)) as slow:
        await anext(slow)
        for _ in range(300):
            await hint(layer, log.write(10, size=1000))
            await asyncio.sleep(0)  # others get their turn
        await asyncio.sleep(0.05)  # what must not happen has the time to
        topic = hub._topics[THREAD]
        assert topic._reading == {}
        assert sum(len(told.text) for told in topic.recent) <= topics.KEPT_CHARACTERS
        page = await anext(slow)
        assert [told.seq for told in page] == list(range(2, 2 + len(page))), (
            "it goes on where it was"
        )
        assert sum(len(told.text) for told in page) <= topics.PAGE_CHARACTERS


async def test_the_last_watcher_turns_off_the_light(log, layer):
    """P7."""
    log.write(1)
    async with quick() as hub:
        for _ in range(3):
            await asyncio.gather(take(hub, 0, 1), take(hub, 0, 1))
            tasks = list(hub._tasks)
            assert (hub._topics, tasks) == ({}, [])
        await asyncio.sleep(0.05)  # what must not happen has the time to
        assert (dict(layer._groups), layer._inboxes) == ({}, {})


async def counted(hub, user_id, into):
    async with aclosing(hub.waiting(user_id)) as told:
        async for news in told:
            into.append(news.number)


class Desk:
    """Questions that wait for everybody, as the database would have them, with accidents."""

    def __init__(self):
        self.waiting, self.changes = {}, set()
        self.looks, self.counts, self.asked_together, self.fails = 0, 0, 0, ""

    def ask(self):
        key, at = uuid.uuid4(), dt.datetime.now(dt.UTC)
        self.waiting[key] = inbox_feed.WaitingRow(None, at)
        self.changes.add((key, at))

    def _meet(self, what):
        if self.fails == what:
            raise OSError("away")

    async def read(self, user_ids):
        self._meet("count")
        self.counts += len(user_ids)
        await asyncio.sleep(0.002)  # as a database takes its time
        return {user_id: dict(self.waiting) for user_id in user_ids}, {}

    async def look(self):
        self._meet("look")
        self.looks += 1
        return frozenset(self.changes)

    async def watched(self, keys, people):
        self.asked_together += 1
        self._meet("watched")
        standings = dict.fromkeys(people, watchers.Standing(True, True))
        rest = dict.fromkeys(("deadline_at", "closed_at", "panel", "open_to_all"))
        rest |= {"self_approval": None, "team": None, "started_by": None}
        found = [
            watchers.WatchedQuestion(
                pk=key, is_open=True, changed_at=self.waiting[key].changed_at, stage=0, turn=0,
                owner=0, standings=standings, **rest,
            )
            for key in keys
        ]  # fmt: skip
        return found, {}

    def behind(self, hub):
        hub._inbox._read = self.read
        hub._inbox._changes_of_late = self.look
        hub._inbox._watched = self.watched


@pytest.fixture
def desk(monkeypatch):
    monkeypatch.setattr(inbox_feed, "QUIET", 0.01)
    return Desk()


async def test_an_inbox_is_told_when_other_questions_wait(log, layer, desk):
    """F9, F30: of a burst one change; the same again is none."""
    desk.ask()
    async with quick() as hub:
        desk.behind(hub)
        tabs: list[list[int]] = [[], []]
        tasks = [asyncio.create_task(counted(hub, 1, tab)) for tab in tabs]
        await asyncio.sleep(0.05)  # what must not happen has the time to
        assert tabs == [[1], [1]]
        assert desk.counts == 1, "two tabs of one person share a count"
        for number in (2, 3):
            desk.ask()
            for _ in range(20):
                await layer.group_send(hints.PAUSES, {"type": hints.PAUSES_CHANGED})
            await asyncio.sleep(0.06)  # what must not happen has the time to
            assert tabs == [[*range(1, number + 1)]] * 2
        await layer.group_send(hints.PAUSES, {"type": hints.PAUSES_CHANGED})
        await asyncio.sleep(0.06)  # what must not happen has the time to
        assert tabs == [[1, 2, 3]] * 2
        assert (desk.counts, desk.asked_together) == (1, 2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert hub._tasks == []


async def test_a_thousand_inboxes_are_kept_up_by_one_query_a_look(log, layer, desk, monkeypatch):
    """F27, P7: the layer is away; each is counted once, and a change is looked at for all."""
    monkeypatch.setattr(inbox_feed, "TOLD_PER_SECOND", 1_000_000)
    layer.fails = frozenset({"new_channel", "group_add", "receive"})
    async with quick() as hub:
        desk.behind(hub)
        tabs: list[list[int]] = [[] for _ in range(1000)]
        tasks = [asyncio.create_task(counted(hub, number, tab)) for number, tab in enumerate(tabs)]
        await becomes(lambda: all(tabs))
        began, desk.looks = time.monotonic(), 0
        await becomes(lambda: desk.looks >= 6)
        # the first is one that had begun, and is counted when it ends
        assert desk.looks <= 2 + (time.monotonic() - began) / hubs.LOOK_EVERY
        desk.ask()
        await becomes(lambda: all(tab == [0, 1] for tab in tabs))
        assert (desk.counts, desk.asked_together) == (1000, 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert hub._tasks == []


@pytest.mark.parametrize("away", ["count", "look", "watched"])
async def test_an_inbox_outlives_a_database_that_is_away(log, layer, desk, away):
    """It has changed meanwhile; the first look that succeeds finds so."""
    desk.ask()
    async with quick() as hub:
        desk.behind(hub)
        seen: list[int] = []
        desk.fails = away if away == "count" else ""
        task = asyncio.create_task(counted(hub, 1, seen))
        await asyncio.sleep(0.12)  # more than one look
        assert seen == ([] if away == "count" else [1])
        desk.fails = away
        desk.ask()
        await layer.group_send(hints.PAUSES, {"type": hints.PAUSES_CHANGED})
        await asyncio.sleep(0.12)  # more than one look
        assert seen == ([] if away == "count" else [1])
        desk.fails = ""
        await becomes(lambda: seen == ([2] if away == "count" else [1, 2]))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_sockets_know_no_channel_layer():
    """What the layer does cannot reach a consumer, since a consumer has none."""
    from hitl.live import consumers

    assert get_channel_layer(consumers.NO_LAYER) is None


async def test_a_thousand_threads_that_are_watched_at_once_ask_for_their_numbers_together(log):
    """P9: each asked by itself, and the last of 1 000 readers heard of its event seconds later."""
    threads = [uuid.UUID(int=number) for number in range(1, 1001)]
    log.write(2, thread=threads[7])
    numbers = topics.NewestNumbers()
    found = await asyncio.gather(*(numbers.of(thread) for thread in threads))
    assert found == [2 if thread == threads[7] else 0 for thread in threads]
    assert log.asked == 2
    log.fails = True
    for failed in await asyncio.gather(
        *(numbers.of(thread) for thread in threads[:3]), return_exceptions=True
    ):
        assert isinstance(failed, OSError)
    log.fails = False
    assert await numbers.of(threads[7]) == 2


async def test_numbers_that_were_folded_away_shift_no_place_in_memory():
    """P9: a line under 9 stands for 6 to 9."""
    topic = Topic(uuid.uuid4(), topics.NewestNumbers())
    at = "2026-01-01T00:00:00+00:00"
    events: Any = [
        {"event": "log", "data": {}, "seq": seq, "run_id": None, "thread_id": "thr_x", "at": at}
        for seq in (5, 9, 10)
    ]
    topic._extend(topics._told(events))
    assert {seq: [one.seq for one in await topic.since(seq)] for seq in (4, 5, 7, 9, 10)} == {
        4: [5, 9, 10], 5: [9, 10], 7: [9, 10], 9: [10], 10: [],
    }  # fmt: skip


async def test_what_a_hint_and_a_read_bring_both_is_kept_once(log):
    """P9: a hint may be quicker than the read that was under way."""
    log.write(4)
    topic, events = Topic(THREAD, topics.NewestNumbers()), log.events[THREAD]
    topic._extend(events[:3])
    topic._extend(events[1:])
    assert [told.seq for told in await topic.since(0)] == [1, 2, 3, 4]
    topic._extend(events)
    assert [told.seq for told in topic.recent] == [1, 2, 3, 4]


async def test_memory_has_no_gap_and_what_is_missing_is_read(log):
    """P9: what lies between what is kept and what comes is told by the log alone."""
    log.write(9)
    topic, events = Topic(THREAD, topics.NewestNumbers()), log.events[THREAD]
    topic._extend(events[4:6])
    topic._extend(events[6:7])
    assert [told.seq for told in await topic.since(4)] == [5, 6, 7] and not log.reads
    topic._extend(events[8:])
    assert [told.seq for told in await topic.since(6)] == [7, 8, 9]
    assert [told.seq for told in await topic.since(8)] == [9] and log.reads == 1


AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("count"), st.frozensets(st.integers(0, 5))),
            st.tuples(st.sampled_from(["waits", "goes"]), st.integers(0, 5)),
            st.just(("tell", 0)),
        ),
        max_size=40,
    ),
    st.sampled_from([3, 1000]),
)
def test_who_keeps_what_a_socket_is_told_has_what_waits(moves, kept):
    """F9: also where it was told late, and where more changed than is remembered."""
    inbox, one = inbox_feed.Inbox(lambda function: function, lambda _: None), InboxOfPerson(kept)
    one.count({}, None)
    have, version, moments = {}, 0, itertools.count()

    def row():
        return inbox_feed.WaitingRow(None, AT + dt.timedelta(seconds=next(moments)))

    for what, about in [*moves, ("tell", 0)]:
        if what == "count":
            one.count({uuid.UUID(int=number): row() for number in about}, None)
        elif what == "tell" and one.version != version:
            news, version = inbox._told(1, one, version, ""), one.version
            if news.first is not None:
                have = dict(news.first)
            assert not set(news.new) & have.keys()
            assert {*news.gone, *news.changed} <= have.keys()
            for key in news.gone:
                del have[key]
            known = one.known or {}
            have |= {key: known[key].changed_at for key in [*news.new, *news.changed]}
            assert news.number == len(have)
        elif what != "tell":
            key = uuid.UUID(int=about)
            standing = watchers.Standing(what == "waits", True)
            question: Any = SimpleNamespace(deadline_at=None, changed_at=row().changed_at)
            one.take(question, key, standing)
        else:
            continue
    assert have == {key: row.changed_at for key, row in (one.known or {}).items()}
