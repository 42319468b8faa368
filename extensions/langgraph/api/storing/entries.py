"""Items: a JSON object under a namespace and a key. Each belongs to the account that put it, and to
nobody else.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Count, Sum
from pydantic import Field

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models.fields import Locked
from checkpoints.state import codec
from extensions.langgraph.api.calls import Call, Given, Reply, invalid
from extensions.langgraph.api.storing import namespaces
from hitl.http import incoming
from hitl.live.pump import StreamRefused
from hitl.models import LangGraphItem
from runs import limits

LONGEST_KEY: int = LangGraphItem._meta.get_field("key").max_length or 0
MOST = 1000
ORDERED = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
"""Hold between numbers alone."""


class PlaceIn(Given):
    namespace: list[str]
    key: str

    @property
    def place(self) -> dict[str, str]:
        """By which the row is found. Raises StreamRefused."""
        if not 0 < len(self.key) <= LONGEST_KEY or not self.key.isprintable():
            raise invalid(f"key: 1 to {LONGEST_KEY} visible characters.")
        return {"namespace": namespaces.text_of(self.namespace), "key": self.key}


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


def put(call: Call) -> Reply:
    """Keep an item, in place of what is there under its key."""
    given = call.body(PutIn)
    if given.ttl is not None:
        raise invalid("ttl: an item stays until it is deleted here.")
    if given.index:
        raise invalid("index: items are not searched by their meaning here; send false.")
    try:
        codec.check(given.value, "value")
    except codec.NotJson as error:
        raise invalid(str(error)) from error
    size = len(codec.encode(given.value))
    if size > limits.STORE_VALUE_BYTES:
        raise invalid(f"value: up to {limits.STORE_VALUE_BYTES:,} bytes of JSON.")
    place, held = given.place, namespaces.mine(call)
    with transaction.atomic(durable=True):
        User.objects.select_for_update(no_key=True).get(pk=call.by.pk)  # counts one after the other
        others = held.exclude(**place).aggregate(count=Count("pk"), size=Sum("size", default=0))
        most, most_bytes = incoming.value("STORE_ITEMS"), incoming.value("STORE_BYTES")
        if others["count"] >= most or others["size"] + size > most_bytes:
            raise StreamRefused(
                422,
                "store_full",
                f"An account keeps up to {most:,} items of {most_bytes:,} bytes in all. Nothing "
                "was kept: delete some first.",
            )
        now = clock.now()
        told = {"value": given.value, "size": size, "updated_at": now}
        held.update_or_create(
            **place, owner=call.by, defaults=told, create_defaults={**told, "created_at": now}
        )
    return Reply(status=204)


def get(call: Call) -> Reply:
    """The item; null where there is none, which is what clients look for."""
    labels = call.query.get("namespace", "").split(".")
    place = PlaceIn(namespace=labels, key=call.query.get("key", "")).place
    item = namespaces.mine(call).filter(**place).first()
    return Reply(data=_shown(item) if item else None)


def delete(call: Call) -> Reply:
    namespaces.mine(call).filter(**call.body(PlaceIn).place).delete()
    return Reply(status=204)


def search(call: Call) -> Reply:
    """Those below a namespace whose value fits, the last changed first."""
    given = call.body(SearchIn)
    if given.query:
        raise invalid("query: items are found by namespace and filter here, not by their meaning.")
    _check(given.filter)
    rows = namespaces.below(
        call, namespaces.text_of(given.namespace_prefix, "namespace_prefix", least=0)
    ).order_by("-updated_at", "-pk")
    page = slice(given.offset, given.offset + min(given.limit, MOST))
    if given.filter:  # values are sealed at rest, so the database cannot look into them
        found = [row for row in rows if _fits(_value(row), given.filter)][page]
    else:
        found = list(rows[page])
    return Reply(data={"items": [_shown(row) for row in found]})


def _value(item: LangGraphItem) -> Any:
    if isinstance(item.value, Locked):
        raise StreamRefused(503, "state_locked", str(item.value.error))
    return item.value


def _shown(item: LangGraphItem) -> dict[str, Any]:
    return {
        "namespace": namespaces.labels_of(item.namespace),
        "key": item.key,
        "value": _value(item),
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
    }


def _asks(wanted: Any) -> bool:
    """Whether this is no value, but says how one compares with it."""
    return isinstance(wanted, Mapping) and any(key.startswith("$") for key in wanted)


def _check(wanted: Any) -> None:
    if _asks(wanted):
        if unknown := sorted(wanted.keys() - {"$eq", "$ne", *ORDERED}):
            raise invalid(
                f"filter: there is no {unknown[0][:60]!r} here, but $eq, $ne, {', '.join(ORDERED)}."
            )
    elif isinstance(wanted, Mapping):
        for part in wanted.values():
            _check(part)


def _fits(value: Any, wanted: Any) -> bool:
    if _asks(wanted):
        return all(_compares(value, how, other) for how, other in wanted.items())
    if isinstance(wanted, Mapping):
        return isinstance(value, Mapping) and all(
            _fits(value.get(key), part) for key, part in wanted.items()
        )
    return _same(value, wanted)


def _compares(value: Any, how: str, other: Any) -> bool:
    if how in ORDERED:
        return _is_number(value) and _is_number(other) and bool(ORDERED[how](value, other))
    return _same(value, other) == (how == "$eq")


def _same(value: Any, other: Any) -> bool:
    """As JSON: true is no 1, and 1.0 is."""
    if _is_number(value) and _is_number(other):
        return bool(value == other)
    return codec.encode(value) == codec.encode(other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
