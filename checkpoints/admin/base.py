"""What admin pages of all apps are made of: values as columns, rows that are only read, and actions
that a person confirms.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, pgettext_lazy

from checkpoints import ids
from checkpoints.admin.columns import display
from checkpoints.admin.lists import KeysetChangeList
from checkpoints.admin.page_context import UNREADABLE
from checkpoints.models.fields import Locked
from checkpoints.models.labels import CONTEXT
from checkpoints.security.permissions import SealedAdmin
from checkpoints.text import invisible

LONGEST = 200_000
"""Characters of one value on one page; what is longer keeps its beginning and its end."""
MOST = 100
"""Rows that one confirmation takes."""


def text(value: str) -> SafeString:
    """Any text, escaped and in its own line breaks, with what a screen does not show made
    visible.
    """
    if len(value) > LONGEST:
        value = f"{value[: LONGEST // 2]}\n...[truncated]...\n{value[-LONGEST // 2 :]}"
    return format_html(
        '<pre class="text-xs" style="white-space: pre-wrap; overflow-wrap: anywhere">{}</pre>',
        invisible.plain(value),
    )


def text_column(field: str, *, lines: bool = True) -> Any:
    """A column of an admin page that shows a field which people write, with what a screen does not
    show made visible.
    """

    @display(description=pgettext_lazy(CONTEXT, field.replace("_", " ")))
    def column(_: Any, obj: Any) -> SafeString | str:
        value = getattr(obj, field)
        return "-" if not value else text(value) if lines else invisible.plain(value)

    return column


def as_json(read: Callable[[], Any]) -> SafeString:
    """What `read` gives, as JSON for people; where it cannot be read, the reason."""
    try:
        if isinstance(value := read(), Locked):
            return format_html(
                '<strong class="text-red-700 dark:text-red-500">{}</strong>', str(value.error)
            )
        return text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True))
    except UNREADABLE as error:
        return format_html(
            '<strong class="text-red-700 dark:text-red-500">{}</strong>',
            gettext("Damaged: %(error)s") % {"error": error},
        )


def link(page: str, words: object, *arguments: object, query: str = "") -> SafeString:
    """A link to an admin page, e.g. `link("checkpoints_thread_change", "thr_…", key)`."""
    url = reverse(f"admin:{page}", args=arguments)
    return format_html(
        '<a href="{}" class="text-primary-600 dark:text-primary-500 underline">{}</a>',
        f"{url}{query}",
        words,
    )


def row(page: str, prefix: str, key: uuid.UUID | None) -> SafeString | str:
    """A link to one row, with its shown id as words: the row itself is not read."""
    return link(f"{page}_change", ids.show(prefix, key), key) if key else "-"


class IdSearch(SealedAdmin):
    """Search takes shown ids: `shown_ids` says which field an id of each prefix is looked up in."""

    shown_ids: ClassVar[dict[str, str]] = {}
    search_fields: ClassVar[tuple[str, ...]] = ("pk",)  # "pk" alone: ids only

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip().lower()
        prefix = term.partition("_")[0]
        try:
            key = ids.parse(prefix, term)
        except ValueError:
            if term and self.search_fields == ("pk",):
                return queryset.none(), False
            return super().get_search_results(request, queryset, search_term)
        lookup = self.shown_ids.get(prefix)
        return (queryset.filter(**{lookup: key}) if lookup else queryset.none()), False


class ReadOnlyAdmin(IdSearch):
    """Rows that nobody adds, changes or deletes here, not even a superuser.

    Newest first, and as many queries for many rows as for one.
    """

    heavy: ClassVar[tuple[str, ...]] = ()
    """Fields that no list needs; a page of one row reads them on its own."""
    ordering: ClassVar[tuple[str, ...]] = ("-pk",)
    sortable_by = ()
    change_list_template = "admin/keyset_list.html"
    show_full_result_count = False
    list_per_page = 25
    list_max_show_all = 25

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*self.heavy)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return (
            KeysetChangeList
            if tuple(self.ordering) == ("-pk",)
            else super().get_changelist(request, **kwargs)
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_fields(request, obj) if self.fields else ()

    @display(description=gettext_lazy("id"))
    def shown(self, obj: Any) -> str:
        return str(obj.shown_id)


def confirmed(
    description: Any,
    *,
    button: Any,
    title: Any,
    words: Any,
    danger: bool = False,
    permission: str = "operate",
    form: type[forms.Form] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., HttpResponse | None]]:
    """An action of a `ConfirmedAdmin`: the first POST only shows what would happen; the one from
    that page, marked `confirmed`, does it, with what was filled in where there is a form.
    """

    def decorate(act: Callable[..., None]) -> Callable[..., HttpResponse | None]:
        @admin.action(description=description, permissions=[permission])
        @wraps(act)
        def action(
            shown_by: ConfirmedAdmin, request: HttpRequest, queryset: QuerySet[Any]
        ) -> HttpResponse | None:
            sure = "confirmed" in request.POST
            asked = form(request.POST if sure else None) if form is not None else None
            if not sure or (asked is not None and not asked.is_valid()):
                return shown_by.confirm(
                    request,
                    queryset,
                    action=act.__name__,
                    button=button,
                    title=title,
                    words=words,
                    danger=danger,
                    form=asked,
                )
            act(shown_by, request, queryset, *([asked.cleaned_data] if asked is not None else []))
            return None

        return action

    return decorate


class ConfirmedAdmin(ReadOnlyAdmin):
    """Read-only rows with `confirmed` actions for those who hold the model's change permission."""

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}")

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *location: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Refuse ids that are none, and more rows than a person can have looked at."""
        try:
            for key in request.POST.getlist(ACTION_CHECKBOX_NAME):
                self.opts.pk.to_python(key)
        except ValidationError:
            self.message_user(
                request,
                gettext("These rows are not in this list. Nothing was done."),
                messages.ERROR,
            )
            return None
        response: HttpResponse | None = super().response_action(
            request, queryset, *location, **kwargs
        )
        return response

    def confirm(
        self,
        request: HttpRequest,
        rows: QuerySet[Any],
        *,
        action: str,
        button: str,
        title: str,
        words: str,
        danger: bool,
        form: forms.Form | None,
    ) -> HttpResponse | None:
        """The page that asks, listing every row as it is now."""
        chosen = list(rows[: MOST + 1])
        if not 0 < len(chosen) <= MOST:
            problem = (
                gettext("Choose up to %(most)s rows.") % {"most": MOST}
                if chosen
                else gettext("The rows you chose are not in this list any more.")
            )
            self.message_user(
                request,
                gettext("%(problem)s Nothing was done.") % {"problem": problem},
                messages.WARNING,
            )
            return None
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "title": title,
            "words": words,
            "action": action,
            "button": button,
            "variant": "danger" if danger else "primary",
            "rows": chosen,
            "form": form,
            "checkbox": ACTION_CHECKBOX_NAME,
            # without the list's filters: a row that has left them since must still get its answer
            "list_url": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
        }
        return TemplateResponse(request, "admin/confirm_action.html", context)
