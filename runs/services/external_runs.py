"""Runs that only wait: for an engine of somebody else's, which goes on elsewhere once the question
is answered.

Such a run is made with its question open, so no worker ever has it. The answer leads to its end.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from checkpoints import store
from checkpoints.database import clock
from checkpoints.events import log
from checkpoints.models import CheckpointStatus, EventKind, Thread
from checkpoints.state import codec
from checkpoints.store import Entry
from runs import definitions, hints
from runs.engine import questions
from runs.engine.advance import advance
from runs.engine.drafts import step_rows
from runs.engine.drafts.events import asking, unkept
from runs.models import Definition, Pause, Run
from runs.states import PauseKind, RunStatus
from runs.workflows.reviews.review import Review
from runs.workflows.sequence import FrozenStep
from runs.workflows.tool_calls import Call
from runs.workflows.wait_for_input import ELSEWHERE

SLUG = "wait-gate"
STEP = "wait_for_input"
"""The one step of such a run."""
ASKED_AGAIN: list[Callable[[Pause, Run], None]] = []
"""Called with a wait's question that expired and the run that asks it again, in the transaction of
that: whoever knows the other engine lets it find that run.
"""


@dataclass(frozen=True, kw_only=True)
class ExternalQuestion:
    """What is asked, checked."""

    state: Mapping[str, Any]
    question: str
    content: str
    blocking_reason: str
    required_inputs: Mapping[str, Any]
    answers: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    facts: Sequence[tuple[str, str]] = ()
    review: Review = field(default_factory=Review)
    until: dt.datetime | None = None
    """Its deadline, where that is a moment; `review` then has it as a duration."""
    outside: Mapping[str, Any] = field(default_factory=dict)
    """Who is asked without an account, as `asked_outside` gave it."""
    node_id: str = ""
    prompt_id: str = ""
    calls: Sequence[Mapping[str, Any]] = ()
    """Tool calls to decide one by one, as `checked_calls` gave them."""
    answers_without_input: Sequence[str] = ()
    """Answers that bring no data."""
    agent: str = ""
    """The name of the agent that asks; "" for another engine."""


def definition() -> Definition:
    """What such runs are runs of. Call inside a transaction."""
    step: FrozenStep = {
        "name": STEP,
        "step_type": "wait",
        "title": "Wait for input",
        "step_template_slug": SLUG,
        "step_template_version": 1,
        "function": ELSEWHERE,
        "config": {},
        "pause_after": False,
        "pause_phase": "",
        "revise_to": STEP,
        "choices": [],
        "max_revisions": 0,
        "fingerprint": definitions.fingerprint_of(ELSEWHERE),
    }
    content = {"template": SLUG, "version": 1, "steps": [step], "reducers": {}}
    digest = codec.digest(codec.encode(content))
    made, _ = Definition.objects.get_or_create(
        digest=digest, defaults={"template_slug": SLUG, "template_version": 1, "content": content}
    )
    return made


def open_wait(thread: Thread, asked: ExternalQuestion) -> Pause:
    """Write a run of that thread that waits with this question. Call inside a transaction.

    Raises IntegrityError (run_one_live_per_thread) where another run of the thread is alive.
    """
    now, head = clock.now(), thread.head
    run = Run.objects.create(
        thread=thread,
        definition=definition(),
        status=RunStatus.PAUSED,
        due_at=now,
        started_at=now,
        input={"node_id": asked.node_id, **({"agent": asked.agent} if asked.agent else {})},
    )
    waiting = {
        "blocking_reason": asked.blocking_reason,
        "last_pause": asked.blocking_reason,
        "outer_node_id": asked.node_id,
    }
    if asked.prompt_id:
        waiting["prompt_id"] = asked.prompt_id
    opening = questions.opens(asked.review, thread, at=now, until=asked.until)
    if opening.get("deadline_at") is not None:
        waiting["next_deadline"] = opening["deadline_at"].isoformat()
    entry = Entry(
        status=CheckpointStatus.PENDING_INPUT,
        node_id=STEP,
        completed_nodes=0,
        total_nodes=1,
        metadata=waiting,
    )
    before = None if head is None else store.load(head)
    checkpoint = store.save(
        thread.pk,
        run.pk,
        dict(asked.state),
        entry,
        parent=head,
        before=before,
        most=settings.WAYSTATION_STATE_BYTES,
    )
    facts = [[label, value] for label, value in asked.facts]
    pause = Pause.objects.create(
        run=run,
        checkpoint=checkpoint,
        step=STEP,
        phase=asked.blocking_reason,
        kind=PauseKind.TOOLS if asked.calls else PauseKind.EXTERNAL,
        question=asked.question,
        **step_rows.of_a_row(asked.content, facts, asked.calls, asked.required_inputs),
        content=asked.content,
        facts=facts,
        content_digest=questions.digest(
            [asked.content, ""], facts, asked.required_inputs, asked.calls
        ),
        required_inputs=dict(asked.required_inputs),
        calls=[dict(call) for call in asked.calls],
        answers_without_input=list(asked.answers_without_input),
        outside=dict(asked.outside),
        **opening,
        answers=dict(asked.answers),
        labels=dict(asked.labels),
        max_revisions=0,
    )
    hints.pauses_changed_on_commit()
    begun = (EventKind.RUN_STARTED, {"work_order_id": None, "template": str(run.frozen)})
    log.append(thread.pk, run.pk, [begun, *asking(pause, checkpoint), *unkept(asked.state, STEP)])
    return pause


def checked_calls(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Tool calls as a question holds them.

    Raises tool_calls.CallsRefused, codec.NotJson and schemas.SchemaRefused.
    """
    return questions.checked_calls(calls)


asked_outside = questions.asked_outside
"""Who is asked without an account, by these rules."""


def is_prompt_id(text: str) -> bool:
    """Whether a question may be called so."""
    return questions.PROMPT_ID.fullmatch(text) is not None


def let_end(run_id: uuid.UUID) -> None:
    """Let a run whose question was answered end now, and wait for no worker."""
    advance(run_id, budget=1)
