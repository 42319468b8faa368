"""Changed or missing code under runs that are under way (P10)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import html
import re

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.operations import invariants
from runs import definitions, tasks
from runs.definitions import compatibility
from runs.engine.recovery import lost_runs
from runs.engine.recovery.code_changes import LOOK_AGAIN
from runs.models import Run
from runs.states import FAILED
from runs.workflows import registry
from runs.workflows.code.fingerprint import fingerprint
from tests.conftest import drive, fresh, log_lines, pause_of
from tests.doors.html import fold
from tests.worlds import steps

pytestmark = pytest.mark.django_db


def approve(order, by):
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=by)


def said(order, words):
    return [line for line in log_lines(order) if words in line]


def make_due(order):
    """Let the time pass until the code of a held run is looked at again."""
    Run.objects.filter(pk=order.latest_run_id).update(
        due_at=timezone.now() - dt.timedelta(seconds=1)
    )


def test_a_changed_step_is_said_in_the_log_before_it_runs_and_once(paused, ana, monkeypatch):
    """P10: paused orders took the new meaning without a word (6 of 6)."""
    steps.deploy(monkeypatch, work=steps.plan)
    approve(paused, ana)
    drive(paused)
    [words] = said(paused, "has changed since this work was asked for")
    assert "runs with the code as it is now" in words
    lines = log_lines(paused)
    assert lines.index(words) < max(
        place for place, line in enumerate(lines) if line.startswith("Workflow paused")
    )
    run = Run.objects.get(pk=paused.latest_run_id)
    assert run.code_seen == {"execute": fingerprint(steps.plan)}


def test_the_card_and_the_operations_page_name_changed_steps_while_the_order_still_waits(
    paused, ana, page, monkeypatch
):
    """P10: nothing was on any page."""
    url = reverse("hitl:order", args=[paused.pk])
    assert b"data-changed-code" not in page.get(url).content
    steps.deploy(monkeypatch, work=steps.plan)
    shown = fold(page.get(url).content.decode())
    assert "Code changed since this work was asked for: Work" in shown
    ana.user_permissions.add(Permission.objects.get(codename="view_run"))
    text = page.get(reverse("hitl:operations")).content.decode()
    assert "Changed code" in text
    (line,) = re.findall(r'href="(/operations/code/[^"]+reason=changed)"', text)
    assert paused.latest_run.shown_id in page.get(html.unescape(line)).content.decode()


@pytest.fixture
def held(make_order, ana, monkeypatch, settings):
    """An order whose run is held at a changed step."""
    settings.WAYSTATION_ON_CHANGE = "hold"
    order = make_order()
    drive(order)
    steps.deploy(monkeypatch, work=steps.check)
    approve(order, ana)
    drive(order)
    return fresh(order)


def test_a_run_is_held_at_a_changed_step_where_the_policy_says_so_and_goes_on_when_the_code_is_back(
    held, monkeypatch
):
    """P10: it waits as a row; no worker holds it, nothing counts as lost or failed, and the reason
    is said once.
    """
    run = held.latest_run
    calls = len(steps.CALLS)
    assert (run.status, run.lost_attempts, run.attempts) == ("pending", 0, 0)
    assert run.due_at > timezone.now() + dt.timedelta(seconds=LOOK_AGAIN / 2)
    for _ in range(3):
        make_due(held)
        drive(held)
    assert len(said(held, "its template holds such runs")) == 1
    assert len(steps.CALLS) == calls
    steps.deploy(monkeypatch, work=steps.work)
    make_due(held)
    drive(held)
    assert fresh(held).phase == "awaiting_implementation_review"
    assert Run.objects.get(pk=run.pk).held_because == ""
    assert said(held, "What the run was held for is over")


def test_an_operator_accepts_the_changed_code_of_a_held_run(held, ana, page):
    """P10."""
    url = reverse("hitl:accept_code", args=[held.latest_run_id])
    assert page.post(url).status_code == 403
    assert fresh(held).latest_run.held_because
    ana.user_permissions.add(*Permission.objects.filter(codename__in=["view_run", "change_run"]))
    whole = page.get(reverse("hitl:operations")).content.decode()
    (line,) = re.findall(r'href="(/operations/code/[^"]+reason=held)"', whole)
    assert "Accept the new code" in page.get(html.unescape(line)).content.decode()
    assert page.post(url).status_code == 302
    drive(held)
    assert not fresh(held).latest_run.held_because
    assert said(held, "accepted the changed code")
    assert fresh(held).latest_run.status != "pending"
    assert "not held" in page.post(url, follow=True).content.decode()


def test_a_step_may_say_otherwise_than_the_setting(templates, make_order, ana, monkeypatch):
    chain = [
        {"name": "one", "step_type": "plan", "step_template_slug": "test-work"},
        {
            "name": "two",
            "step_type": "execute",
            "step_template_slug": "test-check",
            "on_change": "hold",
        },
    ]
    definitions.edit_template("guarded", steps=chain, needs_repository=False)
    order = make_order("guarded")
    steps.deploy(monkeypatch, check=steps.plan)
    drive(order)
    run = fresh(order).latest_run
    assert (run.status, bool(run.held_because)) == ("pending", True)
    with pytest.raises(definitions.TemplateInvalid):
        definitions.edit_template("guarded", steps=[{**chain[0], "on_change": "guess"}])


def test_a_step_function_says_itself_that_its_work_is_held_unless_the_template_says_otherwise(
    templates, make_order, monkeypatch, page
):
    """The order freezes it: what the function says later counts for later orders."""
    trait = dataclasses.replace(registry.traits_of("test.work"), on_change="hold")
    monkeypatch.setitem(registry._TRAITS, "test.work", trait)
    order = make_order()
    assert {s["name"]: s.get("on_change") for s in order.definition.steps} == {
        "planning": None,
        "execute": "hold",
        "review": None,
        "finish": None,
    }
    template = definitions.current("writing")
    chain = [
        {**step, "on_change": "continue"} if step["step_type"] == "execute" else step
        for step in template.steps
    ]
    definitions.edit_template("relaxed", steps=chain, needs_repository=False)
    assert make_order("relaxed").definition.steps[1]["on_change"] == "continue"
    monkeypatch.delitem(registry._TRAITS, "test.work")
    drive(order)
    steps.deploy(monkeypatch, work=steps.check)
    held = {found.template: found.held for found in compatibility.report(verdicts=["changed"])}
    assert held == {"writing v1": ("execute",), "relaxed v1": ()}
    text = page.get(reverse("hitl:order", args=[order.pk])).content.decode()
    assert "Before Work the run waits until an operator accepts the new code." in text


def test_a_run_whose_step_function_is_missing_is_held_and_goes_on_when_the_code_is_back(
    paused, ana, monkeypatch
):
    """P10: a removed step function ended its runs at once, with a list of every function known."""
    steps.deploy(monkeypatch, work=None)
    approve(paused, ana)
    drive(paused)
    run = fresh(paused).latest_run
    assert run.status == "pending"
    assert "'test.work'" in run.held_because
    assert "Nothing was lost" in run.held_because
    assert not Run.objects.filter(status=FAILED).exists()
    assert "test.plan" not in run.held_because
    steps.deploy(monkeypatch, work=steps.work)
    make_due(paused)
    assert run.pk in {
        pk for pk, _ in lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(0))
    }
    tasks.advance_run(str(run.pk))
    assert fresh(paused).phase == "awaiting_implementation_review"


def test_the_invariant_finds_a_changed_step_that_runs_unsaid(paused, ana, monkeypatch):
    """P10, with the worker not looking, as it was before."""
    seen: list[bool] = []

    def look():
        results = invariants.check(now=timezone.now() + dt.timedelta(hours=1), deep=True)
        seen.append(
            "ran_changed_code_unsaid"
            in {result.invariant.code for result in results if result.count}
        )

    approve(paused, ana)
    steps.deploy(monkeypatch, work=steps.check)
    monkeypatch.setitem(steps.HOOKS, "execute", look)
    drive(paused)
    services.decide(pause_of(paused).pk, Answer("revise", Via.PAGE, feedback="again"), by=ana)
    Run.objects.filter(pk=paused.latest_run_id).update(code_seen={})
    monkeypatch.setattr("runs.engine.recovery.code_changes.tell", lambda held: None)
    drive(paused)
    assert seen == [False, True]
