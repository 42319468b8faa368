"""A template as a form: its words, and the rules of its steps and of the whole.

What it may say besides, and what is not changed, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django import forms
from django.forms.utils import ErrorDict
from django.utils.translation import gettext, gettext_lazy

from hitl.forms import drafts
from hitl.forms.configurations import JsonText
from hitl.forms.fields import Fault, faults_of
from hitl.forms.kinds import same
from hitl.forms.rules import Part, RulesForm
from hitl.rendering.own_words import own
from runs import definitions
from runs.definitions.editing import fields
from runs.definitions.freezing import STEP_KEYS
from runs.models import StepTemplate, Template
from runs.workflows import letters, refusals
from runs.workflows.registry import traits_of
from runs.workflows.reviews.rules import SCHEMA as REVIEW

PARTS = {
    gettext_lazy("Who answers, and by when"): (
        "pause_phase", "question", "may_pass", "max_revisions", "review",
    ),
    gettext_lazy("What they may answer"): ("choices", "revise_to", "required_inputs"),
    gettext_lazy("Failures, time and where it runs"): (
        "only_on", "retry", "on_failure", "timeout", "skip_when", "max_loops", "queue", "on_change",
        "interrupt_before", "interrupt_after",
    ),
}  # fmt: skip
"""Rules of a step besides `pause_after`, as the page folds them."""
WHOLE = ("reducers", "state_schema", "frequency", "retention", "size_budget")
OWN = ("title", "description", "needs_repository", "input_schema")
"""Fields of a template that are no rules."""
ROWS = "template"
"""What the names of the fields begin with that are of the template as a whole."""


class TemplateForm(forms.Form):
    """Fields of step n are named `<n>.<rule>`. `version` is the one that was looked at.

    Args:
        template: that version; its steps are what `<n>.base` names.
        quiet: show what was entered and judge nothing of it, since it is not to be saved.
    """

    version = forms.IntegerField(widget=forms.HiddenInput)
    title = forms.CharField(max_length=120, label=gettext_lazy("Title"))
    description = forms.CharField(
        required=False,
        max_length=4_000,
        widget=forms.Textarea(attrs={"rows": 2}),
        label=gettext_lazy("Description"),
    )

    needs_repository = forms.BooleanField(
        required=False, label=gettext_lazy("It works on a repository")
    )
    input_schema = JsonText(
        required=False,
        label=gettext_lazy("What an order brings"),
        help_text=gettext_lazy(
            "A JSON Schema of an object, from which the form of a new order is made."
        ),
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
        self.added: int | None = None
        self.rows = drafts.rows_of(data, template)
        self.drafts = [row.step(template) for row in self.rows]
        if data is not None and "rows" not in data:  # not from the page
            del self.fields["needs_repository"], self.fields["input_schema"]
        for number, row in enumerate(self.rows):
            if row.base is None:
                self.fields[f"{number}.name"] = _name_field(row.kind)
        names = [self._named(number) for number in range(len(self.rows))]
        self.rules = [
            RulesForm(fields.of_step(names, step), step, data, prefix=str(number))
            for number, step in enumerate(self.drafts)
        ]
        self.whole = RulesForm(fields.of_template(), whole_of(template), data, prefix=ROWS)
        if quiet:
            self._errors = ErrorDict()
            for rules in (*self.rules, self.whole):
                rules.forget_errors()

    def focus_on_name(self, number: int) -> None:
        """Put the focus on the name of a step that was just added."""
        self.added = number
        self.fields[f"{number}.name"].widget.attrs["autofocus"] = True

    def _named(self, number: int) -> str:
        return self.data.get(f"{number}.name") or name_of(self.drafts[number])

    def clean_input_schema(self) -> dict[str, Any]:
        """An object, or nothing."""
        schema = self.cleaned_data["input_schema"]
        if schema is not None and not isinstance(schema, dict):
            raise forms.ValidationError(gettext("A JSON Schema is an object."))
        return schema or {}

    def clean_description(self) -> str:
        """Lines as they are kept: browsers send others."""
        return str(self.cleaned_data["description"]).replace("\r\n", "\n")

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        for number, rules in enumerate(self.rules, start=1):
            if rules.wrong:
                self.add_error(
                    None, gettext("Step %(number)s: see the marked fields.") % {"number": number}
                )
        self._check_keys()
        if self.whole.wrong:
            self.add_error(None, gettext("See the marked fields of the template."))
        self._mark_first()
        return given

    @property
    def steps(self) -> list[dict[str, Any]]:
        """For each step: `title`, `name`, `texts` (slug of the step template whose texts may be
        changed), `asks` (whether a person is asked), `parts` (of its other rules), `also` (what
        the form does not show), `base` and `kind` (as of `drafts.Row`), `called` (the field of its
        name), `named` (whether the focus is on that), `open` (whether there is something to see).
        """
        titles = dict(StepTemplate.objects.order_by("version").values_list("slug", "title"))
        functions = dict(StepTemplate.objects.order_by("version").values_list("slug", "function"))
        made = []
        for number, (row, step, rules) in enumerate(
            zip(self.rows, self.drafts, self.rules, strict=True)
        ):
            slug = str(step.get("step_template_slug") or "")
            made.append(
                {
                    "title": _title(step, titles),
                    "name": name_of(step),
                    "texts": slug if traits_of(functions.get(slug, "")).letters else "",
                    "asks": rules.part("", ("pause_after",)).fields[0],
                    "parts": [rules.part(str(title), names) for title, names in PARTS.items()],
                    "also": also(step),
                    "base": "" if row.base is None else row.base,
                    "kind": step.get("step_template_slug", ""),
                    "called": self[f"{number}.name"] if row.base is None else None,
                    "named": self.added == number,
                    "open": rules.wrong or rules.grew or f"{number}.name" in self.errors,
                }
            )
        return made

    @property
    def of_all(self) -> Part:
        """What the template says of its state and its checkpoints."""
        part = self.whole.part(
            gettext("State and checkpoints"), tuple(fields.of_template()["properties"])
        )
        return replace(part, open=self.whole.wrong or self.whole.grew)

    @property
    def problems_told(self) -> list[Fault]:
        """What is wrong, in the order of the fields; a step's with its number."""
        told = faults_of(field for field in self if field.name != "version")
        for number, rules in enumerate(self.rules, start=1):
            step = gettext("Step %(value)s") % {"value": number}
            told += [
                fault._replace(title=f"{step}, {fault.title}") for fault in rules.form.problems_told
            ]
        return [*told, *self.whole.form.problems_told]

    def fields_to_save(self) -> dict[str, Any]:
        """What `runs.definitions.edit_template` takes; what was not changed stays as it is."""
        given = self.cleaned_data
        words = {
            name: getattr(self.template, name) if _alike(self.template, name, value) else value
            for name, value in given.items()
            if name in OWN
        }
        steps = [
            {**step, **({"name": name} if (name := given.get(f"{number}.name")) else {})}
            for number, step in enumerate(rules.to_save() for rules in self.rules)
        ]
        usual = definitions.usual_fields()
        whole = {**{name: usual[name] for name in WHOLE}, **self.whole.to_save()}
        whole["reducers"] = {
            row.get("key", ""): row.get("reducer", "")
            for row in self.whole.to_save().get("reducers", [])
        }
        if not self.template.slug and not whole["reducers"]:
            del whole["reducers"]  # as the steps' functions say
        return {**words, "steps": steps, **whole}

    def add_errors(self, errors: Mapping[str, list[str]]) -> None:
        """Show what a template was refused for beside its fields: `steps.1.review.quorum` at step
        1's quorum.
        """
        for place, texts in errors.items():
            what, _, field = place.removeprefix("steps.").partition(".")
            step = place.startswith("steps.") and what.isdecimal() and int(what) < len(self.rules)
            name = f"{what}.{field}" if step else place
            if name in self.fields:
                self.add_error(name, [own(text) for text in texts])
                continue
            rules = self.rules[int(what)] if step else self.whole
            shown = (
                (gettext("Step %(value)s") % {"value": int(what) + 1})
                if step
                else gettext("The template")
            )
            if left := rules.add_errors({field if step else place: texts}):
                said = (f"{shown}, {field}" if field else shown) if step else place
                texts = [f"{said}: {text}" for text in left]
                self.add_error(None, texts)
            else:
                self.add_error(None, gettext("%(shown)s: see the marked field.") % {"shown": shown})
        self._mark_first()

    def _mark_first(self) -> None:
        if first := next((rules for rules in (*self.rules, self.whole) if rules.wrong), None):
            first.mark_first()

    def _check_keys(self) -> None:
        """Mark a reducer whose key is missing, or is there twice: an object could not hold it."""
        taken: set[str] = set()
        for number, row in enumerate(self.whole.to_save().get("reducers", [])):
            if (key := row.get("key")) is None or key in taken:
                text = refusals.NEEDED if key is None else gettext("This key is there twice.")
                self.whole.add_errors({f"reducers.{number}.key": [text]})
            taken.add(key or "")


class NewTemplateForm(TemplateForm):
    """As of a template that is there, and the name that it gets."""

    slug = forms.SlugField(
        max_length=80,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy(
            "How addresses and commands name it: letters, digits, hyphens and underscores."
        ),
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
                label=own(letter.title),
                widget=forms.TextInput() if letter.line else forms.Textarea(attrs={"rows": 9}),
                help_text=(
                    gettext("May name %(places)s. Left empty: the usual text.")
                    % {"places": ", ".join(f"{{{{{place}}}}}" for place in letter.places)}
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


def also(step: Mapping[str, Any]) -> list[str]:
    """Names of what the step says and the form does not show."""
    review = step.get("review")
    inner = set(review) - set(REVIEW["properties"]) if isinstance(review, Mapping) else ()
    return [*sorted(set(step) - STEP_KEYS), *(f"review.{name}" for name in sorted(inner))]


def _name_field(kind: str) -> forms.Field:
    return forms.CharField(
        max_length=100,
        initial=kind,
        label=gettext("Name of the step"),
        help_text=gettext("Unique in this template. Used in transitions."),
    )


def whole_of(template: Template) -> dict[str, Any]:
    """What a template says of its state and its checkpoints, as `fields.of_template` has it."""
    said = {name: getattr(template, name) for name in WHOLE}
    rows = [{"key": key, "reducer": reducer} for key, reducer in said.pop("reducers").items()]
    return {"reducers": rows, **{name: value for name, value in said.items() if value}}


def _alike(template: Template, name: str, value: Any) -> bool:
    """Whether a field shows what the template says already."""
    said = getattr(template, name)
    if not isinstance(said, str):
        return same(said, value)
    said = said.replace("\r\n", "\n").replace("\r", "\n").strip()
    return bool(value == (said.replace("\n", "") if name == "title" else said))


def pauses_of(template: Template) -> list[str]:
    """Titles of the steps after which a person is asked; none where an earlier version saved what
    cannot be used.
    """
    try:
        titles = {step["name"]: step["title"] for step in definitions.freeze_steps(template.steps)}
    except definitions.TemplateInvalid:
        return []
    return [own(titles[name_of(step)]) for step in template.steps if step.get("pause_after")]
