"""A workflow as its author declares it, in Python beside its steps."""

from runs.workflows.declare.workflows import (
    Reducer,
    RetryPolicy,
    StepUse,
    Workflow,
    WorkflowInvalid,
    use,
    workflow,
)

__all__ = [
    "Reducer",
    "RetryPolicy",
    "StepUse",
    "Workflow",
    "WorkflowInvalid",
    "use",
    "workflow",
]
