"""Answers about tool calls: what is wrong with one, and what it decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.state import redaction
from hitl.models import Decision
from runs.models import Pause
from runs.workflows import tool_calls
from runs.workflows.sequence import APPROVE
from runs.workflows.wait_for_input import ANSWER


def faults(pause: Pause, payload: Any) -> dict[str, list[str]]:
    """What is wrong with an answer that fits the question's schema; empty where it is about no
    calls.
    """
    if not pause.calls:
        return {}
    problems = tool_calls.faults(pause.calls, payload)
    for call in pause.calls:
        if secrets := list(redaction.found(payload["calls"][call["id"]].get("arguments", {}))):
            message = (
                f"Not kept, since the name says that it is a secret: {', '.join(secrets)}. The "
                "tool reads it from its environment."
            )
            problems[f"calls.{call['id']}.arguments"] = [message]
    return problems


def decided(
    pause: Pause, action: str, payload: Mapping[str, Any] | None
) -> Mapping[str, Mapping[str, Any]]:
    """What an answer decided of the calls that were asked about.

    Any answer but these two lets no call be made.
    """
    return (
        tool_calls.decided(pause.calls, payload)
        if pause.calls and action in {APPROVE, ANSWER}
        else {}
    )


def answers(decision: Decision) -> list[tuple[str, str]]:
    """The tools in whose place a person answered, each with the words."""
    if decision.pause is None:
        return []
    calls = decided(decision.pause, decision.action, decision.payload).values()
    return [(call["tool"], call["result"]) for call in calls if "result" in call]
