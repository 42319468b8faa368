"""Versions of a step beside each other: new work takes the highest, runs under way finish on their
own (P10).
"""

from __future__ import annotations

import pytest

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs.definitions import compatibility
from runs.models import Run
from runs.workflows import registry
from runs.workflows.base import Go
from runs.workflows.registry import UnknownStep, find, latest_version
from tests.conftest import drive, fresh, log_lines, pause_of
from tests.worlds import steps
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db


def work_2(state, context):
    return Go(update={"made": "by version 2"})


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """What these tests register is gone after them."""
    for name in ("_STEPS", "_TRAITS", "_LATEST"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))


def approve(order, by, *, times=1):
    for _ in range(times):
        services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=by)
        order = drive(order)
    return order


def test_a_paused_run_finishes_on_its_version_and_new_work_takes_the_new_one(make_order, ana):
    """P10: an author changes a step and touches nothing that waits; nothing counts as changed."""
    paused = drive(make_order())
    registry.step("test.work", version=2)(work_2)
    assert {found.verdict for found in compatibility.report()} == {"compatible"}
    paused = approve(paused, ana)
    assert "made" not in state_of(paused)
    assert [step for step, _ in steps.CALLS] == ["planning", "execute"]
    new = approve(drive(make_order()), ana)
    assert state_of(new)["made"] == "by version 2"
    [frozen] = [step for step in new.definition.steps if step["name"] == "execute"]
    assert (frozen["function"], frozen["function_version"]) == ("test.work", 2)
    assert not [line for line in log_lines(paused) + log_lines(new) if "has changed" in line]


def test_a_run_whose_version_is_gone_is_held_and_says_which_one_it_needs(
    make_order, ana, monkeypatch
):
    """Nothing is lost, and the run goes on by itself when a worker has that version again."""
    registry.step("test.work", version=2)(work_2)
    order = drive(make_order())
    registry.step("test.work", version=3)(steps.work)
    monkeypatch.delitem(registry._STEPS, "test.work@2")
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    order = drive(order)
    assert order.status == "pending"
    assert "'test.work', version 2, which the code" in order.latest_run.held_because
    monkeypatch.setitem(registry._STEPS, "test.work@2", work_2)
    Run.objects.update(due_at=order.created_at)
    assert state_of(drive(fresh(order)))["made"] == "by version 2"


def test_versions_are_found_by_number_and_refused_where_they_make_no_sense():
    """What a step says of itself is that of its highest version, in whatever order they come."""
    registry.step("test.three", version=3, loops=True)(work_2)
    registry.step("test.three")(steps.work)
    assert latest_version("test.three") == 3
    assert (find("test.three"), find("test.three", 1)) == (work_2, steps.work)
    assert registry.traits_of("test.three").loops
    with pytest.raises(UnknownStep, match=r"test\.three@2"):
        find("test.three", 2)
    with pytest.raises(ValueError, match=r"are called 'test\.three@3'"):
        registry.step("test.three", version=3)(steps.work)
    for name, version in (("test.four", 0), ("test@four", 1)):
        with pytest.raises(ValueError, match="versions from 1 on"):
            registry.step(name, version=version)
