"""Answers a coding agent that asks whether a tool may be used: the `PreToolUse` hook of Claude
Code.

A program of its own, which needs nothing but Python 3.8: `extensions.coding.gate` writes it
beside the work tree, with `gate.json`: `{"free": [names], "start": id of this start of the agent,
"answer": null or {"id", "digest", "allow", "input" or "reason"}}`.

A free tool is left to the agent's own rules. The first other call is deferred, so that the agent
ends and Waystation asks; those of the same message behind it are refused with words, since the
agent would forget all deferred ones but the last. The one call that was decided is answered, once,
and only as it was asked about. The agent starts this program so that any failure blocks the call.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
SUB_AGENT = "A person decides this, and a sub-agent cannot wait for one. Do it yourself."
ONE_BY_ONE = (
    "Not made: a person decides another call of the same message first. If this one is still "
    "wanted afterwards, make it again."
)


def digest(tool: str, arguments: Any) -> str:
    """Return the digest of a call, by which its decision is bound to it."""
    text = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_first(start: str) -> bool:
    """Whether the decided call is asked about for the first time since the agent was started."""
    try:
        os.close(os.open(os.path.join(HERE, f"gate-{start}"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def is_asked_about(start: str, call: str) -> bool:
    """Whether a call is the first one since the agent was started, for which the agent ends."""
    path = os.path.join(HERE, f"gate-{start}-asks")
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(call)
    except FileExistsError:
        with open(path, encoding="utf-8") as file:
            return file.read() == call
    return True


def decide(asked: Any, gate: Any) -> dict[str, Any] | None:
    """The hook's answer; None leaves the call to the agent's own rules."""
    tool, answer = asked["tool_name"], gate["answer"]
    if tool in gate["free"]:
        return None
    if asked.get("agent_id"):
        return {"permissionDecision": "deny", "permissionDecisionReason": SUB_AGENT}
    call = asked["tool_use_id"]
    if not answer or answer["id"] != call or not is_first(gate["start"]):
        if is_asked_about(gate["start"], call):
            return {"permissionDecision": "defer"}
        return {"permissionDecision": "deny", "permissionDecisionReason": ONE_BY_ONE}
    if answer["allow"] and answer["digest"] == digest(tool, asked["tool_input"]):
        return {"permissionDecision": "allow", "updatedInput": answer["input"]}
    reason = answer["reason"] or "This is not the call that was decided on."
    return {"permissionDecision": "deny", "permissionDecisionReason": reason}


def main() -> None:
    with open(os.path.join(HERE, "gate.json"), encoding="utf-8") as file:
        gate = json.load(file)
    if answer := decide(json.load(sys.stdin), gate):
        sys.stdout.write(
            json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **answer}})
        )


if __name__ == "__main__":
    main()
