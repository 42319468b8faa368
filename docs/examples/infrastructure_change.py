"""A change of a service: two people approve the plan, then it is rolled out; where that fails,
people are asked whether to go back to the version before.

`roll_out` stands for your own platform. Here a service is a file that holds its version, and a
version that ends with `-bad` never comes up.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from runs.workflows import (
    Context,
    Done,
    Go,
    Outcome,
    Report,
    Review,
    State,
    StepFailed,
    effect,
    read,
    step,
    use,
    workflow,
)

FOLDER = Path(__file__).parent / "data"
"""Has `services/<name>`, its version, and `changes/<order>`, how the change stands."""


class Change(BaseModel):
    service: str = Field(pattern=r"^[a-z][a-z-]{1,40}$", title="Service")
    version: str = Field(pattern=r"^[0-9][0-9a-z.-]{0,20}$", title="New version")


def running(service: str) -> str:
    """The version that a service has now."""
    file = FOLDER / "services" / service
    return file.read_text() if file.exists() else "none"


def roll_out(service: str, version: str) -> str:
    """Give a service a version; doing it again changes nothing. Raises StepFailed."""
    (FOLDER / "services").mkdir(parents=True, exist_ok=True)
    (FOLDER / "services" / service).write_text(version)
    if version.endswith("-bad"):
        raise StepFailed(f"{service} {version} does not answer.", code="not_healthy")
    return version


def note(order: str, stands: str) -> str:
    """Write into the calendar of changes how this one stands."""
    (FOLDER / "changes").mkdir(parents=True, exist_ok=True)
    (FOLDER / "changes" / order).write_text(stands)
    return stands


@step("infra.announce")
def announce(state: State, context: Context) -> Outcome:
    """Put the change into the calendar, and keep which version it replaces."""
    change = read(Change, context.order.input)
    context.once("announce", lambda: note(context.order.id, "planned"))
    return Go(update={"before": context.once("before", lambda: running(change.service))})


@step("infra.plan")
def plan(state: State, context: Context) -> Outcome:
    """Show what would change."""
    change = read(Change, context.order.input)
    report = Report(
        content=f"**{change.service}** gets version {change.version}.",
        patch=f"--- a/{change.service}\n+++ b/{change.service}\n@@ -1 +1 @@\n"
        f"-{state['before']}\n+{change.version}\n",
        facts={"Now": state["before"], "Then": change.version},
        material=change.model_dump(),
        effects=[effect(f"{change.service} restarts.", undo=f"go back to {state['before']}.")],
    )
    return Go(report=report)


@step("infra.apply")
def apply(state: State, context: Context) -> Outcome:
    """Roll out exactly what was approved."""
    change = read(Change, context.order.input)
    context.require_approval("infra.plan", change.model_dump())
    context.once("apply", lambda: roll_out(change.service, change.version))
    context.once("note", lambda: note(context.order.id, "applied"))
    return Done(update={"conclusion": f"{change.service} runs {change.version}"})


@step("infra.propose_rollback")
def propose_rollback(state: State, context: Context) -> Outcome:
    """Say what went wrong, and ask whether to go back."""
    assert context.failure is not None  # nothing else leads here
    report = Report(
        content=f"After {context.failure.tries} tries: {context.failure.message}",
        facts={"Back to": state["before"]},
        material={"back_to": state["before"]},
    )
    return Go(report=report)


@step("infra.rollback")
def rollback(state: State, context: Context) -> Outcome:
    """Go back to the version of before."""
    change = read(Change, context.order.input)
    context.require_approval("infra.propose_rollback", {"back_to": state["before"]})
    context.once("rollback", lambda: roll_out(change.service, state["before"]))
    context.once("note", lambda: note(context.order.id, "rolled back"))
    return Done(update={"conclusion": f"{change.service} was rolled back"})


@step("infra.withdraw")
def withdraw(state: State, context: Context) -> Outcome:
    """The change was cancelled: say so in the calendar."""
    context.once("withdraw", lambda: note(context.order.id, "withdrawn"))
    return Done()


infrastructure_change = workflow(
    "infrastructure-change",
    title="Change a service",
    input=Change,
    on_cancel=withdraw,
    steps=[
        announce,
        use(
            plan,
            pause_after=True,
            question="Roll out {service} {version}?",
            review=Review(reviewers={"groups": ["operators"]}, quorum=2, self_approval=False),
        ),
        use(
            apply,
            retry={"attempts": 2, "base": 1.0, "errors": ["not_healthy"]},
            on_failure="propose_rollback",
        ),
        use(
            propose_rollback,
            pause_after=True,
            question="Roll {service} back?",
            review=Review(reviewers={"groups": ["operators"]}),
        ),
        rollback,
    ],
)
