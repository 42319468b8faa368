"""Items: a JSON object under a namespace and a key. Each belongs to the account that put it, and to
nobody else.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Count, Sum

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models.fields import Locked
from checkpoints.state import codec
from extensions.langgraph.storing import namespaces
from extensions.langgraph.storing.namespaces import refused
from hitl.http import incoming
from hitl.live.pump import StreamRefused
from hitl.models import LangGraphItem
from runs import limits

LONGEST_KEY: int = LangGraphItem._meta.get_field("key").max_length or 0
MOST = 1000
ORDERED = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
"""Hold between numbers alone."""


def _place(namespace: Sequence[str], key: str) -> dict[str, str]:
    """By which the row is found."""
    if not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise refused(f"key: 1 to {LONGEST_KEY} visible characters.")
    return {"namespace": namespaces.text_of(namespace), "key": key}


def put(owner: int, namespace: Sequence[str], key: str, value: Mapping[str, Any]) -> None:
    """Keep an item, in place of what is there under its key. Raises StreamRefused, where nothing
    was kept. Call outside of transactions.
    """
    try:
        codec.check(value, "value")
    except codec.NotJson as error:
        raise refused(str(error)) from error
    size = len(codec.encode(value))
    if size > limits.STORE_VALUE_BYTES:
        raise refused(f"value: up to {limits.STORE_VALUE_BYTES:,} bytes of JSON.")
    place, held = _place(namespace, key), namespaces.of(owner)
    with transaction.atomic(durable=True):
        User.objects.select_for_update(no_key=True).get(pk=owner)  # counts one after the other
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
        told = {"value": value, "size": size, "updated_at": now}
        held.update_or_create(
            **place, owner_id=owner, defaults=told, create_defaults={**told, "created_at": now}
        )


def get(owner: int, namespace: Sequence[str], key: str) -> LangGraphItem | None:
    """Raises StreamRefused."""
    found: LangGraphItem | None = namespaces.of(owner).filter(**_place(namespace, key)).first()
    return found


def delete(owner: int, namespace: Sequence[str], key: str) -> None:
    """Where there is none, nothing happens. Raises StreamRefused."""
    namespaces.of(owner).filter(**_place(namespace, key)).delete()


def search(
    owner: int,
    prefix: Sequence[str],
    *,
    filter: Mapping[str, Any] | None = None,
    query: str | None = None,
    limit: int = 10,
    offset: int = 0,
) -> list[LangGraphItem]:
    """Those below a namespace whose value fits, the last changed first. Raises StreamRefused."""
    if query:
        raise refused("query: items are found by namespace and filter here, not by their meaning.")
    wanted = filter or {}
    _check(wanted)
    text = namespaces.text_of(prefix, "namespace_prefix", least=0)
    rows = namespaces.below(owner, text).order_by("-updated_at", "-pk")
    page = slice(offset, offset + min(limit, MOST))
    if wanted:  # values are sealed at rest, so the database cannot look into them
        return [row for row in rows if _fits(value_of(row), wanted)][page]
    return list(rows[page])


def value_of(item: LangGraphItem) -> Any:
    """Raises StreamRefused where the key that sealed it is not here."""
    if isinstance(item.value, Locked):
        raise StreamRefused(503, "state_locked", str(item.value.error))
    return item.value


def _asks(wanted: Any) -> bool:
    """Whether this is no value, but says how one compares with it."""
    return isinstance(wanted, Mapping) and any(key.startswith("$") for key in wanted)


def _check(wanted: Any) -> None:
    if _asks(wanted):
        if unknown := sorted(wanted.keys() - {"$eq", "$ne", *ORDERED}):
            raise refused(
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
