"""A parent with child runs: its template, its steps, and the work until nothing is left."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run, WorkOrder
from runs.workflows.base import (
    Child,
    Context,
    Gather,
    Go,
    Outcome,
    Report,
    State,
    StepFailed,
)
from runs.workflows.registry import step
from tests.conftest import fresh
from tests.worlds import steps
from tests.worlds.histories.whole_story import broken

PLAYS: dict[str, Callable[[State, Context], Any]] = {}
"""Step name → what it does in this test."""


@step("test.play")
def play(state: State, context: Context) -> Outcome:
    steps.called(context)
    return PLAYS[context.step](state, context)  # type: ignore[no-any-return]  # also nonsense


def says(word: str) -> Callable[[State, Context], Go]:
    return lambda state, context: Go(
        update={"said": [word], word: True}, report=Report(content=f"I say {word}.")
    )


def fails(state: State, context: Context) -> Outcome:
    raise StepFailed("No paper left.", code="no_paper")


def sub(name: str, **more: Any) -> dict[str, Any]:
    return {"step_type": "planning", "name": name, "step_template_slug": "test-play", **more}


ASKING = {"pause_after": True, "pause_phase": "awaiting_plan_approval"}


@pytest.fixture
def crew(make_order):
    """`crew([sub("a"), sub("b")], parallel=True, step={…})`: plans, gathers, finishes.

    All steps said what they did.
    """

    def make(subs, *, step=None, function="", order=None, **config):
        for one in subs:
            PLAYS.setdefault(one["name"], says(one["name"]))
        definitions.edit_step_template("test-play", title="Play", function="test.play", config={})
        definitions.edit_step_template(
            "test-crew", title="Crew", function=function, config=config, sub_steps=subs
        )
        listed = [
            {"step_type": "planning", "step_template_slug": "test-plan"},
            {
                "step_type": "execute",
                "name": "crew",
                "step_template_slug": "test-crew",
                **(step or {}),
            },
            {"step_type": "deliver", "name": "finish", "step_template_slug": "test-finish"},
        ]
        reducers = {"said": "append", "count": "add"}
        definitions.edit_template(
            "crew", steps=listed, title="Crew", needs_repository=False, reducers=reducers
        )
        return make_order("crew", **(order or {}))

    PLAYS.clear()
    yield make
    if connection.vendor == "sqlite":
        return  # a third of each test; that the promises are asked alike there has its own tests
    assert broken() == {}


@pytest.fixture
def many(crew):
    """`many(5, at_once=2)`: an order whose step gathers so many children; each adds 1, and says its
    number.
    """

    def make(count: int, *, subs: Any = None, names: Any = None, update: Any = None, **options):
        def gather(state, context):
            found = names or [f"c{number}" for number in range(count)]
            return Gather(
                children=[
                    Child(name=name, update={"number": number, **(update or {})})
                    for number, name in enumerate(found)
                ],
                **options,
            )

        PLAYS["crew"] = gather
        PLAYS.setdefault("count", lambda state, context: Go(
            update={"count": 1, "said": [str(state["number"])]},
            report=Report(content=f"I am {state['number']}."),
        ))  # fmt: skip
        return crew(subs or [sub("count")], function="test.play")

    return make


def work_off() -> None:
    """Workers for whatever is due, until nothing is."""
    while due := lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(hours=-1)):
        for run_id, _ in due:
            advance(run_id, budget=60)


def worked(order: WorkOrder) -> WorkOrder:
    work_off()
    return fresh(order)


def kids(order: WorkOrder) -> dict[str, Run]:
    """The newest child run of each name."""
    return {
        run.child_name: run
        for run in Run.objects.filter(work_order=order, depth=1).order_by("created_at", "pk")
    }


def answer(pause: Pause, by, action="approve", feedback=""):
    services.decide(pause.pk, Answer(action, Via.REST, feedback=feedback), by=by)
    work_off()


def asked(name: str) -> Pause:
    return Pause.objects.open().get(run__child_name=name)


def definitions_of_nested(subs):
    """The last sub-step gathers two of its own."""
    definitions.edit_step_template("test-play", title="Play", function="test.play", config={})
    for name in ("deep", "deeper"):
        PLAYS[name] = says(name)
    definitions.edit_step_template(
        "test-nested",
        title="Nested",
        config={"parallel": True},
        sub_steps=[sub("deep"), sub("deeper")],
    )
    subs[-1] = {**subs[-1], "step_template_slug": "test-nested"}
