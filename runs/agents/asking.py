"""What an agent asks of people: whether its calls may be made, and what a model itself wants to
know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runs.agents import journal, tools
from runs.agents.approval import Verdict
from runs.agents.config import ASK_HUMAN
from runs.agents.memory import AgentCheckpointState
from runs.workflows import refusals
from runs.workflows import tool_calls as decisions
from runs.workflows.base import Ask, Call, Context, Report, State
from runs.workflows.schemas import validate_resume_payload
from runs.workflows.sequence import APPROVE
from runs.workflows.wait_for_input import ANSWER, ask_about_calls

PHASE = "awaiting_answer"
HUMAN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1, "maxLength": 4_000},
        "options": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 200},
            "maxItems": 20,
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}
TOLD = {
    "name": ASK_HUMAN,
    "description": (
        "Ask the person you work for, and wait for the answer. Give `options` where the answer "
        "is one of a few."
    ),
    "parameters": HUMAN,
}
"""What a model is told of the tool by which it asks."""
_LINE = 300


def about_calls(
    state: State,
    context: Context,
    wanted: Sequence[tuple[Call, Verdict]],
    said: str,
    update: Mapping[str, Any],
) -> Ask | None:
    """One question for all calls that wait for a person; None where all of them were decided."""
    whys = "\n".join(f"- `{call.tool}`: {verdict.why}" for call, verdict in wanted)
    report = Report(content="\n\n".join(filter(None, [said, whys])))
    asked = ask_about_calls(
        state, context, calls=[call for call, _ in wanted], report=report, update=update
    )
    return replace(asked, midway=True) if asked else None


def not_made(context: Context, call: Call) -> dict[str, Any]:
    """What became of a call that people decided and that is not made: a person answered in the
    tool's place, or rejected it.
    """
    for given in decisions.answered(context, context.step, [call]):
        return {**journal.ended("answered", given.result), "decision": given.decision_id}
    why = decisions.rejected(context, context.step).get(call.id, "")
    return journal.ended("rejected", f"A person rejected this call, so it was not made: {why}")


def question_in(arguments: Any) -> dict[str, Any]:
    """A model's question as it is asked; raises ToolFailed with what to mend."""
    given = arguments if isinstance(arguments, Mapping) else {}
    if faults := validate_resume_payload(HUMAN, given):
        raise tools.ToolFailed(f"The question does not fit: {refusals.as_text(faults)[:1_000]}")
    return {"question": str(given["question"]), "options": list(given.get("options", []))}


def a_question(
    question: Mapping[str, Any], context: Context, said: str, update: Mapping[str, Any]
) -> Ask:
    """The pause in which a person answers a model: in words, which may be a bare approval, or by
    one of its options.
    """
    text, options = question["question"], question["options"]
    first = text.strip().partition("\n")[0]
    title = first if len(first) <= _LINE else f"{first[: _LINE - 1]}…"
    answer: dict[str, Any] = {
        "type": "string",
        "title": "Your answer",
        "minLength": 1,
        "maxLength": 20_000,
    }
    if options:
        answer = {"type": "string", "title": "Your answer", "enum": options}
    back = context.step
    return Ask(
        question=title,
        answers={ANSWER: back} if options else {APPROVE: back, ANSWER: back},
        answers_without_input=() if options else (APPROVE,),
        labels={ANSWER: "Send answer"},
        report=Report(
            content="\n\n".join(
                filter(None, [said, "" if text.strip() == first == title else text])
            )
        ),
        update=update,
        phase=PHASE,
        kind="input",
        required_inputs={
            "type": "object",
            "title": "The agent asks",
            "properties": {"input": answer},
            "required": ["input"],
            "additionalProperties": False,
        },
        midway=True,
    )


def answer_in(
    state: State, context: Context, mind: AgentCheckpointState, call_id: str
) -> str | None:
    """What a person answered to a question; None where nobody has yet."""
    if mind["asked"] != call_id:
        return None
    action = state.get("decided", {}).get(context.step)
    if action == APPROVE:
        return "APPROVE"
    return str(state.get("input", "")) if action == ANSWER else None
