"""What agents ask of people by their tokens: approval of a call, or data; and where that stands.

Only a Decision row that approves is an approval. Whatever else became of a question is a no: it
expired, was cancelled or withdrawn, or is gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings

from checkpoints import ids
from hitl.decisions import services, tool_calls
from hitl.decisions.deadlines import outcomes
from hitl.models import ApiToken, Decision, Via, Wait
from hitl.wait_gate import waits
from hitl.wait_gate.questions import OF_TOKENS, WaitRequest
from runs.models import Pause
from runs.services import PauseClosed
from runs.states import PauseStatus, RunEnded
from runs.workflows.sequence import CANCEL
from runs.workflows.tool_calls import MADE, Call

CALL = "call"
"""The id of the one call that a question is about."""


class RequestStatus(StrEnum):
    """Where a request stands."""

    PENDING = "pending"
    APPROVED = "approved"
    ANSWERED = "answered"
    """With data."""
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    """By who asked."""


@dataclass(frozen=True, kw_only=True)
class Audience:
    """Who is asked, and by when."""

    team: str = ""
    reviewers: Sequence[str] = ()
    """Usernames; the members of the team where there are none."""
    recipients: Sequence[str] = ()
    deadline: str = ""
    """A duration; "" for none."""
    key: str = ""
    """With one, the same words are the same request."""
    valid_for: int | None = None
    """Seconds for which the answer under a key is one."""

    @property
    def review(self) -> dict[str, Any]:
        """The rules. Silence is never an approval."""
        return {
            "self_approval": settings.WAYSTATION_MCP_OWNER_DECIDES,
            **({"reviewers": {"users": list(self.reviewers)}} if self.reviewers else {}),
            **(
                {"deadline": {"after": self.deadline, "outcome": "expire"}} if self.deadline else {}
            ),
        }


@dataclass(frozen=True, kw_only=True)
class AgentRequest:
    """A request as it stands."""

    pause: Pause
    status: RequestStatus
    decision: Decision | None
    arguments: Mapping[str, Any] | None = None
    """Of the call, as they were approved; None where it was not."""
    answer: Any = None
    feedback: str = ""


def ask_approval(
    token: ApiToken, call: Call, audience: Audience, *, question: str, content: str = ""
) -> AgentRequest:
    """Ask whether a call may be made.

    Raises what `waits.open_wait_of` raises.
    """
    return _ask(
        token,
        audience,
        node_id="approval",
        blocking_reason="awaiting_tool_approval",
        question=question,
        content=content,
        calls=[call],
    )


def ask_data(
    token: ApiToken,
    required_inputs: Mapping[str, Any],
    audience: Audience,
    *,
    question: str,
    content: str = "",
) -> AgentRequest:
    """Ask for data.

    Raises what `waits.open_wait_of` raises.
    """
    return _ask(
        token,
        audience,
        node_id="question",
        blocking_reason="awaiting_answer",
        question=question,
        content=content,
        required_inputs=required_inputs,
    )


def _ask(token: ApiToken, audience: Audience, **asked: Any) -> AgentRequest:
    request = WaitRequest(
        run_id="",
        review=audience.review,
        recipients=audience.recipients,
        team=audience.team,
        key=audience.key,
        valid_for=audience.valid_for,
        **asked,
    )
    return look(token, waits.open_wait_of(token, request)[0].pause.shown_id)


def look(token: ApiToken, request_id: str) -> AgentRequest:
    """A request of the token's person as it stands; its deadline has acted where that has passed.

    Raises NotFound: there is none, or somebody else asked it.
    """
    pause_id = _parse(request_id)
    outcomes.meet(Pause.objects.filter(pk=pause_id, wait__outer__owner=token.user))
    wait = (
        Wait.objects.filter(outer__name__startswith=OF_TOKENS)
        .select_related("pause__run__thread")
        .filter(pause=pause_id, outer__owner=token.user)
        .first()
    )
    if wait is None:
        raise services.NotFound("There is no such request.")
    return _standing(wait.pause, Decision.objects.answer_to(wait.pause))


def _parse(request_id: str) -> uuid.UUID:
    try:
        return ids.parse(Pause.PREFIX, request_id)
    except ValueError:
        raise services.NotFound("There is no such request.") from None


def withdraw(token: ApiToken, request_id: str, *, via: Via, reason: str = "") -> AgentRequest:
    """Withdraw a request that is open. One that was answered, or is over, stays as it is.

    Raises NotFound, and policy.NotNow where somebody has claimed it.
    """
    request = look(token, request_id)
    if request.status == RequestStatus.PENDING:
        with suppress(PauseClosed, RunEnded):
            services.end_run(request.pause.run, by=token.user, via=via, reason=reason)
        request = look(token, request_id)
    return request


def _standing(pause: Pause, decision: Decision | None) -> AgentRequest:
    if pause.status == PauseStatus.OPEN:
        return AgentRequest(pause=pause, status=RequestStatus.PENDING, decision=None)
    if decision is None:
        return AgentRequest(pause=pause, status=RequestStatus.EXPIRED, decision=None)
    if decision.action == CANCEL:
        withdrawn = decision.decided_by_id == pause.run.thread.owner_id
        status = RequestStatus.WITHDRAWN if withdrawn else RequestStatus.REJECTED
        return AgentRequest(
            pause=pause, status=status, decision=decision, feedback=decision.feedback
        )
    if not pause.calls:
        return AgentRequest(
            pause=pause,
            status=RequestStatus.ANSWERED,
            decision=decision,
            answer=decision.payload,
            feedback=decision.feedback,
        )
    verdict = tool_calls.decided(pause, decision.action, decision.payload).get(CALL)
    if verdict is None or verdict["decision"] not in MADE:
        reason = "" if verdict is None else verdict["reason"]
        return AgentRequest(
            pause=pause,
            status=RequestStatus.REJECTED,
            decision=decision,
            feedback=reason or decision.feedback,
        )
    return AgentRequest(
        pause=pause,
        status=RequestStatus.APPROVED,
        decision=decision,
        arguments=verdict["arguments"],
        feedback=decision.feedback or verdict["reason"],
    )
