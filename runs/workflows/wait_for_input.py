"""The wait gate: stop until what is missing is there, and pass where nothing is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from runs.workflows import schemas
from runs.workflows import tool_calls as tools
from runs.workflows.base import (
    Ask,
    Call,
    Context,
    Go,
    Outcome,
    Report,
    Shape,
    State,
    StepFailed,
    schema_of,
)
from runs.workflows.registry import step
from runs.workflows.sequence import APPROVE

ANSWER = tools.ANSWER
"""Name of the answer that brings data."""
TIMED_OUT = "timed_out"
"""Name of the answer that `wait_for_event` takes when its time is over."""
ELSEWHERE = "gate.elsewhere"
"""The step of runs that only wait for another engine (`runs.services.external_runs`)."""


def wait_for_input(
    state: State,
    context: Context,
    *,
    required_inputs: Shape,
    blocking_reason: str,
    question: str,
    report: Report | None = None,
    to: str | None = None,
    label: str = "Send",
    update: Mapping[str, Any] | None = None,
) -> Ask | None:
    """What a step answers to ask for data; None where the state holds all of it already, so that
    the step goes on.

    Args:
        required_inputs: a pydantic model, a dataclass, a TypedDict, or the JSON Schema of an
            object. Its properties are keys of the state, which the answer joins by the reducers;
            `read(Model, state)` then gives them as an instance.
        blocking_reason: what the run waits for, e.g. `missing_supplier_data`.
        to: the step that the answer leads to; None runs this step again, which then finds the data
            and goes on.
        update: joins the state before the question is asked.
    Raises:
        schemas.SchemaRefused: the schema cannot be used.

    Use it from any step: `return wait_for_input(...) or Go(...)`.
    """
    schema = schema_of(required_inputs)
    known = {**state, **(update or {})}
    data = {key: known[key] for key in schema.get("properties", {}) if key in known}
    if not schemas.validate_resume_payload(schema, data):
        return None
    return Ask(
        question=question,
        answers={ANSWER: context.step if to is None else to},
        labels={ANSWER: label},
        report=report or Report(content=str(schema.get("description", ""))),
        update=update or {},
        phase=blocking_reason,
        required_inputs=schema,
        known=data,
    )


def wait_for_event(
    name: str,
    *,
    to: str,
    data: Shape | None = None,
    within: dt.timedelta | None = None,
    otherwise: str | None = None,
    question: str = "",
    report: Report | None = None,
    update: Mapping[str, Any] | None = None,
) -> Ask:
    """What a step answers to wait for something that happens outside, such as a payment.

    Whoever tells of it names it: `POST /api/v1/resume` with `{"traceId": the run's id, "promptId":
    name, "response": data}`, or a signed event of an inbound source whose `input_type` is `name`. A
    signed event that comes before the step waits is kept for it. People see the wait in the inbox,
    and may answer in the system's place.

    Args:
        name: of the event, e.g. `payment_received`: up to 64 letters, digits and `. _ : ~ @ = + -`.
        data: a model, a TypedDict or the JSON Schema of an object: what the event brings, which
            joins the state by the reducers. None: it brings nothing.
        to: the step that follows the event; "" ends the run.
        within: how long the run waits; None is without limit.
        otherwise: the step that follows where the event did not come within that time, "" to
            complete the run; None lets the wait expire, which ends the run as expired.
    """
    return Ask(
        kind="external",
        prompt_id=name,
        phase=name,
        question=question or f"Waiting for the event “{name.replace('_', ' ')}”",
        answers={ANSWER: to, **({} if otherwise is None else {TIMED_OUT: otherwise})},
        labels={ANSWER: "It happened", TIMED_OUT: "Go on without it"},
        answers_without_input=[] if otherwise is None else [TIMED_OUT],
        required_inputs=schema_of(data) if data else {},
        report=report or Report(content=""),
        update=update or {},
        within=within,
        otherwise="" if otherwise is None else TIMED_OUT,
    )


def ask_about_calls(
    state: State,
    context: Context,
    *,
    calls: Sequence[Call],
    question: str = "",
    report: Report | None = None,
    to: str | None = None,
    update: Mapping[str, Any] | None = None,
) -> Ask | None:
    """What a step answers before it makes calls that need approval; None where each of them was
    decided already.

    All may be approved at once, unless one is of high risk.

    Args:
        question: "" for the usual one, such as `Approve 3 tool calls?`.
        to: the step that the answer leads to; None runs this step again, which then makes what was
            approved.

    In a step:

        if asked := ask_about_calls(state, context, calls=wanted):
            return asked
        for call in approved(context, context.step, wanted):
            context.once(call.id, lambda call=call: make(call))
    """
    if not calls or tools.all_decided(context, context.step, calls):
        return None
    target = context.step if to is None else to
    several = len(calls) > 1
    at_once = {} if any(call.risk == "high" for call in calls) else {APPROVE: target}
    return Ask(
        question=question
        or (f"Approve {len(calls)} tool calls?" if several else "Approve the tool call?"),
        answers={**at_once, ANSWER: target},
        labels={
            APPROVE: "Approve all" if several else "Approve",
            ANSWER: "Send decisions",
        },
        report=report or Report(content=""),
        update=update or {},
        calls=calls,
        phase="awaiting_tool_approval",
    )


@step(
    "gate.wait_for_input",
    asks=True,
    config={
        "type": "object",
        "properties": {
            "question": {"type": "string", "maxLength": 2_000},
            "blocking_reason": {
                "type": "string",
                "maxLength": 64,
                "description": "One word for programs and lists, such as missing_amount.",
            },
            "required_inputs": {
                "type": "object",
                "title": "Data that is asked for",
                "description": "A JSON Schema of an object; the form is made of it.",
            },
            "content": {"type": "string", "description": "Markdown above the form."},
        },
        "additionalProperties": False,
    },
)
def wait(state: State, context: Context) -> Outcome:
    """The gate as a step of its own.

    Configuration: `required_inputs` (JSON Schema of an object), `blocking_reason`, `question`; if
    wanted `content` (Markdown).
    """
    config = context.config
    missing = [
        name for name in ("required_inputs", "blocking_reason", "question") if not config.get(name)
    ]
    if missing:
        raise StepFailed(
            f"The step template does not say {missing[0]}, so nothing can be asked. Add it there.",
            code="gate_unclear",
        )
    asked = wait_for_input(
        state,
        context,
        required_inputs=config["required_inputs"],
        blocking_reason=str(config["blocking_reason"])[:64],
        question=str(config["question"]),
        report=Report(content=str(config.get("content", ""))),
    )
    return asked or Go()


@step(ELSEWHERE, asks=True)
def elsewhere(state: State, context: Context) -> Outcome:
    """Where somebody forks such a run: there is nothing to do again here."""
    raise StepFailed(
        "This run only waited for another engine, which alone can ask again. Nothing was done.",
        code="waits_for_another_engine",
    )


def text_field(required_inputs: Mapping[str, Any]) -> str:
    """The one thing that is asked for, where a text by itself may be it; else ""."""
    asked = list(required_inputs.get("properties", {}).items())
    if len(asked) != 1:
        return ""
    [(name, schema)] = asked
    kinds = schema.get("type", "string") if isinstance(schema, Mapping) else "string"
    return name if "string" in ([kinds] if isinstance(kinds, str) else kinds) else ""
