"""What the invariants say of the database, and an order that has been through everything."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.operations import invariants
from tests.conftest import drive, fresh, pause_of
from tests.worlds.scripted_step import order_that as order_that


def broken(**options):
    """Code → shown ids, of what does not hold."""
    found = invariants.check(now=timezone.now(), deep=True, **options)
    return {result.invariant.code: list(result.ids) for result in found if result.count}


def command(*words):
    """(exit code, output)"""
    out = StringIO()
    try:
        call_command("invariants", *words, stdout=out)
    except SystemExit as ended:
        return ended.code, out.getvalue()
    return 0, out.getvalue()


def answer(order, by, action="approve", feedback=""):
    return services.decide(pause_of(order).pk, Answer(action, Via.PAGE, feedback=feedback), by=by)


@pytest.fixture
def finished(paused, ana, ben):
    """An order that was sent back twice, approved throughout and completed."""
    answer(paused, ana, "revise", "More words")
    drive(paused)
    for action, feedback in (
        ("approve", ""),
        ("revise", "Less"),
        ("approve", ""),
        ("revise", "Again"),
        ("approve", ""),
        ("approve", ""),
    ):
        answer(paused, ben, action, feedback)
        drive(paused)
    order = fresh(paused)
    assert order.status == "completed"
    assert broken() == {}
    return order
