"""Words of ours that are stored in English have German ones."""

from __future__ import annotations

from typing import Any

from babel.messages.pofile import read_po

from extensions.booking import templates as booking
from extensions.chat import templates as chat
from extensions.coding import templates as coding
from extensions.repo_tidy import templates as repo_tidy
from hitl.rendering.catalogues import ROOT
from hitl.rendering.own_words import in_words, own
from hitl.rendering.own_words.labels import LABELS
from hitl.rendering.own_words.rules import RULES
from hitl.rendering.own_words.sentences import FAULTS, WITHIN
from runs import phases
from runs.definitions.editing import fields
from runs.models.frequency import Frequency
from runs.workflows.sequence import HEADINGS, PHASES

with (ROOT / "de/LC_MESSAGES/django.po").open("rb") as _file:
    GERMAN = read_po(_file)


def texts_of(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(texts_of, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema[name] for name in ("title", "description") if isinstance(schema.get(name), str)}
    return own.union(*map(texts_of, schema.values()))


def test_every_title_and_help_of_the_editor_is_known():
    shown = texts_of(fields.of_step(["a"], {})) | texts_of(fields.of_template())
    shown -= {str(title) for title in HEADINGS.values()}
    labels = {str(label) for label in Frequency.labels}
    assert shown - labels - {*RULES, *LABELS} == set()


def test_what_ships_is_known():
    """Titles of steps and of templates, and further answers."""
    modules = (booking, chat, coding, repo_tidy)
    kinds = {kind["title"] for one in modules for kind in one.STEP_TEMPLATES.values()}
    wholes = [template for one in modules for template in one.TEMPLATES.values()]
    steps = [step for template in wholes for step in template["steps"]]
    labels = {choice["label"] for step in steps for choice in step.get("choices", [])}
    assert kinds | labels | {template["title"] for template in wholes} <= {*LABELS}
    assert {*HEADINGS.values()} <= {*LABELS}
    assert {*PHASES.values(), *HEADINGS} <= {*phases.WORDS}


def test_each_has_german_words():
    texts = {*LABELS, *RULES, *FAULTS, *WITHIN}
    assert {text for text in texts if text not in GERMAN or not GERMAN[text].string} == set()


def test_what_authors_say_stays():
    assert own("Ship it?") == "Ship it?"
    said = {"enum": ["title"], "properties": {"title": {"title": "Mine", "const": "Risk"}}}
    assert in_words(said) == said
