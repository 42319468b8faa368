"""Admin pages that act: resume from a checkpoint, fork it with an edited state, or export a thread.

A checkpoint's page also shows the decision that led to it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext, gettext_lazy
from unfold.widgets import UnfoldAdminTextareaWidget

from checkpoints import store
from checkpoints.admin.pages import CheckpointPages, ThreadPages
from checkpoints.database.people import User
from checkpoints.forensics import steps
from checkpoints.models import Checkpoint
from checkpoints.state import codec
from checkpoints.state.reducers import StateTooLarge
from hitl.decisions import review_bypass, services
from hitl.models import STEP_AROUND, Decision, Via
from hitl.threads import export as portable
from runs.models import Run
from runs.services import forks
from runs.services.forks import NothingToFork

EDITABLE = 1_000_000
"""Characters of a state that a browser's text field takes; a larger one is edited over REST."""


class ForensicsReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=forks.MAX_REASON,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=gettext_lazy("Why? It is kept with the new run, in the log and in the history."),
    )


class StateField(forms.CharField):
    """A whole state as JSON, in lines that a person can read and edit."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        try:
            state = json.loads(text)
            if not isinstance(state, dict):
                raise forms.ValidationError(
                    gettext("The state is an object: it begins with { and ends with }.")
                )
            codec.check(state)
        except json.JSONDecodeError as error:
            raise forms.ValidationError(
                gettext("Not JSON: %(msg)s at line %(line)s, column %(column)s.")
                % {"msg": error.msg, "line": error.lineno, "column": error.colno}
            ) from error
        except codec.NotJson as error:
            raise forms.ValidationError(str(error)) from error
        except (RecursionError, ValueError) as error:
            raise forms.ValidationError(
                gettext("This cannot be kept: too many levels, or a number of too many digits.")
            ) from error
        return state

    def clean(self, value: Any) -> Any:
        self.validate(value)
        return self.to_python(value)


class ForkForm(ForensicsReasonForm):
    state = StateField(
        label=gettext_lazy("State"),
        strip=False,
        widget=UnfoldAdminTextareaWidget(
            attrs={"rows": 24, "spellcheck": "false", "class": "json"}
        ),
    )
    field_order: tuple[str, ...] = ("state", "reason")


class AroundForm(ForkForm):
    """The fork's form after a review refused the edited state: a person who may bypass the review
    says why, or takes the edit back.
    """

    around = forms.CharField(
        max_length=forks.MAX_REASON,
        required=False,  # a form whose edit was taken back needs none
        label=gettext_lazy("Reason for bypassing the review"),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3, "aria-required": "true"}),
        help_text=gettext_lazy(
            "The reviewers have not answered for the state as you edited it. With a reason "
            "here the run begins all the same. The ledger records it as your decision, "
            "with your name, this reason and what was bypassed, and the trail shows it to "
            "everybody who sees the thread. It approves nothing: a later step that asks "
            "whether its effect was approved still finds no approval."
        ),
    )
    field_order = ("around", "state", "reason")


def state_text(state: Mapping[str, Any]) -> str:
    """Write a state as JSON to edit, with escapes for characters that a page cannot carry."""
    return json.dumps(state, indent=2, ensure_ascii=codec.holds_unreadable(dict(state)))


def _refused_form(stands: forks.ReviewStands, request: HttpRequest, *, asked: bool) -> ForkForm:
    """Return the form that a review refused: with the field to bypass this review, or with the
    sentence that this person may not.

    Args:
        asked: whether the field was on the page already, so that its reason is missing.
    """
    refused = gettext(
        "%(reviews)s has rules on who approves it, and nobody has approved the state "
        "as you edited it. Nothing began."
    ) % {"reviews": stands.reviews}
    if not review_bypass.may_step_around(cast(User, request.user)):
        form = ForkForm(request.POST)
        right = gettext("the right “Can bypass a review”, which you do not have")
        form.add_error(
            None,
            (
                gettext(
                    "%(refused)s Begin at that step or before it, which asks again; or ask "
                    "somebody with %(right)s."
                )
                % {"refused": refused, "right": right}
            ),
        )
        return form
    form = AroundForm(request.POST)
    if asked:
        form.add_error("around", gettext("Say why. Without a reason nothing is bypassed."))
    form.add_error(
        None,
        (
            gettext(
                "%(refused)s Begin at that step or before it, which asks again; or bypass the "
                "review, and say why."
            )
            % {"refused": refused}
        ),
    )
    return form


def led_to(checkpoint: Checkpoint) -> tuple[Decision | None, str]:
    """Find the decision that a checkpoint records, or the last decision before it in its run; the
    text says which of the two it is.
    """
    related = Decision.objects.filter(undoes=None).select_related("decided_by", "pause")
    direct = (
        related.filter(pause__checkpoint=checkpoint.parent_id, pause__run=checkpoint.run_id).first()
        if checkpoint.parent_id
        else None
    )
    if direct is not None:
        return direct, gettext("This checkpoint records an answer:")
    before = related.filter(pause__run=checkpoint.run_id, decided_at__lt=checkpoint.created_at)
    return before.order_by("-pk").first(), gettext("The last answer before it in this run:")


def fork_at(checkpoint: Checkpoint) -> Run | None:
    """Find the run that began with this checkpoint as a fork of another one."""
    run = Run.objects.filter(pk=checkpoint.run_id).first()
    return (
        run
        if run is not None
        and run.forked_from_id is not None
        and run.forked_from_id == checkpoint.parent_id
        else None
    )


DOORS = {
    "resume": "admin:checkpoints_checkpoint_resume",
    "fork": "admin:checkpoints_checkpoint_fork",
}
"""The pages that act on a checkpoint: key in the templates → name of the URL."""


def may_operate(request: HttpRequest) -> bool:
    """Whether a person may go on from a checkpoint: by the right to change checkpoints, though none
    is ever changed, as a fork appends.
    """
    return request.user.has_perm("checkpoints.change_checkpoint")


def may_export(request: HttpRequest) -> bool:
    """Whether a person may export a thread, whose document holds all states in plain text."""
    return request.user.has_perm("checkpoints.view_event") and steps.may_read_state(request.user)


def doors(request: HttpRequest) -> dict[str, str]:
    return DOORS if may_operate(request) else dict.fromkeys(DOORS, "")


class ThreadForensics(ThreadPages):
    def get_urls(self) -> list[URLPattern]:
        export = path(
            "<path:object_id>/export/",
            self.admin_site.admin_view(self.export_view),
            name="checkpoints_thread_export",
        )
        return [export, *super().get_urls()]

    def offers(self, request: HttpRequest) -> dict[str, Any]:
        return {
            **doors(request),
            "export": "admin:checkpoints_thread_export" if may_export(request) else "",
        }

    def export_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Send the whole thread as one document, in plain text."""
        if not self.has_view_permission(request) or not may_export(request):
            raise PermissionDenied
        try:
            document = portable.export(uuid.UUID(object_id))
        except (ValueError, services.NotFound) as error:
            raise Http404(gettext("There is no such thread.")) from error
        except store.CheckpointDamaged as error:
            messages.error(request, gettext("Nothing was exported: %(error)s") % {"error": error})
            return HttpResponseRedirect(
                reverse("admin:checkpoints_thread_change", args=[object_id])
            )
        response = HttpResponse(codec.encode_in_order(document), content_type="application/json")
        response["Content-Disposition"] = f'attachment; filename="{document["thread"]["id"]}.json"'
        return response


@admin.register(Checkpoint)
class CheckpointForensics(CheckpointPages):
    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path(
                "<path:object_id>/resume/",
                view(self.resume_view),
                name="checkpoints_checkpoint_resume",
            ),
            path(
                "<path:object_id>/fork/", view(self.fork_view), name="checkpoints_checkpoint_fork"
            ),
            *super().get_urls(),
        ]

    def inside(self, request: HttpRequest, checkpoint: Checkpoint) -> dict[str, Any]:
        decision, words = led_to(checkpoint)
        open_doors = (
            doors(request) if checkpoint.status != "completed" else dict.fromkeys(DOORS, "")
        )
        led_by = {"decision": decision, "decision_words": words, "forked": fork_at(checkpoint)}
        return {**super().inside(request, checkpoint), **open_doors, **led_by}

    def resume_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """GET says what would be done; only POST does it."""
        checkpoint = self._find_checkpoint(request, object_id)
        form = ForensicsReasonForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            response = self._fork(request, checkpoint, form, state=None)
            if response is not None:
                return response
        return self._page(
            request,
            checkpoint,
            form,
            title=gettext("Resume from this checkpoint?"),
            button=gettext("Resume"),
        )

    def fork_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the state in an editor. What was typed stays on the page until the fork began."""
        checkpoint = self._find_checkpoint(request, object_id)
        if not steps.may_read_state(request.user):
            raise PermissionDenied
        try:
            state, damage = store.load(checkpoint), ""
        except store.CheckpointDamaged as error:
            state, damage = {}, str(error)
        text = state_text(state)
        if len(text) > EDITABLE:
            damage = gettext(
                "This state has %(count)s characters, more than a browser edits well. Fork it "
                "over REST: POST checkpoints/<id>/fork."
            ) % {"count": len(text)}
        if damage:
            messages.error(request, damage)
            return HttpResponseRedirect(
                reverse("admin:checkpoints_checkpoint_change", args=[checkpoint.pk])
            )
        page = partial(
            self._page,
            request,
            checkpoint,
            title=gettext("Fork with an edited state"),
            button=gettext("Fork"),
        )
        if request.method != "POST":
            return page(ForkForm(initial={"state": text}))
        was_asked = "around" in request.POST and review_bypass.may_step_around(
            cast(User, request.user)
        )
        form = AroundForm(request.POST) if was_asked else ForkForm(request.POST)
        if form.is_valid():
            edited = form.cleaned_data["state"]
            try:
                response = self._fork(
                    request,
                    checkpoint,
                    form,
                    state=None if codec.encode(edited) == codec.encode(state) else edited,
                )
            except forks.ReviewStands as stands:
                return page(_refused_form(stands, request, asked=was_asked), status=409)
            if response is not None:
                return response
        return page(form)

    def _find_checkpoint(self, request: HttpRequest, object_id: str) -> Checkpoint:
        if not self.has_view_permission(request) or not may_operate(request):
            raise PermissionDenied
        try:
            return Checkpoint.objects.select_related("thread").get(pk=uuid.UUID(object_id))
        except (ValueError, Checkpoint.DoesNotExist) as error:
            raise Http404(gettext("There is no such checkpoint.")) from error

    def _fork(
        self,
        request: HttpRequest,
        checkpoint: Checkpoint,
        form: forms.Form,
        *,
        state: Mapping[str, Any] | None,
    ) -> HttpResponse | None:
        """Begin a run and return the redirect to its thread, or None with the refusal on the form.

        Raises ReviewStands where no reason to bypass the review is given.
        """
        by, reason = cast(User, request.user), form.cleaned_data["reason"]
        try:
            edited = None if state is None else dict(state)
            if edited is not None and (around := form.cleaned_data.get("around")):
                run = review_bypass.fork(
                    checkpoint.pk, by=by, via=Via.ADMIN, reason=reason, state=edited, around=around
                )
            else:
                run = services.fork(checkpoint.pk, by=by, reason=reason, state=edited)
        except services.NotFound:
            form.add_error(
                None,
                gettext(
                    "Nothing was done: this thread belongs to other people. Ask its owner, or "
                    "somebody of its team."
                ),
            )
        except forks.ReviewStands:
            raise
        except (NothingToFork, store.CheckpointDamaged, StateTooLarge) as error:
            form.add_error(None, str(error))
        else:
            words = (
                gettext("%(run)s goes on from %(checkpoint)s. What came after it stays as it was.")
                if state is None
                else gettext(
                    "%(run)s goes on from %(checkpoint)s with the edited state. What came after "
                    "it stays as it was."
                )
            )
            messages.success(
                request,
                words % {"run": run.shown_id, "checkpoint": checkpoint.shown_id},
            )
            if (
                decision := Decision.objects.filter(pause__run=run, action=STEP_AROUND).first()
            ) is not None:
                messages.success(
                    request,
                    gettext("Your bypass of a review is recorded as %(shown_id)s.")
                    % {"shown_id": decision.shown_id},
                )
            return HttpResponseRedirect(
                reverse("admin:checkpoints_thread_change", args=[checkpoint.thread_id])
            )
        return None

    def _page(
        self,
        request: HttpRequest,
        checkpoint: Checkpoint,
        form: forms.Form,
        *,
        title: str,
        button: str,
        status: int | None = None,
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "checkpoint": checkpoint,
            "prospect": forks.prospect(checkpoint),
            "form": form,
            "back": reverse("admin:checkpoints_checkpoint_change", args=[checkpoint.pk]),
            "title": title,
            "button": button,
        }
        return TemplateResponse(
            request,
            "admin/checkpoint_fork.html",
            context,
            status=status or (422 if form.errors else 200),
        )
