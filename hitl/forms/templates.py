"""A template as a form: its words, and for each step where a person is asked, who, and by when
(S4-4, S4-12).

What a template may say besides stays as it is; operators write that over REST or in the admin.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.forms.utils import ErrorDict

from hitl.forms import drafts
from hitl.forms.configurations import JsonText
from runs import definitions, phases
from runs.definitions import step_options
from runs.models import StepTemplate, Template
from runs.workflows import letters
from runs.workflows.registry import traits_of
from runs.workflows.reviews.rules import OUTCOMES, RISKS
from runs.workflows.sequence import HEADINGS

OUTCOME_WORDS = {
    "expire": "it expires, and with it the run",
    "cancel": "the work is cancelled",
    "escalate": "the next stage is asked",
    "approve": "it counts as approved",
}
RISK_WORDS = {
    "low": "low",
    "normal": "normal",
    "high": "high: never in bulk, nor from a link without a login",
}
MORE = ("needs_repository", "input_schema")
SHOWN = {"reviewers", "quorum", "self_approval", "risk", "deadline"}
"""Rules of `review` that the form knows."""


class TemplateForm(forms.Form):
    """Fields of step n are named `<n>.<rule>`. `version` is the one that was looked at.

    Args:
        template: that version; its steps are what `<n>.base` names.
        quiet: show what was entered and judge nothing of it, since it is not to be saved.
    """

    version = forms.IntegerField(widget=forms.HiddenInput)
    title = forms.CharField(max_length=120)
    description = forms.CharField(
        required=False, max_length=4_000, widget=forms.Textarea(attrs={"rows": 2})
    )

    needs_repository = forms.BooleanField(required=False, label="It works on a repository")
    input_schema = JsonText(
        required=False,
        label="What an order brings",
        help_text="A JSON Schema of an object, from which the form of a new order is made.",
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
    )

    def __init__(self, data: Any = None, *, template: Template, quiet: bool = False) -> None:
        first = {
            "version": template.version,
            "title": template.title,
            "description": template.description,
            "needs_repository": template.needs_repository,
            "input_schema": template.input_schema or None,
        }
        super().__init__(data, initial=first)
        self.template, self.quiet = template, quiet
        self.rows = drafts.rows_of(data, template)
        self.drafts = [row.step(template) for row in self.rows]
        if data is not None and "rows" not in data:  # an earlier page, which knew less
            del self.fields["needs_repository"], self.fields["input_schema"]
        titles = dict(StepTemplate.objects.order_by("version").values_list("slug", "title"))
        functions = dict(StepTemplate.objects.order_by("version").values_list("slug", "function"))
        self.headings = [
            {
                "title": _title(step, titles),
                "name": name_of(step),
                "also": list(also(step)),
                "texts": slug
                if traits_of(
                    functions.get(slug := str(step.get("step_template_slug") or ""), "")
                ).letters
                else "",
            }
            for step in self.drafts
        ]
        for number, (row, step) in enumerate(zip(self.rows, self.drafts, strict=True)):
            if row.base is None:
                self.fields[f"{number}.name"] = _name_field(row.kind)
            for name, field in _fields(step).items():
                self.fields[f"{number}.{name}"] = field
        if quiet:
            self._errors = ErrorDict()

    def clean_input_schema(self) -> dict[str, Any]:
        """An object, or nothing."""
        schema = self.cleaned_data["input_schema"]
        if schema is not None and not isinstance(schema, dict):
            raise forms.ValidationError("A JSON Schema is an object.")
        return schema or {}

    @property
    def steps(self) -> list[dict[str, Any]]:
        """For each step: `title`, `name`, `asks` (the box that says so), other `rules`, `also`
        (what only REST and the admin change).

        `open` where something in those is not as usual, or is wrong.
        """
        rows = []
        for number, heading in enumerate(self.headings):
            own = [name for name in self.fields if name.startswith(f"{number}.")]
            asks, *rules = (self[name] for name in own if name != f"{number}.name")
            unusual = any(field.errors for field in rules) or bool(
                self.drafts[number].get("review")
            )
            row = self.rows[number]
            rows.append(
                {
                    **heading,
                    "asks": asks,
                    "rules": rules,
                    "open": unusual,
                    "base": "" if row.base is None else row.base,
                    "kind": self.drafts[number].get("step_template_slug", ""),
                    "called": self[f"{number}.name"] if row.base is None else None,
                }
            )
        return rows

    def fields_to_save(self) -> dict[str, Any]:
        """What `runs.definitions.edit_template` takes."""
        given = self.cleaned_data
        steps = [
            _changed(
                step,
                {
                    name.partition(".")[2]: value
                    for name, value in given.items()
                    if name.startswith(f"{number}.")
                },
            )
            for number, step in enumerate(self.drafts)
        ]
        more = {name: given[name] for name in MORE if name in given}
        return {
            "title": given["title"],
            "description": given["description"],
            "steps": steps,
            **more,
        }

    def add_errors(self, errors: Mapping[str, list[str]]) -> None:
        """Show what a template was refused for beside its fields: `steps.1.review.quorum` at step
        1's quorum.
        """
        for place, texts in errors.items():
            field = place.removeprefix("steps.").replace(".review.", ".")
            parents = [field.rsplit(".", cut)[0] for cut in range(field.count(".") + 1)]
            name = next(
                (candidate for candidate in (field, *parents) if candidate in self.fields), None
            )
            for text in texts:
                self.add_error(name, text if name else f"{place}: {text}")


class NewTemplateForm(TemplateForm):
    """As of a template that is there, and the name that it gets."""

    slug = forms.SlugField(
        max_length=80,
        label="Name",
        help_text="How addresses and commands name it: letters, digits, hyphens and underscores.",
    )
    taken = False
    """Whether the name was refused since another template has it."""


class TextsForm(forms.Form):
    """The texts that a step sends, each a field; `version` is the one that was looked at."""

    version = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, kind: StepTemplate) -> None:
        super().__init__(data, initial={"version": kind.version})
        self.kind = kind
        self.letters = traits_of(kind.function).letters
        texts = kind.config.get("texts", {})
        for name, letter in self.letters.items():
            self.fields[name] = forms.CharField(
                max_length=letters.LONGEST,
                required=False,
                initial=texts.get(name, letter.usual),
                label=letter.title,
                widget=forms.TextInput() if letter.line else forms.Textarea(attrs={"rows": 9}),
                help_text=(
                    f"May name {', '.join(f'{{{{{place}}}}}' for place in letter.places)}. Left "
                    "empty: the usual text."
                ),
            )

    @property
    def texts(self) -> list[forms.BoundField]:
        return [self[name] for name in self.letters]

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if given.get("version") != self.kind.version:
            self.add_error("version", definitions.SAVED_MEANWHILE)
        for name in self.letters:
            given[name] = str(given.get(name) or self.letters[name].usual).replace("\r\n", "\n")
            if wrong := letters.fault(self.letters, name, given[name]):
                self.add_error(name, wrong)
        return given

    def config_to_save(self) -> dict[str, Any]:
        texts = {name: self.cleaned_data[name] for name in self.letters}
        return {**self.kind.config, **({"texts": texts} if texts else {})}


def name_of(step: Mapping[str, Any]) -> str:
    return str(step.get("name") or step.get("step_type") or step.get("step_template_slug"))


def _title(step: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The title of the step's template; of a step that names its type alone, that of the usual
    one.
    """
    if slug := str(step.get("step_template_slug") or ""):
        return titles.get(slug, slug)
    kind = definitions.usual(str(step.get("step_type") or ""))
    return kind.title if kind else name_of(step)


def also(step: Mapping[str, Any]) -> Iterator[str]:
    """Names of what the step says and the form does not show."""
    shown = {
        "name",
        "step_type",
        "step_template_slug",
        "pause_after",
        "pause_phase",
        "max_revisions",
        "review",
    }
    yield from sorted(set(step) - shown)
    yield from (f"review.{name}" for name in sorted(set(step.get("review", {})) - SHOWN))


def _name_field(kind: str) -> forms.Field:
    return forms.CharField(
        max_length=100,
        initial=kind,
        label="Name of the step",
        help_text="Unique in this template; ways that lead here name it.",
    )


def _fields(step: Mapping[str, Any]) -> dict[str, forms.Field]:
    review = step.get("review", {})
    deadline, reviewers = review.get("deadline", {}), review.get("reviewers", {})
    zones = [
        ("", "every hour counts"),
        *((name, f"hours of work of {name}") for name in step_options.calendars()),
    ]
    phase = step.get("pause_phase", "")
    headings = {
        "": "Waiting for an answer",
        **({phase: phases.words(phase)} if phase else {}),
        **HEADINGS,
    }
    return {
        "pause_after": forms.BooleanField(
            required=False,
            initial=step.get("pause_after", False),
            label="Ask a person after this step",
        ),
        "pause_phase": forms.ChoiceField(
            required=False,
            initial=step.get("pause_phase", ""),
            label="What the work then waits for",
            choices=list(headings.items()),
        ),
        "max_revisions": forms.IntegerField(
            required=False,
            initial=step.get("max_revisions", 3),
            min_value=0,
            max_value=10,
            label="Rounds of revision",
        ),
        "reviewers.users": forms.CharField(
            required=False,
            max_length=2_000,
            initial=", ".join(reviewers.get("users", [])),
            label="People who answer",
            help_text=(
                "User names, with commas between. Where nobody is named here or below, whoever "
                "sees the work answers."
            ),
        ),
        "reviewers.groups": forms.CharField(
            required=False,
            max_length=2_000,
            initial=", ".join(reviewers.get("groups", [])),
            label="Groups who answer",
        ),
        "quorum": forms.IntegerField(
            required=False,
            initial=review.get("quorum", 1),
            min_value=1,
            max_value=20,
            label="How many must approve",
        ),
        "self_approval": forms.BooleanField(
            required=False,
            initial=review.get("self_approval", True),
            label="The requester may approve",
        ),
        "risk": forms.ChoiceField(
            required=False,
            initial=review.get("risk", "normal"),
            choices=[(risk, RISK_WORDS[risk]) for risk in RISKS],
            label="Risk",
        ),
        "deadline.after": forms.CharField(
            required=False,
            max_length=40,
            initial=deadline.get("after", ""),
            label="Deadline",
            help_text="ISO 8601 since the question was asked, such as PT4H or P2D. Empty for none.",
        ),
        "deadline.outcome": forms.ChoiceField(
            required=False,
            initial=deadline.get("outcome", "expire"),
            choices=[(outcome, OUTCOME_WORDS[outcome]) for outcome in OUTCOMES],
            label="When it has passed",
        ),
        "deadline.calendar": forms.ChoiceField(
            required=False,
            initial=deadline.get("calendar", ""),
            choices=zones,
            label="What is counted until then",
        ),
    }


USUAL: dict[str, Any] = {
    "quorum": 1,
    "self_approval": True,
    "risk": "normal",
    "max_revisions": 3,
    "pause_after": False,
    "pause_phase": "",
}


def _changed(step: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The step with what the form says; what is as usual, and was not said, stays unsaid, so that
    nothing changed makes no version.
    """
    changed = copy.deepcopy(dict(step))
    if given.get("name"):
        changed["name"] = given["name"]
    for name in ("pause_after", "pause_phase", "max_revisions"):
        _say(changed, name, given[name])
    review = _review(changed.pop("review", {}), given)
    return {**changed, "review": review} if review or "review" in step else changed


def _review(review: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("quorum", "self_approval", "risk"):
        _say(review, name, given[name])
    reviewers = review.pop("reviewers", {})
    named = {
        **reviewers,
        **{kind: _names(given[f"reviewers.{kind}"]) for kind in ("users", "groups")},
    }
    if kept := {kind: names for kind, names in named.items() if names or kind in reviewers}:
        review["reviewers"] = kept
    deadline = review.pop("deadline", {})
    if given["deadline.after"]:
        deadline["after"] = given["deadline.after"].strip()
        for name, usual in (("outcome", "expire"), ("calendar", "")):
            if given[f"deadline.{name}"] != usual or name in deadline:
                deadline[name] = given[f"deadline.{name}"]
        review["deadline"] = deadline
    return review


def _say(rules: dict[str, Any], name: str, value: Any) -> None:
    value = USUAL[name] if value is None else value
    if value != USUAL[name] or name in rules:
        rules[name] = value


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def pauses_of(template: Template) -> list[str]:
    """Titles of the steps after which a person is asked; none where an earlier version saved what
    cannot be used.
    """
    try:
        titles = {step["name"]: step["title"] for step in definitions.freeze_steps(template.steps)}
    except definitions.TemplateInvalid:
        return []
    return [titles[name_of(step)] for step in template.steps if step.get("pause_after")]
