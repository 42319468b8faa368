"""The channel layer over Redis, which worker threads can send to without an event loop."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import redis
from channels_redis.pubsub import RedisPubSubChannelLayer
from redis.backoff import NoBackoff
from redis.retry import Retry

PATIENCE = 5.0
"""Seconds that Redis may take for a batch of hints."""


class RedisLayer(RedisPubSubChannelLayer):
    """Channels' own, over one Redis, whose groups can also be sent to from any thread.

    `group_send` costs a task of the event loop, a time-out and a message of its own each time; a
    batch of `publish` is one write and one read.
    """

    def __init__(self, *, host: Mapping[str, Any], prefix: str = "asgi") -> None:
        """`host` is `address`, a URL, and what redis-py is to be told besides."""
        super().__init__(hosts=[{**host}], prefix=prefix)
        self._host, self._prefix = {**host}, prefix
        self._clients: dict[int, redis.Redis] = {}

    def publish(self, messages: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Send each message to its group.

        Raises redis.RedisError where Redis does not answer; then some may have been sent.
        """
        pipeline = self._client().pipeline(transaction=False)
        for group, message in messages:
            text = self.serialize(message)  # type: ignore[no-untyped-call]  # the library has no types
            pipeline.publish(f"{self._prefix}__group__{group}", text)
        pipeline.execute()

    def _client(self) -> redis.Redis:
        """This process's; a forked worker makes its own."""
        pid = os.getpid()
        if pid not in self._clients:
            told = {key: value for key, value in self._host.items() if key != "address"}
            # again once, at once: Redis may have ended a connection that was idle
            told |= {"socket_timeout": PATIENCE, "retry": Retry(NoBackoff(), 1)}
            self._clients[pid] = redis.Redis.from_url(self._host["address"], **told)
        return self._clients[pid]
