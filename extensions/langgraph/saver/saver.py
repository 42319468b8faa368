"""`DjangoSaver`: LangGraph's checkpointer on Waystation's database, sync and async."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from django.contrib.auth.models import AbstractBaseUser, Group
from django.db.models import Q
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from checkpoints.models import Thread
from checkpoints.models.graphs import GraphThread
from checkpoints.state import codec
from checkpoints.store import graph_state
from checkpoints.store.graph_keys import key_of
from extensions.langgraph.saver import blobs, keeping
from extensions.langgraph.saver.history import histories
from extensions.langgraph.saver.rows import CheckpointAddress, GraphRows, Owner, Put, ReadCheckpoint
from extensions.langgraph.saver.serializer import PayloadRefused, check_kind, strict
from extensions.langgraph.saver.worker import Kind, Worker

PAGE = 50
INLINE = 256
"""Characters of a text that is kept in the checkpoint itself; a longer one is written once per
version.
"""
_STOPS = 'It is an argument of the call: graph.invoke(input, with_thread_id("…"), {}=["step"]).'
ELSEWHERE = {
    **{name: _STOPS.format(name) for name in ("interrupt_before", "interrupt_after")},
    "resume_from": "Name a checkpoint_id, or go to a node by Command(goto=…) as the input.",
}
"""What callers write into a config and LangGraph reads elsewhere, with where that is."""
Result = TypeVar("Result")
Page = tuple[int, list[ReadCheckpoint]]
"""How many checkpoints were looked at, and those of them that match."""


class DjangoSaver(BaseCheckpointSaver[str]):
    """Keeps a graph's checkpoints where Waystation keeps its own:
    `builder.compile(checkpointer=DjangoSaver(owner=user))`.

    Any text is a `thread_id`; it stands for one Thread of the owner (and team), whose checkpoints
    show in pages, API and admin under the usual permissions. Another owner's threads cannot be
    reached; `owned_by` gives the same saver for somebody else.

    Work is done by one thread with one connection (see `worker`), so nothing is part of the
    caller's transaction: what a graph has written stays when the caller rolls back. `close`, or
    `with`, ends both; so does a while without work.

    LangGraph writes a step while the next one runs. In a worker that may die at any moment,
    `durability="sync"` waits for it.
    """

    def __init__(
        self,
        *,
        owner: AbstractBaseUser,
        team: Group | None = None,
        serde: SerializerProtocol | None = None,
        using: str = "default",
    ) -> None:
        """`serde` may be a StrictSerializer that allows your types, or LangGraph's
        EncryptedSerializer; never one that unpickles.
        """
        super().__init__(serde=strict(serde))
        self.owner = Owner(owner, team)
        self.space = ""
        self._before_writing: Callable[[], None] = _nothing
        self._rows = GraphRows(using)
        self._worker = Worker(using, self._rows.forget)

    def owned_by(self, owner: AbstractBaseUser, team: Group | None = None) -> Self:
        """The same saver, on the same connection, for another person's threads."""
        other = copy.copy(self)
        other.owner = Owner(owner, team)
        return other

    def within(self, thread: Thread, space: str, *, before_writing: Callable[[], None]) -> Self:
        """The same saver for one graph on the thread of a run; the graph's `thread_id` is the
        thread's shown id.

        Args:
            space: what tells the graph's checkpoints from those of others on that thread; LangGraph
                does not see it.
            before_writing: called right before each write, from the saver's thread; nothing is
                written where it raises.
        """
        GraphThread.objects.using(self._rows.using).get_or_create(
            thread_id=thread.pk, defaults={"owner_id": thread.owner_id, "name": thread.shown_id}
        )
        other = self.owned_by(thread.owner, thread.team)
        other.space, other._before_writing = space, before_writing
        return other

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        copy = super().with_allowlist(extra_allowlist)
        return copy  # type: ignore[return-value]  # a shallow copy of this one

    def close(self) -> None:
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        self._add(self._put(config, checkpoint, metadata, new_versions))
        return self._config(config, checkpoint["id"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        await self._aadd(self._put(config, checkpoint, metadata, new_versions))
        return self._config(config, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        if writes:
            self._add(self._put_writes(config, writes, task_id, task_path), more=True)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        if writes:
            await self._aadd(self._put_writes(config, writes, task_id, task_path), more=True)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._tuple(self._read(work)) if (work := self._get(config)) else None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._tuple(await self._aread(work)) if (work := self._get(config)) else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        start, given = 0, 0
        while limit is None or given < limit:
            seen, page = self._read(self._page(config, filter, before, start, limit))
            for checkpoint in page[: None if limit is None else limit - given]:
                given += 1
                yield self._whole(checkpoint)
            if seen < PAGE:
                return
            start += seen

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        start, given = 0, 0
        while limit is None or given < limit:
            seen, page = await self._aread(self._page(config, filter, before, start, limit))
            for checkpoint in page[: None if limit is None else limit - given]:
                given += 1
                yield self._whole(checkpoint)
            if seen < PAGE:
                return
            start += seen

    def delete_thread(self, thread_id: str) -> None:
        self._change(partial(keeping.delete_thread, self._rows, self._thread(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._achange(partial(keeping.delete_thread, self._rows, self._thread(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete what runs wrote, but not what a delta channel of a checkpoint that stays is
        rebuilt from.
        """
        self._change(
            partial(
                keeping.delete_for_runs,
                self._rows,
                self.owner,
                list(run_ids),
                self.serde.loads_typed,
            )
        )

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._achange(
            partial(
                keeping.delete_for_runs, self._rows, self.owner, [*run_ids], self.serde.loads_typed
            )
        )

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._change(
            partial(
                keeping.copy_thread,
                self._rows,
                self._thread(source_thread_id),
                self._thread(target_thread_id),
            )
        )

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._achange(
            partial(
                keeping.copy_thread,
                self._rows,
                self._thread(source_thread_id),
                self._thread(target_thread_id),
            )
        )

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep each namespace's latest checkpoint, and what its delta channels are rebuilt from;
        `delete` keeps nothing.
        """
        for work in self._prunes(thread_ids, strategy):
            self._change(work)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for work in self._prunes(thread_ids, strategy):
            await self._achange(work)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self._histories(self._read(self._history(config, channels))) if channels else {}

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return (
            self._histories(await self._aread(self._history(config, channels))) if channels else {}
        )

    def get_next_version(self, current: str | int | float | None, channel: None = None) -> str:
        """Sorts as text; the random part tells apart what two branches made of the same version."""
        number = int(str(current).split(".")[0]) + 1 if current is not None else 1
        return f"{number:010}.{random.getrandbits(64):016x}"  # no secret

    def _add(self, work: Callable[[], Any], *, more: bool = False) -> None:
        self._worker.submit(self._allowed(work), Kind.ADD, more=more).result()

    async def _aadd(self, work: Callable[[], Any], *, more: bool = False) -> None:
        await asyncio.wrap_future(self._worker.submit(self._allowed(work), Kind.ADD, more=more))

    def _allowed(self, work: Callable[[], Result]) -> Callable[[], Result]:
        def asked_first() -> Result:
            self._before_writing()
            return work()

        return asked_first

    def _change(self, work: Callable[[], None]) -> None:
        self._worker.submit(work, Kind.CHANGE).result()

    async def _achange(self, work: Callable[[], None]) -> None:
        await asyncio.wrap_future(self._worker.submit(work, Kind.CHANGE))

    def _read(self, work: Callable[[], Result]) -> Result:
        return self._worker.submit(work, Kind.READ).result()

    async def _aread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.wrap_future(self._worker.submit(work, Kind.READ))

    def _at(self, config: RunnableConfig) -> CheckpointAddress:
        _check_places(config["configurable"])  # where LangGraph puts a config's unknown keys, too
        return self._thread(
            config["configurable"]["thread_id"], config["configurable"].get("checkpoint_ns", "")
        )

    def _thread(self, thread_id: Any, namespace: str = "") -> CheckpointAddress:
        _check_named(thread_id)
        thread = str(thread_id)
        if codec.holds_unreadable([thread, namespace]):
            raise ValueError(
                "a thread_id and a checkpoint_ns are text without NUL and lone surrogates"
            )
        return CheckpointAddress(
            owner=self.owner, thread=thread, namespace=self._stored_namespace(namespace)
        )

    def _stored_namespace(self, namespace: str) -> str:
        return "|".join(filter(None, [self.space, namespace]))

    def _config(self, config: RunnableConfig, checkpoint_id: str) -> RunnableConfig:
        at = self._at(config)
        return self._named(at.thread, at.namespace, checkpoint_id)

    def _named(self, thread: str, stored: str, checkpoint_id: str) -> RunnableConfig:
        """A checkpoint as LangGraph calls it, by the name that its namespace has in the
        database.
        """
        return _config(
            thread,
            stored.removeprefix(self.space).removeprefix("|") if self.space else stored,
            checkpoint_id,
        )

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Callable[[], Any]:
        """Serialised here and now: the graph goes on, and may change what it gave."""
        key = key_of(checkpoint["id"])
        if key is None:
            raise ValueError(
                f"a checkpoint's id is a UUID as LangGraph makes them, not {checkpoint['id']!r}"
            )
        channels, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        inline = {
            name: value for name, value in channels.items() if name not in versions or _small(value)
        }
        stored = [name for name in channels if name not in inline]
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        about = get_serializable_checkpoint_metadata(config, metadata)
        following = ", ".join(graph_state.triggers(channels))
        put = Put(
            at=self._at(config),
            key=key,
            parent=key_of(config["configurable"].get("checkpoint_id") or ""),
            skeleton=_checked(self.serde.dumps_typed({**rest, "values": inline, "stored": stored})),
            metadata=_metadata(about),
            run=str(about.get("run_id") or ""),
            step=int(about.get("step") or 0),
            values={
                name: (str(versions[name]), blobs.dump(self.serde, channels[name]))
                for name in stored
                if name in new_versions
            },
            same={
                name: (str(versions[name]), channels[name])
                for name in stored
                if name not in new_versions
            },
            seen=checkpoint["versions_seen"],
            next_nodes=following,
            ended=not following
            and about.get("source") != "input"
            and int(about.get("step") or 0) >= 0,
            serde=self.serde,
        )
        for _, value in put.values.values():
            check_kind("msgpack" if value.kind == "delta" else value.kind)
        return partial(self._rows.put, put)

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Callable[[], Any]:
        key = key_of(config["configurable"]["checkpoint_id"])
        if key is None:
            raise ValueError("writes belong to a checkpoint, by its id")
        rows = [
            (
                task_id,
                WRITES_IDX_MAP.get(channel, idx),
                channel,
                *_checked(self.serde.dumps_typed(value)),
            )
            for idx, (channel, value) in enumerate(writes)
        ]
        return partial(self._rows.put_writes, self._at(config), key, rows, task_path)

    def _get(self, config: RunnableConfig) -> Callable[[], ReadCheckpoint | None] | None:
        wanted = config["configurable"].get("checkpoint_id")
        key = key_of(wanted) if wanted else None
        if wanted and key is None:
            return None
        return partial(self._rows.get, self._at(config), key, self.serde.loads_typed)

    def _page(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        start: int,
        limit: int | None,
    ) -> Callable[[], Page]:
        """How many checkpoints were looked at, and those of them that match."""
        given = config["configurable"] if config else {}
        thread = self._thread(given["thread_id"]).thread if config else None
        wanted = given.get("checkpoint_ns")
        namespace = wanted if wanted is None else self._stored_namespace(wanted)
        keys = Q()
        for text, lookup in ((given.get("checkpoint_id"), "key"), (_id_of(before), "key__lt")):
            if text:
                keys &= Q(**{lookup: key_of(text)}) if key_of(text) else Q(pk__in=[])
        size = PAGE if filter or limit is None else min(PAGE, limit)

        def work() -> Page:
            rows = self._rows.select(self.owner, thread=thread, namespace=namespace, keys=keys)[
                start : start + size
            ]
            seen = list(rows)
            matching = [
                row for row in seen if not filter or _contains(row.checkpoint.metadata, filter)
            ]
            return len(seen), self._rows.found(matching, self.serde.loads_typed)

        return work

    def _prunes(self, thread_ids: Sequence[str], strategy: str) -> Iterator[Callable[[], None]]:
        if isinstance(thread_ids, str):
            raise TypeError("thread_ids is a sequence of ids, not one of them")
        if strategy not in {"keep_latest", "delete"}:
            raise ValueError(f"there is no strategy {strategy!r}; there are keep_latest and delete")
        for thread_id in thread_ids:
            at = self._thread(thread_id)
            if strategy == "delete":
                yield partial(keeping.delete_thread, self._rows, at)
            else:
                yield partial(keeping.prune, self._rows, at, self.serde.loads_typed)

    def _history(self, config: RunnableConfig, channels: Sequence[str]) -> Callable[[], Any]:
        wanted = config["configurable"].get("checkpoint_id")
        return partial(
            histories,
            self._rows,
            self._at(config),
            key_of(wanted) if wanted else None,
            list(channels),
            self.serde.loads_typed,
        )

    def _histories(self, found: Mapping[str, Any]) -> dict[str, DeltaChannelHistory]:
        result: dict[str, DeltaChannelHistory] = {}
        for channel, history in found.items():
            writes = [
                (task, channel, self.serde.loads_typed((kind, data)))
                for task, kind, data in history.writes
            ]
            result[channel] = DeltaChannelHistory(writes=writes)
            if history.inline:
                result[channel]["seed"] = history.inline[0]
            elif history.seed is not None:
                result[channel]["seed"] = self.serde.loads_typed(history.seed)
        return result

    def _tuple(self, found: ReadCheckpoint | None) -> CheckpointTuple | None:
        return None if found is None else self._whole(found)

    def _whole(self, found: ReadCheckpoint) -> CheckpointTuple:
        skeleton = dict(found.skeleton)
        values, _ = skeleton.pop("values"), skeleton.pop("stored")
        checkpoint: Any = {
            **skeleton,
            "channel_values": {
                **values,
                **{name: self.serde.loads_typed(payload) for name, payload in found.values.items()},
            },
        }
        metadata: Any = found.metadata
        return CheckpointTuple(
            config=self._named(found.thread, found.namespace, str(found.key)),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=self._named(found.thread, found.namespace, str(found.parent))
            if found.parent
            else None,
            pending_writes=[
                (task, channel, self.serde.loads_typed((kind, data)))
                for task, channel, kind, data in found.writes
            ],
        )


def with_thread_id(thread_id: str, **more: Any) -> RunnableConfig:
    """Make the config that names a thread: `compiled.invoke(new_input,
    with_thread_id("conversation-1"))` goes on there.

    Raises ValueError where no thread is named, and for what LangGraph reads nowhere in a config
    (ELSEWHERE).
    """
    _check_named(thread_id)
    _check_places(more)
    return {"configurable": {"thread_id": thread_id, **more}}


def _check_named(thread_id: Any) -> None:
    """Raise ValueError for a thread_id that is missing: all who left theirs out would go on with
    one another's state.
    """
    if thread_id is None or not str(thread_id).strip():
        raise ValueError(
            f"thread_id is {thread_id!r}, which names no thread, so nothing was run. Give each "
            "conversation an id of its own."
        )


def _check_places(named: Collection[str]) -> None:
    """Raise ValueError where a config names what would be passed over in silence: a run that nobody
    stops looks as one that had nothing to stop for.
    """
    for name, place in ELSEWHERE.items():
        if name in named:
            raise ValueError(f"{name} has no effect in a config, so nothing was run. {place}")


def _nothing() -> None:
    """Anybody may write."""


def _config(thread: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return with_thread_id(thread, checkpoint_ns=namespace, checkpoint_id=checkpoint_id)


def _id_of(config: RunnableConfig | None) -> str | None:
    return config["configurable"].get("checkpoint_id") if config else None


def _small(value: Any) -> bool:
    return (
        value is None
        or type(value) in {bool, int, float}
        or (type(value) is str and len(value) <= INLINE)
    )


def _checked(payload: tuple[str, bytes]) -> tuple[str, bytes]:
    check_kind(payload[0])
    return payload


def _metadata(about: Mapping[str, Any]) -> codec.Text:
    try:
        return codec.Text(codec.encode(about))
    except (TypeError, ValueError) as error:
        raise PayloadRefused(f"A checkpoint's metadata is JSON: {error}.") from error


def _contains(metadata: Any, wanted: Any) -> bool:
    """Whether `metadata` has all of `wanted`; in objects within it too."""
    if isinstance(wanted, Mapping) and isinstance(metadata, Mapping):
        return all(
            key in metadata and _contains(metadata[key], value) for key, value in wanted.items()
        )
    return bool(metadata == wanted)
