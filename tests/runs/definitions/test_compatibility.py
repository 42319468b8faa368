"""`manage.py check_inflight` (P10): runs under way, against code that is not the code they were
frozen with.
"""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs.definitions import compatibility
from runs.definitions.readiness import CannotRun
from runs.models import Definition, WorkOrder
from runs.workflows.code.fingerprint import fingerprint
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import rows
from tests.worlds import steps

pytestmark = pytest.mark.django_db


def command(*words):
    """(exit code, output)"""
    out = StringIO()
    try:
        call_command("check_inflight", *words, stdout=out)
    except SystemExit as ended:
        return ended.code, out.getvalue()
    return 0, out.getvalue()


def answered(order, by, *actions):
    for action in actions:
        drive(order)
        services.decide(pause_of(order).pk, Answer(action, Via.PAGE), by=by)
    return fresh(order)


def verdicts():
    return [(found.verdict, found.steps, found.count) for found in compatibility.report()]


def test_a_definition_holds_what_its_steps_do(make_order):
    frozen = make_order().definition.steps
    functions = [steps.plan, steps.work, steps.check, steps.finish]
    assert [step["fingerprint"] for step in frozen] == [
        fingerprint(function) for function in functions
    ]


def test_new_code_makes_a_new_definition_for_new_orders_only(make_order, monkeypatch):
    before = make_order()
    steps.deploy(monkeypatch, work=steps.check)
    assert make_order().definition_id != before.definition_id == fresh(before).definition_id


def test_nothing_under_way_is_nothing_to_report(db):
    assert compatibility.report() == []
    assert command() == (0, "Runs under way: 0. Of them 0 would not go on as they were meant to.\n")


def test_runs_go_on_with_the_code_they_were_made_with(paused, make_order):
    order = make_order()
    assert verdicts() == [("compatible", (), 2)]
    [found] = compatibility.report()
    assert (found.definition, found.template) == (order.definition_id, "writing v1")
    assert found.runs == (paused.latest_run.shown_id, order.latest_run.shown_id)


def test_a_changed_step_that_is_ahead_is_named(paused, monkeypatch):
    steps.deploy(monkeypatch, work=steps.check)
    assert verdicts() == [("changed", ("execute",), 1)]
    steps.deploy(monkeypatch, finish=steps.work)
    assert verdicts() == [("changed", ("execute", "finish"), 1)]


def test_a_step_that_is_behind_does_not_count(paused, ana, monkeypatch):
    steps.deploy(monkeypatch, plan=steps.work)
    assert verdicts() == [("changed", ("planning",), 1)]
    answered(paused, ana, "approve")
    assert verdicts() == [("compatible", (), 1)]


def test_a_step_that_an_answer_may_lead_back_to_is_ahead(paused, ana, monkeypatch):
    """The review may be sent back to the execution."""
    drive(answered(paused, ana, "approve", "approve"))
    steps.deploy(monkeypatch, work=steps.plan)
    assert fresh(paused).phase == "awaiting_review_decision"
    assert verdicts() == [("changed", ("execute",), 1)]
    answered(paused, ana, "approve")
    assert verdicts() == [("compatible", (), 1)]


def test_what_lies_behind_an_interrupt_does_not_count(make_order, monkeypatch):
    drive(make_order("writing-quick", interrupt_before=["execute"]))
    steps.deploy(monkeypatch, plan=steps.work)
    assert verdicts() == [("compatible", (), 1)]
    steps.deploy(monkeypatch, work=steps.plan)
    assert verdicts() == [("changed", ("execute",), 1)]


def test_runs_of_one_definition_are_judged_by_where_they_are(make_order, ana, monkeypatch):
    early, late = make_order(), make_order()
    answered(late, ana, "approve", "skip_review")
    steps.deploy(monkeypatch, work=steps.plan)
    changed, well = compatibility.report()
    assert (changed.verdict, changed.runs) == ("changed", (early.latest_run.shown_id,))
    assert (well.verdict, well.runs) == ("compatible", (late.latest_run.shown_id,))
    assert changed.definition == well.definition


def test_a_step_that_is_gone_is_missing(paused, monkeypatch):
    steps.deploy(monkeypatch, finish=None, work=steps.plan)
    assert verdicts() == [("missing", ("finish",), 1)]


def test_an_order_on_a_step_that_is_gone_is_refused_and_nothing_is_made(
    templates, make_order, monkeypatch
):
    """P10: by a server that knows it; a worker that has it no more holds the run."""
    steps.deploy(monkeypatch, plan=None)
    with pytest.raises(CannotRun, match=r"test\.plan") as refused:
        make_order()
    assert (
        refused.value.code == "step_unknown" and not WorkOrder.objects.exists() and verdicts() == []
    )


def test_runs_from_before_fingerprints_are_unknown(paused):
    definition = Definition.objects.get()
    before = [
        {key: value for key, value in step.items() if key != "fingerprint"}
        for step in definition.steps
    ]
    content = {**definition.content, "steps": before}
    Definition.objects.update(content=content)
    assert verdicts() == [("unknown", ("planning", "execute", "review", "finish"), 1)]
    assert command()[0] == 0


def test_runs_that_have_ended_do_not_count(make_order, ana, monkeypatch):
    drive(make_order("writing-quick"))
    drive(make_order("writing-fail"))
    cancelled = make_order()
    services.cancel_order(cancelled.pk, by=ana, via=Via.PAGE)
    steps.deploy(monkeypatch, plan=None)
    assert compatibility.report() == []


def test_many_runs_cost_no_more_queries_than_one(make_order, monkeypatch):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            compatibility.report()
        return len(captured)

    make_order()
    one = queries()
    for _ in range(14):
        make_order()
    assert queries() == one
    steps.deploy(monkeypatch, plan=None)
    [found] = compatibility.report()
    assert (found.count, len(found.runs)) == (15, 10)
    assert ", …" in command()[1]


def test_the_command_says_a_line_for_each_and_ends_with_one_on_a_breach(
    paused, make_order, monkeypatch
):
    drive(make_order("writing-quick"))
    before = rows()
    code, text = command()
    digest, run = paused.definition_id[:12], paused.latest_run.shown_id
    assert (code, text.splitlines()[0]) == (0, f"writing v1 {digest}: compatible, 1: {run}")
    steps.deploy(monkeypatch, check=steps.work)
    code, text = command()
    assert (code, text.splitlines()) == (
        1,
        [
            f"writing v1 {digest}: changed (review), 1: {run}",
            "Runs under way: 1. Of them 1 would not go on as they were meant to.",
        ],
    )
    assert rows() == before


def test_the_command_names_the_steps_that_would_hold_their_runs(paused, monkeypatch, settings):
    settings.WAYSTATION_ON_CHANGE = "hold"
    steps.deploy(monkeypatch, check=steps.work)
    assert ": changed (review: hold), 1: " in command()[1]
    assert json.loads(command("--json")[1])["found"][0]["held"] == ["review"]


def test_the_json_is_one_document(paused, monkeypatch):
    found = {
        "definition": paused.definition_id,
        "template": "writing v1",
        "held": [],
        "count": 1,
        "runs": [paused.latest_run.shown_id],
    }
    code, text = command("--json")
    assert (code, json.loads(text)) == (
        0,
        {"ok": True, "found": [{**found, "verdict": "compatible", "steps": []}], "jumping": []},
    )
    steps.deploy(monkeypatch, finish=None)
    code, text = command("--json")
    assert (code, json.loads(text)) == (
        1,
        {
            "ok": False,
            "found": [{**found, "verdict": "missing", "steps": ["finish"]}],
            "jumping": [],
        },
    )


def test_templates_whose_reviewed_steps_jump_are_named(make_order, monkeypatch):
    """What was passed before is asked about now: operators see where, before a deploy."""
    assert compatibility.jumping() == []
    make_order()
    steps.deploy(monkeypatch, plan=steps.finish)
    (found,) = compatibility.jumping()
    assert (found.steps, found.under_way) == (("planning",), 1)
    code, text = command()
    assert code == 1 and "jumps out of a reviewed step (planning)" in text
    assert json.loads(command("--json")[1])["jumping"][0]["steps"] == ["planning"]
