"""A client that comes back after the log's beginning was dropped: told so over every stream, then
given the rest (P9).
"""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from checkpoints.models import Event, Thread
from runs import definitions, retention
from tests.conftest import drive
from tests.databases.whole import file_database as file_database
from tests.hitl.live.sockets import bearer, elsewhere, receive, socket
from tests.hitl.live.streams import stream

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("file_database"),
    pytest.mark.both_databases,
]


@pytest.fixture
def order(make_order):
    """Complete, its log dropped but for the last three events."""
    order = drive(make_order("writing-quick"))
    old = Event.objects.filter(seq__lt=Thread.objects.get().last_seq - 2)
    old.update(at=timezone.now() - dt.timedelta(days=2))
    definitions.edit_template("writing-quick", retention={"days": 1})
    retention.prune(now=timezone.now())
    return order


async def known(user):
    """A token's header, and the last number that is gone."""
    return await elsewhere(lambda: (bearer(user), Thread.objects.get().first_seq - 1))


async def test_over_server_sent_events(order, ana):
    headers, gone = await known(ana)
    path = f"/api/v1/work-orders/{order.shown_id}/logs/stream"
    for after in (0, 2):
        async with stream(f"{path}?after={after}", headers) as opened:
            told = await opened.rest()
        assert [seq for seq, _, _ in told] == [gone, gone + 1, gone + 2, gone + 3], after
        assert told[0][1] == "log" and told[0][2]["data"]["dropped_to"] == gone


async def test_over_a_socket(order, ana):
    headers, gone = await known(ana)
    async with socket(f"/ws/threads/{order.thread.shown_id}/stream?after=1", headers) as opened:
        told = await receive(opened, 4)
    assert [one["seq"] for one in told] == [gone, gone + 1, gone + 2, gone + 3]
    assert told[0]["data"]["dropped_to"] == gone


async def test_who_missed_nothing_that_is_gone_is_told_nothing(order, ana):
    headers, gone = await known(ana)
    async with socket(
        f"/ws/threads/{order.thread.shown_id}/stream?after={gone}", headers
    ) as opened:
        told = await receive(opened, 3)
    assert [one["seq"] for one in told] == [gone + 1, gone + 2, gone + 3]
