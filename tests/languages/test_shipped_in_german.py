"""What ships, on its pages in German: templates, questions of each kind, answers and ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from extensions.booking import templates as booking
from extensions.chat import templates as chat
from extensions.coding import templates as coding
from extensions.repo_tidy import templates as repo_tidy
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from runs.engine.advance import advance
from runs.models import Pause, WorkOrder
from tests.conftest import drive, fresh, pause_of
from tests.languages import leftovers
from tests.worlds.books import invoices
from tests.worlds.books.booking import House, sent
from tests.worlds.repositories import UNTIDY, make_repository

pytestmark = pytest.mark.django_db
MODULES = (booking, chat, coding, repo_tidy)
NAMES = {
    *("Greet the world", "Add a greeting", "Mine", "without", "writing"),
    *("Migration workshop, two days", "Copy paper", "box of", "extract, invoice", "Office plants"),
    *("Office supplies", "Legal and consulting", "Telephone and internet"),
    *("Writing", "Crash", "-crash", ", crash", ", fail", ", unserialisable", "at once"),
    *(
        "planning",
        "execute",
        "deliver",
        "extract",
        "validate",
        "enrich",
        "decide",
        "command",
        "writing v1",
    ),
    *("unsorted-imports", "Write", "design", "risks"),
}
"""What the tests, rules and tools call things, and steps, by which programs know them."""


@pytest.fixture
def reader(ana) -> Client:
    ana.is_superuser = ana.is_staff = True
    ana.save()
    client = Client(headers={"accept-language": "de"})
    client.force_login(ana)
    return client


def left_on(reader: Client, addresses: Iterable[str]) -> dict[str, str]:
    """English on these pages, with the first that has it."""
    left: dict[str, str] = {}
    for address in addresses:
        answer = reader.get(address)
        assert answer.status_code == 200, address
        for line in leftovers.of_page(answer.content.decode(), NAMES):
            left.setdefault(line, address)
    return left


def nothing(left: dict[str, str]) -> None:
    assert not left, "\n".join(f"{line}  {address}" for line, address in sorted(left.items()))


def pages_of(order: WorkOrder) -> list[str]:
    here = f"/work-orders/{order.shown_id}"
    receipts = Decision.objects.filter(pause__run__work_order=order)
    places = [f"{here}/", f"{here}/picture", f"{here}/why", "/", "/decisions/"]
    return [*places, *(f"/decisions/{decision.shown_id}/" for decision in receipts)]


@pytest.mark.usefixtures("templates")
def test_templates(reader):
    kinds = {slug for one in MODULES for slug in one.STEP_TEMPLATES}
    wholes = {slug for one in MODULES for slug in one.TEMPLATES}
    addresses = [f"/templates/steps/{slug}/{more}" for slug in kinds for more in ("", "texts")]
    addresses += [
        f"/templates/{slug}/{more}" for slug in wholes for more in ("", "versions", "dry-run")
    ]
    addresses += [f"/work-orders/new?template={slug}" for slug in wholes]
    nothing(left_on(reader, addresses))


@pytest.mark.parametrize(
    "invoice",
    [
        "correct",
        "without_order",
        "without_vat_id",
        "wrong_total",
        "unknown_supplier",
        "credit_note",
    ],
)
def test_bookings(reader, make_order, settings, tmp_path, ana, invoice):
    settings.WAYSTATION_SHARED = tmp_path / "shared"
    house = House(make_order, tmp_path, ana)
    with translation.override("de"):  # as a request of theirs is
        order = make_order("smart-booking", input=sent(getattr(invoices, invoice)()))
    order = drive(order)
    assert order.title.startswith("Eine Rechnung buchen: ")
    left = left_on(reader, pages_of(order))
    for pause in Pause.objects.open().filter(run__thread=order.thread_id):
        last = list(pause.answers)[-1]
        house.answer(order, action=last)
        left |= left_on(reader, pages_of(fresh(order)))
    nothing(left)


def test_tidying(reader, make_order, tmp_path, ana):
    origin = make_repository(tmp_path / "origin", UNTIDY)
    order = drive(make_order("repo-tidy", title="Mine", repository_url=str(origin)))
    left = left_on(reader, pages_of(order))
    for action in ("revise", "approve", "approve", "approve"):
        feedback = "without F401" if action == "revise" else ""
        answer = Answer(action, Via.PAGE, feedback=feedback)
        services.decide(pause_of(order).pk, answer, by=ana)
        order = drive(order)
        left |= left_on(reader, pages_of(fresh(order)))
    assert order.status == "completed"
    nothing(left)


def test_coding(reader, make_order, settings, tmp_path, ana):
    agent = Path(__file__).parents[1] / "programs" / "coder.py"
    (tmp_path / "control").mkdir()
    command = [sys.executable, str(agent), str(tmp_path / "control")]
    config = {"command": command, "stdin": True, "output": "claude-code"}
    settings.WAYSTATION_CODER = str(tmp_path / "coder.json")
    (tmp_path / "coder.json").write_text(json.dumps(config))
    origin = make_repository(tmp_path / "project", {"README.md": "# Project\n"})
    order = make_order(
        "advanced-dev-workflow",
        title="Add a greeting", request="Greet the world", repository_url=str(origin),
    )  # fmt: skip
    left: dict[Any, Any] = {}
    for _ in range(4):
        first = fresh(order).latest_run_id
        assert first is not None
        waiting = [first]
        while waiting:
            waiting += [run_id for run_id, _ in advance(waiting.pop(0), budget=60)]
        left |= left_on(reader, pages_of(fresh(order)))
        if (pause := Pause.objects.open().filter(run__thread=order.thread_id).first()) is None:
            break
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    assert fresh(order).status == "completed"
    nothing(left)
