"""The store that a graph in a step has: that of the account whose thread it works on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from extensions.langgraph.saver.worker import Kind, Worker
from extensions.langgraph.storing import entries, namespaces
from extensions.langgraph.storing.namespaces import refused
from hitl.models import LangGraphItem


class AccountStore(BaseStore):
    """The items of one account, as LangGraph's clients have them.

    What a node puts is kept at once, and no part of the run: a node that runs again puts again, and
    no fork takes it back.
    """

    def __init__(self, owner: int | None) -> None:
        """`owner` is the account's key; without one, nothing can be asked."""
        self._owner = owner
        self._worker = Worker(DEFAULT_DB_ALIAS, lambda: None)

    def close(self) -> None:
        """End the thread that does the work, and its connection; the next question begins both."""
        self._worker.close()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._submit(list(ops)).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.wrap_future(self._submit(list(ops)))

    def _submit(self, ops: list[Op]) -> Future[list[Result]]:
        if (owner := self._owner) is None:
            raise refused("The store is an account's, and here is none: this thread is nobody's.")
        # what is put has a transaction of its own
        return self._worker.submit(lambda: [_answer(owner, op) for op in ops], Kind.READ)


def _answer(owner: int, op: Op) -> Result:
    match op:
        case PutOp(value=None):
            entries.delete(owner, op.namespace, op.key)
        case PutOp(value=dict() as value):
            entries.put(owner, op.namespace, op.key, value)
        case GetOp():
            item = entries.get(owner, op.namespace, op.key)
            return Item(**_fields(item)) if item else None
        case SearchOp():
            found = entries.search(
                owner,
                op.namespace_prefix,
                filter=op.filter,
                query=op.query,
                limit=op.limit,
                offset=op.offset,
            )
            return [SearchItem(**_fields(item)) for item in found]
        case ListNamespacesOp():
            conditions = op.match_conditions or ()
            wanted = {one.match_type: list(one.path) for one in conditions}
            return namespaces.listed(
                owner,
                prefix=wanted.get("prefix", ()),
                suffix=wanted.get("suffix", ()),
                max_depth=op.max_depth,
                limit=op.limit,
                offset=op.offset,
            )
    return None


def _fields(item: LangGraphItem) -> dict[str, Any]:
    return {
        "namespace": tuple(namespaces.labels_of(item.namespace)),
        "key": item.key,
        "value": entries.value_of(item),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
