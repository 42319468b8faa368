"""The store of LangGraph's clients: what programs of an account note beside all threads."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from extensions.langgraph.api.calls import Call, Given, Reply, invalid
from extensions.langgraph.storing import entries, namespaces
from hitl.models import LangGraphItem


class PlaceIn(Given):
    namespace: list[str]
    key: str


class PutIn(PlaceIn):
    value: dict[str, Any]
    index: bool | list[str] = False
    ttl: Any = None


class SearchIn(Given):
    namespace_prefix: list[str] = []
    filter: dict[str, Any] = {}
    limit: int = Field(10, ge=1)
    offset: int = Field(0, ge=0, le=10**6)
    query: str = ""
    refresh_ttl: bool = False


class ListIn(Given):
    prefix: list[str] = []
    suffix: list[str] = []
    max_depth: int | None = Field(None, ge=1)
    limit: int = Field(100, ge=1)
    offset: int = Field(0, ge=0, le=10**6)


def put(call: Call) -> Reply:
    """Keep an item, in place of what is there under its key."""
    given = call.body(PutIn)
    if given.ttl is not None:
        raise invalid("ttl: an item stays until it is deleted here.")
    if given.index:
        raise invalid("index: items are not searched by their meaning here; send false.")
    entries.put(call.by.pk, given.namespace, given.key, given.value)
    return Reply(status=204)


def get(call: Call) -> Reply:
    """The item; null where there is none, which is what clients look for."""
    labels = call.query.get("namespace", "").split(".")
    item = entries.get(call.by.pk, labels, call.query.get("key", ""))
    return Reply(data=_shown(item) if item else None)


def delete(call: Call) -> Reply:
    given = call.body(PlaceIn)
    entries.delete(call.by.pk, given.namespace, given.key)
    return Reply(status=204)


def search(call: Call) -> Reply:
    """Those below a namespace whose value fits, the last changed first."""
    given = call.body(SearchIn)
    found = entries.search(
        call.by.pk,
        given.namespace_prefix,
        filter=given.filter,
        query=given.query,
        limit=given.limit,
        offset=given.offset,
    )
    return Reply(data={"items": [_shown(row) for row in found]})


def listed(call: Call) -> Reply:
    return Reply(
        data={"namespaces": namespaces.listed(call.by.pk, **call.body(ListIn).model_dump())}
    )


def _shown(item: LangGraphItem) -> dict[str, Any]:
    return {
        "namespace": namespaces.labels_of(item.namespace),
        "key": item.key,
        "value": entries.value_of(item),
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
    }
