"""The tools by which an agent starts work orders, and learns what became of them."""

from __future__ import annotations

import uuid
from typing import Any

from pydantic import BaseModel, Field

from checkpoints import ids
from checkpoints.state import codec
from extensions.mcp.door.tools import Arguments, Tool, ToolCall
from hitl.decisions import services
from hitl.http.idempotency import ClaimedKey
from hitl.models import idempotency
from hitl.outbound.links import absolute
from hitl.rendering.links import home_of, place_of
from hitl.wait_gate.waits import WaitInvalid
from runs import keyed
from runs import services as runs
from runs.models import WorkOrder
from runs.security import scopes
from runs.security.scopes import Scope


class StartWorkOrder(Arguments):
    """Start a work order from one of this server's templates. It runs by itself, and asks people
    where its template says so. With a key, the same call again gives the same work order.
    """

    template: str = Field("", max_length=80, description="Its slug; empty for the repository's.")
    title: str = ""
    request: str = Field("", description="What is wanted, in words.")
    input: dict[str, Any] = Field({}, description="What the template's input schema asks for.")
    repository_url: str = Field("", max_length=2_000)
    team: str = Field("", max_length=150, description="A team of your person's that sees it too.")
    key: str = Field("", max_length=150)


class GetWorkOrder(Arguments):
    """Read where a work order stands: its status, its open questions, its result."""

    work_order_id: str = Field(max_length=40)


class OpenQuestionOut(BaseModel):
    question_id: str
    question: str
    url: str


class WorkOrderOut(BaseModel):
    """A work order as it stands."""

    work_order_id: str
    title: str
    status: str = Field(description="pending, running, paused, completed or failed")
    phase: str
    error: str
    url: str
    questions: list[OpenQuestionOut] = Field(description="What people are asked now.")
    outputs: dict[str, Any] = Field(description="What its steps gave so far.")

    @classmethod
    def of(cls, order: WorkOrder) -> WorkOrderOut:
        run = order.latest_run
        return cls(
            work_order_id=order.shown_id,
            title=order.title,
            status=order.status,
            phase=order.phase,
            error=run.error if run else "",
            url=absolute(home_of(run)) if run else "",
            questions=[
                OpenQuestionOut(
                    question_id=pause.shown_id,
                    question=pause.question,
                    url=absolute(place_of(pause)),
                )
                for pause in services.open_pauses(order)
            ],
            outputs=dict(order.outputs),
        )


async def start_work_order(call: ToolCall, given: StartWorkOrder) -> WorkOrderOut:
    def start() -> WorkOrderOut:
        by = call.token.user
        team = by.groups.filter(name=given.team).first() if given.team else None
        if given.team and team is None:
            raise WaitInvalid.of("team", "You are in no team of this name.")
        digest = codec.digest(codec.encode(given.model_dump()))
        key = f"mcp:{call.token.pk.hex}:{given.key}"
        if given.key and (before := _made_before(call, key, digest)) is not None:
            return before
        claim = ClaimedKey(by, key, digest) if given.key else None
        try:
            with keyed.at_work(claim):
                order = runs.submit(
                    given.template,
                    by=by,
                    title=given.title,
                    request=given.request,
                    input=given.input,
                    repository_url=given.repository_url,
                    team=team,
                )
        except keyed.KeyTaken:
            if (before := _made_before(call, key, digest)) is None:
                raise
            return before
        return _read(call, order.pk)

    return await call.do(start)


def _made_before(call: ToolCall, key: str, digest: str) -> WorkOrderOut | None:
    """The work order that was started under this key."""
    row = idempotency.find(call.token.user, key)
    if row is None:
        return None
    if row.request_digest != digest:
        raise keyed.KeyTaken(
            "This key was used for another work order. Nothing was started: use a new key."
        )
    return _read(call, ids.parse(WorkOrder.PREFIX, row.made.split()[0]))


async def get_work_order(call: ToolCall, given: GetWorkOrder) -> WorkOrderOut:
    def read() -> WorkOrderOut:
        try:
            order_id = ids.parse(WorkOrder.PREFIX, given.work_order_id)
        except ValueError:
            raise services.NotFound("There is no such work order.") from None
        return _read(call, order_id)

    return await call.do(read)


def _read(call: ToolCall, order_id: uuid.UUID) -> WorkOrderOut:
    order = services.find_order(order_id, by=call.token.user)
    if scopes.asks() and order.thread.owner_id != call.token.user_id:
        raise services.NotFound("There is no such work order.")
    return WorkOrderOut.of(order)


TOOLS = (
    Tool(
        "start_work_order",
        StartWorkOrder,
        WorkOrderOut,
        scopes.ASKS,
        start_work_order,
        repeatable=False,
    ),
    Tool(
        "get_work_order",
        GetWorkOrder,
        WorkOrderOut,
        (Scope.READ, *scopes.ASKS),
        get_work_order,
        reads=True,
    ),
)
