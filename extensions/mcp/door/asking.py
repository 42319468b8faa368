"""The tools by which an agent asks a person, and learns the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field

from checkpoints.database import clock
from extensions.mcp.door.tools import Arguments, Tool, ToolCall
from hitl.decisions import services
from hitl.live import connections
from hitl.live.questions import until_closed
from hitl.models import Via
from hitl.outbound.links import absolute
from hitl.rendering.links import place_of
from hitl.wait_gate import questions, requests, waits
from hitl.wait_gate.requests import AgentRequest, Audience, RequestStatus
from runs.security import scopes
from runs.workflows.tool_calls import Call

LONGEST_WAIT = 50
"""Seconds: below the minute after which most hosts give a call up."""
GRACE = 2.0
"""Seconds behind a deadline, by which it has been met."""
MEANS = {
    RequestStatus.PENDING: "A person has been asked. Do not act yet: call wait_for_answer with "
    "this request_id, or end your turn and come back later.",
    RequestStatus.APPROVED: "Approved. Act with exactly these arguments: a person may have changed "
    "them.",
    RequestStatus.ANSWERED: "A person has answered.",
    RequestStatus.REJECTED: "Rejected. Do not act.",
    RequestStatus.EXPIRED: "Nobody answered in time, which is a no. Do not act.",
    RequestStatus.WITHDRAWN: "The request was withdrawn. Do not act.",
}


class RequestOut(BaseModel):
    """Where a request stands."""

    status: RequestStatus
    request_id: str
    url: str = Field(description="The page of the question, for people.")
    message: str = Field(description="What this means for you.")
    arguments: dict[str, Any] | None = Field(
        None, description="What to act with, as approved; null where nothing is approved."
    )
    answer: dict[str, Any] | None = Field(
        None, description="What a person filled in, by field; null where nobody did."
    )
    feedback: str = ""
    decided_by: str | None = None
    decided_at: str | None = None

    @classmethod
    def of(cls, request: AgentRequest) -> RequestOut:
        pause, decision = request.pause, request.decision
        return cls(
            status=request.status,
            request_id=pause.shown_id,
            url=absolute(place_of(pause)),
            message=MEANS[request.status],
            arguments=None if request.arguments is None else dict(request.arguments),
            answer=request.answer,
            feedback=request.feedback,
            decided_by=decision.who if decision else None,
            decided_at=decision.decided_at.isoformat() if decision else None,
        )


class Asking(Arguments):
    team: str = Field(
        "", max_length=150, description="A team of your person's, whose members may answer."
    )
    reviewers: list[str] = Field(
        [], max_length=20, description="Usernames: they may answer, and nobody else."
    )
    recipients: list[str] = Field(
        [], max_length=20, description="Usernames and mail addresses that are told as well."
    )
    deadline: str = Field(
        "",
        max_length=40,
        description="How long people have, such as PT2H or P3D. Then it expires, which is a no.",
    )
    key: str = Field(
        "",
        max_length=150,
        description="The same words under the same key are the same request, also after it was "
        "answered: name one to find your request after a crash. Without a key each call asks anew.",
    )
    valid_for: int | None = Field(
        None,
        ge=0,
        le=questions.LONGEST_VALID,
        description="Seconds for which an answer under a key is one; an older one is asked anew. "
        f"{questions.VALID_FOR} unless you say otherwise.",
    )
    wait_seconds: float = Field(LONGEST_WAIT, ge=0, le=LONGEST_WAIT)

    def audience(self, call: ToolCall) -> Audience:
        return _audience(
            call,
            team=self.team,
            reviewers=self.reviewers,
            recipients=self.recipients,
            deadline=self.deadline,
            key=self.key,
            valid_for=self.valid_for,
        )


def _audience(
    call: ToolCall,
    *,
    team: str = "",
    reviewers: Sequence[str] = (),
    recipients: Sequence[str] = (),
    deadline: str = "",
    key: str,
    valid_for: int | None = None,
) -> Audience:
    """Who is asked: what the address of this door says where the call says nothing."""
    named = [name for name in call.address.get("reviewers", "").split(",") if name]
    return Audience(
        team=team or call.address.get("team", ""),
        reviewers=reviewers or named,
        recipients=recipients,
        deadline=deadline or call.address.get("deadline", ""),
        key=key,
        valid_for=valid_for,
    )


class RequestApproval(Asking):
    """Ask a person to approve one action before you take it. Gives approved, with the arguments to
    act with; rejected, with the reason; expired; or pending while nobody has answered: then call
    wait_for_answer. Never act unless it is approved. Each call asks anew, unless you name a key:
    then the same call after a crash finds the same request.
    """

    action: str = Field(
        min_length=1, max_length=200, description="What you want to do, such as refund_order."
    )
    arguments: dict[str, Any] = Field(
        {}, description="What you want to do it with. No secrets: they are refused."
    )
    why: str = Field("", max_length=100_000, description="Why, for the person. Markdown.")
    risk: Literal["low", "normal", "high"] = "normal"
    editable: list[str] = Field(
        [],
        max_length=50,
        description="JSON pointers of what the person may change in the arguments, such as "
        '/amount. [""] is all of them.',
    )


class AskHuman(Asking):
    """Ask a person a question. Gives answered, with the answer; rejected; expired; or pending while
    nobody has answered: then call wait_for_answer. Each call asks anew, unless you name a key: then
    the same call after a crash finds the same question.
    """

    question: str = Field(min_length=1, max_length=300)
    content: str = Field("", max_length=100_000, description="More for the person. Markdown.")
    schema_: dict[str, Any] | None = Field(
        None,
        alias="schema",
        description="JSON Schema of the object to answer with: a form is made of it. Without it "
        'the answer is {"answer": text}.',
    )
    choices: list[str] = Field(
        [], max_length=50, description="Texts to choose the answer from, in place of a schema."
    )


class WaitForAnswer(Arguments):
    """Wait up to 50 seconds for the answer to your request. Call it again while it gives
    pending.
    """

    request_id: str = Field(max_length=40)
    wait_seconds: float = Field(LONGEST_WAIT, ge=0, le=LONGEST_WAIT)


class WithdrawRequest(Arguments):
    """Withdraw a request of yours, so that nobody is asked any more. An answer that was given
    before stays.
    """

    request_id: str = Field(max_length=40)
    reason: str = Field("", max_length=services.MAX_FEEDBACK)


class PermissionPrompt(Arguments):
    """The --permission-prompt-tool of Claude Code, which calls it; a model does not. Asks a person
    whether a tool may be used, and waits until somebody answers or the time is over, which is a no.
    """

    model_config = ConfigDict(extra="ignore")  # a later version of that host may send more

    tool_name: str = Field(min_length=1, max_length=200)
    input: dict[str, Any] = {}
    tool_use_id: str = Field(min_length=1, max_length=150)


async def request_approval(call: ToolCall, given: RequestApproval) -> RequestOut:
    wanted = Call(
        id=requests.CALL,
        tool=given.action,
        arguments=given.arguments,
        risk=given.risk,
        editable=given.editable,
    )
    request = await call.do(
        requests.ask_approval,
        call.token,
        wanted,
        given.audience(call),
        question=f"May this be done: {given.action}?",
        content=given.why,
    )
    return await call.do(RequestOut.of, await _answer(call, request, given.wait_seconds))


async def ask_human(call: ToolCall, given: AskHuman) -> RequestOut:
    if given.schema_ is not None and given.choices:
        raise waits.WaitInvalid.of("choices", "Name a schema or choices, not both.")
    answer = {"enum": given.choices} if given.choices else {"type": "string", "minLength": 1}
    text = {
        "type": "object",
        "properties": {"answer": {"title": "Answer", **answer}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    request = await call.do(
        requests.ask_data,
        call.token,
        text if given.schema_ is None else given.schema_,
        given.audience(call),
        question=given.question,
        content=given.content,
    )
    return await call.do(RequestOut.of, await _answer(call, request, given.wait_seconds))


async def wait_for_answer(call: ToolCall, given: WaitForAnswer) -> RequestOut:
    request = await call.do(requests.look, call.token, given.request_id)
    return await call.do(RequestOut.of, await _answer(call, request, given.wait_seconds))


async def withdraw_request(call: ToolCall, given: WithdrawRequest) -> RequestOut:
    request = await call.do(
        requests.withdraw, call.token, given.request_id, via=Via.MCP, reason=given.reason
    )
    return await call.do(RequestOut.of, request)


async def permission_prompt(call: ToolCall, given: PermissionPrompt) -> str:
    minutes = settings.WAYSTATION_MCP_PERMISSION_MINUTES
    wanted = Call(id=requests.CALL, tool=given.tool_name, arguments=given.input, editable=[""])
    limit = call.address.get("deadline", "") or f"PT{round(minutes * 60)}S"
    request = await call.do(
        requests.ask_approval,
        call.token,
        wanted,
        _audience(call, deadline=limit, key=given.tool_use_id),
        question=f"May the agent use {given.tool_name}?",
    )
    due = request.pause.deadline_at
    seconds = GRACE if due is None else (due - clock.now()).total_seconds() + GRACE
    request = await _answer(call, request, seconds)
    if request.status == RequestStatus.APPROVED:
        return json.dumps({"behavior": "allow", "updatedInput": dict(request.arguments or {})})
    return denial(request.feedback or MEANS[request.status])


def denial(words: str) -> str:
    """What that host takes for a no."""
    return json.dumps({"behavior": "deny", "message": words})


async def _answer(call: ToolCall, request: AgentRequest, seconds: float) -> AgentRequest:
    """The request once it is answered, or as it stands after so many seconds; at once where the
    person has as many places as they may have.
    """
    person = call.token.user_id
    if request.status != RequestStatus.PENDING or seconds <= 0 or call.as_task:
        return request
    if not connections.take(person):
        return request
    try:
        await call.reporting(until_closed(request.pause.pk, seconds=seconds))
    finally:
        connections.give_back(person)
    return await call.do(requests.look, call.token, request.pause.shown_id)


TOOLS = (
    Tool(
        "request_approval",
        RequestApproval,
        RequestOut,
        scopes.ASKS,
        request_approval,
        repeatable=False,
    ),
    Tool("ask_human", AskHuman, RequestOut, scopes.ASKS, ask_human, repeatable=False),
    Tool("wait_for_answer", WaitForAnswer, RequestOut, scopes.ASKS, wait_for_answer, reads=True),
    Tool("withdraw_request", WithdrawRequest, RequestOut, scopes.ASKS, withdraw_request),
    Tool("permission_prompt", PermissionPrompt, None, scopes.ASKS, permission_prompt, fails=denial),
)
