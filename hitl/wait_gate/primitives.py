"""The wait gate's five primitives, for engines that run in a process with this product's settings;
others use the REST API.

    from hitl.wait_gate import primitives as waitgate

    run = "booking-4711"
    words = "Which VAT number is yours?"
    waitgate.create_checkpoint(
        run, "decide", {"invoice": 4711}, SCHEMA, "missing_supplier_data", by=user, question=words
    )
    waitgate.send_request(run, "mailto:billing@example.org", words, SCHEMA, by=user)
    # the answer comes
    waitgate.ingest_resume_event(run, {"vat_id": "DE123456789"}, {"channel": "mail"}, by=user)
    # the merged state, and the node to go on at
    restored = waitgate.resume_from_checkpoint(run, by=user)

`by` is the person that the engine acts as: run ids are theirs, and they see what they see
elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkpoints import ids, store
from checkpoints.database.people import User
from checkpoints.models import Checkpoint, Thread
from hitl.decisions.services import NotPaused
from hitl.models import Decision, Via, Wait
from hitl.wait_gate import lifecycles, resume, waits
from hitl.wait_gate.resume import Ingested
from hitl.wait_gate.resume_events import ResumeEvent
from hitl.wait_gate.waits import WaitRequest
from runs.models import Pause, Run
from runs.states import LIVE, PAUSED, PauseStatus, RunStatus
from runs.workflows import owned, schemas

validate_resume_payload = schemas.answer_faults
"""The one validator of answers."""
STATUSES = {
    RunStatus.PENDING: "running",
    RunStatus.RUNNING: "running",
    RunStatus.PAUSED: "waiting_external",
    RunStatus.COMPLETED: "completed",
}
"""A run's status in the words of the wait gate; all others are failed, with a `failure_code`."""


class RequestMismatch(Exception):
    """What is to be sent is not what is asked."""

    code = "request_mismatch"


@dataclass(frozen=True, kw_only=True)
class WorkflowState:
    """Where a run is, and what it waits for."""

    run: Run
    wait: Wait | None
    status: str
    node_id: str
    """Where it goes on."""
    state: dict[str, Any]
    pause: Pause | None
    """The question that is open; else the last one."""
    decision: Decision | None
    """The answer to it."""

    @property
    def run_id(self) -> str:
        """By the id that who asks knows."""
        return self.wait.outer.name if self.wait else self.run.shown_id

    @property
    def open(self) -> Pause | None:
        return (
            self.pause if self.pause is not None and self.pause.status == PauseStatus.OPEN else None
        )


def create_checkpoint(
    run_id: str,
    node_id: str,
    state: Mapping[str, Any],
    required_inputs: Mapping[str, Any],
    blocking_reason: str,
    *,
    by: User,
    question: str = "",
    **more: Any,
) -> Wait:
    """Keep where a run is, and open the question for what it lacks.

    The same again is the same wait while that is open, and under a `key` also once it was answered.

    `more` is what `waits.WaitRequest` takes beside. Raises as `waits.open_wait`.
    """
    asked = WaitRequest(
        run_id=run_id,
        node_id=node_id,
        state=state,
        required_inputs=required_inputs,
        blocking_reason=blocking_reason,
        question=question,
        **more,
    )
    return waits.open_wait(asked, by=by)[0]


def send_request(
    run_id: str,
    recipient: str,
    question: str,
    required_inputs: Mapping[str, Any] | None = None,
    *,
    by: User,
) -> None:
    """Have somebody asked the open question of a run, once each.

    Sending is the relay's, after the commit.

    Raises NotFound, NotPaused where nothing is asked, RequestMismatch where `required_inputs` are
    not what is asked for.
    """
    run, wait = waits.find(run_id, by=by)
    pause = Pause.objects.open().filter(run=run).first()
    if wait is None or pause is None:
        raise NotPaused("This run asks nothing at the moment, so nobody was asked.")
    if required_inputs and schemas.check_inputs(required_inputs) != pause.required_inputs:
        raise RequestMismatch(
            "The question that is open asks for something else; nobody was asked."
        )
    waits.tell(wait, recipient, question, by=by)


def ingest_resume_event(
    run_id: str,
    payload: Any,
    sender_metadata: Mapping[str, Any] | None = None,
    *,
    by: User,
    input_type: str = "",
    node_id: str = "",
) -> Ingested:
    """Hand in an answer. Raises as `resume.ingest`."""
    event = ResumeEvent(
        run_id=run_id,
        payload=payload,
        sender_metadata=sender_metadata or {},
        input_type=input_type,
        node_id=node_id,
    )
    return resume.ingest(event, by=by, via=Via.REST)


def resume_from_checkpoint(run_id: str, *, by: User) -> WorkflowState:
    """The merged state and the node to go on at.

    Raises NotFound, and resuming.StillWaiting while the question is open.
    """
    return standing(*resume.go_on(run_id, by=by))


def report(run_id: str, status: str, *, by: User) -> WorkflowState:
    """Say that a run of another engine goes on behind its answer (`running`), or has ended
    (`completed`, `failed`). Raises as `resume.report`.
    """
    return standing(*resume.report(run_id, status, by=by))


def look(run_id: str, *, by: User) -> WorkflowState:
    """Where a run is. Raises NotFound."""
    return standing(*waits.find(run_id, by=by))


def of_wait(wait: Wait) -> WorkflowState:
    """Where a wait is."""
    return standing(Run.objects.shown().get(pk=wait.pause.run_id), wait)


def standing(run: Run, wait: Wait | None) -> WorkflowState:
    """Where that run is; of another engine's, where that wait is."""
    head = Checkpoint.objects.filter(run_id=run.pk, graph=None).order_by("-id").first()
    pauses = Pause.objects.filter(run=run).select_related("run__thread").order_by("-id")
    pause = (
        pauses.filter(status=PauseStatus.OPEN).first() if run.status == PAUSED else None
    ) or pauses.first()
    decision = Decision.objects.answer_to(pause) if pause else None
    state = dict(store.load(head)) if head else {}
    if wait is not None:
        state = {key: value for key, value in state.items() if key not in owned.BY_ANSWERS}
        node = wait.node_id
    else:
        node = "" if head is None else (head.next_step or head.node_id)
    status = STATUSES.get(RunStatus(run.status), "failed")
    if run.awaited and run.status in LIVE:
        status = "running"
    if wait is not None and (wait.reported or status == "completed"):  # ours ended, theirs goes on
        status = wait.reported or "running"
    return WorkflowState(
        run=run, wait=wait, status=status, node_id=node, state=state, pause=pause, decision=decision
    )


def callback(pause: Pause) -> dict[str, Any] | None:
    """What another engine is told once its wait was answered, cancelled or has expired: what `GET
    workflows/<run_id>` gives.
    """
    wait = Wait.objects.select_related("outer", "pause__run__thread").filter(pause=pause.pk).first()
    return None if wait is None else document(of_wait(wait))


def document(state: WorkflowState, *, observed: bool = False) -> dict[str, Any]:
    """A run's standing as the API and callbacks tell it; without its state where that who is told
    takes no part in it (`observed`).
    """
    run, pause, decision = state.run, state.pause, state.decision
    asked = state.open
    return {
        "run_id": state.run_id,
        "status": state.status,
        "lifecycle": lifecycles.of(run, pause).value,
        "node_id": state.node_id,
        "blocking_reason": asked.phase if asked else None,
        "required_inputs": asked.required_inputs if asked else None,
        "next_deadline": asked.deadline_at.isoformat() if asked and asked.deadline_at else None,
        "question": asked.question if asked else None,
        "answers": [*asked.answers, "cancel"] if asked else [],
        "attempts": asked.attempts if asked else 0,
        "refined": asked.refined if asked else "",
        "pause_id": pause.shown_id if pause else None,
        "pause_state": pause.status if pause else None,
        "state": {} if observed else state.state,
        "answer": _answer(decision) if decision else None,
        "error": run.error or None,
        "failure_code": run.failure_code or None,
        "waystation_run_id": run.shown_id,
        "thread_id": ids.show(Thread.PREFIX, run.thread_id),
    }


def _answer(decision: Decision) -> dict[str, Any]:
    return {
        "decision_id": decision.shown_id,
        "decision": decision.action,
        "payload": decision.payload,
        "feedback": decision.feedback,
        "decided_by": decision.decided_by.get_username() if decision.decided_by else None,
        "external": decision.external or None,
        "decided_at": decision.decided_at.isoformat(),
        "via": decision.via,
    }
