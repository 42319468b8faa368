"""Admin pages of work that signed messages from outside start. Operators only look: the person who
made an inbound start changes it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from checkpoints.admin.base import ReadOnlyAdmin, as_json, row, text
from checkpoints.admin.columns import display
from checkpoints.database.people import NAME
from hitl.models import InboundStart, StartDelivery


@admin.register(InboundStart)
class InboundStartAdmin(ReadOnlyAdmin):
    """Operators switch an inbound start off by its inbound source, which has a page of its own."""

    shown_ids: ClassVar[dict[str, str]] = {"ist": "pk"}
    search_fields = ("source__name", "template", f"source__user__{NAME}")
    search_help_text = gettext_lazy("An ist_ id, or words of its name, template or user")
    heavy = ("request", "input")
    sealed: ClassVar[dict[str, str]] = {"input_json": "input", "request_text": "request"}
    list_display = ("shown", "source", "user", "template", "active", "made_at")
    list_select_related = ("source__user", "team")
    fields = (
        "shown", "source", "user", "active", "template", "title", "request_text",
        "request_pointer", "input_json", "mapping", "repository_url", "team", "made_at",
    )  # fmt: skip

    @display(description=gettext_lazy("user"))
    def user(self, start: InboundStart) -> str:
        return start.source.user.get_username()

    @display(description=gettext_lazy("active"), boolean=True)
    def active(self, start: InboundStart) -> bool:
        return start.source.active

    @display(description=gettext_lazy("request"))
    def request_text(self, start: InboundStart) -> SafeString:
        return text(start.request)

    @display(description=gettext_lazy("input"))
    def input_json(self, start: InboundStart) -> SafeString:
        return as_json(lambda: start.input)


@admin.register(StartDelivery)
class StartDeliveryAdmin(ReadOnlyAdmin):
    shown_ids: ClassVar[dict[str, str]] = {"sdl": "pk", "ist": "start", "wo": "order"}
    search_fields = ("delivery_id",)
    search_help_text = gettext_lazy("An sdl_, ist_ or wo_ id, or a webhook-id")
    list_display = ("shown", "start", "delivery_id", "started", "code", "order_link", "at")
    list_filter = ("started",)
    list_select_related = ("start",)
    fields = ("shown", "start", "delivery_id", "started", "code", "why", "order_link", "at")

    @display(description=gettext_lazy("work order"))
    def order_link(self, delivery: StartDelivery) -> Any:
        return row("runs_workorder", "wo", delivery.order_id)
