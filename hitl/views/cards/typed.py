"""What somebody typed on a card: told apart from what stood there before, so that no word is
dropped without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext, gettext_noop

from hitl.forms.answers import DecisionForm
from hitl.forms.json_schema import SchemaForm
from hitl.forms.tool_calls import CallsForm, form_of
from runs.models import Pause
from runs.workflows.sequence import REVISE
from runs.workflows.tool_calls import REJECT, RESPOND

Words = list[tuple[str, str]]
"""What a field is called, and what was typed into it."""
REASON, WISH, EDIT = (
    gettext_noop("Reason"),
    gettext_noop("Feedback for the revision"),
    gettext_noop("Your edit of the text"),
)


def words_of(
    pause: Pause,
    form: DecisionForm | None,
    inputs: SchemaForm | CallsForm | None,
    known: Mapping[str, Any] | None,
) -> Words:
    """All that was typed; `known` is what the form of the data began with."""
    own = (
        [
            (gettext(REASON), form.typed_reason),
            (gettext(WISH), form.whole_wish),
            (gettext(EDIT), form.edit_of(pause) or ""),
        ]
        if form is not None
        else []
    )
    return [(label, text) for label, text in own if text.strip()] + _data(pause, inputs, known)


def edits_of(pause: Pause, form: DecisionForm, inputs: SchemaForm | CallsForm | None) -> int:
    """How many lines of the content, and arguments of calls, were changed."""
    text = form.edit_of(pause)
    lines = 0 if text is None else _changed_lines(pause.content, text)
    return lines + (inputs.changed if isinstance(inputs, CallsForm) else 0)


def _changed_lines(before: str, after: str) -> int:
    """As static/js/card.js counts them: lines that one of both has and the other has not."""
    old, new = (
        Counter(filter(str.strip, text.replace("\r\n", "\n").split("\n")))
        for text in (before, after)
    )
    return max(1, (old - new).total(), (new - old).total())


def left_by(
    pause: Pause,
    form: DecisionForm,
    inputs: SchemaForm | CallsForm | None,
    known: Mapping[str, Any] | None,
    *,
    goes_on: bool,
) -> Words:
    """What an answer takes no notice of; `goes_on` says whether it lets the run go on.

    The form is valid.
    """
    action = form.cleaned_data["action"]
    left = []
    if action == REVISE and form.typed_wish.strip():
        left.append((gettext(REASON), form.typed_reason))
    if action != REVISE:
        left.append((gettext(WISH), form.whole_wish))
    if not goes_on:
        left.append((gettext(EDIT), form.edit_of(pause) or ""))
    left = [(label, text) for label, text in left if text.strip()]
    if not pause.wants_data(action):
        return left + _data(pause, inputs, known)
    not_made = (
        [row for row in inputs.rows if row.decision in {REJECT, RESPOND}]
        if isinstance(inputs, CallsForm)
        else []
    )
    return left + [
        (f"{row.call['tool']}: {part.label}", part.text)
        for row in not_made
        for part in row.parts
        if part.text.strip() != part.before.strip()
    ]


def _data(
    pause: Pause, inputs: SchemaForm | CallsForm | None, known: Mapping[str, Any] | None
) -> Words:
    if inputs is None or inputs.data is None:
        return []
    before = {name: text for name, _, text in _entries(form_of(pause, known=known))}
    return [
        (label, text)
        for name, label, text in _entries(inputs)
        if text.strip() and text.strip() != before.get(name, "").strip()
    ]


def _entries(form: SchemaForm | CallsForm | None) -> Iterator[tuple[str, str, str]]:
    """Name, label and text of each field that somebody may fill in."""
    if isinstance(form, CallsForm):
        for row in form.rows:
            tool = row.call["tool"]
            yield f"{row.name}.decision", tool, dict(row.choices).get(row.decision, "")
            yield f"{row.name}.reason", f"{tool}: reason", row.reason
            yield f"{row.name}.result", f"{tool}: result", row.result
            yield from ((part.name, f"{tool}: {part.label}", part.text) for part in row.parts)
    elif form is not None:
        for field in form.root.each():
            if field.kind in {"group", "rows", "fixed"}:
                continue
            chosen = [option.label for option in field.options if option.chosen]
            text = (
                "yes"
                if field.kind == "check" and field.value
                else ", ".join([*chosen, field.value] if field.value else chosen)
            )
            yield field.name, field.label or field.path, text
