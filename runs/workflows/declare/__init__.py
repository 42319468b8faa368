"""A workflow as its author declares it, in Python beside its steps."""

from runs.workflows.declare.places import WorkflowInvalid
from runs.workflows.declare.workflows import (
    Reducer,
    RetryPolicy,
    StepUse,
    Workflow,
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
