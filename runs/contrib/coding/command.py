"""The step that lets a command line agent work in the order's tree (S4-71: whichever it is), and
what other steps need to do the same.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from runs.contrib.coding import commits
from runs.contrib.coding.agents import AllowedPrograms
from runs.contrib.coding.cli_output import AgentCall, OutputReader, Piece
from runs.contrib.coding.command_config import (
    DEFAULT_PROMPT,
    PLACEHOLDER,
    SCHEMA,
    check,
    rules_of,
)
from runs.workflows import (
    Context,
    Go,
    Outcome,
    Report,
    State,
    StepFailed,
    Stopped,
    deliver,
    prompts,
    step,
)
from runs.workflows.text import showable

MAX_OUTPUT = 50_000_000
STREAMED = 2_000_000
"""Characters that are shown live; the rest is in the artifact."""
TOLD_CALLS = 1_000
"""Tool calls that are told one by one; the rest is in the artifact too."""
CUT_ARGUMENTS, CUT_RESULT = 2_000, 2_000
LONGEST_ARGUMENT = 120_000
"""Bytes; Linux takes 131,072 for one argument."""
LONGEST_ANSWER = 200_000


@dataclass(frozen=True, kw_only=True)
class AgentRun:
    """What an agent came to."""

    answer: str
    """Markdown, as far as we know; untrusted."""
    usage: Mapping[str, float]
    """`input_tokens`, `output_tokens`, `cost`, as far as it tells."""

    @property
    def facts(self) -> dict[str, str | int]:
        """For a card."""
        tokens = int(self.usage.get("input_tokens", 0) + self.usage.get("output_tokens", 0))
        cost = self.usage.get("cost", 0)
        return {
            **({"Tokens": f"{tokens:,}"} if tokens else {}),
            **({"Cost": f"${cost:.4f}"} if cost else {}),
        }


@step("command", check=check, config=SCHEMA, uses_models=True, server=AllowedPrograms())
def command(state: State, context: Context) -> Outcome:
    """Run the configured agent, keep what it answers, and commit what it changed.

    It may run twice where a worker is lost: the tree is put back to the last commit first, so only
    time and tokens are spent again.
    """
    config, workspace = context.config, context.workspace
    workspace.restore()
    start = workspace.head()
    ran = run_agent(
        context, config, prompts.render(config.get("prompt", DEFAULT_PROMPT), state, context)
    )
    if config.get("changes", "commit") == "discard":
        workspace.reset(start)
    changes = commits.commit(
        context,
        start,
        subject=context.order.title or "Work of an agent",
        secrets=secrets_of(context),
    )
    update = {
        config.get("into", "answer"): ran.answer,
        "git_commit_count": commits.count(workspace),
        **ran.usage,
    }
    code = workspace.snapshot()
    facts = {**changes.facts, **ran.facts}
    report = Report(
        content=ran.answer or "It said nothing.",
        patch=changes.patch,
        facts=facts,
        material=deliver.leaving(code),
    )
    return Go(update=update, report=report, commit=code)


def run_agent(
    context: Context, config: Mapping[str, Any], prompt: str, *, reading: bool = False
) -> AgentRun:
    """Run the agent of a configuration in the work tree as it is.

    What it says is shown live; the prompt and all that it wrote are kept as artifacts, also where
    it fails.

    Args:
        reading: nothing is to be changed; its `read_command` is used where there is one. What it
            changes all the same is for the caller to put back.
    Raises:
        StepFailed: `program_missing`, `timeout`, `output_limit`, `command_killed`, `command_failed`
            or what the configuration makes of the exit code, `agent_failed` where it says so
            itself, `prompt_too_long`, and what `Context.credential` raises.
    """
    arguments = config.get("read_command", config["command"]) if reading else config["command"]
    environment = {
        name: context.credential(credential)
        for name, credential in config.get("credentials", {}).items()
    }
    prompt = showable(prompt)
    context.keep("prompt", prompt)
    talk = _Talk(context, OutputReader(rules_of(config)))
    program = PurePath(arguments[0]).name
    context.log(f"Running {program}", program=program)
    try:
        code = context.workspace.follow(
            [arguments[0], *(_filled(argument, prompt, context) for argument in arguments[1:])],
            talk.hear,
            environment=environment,
            pass_on=config.get("environment", ()),
            stdin=prompt if config.get("stdin") else "",
            timeout=config.get("seconds"),
            max_output=config.get("max_output", MAX_OUTPUT),
        )
    finally:
        with suppress(Stopped):  # what ended the program is the news
            talk.close()
    _judge(program, code, talk, config)
    return AgentRun(answer=showable(talk.reader.answer)[:LONGEST_ANSWER], usage=talk.reader.usage)


def secrets_of(context: Context) -> list[str]:
    """What the agent was given and nobody else is to see."""
    return [context.credential(name) for name in context.config.get("credentials", {}).values()]


def _filled(argument: str, prompt: str, context: Context) -> str:
    def value(name: str) -> str:
        if name == "prompt_file":
            return str(context.workspace.scratch("prompt.md", prompt))
        return str(context.workspace.path) if name == "workspace" else prompt

    filled = PLACEHOLDER.sub(lambda match: value(match[1]), argument)
    if len(filled.encode()) > LONGEST_ARGUMENT:
        raise StepFailed(
            "The prompt is too long for an argument of a program. Let the step template use "
            "{prompt_file} or standard input.",
            code="prompt_too_long",
        )
    # words of others are no option: a request "--version" would be one
    return f"\n{filled}" if argument.startswith("{prompt}") and filled.startswith("-") else filled


def _judge(program: str, code: int, talk: _Talk, config: Mapping[str, Any]) -> None:
    """Raise StepFailed where the program says, one way or the other, that it did not do it."""
    kept = "What it wrote is kept with this order; what it changed is not."
    if code:
        known = config.get("exit_codes", {}).get(str(code))
        usual = (
            "command_killed"
            if code > 128
            else "program_missing"
            if code == 127
            else "command_failed"
        )
        how = f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"
        raise StepFailed(f"{program} {how}{talk.last_words}. {kept}", code=known or usual)
    if talk.reader.failed:
        message = talk.reader.error.strip()
        raise StepFailed(
            f"{program} says that it failed{f': {message[:600]}' if message else ''}. {kept}",
            code="agent_failed",
        )


@dataclass
class _Talk:
    """Hears what an agent writes: shows it, keeps it, and adds up what it cost."""

    context: Context
    reader: OutputReader
    shown: int = 0
    calls: int = 0
    running: dict[str, tuple[dict[str, str], float]] = field(default_factory=dict)
    """Tool calls that have not been said to have ended: what was told of each, and when it
    began.
    """
    kept: _Kept = field(default_factory=lambda: _Kept())
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=4))

    def hear(self, source: str, line: str) -> None:
        line = showable(line)
        self.kept.add(line)
        if source == "errors":
            self.errors.append(line)
            self._show(f"{line}\n")
            return
        for piece in self.reader.read(line):
            self._tell(piece)

    def _tell(self, piece: Piece) -> None:
        if isinstance(piece, str):
            return self._show(piece)
        self.calls += isinstance(piece, AgentCall)
        if self.calls > TOLD_CALLS:
            return None
        if isinstance(piece, AgentCall):
            event = {
                "id": piece.id[:100],
                "tool": piece.name[:100],
                "arguments": _cut(piece.arguments, CUT_ARGUMENTS),
            }
            self.running[piece.id] = (event, time.monotonic())
            self.context.emit("tool_call_started", {**event, "loop_num": self.context.loop_num})
        elif piece.id in self.running:
            event, began = self.running.pop(piece.id)
            done = {
                "result": _cut(piece.result, CUT_RESULT),
                "status": "done",
                "ms": round((time.monotonic() - began) * 1000),
            }
            self.context.emit(
                "tool_call_completed", {**event, **done, "loop_num": self.context.loop_num}
            )
        return None

    def _show(self, text: str) -> None:
        if self.shown < STREAMED:
            self.context.stream(text)
            self.shown += len(text)
            if self.shown >= STREAMED:
                self.context.stream("\n[The rest is not shown live; it is kept with the order.]\n")

    @property
    def last_words(self) -> str:
        text = (
            " / ".join(line.strip() for line in self.errors if line.strip())
            or self.reader.answer[-300:].strip()
        )
        return f": {text[:600]}" if text else ""

    def close(self) -> None:
        """The end of it, however it ended."""
        self.context.keep("output", self.kept.text)
        if usage := self.reader.usage:
            totals: dict[str, Any] = {
                name: usage.get(name, 0) for name in ("input_tokens", "output_tokens", "cost")
            }
            cost = f", ${totals['cost']:.4f}" if totals["cost"] else ""
            tokens = int(totals["input_tokens"]), int(totals["output_tokens"])
            summary = f"{tokens[0]:,} tokens in, {tokens[1]:,} out{cost}"
            self.context.log(summary, what="usage", loop_num=self.context.loop_num, **totals)


def _cut(value: Any, longest: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[:longest]}…"


class _Kept:
    """The beginning and the end of a long text."""

    HALF = 2_000_000

    def __init__(self) -> None:
        self._first: list[str] = []
        self._last: deque[str] = deque()
        self._sizes = [0, 0]
        self._dropped = 0

    def add(self, line: str) -> None:
        line = f"{line}\n"
        if self._sizes[0] + len(line) <= self.HALF and not self._last:
            self._first.append(line)
            self._sizes[0] += len(line)
            return
        self._last.append(line)
        self._sizes[1] += len(line)
        while self._sizes[1] > self.HALF and len(self._last) > 1:
            gone = len(self._last.popleft())
            self._sizes[1] -= gone
            self._dropped += gone

    @property
    def text(self) -> str:
        note = [f"\n[{self._dropped:,} characters are left out here]\n\n"] if self._dropped else []
        return "".join([*self._first, *note, *self._last])
