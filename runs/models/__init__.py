"""The machine's tables: work orders, runs and pauses; templates; artifacts; credentials; messages
in line; schedules.
"""

from runs.models.artifacts import Artifact
from runs.models.credentials import Credential
from runs.models.failures import StepTraceback
from runs.models.heartbeats import Heartbeat, HeartbeatKind, HostClock
from runs.models.pauses import Panel, PanelMember, Pause, PauseQuerySet
from runs.models.places import Beginning, Place, WorkLimit
from runs.models.queued_messages import QueuedTurn
from runs.models.runs import Run, RunQuerySet, WorkOrder
from runs.models.schedules import Occurrence, Schedule
from runs.models.templates import (
    OWN_REDUCERS,
    Definition,
    ForgeKind,
    PullRequestPolicy,
    PushPolicy,
    Repository,
    StepTemplate,
    Template,
    TemplateAccess,
    read_delivery,
    within,
)
from runs.models.uploads import Upload

__all__ = [
    "OWN_REDUCERS",
    "Artifact",
    "Beginning",
    "Credential",
    "Definition",
    "ForgeKind",
    "Heartbeat",
    "HeartbeatKind",
    "HostClock",
    "Occurrence",
    "Panel",
    "PanelMember",
    "Pause",
    "PauseQuerySet",
    "Place",
    "PullRequestPolicy",
    "PushPolicy",
    "QueuedTurn",
    "Repository",
    "Run",
    "RunQuerySet",
    "Schedule",
    "StepTemplate",
    "StepTraceback",
    "Template",
    "TemplateAccess",
    "Upload",
    "WorkLimit",
    "WorkOrder",
    "read_delivery",
    "within",
]
