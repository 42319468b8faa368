"""A field of the pause card is in every place that has to know it: CONTRIBUTING.md, "Add a field to
the pause card".
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hitl.api.pauses.fields import PauseOut
from hitl.ledger import evidence
from hitl.testing import reading
from hitl.threads import document
from runs.models import Pause

ROOT = Path(__file__).resolve().parents[3]
CARD = ("hitl/pauses/_*.html", "hitl/orders/_what_next.html")
RECEIPT = ("hitl/pauses/receipt.html",)

Elsewhere = Mapping[str, str]
"""Field → where it stands under another name, or why it stands nowhere."""
OF_REST = {"labels": "answers", "outside": "asked_outside"}
OF_CARD = {
    "summary": "the rows of the inbox",
    "step": "the page's own steps",
    "known": "what the form begins with",
    "answers_without_input": "which answers take the form along",
}  # fmt: skip
OF_RECEIPT = {
    "summary": "the content says it whole",
    "phase": "follows from the step", "kind": "said by what was asked for",
    "content_digest": "the decision's own", "revision": "the decision's own",
    "max_revisions": "was a limit, and is none any more", "answers": "the decision says which",
    "labels": "the decision says which", "known": "in the decision's data",
    "answers_without_input": "says only where the form goes along",
    "attempts": "in the log", "refined": "in the log",
    "outside": "the decision says who",
}  # fmt: skip
OF_KIT = {
    "question": "title", "labels": "by name there", "required_inputs": "schema",
    "content_digest": "the kit answers what is there", "max_revisions": "the work says so",
    "answers_without_input": "the kit sends what is given",
    "attempts": "the kit raises", "refined": "the kit raises",
    "outside": "no mail goes out",
}  # fmt: skip


def of_templates(prefix: str, places: tuple[str, ...]) -> set[str]:
    texts = [path.read_text() for place in places for path in (ROOT / "templates").glob(place)]
    return set(re.findall(rf"\b{prefix}\.(\w+)", "\n".join(texts)))


def of_rest() -> set[str]:
    return set(PauseOut.Meta.fields) | {str(field.source) for field in PauseOut().fields.values()}


PLACES: dict[str, tuple[Callable[[], set[str]], Elsewhere]] = {
    "the evidence of a decision (hitl/ledger/evidence.py)": (lambda: set(evidence.SHOWN), {}),
    "the document of a thread (hitl/threads/document.py)": (lambda: set(document.PAUSE), {}),
    "REST (hitl/api/pauses/fields.py)": (of_rest, OF_REST),
    "the card (templates/hitl/pauses)": (lambda: of_templates("pause", CARD), OF_CARD),
    "the receipt (templates/hitl/pauses/receipt.html)": (
        lambda: of_templates("shown", RECEIPT),
        OF_RECEIPT,
    ),
    "the kit (hitl/testing/reading.py)": (
        lambda: {field.name for field in dataclasses.fields(reading.Question)},
        OF_KIT,
    ),
}


def forgotten(fields: tuple[str, ...]) -> list[str]:
    """Field and place, for each place that does not know a field."""
    return [
        f"{field}: {place}"
        for place, (known, elsewhere) in PLACES.items()
        for field in fields
        if field not in known() and field not in elsewhere
    ]


def test_every_field_of_the_card_is_in_each_place() -> None:
    assert forgotten(Pause.CARD) == []


@pytest.mark.parametrize("place", PLACES)
def test_a_forgotten_place_is_named(place: str) -> None:
    assert f"mood: {place}" in forgotten((*Pause.CARD, "mood"))


def test_no_exception_is_left_behind() -> None:
    """What a place knows by now, or no card has, needs no exception."""
    for known, elsewhere in PLACES.values():
        assert set(elsewhere) <= set(Pause.CARD) - known()
