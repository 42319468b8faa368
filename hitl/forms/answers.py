"""The form of an answer to a question, as its card has it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext

from checkpoints import ids
from hitl.decisions.services import MAX_FEEDBACK
from hitl.decisions.talk.feedback import MOST_SUGGESTED
from hitl.forms.fields import Fault
from hitl.forms.json_schema import SchemaForm
from hitl.forms.tool_calls import CallsForm
from hitl.models import Comment
from runs.models import Pause
from runs.workflows import Understood
from runs.workflows.sequence import REVISE


class DecisionForm(forms.Form):
    action = forms.CharField(max_length=64, required=False)
    edited = forms.CharField(max_length=64, required=False)
    """The answer, as a button of earlier pages said it that took an edit along."""
    edited_content = forms.CharField(required=False, strip=False)
    """The content as the card's field has it: an edit where it reads otherwise than it was
    asked.
    """
    feedback = forms.CharField(required=False, max_length=MAX_FEEDBACK)
    wish = forms.CharField(required=False, max_length=MAX_FEEDBACK)
    """The feedback for a revision, where the same form has a field for the reason of other
    answers.
    """
    revision = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    understood: Understood | None = None
    """Of the feedback, where it was asked for before anything is sent."""
    content_digest = forms.CharField(max_length=64, required=False)
    """Of the content that was looked at."""
    comments_until = forms.CharField(max_length=40, required=False)
    """The last comment at the question that goes along with a revision."""

    def clean_comments_until(self) -> uuid.UUID | None:
        shown: str = self.cleaned_data["comments_until"]
        try:
            return ids.parse(Comment.PREFIX, shown) if shown else None
        except ValueError as error:
            raise forms.ValidationError(gettext("It is no comment.")) from error

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        values["action"] = action = values.get("edited") or values.get("action")
        if not action:
            self.add_error("action", gettext("Choose an answer."))
        if action == REVISE:
            said = values.get("wish", "").strip() or values.get("feedback", "").strip()
            values["feedback"] = self._with_picked(said)
            if len(values["feedback"]) > MAX_FEEDBACK:
                self.add_error("wish", gettext("That is too much for one revision."))
        return values

    @property
    def picked(self) -> list[str]:
        """Suggested feedback that was ticked."""
        given = self.data.getlist("pick") if isinstance(self.data, MultiValueDict) else []
        return [words for words in given if words.strip()][:MOST_SUGGESTED]

    def _with_picked(self, said: str) -> str:
        """The feedback as it is sent: a semicolon ends what was ticked."""
        picked = "; ".join(self.picked)
        return f"{picked};\n{said}" if picked and said else picked or said

    @property
    def whole_wish(self) -> str:
        """What was ticked and typed as feedback for a revision."""
        return self._with_picked(self.typed_wish.strip())

    @property
    def revises(self) -> bool:
        return REVISE in {self.data.get("edited"), self.data.get("action")}

    @property
    def typed_reason(self) -> str:
        """What was typed as the reason of an answer."""
        return "" if self.revises and not self.wish_given else str(self.data.get("feedback", ""))

    @property
    def typed_wish(self) -> str:
        """What was typed as feedback for a revision."""
        return str(self.data.get("wish" if self.wish_given or not self.revises else "feedback", ""))

    @property
    def wish_given(self) -> bool:
        return bool(self.data.get("wish", "").strip())

    def edit_of(self, pause: Pause) -> str | None:
        """The content as somebody edited it; None where it reads as it was asked, or was not there
        to be edited.
        """
        text: str | None = self.data.get("edited_content")
        return None if text is None or _lines(text) == _lines(pause.content) else text

    first = ""
    """The name of the field that has the focus."""

    def look_at(self, inputs: SchemaForm | CallsForm | None) -> None:
        """Let the first field that is wrong have the focus: one of the data, which stand above,
        else one of this form.
        """
        elsewhere = inputs is not None and inputs.mark_first()
        wrong = [
            name
            for name in ("edited_content", "feedback", "wish")
            if self.is_bound and name in self.errors
        ]
        self.first = wrong[0] if wrong and not elsewhere else ""

    @property
    def told(self) -> list[Fault]:
        """What is wrong with what was typed beside the data."""
        if not self.is_bound:
            return []
        controls = {
            "edited_content": ("edited", gettext("The text that you approve")),
            "feedback": ("reason", gettext("Reason")),
            "wish": ("feedback", gettext("Feedback for the revision")),
        }
        return [
            Fault(*controls[name], str(text))
            for name in controls
            for text in self.errors.get(name, [])
        ]

    def add_errors(self, errors: Mapping[str, Sequence[str]]) -> None:
        """Show a service's errors at the fields they belong to; those of the data are shown by its
        own form.
        """
        for field, texts in errors.items():
            name = "wish" if field == "feedback" and self.revises else field
            if name in {"wish", "feedback", "edited_content"}:
                self.add_error(name, list(texts))


NOTHING_TYPED = DecisionForm()
"""Of every card on which nobody has typed: to make its fields takes longer than to draw them."""


def _lines(text: str) -> str:
    """As texts are compared: a browser sends other line ends."""
    return text.replace("\r\n", "\n").strip("\n")
