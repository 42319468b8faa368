"""Which HTTP status each error of the domain has: the one table, used by REST, sockets and pages.

What the answer says beside it is `hitl.http.refusals`' for programs, and each page's own for
people.
"""

from __future__ import annotations

from checkpoints.export.thread_document import DocumentTooLarge, ImportRefused
from checkpoints.forensics.diff import DifferentThreads, NothingBefore
from checkpoints.state.reducers import MergeFailed
from checkpoints.store import CheckpointDamaged, StateLocked, StoreUnavailable
from hitl.decisions import services
from hitl.decisions.bulk import BulkInvalid
from hitl.decisions.deadlines import changes
from hitl.decisions.reviewers import policy
from hitl.decisions.talk import comments
from hitl.decisions.undo import NotYourAnswer
from hitl.find.asking import NotUnderstood
from hitl.find.saved import NotYourView
from hitl.outbound.endpoints import NotYourEndpoint as EndpointNotYours
from hitl.outbound.quotas import OutsideNotAllowed, QuotaUsed
from hitl.outbound.requests import CannotSend
from hitl.outbound.sending import NotHeldBack
from hitl.threads.erasure import CannotErase, NotConfirmed
from hitl.wait_gate import early_answers, resume, resume_events, starts, waits
from runs.definitions import (
    SavedMeanwhile,
    TemplateNotFound,
    TemplateNotNamed,
    rights,
)
from runs.definitions.editing.catalog import FunctionNotFound
from runs.definitions.editing.versions import TemplateExists
from runs.definitions.readiness import CannotRun
from runs.definitions.shipped import NothingNewer
from runs.definitions.tool_approvals import ToolNotFound
from runs.git.repositories import RepositoryExists, RepositoryNotFound
from runs.git.sources import BadSource
from runs.keyed import KeyTaken
from runs.models.artifacts import ArtifactDropped
from runs.schedules.keeping import CannotStart, MayNotSchedule
from runs.security import scopes
from runs.services import NothingKept, OrdersStopped, PauseClosed
from runs.services import limits as work_limits
from runs.services.forks import (
    ForkForbidden,
    ImportStands,
    NothingToFork,
    ReasonMissing,
    ReviewStands,
)
from runs.services.resubmit import CannotAskAgain
from runs.services.undo import TooLate
from runs.states import RunEnded
from runs.threads import message_queue
from runs.threads.turns import NothingToResume, ThreadBusy
from runs.workflows.refusals import FieldRefused, FieldsRefused
from runs.workflows.registry import NotReady

STATUS: dict[type[Exception], int] = {
    FieldRefused: 422,
    FieldsRefused: 422,
    services.NotFound: 404,
    TemplateNotFound: 404,
    TemplateNotNamed: 422,
    ToolNotFound: 404,
    RepositoryNotFound: 404,
    RepositoryExists: 409,
    OrdersStopped: 409,
    CannotRun: 422,
    NotReady: 422,
    rights.Forbidden: 403,
    scopes.ScopeMissing: 403,
    scopes.AskCannotAnswer: 403,
    scopes.OwnQuestion: 403,
    rights.SwitchedOff: 409,
    ForkForbidden: 403,
    NothingToFork: 409,
    ReviewStands: 409,
    ImportStands: 409,
    ReasonMissing: 422,
    DifferentThreads: 409,
    NothingBefore: 409,
    services.AlreadyAnswered: 409,
    services.DeadlinePassed: 409,
    policy.NotAllowed: 403,
    policy.NotNow: 409,
    PauseClosed: 409,
    services.RevisionMismatch: 409,
    services.NotPaused: 409,
    services.SeveralQuestions: 409,
    changes.NoDeadline: 409,
    changes.DeadlineMoved: 409,
    changes.NotAnswerer: 403,
    ThreadBusy: 409,
    NothingToResume: 409,
    message_queue.QueueFull: 409,
    message_queue.NotWaiting: 409,
    message_queue.TurnRefused: 409,
    MergeFailed: 422,
    RunEnded: 409,
    NothingKept: 409,
    CannotAskAgain: 409,
    comments.TooManyComments: 409,
    SavedMeanwhile: 409,
    TemplateExists: 409,
    NothingNewer: 409,
    FunctionNotFound: 404,
    BadSource: 422,
    CheckpointDamaged: 409,
    StateLocked: 503,
    ImportRefused: 422,
    DocumentTooLarge: 413,
    CannotErase: 409,
    NotConfirmed: 422,
    ArtifactDropped: 410,
    TooLate: 409,
    NotYourAnswer: 403,
    EndpointNotYours: 403,
    BulkInvalid: 422,
    CannotSend: 409,
    NotHeldBack: 409,
    OutsideNotAllowed: 403,
    QuotaUsed: 429,
    StoreUnavailable: 503,
    waits.WaitOpen: 409,
    waits.TooManyWaits: 409,
    resume.WrongQuestion: 409,
    resume.StillWaiting: 409,
    resume.NotResumed: 409,
    early_answers.NotKept: 409,
    KeyTaken: 409,
    starts.MayNotStart: 403,
    NotUnderstood: 422,
    NotYourView: 403,
    work_limits.MayNotLimit: 403,
    MayNotSchedule: 403,
    CannotStart: 409,
    resume_events.EarlyVerdict: 409,
}
"""The `code` of each is stable. A class beneath one of these has its status."""
KNOWN = tuple(STATUS)


def status_of(error: Exception) -> int:
    """Give the status of an error that is one of `KNOWN`: that of its nearest class there."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
