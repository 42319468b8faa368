"""The step that is a workflow itself: it runs its step template's sub-steps as child runs."""

from __future__ import annotations

from runs.workflows.base import Child, Context, FailurePolicy, Gather, Outcome, State, StepFailed
from runs.workflows.registry import step

SUB_STEPS = "flow.sub_steps"


@step(
    SUB_STEPS,
    config={
        "type": "object",
        "properties": {
            "parallel": {"type": "boolean", "title": "All at the same time"},
            "on_failure": {
                "enum": ["fail_fast", "collect"],
                "title": "When one fails",
                "description": "fail_fast ends the others; collect goes on with what worked.",
            },
            "into": {"type": "string", "title": "State key of the results", "maxLength": 100},
        },
    },
)
def sub_steps(state: State, context: Context) -> Outcome:
    """Run the sub-steps, one after the other in one child run, or each in a child run of its own at
    the same time.

    Configuration: `parallel` (false), `on_failure` ("fail_fast" or "collect"), `into` (see
    `Gather`).
    """
    if not context.sub_steps:
        raise StepFailed(
            "This step has no sub-steps, so there is nothing to run. Give its step template some.",
            code="no_sub_steps",
        )
    policy: FailurePolicy = (
        "collect" if context.config.get("on_failure") == "collect" else "fail_fast"
    )
    if context.config.get("parallel"):
        children = [Child(name=name, steps=[name]) for name in context.sub_steps]
    else:
        children = [Child(name=context.step)]
    return Gather(children=children, on_failure=policy, into=str(context.config.get("into", "")))
