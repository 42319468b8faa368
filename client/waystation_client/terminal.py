"""Questions, orders and events as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from waystation_client.rest.models import PauseOut, WorkflowOut, WorkOrderOut
from waystation_client.stream import Event


def plain(text: str) -> str:
    """A text that moves no cursor: signs that are not printed are written as escapes."""
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else sign.encode("unicode_escape").decode()
        for sign in text
    )


def row(pause: PauseOut) -> str:
    """A question in a list."""
    due = f", until {pause['deadline_at']}" if pause["deadline_at"] else ""
    return f"{pause['id']}  {pause['question']}  ({pause['pause_phase']}{due})"


def question(pause: PauseOut) -> Iterator[str]:
    """A question as it is looked at before it is answered."""
    yield pause["question"]
    yield f"{pause['id']}, {pause['state']}, revision {pause['revision']}"
    yield from (f"{label}: {value}" for label, value in pause["facts"].items())
    if pause["pause_content"]:
        yield f"\n{pause['pause_content']}\n"
    if pause["patch"]:
        yield f"\n{pause['patch']}\n"
    yield from (f"Approving will: {effect}" for effect in pause["effects"])
    for call in pause["calls"]:
        yield f"Call: {call.get('tool')} {call.get('arguments')}"
    if properties := pause["required_inputs"].get("properties", {}):
        needed = pause["required_inputs"].get("required", [])
        for name, schema in properties.items():
            about = schema.get("title") or schema.get("description") or schema.get("type", "")
            yield f"Asked for: {name} ({about}{', needed' if name in needed else ''})"
    if pause["refined"]:
        yield f"The last answer did not fit: {pause['refined']}"
    if pause["deadline_at"]:
        yield f"Until: {pause['deadline_at']} (then: {pause['deadline_outcome']})"
    if pause["user_decision"]:
        by = pause["decided_by"] or pause["external"] or "the rules"
        yield f"Answered: {pause['user_decision']} by {by}"
    if pause["answers"]:
        may = ", ".join(pause["review"]["may_answer"]) or "nothing"
        yield f"Answers: {', '.join(pause['answers'])}; you may answer: {may}"
    yield f"Digest: {pause['content_digest']}"


def order(found: WorkOrderOut) -> Iterator[str]:
    yield found["title"] or found["template"]
    yield f"{found['id']}, {found['status']}, {found['current_phase']}"
    if found["user_request"]:
        yield f"Asked for: {found['user_request']}"
    if found["branch"]:
        yield f"Branch: {found['branch']} ({found['git_commit_count']} commits)"
    if found["error_message"]:
        yield f"Why: {found['error_message']}"


def workflow(found: WorkflowOut) -> Iterator[str]:
    yield found["question"] or found["run_id"]
    yield f"{found['run_id']}, {found['lifecycle']}, {found['pause_id'] or 'asks nothing'}"
    if (given := found["answer"]) is not None:
        by = given["decided_by"] or given["external"] or "the rules"
        yield f"Answered: {given['decision']} by {by}"


TOLD = ("message", "step", "node_id", "prompt", "decision", "by", "error", "content")
"""What of an event's data one line shows, the first two that are there."""


def event(happened: Event) -> str:
    data: Mapping[str, Any] = happened["data"]
    told = [str(data[name]) for name in TOLD if data.get(name)][:2]
    return f"{happened['seq']:>5}  {happened['at'][11:19]}  {happened['event']}  {'  '.join(told)}"
