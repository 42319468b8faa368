"""Forms in Slack: for feedback, and for the data that a question asks for.

They are made of the same fields as the pages' forms (`hitl.forms.json_schema`), and what is filled
in is read by the same reader. What Slack has no entry for is filled in on the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext

from extensions.slack.posting import plain_text
from hitl.decisions import answers
from hitl.forms.fields import FormField
from hitl.forms.json_schema import SchemaForm
from hitl.rendering.own_words import in_words, own
from runs.models import Pause
from runs.workflows.sequence import REVISE
from runs.workflows.wait_for_input import ANSWER

TITLE, LABEL, HINT, CHOICE = 24, 1_900, 1_900, 75
"""Characters that Slack takes."""
ENTRIES, CHOICES = 50, 100
FEEDBACK, ENTRY = "feedback", "entry"
WORDS = 3_000
"""Characters of one entry."""


@dataclass(frozen=True)
class Asked:
    """What a form is about: it comes back with what was filled in."""

    pause: str
    revision: int
    action: str

    def __str__(self) -> str:
        return json.dumps([self.pause, self.revision, self.action])


def asked_by(view: Mapping[str, Any]) -> Asked | None:
    """What a form that came back is about; None where it does not say."""
    try:
        pause, revision, action = json.loads(str(view.get("private_metadata")))
        return Asked(str(pause), int(revision), str(action))
    except (ValueError, TypeError):
        return None


def form_for(pause: Pause, asked: Asked) -> dict[str, Any] | None:
    """The form of an answer; None where it has entries that Slack has not."""
    blocks: list[dict[str, Any]] = []
    data = pause.wants_data(asked.action)
    if data:
        fields = _fields(pause)
        entries = [_entry(field) for field in fields]
        if not fields or len(fields) > ENTRIES or None in entries:
            return None
        blocks = [entry for entry in entries if entry]
    needs = {REVISE, *pause.review.get("reason_required", [])}
    if asked.action in needs or (asked.action == ANSWER and not data):
        label = (
            gettext("What should change")
            if asked.action == REVISE
            else gettext("Your answer, or the reason")
        )
        blocks.append(_input(FEEDBACK, label, _lines(), optional=False))
    return {
        **window(gettext("Answer"), []),
        "submit": plain_text(answers.label_of(pause, asked.action), TITLE),
        "callback_id": "answer",
        "private_metadata": str(asked),
        "blocks": [_section(own(pause.question)), *blocks],
    }


def connecting() -> dict[str, Any]:
    """The form that takes the code of one's own page."""
    hint = gettext("Waystation shows it under Menu > Notifications > Chat accounts.")
    entry = {"type": "plain_text_input", "action_id": ENTRY, "max_length": 100}
    return {
        **window(gettext("Connect"), []),
        "submit": plain_text(gettext("Connect"), TITLE),
        "callback_id": "connect",
        "blocks": [_input("code", gettext("Code"), entry, optional=False, hint=hint)],
    }


def window(title: str, texts: list[str]) -> dict[str, Any]:
    """A window that says something."""
    return {
        "type": "modal",
        "title": plain_text(title, TITLE),
        "close": plain_text(gettext("Close"), TITLE),
        "blocks": [_section(text) for text in texts],
    }


def written(view: Mapping[str, Any], name: str) -> str:
    """The text of one entry."""
    return str(_state(view, name).get("value") or "")


def payload_in(view: Mapping[str, Any], pause: Pause) -> Any:
    """The data that a form that came back stands for."""
    data = MultiValueDict[str, str]()
    for field in _fields(pause):
        values = _values(field, _state(view, field.name))
        if values:
            data.setlist(field.name, values)
    return SchemaForm(pause.required_inputs, data, pause.known).payload


def errors_at(errors: Mapping[str, list[str]], pause: Pause) -> dict[str, str]:
    """What is wrong, at the entries that it is about; the first entry has what belongs to none."""
    fields = _fields(pause) if pause.required_inputs else []
    names = {f"input.{field.path}": field.name for field in fields} | {"feedback": FEEDBACK}
    first = fields[0].name if fields else FEEDBACK
    found: dict[str, str] = {}
    for path, texts in errors.items():
        name = names.get(path) or names.get(".".join(path.split(".")[:2])) or first
        found[name] = f"{found.get(name, '')} {' '.join(texts)}".strip()[:HINT]
    return found


def _fields(pause: Pause) -> list[FormField]:
    return SchemaForm(in_words(pause.required_inputs), initial=pause.known).fields


def _entry(field: FormField) -> dict[str, Any] | None:
    """One entry; {} where nothing is to be filled in, None where Slack has none for it."""
    element: dict[str, Any]
    match field.kind:
        case "fixed":
            return {}
        case "text" | "whole" | "number" | "time" | "moment":
            element = {"type": "plain_text_input", "max_length": WORDS}
        case "long" | "lines":
            element = _lines()
        case "date":
            element = {"type": "datepicker"}
        case "check":
            element = {
                "type": "checkboxes",
                "options": [_option(field.label or gettext("Yes"), "true")],
            }
        case "one" | "several" if 0 < len(field.options) <= CHOICES and not field.other:
            several = field.kind == "several"
            element = {
                "type": "multi_static_select" if several else "static_select",
                "options": [
                    _option(option.label, str(place)) for place, option in enumerate(field.options)
                ],
            }
        case _:
            return None
    if len(field.value) > WORDS:
        return None  # it would come back cut
    element |= {**_begun(field, element), "action_id": ENTRY}
    optional = not field.required or field.kind == "check"
    return _input(
        field.name, field.label or gettext("Answer"), element, optional=optional, hint=field.help
    )


def _begun(field: FormField, element: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry shows before anybody touched it: what is sent untouched is what was known."""
    kind, options = element["type"], element.get("options", [])
    if kind == "checkboxes":
        return {"initial_options": options} if field.value else {}
    if kind == "datepicker":
        return {"initial_date": field.value} if field.value else {}
    chosen = [option for option, known in zip(options, field.options, strict=False) if known.chosen]
    if kind == "multi_static_select":
        return {"initial_options": chosen} if chosen else {}
    if kind == "static_select":
        return {"initial_option": chosen[-1]} if chosen else {}
    return {"initial_value": field.value} if field.value else {}


def _values(field: FormField, state: Mapping[str, Any]) -> list[str]:
    """What was filled in, as a browser would post it."""
    one = state.get("selected_option")
    several = state.get("selected_options")
    chosen = several if isinstance(several, list) else [one] if isinstance(one, Mapping) else []
    places = [str(option.get("value")) for option in chosen if isinstance(option, Mapping)]
    if field.kind in {"one", "several"}:
        known = {str(place): option.value for place, option in enumerate(field.options)}
        return [known[place] for place in places if place in known]
    if field.kind == "check":
        return places[:1]
    text = state.get("selected_date") or state.get("value")
    return [str(text)] if text else []


def _state(view: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    at: Any = view
    for key in ("state", "values", name, ENTRY):
        at = at.get(key) if isinstance(at, Mapping) else None
    return at if isinstance(at, Mapping) else {}


def _lines() -> dict[str, Any]:
    return {"type": "plain_text_input", "action_id": ENTRY, "multiline": True, "max_length": WORDS}


def _input(
    name: str, label: str, element: dict[str, Any], *, optional: bool, hint: str = ""
) -> dict[str, Any]:
    made = {"type": "input", "block_id": name[:255], "label": plain_text(label, LABEL),
            "element": element, "optional": optional}  # fmt: skip
    return {**made, "hint": plain_text(hint, HINT)} if hint else made


def _option(label: str, value: str) -> dict[str, Any]:
    return {"text": plain_text(label, CHOICE), "value": value}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": plain_text(text, WORDS)}
