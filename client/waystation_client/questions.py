"""A question to people, and what they answered."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from waystation_client.rest.models import ChoiceIn, WaitIn, WorkflowOut

APPROVE, CANCEL, EXPIRED = "approve", "cancel", "expired"
ENDS = {
    "approval_received",
    "run_resumed",
    "run_completed",
    "run_failed",
    "run_cancelled",
    "run_expired",
}
"""Events after which a question may be closed."""


class Rules(TypedDict, total=False):
    """Who answers, by when, and what they are shown."""

    content: str
    """Markdown: what is looked at, and what an answer is bound to."""
    reviewers: dict[str, Any] | list[str]
    deadline: dict[str, Any] | str
    """`"PT4H"`, or `{"after": "P2D", "outcome": "expire"}`."""
    review: dict[str, Any]
    """The other rules, as a template has them: `quorum`, `self_approval`, …"""
    recipients: list[str]
    team: str


class Asking(Rules, total=False):
    """What can be said of a question beside its words."""

    run_id: str
    """Your own id of what waits; left out, one is made."""
    node_id: str
    """Where you go on with the answer."""
    key: str
    """The same words under the same key are the same question, answered or not."""
    valid_for: int
    """Seconds for which the answer under a key is one; an older one is asked anew. 3600 (an hour)
    unless you say otherwise.
    """
    blocking_reason: str
    state: dict[str, Any]
    """Comes back with the answer merged into it."""
    required_inputs: dict[str, Any]
    """JSON Schema of the data that is asked for; without it, a verdict is asked for."""
    choices: list[ChoiceIn]
    prompt_id: str
    callback_url: str
    callback_secret: str


UNBOUND = {"callback_secret", "valid_for"}
"""What may be another one in the same question."""


def wait_of(question: str, asking: Asking, *, prefix: str = "ask") -> WaitIn:
    """The body that asks. Under a key the same words give the same one, whoever asks and however
    often; without one each is a question of its own.
    """
    words: dict[str, Any] = {**asking, "question": question}
    bound = {name: value for name, value in words.items() if name not in UNBOUND}
    own = digest_of(bound)[:40] if asking.get("key") else uuid.uuid4().hex
    run_id = asking.get("run_id") or f"{prefix}-{own}"
    body: WaitIn = {**words, "run_id": run_id}  # type: ignore[typeddict-item]  # as Asking says
    return body


def digest_of(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Answer:
    """How a question was closed."""

    decision: str
    """`approve`, `answer`, `cancel`, one of its choices, or `expired`."""
    data: dict[str, Any] | None
    """What was asked for."""
    feedback: str
    by: str | None
    """Who answered: a username, or a mail address; None where the rules did."""
    at: dt.datetime | None
    """When, by the server's clock; None where the question expired."""
    state: dict[str, Any]
    """What was sent, with the data merged into it."""

    @property
    def approved(self) -> bool:
        return self.decision == APPROVE

    @property
    def expired(self) -> bool:
        return self.decision == EXPIRED


@dataclass(frozen=True)
class Question:
    """A question as it was asked, and how it stands."""

    asked: WaitIn
    standing: WorkflowOut

    @property
    def run_id(self) -> str:
        return self.standing["run_id"]

    @property
    def pause_id(self) -> str:
        """`pse_…`: what people see, and what is answered."""
        return self.standing["pause_id"] or ""

    @property
    def stream(self) -> str:
        """The id whose events tell what becomes of it."""
        return self.standing["waystation_run_id"]

    @property
    def answer(self) -> Answer | None:
        """None while it is open."""
        standing, given = self.standing, self.standing["answer"]
        if standing["pause_state"] == "open":
            return None
        if given is not None and standing["pause_state"] != EXPIRED:
            return Answer(
                decision=given["decision"],
                data=given["payload"],
                feedback=given["feedback"],
                by=given["decided_by"] or given.get("external"),
                at=dt.datetime.fromisoformat(given["decided_at"]),
                state=standing["state"],
            )
        decision = EXPIRED if standing["pause_state"] == EXPIRED else CANCEL
        return Answer(decision, None, standing["error"] or "", None, None, standing["state"])


def events_path(name: str) -> str:
    """The stream of an order (`wo_…`), a run, a thread, or a run of yours by your own id."""
    for prefix, path in STREAMS.items():
        if name.startswith(prefix):
            return path
    return "/api/v1/workflows/{name}/stream"


STREAMS: Mapping[str, str] = {
    "wo_": "/api/v1/work-orders/{name}/logs/stream",
    "run_": "/api/v1/runs/{name}/stream",
    "thr_": "/api/v1/threads/{name}/stream",
}
