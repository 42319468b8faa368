"""A step that failed for good leads where its template says, and what went wrong is told there."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from hitl.operations import invariants
from hitl.rendering.diagrams import workflow as pictures
from hitl.testing import play, survives_every_crash
from runs import definitions
from runs.definitions.errors import TemplateInvalid
from runs.definitions.freezing import freeze_steps
from runs.models import Run
from runs.workflows import (
    Child,
    Done,
    Failure,
    Gather,
    Go,
    Report,
    StepFailed,
    WorkflowInvalid,
    step,
    use,
    workflow,
)
from tests.conftest import drive
from tests.worlds.scripted_step import order_that as order_that

SEEN: list[Failure | None] = []


class Script:
    """What the deploying step does; each test says it anew."""

    deploy: Any = staticmethod(lambda state, context: Go())


@step("fails.deploy")
def deploy(state, context):
    return Script.deploy(state, context)


@step("fails.check")
def check(state, context):
    return Done(update={"checked": True})


@step("fails.propose_rollback")
def propose_rollback(state, context):
    SEEN.append(context.failure)
    failure = context.failure
    assert failure is not None
    return Go(
        update={"why": failure.message}, report=Report(content=f"{failure.step}: {failure.message}")
    )


@step("fails.rollback")
def rollback(state, context):
    SEEN.append(context.failure)
    context.require_approval("fails.propose_rollback")
    return Done(update={"undone": context.once("undo", lambda: "undone")})


@step("fails.part")
def part(state, context):
    raise StepFailed("The part is broken.", code="part_broken")


def flow(*, sub_steps=(), **deploy_use):
    return workflow(
        "fails",
        title="Fails",
        steps=[
            use(deploy, sub_steps=sub_steps, on_failure="propose_rollback", **deploy_use),
            check,
            use(propose_rollback, pause_after=True),
            rollback,
        ],
    )


@pytest.fixture(autouse=True)
def script(monkeypatch):
    SEEN.clear()

    def say(function):
        monkeypatch.setattr(Script, "deploy", staticmethod(function))

    return say


def refuse(state, context):
    raise StepFailed("The host is full.", code="host_full")


def test_a_step_that_failed_for_good_leads_to_the_step_that_its_template_names(script):
    script(refuse)
    run = play(flow(retry={"attempts": 3})).advance(minutes=10).advance(minutes=10)
    assert run.status == "paused"
    assert run.question is not None
    assert run.question.content == "deploy: The host is full."
    run.approve()
    told = Failure(
        step="deploy", loop_num=1, message="The host is full.", type="StepFailed",
        code="host_full", tries=3,
    )  # fmt: skip
    assert [told, told] == SEEN
    assert run.done and run.error == ""
    assert "checked" not in run.state
    said = [data for kind, data in run.events if kind == "log" and data.get("code")]
    assert [(line["code"], line.get("to")) for line in said if line["level"] == "error"] == [
        ("failed_over", "propose_rollback")
    ]
    assert "deploy" not in [data["step"] for kind, data in run.events if kind == "step_completed"]


def test_a_step_that_works_goes_on_as_ever_and_finds_no_failure(script):
    run = play(flow())
    assert run.done and run.state["checked"]
    assert SEEN == []


def test_an_error_of_the_code_and_an_answer_that_cannot_be_kept_lead_there_too(script):
    script(lambda state, context: 1 / 0)
    assert play(flow()).question.content == "deploy: ZeroDivisionError: division by zero"
    assert SEEN[0].type == "ZeroDivisionError" and SEEN[0].code == "step_error"
    script(lambda state, context: Go(update={"it": object()}))
    assert play(flow()).question is not None
    assert SEEN[1].code == "state_not_json"


def test_what_is_told_of_a_failure_is_bounded(script):
    def fail(state, context):
        raise RuntimeError("x" * 50_000)

    script(fail)
    play(flow())
    assert len(SEEN[0].message) == 1_000


def test_a_circle_of_failures_ends_where_max_loops_says(script):
    script(refuse)

    @step("fails.again")
    def again(state, context):
        return Go(to="deploy")

    circle = workflow(
        "circle",
        title="Circle",
        steps=[use(deploy, on_failure="again", max_loops=3), use(again, on_failure="deploy")],
    )
    run = play(circle)
    assert run.failure_code == "loop_limit"
    assert len([point for point in run.checkpoints if point.step == "again"]) == 3


def test_a_failure_is_over_when_its_step_is_done_after_all(script):
    tried: list[Failure | None] = []

    def second_time_lucky(state, context):
        tried.append(context.failure)
        if context.loop_num == 1:
            raise StepFailed("Not yet.", code="not_yet")
        return Go(to="after")

    @step("fails.mend")
    def mend(state, context):
        return Go(to="deploy")

    @step("fails.after")
    def after(state, context):
        SEEN.append(context.failure)
        return Done()

    script(second_time_lucky)
    steps = [use(deploy, on_failure="mend"), use(mend), use(after)]
    assert play(workflow("mended", title="Mended", steps=steps)).done
    assert tried[0] is None and tried[1] is not None and tried[1].code == "not_yet"
    assert SEEN == [None]


def test_a_step_with_a_review_that_failed_is_no_step_that_was_left_without_its_question(script):
    """P6: what failed has nothing to review; an effect behind its review still asks for it."""
    script(refuse)
    run = play(flow(pause_after=True)).approve()
    assert run.done
    with run.engine.placed():
        found = invariants.check(now=run.engine.now(), deep=True)
        wrong = [one.invariant.code for one in found if one.count and one.invariant.promise == "P6"]
    assert wrong == []


def test_a_failing_child_run_leads_there_and_ends_the_others(script):
    def gather(state, context):
        return Gather(children=[Child(name="a"), Child(name="b")])

    script(gather)
    run = play(flow(sub_steps=[part]))
    assert run.question is not None
    assert SEEN[0].code == "child_failed"
    run.approve()
    assert run.done


def test_no_crash_loses_the_failure_or_does_the_way_back_twice(script):
    """P4, P5."""
    script(refuse)
    assert survives_every_crash(flow(), answers=["approve"]).crashes > 8


def test_a_suspended_run_stops_before_the_step_that_it_is_led_to(script):
    def suspend_and_fail(state, context):
        Run.objects.update(suspend_by="ana")
        raise StepFailed("The host is full.", code="host_full")

    script(suspend_and_fail)
    run = play(flow())
    assert run.question is not None and run.question.phase == "suspended"
    run.approve()
    assert SEEN[0].message == "The host is full."


def test_an_unknown_target_is_refused_with_its_line_and_a_near_name():
    with pytest.raises(WorkflowInvalid, match=r"test_on_failure\.py, line \d+.*propose_rollback"):
        workflow(
            "bad", title="Bad",
            steps=[use(deploy, on_failure="propose_rolback"), propose_rollback],
        )  # fmt: skip


@pytest.mark.django_db
def test_a_template_is_refused_for_it_as_a_declaration_is():
    play(flow()).engine.close()
    for kind, fields in flow().step_templates.items():
        definitions.edit_step_template(kind, **fields)
    steps = [dict(one) for one in flow().template["steps"]]
    plain = [{key: one[key] for key in one if key != "on_failure"} for one in steps]
    empty = [{**one, "on_failure": ""} for one in plain]
    assert freeze_steps(empty) == freeze_steps(plain)  # digests stay as they were
    assert freeze_steps(steps)[0]["on_failure"] == "propose_rollback"
    for to, words in {"propose_rolback": "Did you mean", "deploy": "itself"}.items():
        with pytest.raises(TemplateInvalid) as refused:
            freeze_steps([{**steps[0], "on_failure": to}, *steps[1:]])
        assert words in refused.value.errors["steps.0.on_failure"][0]


@pytest.mark.django_db
def test_the_picture_shows_the_way_and_says_it():
    for kind, fields in flow().step_templates.items():
        definitions.edit_step_template(kind, **fields)
    steps = freeze_steps([dict(one) for one in flow().template["steps"]])
    picture = pictures.draw(steps)
    assert [arc.label for arc in picture.arcs if arc.kind == "failure"] == ["if it fails"]
    assert "If it fails, the run goes to Propose rollback." in picture.sentences[0]
    assert ("deploy", "propose_rollback") in pictures.drawn_ways(steps)


@pytest.mark.django_db
def test_the_page_says_that_the_step_failed_where_the_run_went_on(order_that, client, ana):
    order = drive(order_that(refuse, on_failure="finish"))
    assert order.status == "completed"
    client.force_login(ana)
    page = client.get(reverse("hitl:order", args=[order.pk])).content.decode()
    assert "The host is full. Tried 1 time; the run goes on at finish." in page
    assert ", failed" in page
