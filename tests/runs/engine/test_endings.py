"""What a workflow does when its run was cancelled, or expired: one step, once, which holds nothing
up.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.urls import reverse

from hitl.operations import invariants
from hitl.testing import play, survives_every_crash
from runs import definitions
from runs import services as runs
from runs.definitions.errors import TemplateInvalid
from runs.definitions.freezing import freeze_endings, freeze_steps
from runs.engine import time_limit
from runs.models import Run, WorkOrder
from runs.workflows import (
    Ask,
    Child,
    Done,
    Gather,
    Go,
    Report,
    Review,
    Sleep,
    StepFailed,
    WorkflowInvalid,
    step,
    use,
    workflow,
)

HOUR = dt.timedelta(hours=1)
BOOKED: list[str] = []
SEEN: list[Any] = []


class Script:
    """What the step does that undoes; each test says it anew."""

    undo: Any = staticmethod(lambda state, context: unbook(state, context))


def unbook(state, context):
    SEEN.append(context.failure)
    context.once("unbook", lambda: BOOKED.append(f"free {state['room']}"), optional=True)
    return Done(update={"freed": True})


@step("ends.book")
def book(state, context):
    return Go(update={"room": "12"}, report=Report(content="Room 12?"))


@step("ends.pay")
def pay(state, context):
    return Done()


@step("ends.undo")
def undo(state, context):
    return Script.undo(state, context)


@step("ends.asks", asks=True)
def asks(state, context):
    return Done()


@step("ends.part")
def part(state, context):
    return Sleep(for_=HOUR, to="part")


def flow(slug="ends", **how):
    review = Review(deadline={"after": "PT1H"})
    how = {"on_cancel": undo, "on_expire": undo, **how}
    return workflow(
        slug, title="Ends", steps=[use(book, pause_after=True, review=review), pay], **how
    )


@pytest.fixture(autouse=True)
def script(monkeypatch):
    BOOKED.clear()
    SEEN.clear()

    def say(function):
        monkeypatch.setattr(Script, "undo", staticmethod(function))

    return say


def endings(run):
    """The runs that followed the end: name, status, words."""
    with run.engine.placed():
        found = Run.objects.filter(work_order=run.key).exclude(parent=None)
        return [(one.child_name, str(one.status), one.error) for one in found]


def broken(run):
    with run.engine.placed():
        found = invariants.check(now=run.engine.now(), deep=True)
        return [one.invariant.code for one in found if one.count]


def test_who_cancels_has_the_workflow_undo_what_it_did_once(script):
    run = play(flow())
    run.cancel("Not this year.")
    assert run.status == "cancelled"
    assert BOOKED == ["free 12"]
    assert endings(run) == [("on_cancel", "completed", "")]
    [how] = SEEN
    assert (how.step, how.code, how.type) == ("book", "cancelled_by_user", "Cancelled")
    assert how.message == "Cancelled by user at executing phase"
    assert "Undo begins." in run.logs and "on_cancel: completed" in run.logs
    assert broken(run) == []


def test_what_expires_is_undone_too(script):
    run = play(flow()).advance(hours=2)
    assert run.status == "expired"
    assert BOOKED == ["free 12"]
    assert endings(run) == [("on_expire", "completed", "")]
    assert (SEEN[0].code, SEEN[0].type) == ("expired", "Expired")


def test_a_run_that_is_at_work_or_waits_for_children_is_undone_as_well(script):
    @step("ends.gather")
    def gather(state, context):
        return Gather(children=[Child(name="a")])

    steps: list[Any] = [book, use(gather, sub_steps=[part]), pay]
    run = play(workflow("family", title="Family", steps=steps, on_cancel=undo))
    with run.engine.placed():
        runs.cancel(run.key, by=run.engine.person("ana"))
    run.engine.work()
    assert (run.status, BOOKED) == ("cancelled", [])  # a child's step may still be at work
    run.advance(seconds=20)
    assert BOOKED == ["free 12"]
    assert sorted(endings(run))[1] == ("on_cancel", "completed", "")
    assert broken(run) == []


def test_no_crash_undoes_twice_or_not_at_all(script):
    """P4, P5."""
    calls = [free]
    script(lambda state, context: Done(update={"it": context.once("u", lambda: free(context.key))}))
    assert survives_every_crash(
        flow(), answers=["cancel"], ends="cancelled", watch=calls
    ).effects == {"free": 1}


def free(key):
    return key


def test_its_failure_is_said_and_holds_nothing_up(script):
    def fail(state, context):
        raise StepFailed("The hotel is away.", code="hotel_away")

    script(fail)
    run = play(flow()).cancel("No.")
    assert run.status == "cancelled"
    assert run.error == "Cancelled by user at executing phase"
    assert endings(run) == [("on_cancel", "failed", "The hotel is away.")]
    assert "on_cancel: failed: The hotel is away." in run.logs


def test_it_is_tried_again_as_its_use_says(script):
    def fail_once(state, context):
        if not BOOKED:
            BOOKED.append("tried")
            raise StepFailed("The hotel is away.", code="hotel_away")
        return Done()

    script(fail_once)
    twice = use(undo, retry={"attempts": 2}, timeout=60)
    run = play(flow(on_cancel=twice)).cancel("No.").advance(minutes=10)
    assert endings(run) == [("on_cancel", "completed", "")]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            Ask(question="Really?", answers={"approve": ""}, report=Report(content="?")),
            "ending_may_not_wait",
        ),
        (Sleep(for_=HOUR), "sleep_misplaced"),
        (Gather(children=[Child(name="a")]), "ending_may_not_wait"),
    ],
)
def test_it_may_neither_ask_nor_wait(script, answer, code):
    script(lambda state, context: answer)
    run = play(flow()).cancel("No.")
    with run.engine.placed():
        assert Run.objects.get(child_name="on_cancel").failure_code == code


def test_a_workflow_without_it_ends_as_ever_and_keeps_its_digest(script):
    run = play(flow(on_cancel=None, on_expire=None)).cancel("No.")
    assert endings(run) == [] and BOOKED == []
    with run.engine.placed():
        content = WorkOrder.objects.get(pk=run.key).definition.content
    assert "endings" not in content


def test_what_completes_is_not_undone(script):
    run = play(flow()).approve()
    assert run.done and endings(run) == []


@pytest.mark.django_db
def test_a_step_that_would_ask_is_refused_with_its_line(script):
    with pytest.raises(WorkflowInvalid, match=r"on_cancle.*on_cancel"):
        workflow("bad", title="Bad", steps=[pay], on_cancle=undo)  # type: ignore[arg-type]  # a slip
    for wrong, words in [(use(undo, pause_after=True), "pause_after"), (use(asks), "may ask")]:
        with pytest.raises(TemplateInvalid) as refused:
            loaded(flow(on_expire=wrong))
        [place] = refused.value.errors
        assert place == "steps.3.only_on" and words in refused.value.errors[place][0]
        assert "test_endings.py, line" in flow(on_expire=wrong).place_of(place)


def loaded(declared):
    for kind, fields in declared.step_templates.items():
        definitions.edit_step_template(kind, **fields)
    return definitions.edit_template(declared.slug, **declared.template)


@pytest.mark.django_db
def test_it_is_no_part_of_the_sequence_and_has_a_bound_of_time():
    steps = [dict(one) for one in loaded(flow(on_cancel=use(undo, timeout=20))).steps]
    assert [one["name"] for one in freeze_steps(steps)] == ["book", "pay"]
    found = freeze_endings(steps)
    assert {end: one["name"] for end, one in found.items()} == {
        "on_cancel": "undo",
        "on_expire": "on_expire",
    }
    assert [time_limit.limit_of(one) for one in found.values()] == [20, 300]
    misplaced = [steps[2], *steps[:2]]
    with pytest.raises(TemplateInvalid) as refused:
        freeze_steps(misplaced)
    assert refused.value.errors.keys() == {"steps.0.only_on"}


@pytest.mark.django_db
def test_the_pages_show_it(script, client, ana):
    template = loaded(flow())
    client.force_login(ana)
    order = runs.submit(template.slug, by=ana)
    picture = client.get(reverse("hitl:order_picture", args=[order.pk])).content.decode()
    assert "Undo" in picture and "after a cancellation" in picture
    runs.cancel(order.pk, by=ana)
    page = client.get(reverse("hitl:order", args=[order.pk])).content.decode()
    assert "on_cancel" in page and "Undo begins." in page
