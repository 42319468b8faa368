"""Resume events: an answer that a system hands in, normalised: what it is for, and what it says.

The payload of a question for data is that data. Else it is `{"decision", "feedback", "revision"}`,
or a word.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from checkpoints.database.people import User
from checkpoints.state import codec, redaction
from hitl.decisions.services import Answer, AnswerInvalid, decide
from hitl.models import Decision, Via, Vote
from runs.models import Pause
from runs.services import external_runs
from runs.workflows import tool_calls
from runs.workflows.refusals import in_json
from runs.workflows.sequence import APPROVE, CANCEL
from runs.workflows.wait_for_input import ANSWER, text_field

MAX_METADATA = 16 * 1024
REJECT = "reject"
CALL_FIELDS = ("arguments", "reason", "result")
"""What belongs to a decision about a call, beside its word."""


@dataclass(frozen=True, kw_only=True)
class ResumeEvent:
    """An answer that a system hands in, and what it is an answer to."""

    run_id: str
    input_type: str = ""
    """What it answers: the question's `blocking_reason`, its kind, or the name of one of its
    answers; "" for whatever is asked.
    """
    payload: Any = None
    sender_metadata: Mapping[str, Any] = field(default_factory=dict)
    node_id: str = ""
    """Where the question is asked; "" for whatever is asked."""
    pause_id: str = ""
    revision: int | None = None
    content_digest: str = ""
    """Of what was looked at, as the question tells both; a verdict that comes before its question
    counts with them alone.
    """
    stage: str = ""
    """Of the review, where who answers is asked at several; "" for the only one."""

    @property
    def named(self) -> bool:
        """Whether it says what it is for."""
        return bool(self.input_type or self.node_id or self.pause_id)

    @property
    def kept(self) -> dict[str, Any]:
        """The event as it waits for its question."""
        fields = {"run_id": self.run_id, "input_type": self.input_type, "node_id": self.node_id}
        return {
            **fields,
            "revision": self.revision,
            "content_digest": self.content_digest,
            "stage": self.stage,
            "payload": redaction.redact({"": self.payload})[""],
            "sender_metadata": redaction.redact(dict(self.sender_metadata)),
        }


def check(event: ResumeEvent) -> None:
    """Raise AnswerInvalid for what no column takes."""
    fields = {
        "input_type": event.input_type,
        "node_id": event.node_id,
        "sender_metadata": dict(event.sender_metadata),
    }
    fields |= {"content_digest": event.content_digest, "stage": event.stage}
    try:
        codec.check({**fields, "payload": event.payload}, "event")
    except codec.NotJson as error:
        raise AnswerInvalid.of("payload", str(error)) from error
    if codec.holds_unreadable(fields):
        raise AnswerInvalid.of(
            "sender_metadata",
            "It holds characters that cannot be kept: a NUL, or bytes that are no UTF-8.",
        )
    if len(codec.encode(fields)) > MAX_METADATA:
        raise AnswerInvalid.of("sender_metadata", f"Up to {MAX_METADATA} bytes.")


def fits(pause: Pause, event: ResumeEvent) -> bool:
    """Whether an event is for this question."""
    if event.pause_id and event.pause_id != pause.shown_id:
        return False
    return event.node_id in {"", *nodes_of(pause)} and event.input_type in {"", *types_of(pause)}


def types_of(pause: Pause) -> list[str]:
    """What an event for this question may give as its type."""
    return list(dict.fromkeys(filter(None, [pause.phase, pause.kind, *pause.answers, CANCEL])))


def nodes_of(pause: Pause) -> list[str]:
    """Where it is asked: the step, or the other engine's node first."""
    outer = (
        pause.run.input.get("node_id", "")
        if pause.run.frozen.template_slug == external_runs.SLUG
        else ""
    )
    return [*([outer] if outer else []), pause.step]


class EarlyVerdict(Exception):
    """A verdict on what nobody has been shown yet: it came before its question, and does not name
    the content that it is for.
    """

    code = "early_verdict"

    def __init__(self) -> None:
        super().__init__(
            "This is a verdict on what had not been asked yet, so nobody can have seen it. "
            "Nothing was decided by it. Send it once the "
            "question is open, or name the revision and the content_digest that it is for."
        )


def judges(pause: Pause, action: str) -> bool:
    """Whether an answer is a verdict on what is shown: any but a cancellation, and the data or
    words that a question asks for.
    """
    return action != CANCEL and (action != ANSWER or bool(pause.calls))


def verdict_in(event: ResumeEvent, verdicts: Collection[str]) -> bool:
    """Whether an event reads as a verdict, by these words, though its question is not known;
    without the content that it is for.
    """
    payload = event.payload if isinstance(event.payload, Mapping) else {"decision": event.payload}
    decision = payload.get("decision")
    word = decision.strip().lower() if isinstance(decision, str) else ""
    revision = payload.get("revision") if event.revision is None else event.revision
    bound = revision is not None and bool(event.content_digest or payload.get("content_digest"))
    return bool({event.input_type, word} & set(verdicts)) and not bound


def read(pause: Pause, event: ResumeEvent, *, via: Via) -> Answer:
    """Give the answer that an event holds. Raises AnswerInvalid where it holds none."""
    if (about_a_call := _for_the_call(pause, event)) is not None:
        event = replace(event, payload=about_a_call, input_type=ANSWER)
    payload, action = event.payload, _action(pause, event)
    sender = event.sender_metadata
    if pause.wants_data(action):
        return Answer(
            action,
            via,
            payload=_wrapped(pause, action, payload),
            revision=event.revision,
            content_digest=event.content_digest,
            sender=sender,
            stage=event.stage,
        )
    if isinstance(payload, str) and not (payload.strip().lower() == action and action != ANSWER):
        payload = {"feedback": payload}
    fields = dict(payload) if isinstance(payload, Mapping) else {}
    feedback = next(
        (fields.pop(name) for name in ("feedback", "input", "content") if name in fields), ""
    )
    revision = fields.pop("revision", event.revision)
    content_digest = fields.pop("content_digest", event.content_digest)
    stage = fields.pop("stage", event.stage)
    fields.pop("decision", None)
    if fields:
        raise AnswerInvalid.of(
            "payload",
            f"The answer {in_json(action)} takes no {', '.join(sorted(fields))[:200]}.",
            code="input_unexpected",
        )
    if (
        not isinstance(feedback, str)
        or not isinstance(content_digest, str)
        or not isinstance(stage, str)
        or (revision is not None and type(revision) is not int)
    ):
        raise AnswerInvalid.of(
            "payload",
            "feedback, content_digest and stage are texts, and revision is a whole number.",
        )
    return Answer(
        action,
        via,
        feedback=feedback,
        revision=revision,
        content_digest=content_digest,
        update={"input": feedback} if action == ANSWER and feedback else None,
        sender=sender,
        stage=stage,
    )


def _for_the_call(pause: Pause, event: ResumeEvent) -> dict[str, Any] | None:
    """What an event decides of the one call that its prompt asks about, in a word or with what
    belongs to it; None where it is another kind of answer. Of several calls a word would not say
    which one it is for.
    """
    payload = event.payload if isinstance(event.payload, Mapping) else {"decision": event.payload}
    decision = payload.get("decision")
    if not event.pause_id or event.input_type or len(pause.calls) != 1:
        return None
    if not isinstance(decision, str) or payload.keys() - {"decision", *CALL_FIELDS}:
        return None
    [call], word = pause.calls, decision.strip().lower()
    # a word that answers the whole question is that answer
    if word not in tool_calls.allowed(call) or word in pause.answers:
        return None
    return {"calls": {call["id"]: {**payload, "decision": word}}}


def _action(pause: Pause, event: ResumeEvent) -> str:
    """Which of the question's answers is given."""
    if event.input_type in {*pause.answers, CANCEL}:
        return event.input_type
    usual = ANSWER if ANSWER in pause.answers else APPROVE if APPROVE in pause.answers else ""
    data = pause.wants_data(usual)
    word = _word(pause, event.payload)
    # a word is the data then
    if word and not (data and isinstance(event.payload, str) and _text_field(pause)):
        return word
    if usual and (data or usual == ANSWER):
        return usual
    raise AnswerInvalid.of(
        "payload.decision",
        f"Say which: {', '.join([*pause.answers, CANCEL])}.",
        code="unknown_answer",
    )


def _word(pause: Pause, payload: Any) -> str:
    """The answer that a payload names; "" where it names none, or where `decision` is a thing that
    is asked for.
    """
    decision = payload.get("decision") if isinstance(payload, Mapping) else payload
    if not isinstance(decision, str) or "decision" in pause.required_inputs.get("properties", {}):
        return ""
    word = decision.strip().lower()
    if word == REJECT and REJECT not in pause.answers and not pause.calls:
        return CANCEL  # as in a chat; of calls each is rejected by itself
    return word if word in {*pause.answers, CANCEL} else ""


def _wrapped(pause: Pause, action: str, payload: Any) -> Any:
    """The data itself: without the name of the answer, and a text where exactly one is asked
    for.
    """
    if isinstance(payload, Mapping):
        return (
            {key: value for key, value in payload.items() if key != "decision"}
            if _word(pause, payload)
            else payload
        )
    if not isinstance(payload, str):
        return payload
    if field := _text_field(pause):
        return {field: payload}
    return {} if _word(pause, payload) == action else payload


def _text_field(pause: Pause) -> str:
    return "" if pause.calls else text_field(pause.required_inputs)


def answer(
    pause: Pause, event: ResumeEvent, *, by: User, via: Via, early_at: dt.datetime | None = None
) -> Decision | Vote:
    """Give an event's answer to a question. Raises what `decide` raises, and EarlyVerdict.

    Args:
        early_at: when it came, where that was before the question was there.
    """
    reply = replace(read(pause, event, via=via), early_at=early_at)
    if early_at is not None and judges(pause, reply.action) and not reply.is_bound:
        raise EarlyVerdict
    return decide(pause.pk, reply, by=by)


def same(decision: Decision, pause: Pause, event: ResumeEvent, by: User) -> bool:
    """Whether an event gives the answer that was given already, by the same sender."""
    try:
        reply = read(pause, event, via=Via(decision.via))
    except AnswerInvalid:
        return False
    payload = redaction.redact(dict(reply.payload)) if isinstance(reply.payload, Mapping) else None
    given = (decision.decided_by_id, decision.action, decision.feedback, decision.payload)
    return given == (by.pk, reply.action, reply.feedback, payload)
