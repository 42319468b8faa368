"""Namespaces: lists of labels, kept as one text with a full stop behind each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import F
from django.db.models.functions import Left

from hitl.live.pump import StreamRefused
from hitl.models import LangGraphItem
from runs import limits

LONGEST: int = LangGraphItem._meta.get_field("namespace").max_length or 0
MOST = 1000
ANY = "*"
"""Stands for one label in what namespaces are listed by."""


def refused(words: str) -> StreamRefused:
    """422: what is asked of the store cannot be."""
    return StreamRefused(422, "invalid", words)


def of(owner: int) -> Any:
    """The items of an account, by its key; there is no right to another's."""
    return LangGraphItem.objects.filter(owner=owner)


def below(owner: int, prefix: str) -> Any:
    """Those whose namespace begins with this one, judged as the labels are written."""
    begins = Left(F("namespace"), len(prefix) or 1)
    return of(owner).alias(begins=begins).filter(begins=prefix) if prefix else of(owner)


def text_of(labels: Sequence[str], name: str = "namespace", *, least: int = 1) -> str:
    """Raises StreamRefused where these are no labels."""
    text = "".join(f"{label}." for label in labels)
    if not least <= len(labels) <= limits.STORE_DEPTH or len(text) > LONGEST:
        raise refused(
            f"{name}: {least} to {limits.STORE_DEPTH} labels, {LONGEST} characters in all with a "
            "full stop behind each."
        )
    if any(not label or "." in label or not label.isprintable() for label in labels):
        raise refused(f"{name}: a label has visible characters, and no full stop.")
    return text


def labels_of(text: str) -> list[str]:
    return text.split(".")[:-1]


def listed(
    owner: int,
    *,
    prefix: Sequence[str] = (),
    suffix: Sequence[str] = (),
    max_depth: int | None = None,
    limit: int = 100,
    offset: int = 0,
) -> list[tuple[str, ...]]:
    """Namespaces in use, in order, each cut to `max_depth` labels. Raises StreamRefused."""
    text_of(prefix, "prefix", least=0)
    text_of(suffix, "suffix", least=0)
    every = of(owner).values_list("namespace", flat=True).distinct()
    found = {
        tuple(labels[:max_depth])
        for labels in map(labels_of, every)
        if _fits(labels, prefix) and _fits(labels[::-1], suffix[::-1])
    }
    return sorted(found)[offset:][: min(limit, MOST)]


def _fits(labels: Sequence[str], wanted: Sequence[str]) -> bool:
    return len(labels) >= len(wanted) and all(
        want in {ANY, label} for label, want in zip(labels, wanted, strict=False)
    )
