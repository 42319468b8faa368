"""Checkpoints in Redis: four keys per thread in one hash slot, and every change of them one script,
which Redis runs whole or not at all.

As durable as the server is set up: with `appendonly yes` and `appendfsync always` a power cut loses
nothing, with `everysec` up to a second, without `appendonly` a restart loses everything. A server
that evicts keys drops checkpoints. `weaknesses` says what it finds.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from checkpoints.backends.documents import DocumentStore, ThreadUpdate
from checkpoints.contract.base import CheckpointUnknown, HeadMoved, StoreUnavailable

APPLY = """
local head = redis.call('GET', KEYS[1]) or ''
local at = 1
local function take()
  at = at + 1
  return ARGV[at - 1]
end
local expected, new = take(), take()
if new ~= '' and head == new then return {'done', head} end
if head ~= expected then return {'moved', head} end
for _ = 1, tonumber(take()) do
  local key = take()
  if redis.call('HEXISTS', KEYS[2], key) == 0 then return {'gone', key} end
end
for _ = 1, tonumber(take()) do
  local key = take()
  redis.call('HSET', KEYS[2], key, take())
  redis.call('ZADD', KEYS[4], 0, key)
end
for _ = 1, tonumber(take()) do
  local key = take()
  redis.call('HSET', KEYS[3], key, take())
end
for _ = 1, tonumber(take()) do
  local key = take()
  redis.call('HDEL', KEYS[2], key)
  redis.call('HDEL', KEYS[3], key)
  redis.call('ZREM', KEYS[4], key)
end
if new ~= '' then redis.call('SET', KEYS[1], new) end
return {'done', new}
"""
"""A client sends a command again whose answer was lost: a change that was carried out is answered
as if it were now.
"""


class RedisStore(DocumentStore):
    """Durable as far as the server is: see above. One round trip per read, and one per write."""

    durable = True

    def __init__(self, *, url: str, prefix: str = "waystation", timeout: float = 2.0) -> None:
        """
        Args:
            url: `redis://user:password@host:port/number`, `rediss://…` for TLS, or `unix:///path`.
            prefix: of every key; products that share a server have one each.
            timeout: seconds for connecting and for each answer.
        """
        retry = Retry(ExponentialBackoff(cap=0.5, base=0.05), 3)
        self.prefix = prefix
        self._client: Any = redis.Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=retry,
            health_check_interval=30,
        )
        self._script = self._client.register_script(APPLY)

    def _key(self, thread_id: uuid.UUID, part: str) -> str:
        """The thread's id is the hash tag: in a cluster its keys lie together."""
        return f"{self.prefix}:{{{thread_id.hex}}}:{part}"

    def _apply(self, thread_id: uuid.UUID, change: ThreadUpdate) -> None:
        keys = [self._key(thread_id, part) for part in ("head", "notes", "bodies", "order")]
        arguments: list[Any] = [
            change.expected.hex if change.expected else "",
            change.head.hex if change.head else "",
        ]
        arguments += [len(change.needs), *(key.hex for key in change.needs)]
        for texts in (change.notes, change.bodies):
            arguments += [
                len(texts),
                *(part for key, text in texts.items() for part in (key.hex, text)),
            ]
        arguments += [len(change.drop), *(key.hex for key in change.drop)]
        with _refusals():
            answer, key = self._script(keys, arguments)
        if answer == "moved":
            raise HeadMoved(uuid.UUID(key) if key else None, change.expected)
        if answer == "gone":
            raise CheckpointUnknown(
                "A checkpoint that this builds on was dropped meanwhile; nothing was written."
            )

    def _head(self, thread_id: uuid.UUID) -> uuid.UUID | None:
        with _refusals():
            head = self._client.get(self._key(thread_id, "head"))
        return uuid.UUID(head) if head else None

    def _notes(self, thread_id: uuid.UUID, keys: Sequence[uuid.UUID]) -> dict[uuid.UUID, str]:
        return self._texts(thread_id, "notes", keys)

    def _texts(
        self, thread_id: uuid.UUID, part: str, keys: Sequence[uuid.UUID]
    ) -> dict[uuid.UUID, str]:
        if not keys:
            return {}
        with _refusals():
            texts = self._client.hmget(self._key(thread_id, part), [key.hex for key in keys])
        return {key: text for key, text in zip(keys, texts, strict=True) if text is not None}

    def _keys(self, thread_id: uuid.UUID, before: uuid.UUID | None, limit: int) -> list[uuid.UUID]:
        last = "+" if before is None else f"({before.hex}"
        with _refusals():
            keys = self._client.zrevrangebylex(
                self._key(thread_id, "order"), last, "-", start=0, num=limit
            )
        return [uuid.UUID(key) for key in keys]

    def _forget(self, thread_id: uuid.UUID) -> None:
        with _refusals():
            self._client.delete(
                *(self._key(thread_id, part) for part in ("head", "notes", "bodies", "order"))
            )

    def put_body(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID, text: str) -> None:
        with _refusals():
            self._client.hset(self._key(thread_id, "bodies"), checkpoint_id.hex, text)

    def get_bodies(
        self, thread_id: uuid.UUID, checkpoint_ids: Sequence[uuid.UUID]
    ) -> dict[uuid.UUID, str]:
        return self._texts(thread_id, "bodies", checkpoint_ids)

    def drop_bodies(self, thread_id: uuid.UUID, checkpoint_ids: Sequence[uuid.UUID]) -> None:
        if not checkpoint_ids:
            return
        with _refusals():
            self._client.hdel(self._key(thread_id, "bodies"), *(key.hex for key in checkpoint_ids))

    def bodies(self) -> Iterator[tuple[uuid.UUID, uuid.UUID]]:
        with _refusals():
            for name in self._client.scan_iter(match=f"{self.prefix}:{{*}}:bodies", count=500):
                thread = uuid.UUID(name.split("{")[-1].split("}")[0])
                for key in self._client.hkeys(name):
                    yield thread, uuid.UUID(key)

    def weaknesses(self) -> dict[str, str]:
        try:
            with _refusals():
                info = {**self._client.info("persistence"), **self._client.info("memory")}
        except StoreUnavailable as error:
            return {"checkpoints.W005": f"{error} Runs wait until it can be reached."}
        policy, warnings = info.get("maxmemory_policy", "noeviction"), {}
        if not int(info.get("aof_enabled", 0)):
            warnings["checkpoints.W003"] = (
                "The Redis that keeps checkpoints has `appendonly no`: when it restarts, states "
                "that it did not save are lost, and their"
                " runs with them. Set `appendonly yes`."
            )
        if policy != "noeviction":
            warnings["checkpoints.W004"] = (
                f"The Redis that keeps checkpoints has `maxmemory-policy {policy}`: when its "
                "memory is full it drops checkpoints."
                " Set `noeviction`."
            )
        return warnings


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        raise StoreUnavailable(
            f"The Redis that keeps checkpoints refused or did not answer: {error}."
        ) from error
