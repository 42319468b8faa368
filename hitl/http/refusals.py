"""Domain error → RFC 9457 problem details, for REST and sockets; which status each has says
`hitl.http.errors`.
"""

from __future__ import annotations

import logging
from typing import Any

from rest_framework import exceptions
from rest_framework.permissions import SAFE_METHODS
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_handler

from checkpoints.database import outages
from checkpoints.export.thread_document import DocumentTooLarge
from hitl.decisions import revisions, services
from hitl.find.asking import NotUnderstood
from hitl.http import errors, problems
from hitl.http.authentication import takes
from hitl.http.incoming import BodyTooLarge
from hitl.http.queries import UnknownParameter
from hitl.models import Decision
from hitl.outbound.quotas import QuotaUsed
from hitl.wait_gate import resume, resume_events
from runs.api.requests import CannotBe
from runs.workflows.refusals import FieldRefused, FieldsRefused

logger = logging.getLogger(__name__)


UNKNOWN = (
    exceptions.NotAuthenticated,
    exceptions.AuthenticationFailed,
    exceptions.PermissionDenied,
    exceptions.Throttled,
)
"""Refusals of somebody: a method that an address does not have is refused before, whoever asks."""


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    if isinstance(error, UNKNOWN) and (method := _untaken(context)):
        error = exceptions.MethodNotAllowed(method)
    if isinstance(error, errors.KNOWN):
        code = str(getattr(error, "code", "error"))
        refused = problem(errors.status_of(error), code, str(error), **_extra(error))
        if isinstance(error, QuotaUsed):
            refused.headers["Retry-After"] = str(error.retry_after)
        return refused
    request = context.get("request")  # a socket's message comes with none, and may change something
    if (
        answer := outages.said(
            error, changing=request is None or request.method not in SAFE_METHODS
        )
    ) is not None:
        logger.warning("%s: %s", request.path if request is not None else "a socket", error)
        away = problem(answer.status, answer.code, answer.words)
        away.headers["Retry-After"] = str(answer.after)
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


def _untaken(context: dict[str, Any]) -> str:
    """The request's method, where its address has others and not this one."""
    request, view = context.get("request"), context.get("view")
    if request is None or view is None or takes(view, request.method):
        return ""
    return str(request.method)


def problem(status: int, code: str, detail: str, **extra: Any) -> Response:
    """A problem document; `code` is stable, `detail` is for people."""
    return Response(
        problems.document(status, code, detail, **extra),
        status=status,
        content_type="application/problem+json",
    )


def _extra(error: Exception) -> dict[str, Any]:
    match error:
        case FieldsRefused() | FieldRefused() | NotUnderstood():
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
    if isinstance(error, UnknownParameter):
        return (
            "The query names a parameter that nobody reads here; nothing was looked for.",
            error.code,
            {"errors": response.data, "known": error.known},
        )
    if isinstance(error, exceptions.ValidationError):
        return (
            "What the request asks for cannot be; nothing was changed."
            if isinstance(error, CannotBe)
            else "The request was not understood; nothing was changed.",
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
