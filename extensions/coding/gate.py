"""The gate of a command line agent: which of its tools it may use by itself, and what becomes of
all other calls.

An agent that has a gate ends when it wants such a call (`deferred`, beside done and failed), and
nothing is held while a person decides. What it needs to go on is in the state: its session, and the
call. After the decision it is started again with its session, on whichever worker, and asks its
hook (`hook`) about the same call once more.

Configuration of a step, or of WAYSTATION_CODER:

    gate            "claude-code": whose hook it is. `{gate}` in the arguments is the settings file
    resume_command  program and arguments to go on with; `{session}` is the session's file
    free            tools that the agent may use by itself, as far as its own rules let it: FREE
                    where it is left out
    denied          tools that it may not use at all
    approvals       rules (`runs.agents.approval`) for all other tools. Where none matches, a person
                    is asked.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from extensions.coding import hook
from extensions.coding.cli_output import DeferredCall
from runs.agents.approval import ApprovalRule, RulesRefused, Verdict, explain, parse
from runs.agents.asking import about_calls
from runs.processes import secret_encodings
from runs.workflows import Ask, Call, Commit, ConfigInvalid, Context, State, StepFailed
from runs.workflows import tool_calls as decisions
from runs.workflows.text import showable

KEY = "deferred_agents"
"""State key: by step, the agents that wait for a person."""
READS = ("Read", "Glob", "Grep", "LS")
EDITS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
FREE = (*READS, *EDITS, "TodoRead", "TodoWrite")
LARGEST_SESSION = 50_000_000
"""Bytes."""
LARGEST_KEPT = 8_000_000
"""Bytes of it, compressed."""
MOST_AT_ONCE = 200
"""Calls that rules let pass in one execution."""
HIDDEN = "[a credential]"
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")
_AGAIN = (
    "It was allowed before, and the step ended before it was known what became of it: it may have "
    "been made already."
)


@dataclass(frozen=True, kw_only=True)
class Pending:
    """An agent that waits, as the state holds it."""

    session: str
    """Its id."""
    transcript: str
    """The session's file, compressed, as base64."""
    number: int
    """Counts the questions of this agent, from 1: no two share a decision."""
    id: str
    """The agent's own id of the call."""
    tool: str
    arguments: Mapping[str, Any]
    digest: str
    """Of the call as the agent wants it."""
    execution: str
    """`Context.key` of the execution that asks: the decision counts in that one alone."""
    start: str
    """The commit that the work began at."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Of the agent until now."""

    @property
    def call(self) -> Call:
        """What a person is asked about."""
        # ids of agents may come again in another execution
        execution = hashlib.sha256(self.execution.encode()).hexdigest()[:8]
        return Call(
            id=f"{self.id}.{execution}.{self.number}"[-decisions.LONGEST_ID :],
            tool=self.tool,
            arguments=self.arguments,
            risk="high",
            editable=[""],
        )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an agent's hook says to the call that it waits for."""

    allow: bool
    input: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Deferred:
    """The agent ended for a call that a person decides: the third way to end, beside done and
    failed.
    """

    pending: Pending
    verdict: Verdict
    said: str


@dataclass(frozen=True, kw_only=True)
class _GatedTool:
    """A tool of a stranger's, as rules see it."""

    name: str
    risk: str = "high"
    approval: Sequence[ApprovalRule] = ()


def check(config: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid where the rules cannot be meant."""
    try:
        parse(config.get("approvals", []))
    except RulesRefused as error:
        raise ConfigInvalid(
            {f"approvals.{place}".rstrip("."): texts for place, texts in error.errors.items()}
        ) from error
    both = set(config.get("free", FREE)) & set(config.get("denied", ()))
    if "free" in config and both:
        raise ConfigInvalid.of("denied", f"{', '.join(sorted(both))}: free and denied at once.")


def waiting(state: State, context: Context) -> Pending | None:
    """The agent of this step that waits; None where none does."""
    kept = state.get(KEY, {}).get(context.step)
    return Pending(**kept) if kept else None


def without(state: State, context: Context) -> dict[str, Any]:
    """What the state becomes when the agent has ended."""
    others = {name: kept for name, kept in state.get(KEY, {}).items() if name != context.step}
    return {KEY: others} if KEY in state else {}


def question(state: State, context: Context, deferred: Deferred, commit: Commit | None) -> Ask:
    """What a person is asked, midway; what the state keeps meanwhile is all that the agent needs to
    go on.
    """
    pending = deferred.pending
    update = {KEY: {**state.get(KEY, {}), context.step: asdict(pending)}}
    asked = about_calls(state, context, [(pending.call, deferred.verdict)], deferred.said, update)
    if asked is None:
        raise StepFailed(
            "The agent asks about a call that was decided already.", code="gate_unclear"
        )
    return replace(asked, commit=commit)


def judge(config: Mapping[str, Any], call: DeferredCall, secrets: Sequence[str]) -> Verdict | None:
    """Whether a person is asked about a call, or rules let it pass; None where it may not be made
    at all.
    """
    if call.name in config.get("denied", ()) or _hides(call.arguments, secrets):
        return None
    return explain(_GatedTool(name=call.name), call.arguments, parse(config.get("approvals", [])))


def answered(context: Context, pending: Pending) -> Answer | Verdict:
    """What people decided of the call that an agent waits for; a Verdict says why they are asked
    (again).
    """
    if not decisions.all_decided(context, context.step, [pending.call]):
        return Verdict(ask=True, why="It was not decided yet.")
    if not (made := decisions.approved(context, context.step, [pending.call])):
        why = decisions.rejected(context, context.step).get(pending.call.id, "")
        return Answer(allow=False, reason=f"A person rejected this call: {why}")
    mark = f"gate.{pending.number}"
    if pending.execution != context.key or context.recorded([mark]):
        return Verdict(ask=True, why=_AGAIN)
    # before the agent can act on it: a worker that is lost from here on allows it no second time
    context.once(mark, lambda: {"decision": made[0].decision_id})
    return Answer(allow=True, input=made[0].arguments)


def session_of(context: Context, call: DeferredCall, secrets: Sequence[str]) -> str:
    """The transcript of a session as the agent left it, as the state keeps it."""
    if not _SESSION.fullmatch(call.session):
        raise StepFailed("The agent named no session to go on with.", code="no_session")
    text = context.workspace.read_home(
        f".claude/projects/*/{call.session}.jsonl", most=LARGEST_SESSION
    )
    if not text:
        raise StepFailed("The agent left no session to go on with.", code="no_session")
    for secret in secrets:
        for form in secret_encodings.forms(secret):
            text = text.replace(form.text, HIDDEN)
    kept = base64.b64encode(zlib.compress(text.encode())).decode()
    if len(kept) > LARGEST_KEPT:
        raise StepFailed(
            f"The agent's session is larger than the {LARGEST_KEPT:,} bytes that are kept.",
            code="session_too_large",
        )
    return kept


def files(
    context: Context, config: Mapping[str, Any], pending: Pending | None, answer: Answer | None
) -> dict[str, str]:
    """Write what the agent and its hook read; gives the paths by placeholder."""
    workspace = context.workspace
    free = list(config.get("free", FREE))
    program = workspace.scratch("gate.py", Path(hook.__file__).read_text())
    gate: dict[str, Any] = {"free": free, "start": uuid.uuid4().hex, "answer": None}
    if pending and answer:
        gate["answer"] = {"id": pending.id, "digest": pending.digest, **asdict(answer)}
    workspace.scratch("gate.json", json.dumps(gate))
    tree = f"Edit(/{workspace.path}/**)"
    allow = [name for name in free if name not in EDITS]
    settings = {
        "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [_command(program)]}]},
        "permissions": {
            "allow": [*allow, tree] if set(free) & set(EDITS) else allow,
            "deny": list(config.get("denied", ())),
        },
    }
    found = {"gate": str(workspace.scratch("gate-settings.json", json.dumps(settings)))}
    if pending:
        text = zlib.decompress(base64.b64decode(pending.transcript)).decode()
        name = f".claude/projects/waystation/{pending.session}.jsonl"
        found["session"] = str(workspace.write_home(name, text))
    return found


def _command(program: Path) -> dict[str, Any]:
    # exit code 2 blocks the call, others let it pass: also where there is no Python
    command = f"python3 -I {shlex.quote(str(program))} || exit 2"
    return {"type": "command", "command": command, "timeout": 60}


def _hides(arguments: Mapping[str, Any], secrets: Sequence[str]) -> bool:
    """Whether a call's arguments hold a credential, which nobody is to see."""
    text = showable(json.dumps(arguments, ensure_ascii=False))
    return any(form.text in text for secret in secrets for form in secret_encodings.forms(secret))
