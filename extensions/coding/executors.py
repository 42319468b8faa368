"""Hands the work of a coding step to whoever does it: a command line agent in one go, or an agent
of ours, loop by loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from extensions.coding import command_config, gate
from extensions.coding.agents import AGENT, COMMAND, NO_CODER, NO_CODER_CODE
from extensions.coding.command import AgentRun, ask, run_agent, secrets_of
from extensions.coding.gate import Deferred
from runs.workflows import (
    ConfigInvalid,
    Context,
    Go,
    Outcome,
    State,
    StepFailed,
    check_config,
    find,
    prompts,
)

OWN = frozenset({"executor", "prompt", "focus", "merge"})
"""Of a coding step's configuration: what is not its executor's."""


@dataclass(frozen=True, kw_only=True)
class CodingJob:
    """What a coding step wants of its executor."""

    usual: str
    """The prompt where the step template has none of its own."""
    more: Mapping[str, str]
    """What the prompt may name beside what all prompts may."""
    reading: bool
    """Nothing is to be changed, and what is changed all the same is put back."""


@dataclass(frozen=True, kw_only=True)
class Worked:
    """The executor is done, and this is what it came to; `update` is what it keeps of its own in
    the state.
    """

    ran: AgentRun
    update: Mapping[str, Any]
    committed: bool
    """It has committed what it changed, each time it changed something."""


def check(config: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid where a coding step's configuration names an executor that could not work
    with it. None named is fine.
    """
    name = config.get("executor", COMMAND)
    if name not in (AGENT, COMMAND):
        raise ConfigInvalid.of(
            "executor",
            f"Write {AGENT} or {COMMAND}; left out, it is what the server's settings say.",
        )
    rest = {key: value for key, value in config.items() if key not in OWN}
    if rest and not {"executor", "command"} & config.keys():
        command_config.check_policy(rest)
    elif "executor" in config or rest:
        check_config(str(name), rest)


def work(state: State, context: Context, job: CodingJob) -> Worked | Outcome:
    """Let the executor work from the checkpoint's tree on.

    What is no Worked goes on first: another loop, or a question of a tool's.
    """
    prompt = prompts.render(context.config.get("prompt", job.usual), state, context, more=job.more)
    match context.config.get("executor"):
        case "command":
            return _command(state, context, job, prompt)
        case "agent":
            return _agent(state, context, job, prompt)
    raise StepFailed(NO_CODER, code=NO_CODER_CODE)


def secrets(context: Context) -> list[str]:
    """What the executor was given and nobody else is to see; an agent of ours keeps its key to
    itself.
    """
    return secrets_of(context) if context.config.get("executor") == COMMAND else []


def _command(state: State, context: Context, job: CodingJob, prompt: str) -> Worked | Outcome:
    context.workspace.restore()
    ran = run_agent(state, context, context.config, prompt, reading=job.reading)
    if isinstance(ran, Deferred):
        return ask(state, context, ran)
    if job.reading:
        context.workspace.restore()
    return Worked(ran=ran, update=gate.without(state, context), committed=False)


def _agent(state: State, context: Context, job: CodingJob, prompt: str) -> Worked | Outcome:
    """One loop of an agent.

    Its tools say what it may do, so it changes nothing where it is given none that change.
    """
    theirs = {key: value for key, value in context.config.items() if key not in OWN}
    # the agent fills in places of its prompt, and what looks like one in the words of others is
    # none
    outcome = find(AGENT)(
        state, replace(context, config={**theirs, "prompt": prompt.replace("{{", "{ {")})
    )
    if not isinstance(outcome, Go) or outcome.to is not None:
        return outcome
    # nothing was done in the workspace, which another worker may have been at since
    if outcome.commit is None:
        context.workspace.restore()
    answer = outcome.update.get("output", "")
    spent = outcome.update.get("agent", {}).get(context.step, {}).get("usage", {})
    usage = {
        name: spent[name] for name in ("input_tokens", "output_tokens", "cost") if spent.get(name)
    }
    return Worked(
        ran=AgentRun(answer=str(answer).strip(), usage=usage), update=outcome.update, committed=True
    )
