"""Forms for the words that operators give with an answer."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy
from unfold.widgets import UnfoldAdminTextareaWidget

from hitl.decisions import services


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
