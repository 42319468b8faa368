"""Open questions for operators, and the actions that answer them: each is a call into `services`,
confirmed on a page of its own.
"""

from __future__ import annotations

from functools import partial

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from checkpoints.admin.base import MOST
from hitl.admin.base import FeedbackForm, ReasonForm, person, tell
from hitl.decisions import services, voting
from hitl.models import Via, Vote
from runs.admin.runs import PauseRows
from runs.models import Pause
from runs.workflows.sequence import APPROVE, CANCEL, REVISE

BUTTONS = {
    APPROVE: gettext_lazy("Approve"),
    REVISE: gettext_lazy("Send back"),
    CANCEL: gettext_lazy("Cancel the orders"),
}


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
