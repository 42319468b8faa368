"""What the actions of operators share: who acts, the words that they give, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import UnfoldAdminTextareaWidget

from checkpoints.admin.base import ConfirmedAdmin
from checkpoints.database.people import User
from checkpoints.store import CheckpointDamaged
from hitl.decisions import services
from hitl.decisions.reviewers import policy
from runs.services import PauseClosed
from runs.states import RunEnded


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


class ReasonForm(forms.Form):
    feedback = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=services.MAX_FEEDBACK,
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=gettext_lazy("Recorded with each answer. Some steps' rules ask for one."),
    )


class FeedbackForm(forms.Form):
    feedback = forms.CharField(
        max_length=services.MAX_FEEDBACK,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 6}),
        help_text=gettext_lazy("What should change? It is given to the step that runs again."),
    )
