"""The pages of forensics: a thread's branches and history, a checkpoint's state and what changed, any two side by side. They only read."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from checkpoints import forensics, ids, lineage, state_tree, store
from checkpoints.admin import UNREADABLE, CheckpointAdmin, ThreadAdmin
from checkpoints.differences import DifferentThreads, diff
from checkpoints.models import Checkpoint, Thread

CHOICES = 100
"""Checkpoints that the page of a comparison offers; any other can be named by its id."""
PAGES = {"details": "admin:checkpoints_checkpoint_change", "compare": "admin:checkpoints_checkpoint_diff"}
"""Which pages the shared templates lead to."""
STYLES = {"all": ["css/forensics.css"]}


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
        "history": [{"checkpoint": one, "branch": numbers.get(one.pk), "is_head": one.pk == thread.head_id} for one in shown],
        "branched": len(tree.branches) > 1,
        "older": shown[-1].shown_id if len(rows) > lineage.PAGE else "",
        "paged": before is not None,
    }


def comparison_of(old: Checkpoint, new: Checkpoint) -> dict[str, Any]:
    """Context of `forensics/_differences.html`."""
    try:
        found = diff(old, new)
    except (DifferentThreads, store.CheckpointDamaged) as error:
        return {"comparison": None, "problem": str(error)}
    return {"comparison": found, "beside": forensics.beside(found), "problem": ""}


def change_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The same, of a checkpoint against its parent; `comparison` is None for a thread's first."""
    parent = Checkpoint.objects.filter(pk=checkpoint.parent_id).first() if checkpoint.parent_id else None
    return comparison_of(parent, checkpoint) if parent else {"comparison": None, "problem": ""}


def state_of(checkpoint: Checkpoint, request: HttpRequest) -> dict[str, Any]:
    """Context of `forensics/_state.html`. `?find=` searches, `?at=` shows one part, `?start=` the next items of a long one."""
    find, at, start = (request.GET.get(name, "")[:500] for name in ("find", "at", "start"))
    first = int(start[:9]) if start.isascii() and start.isdigit() else 0
    try:
        state = store.load(checkpoint)
    except UNREADABLE as error:
        return {"state": None, "damage": str(error), "find": find, "at": at}
    return {"state": state_tree.show(state, find=find, at=at, start=first), "damage": "", "find": find, "at": at}


class ThreadPages(ThreadAdmin):
    change_form_outer_after_template = "admin/thread_history.html"  # type: ignore[assignment]  # typed by its default, None

    class Media:
        css = STYLES

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        thread = self.get_object(request, unquote(object_id))
        more = {**history_of(thread, request), **PAGES, "thread": thread, **self.offers(request)} if thread else {}
        found: HttpResponse = super().change_view(request, object_id, form_url, {**(extra_context or {}), **more})
        return found

    def offers(self, request: HttpRequest) -> dict[str, Any]:
        """Pages that act, where this person may: see `hitl.admin_forensics`."""
        return {}


class CheckpointPages(CheckpointAdmin):
    change_form_outer_after_template = "admin/checkpoint_inside.html"  # type: ignore[assignment]

    class Media:
        css = STYLES

    def get_urls(self) -> list[URLPattern]:
        diff_page = path("diff/", self.admin_site.admin_view(self.diff_view), name="checkpoints_checkpoint_diff")
        found: list[URLPattern] = [diff_page, *super().get_urls()]
        return found

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        checkpoint = self.get_object(request, unquote(object_id))
        more = self.inside(request, checkpoint) if checkpoint else {}
        found: HttpResponse = super().change_view(request, object_id, form_url, {**(extra_context or {}), **more})
        return found

    def inside(self, request: HttpRequest, checkpoint: Checkpoint) -> dict[str, Any]:
        """What the page shows below the columns."""
        readable = forensics.may_read_state(request.user)
        return {
            **PAGES,
            "checkpoint": checkpoint,
            "readable": readable,
            "events": forensics.events_of(checkpoint),
            **(state_of(checkpoint, request) if readable else {}),
            **(change_of(checkpoint) if readable else {}),
        }

    def diff_view(self, request: HttpRequest) -> HttpResponse:
        """Any two checkpoints of a thread; `?old=` and `?new=` are their ids, one alone is compared with its parent."""
        if not self.has_view_permission(request) or not forensics.may_read_state(request.user):
            raise PermissionDenied
        old, new = (request.GET.get(name, "") for name in ("old", "new"))
        chosen = Checkpoint.objects.in_bulk([key for key in (key_of(old), key_of(new)) if key])
        before, after = (chosen.get(key) if (key := key_of(one)) else None for one in (old, new))
        missing = [one for one, found in ((old, before), (new, after)) if one and not found]
        context = {
            **self.admin_site.each_context(request),
            **PAGES,
            "opts": self.opts,
            "media": self.media,
            "title": "What changed between two checkpoints",
            "old": old,
            "new": new,
            "choices": lineage.history(one.thread_id, limit=CHOICES) if (one := before or after) else [],
            **self._compared(before, after, missing),
        }
        return TemplateResponse(request, "admin/checkpoint_diff.html", context)

    def _compared(self, old: Checkpoint | None, new: Checkpoint | None, missing: list[str]) -> dict[str, Any]:
        if missing:
            return {"comparison": None, "problem": f"There is no checkpoint {', '.join(missing)[:200]}."}
        if old is None or new is None:
            return change_of(one) if (one := new or old) else {"comparison": None, "problem": ""}
        return comparison_of(old, new)
