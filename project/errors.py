"""Domain error → RFC 9457 problem details: one table for every API."""

from __future__ import annotations

import logging
from typing import Any

from rest_framework import exceptions
from rest_framework.permissions import SAFE_METHODS
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_handler

from checkpoints.database import outages
from checkpoints.export.thread_document import DocumentTooLarge, ImportRefused
from checkpoints.forensics.diff import DifferentThreads, NothingBefore
from checkpoints.state.reducers import MergeFailed
from checkpoints.store import CheckpointDamaged, StateLocked, StoreUnavailable
from hitl.api.artifacts import ArtifactDropped
from hitl.decisions import deadline_changes, policy, revisions, services
from hitl.decisions.bulk import BulkInvalid
from hitl.decisions.delegations import DelegationRefused
from hitl.decisions.undo import NotYours
from hitl.http import problems
from hitl.http.incoming import BodyTooLarge
from hitl.models import Decision
from hitl.outbound.endpoints import EndpointInvalid
from hitl.outbound.endpoints import NotYours as EndpointNotYours
from hitl.outbound.quotas import OutsideNotAllowed, QuotaUsed
from hitl.outbound.requests import CannotSend
from hitl.outbound.sending import NotHeldBack
from hitl.threads.erasure import CannotErase, NotConfirmed
from hitl.wait_gate import early_answers, resume, resume_events, waits
from runs.agents.approval import RulesRefused
from runs.definitions import TemplateInvalid, TemplateNotFound, TemplateNotNamed, rights
from runs.definitions.readiness import CannotRun
from runs.definitions.tool_approvals import CallInvalid, ToolNotFound
from runs.engine.start import NothingKept
from runs.git.repositories import RepositoryInvalid, RepositoryNotFound
from runs.git.sources import BadSource
from runs.keyed import KeyTaken
from runs.security import scopes
from runs.services import InputInvalid, OrdersStopped, PauseClosed
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
from runs.workflows.registry import NotReady

logger = logging.getLogger(__name__)

STATUS: dict[type[Exception], int] = {
    services.NotFound: 404,
    TemplateNotFound: 404,
    TemplateNotNamed: 422,
    ToolNotFound: 404,
    CallInvalid: 422,
    RulesRefused: 422,
    RepositoryNotFound: 404,
    RepositoryInvalid: 422,
    OrdersStopped: 409,
    CannotRun: 422,
    NotReady: 422,
    rights.Forbidden: 403,
    scopes.ScopeMissing: 403,
    scopes.AskCannotAnswer: 403,
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
    DelegationRefused: 422,
    PauseClosed: 409,
    services.RevisionMismatch: 409,
    services.NotPaused: 409,
    services.SeveralQuestions: 409,
    deadline_changes.NoDeadline: 409,
    deadline_changes.DeadlineMoved: 409,
    deadline_changes.NotAnswerer: 403,
    deadline_changes.PostponingInvalid: 422,
    ThreadBusy: 409,
    NothingToResume: 409,
    message_queue.QueueFull: 409,
    message_queue.NotWaiting: 409,
    message_queue.TurnRefused: 409,
    MergeFailed: 422,
    RunEnded: 409,
    NothingKept: 409,
    CannotAskAgain: 409,
    services.AnswerInvalid: 422,
    InputInvalid: 422,
    TemplateInvalid: 422,
    BadSource: 422,
    CheckpointDamaged: 409,
    StateLocked: 503,
    ImportRefused: 422,
    DocumentTooLarge: 413,
    CannotErase: 409,
    NotConfirmed: 422,
    ArtifactDropped: 410,
    TooLate: 409,
    NotYours: 403,
    EndpointNotYours: 403,
    BulkInvalid: 422,
    EndpointInvalid: 422,
    CannotSend: 409,
    NotHeldBack: 409,
    OutsideNotAllowed: 403,
    QuotaUsed: 429,
    StoreUnavailable: 503,
    waits.WaitInvalid: 422,
    waits.WaitOpen: 409,
    resume.WrongQuestion: 409,
    resume.StillWaiting: 409,
    early_answers.NotKept: 409,
    KeyTaken: 409,
    resume_events.EarlyVerdict: 409,
}


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    status = STATUS.get(type(error))
    if status is not None:
        refused = problem(status, str(getattr(error, "code", "error")), str(error), **_extra(error))
        if isinstance(error, QuotaUsed):
            refused.headers["Retry-After"] = str(error.retry_after)
        return refused
    request = context.get("request")  # a socket's message comes with none, and may change something
    if (
        said := outages.said(error, changing=request is None or request.method not in SAFE_METHODS)
    ) is not None:
        logger.warning("%s: %s", request.path if request is not None else "a socket", error)
        away = problem(said.status, said.code, said.words)
        away.headers["Retry-After"] = str(said.after)
        return away
    if isinstance(error, RecursionError):  # Python's JSON parser and ours go down by recursion
        return problem(400, "parse_error", "The request is nested too deeply; nothing was changed.")
    response = drf_handler(error, context)
    if response is None:
        return None
    detail, code, extra = _from_drf(error, response)
    made = problem(response.status_code, code, detail, **extra)
    for header in ("WWW-Authenticate", "Retry-After", "Allow"):
        if header in response.headers:
            made.headers[header] = response.headers[header]
    return made


def problem(status: int, code: str, detail: str, **extra: Any) -> Response:
    """A problem document; `code` is stable, `detail` is for people."""
    return Response(
        problems.document(status, code, detail, **extra),
        status=status,
        content_type="application/problem+json",
    )


def _extra(error: Exception) -> dict[str, Any]:
    match error:
        case (
            services.AnswerInvalid()
            | InputInvalid()
            | TemplateInvalid()
            | deadline_changes.PostponingInvalid()
            | EndpointInvalid()
            | RepositoryInvalid()
            | CallInvalid()
            | RulesRefused()
            | waits.WaitInvalid()
        ):
            return {"errors": error.errors}
        case DocumentTooLarge():
            return {"limit": error.limit}
        case services.SeveralQuestions():
            return {"pause_ids": [pause.shown_id for pause in error.pauses]}
        case resume.WrongQuestion():
            return {
                "pause_id": error.pause.shown_id,
                "input_types": resume_events.types_of(error.pause),
            }
        case services.RevisionMismatch():
            before = revisions.earlier(error.pause, error.seen) if error.seen else None
            changes = revisions.changes_as_text(before, error.pause) if before else None
            now = {
                "pause_id": error.pause.shown_id,
                "revision": error.pause.revision,
                "pause_content": error.pause.content,
            }
            return {
                **now,
                "changes": changes,
                **(_winner(error.decision) if error.decision else {}),
            }
        case services.DeadlinePassed(pause=pause, at=at, outcome=outcome):
            return {"deadline_at": at.isoformat(), "outcome": outcome, "state": pause.status}
        case services.AlreadyAnswered(decision=decision) if decision is not None:
            return _winner(decision)
        case services.AlreadyAnswered(pause=pause) if pause.closed_at is not None:
            return {"state": pause.status, "closed_at": pause.closed_at.isoformat()}
    return {}


def _winner(decision: Decision) -> dict[str, Any]:
    """Who was first, with what, and when."""
    return {
        "decision": decision.action,
        "decided_by": decision.decided_by.get_username() if decision.decided_by else None,
        "external": decision.external or None,
        "decided_at": decision.decided_at.isoformat(),
    }


def _from_drf(error: Exception, response: Response) -> tuple[str, str, dict[str, Any]]:
    if isinstance(error, exceptions.ValidationError):
        return (
            "The request was not understood; nothing was changed.",
            "invalid",
            {"errors": response.data},
        )
    if isinstance(error, exceptions.APIException):
        codes = error.get_codes()
        extra = {"limit": error.limit} if isinstance(error, BodyTooLarge) else {}
        return str(error.detail), codes if isinstance(codes, str) else "error", extra
    return (
        str(response.data.get("detail", "")) if isinstance(response.data, dict) else "",
        "not_found" if response.status_code == 404 else "forbidden",
        {},
    )
