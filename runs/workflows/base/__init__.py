"""The words a workflow is written in: what a step gets, what it may answer, and how it is
registered.

Nothing here knows Django, Celery or Channels: a step can be called in a test, a notebook or another
engine.
"""

from runs.workflows.base.context import (
    BELOW,
    Context,
    GiveCredential,
    Log,
    Once,
    RequireApproval,
    Step,
    Told,
    below,
)
from runs.workflows.base.orders import (
    DeliveryPolicy,
    Order,
    PullRequest,
    PullRequestDraft,
)
from runs.workflows.base.outcomes import (
    Approval,
    Ask,
    Child,
    ConfigInvalid,
    Done,
    Failure,
    FailurePolicy,
    Gather,
    Go,
    Outcome,
    Outside,
    Report,
    Sleep,
    State,
    StepFailed,
    Stopped,
    effect,
)
from runs.workflows.base.typed import Shape, read, schema_of
from runs.workflows.base.workspaces import (
    Code,
    Commit,
    Completed,
    Workspace,
)
from runs.workflows.tool_calls import Call

__all__ = [
    "BELOW",
    "Approval",
    "Ask",
    "Call",
    "Child",
    "Code",
    "Commit",
    "Completed",
    "ConfigInvalid",
    "Context",
    "DeliveryPolicy",
    "Done",
    "Failure",
    "FailurePolicy",
    "Gather",
    "GiveCredential",
    "Go",
    "Log",
    "Once",
    "Order",
    "Outcome",
    "Outside",
    "PullRequest",
    "PullRequestDraft",
    "Report",
    "RequireApproval",
    "Shape",
    "Sleep",
    "State",
    "Step",
    "StepFailed",
    "Stopped",
    "Told",
    "Workspace",
    "below",
    "effect",
    "read",
    "schema_of",
]
