"""What imported threads brought along, for operators."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from checkpoints.admin.base import ReadOnlyAdmin, as_json, row
from checkpoints.admin.columns import display
from hitl.models import Import


@admin.register(Import)
class ImportAdmin(ReadOnlyAdmin):
    """What an imported thread brought along: also what people were asked and answered where it came
    from.
    """

    shown_ids: ClassVar[dict[str, str]] = {"thr": "pk"}
    search_help_text = gettext_lazy("A thr_ id")
    heavy = ("source",)
    sealed: ClassVar[dict[str, str]] = {"source_json": "source"}
    ordering = ("-at",)
    list_display = ("at", "thread_link", "imported_by")
    list_select_related = ("imported_by",)
    fields = ("thread_link", "imported_by", "at", "source_json")

    @display(description=gettext_lazy("thread"))
    def thread_link(self, imported: Import) -> SafeString | str:
        return row("checkpoints_thread", "thr", imported.pk)

    @display(description=gettext_lazy("what came with it"))
    def source_json(self, imported: Import) -> SafeString:
        return as_json(lambda: imported.source)
