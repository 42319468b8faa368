"""Messages and endpoints for operators: to look at, send again and switch off.

They are made on the notifications page and over REST.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from checkpoints.admin.base import MOST, ConfirmedAdmin, confirmed, row
from checkpoints.admin.columns import STATES, display
from checkpoints.database.people import NAME
from hitl.models.outbound import Delivery, Endpoint
from hitl.outbound import endpoints, sending


@admin.register(Delivery)
class DeliveryAdmin(ConfirmedAdmin):
    shown_ids: ClassVar[dict[str, str]] = {
        "dlv": "pk",
        "pse": "pause",
        "run": "run",
        "thr": "pause__run__thread",
        "end": "endpoint",
    }
    search_help_text = gettext_lazy("A dlv_, pse_, run_, thr_ or end_ id")
    actions = ("send_again",)
    heavy = ("words", "contact")
    list_display = (
        "shown",
        "occasion",
        "channel",
        "to_whom",
        "state",
        "attempts",
        "error",
        "made_at",
    )
    list_filter = ("status", "channel", "occasion")
    list_select_related = ("recipient", "endpoint__owner", "endpoint__team", "endpoint__thread")
    fields = (
        "shown",
        "pause_link",
        "run_link",
        "occasion",
        "mark",
        "channel",
        "to_whom",
        "status",
        "attempts",
        "next_at",
        "error",
        "made_at",
        "sent_at",
    )

    @display(description=gettext_lazy("to"))
    def to_whom(self, delivery: Delivery) -> str:
        return delivery.to

    @display(description=gettext_lazy("status"), label=STATES)
    def state(self, delivery: Delivery) -> str:
        return delivery.status

    @display(description=gettext_lazy("pause"))
    def pause_link(self, delivery: Delivery) -> SafeString | str:
        return row("runs_pause", "pse", delivery.pause_id)

    @display(description=gettext_lazy("run"))
    def run_link(self, delivery: Delivery) -> SafeString | str:
        return row("runs_run", "run", delivery.run_id)

    @confirmed(
        gettext_lazy("Send again…"),
        button=gettext_lazy("Send again"),
        title=gettext_lazy("Send these again?"),
        words=gettext_lazy(
            "Those that were given up are tried anew, under the same ids. Others stay as they are."
        ),
    )
    def send_again(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        count = sum(sending.send_again(delivery) for delivery in queryset[:MOST])
        self.message_user(
            request, gettext("%(count)s sent again.") % {"count": count}, messages.SUCCESS
        )


@admin.register(Endpoint)
class EndpointAdmin(ConfirmedAdmin):
    """Without its address and its secrets, which nobody reads again."""

    shown_ids: ClassVar[dict[str, str]] = {"end": "pk", "thr": "thread"}
    search_fields = ("name", f"owner__{NAME}", "team__name")
    search_help_text = gettext_lazy("An end_ or thr_ id, or words of its name, person or team")
    actions = ("switch_off", "switch_on")
    heavy = ("target", "secrets")
    list_display = ("shown", "channel", "name", "belongs_to", "enabled", "why_disabled", "made_at")
    list_filter = ("channel", "enabled")
    list_select_related = ("owner", "team", "thread")
    fields = (
        "shown",
        "channel",
        "name",
        "belongs_to",
        "occasions",
        "templates",
        "enabled",
        "why_disabled",
        "made_at",
    )

    @display(description=gettext_lazy("of"))
    def belongs_to(self, endpoint: Endpoint) -> str:
        return endpoint.whose

    @confirmed(
        gettext_lazy("Switch off…"),
        button=gettext_lazy("Switch off"),
        title=gettext_lazy("Switch off these endpoints?"),
        words=gettext_lazy("They are told nothing any more. What waits for them is cancelled."),
    )
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        self._switch(request, queryset, on=False)

    @confirmed(
        gettext_lazy("Switch on…"),
        button=gettext_lazy("Switch on"),
        title=gettext_lazy("Switch on these endpoints?"),
        words=gettext_lazy("They are told again from now on."),
    )
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        self._switch(request, queryset, on=True)

    def _switch(self, request: HttpRequest, queryset: QuerySet[Endpoint], *, on: bool) -> None:
        for endpoint in queryset[:MOST]:
            endpoints.switch(endpoint, on=on)
        self.message_user(request, gettext("Done."), messages.SUCCESS)
