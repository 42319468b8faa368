"""Open questions for operators, and the actions that answer them: each is a call into `services`,
confirmed on a page of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from checkpoints.admin.base import MOST, confirmed
from hitl.admin.base import FeedbackForm, ReasonForm, person, tell
from hitl.decisions import services, voting
from hitl.models import Via, Vote
from runs.admin.runs import PauseRows
from runs.models import Pause
from runs.workflows.sequence import APPROVE, CANCEL, REVISE


@admin.register(Pause)
class PauseAdmin(PauseRows):
    actions = ("approve", "revise", "cancel_order")

    @confirmed(
        gettext_lazy("Approve…"),
        button=gettext_lazy("Approve"),
        title=gettext_lazy("Approve these questions?"),
        words=gettext_lazy("Each run goes on to its next step."),
        form=ReasonForm,
    )
    def approve(
        self, request: HttpRequest, queryset: QuerySet[Pause], given: Mapping[str, Any]
    ) -> None:
        self._answer(request, queryset, APPROVE, given["feedback"])

    @confirmed(
        gettext_lazy("Revise with feedback…"),
        button=gettext_lazy("Send back"),
        title=gettext_lazy("Send these back for revision?"),
        words=gettext_lazy("Each step runs again with your feedback."),
        form=FeedbackForm,
    )
    def revise(
        self, request: HttpRequest, queryset: QuerySet[Pause], given: Mapping[str, Any]
    ) -> None:
        self._answer(request, queryset, REVISE, given["feedback"])

    @confirmed(
        gettext_lazy("Cancel order…"),
        button=gettext_lazy("Cancel the orders"),
        title=gettext_lazy("Cancel the orders of these questions?"),
        words=gettext_lazy("Each run ends. This cannot be undone."),
        danger=True,
        form=ReasonForm,
    )
    def cancel_order(
        self, request: HttpRequest, queryset: QuerySet[Pause], given: Mapping[str, Any]
    ) -> None:
        self._answer(request, queryset, CANCEL, given["feedback"])

    def _answer(
        self, request: HttpRequest, pauses: QuerySet[Pause], action: str, feedback: str
    ) -> None:
        for pause in pauses[:MOST]:
            tell(
                self,
                request,
                partial(self.decide, request, pause, action, feedback),
                about=pause.shown_id,
            )

    def decide(self, request: HttpRequest, pause: Pause, action: str, feedback: str) -> str:
        seen = request.POST.get(f"revision_{pause.shown_id}", "")
        if seen != str(pause.revision):
            raise services.RevisionMismatch(pause)
        answer = services.Answer(action, Via.ADMIN, feedback=feedback, revision=pause.revision)
        given = services.decide(pause.pk, answer, by=person(request))
        return voting.words(given) if isinstance(given, Vote) else services.PAST[action]
