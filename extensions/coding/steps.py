"""The steps of coding orders: plan a change, make it, review it. A command line agent or an agent
of ours works, whichever is configured.

Each step runs its executor in the order's work tree, and makes a report for the reviewer of the
agent's answer. Planning and review change nothing: files that the agent changed there are put back.
An agent's words decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypedDict

from extensions.coding import command_config, commits, executors
from extensions.coding.agents import AGENT, COMMAND, READING, WRITING, CodingAgent
from extensions.coding.command import AgentRun, start_of
from extensions.coding.executors import CodingJob, Worked
from extensions.coding.prompts import EXECUTE, MERGE, PLAN, REVIEW
from runs.workflows import (
    Child,
    Commit,
    Context,
    Gather,
    Go,
    Outcome,
    Report,
    State,
    Step,
    StepFailed,
    step,
)
from runs.workflows.deliver import effects, material
from runs.workflows.text import code, count, last_lines, quoted, showable

INPUT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "Change a repository",
    "additionalProperties": False,
    "properties": {
        "push": {
            "type": "boolean",
            "title": "Push the branch",
            "description": "When all is approved, push the branch to the repository it came from.",
            "default": False,
        },
    },
}
REDUCERS = {"input_tokens": "add", "output_tokens": "add", "cost": "add"}
PATCH_IN_PROMPT = 50_000
"""Most characters of the patch in the prompt of a reviewing agent."""


class CodingState(TypedDict, total=False):
    revision_feedback: str  # the reviewer's words when a step is run again for them, else ""
    decided: dict[str, str]  # a person's answers by step, set by the engine
    decided_content: dict[str, str]  # contents as reviewers edited them, by step
    plan: str  # Markdown
    planned_by: str  # the step whose plan that is
    gathering: bool  # planners are at work, or have ended and their plans are not merged yet
    plans: dict[str, dict[str, Any]]  # by planner: what it changed in its state, `plan` among it
    said: str  # what the agent says of the change that it made
    review: str  # Markdown: the last review
    # what the check said, for the next loop of an agent that reviews in several
    checking: dict[str, Any] | None
    # exit code of the repository's check in the last review; None where there is none, or it did
    # not end
    checked: int | None
    input_tokens: int  # of all agents of this order
    output_tokens: int
    cost: float  # in US dollars, as far as the agents tell
    # commits since the base; what else was delivered: see `deliver.hand_over`
    git_commit_count: int


MORE: dict[str, list[str]] = {
    "coding.plan": ["focus"],
    "coding.plan_together": ["plans"],
    "coding.execute": ["plan"],
    "coding.review": ["plan", "check", "patch"],
}
"""Names that a step's prompt may use in addition to those of all prompts."""
ONLY = {"focus": "coding.plan", "merge": "coding.plan_together"}
"""Keys of the configuration that only one step has."""


def _checked(function: str) -> Any:
    """Make the check of a step's configuration: of its own keys, and of its executor's where one is
    named.
    """

    def check(config: Mapping[str, Any]) -> None:
        prompt = config.get("prompt", "")
        if not isinstance(prompt, str) or not isinstance(config.get("focus", ""), str):
            raise command_config.invalid("prompt", "Words, with {{…}} where the order's belong.")
        command_config.check_prompt("prompt", prompt, more=MORE[function])
        if config.get("merge", "sections") not in ("sections", "agent"):
            raise command_config.invalid(
                "merge",
                '"sections" (one below the other) or "agent" (one more agent makes one plan '
                "of them).",
            )
        if foreign := sorted(
            name for name, owner in ONLY.items() if name in config and owner != function
        ):
            raise command_config.invalid(foreign[0], f"Only {ONLY[foreign[0]]} has this.")
        executors.check(config)

    return check


def _config(function: str) -> dict[str, Any]:
    """Make the schema of a step's form. An executor may have more keys, which `check` knows."""
    asked: dict[str, Any] = {
        "executor": {"enum": [AGENT, COMMAND]},
        "prompt": {"type": "string", "maxLength": 50_000},
        "focus": {"type": "string", "maxLength": 2_000},
        "merge": {"enum": ["sections", "agent"]},
    }
    own = {name: part for name, part in asked.items() if ONLY.get(name, function) == function}
    return {"type": "object", "properties": own}


def _coding(name: str, agent: CodingAgent) -> Callable[[Step], Step]:
    """Register a step in which an agent works on the order's request."""
    name = f"coding.{name}"
    return step(
        name,
        check=_checked(name),
        config=_config(name),
        needs_request=True,
        uses_models=True,
        reducers=REDUCERS,
        server=agent,
    )


@_coding("plan", CodingAgent(READING))
def plan(state: State, context: Context) -> Outcome:
    """One agent plans."""
    _need_words(context)
    job = CodingJob(usual=PLAN, more={"focus": context.config.get("focus", "")}, reading=True)
    worked = executors.work(state, context, job)
    if not isinstance(worked, Worked):
        return worked
    return _planned(context, worked.ran, update=worked.update, commit=context.workspace.snapshot())


@_coding("plan_together", CodingAgent(READING, merges=True))
def plan_together(state: State, context: Context) -> Outcome:
    """The sub-steps plan at the same time, each in a child run; then their plans are merged.

    It goes to itself for the merge, so that a crash there does not plan again; `merge` says how:
    below each other, or by one more agent.
    """
    _need_words(context)
    if not state.get("gathering"):
        if not context.sub_steps:
            raise StepFailed(
                "This step has no sub-steps, so nobody would plan. Give its step template some.",
                code="no_sub_steps",
            )
        # so that all of them, and what follows, begin at the same commit
        context.workspace.restore()
        children = [Child(name=name, steps=[name]) for name in context.sub_steps]
        return Gather(
            children=children,
            update={"gathering": True},
            to=context.step,
            into="plans",
            commit=context.workspace.snapshot(),
        )
    plans = {name: str(changes.get("plan", "")) for name, changes in state["plans"].items()}
    used = {
        key: sum(changes.get(key, 0) for changes in state["plans"].values()) for key in REDUCERS
    }
    if context.config.get("merge", "sections") == "sections":
        content = f"# {len(plans)} plans, made apart from each other\n\n{_side_by_side(plans)}"
        return _planned(
            context, AgentRun(answer=content, usage=used), facts={"Planners": len(plans)}
        )
    worked = executors.work(
        state, context, CodingJob(usual=MERGE, more={"plans": _side_by_side(plans)}, reading=True)
    )
    if not isinstance(worked, Worked):
        return worked
    ran = AgentRun(
        answer=worked.ran.answer,
        usage={key: used[key] + worked.ran.usage.get(key, 0) for key in REDUCERS},
    )
    return _planned(context, ran, update=worked.update, facts={"Planners": len(plans)})


def _side_by_side(plans: Mapping[str, str]) -> str:
    return "\n\n".join(f"## {name}\n\n{text}" for name, text in plans.items())


def _planned(
    context: Context,
    ran: AgentRun,
    *,
    update: Mapping[str, Any] = MappingProxyType({}),
    facts: Mapping[str, str | int] = MappingProxyType({}),
    commit: Commit | None = None,
) -> Go:
    if not ran.answer:
        raise StepFailed(
            "The agent ended without a word, so there is no plan. What it wrote is kept "
            "with this order.",
            code="agent_silent",
        )
    made = {
        "plan": ran.answer,
        "planned_by": context.step,
        "gathering": False,
        "plans": {},
        "review": "",
    }
    report = Report(content=ran.answer, facts={**facts, **ran.facts}, material=ran.answer)
    return Go(update={**update, **made, **ran.usage}, report=report, commit=commit)


def _need_words(context: Context) -> None:
    if not context.order.request.strip():
        raise StepFailed(
            "The order does not say what is to be changed. Order it again with a request in words.",
            code="nothing_asked",
        )


@_coding("execute", CodingAgent(WRITING))
def execute(state: State, context: Context) -> Outcome:
    """The agent makes the change that was planned, or corrects the one it made."""
    _need_words(context)
    approved = _approved_plan(state, context)
    workspace = context.workspace
    workspace.restore()
    start = start_of(state, context)
    worked = executors.work(
        state, context, CodingJob(usual=EXECUTE, more={"plan": approved}, reading=False)
    )
    if not isinstance(worked, Worked):
        return worked
    if worked.committed:
        changes = commits.since_base(context, workspace.base())
    else:
        changes = commits.commit(
            context, start, subject=context.order.title, secrets=executors.secrets(context)
        )
    head, ran = workspace.head(), worked.ran
    context.log(
        f"{count(len(changes.commits), 'commit')}, {count(changes.numbers['files'], 'file')}",
        commit=head,
    )
    update = {
        **worked.update,
        "said": ran.answer,
        "git_commit_count": commits.count(workspace),
        **ran.usage,
    }
    report = Report(
        content=_executed(changes, ran.answer),
        patch=changes.patch,
        facts={**changes.facts, **ran.facts},
        material=material(head),
    )
    return Go(update=update, report=report, commit=workspace.snapshot())


def _approved_plan(state: State, context: Context) -> str:
    """Return the plan as a person approved it, perhaps with edits. Raises StepFailed where the
    template asks for an approval and nobody gave it.
    """
    text = str(
        state.get("decided_content", {}).get(state.get("planned_by", ""), state.get("plan", ""))
    )
    # an empty plan is checked too: a plan that was taken away is not the approved one
    for function in ("coding.plan", "coding.plan_together"):
        context.require_approval(function, text, optional=True)
    return text


def _executed(changes: commits.Changes, answer: str) -> str:
    title = (
        f"# {count(changes.numbers['files'], 'file')} changed"
        if changes.numbers["files"]
        else "# Nothing was changed"
    )
    parts = [title, answer or "The agent said nothing about it."]
    if changes.commits:
        parts.append(
            "## New commits\n\n"
            + "\n".join(f"- {code(subject)}" for subject in changes.commits[:50])
        )
    if changes.left_out:
        named = "\n".join(f"- {code(path)}" for path in changes.left_out[:20])
        parts.append(
            "## Left out\n\nRepositories of their own, whose files cannot be in these "
            f"commits:\n\n{named}"
        )
    return "\n\n".join(parts) + "\n"


@_coding("review", CodingAgent(READING))
def review(state: State, context: Context) -> Outcome:
    """Run the repository's check, and let an agent look at the patch.

    What does not hold is a finding for the reviewer, not an error.
    """
    workspace = context.workspace
    workspace.restore()
    head = workspace.head()
    ran_check = state.get("checking") or {}
    exit_code, output = (
        (ran_check["exit_code"], ran_check["said"])
        if ran_check.get("head") == head
        else _run_check(context)
    )
    workspace.reset(head)
    changes = commits.since_base(context, workspace.base())
    patch = (
        changes.patch
        if len(changes.patch) <= PATCH_IN_PROMPT
        else f"{changes.patch[:PATCH_IN_PROMPT]}\n[cut here; see git diff]"
    )
    job = CodingJob(
        usual=REVIEW, more={"plan": _plan_of(state), "check": output, "patch": patch}, reading=True
    )
    worked = executors.work(state, context, job)
    if not isinstance(worked, Worked):
        return _remembering(
            worked, {"checking": {"head": head, "exit_code": exit_code, "said": output}}
        )
    ran = worked.ran
    text = "\n\n".join(
        filter(
            None,
            [
                "# Review",
                _verdict(context, exit_code, output),
                ran.answer or "The reviewing agent said nothing.",
            ],
        )
    )
    verdict = (
        {}
        if not context.order.check_command
        else {"Check": "✓ passes" if exit_code == 0 else "✗ does not pass"}
    )
    report = Report(
        content=text + "\n",
        patch=changes.patch,
        facts={**verdict, "Head": head[:10], **changes.facts, **ran.facts},
        effects=effects(context, asked=bool(context.order.input.get("push"))),
        material=material(head),
    )
    return Go(
        update={
            **worked.update,
            "review": text,
            "checked": exit_code,
            "checking": None,
            **ran.usage,
        },
        report=report,
        commit=workspace.snapshot(),
    )


def _plan_of(state: State) -> str:
    return str(
        state.get("decided_content", {}).get(state.get("planned_by", ""), state.get("plan", ""))
    )


def _remembering(outcome: Outcome, more: Mapping[str, Any]) -> Outcome:
    """Return an outcome with more in its state, for the next loop of the same step."""
    return replace(outcome, update={**outcome.update, **more})


def _run_check(context: Context) -> tuple[int | None, str]:
    """Run the check; return its exit code (None: no check, or it did not end) and last lines."""
    if not context.order.check_command:
        return None, ""
    lines: list[str] = []

    def hear(source: str, line: str) -> None:
        lines.append(showable(line))
        del lines[:-200]
        context.stream(f"{lines[-1]}\n")

    context.log("Running the repository's check")
    try:
        return context.workspace.follow(context.order.check_command, hear), last_lines(
            "\n".join(lines), 30
        )
    except StepFailed as error:
        return None, str(error)


def _verdict(context: Context, exit_code: int | None, said: str) -> str:
    if not context.order.check_command:
        return "The repository has no check of its own."
    how = (
        "did not end by itself"
        if exit_code is None
        else "passes"
        if exit_code == 0
        else f"fails with exit code {exit_code}"
    )
    return (
        f"## {'✓' if exit_code == 0 else '✗'} The repository's check {how}\n\n- "
        f"{code(' '.join(context.order.check_command))}{quoted(said)}"
    )
