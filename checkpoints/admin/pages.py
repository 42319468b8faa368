"""The pages of forensics: a thread's branches and history, a checkpoint's state and what changed,
any two side by side. They only read.
"""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext

from checkpoints.admin import page_context
from checkpoints.admin.checkpoints import CheckpointAdmin, ThreadAdmin
from checkpoints.forensics import steps
from checkpoints.models import Checkpoint

PAGES = {
    "details": "admin:checkpoints_checkpoint_change",
    "compare": "admin:checkpoints_checkpoint_diff",
}
"""The pages that the shared templates link to."""
STYLES = {"all": ["css/forensics.css"]}


class ThreadPages(ThreadAdmin):
    change_form_outer_after_template = "admin/thread_history.html"  # type: ignore[assignment]  # typed by its default, None

    class Media:
        css = STYLES

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        thread = self.get_object(request, unquote(object_id))
        more = (
            {
                **page_context.history_of(thread, request),
                **PAGES,
                "thread": thread,
                **self.offers(request),
            }
            if thread
            else {}
        )
        response: HttpResponse = super().change_view(
            request, object_id, form_url, {**(extra_context or {}), **more}
        )
        return response

    def offers(self, request: HttpRequest) -> dict[str, Any]:
        """Give links to the pages that act, where this person may: see `hitl.admin.forensics`."""
        return {}


class CheckpointPages(CheckpointAdmin):
    change_form_outer_after_template = "admin/checkpoint_inside.html"  # type: ignore[assignment]  # typed by its default, None

    class Media:
        css = STYLES

    def get_urls(self) -> list[URLPattern]:
        diff_page = path(
            "diff/", self.admin_site.admin_view(self.diff_view), name="checkpoints_checkpoint_diff"
        )
        patterns: list[URLPattern] = [diff_page, *super().get_urls()]
        return patterns

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        checkpoint = self.get_object(request, unquote(object_id))
        more = self.inside(request, checkpoint) if checkpoint else {}
        response: HttpResponse = super().change_view(
            request, object_id, form_url, {**(extra_context or {}), **more}
        )
        return response

    def inside(self, request: HttpRequest, checkpoint: Checkpoint) -> dict[str, Any]:
        """Collect what the page shows below the columns."""
        readable = steps.may_read_state(request.user)
        return {
            **PAGES,
            "checkpoint": checkpoint,
            "readable": readable,
            "events": steps.events_of(checkpoint),
            **(page_context.state_of(checkpoint, request) if readable else {}),
            **(page_context.change_of(checkpoint) if readable else {}),
        }

    def diff_view(self, request: HttpRequest) -> HttpResponse:
        """Compare two checkpoints of a thread; `?old=` and `?new=` are their ids, and one alone is
        compared with its parent.
        """
        if not self.has_view_permission(request) or not steps.may_read_state(request.user):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            **PAGES,
            "opts": self.opts,
            "media": self.media,
            "title": gettext("What changed between two checkpoints"),
            **page_context.compared(
                request, Checkpoint.objects.in_bulk(page_context.wanted(request))
            ),
        }
        return TemplateResponse(request, "admin/checkpoint_diff.html", context)
