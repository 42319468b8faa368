"""Namespaces: lists of labels, kept as one text with a full stop behind each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import F
from django.db.models.functions import Left
from pydantic import Field

from extensions.langgraph.api.calls import Call, Given, Reply, invalid
from hitl.models import LangGraphItem
from runs import limits

LONGEST: int = LangGraphItem._meta.get_field("namespace").max_length or 0
MOST = 1000
ANY = "*"
"""Stands for one label in what namespaces are listed by."""


class ListIn(Given):
    prefix: list[str] = []
    suffix: list[str] = []
    max_depth: int | None = Field(None, ge=1)
    limit: int = Field(100, ge=1)
    offset: int = Field(0, ge=0, le=10**6)


def mine(call: Call) -> Any:
    """The items of the caller's account; there is no right to another's."""
    return LangGraphItem.objects.filter(owner=call.by.pk)


def below(call: Call, prefix: str) -> Any:
    """Those whose namespace begins with this one, judged as the labels are written."""
    begins = Left(F("namespace"), len(prefix) or 1)
    return mine(call).alias(begins=begins).filter(begins=prefix) if prefix else mine(call)


def text_of(labels: Sequence[str], name: str = "namespace", *, least: int = 1) -> str:
    """Raises StreamRefused where these are no labels."""
    text = "".join(f"{label}." for label in labels)
    if not least <= len(labels) <= limits.STORE_DEPTH or len(text) > LONGEST:
        raise invalid(
            f"{name}: {least} to {limits.STORE_DEPTH} labels, {LONGEST} characters in all with a "
            "full stop behind each."
        )
    if any(not label or "." in label or not label.isprintable() for label in labels):
        raise invalid(f"{name}: a label has visible characters, and no full stop.")
    return text


def labels_of(text: str) -> list[str]:
    return text.split(".")[:-1]


def listed(call: Call) -> Reply:
    given = call.body(ListIn)
    for name in ("prefix", "suffix"):
        text_of(getattr(given, name), name, least=0)
    every = mine(call).values_list("namespace", flat=True).distinct()
    found = {
        tuple(labels[: given.max_depth])
        for labels in map(labels_of, every)
        if _fits(labels, given.prefix) and _fits(labels[::-1], given.suffix[::-1])
    }
    page = sorted(found)[given.offset :][: min(given.limit, MOST)]
    return Reply(data={"namespaces": page})


def _fits(labels: Sequence[str], wanted: Sequence[str]) -> bool:
    return len(labels) >= len(wanted) and all(
        want in {ANY, label} for label, want in zip(labels, wanted, strict=False)
    )
