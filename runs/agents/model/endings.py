"""Tell how a model's answer ended that is not whole: cut at its length, refused, filtered, or
empty. No such answer ends a turn well.

The model is asked to go on with a cut answer, and asked again after an empty one, a few times;
then, and for a refusal or a filter at once, the run fails. The text of such an answer is kept in
the conversation. A call in it is never made: its arguments may be half of what the model meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from runs.workflows.base import StepFailed

LENGTH, REFUSAL, FILTER, EMPTY, BROKEN = "length", "refusal", "content_filter", "empty", "error"
AGAIN = {LENGTH: 3, EMPTY: 1}
"""How often, in a row, the model is asked to mend such an ending."""
CODES = {
    LENGTH: "answer_cut",
    REFUSAL: "answer_refused",
    FILTER: "answer_filtered",
    EMPTY: "answer_empty",
}
"""The run's `failure_code`."""
RAW = {
    "max_tokens": LENGTH,
    "model_length": LENGTH,
    "refusal": REFUSAL,
    "safety": FILTER,
    "guardrail_intervened": FILTER,
    "error": BROKEN,
}
"""Endings by the words of endpoints that do not use OpenAI's."""
LONGEST = 1_000
"""Characters of a refusal's words that are kept."""
CONTINUE = (
    "Your answer was cut at its length limit. Go on exactly where it stopped, and repeat nothing."
)
CALL_AGAIN = (
    "Your answer was cut at its length limit before its calls were complete, so none of them "
    "was made. Call again, with less at once."
)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How an answer ended; `kind` is "" for a whole one."""

    kind: str = ""
    words: str = ""
    """The words of the model or its endpoint about it."""


class Ended(TypedDict):
    """An ending that an agent remembers between two loops: its last answer was not whole."""

    kind: str
    words: str
    times: int
    """How many answers in a row ended so."""
    final: bool
    """Whether the run fails before the next request, since it would not mend the answer.

    Another run may ask again.
    """


def of(message: Mapping[str, Any]) -> Ending:
    """Tell how a model's message ended, from the message as pydantic-ai writes it down."""
    details = message.get("provider_details") or {}
    kind = RAW.get(str(details.get("finish_reason")).lower()) or str(
        message.get("finish_reason") or ""
    )
    if (refusal := str(details.get("refusal") or "").strip()) or kind == REFUSAL:
        return Ending(kind=REFUSAL, words=refusal[:LONGEST])
    if kind in {FILTER, LENGTH, BROKEN}:
        return Ending(kind=kind)
    says = any(
        part["part_kind"] == "tool-call"
        or (part["part_kind"] == "text" and str(part["content"]).strip())
        for part in message["parts"]
    )
    return Ending() if says else Ending(kind=EMPTY)


def noted(before: Ended | None, told: Mapping[str, Any] | None, *, mendable: bool) -> Ended | None:
    """Make the note after an answer; None after a whole one.

    Args:
        before: the note after the previous answer.
        told: the ending of this answer, as it was recorded.
        mendable: there is a loop left, and something to go on from.
    """
    if not told:
        return None
    kind = str(told["kind"])
    times = before["times"] + 1 if before and before["kind"] == kind else 1
    return {
        "kind": kind,
        "words": str(told["words"]),
        "times": times,
        "final": not mendable or times > AGAIN.get(kind, 0),
    }


def check(ended: Ended | None, *, model: str) -> None:
    """Raise StepFailed where the last answer was not whole and no other request may mend it."""
    if ended and ended["final"]:
        raise StepFailed(
            f"The model {model} {_why(ended)} What was done so far is kept.",
            code=CODES[ended["kind"]],
        )


def _why(ended: Ended) -> str:
    reason = f": “{ended['words']}”." if ended["words"] else "."
    tries = ended["times"] - 1
    match ended["kind"]:
        case "refusal":
            return (
                f"refused to answer{reason} No call of this answer was made. Ask in other words, "
                "or retry."
            )
        case "content_filter":
            return (
                "was stopped by a content filter. No call of this answer was made. Ask in other "
                "words, or retry."
            )
        case "length":
            tried = (
                f", also when it was asked {tries} time{'s' if tries > 1 else ''} to go on"
                if tries
                else ""
            )
            return (
                f"reached the limit of its answer's length{tried}. No call that was cut was "
                "made. Ask for less at once, or retry to go on."
            )
    return (
        f"gave an empty answer{', twice' if tries else ''}. Retry, or name another model in the "
        "step template."
    )


def in_words(kind: str) -> str:
    """Tell people about the ending, beside the answer; "" for a whole one or an unknown kind."""
    return {
        LENGTH: "The answer was cut at the model's length limit.",
        REFUSAL: "The model refused to answer.",
        FILTER: "The answer was stopped by a content filter.",
        EMPTY: "The model gave an empty answer.",
    }.get(kind, "")


def without_calls(message: Mapping[str, Any]) -> tuple[dict[str, Any], Sequence[str]]:
    """Give a message without its calls, and the names of the tools that it wanted to call."""
    calls = [
        str(part["tool_name"]) for part in message["parts"] if part["part_kind"] == "tool-call"
    ]
    return {
        **message,
        "parts": [part for part in message["parts"] if part["part_kind"] != "tool-call"],
    }, calls
