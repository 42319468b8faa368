"""Words of ours that are stored in English have German ones, and pages in German show them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from babel.messages.pofile import read_po
from django.test import Client

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


@pytest.mark.parametrize("known", sorted({*LABELS, *RULES, *FAULTS, *WITHIN}))
def test_each_has_german_words(known):
    assert GERMAN[known].string


def test_what_authors_say_stays():
    assert own("Ship it?") == "Ship it?"
    said = {"enum": ["title"], "properties": {"title": {"title": "Mine", "const": "Risk"}}}
    assert in_words(said) == said


VISIBLE = re.compile(r"<(script|style|svg|template)\b.*?</\1>|<[^>]+>", re.S)
SAID = re.compile(r'(?:aria-label|title|placeholder)="([^"]*)"')


@pytest.mark.django_db
def test_pages_in_german_show_no_text_of_ours_in_english(paused, make_order, ana, templates):
    """Each line of a page is compared with what the catalogue has German words for."""
    ana.is_superuser = ana.is_staff = True
    ana.save()
    reader = Client(headers={"accept-language": "de"})
    reader.force_login(ana)
    english = {
        str(message.id)
        for message in GERMAN
        if isinstance(message.id, str) and message.string and message.string != message.id
    }
    english -= {str(message.string) for message in GERMAN if isinstance(message.string, str)} | {""}
    english = {text for text in english if not text.islower() or " " in text}  # names in code
    english -= {"Check"}  # a step's title in the template of the tests, too
    left = {}
    for address in (
        "/", "/work-orders/", f"/work-orders/{paused.shown_id}/", "/work-orders/new",
        f"/work-orders/{paused.shown_id}/picture", "/threads/", "/templates/", "/templates/steps",
        "/templates/repo-tidy/", "/templates/new", "/operations/?invariants",
        "/operations/failures/", "/decisions/", "/views/", "/schedules/", "/inbound/",
        "/deliveries/", "/delegations/", "/notifications/",
        "/tokens/", "/tools/", "/limits/",
    ):  # fmt: skip
        answer = reader.get(address)
        assert answer.status_code == 200, address
        page = answer.content.decode()
        page = re.sub(r'<(\w+)[^>]* lang="en"[^>]*>.*?</\1>', "", page, flags=re.S)
        said = [*VISIBLE.sub("\n", page).split("\n"), *SAID.findall(page)]
        if found := english & {line.strip() for line in said}:
            left[address] = sorted(found)
    assert left == {}
