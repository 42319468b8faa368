"""People's answers for operators, and the actions that give them: every one is a call into
`services`, confirmed on a page of its own.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, cast

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as BaseGroupAdmin
from django.contrib.auth.admin import UserAdmin as BaseUserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from checkpoints.admin.checkpoints import (
    MOST,
    ConfirmedAdmin,
    ReadOnlyAdmin,
    as_json,
    row,
    text_column,
)
from checkpoints.admin.columns import display
from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from checkpoints.store import CheckpointDamaged
from hitl.admin import directory as directory  # registers
from hitl.admin import erasure as erasure  # registers
from hitl.admin import factors as factors  # registers
from hitl.admin import forensics as forensics
from hitl.admin import outbound as outbound  # registers
from hitl.admin import service_accounts as service_accounts  # registers
from hitl.admin import wait_gate as wait_gate  # registers
from hitl.admin.words import FeedbackForm, ReasonForm
from hitl.decisions import services, voting
from hitl.decisions.reviewers import policy
from hitl.models import Anchor, ApiToken, Decision, Import, Ledger, Via, Vote, is_service
from hitl.models.people.tokens import SERVICE_SCOPES
from runs import services as runs
from runs.admin.runs import PauseRows, RunRows, WorkOrderRows
from runs.models import Pause, Run, WorkOrder
from runs.services import PauseClosed
from runs.states import RunEnded
from runs.workflows.sequence import APPROVE, CANCEL, REVISE

BUTTONS = {
    APPROVE: gettext_lazy("Approve"),
    REVISE: gettext_lazy("Send back"),
    CANCEL: gettext_lazy("Cancel the orders"),
}


def tell(
    admin: ConfirmedAdmin, request: HttpRequest, act: Callable[[], str], *, about: str
) -> None:
    """Do one thing and say what came of it."""
    try:
        admin.message_user(request, f"{about}: {act()}", messages.SUCCESS)
    except (PauseClosed, services.RevisionMismatch, RunEnded, policy.NotNow) as calm:
        admin.message_user(request, f"{about}: {calm}", messages.WARNING)
    except services.NotFound:
        message = _(
            "Nothing was done: its thread belongs to other people. Ask its owner, or "
            "somebody of its team."
        )
        admin.message_user(request, f"{about}: {message}", messages.ERROR)
    except (services.AnswerInvalid, policy.NotAllowed, CheckpointDamaged) as error:
        admin.message_user(request, f"{about}: {error}", messages.ERROR)


def person(request: HttpRequest) -> User:
    return cast(User, request.user)


@admin.register(Pause)
class PauseAdmin(PauseRows):
    actions = ("approve", "revise", "cancel_order")

    @admin.action(description=gettext_lazy("Approve…"), permissions=["operate"])
    def approve(self, request: HttpRequest, queryset: QuerySet[Pause]) -> HttpResponse | None:
        return self.answer(
            request,
            queryset,
            "approve",
            APPROVE,
            _("Approve these questions?"),
            _("Each run goes on to its next step."),
        )

    @admin.action(description=gettext_lazy("Revise with feedback…"), permissions=["operate"])
    def revise(self, request: HttpRequest, queryset: QuerySet[Pause]) -> HttpResponse | None:
        return self.answer(
            request,
            queryset,
            "revise",
            REVISE,
            _("Send these back for revision?"),
            _("Each step runs again with your feedback."),
        )

    @admin.action(description=gettext_lazy("Cancel order…"), permissions=["operate"])
    def cancel_order(self, request: HttpRequest, queryset: QuerySet[Pause]) -> HttpResponse | None:
        return self.answer(
            request,
            queryset,
            "cancel_order",
            CANCEL,
            _("Cancel the orders of these questions?"),
            _("Each run ends. This cannot be undone."),
        )

    def answer(
        self,
        request: HttpRequest,
        pauses: QuerySet[Pause],
        name: str,
        action: str,
        title: str,
        description: str,
    ) -> HttpResponse | None:
        confirmed = "confirmed" in request.POST
        form = (FeedbackForm if action == REVISE else ReasonForm)(
            request.POST if confirmed else None
        )
        if not confirmed or not form.is_valid():
            return self.confirm(
                request,
                pauses,
                action=name,
                button=str(BUTTONS[action]),
                title=title,
                words=description,
                form=form,
            )
        feedback = form.cleaned_data["feedback"]
        for pause in pauses[:MOST]:
            tell(
                self,
                request,
                partial(self.decide, request, pause, action, feedback),
                about=pause.shown_id,
            )
        return None

    def decide(self, request: HttpRequest, pause: Pause, action: str, feedback: str) -> str:
        seen = request.POST.get(f"revision_{pause.shown_id}", "")
        if not (seen.isascii() and seen.isdigit()):
            raise services.RevisionMismatch(pause)
        answer = services.Answer(action, Via.ADMIN, feedback=feedback, revision=int(seen))
        given = services.decide(pause.pk, answer, by=person(request))
        return voting.words(given) if isinstance(given, Vote) else services.PAST[action]


@admin.action(description=gettext_lazy("Cancel…"), permissions=["operate"])
def cancel_order(
    shown_by: ConfirmedAdmin, request: HttpRequest, queryset: QuerySet[Any]
) -> HttpResponse | None:
    if "confirmed" not in request.POST:
        description = _("Each order ends where it stands. This cannot be undone.")
        return shown_by.confirm(
            request,
            queryset,
            action="cancel_order",
            button=_("Cancel them"),
            title=_("Cancel these orders?"),
            words=description,
        )
    for obj in queryset[:MOST]:
        tell(shown_by, request, partial(cancel_one, request, obj), about=obj.shown_id)
    return None


@admin.action(description=gettext_lazy("Retry…"), permissions=["operate"])
def retry(
    shown_by: ConfirmedAdmin, request: HttpRequest, queryset: QuerySet[Any]
) -> HttpResponse | None:
    if "confirmed" not in request.POST:
        description = _("Each goes on from its last good checkpoint, as a new run.")
        return shown_by.confirm(
            request,
            queryset,
            action="retry",
            button=_("Retry"),
            title=_("Retry these orders?"),
            words=description,
        )
    for obj in queryset[:MOST]:
        tell(shown_by, request, partial(retry_one, request, obj), about=obj.shown_id)
    return None


def cancel_one(request: HttpRequest, obj: WorkOrder | Run) -> str:
    services.cancel_order(order_of(obj), by=person(request), via=Via.ADMIN)
    return _("cancelled")


def retry_one(request: HttpRequest, obj: WorkOrder | Run) -> str:
    # `runs` does not ask who may see it
    order = services.find_order(order_of(obj), by=person(request))
    run = runs.retry(order.pk, by=person(request))
    return _("goes on as %(run)s") % {"run": run.shown_id}


def order_of(obj: WorkOrder | Run) -> uuid.UUID:
    if isinstance(obj, WorkOrder):
        return obj.pk
    if obj.work_order is None or obj.work_order.latest_run_id != obj.pk:
        raise RunEnded(_("This is not the latest run of a work order, so nothing was done."))
    return obj.work_order.pk


@admin.register(WorkOrder)
class WorkOrderAdmin(WorkOrderRows):
    actions = (cancel_order, retry)


@admin.register(Run)
class RunAdmin(RunRows):
    actions = (cancel_order, retry)


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    shown_ids: ClassVar[dict[str, str]] = {
        "dec": "pk",
        "pse": "pause",
        "run": "pause__run",
        "thr": "pause__run__thread",
    }
    search_fields = (f"decided_by__{NAME}",)
    search_help_text = gettext_lazy("A dec_, pse_, run_ or thr_ id, or who decided")
    heavy = ("feedback", "edited_content")
    sealed: ClassVar[dict[str, str]] = {
        "words": "feedback",
        "edited": "edited_content",
        "external": "external",
    }
    list_display = (
        "shown",
        "action_label",
        "pause_link",
        "revision",
        "decided_by",
        "external",
        "via",
        "ledger_place",
        "decided_at",
    )
    list_filter = ("via",)
    list_select_related = ("decided_by",)
    fields = (
        "shown", "pause_link", "action", "words", "edited", "decided_by", "external",
        "on_behalf_of", "votes",
        "decided_at", "via", "revision", "content_digest", "ledger_place",
        "previous", "digest", "digest_check", "evidence", "goes_on_at", "undoes", "receipt",
    )  # fmt: skip

    @display(
        description=gettext_lazy("answer"),
        label={"approve": "success", "revise": "warning", "cancel": "danger"},
    )
    def action_label(self, decision: Decision) -> str:
        return decision.action

    @display(description=gettext_lazy("pause"))
    def pause_link(self, decision: Decision) -> SafeString | str:
        return row("runs_pause", "pse", decision.pause_id)

    words = text_column("feedback")
    edited = text_column("edited_content")

    @display(description=gettext_lazy("place in the ledger"))
    def ledger_place(self, decision: Decision) -> str:
        return f"{decision.ledger_id} #{decision.position}"

    @display(description=gettext_lazy("receipt"))
    def receipt(self, decision: Decision) -> SafeString:
        url = reverse("hitl:receipt", args=[decision.pk])
        return format_html('<a href="{}">{}</a>', url, _("Open"))

    @display(description=gettext_lazy("digest check"))
    def digest_check(self, decision: Decision) -> str:
        matches = (
            _("Matches what %(erasure)s recorded when its thread was erased")
            % {"erasure": decision.erasure}
            if decision.erasure
            else _("Matches")
        )
        return (
            matches
            if decision.intact
            else _("Does not match: this row was changed after it was written.")
        )


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


@admin.register(Ledger)
class LedgerAdmin(ReadOnlyAdmin):
    search_fields = ("name",)
    list_display = ("name", "length", "tip")
    fields = ("name", "length", "tip")


@admin.register(Anchor)
class AnchorAdmin(ReadOnlyAdmin):
    search_fields = ("ledger__name",)
    search_help_text = gettext_lazy("A ledger's name")
    list_display = ("ledger_id", "day", "position", "tip")
    fields = ("ledger_id", "day", "position", "tip", "previous", "digest")


class ApiTokenForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    class Meta:
        model = ApiToken
        fields = ("user", "name", "scope", "expires_at")

    def clean(self) -> dict[str, Any]:
        """Explain what the database demands of a token of no person."""
        values: dict[str, Any] = super().clean() or {}
        if is_service(values.get("user")):
            if values.get("scope") not in SERVICE_SCOPES:
                self.add_error("scope", _("A service account asks, orders and reads."))
            if not values.get("expires_at"):
                self.add_error("expires_at", _("A token of a service account ends."))
        return values


@admin.register(ApiToken)
class ApiTokenAdmin(ConfirmedAdmin):
    """Made and revoked, never edited. Its secret is shown once, when it is made."""

    search_fields = ("name", f"user__{NAME}")
    search_help_text = gettext_lazy("Words of the name or its user")
    actions = ("revoke",)
    list_display = ("name", "user", "scope", "standing", "created_at", "expires_at", "last_write")
    list_select_related = ("user",)
    fields = (
        "user", "name", "scope", "expires_at", "created_at", "made_by", "replaces", "revoked_at",
        "last_write",
    )  # fmt: skip
    form = ApiTokenForm

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("hitl.add_apitoken")

    def get_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        return self.fields if obj else ("user", "name", "scope", "expires_at")

    def get_readonly_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        return self.fields if obj else ()

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """A token acts as its user: only superusers make one for somebody else."""
        users = User.objects.filter(is_active=True).order_by(NAME)
        kwargs["queryset"] = (
            users if person(request).is_superuser else users.filter(pk=person(request).pk)
        )
        kwargs["initial"] = request.user.pk
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        made, secret = ApiToken.make(**form.cleaned_data, made_by=person(request))
        obj.pk = made.pk
        self.message_user(
            request,
            _("The secret of %(name)s, shown only now: %(secret)s")
            % {"name": made.name, "secret": secret},
            messages.WARNING,
        )

    @display(description=gettext_lazy("last asked to change something"))
    def last_write(self, token: ApiToken) -> dt.datetime | None:
        return token.last_used_at  # reading leaves no trace in the database

    @display(
        description=gettext_lazy("standing"),
        label={"valid": "success", "expired": "warning", "revoked": "danger"},
    )
    def standing(self, token: ApiToken) -> str:
        if token.revoked_at:
            return "revoked"
        return "expired" if token.expires_at and token.expires_at <= clock.now() else "valid"

    @admin.action(description=gettext_lazy("Revoke…"), permissions=["operate"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> HttpResponse | None:
        if "confirmed" not in request.POST:
            description = _(
                "Programs that use them are refused from now on. This cannot be undone."
            )
            return self.confirm(
                request,
                queryset,
                action="revoke",
                button=_("Revoke"),
                title=_("Revoke these tokens?"),
                words=description,
            )
        count = queryset.order_by().filter(revoked_at__isnull=True).update(revoked_at=clock.now())
        self.message_user(request, _("%(count)s revoked.") % {"count": count}, messages.SUCCESS)
        return None


# two typings of one base
class UserAdmin(BaseUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]
    """Only superusers hand out rights, and only they change the account of somebody who has
    some.
    """

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    show_full_result_count = False

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        rights = ("is_staff", "is_superuser", "groups", "user_permissions")
        return super().get_readonly_fields(request, obj) if person(request).is_superuser else rights

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and self.may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and self.may_touch(request, obj)

    def may_touch(self, request: HttpRequest, obj: User | None) -> bool:
        return (
            obj is None
            or person(request).is_superuser
            or obj == request.user
            or not (obj.is_staff or obj.is_superuser)
        )


class GroupAdmin(BaseGroupAdmin, ModelAdmin):  # type: ignore[misc]  # two typings of one base
    """Teams. Their rights are handed out by superusers only."""

    show_full_result_count = False

    def get_readonly_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:
        return () if person(request).is_superuser else ("permissions",)


# a model of the project's own has the project's own page
if settings.AUTH_USER_MODEL == "auth.User":
    admin.site.unregister(User)
    admin.site.register(User, UserAdmin)
admin.site.unregister(Group)
admin.site.register(Group, GroupAdmin)
