"""The step that lets a command line agent work in the order's tree, whichever agent it is, and
what other steps need to do the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from extensions.coding import commits, gate
from extensions.coding.agents import AllowedPrograms
from extensions.coding.cli_output import AgentCall, DeferredCall, OutputReader
from extensions.coding.command_config import (
    DEFAULT_PROMPT,
    PLACEHOLDER,
    SCHEMA,
    check,
    rules_of,
)
from extensions.coding.gate import Answer, Deferred, Pending
from extensions.coding.hearing import Talk
from extensions.coding.hook import digest
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
    start = start_of(state, context)
    prompt = prompts.render(config.get("prompt", DEFAULT_PROMPT), state, context)
    ran = run_agent(state, context, config, prompt)
    if isinstance(ran, Deferred):
        return ask(state, context, ran)
    if config.get("changes", "commit") == "discard":
        workspace.reset(start)
    changes = commits.commit(
        context,
        start,
        subject=context.order.title or "Work of an agent",
        secrets=secrets_of(context),
    )
    update = {
        **gate.without(state, context),
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


def start_of(state: State, context: Context) -> str:
    """The commit at which the agent's work began, before the first of its questions."""
    pending = gate.waiting(state, context)
    return pending.start if pending else context.workspace.head()


def ask(state: State, context: Context, deferred: Deferred) -> Outcome:
    """The question about a call of an agent's, with all that it changed so far: another worker may
    go on with it.
    """
    subject = context.order.title or "Work of an agent"
    secrets = secrets_of(context)
    commits.commit(context, deferred.pending.start, subject=subject, secrets=secrets)
    return gate.question(state, context, deferred, context.workspace.snapshot())


def run_agent(
    state: State,
    context: Context,
    config: Mapping[str, Any],
    prompt: str,
    *,
    reading: bool = False,
) -> AgentRun | Deferred:
    """Run the agent of a configuration in the work tree as it is, or go on with the one that waited
    for a person.

    What it says is shown live; the prompt and all that it wrote are kept as artifacts, also where
    it fails.

    Args:
        reading: nothing is to be changed; its `read_command` is used where there is one, and it has
            no gate: nobody is asked. What it changes all the same is for the caller to put back.
    Raises:
        StepFailed: `program_missing`, `timeout`, `output_limit`, `command_killed`, `command_failed`
            or what the configuration makes of the exit code, `agent_failed` where it says so
            itself, `prompt_too_long`, `no_session`, `session_too_large`, `gate_unclear`, and what
            `Context.credential` raises.
    """
    if reading or "gate" not in config:
        arguments = config.get("read_command", config["command"]) if reading else config["command"]
        talk = _run(context, config, arguments, prompt=prompt)
        if talk.reader.deferred:
            raise StepFailed("The agent waits for a decision, and has no gate.", code="no_gate")
        return _ended(talk)
    pending, answer = gate.waiting(state, context), None
    start = pending.start if pending else context.workspace.head()
    if pending:
        decided = gate.answered(context, pending)
        if not isinstance(decided, Answer):
            again = replace(pending, number=pending.number + 1, execution=context.key)
            return Deferred(pending=again, verdict=decided, said="")
        answer = decided
    secrets = secrets_of(context)
    for _ in range(gate.MOST_AT_ONCE):
        paths = gate.files(context, config, pending, answer)
        arguments = config["resume_command"] if pending else config["command"]
        talk = _run(context, config, arguments, prompt=prompt, paths=paths, pending=pending)
        usage = _added(pending.usage if pending else {}, talk.usage)
        call = talk.reader.deferred
        if call is None:
            return _ended(talk, usage)
        pending = _pending(context, call, pending, start=start, usage=usage, secrets=secrets)
        verdict = gate.judge(config, call, secrets)
        if verdict and verdict.ask:
            said = showable(talk.reader.answer)[:LONGEST_ANSWER]
            return Deferred(pending=pending, verdict=verdict, said=said)
        why = "" if verdict else "This is not allowed here, and nobody is asked."
        answer = Answer(allow=verdict is not None, input=call.arguments, reason=why)
    raise StepFailed(
        f"The agent wanted more than {gate.MOST_AT_ONCE} calls that its rules let pass.",
        code="gate_unclear",
    )


def _pending(
    context: Context,
    call: DeferredCall,
    before: Pending | None,
    *,
    start: str,
    usage: Mapping[str, float],
    secrets: Sequence[str],
) -> Pending:
    return Pending(
        session=call.session,
        transcript=gate.session_of(context, call, secrets),
        number=before.number + 1 if before else 1,
        id=call.id,
        tool=call.name,
        arguments=call.arguments,
        digest=digest(call.name, call.arguments),
        execution=context.key,
        start=start,
        usage=usage,
    )


def _run(
    context: Context,
    config: Mapping[str, Any],
    arguments: Sequence[str],
    *,
    prompt: str,
    paths: Mapping[str, str] = MappingProxyType({}),
    pending: Pending | None = None,
) -> Talk:
    """Start the program once; what it wrote."""
    environment = {
        name: context.credential(credential)
        for name, credential in config.get("credentials", {}).items()
    }
    prompt = showable(prompt)
    if pending is None:
        context.keep("prompt", prompt)
    spent = pending.usage.get("cost", 0.0) if pending else 0.0
    talk = Talk(context, OutputReader(rules_of(config)), spent=spent)
    if pending:
        talk.go_on(AgentCall(id=pending.id, name=pending.tool, arguments=pending.arguments))
    program = PurePath(arguments[0]).name
    context.log(f"{'Going on with' if pending else 'Running'} {program}", program=program)
    filled = [_filled(argument, prompt, context, paths) for argument in arguments[1:]]
    try:
        code = context.workspace.follow(
            [arguments[0], *filled],
            talk.hear,
            environment=environment,
            pass_on=config.get("environment", ()),
            stdin=prompt if config.get("stdin") and not pending else "",
            timeout=config.get("seconds"),
            max_output=config.get("max_output", MAX_OUTPUT),
        )
    finally:
        with suppress(Stopped):  # what ended the program is the news
            talk.close()
    _judge(program, code, talk, config)
    return talk


def _ended(talk: Talk, usage: Mapping[str, float] | None = None) -> AgentRun:
    answer = showable(talk.reader.answer)[:LONGEST_ANSWER]
    return AgentRun(answer=answer, usage=talk.usage if usage is None else usage)


def _added(before: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    return {name: round(before.get(name, 0) + more.get(name, 0), 8) for name in {**before, **more}}


def secrets_of(context: Context) -> list[str]:
    """What the agent was given and nobody else is to see."""
    return [context.credential(name) for name in context.config.get("credentials", {}).values()]


def _filled(argument: str, prompt: str, context: Context, paths: Mapping[str, str]) -> str:
    def value(name: str) -> str:
        if name in paths:
            return paths[name]
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


def _judge(program: str, code: int, talk: Talk, config: Mapping[str, Any]) -> None:
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
