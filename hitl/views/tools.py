"""What agents may call, and which calls would ask a person."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from runs.agents import tools
from runs.definitions import tool_approvals
from runs.definitions.tool_approvals import AgentStep, CallInvalid


class ExplainForm(forms.Form):
    tool = forms.ChoiceField(label=gettext_lazy("Tool"))
    at = forms.ChoiceField(label=gettext_lazy("Rules of"), required=False)
    arguments = forms.CharField(
        label=gettext_lazy("Arguments"),
        required=False,
        max_length=20_000,
        initial="{}",
        help_text=gettext_lazy("A JSON object, as the model would write it."),
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono"}),
    )

    def __init__(self, *args: Any, places: list[AgentStep], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = {place.name: place for place in places}
        choices: dict[str, list[tuple[str, str]]] = {
            "tool": [(name, name) for name in tools.names()],
            "at": [("", gettext("the tool alone")), *((name, name) for name in self._places)],
        }
        for name, named in choices.items():
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = named

    def clean_arguments(self) -> dict[str, Any]:
        try:
            arguments = json.loads(self.cleaned_data["arguments"] or "{}")
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(
                gettext("This is not JSON: %(value)s") % {"value": str(error)[:200]}
            ) from error
        if not isinstance(arguments, dict):
            raise forms.ValidationError(
                gettext('Write an object, such as {"url": "https://example.org/"}.')
            )
        return arguments

    def explained(self) -> tool_approvals.Explained | None:
        """None, with the reasons on the form, where the tool would not take these arguments."""
        values = self.cleaned_data
        try:
            return tool_approvals.explain(
                values["tool"], values["arguments"], at=self._places.get(values["at"])
            )
        except CallInvalid as error:
            for field, texts in error.errors.items():
                self.add_error(field, texts)
            return None


@require_safe
@login_required
def tool_list(request: HttpRequest) -> HttpResponse:
    """The tools; with `?tool=&at=&arguments=` also whether that call would ask."""
    form = ExplainForm(
        request.GET if "tool" in request.GET else None, places=tool_approvals.places()
    )
    explained = form.explained() if form.is_bound and form.is_valid() else None
    context = {
        "form": form,
        "explained": explained,
        "tools": [tools.find(name) for name in tools.names()],
    }
    return render(
        request, "hitl/operations/tools.html", context, status=422 if form.errors else 200
    )
