"""Sources of signed events, answers that are kept, and waits of other engines, for operators."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from checkpoints.admin.base import (
    MOST,
    ConfirmedAdmin,
    ReadOnlyAdmin,
    as_json,
    confirmed,
    row,
    text,
)
from checkpoints.admin.columns import display
from checkpoints.database.people import NAME, User
from hitl.models import EarlyAnswer, InboundSource, Wait
from hitl.outbound import signatures


@admin.register(InboundSource)
class InboundSourceAdmin(ConfirmedAdmin):
    """Made, switched, and given new secrets. A secret is shown once, when it is made."""

    search_fields = ("name", f"user__{NAME}")
    search_help_text = gettext_lazy("Words of the name or its user")
    actions = ("new_secret", "drop_old_secrets", "switch_off", "switch_on")
    list_display = ("name", "user", "standing", "secret_count", "created_at", "last_used_at")
    list_select_related = ("user",)
    fields = ("name", "user", "standing", "address", "secret_count", "created_at", "last_used_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("hitl.add_inboundsource")

    def get_fields(self, request: HttpRequest, obj: InboundSource | None = None) -> Any:
        return self.fields if obj else ("name", "user")

    def get_readonly_fields(self, request: HttpRequest, obj: InboundSource | None = None) -> Any:
        return self.fields if obj else ()

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """A source acts as its user: only superusers make one for somebody else."""
        person = cast(User, request.user)
        users = User.objects.filter(is_active=True).order_by(NAME)
        kwargs["queryset"] = users if person.is_superuser else users.filter(pk=person.pk)
        kwargs["initial"] = person.pk
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.secrets = [signatures.new_secret()]
        obj.save(force_insert=True)
        self.message_user(
            request,
            gettext("The secret of %(name)s, shown only now: %(secret)s")
            % {"name": obj.name, "secret": obj.secrets[0]},
            messages.WARNING,
        )

    @display(description=gettext_lazy("standing"), label={"active": "success", "off": "danger"})
    def standing(self, source: InboundSource) -> str:
        return "active" if source.active and source.user.is_active else "off"

    @display(description=gettext_lazy("secrets"))
    def secret_count(self, source: InboundSource) -> int:
        return len(source.secrets)

    @display(description=gettext_lazy("address"))
    def address(self, source: InboundSource) -> str:
        return f"/api/v1/inbound/{source.name}"

    @confirmed(
        gettext_lazy("New secret…"),
        button=gettext_lazy("Make it"),
        title=gettext_lazy("Make new secrets?"),
        words=gettext_lazy(
            "Each gets one more secret, shown once. The others go on signing until they are "
            "dropped."
        ),
    )
    def new_secret(self, request: HttpRequest, queryset: QuerySet[InboundSource]) -> None:
        for source in self._mine(request, queryset):
            secret = signatures.new_secret()
            source.secrets = [secret, *source.secrets][:5]
            source.save(update_fields=["secrets"])
            self.message_user(
                request,
                gettext("The new secret of %(name)s, shown only now: %(secret)s")
                % {"name": source.name, "secret": secret},
                messages.WARNING,
            )

    @confirmed(
        gettext_lazy("Drop old secrets…"),
        button=gettext_lazy("Drop them"),
        title=gettext_lazy("Drop old secrets?"),
        words=gettext_lazy("Only the newest secret of each signs from now on."),
    )
    def drop_old_secrets(self, request: HttpRequest, queryset: QuerySet[InboundSource]) -> None:
        for source in self._mine(request, queryset):
            source.secrets = source.secrets[:1]
            source.save(update_fields=["secrets"])
            self.message_user(
                request,
                gettext("%(name)s: one secret is left.") % {"name": source.name},
                messages.SUCCESS,
            )

    @confirmed(
        gettext_lazy("Switch off…"),
        button=gettext_lazy("Switch off"),
        title=gettext_lazy("Switch these sources off?"),
        words=gettext_lazy("What they send is refused from now on."),
    )
    def switch_off(self, request: HttpRequest, queryset: QuerySet[InboundSource]) -> None:
        self._switch(request, queryset, gettext("%(count)s switched off."), to=False)

    @confirmed(
        gettext_lazy("Switch on…"),
        button=gettext_lazy("Switch on"),
        title=gettext_lazy("Switch these sources on?"),
        words=gettext_lazy("What they sign is taken again."),
    )
    def switch_on(self, request: HttpRequest, queryset: QuerySet[InboundSource]) -> None:
        self._switch(request, queryset, gettext("%(count)s switched on."), to=True)

    def _switch(
        self, request: HttpRequest, queryset: QuerySet[InboundSource], done: str, *, to: bool
    ) -> None:
        names = [source.name for source in self._mine(request, queryset)]
        count = InboundSource.objects.filter(name__in=names).update(active=to)
        self.message_user(request, done % {"count": count}, messages.SUCCESS)

    def _mine(self, request: HttpRequest, queryset: QuerySet[InboundSource]) -> list[InboundSource]:
        """Those of them that this person may operate: a source acts as its user."""
        person = cast(User, request.user)
        sources = list(queryset.select_related("user")[:MOST])
        for source in sources:
            if not person.is_superuser and source.user_id != person.pk:
                self.message_user(
                    request,
                    gettext("%(name)s: it acts as somebody else, so nothing was done.")
                    % {"name": source.name},
                    messages.ERROR,
                )
        return [source for source in sources if person.is_superuser or source.user_id == person.pk]


@admin.register(EarlyAnswer)
class EarlyAnswerAdmin(ReadOnlyAdmin):
    shown_ids: ClassVar[dict[str, str]] = {
        "erl": "pk",
        "run": "run",
        "thr": "thread",
        "pse": "pause",
    }
    search_help_text = gettext_lazy("An erl_, run_, thr_ or pse_ id")
    heavy = ("event",)
    sealed: ClassVar[dict[str, str]] = {"event_json": "event", "error_text": "error"}
    list_display = (
        "shown",
        "status",
        "node_id",
        "input_type",
        "by",
        "via",
        "received_at",
        "expires_at",
    )
    list_filter = ("status",)
    list_select_related = ("by",)
    fields = (
        "shown", "status", "thread_link", "run_link", "node_id", "input_type", "event_json", "by",
        "via", "pause_link", "error_text",
        "received_at", "expires_at", "changed_at",
    )  # fmt: skip

    @display(description=gettext_lazy("thread"))
    def thread_link(self, early: EarlyAnswer) -> SafeString | str:
        return row("checkpoints_thread", "thr", early.thread_id)

    @display(description=gettext_lazy("run"))
    def run_link(self, early: EarlyAnswer) -> SafeString | str:
        return row("runs_run", "run", early.run_id)

    @display(description=gettext_lazy("pause"))
    def pause_link(self, early: EarlyAnswer) -> SafeString | str:
        return row("runs_pause", "pse", early.pause_id)

    @display(description=gettext_lazy("event"))
    def event_json(self, early: EarlyAnswer) -> SafeString:
        return as_json(lambda: early.event)

    @display(description=gettext_lazy("why it was not taken"))
    def error_text(self, early: EarlyAnswer) -> SafeString:
        return text(early.error)


@admin.register(Wait)
class WaitAdmin(ReadOnlyAdmin):
    shown_ids: ClassVar[dict[str, str]] = {
        "wait": "pk",
        "pse": "pause",
        "run": "pause__run",
        "thr": "outer__thread",
    }
    search_fields = ("outer__name",)
    search_help_text = gettext_lazy(
        "A wait_, pse_, run_ or thr_ id, or the other engine's id of the run"
    )
    heavy = ("recipients", "callback_secret")
    sealed: ClassVar[dict[str, str]] = {
        "recipients_json": "recipients",
        "callback_text": "callback_url",
    }
    list_display = ("shown", "outer", "node_id", "pause_link")
    list_select_related = ("outer",)
    fields = (
        "shown",
        "outer",
        "node_id",
        "pause_link",
        "recipients_json",
        "callback_text",
        "digest",
    )

    @display(description=gettext_lazy("pause"))
    def pause_link(self, wait: Wait) -> SafeString | str:
        return row("runs_pause", "pse", wait.pause_id)

    @display(description=gettext_lazy("recipients"))
    def recipients_json(self, wait: Wait) -> SafeString:
        return as_json(lambda: wait.recipients)

    @display(description=gettext_lazy("called back at"))
    def callback_text(self, wait: Wait) -> SafeString:
        return text(wait.callback_url)
