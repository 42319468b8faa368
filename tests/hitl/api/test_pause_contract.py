"""The pause contract of S4 where no other test names it: columns, indexes, phases, routes, and what
an answer refreshes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection
from django.db.models import ProtectedError
from django.urls import get_resolver

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs.models import Pause, WorkOrder
from tests.conftest import drive, fresh, pause_of

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[3]


def approve(order, by):
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=by)
    return drive(order)


def test_open_pauses_and_the_pauses_of_a_run_have_an_index_each(db):
    """S4-14."""
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, Pause._meta.db_table)
    assert {"pause_open_by_age", "pause_by_run", "pause_one_open_per_run"} <= found.keys()
    assert found["pause_one_open_per_run"]["unique"]


def test_an_order_with_history_is_not_deleted_piecemeal(paused):
    """S4-15, C4: history is kept; the database refuses to drop an order from under its pauses."""
    with pytest.raises(ProtectedError):
        WorkOrder.objects.get(pk=paused.pk).delete()


def test_an_order_carries_the_context_it_is_resumed_from_and_what_its_steps_showed(
    paused, ana, api
):
    """S4-17, S4-18: before, the outputs of steps were not in it."""
    client, url = api(ana), f"/api/v1/work-orders/{paused.shown_id}"
    order = client.get(url).json()
    data = order["checkpoint_data"]
    assert (data["node_id"], data["status"], data["completed_nodes"], data["total_nodes"]) == (
        "planning",
        "pending_input",
        1,
        4,
    )
    assert order["last_checkpoint"] == "awaiting_plan_approval"
    first = pause_of(paused)
    assert data["step_outputs"] == {
        "planning": {"pause_id": first.shown_id, "revision": 1, "content": first.content}
    }
    services.decide(first.pk, Answer("revise", Via.REST, feedback="shorter"), by=ana)
    services.decide(pause_of(drive(paused)).pk, Answer("approve", Via.REST), by=ana)
    done = pause_of(drive(paused))
    data = client.get(url).json()["checkpoint_data"]
    assert list(data["step_outputs"]) == ["planning", done.step]
    assert (
        data["step_outputs"]["planning"]["revision"] == 2
        and data["step_outputs"][done.step]["content"] == done.content
    )
    assert data["outputs"] == fresh(paused).outputs
    [listed] = client.get("/api/v1/work-orders").json()["results"]
    assert (
        "step_outputs" not in listed["checkpoint_data"]
        and listed["checkpoint_data"]["outputs"] == data["outputs"]
    )


def test_every_route_of_a_work_order_lies_under_its_own_address():
    """S4-34."""
    routes = {
        str(entry.pattern)
        for part in get_resolver().url_patterns
        if hasattr(part, "url_patterns")
        for entry in part.url_patterns
    }
    names = {"", "/pause-state", "/resume", "/cancel", "/retry", "/suspend"}
    assert {f"work-orders/<wo:order_id>{name}" for name in names} <= routes


def test_one_command_checks_style_and_types_and_one_runs_the_tests():
    """S4-54, S4-55, S4-73: CI calls just these two."""
    commands = [
        line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make")
    ]
    assert commands == ["make check", "make test"]
    check = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    for tool in (
        "ruff format --check",
        "ruff check",
        "mypy",
        "lint-imports",
        "makemigrations --check",
        "spectacular --validate",
    ):
        assert tool in check
