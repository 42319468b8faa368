"""Threads on which turns are taken, with steps that say what they heard."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from checkpoints import store
from checkpoints.models import Checkpoint, Thread
from hitl.models import Via
from hitl.threads import messages
from runs import definitions
from runs.engine.advance import advance
from runs.models import Run
from runs.threads import turns as turns
from runs.threads.turns import Turn
from runs.workflows.base import Ask, Context, Go, Outcome, Report, State, StepFailed
from runs.workflows.registry import step

RAN: list[str] = []
FAIL: set[str] = set()
"""Steps that fail."""


def say(text: str, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"id": str(uuid.uuid4()), "role": role, "content": text}]}


def texts(state: State) -> list[str]:
    return [message["content"] for message in state["messages"]]


@step("talk.step")
def talk(state: State, context: Context) -> Outcome:
    RAN.append(context.step)
    if context.step in FAIL:
        raise StepFailed("The line went dead.", code="dead_line")
    return Go(
        update={
            **say(f"{context.step} heard {len(state.get('messages', []))}", "assistant"),
            "last": context.step,
        }
    )


@step("talk.ask")
def ask(state: State, context: Context) -> Outcome:
    RAN.append(context.step)
    return Ask(
        question="Which one?",
        answers={"answer": "step3"},
        report=Report(content="This one or that one?"),
        phase="asking",
    )


@pytest.fixture
def thread(templates: None, ana, team) -> Thread:
    """A thread of Ana's for the template `talk`: three steps, messages joined by id."""
    RAN.clear()
    FAIL.clear()
    for name in ("step", "ask"):
        definitions.edit_step_template(f"talk-{name}", title="Talk", function=f"talk.{name}")
    three = [
        {"step_type": "execute", "name": f"step{number}", "step_template_slug": "talk-step"}
        for number in (1, 2, 3)
    ]
    pausing = [
        {**three[0], "pause_after": True, "pause_phase": "awaiting_plan_approval"},
        *three[1:],
    ]
    asking = [
        three[0],
        {"step_type": "execute", "name": "step2", "step_template_slug": "talk-ask"},
        three[2],
    ]
    for slug, steps in {"talk": three, "talk-pausing": pausing, "talk-asking": asking}.items():
        definitions.edit_template(
            slug,
            steps=steps,
            title=slug,
            needs_repository=False,
            reducers={"messages": "upsert_by_id"},
        )
    return turns.open_thread(by=ana, title="A talk", team=team)


@pytest.fixture
def give(thread, ana) -> Callable[..., messages.MessageOutcome]:
    """Give the thread a turn, and let workers work."""

    def give(by=ana, auto_resume_pending: bool = True, **turn: Any) -> messages.MessageOutcome:
        said = messages.say(
            thread.pk, Turn(**turn), by=by, via=Via.REST, auto_resume_pending=auto_resume_pending
        )
        drive(said.run)
        return said

    return give


def drive(run: Run) -> Run:
    while advance(run.pk, budget=60):
        pass
    run.refresh_from_db()
    return run


def head_of(thread: Thread) -> Checkpoint:
    head = Thread.objects.select_related("head").get(pk=thread.pk).head
    assert head is not None
    return head


def state_of(thread: Thread) -> State:
    return store.load(head_of(thread))


# By itself
