"""What sends hints: batches from a thread, over layers that threads can send to and over others."""

from __future__ import annotations

import asyncio
import os
import uuid

import pytest
from channels.layers import get_channel_layer

from checkpoints.events import live
from tests.servers.stack import until

DEAD = "redis://127.0.0.1:1"
LAYERS = {
    "ours": {"BACKEND": "hitl.host.redis.layer.RedisLayer", "CONFIG": {"host": {"address": DEAD}}},
    "another": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [DEAD]},
    },
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_dead_channel_layer_costs_a_line_and_nothing_else(settings, caplog, name):
    """P2: no exception reaches whoever committed."""
    settings.CHANNEL_LAYERS = {"default": LAYERS[name]}
    sender = live.Sender()
    sender.give("thread.x", {"type": "thread.hint"})
    until(lambda: "1 live hints were lost, to thread.x" in caplog.text, what="the line")
    sender.give("thread.y", {"type": "thread.hint"})
    until(lambda: "1 live hints were lost, to thread.y" in caplog.text, what="the next one's line")


async def test_a_hint_reaches_its_group_over_a_layer_that_only_event_loops_can_send_to(settings):
    """As a project has it that embeds the applications."""
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add("thread.x", channel)
    await asyncio.to_thread(live._publish, [("thread.x", {"type": "thread.hint", "seq": 1})])
    async with asyncio.timeout(10):
        assert (await layer.receive(channel))["seq"] == 1


@pytest.mark.skipif("TEST_REDIS_URL" not in os.environ, reason="needs Redis")
async def test_a_hint_that_a_thread_publishes_reaches_the_group_over_redis(settings):
    """The name of a group's channel is the library's: this fails where it changes."""
    config = {"host": {"address": os.environ["TEST_REDIS_URL"]}, "prefix": uuid.uuid4().hex}
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "hitl.host.redis.layer.RedisLayer", "CONFIG": config}
    }
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add("thread.x", channel)
    batch = [("thread.x", {"type": "thread.hint", "seq": seq}) for seq in (1, 2)]
    await asyncio.to_thread(live._publish, batch)
    async with asyncio.timeout(10):
        assert [(await layer.receive(channel))["seq"] for _ in batch] == [1, 2]
    await layer.flush()


async def test_what_waits_for_its_turn_goes_as_one_and_the_first_goes_at_once(monkeypatch):
    monkeypatch.setattr(live, "GAP", 0.2)
    batches: list[list[int]] = []
    monkeypatch.setattr(
        live, "_publish", lambda batch: batches.append([message["seq"] for _, message in batch])
    )
    sender = live.Sender()
    sender.give("thread.x", {"seq": 1, "events": []})
    await asyncio.to_thread(until, lambda: batches, what="the first")
    for seq in (2, 3, 4):
        sender.give("thread.x", {"seq": seq, "events": []})
    await asyncio.to_thread(until, lambda: len(batches) > 1, what="the others")
    assert batches == [[1], [4]]
