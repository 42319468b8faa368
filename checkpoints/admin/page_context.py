"""What the pages of histories, states and differences show: the same for operators in the admin and
for reviewers.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext

from checkpoints import ids, lineage, store
from checkpoints.forensics import state_tree, steps
from checkpoints.forensics.diff import DifferentThreads, diff
from checkpoints.models import Checkpoint, Thread

CHOICES = 100
"""Checkpoints that the page of a comparison offers; any other can be named by its id."""
UNREADABLE = (store.CheckpointDamaged, ValueError, KeyError, TypeError)
"""What reading a row raises whose stored text was changed by other hands."""


def key_of(text: str, prefix: str = "ckpt") -> uuid.UUID | None:
    """The key of a shown id, as a person gives it."""
    try:
        return ids.parse(prefix, text.strip().lower())
    except ValueError:
        return None


def history_of(thread: Thread, request: HttpRequest) -> dict[str, Any]:
    """Context of `forensics/_history.html`: a page of the history, and the branches around it."""
    before = key_of(request.GET.get("before", ""))
    rows = lineage.history(thread.pk, before=before, limit=lineage.PAGE + 1)
    tree = lineage.branches(thread, before=before)
    shown, numbers = rows[: lineage.PAGE], tree.numbers()
    return {
        "tree": tree,
        "history": [
            {
                "checkpoint": checkpoint,
                "branch": numbers.get(checkpoint.pk),
                "is_head": checkpoint.pk == thread.head_id,
            }
            for checkpoint in shown
        ],
        "branched": len(tree.branches) > 1,
        "older": shown[-1].shown_id if len(rows) > lineage.PAGE else "",
        "paged": before is not None,
        "imported_at": thread.imported_at,
    }


def comparison_of(old: Checkpoint, new: Checkpoint) -> dict[str, Any]:
    """Context of `forensics/_differences.html`."""
    try:
        comparison = diff(old, new)
    except (DifferentThreads, store.CheckpointDamaged) as error:
        return {"comparison": None, "problem": str(error)}
    return {"comparison": comparison, "beside": steps.beside(comparison), "problem": ""}


def change_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The same, of a checkpoint against its parent; `comparison` is None for a thread's first."""
    parent = (
        Checkpoint.objects.filter(pk=checkpoint.parent_id).first() if checkpoint.parent_id else None
    )
    return comparison_of(parent, checkpoint) if parent else {"comparison": None, "problem": ""}


def state_of(checkpoint: Checkpoint, request: HttpRequest) -> dict[str, Any]:
    """Context of `forensics/_state.html`.

    `?find=` searches, `?at=` shows one part, `?start=` the next items of a long one.
    """
    find, at, start = (request.GET.get(name, "")[:500] for name in ("find", "at", "start"))
    first = int(start[:9]) if start.isascii() and start.isdigit() else 0
    try:
        state = store.load(checkpoint)
    except UNREADABLE as error:
        return {"state": None, "damage": str(error), "find": find, "at": at}
    return {
        "state": state_tree.show(state, find=find, at=at, start=first),
        "damage": "",
        "find": find,
        "at": at,
    }


def compared(request: HttpRequest, found: Mapping[uuid.UUID, Checkpoint]) -> dict[str, Any]:
    """Context of a page that compares `?old=` with `?new=`; one alone is compared with its parent.

    Args:
        found: those of the two that this person may see, by key.
    """
    old, new = (request.GET.get(name, "") for name in ("old", "new"))
    before, after = (found.get(key) if (key := key_of(name)) else None for name in (old, new))
    missing = [name[:60] for name, row in ((old, before), (new, after)) if name and row is None]
    checkpoint = after or before
    context = {
        "old": old,
        "new": new,
        "choices": lineage.history(checkpoint.thread_id, limit=CHOICES) if checkpoint else [],
    }
    if missing:
        return {
            **context,
            "comparison": None,
            "problem": gettext("There is no checkpoint %(ids)s.")
            % {"ids": gettext(" and no ").join(missing)},
        }
    if before is not None and after is not None:
        return {**context, **comparison_of(before, after)}
    return {
        **context,
        **(change_of(checkpoint) if checkpoint else {"comparison": None, "problem": ""}),
    }


def wanted(request: HttpRequest) -> list[uuid.UUID]:
    """The keys that `?old=` and `?new=` name."""
    return [key for name in ("old", "new") if (key := key_of(request.GET.get(name, "")))]
