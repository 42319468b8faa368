"""The tools by which a person's own assistant answers what waits for that person."""

from __future__ import annotations

import json
import uuid
from typing import Any

from pydantic import BaseModel, Field
from rest_framework.renderers import JSONRenderer

from checkpoints import ids
from extensions.mcp.door.tools import Arguments, Tool, ToolCall
from hitl.api.pauses.fields import DecisionOut, PauseOut
from hitl.decisions import services, visibility
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.models import Via, Vote
from hitl.outbound.links import absolute
from hitl.rendering.links import place_of
from runs.models import Pause
from runs.security import scopes
from runs.security.scopes import Scope

LISTED = 50
READS = (Scope.READ, *scopes.ANSWERS)


class ListWaiting(Arguments):
    """List the questions that wait for your person's answer, the newest first."""

    limit: int = Field(20, ge=1, le=LISTED)


class WaitingOut(BaseModel):
    question_id: str
    question: str
    kind: str
    risk: str
    asked_by: str
    opened_at: str
    deadline_at: str | None
    url: str


class WaitingListOut(BaseModel):
    questions: list[WaitingOut]
    count: int = Field(description="How many wait; more than are listed, perhaps.")


class GetQuestion(Arguments):
    """Read one question whole: what is asked, the content, the tool calls, which answers there are
    and what data they need. Show it to your person before you answer it.
    """

    question_id: str = Field(max_length=40)


class QuestionOut(BaseModel):
    question: dict[str, Any] = Field(
        description="As the REST API has it; answers, required_inputs, calls, revision and "
        "content_digest are what an answer is made of."
    )


class AnswerQuestion(Arguments):
    """Answer a question in your person's name. Do it only with the answer that your person gave
    you, to the question as you showed it to them.
    """

    question_id: str = Field(max_length=40)
    decision: str = Field(max_length=64, description="One of the question's answers, or cancel.")
    revision: int = Field(ge=1, le=2**31 - 1, description="Of the question that was shown.")
    content_digest: str = Field(
        min_length=1, max_length=64, description="Of the question that was shown."
    )
    feedback: str = Field("", max_length=services.MAX_FEEDBACK)
    input: dict[str, Any] | None = Field(
        None, description="The data that the question's required_inputs ask for."
    )
    stage: str = Field(
        "", max_length=40, description="Of the review, where your person is asked at several."
    )


class AnsweredOut(BaseModel):
    recorded: str = Field(description="decision, or vote where others must approve too.")
    decision: dict[str, Any] | None = None
    message: str = ""


async def list_waiting(call: ToolCall, given: ListWaiting) -> WaitingListOut:
    def read() -> WaitingListOut:
        mine = policy.waiting_for(call.token.user)
        keys = list(mine.order_by("-pk").values_list("pk", flat=True)[: given.limit])
        pauses = Pause.objects.shown().filter(pk__in=keys).order_by("-pk")
        return WaitingListOut(questions=[_row(pause) for pause in pauses], count=mine.count())

    return await call.do(read)


def _row(pause: Pause) -> WaitingOut:
    return WaitingOut(
        question_id=pause.shown_id,
        question=pause.question,
        kind=pause.kind,
        risk=pause.risk,
        asked_by=pause.run.thread.owner.get_username(),
        opened_at=pause.opened_at.isoformat(),
        deadline_at=pause.deadline_at.isoformat() if pause.deadline_at else None,
        url=absolute(place_of(pause)),
    )


async def get_question(call: ToolCall, given: GetQuestion) -> QuestionOut:
    def read() -> QuestionOut:
        by = call.token.user
        pause = visibility.find_shown(_key(given.question_id), by=by)
        return QuestionOut(question=_plain(PauseOut(pause, context={"whole": True, "by": by}).data))

    return await call.do(read)


async def answer(call: ToolCall, given: AnswerQuestion) -> AnsweredOut:
    def decide() -> AnsweredOut:
        reply = Answer(
            given.decision,
            Via.MCP,
            feedback=given.feedback,
            revision=given.revision,
            content_digest=given.content_digest,
            payload=given.input,
            stage=given.stage,
        )
        recorded = services.decide(_key(given.question_id), reply, by=call.token.user)
        if isinstance(recorded, Vote):
            return AnsweredOut(recorded="vote", message="Others must approve too.")
        return AnsweredOut(recorded="decision", decision=_plain(DecisionOut(recorded).data))

    return await call.do(decide)


def _key(question_id: str) -> uuid.UUID:
    try:
        return ids.parse(Pause.PREFIX, question_id)
    except ValueError:
        raise services.NotFound("There is no such question.") from None


def _plain(data: Any) -> dict[str, Any]:
    """What a serializer gave, as JSON has it."""
    plain: dict[str, Any] = json.loads(JSONRenderer().render(data))
    return plain


TOOLS = (
    Tool("list_waiting", ListWaiting, WaitingListOut, READS, list_waiting, reads=True),
    Tool("get_question", GetQuestion, QuestionOut, READS, get_question, reads=True),
    Tool("answer", AnswerQuestion, AnsweredOut, scopes.ANSWERS, answer, repeatable=False),
)
