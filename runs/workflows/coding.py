"""Coding orders (S4-10, S4-11): plan a change, make it, review it; by a command line agent or by an agent of ours, whichever is configured.

A step of these runs its executor in the order's tree and makes of its answer what a reviewer is asked about. Planning and review change
nothing: what the agent changed all the same is put back. What an agent says is words, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from runs.workflows import command_config, prompts, tree
from runs.workflows.base import Child, Commit, Context, Done, Gather, Go, Outcome, Report, State, StepFailed, effect, step
from runs.workflows.coding_prompts import EXECUTE, MERGE, PLAN, REVIEW
from runs.workflows.command import Ran, run_agent, secrets_of
from runs.workflows.tidy_plan import code, quoted
from runs.workflows.tidy_tools import last_lines, showable

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
"""Characters of the patch that a reviewing agent is handed."""


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
    checked: int | None  # exit code of the repository's check in the last review; None where there is none, or it did not end
    input_tokens: int  # of all agents of this order
    output_tokens: int
    cost: float  # in US dollars, as far as the agents tell
    branch: str  # delivered
    head: str  # delivered: its last commit
    git_commit_count: int  # commits since the base
    pushed: bool  # delivered: the branch is on the origin


MORE = {
    "coding.plan": ["focus"],
    "coding.plan_together": ["plans"],
    "coding.execute": ["plan"],
    "coding.review": ["plan", "check", "patch"],
}
"""What their prompts may name beside what all prompts may."""
OWN = {"coding.plan": {"focus"}, "coding.plan_together": {"merge"}}
"""Configuration that a step has beside its executor's."""


def _checked(function: str) -> Any:
    """How the configuration of one of these steps is checked: its own words, and the executor's where one is named."""

    def check(config: Mapping[str, Any]) -> None:
        prompt = config.get("prompt", "")
        if not isinstance(prompt, str) or not isinstance(config.get("focus", ""), str):
            raise command_config.invalid("prompt", "Words, with {{…}} where the order's belong.")
        command_config.check_prompt("prompt", prompt, more=MORE[function])
        if config.get("merge", "sections") not in ("sections", "agent"):
            raise command_config.invalid("merge", '"sections" (one below the other) or "agent" (one more agent makes one plan of them).')
        executor = {key: value for key, value in config.items() if key not in {"prompt", "executor", *OWN.get(function, ())}}
        if "executor" in config or executor:
            _check_executor(config.get("executor", "command"), executor)

    return check


def _check_executor(name: Any, config: Mapping[str, Any]) -> None:
    if name != "command":
        raise command_config.invalid("executor", '"command".')
    command_config.check(config)


@step("coding.plan", check=_checked("coding.plan"))
def plan(state: State, context: Context) -> Outcome:
    """One agent plans."""
    _need_words(context)
    ran = _read_only(state, context, PLAN, {"focus": context.config.get("focus", "")})
    context.log("A plan was made", characters=len(ran.answer))
    return _planned(context, ran.answer, ran.usage, ran.facts, context.workspace.snapshot())


@step("coding.plan_together", check=_checked("coding.plan_together"))
def plan_together(state: State, context: Context) -> Outcome:
    """The sub-steps plan at the same time, each in a child run; then their plans are merged (S4-5).

    It goes to itself for the merge, so that a crash there does not plan again; `merge` says how: below each other, or by one more agent.
    """
    _need_words(context)
    if not state.get("gathering"):
        if not context.sub_steps:
            raise StepFailed("This step has no sub-steps, so nobody would plan. Give its step template some.", code="no_sub_steps")
        context.workspace.restore()  # so that all of them, and what follows, begin at the same commit
        children = [Child(name=name, steps=[name]) for name in context.sub_steps]
        return Gather(children=children, update={"gathering": True}, to=context.step, into="plans", commit=context.workspace.snapshot())
    plans = {name: str(changes.get("plan", "")) for name, changes in state["plans"].items()}
    used = {key: sum(changes.get(key, 0) for changes in state["plans"].values()) for key in REDUCERS}
    facts = {"Planners": len(plans)}
    if context.config.get("merge", "sections") == "agent":
        ran = _read_only(state, context, MERGE, {"plans": _side_by_side(plans)})
        used = {key: used[key] + ran.usage.get(key, 0) for key in REDUCERS}
        content = ran.answer
    else:
        content = f"# {len(plans)} plans, made apart from each other\n\n{_side_by_side(plans)}"
    return _planned(context, content, used, facts | Ran(answer="", usage=used).facts)


def _side_by_side(plans: Mapping[str, str]) -> str:
    return "\n\n".join(f"## {name}\n\n{text}" for name, text in plans.items())


def _planned(context: Context, text: str, usage: Mapping[str, float], facts: Mapping[str, str | int], commit: Commit | None = None) -> Go:
    if not text:
        raise StepFailed("The agent ended without a word, so there is no plan. What it wrote is kept with this order.", code="agent_silent")
    update = {"plan": text, "planned_by": context.step, "gathering": False, "plans": {}, "review": "", **usage}
    report = Report(content=text, facts=facts, material=text)
    return Go(update=update, report=report, commit=commit)


def _need_words(context: Context) -> None:
    if not context.order.request.strip():
        raise StepFailed("The order does not say what is to be changed. Order it again with a request in words.", code="nothing_asked")


@step("coding.execute", check=_checked("coding.execute"))
def execute(state: State, context: Context) -> Outcome:
    """The agent makes the change that was planned, or corrects the one it made (S4-3)."""
    _need_words(context)
    approved = _approved_plan(state, context)
    workspace = context.workspace
    workspace.restore()
    start = workspace.head()
    ran = _ran(state, context, EXECUTE, {"plan": approved})
    changes = tree.commit(context, start, subject=context.order.title, secrets=secrets_of(context))
    context.log(f"{len(changes.commits)} commits, {changes.numbers['files']} files", commit=workspace.head())
    update = {"said": ran.answer, "git_commit_count": tree.count(workspace), **ran.usage}
    report = Report(
        content=_executed(changes, ran.answer),
        patch=changes.patch,
        facts={**changes.facts, **ran.facts},
        material={"head": workspace.head()},
    )
    return Go(update=update, report=report, commit=workspace.snapshot())


def _approved_plan(state: State, context: Context) -> str:
    """The plan as a person approved it, perhaps with edits; raises StepFailed where nobody did and the template asks."""
    text = str(state.get("decided_content", {}).get(state.get("planned_by", ""), state.get("plan", "")))
    if text:
        for function in ("coding.plan", "coding.plan_together"):
            context.require_approval(function, text)
    return text


def _executed(changes: tree.Changes, answer: str) -> str:
    title = f"# {changes.numbers['files']} files changed" if changes.numbers["files"] else "# Nothing was changed"
    parts = [title, answer or "The agent said nothing about it."]
    if changes.commits:
        parts.append("## New commits\n\n" + "\n".join(f"- {code(subject)}" for subject in changes.commits[:50]))
    if changes.left_out:
        named = "\n".join(f"- {code(path)}" for path in changes.left_out[:20])
        parts.append(f"## Left out\n\nRepositories of their own, whose files cannot be in these commits:\n\n{named}")
    return "\n\n".join(parts) + "\n"


@step("coding.review", check=_checked("coding.review"))
def review(state: State, context: Context) -> Outcome:
    """Run the repository's check, and let an agent look at the patch. What does not hold is a finding for the reviewer, not an error."""
    workspace = context.workspace
    workspace.restore()
    head = workspace.head()
    exit_code, said = _run_check(context)
    workspace.reset(head)
    changes = tree.since_base(context, workspace.base())
    patch = changes.patch if len(changes.patch) <= PATCH_IN_PROMPT else f"{changes.patch[:PATCH_IN_PROMPT]}\n[cut here; see git diff]"
    ran = _read_only(state, context, REVIEW, {"plan": _plan_of(state), "check": said, "patch": patch})
    found = "\n\n".join(filter(None, ["# Review", _verdict(context, exit_code, said), ran.answer or "The reviewing agent said nothing."]))
    push = effect(
        f"Pushes {context.order.branch} to {context.order.repository_url}.", undo="delete the branch there; no other branch is touched."
    )
    verdict = {} if not context.order.check_command else {"Check": "✓ passes" if exit_code == 0 else "✗ does not pass"}
    report = Report(
        content=found + "\n",
        patch=changes.patch,
        facts={**verdict, "Head": head[:10], **changes.facts, **ran.facts},
        effects=[push] if context.order.input.get("push") else [],
        material={"head": head},
    )
    return Go(update={"review": found, "checked": exit_code, **ran.usage}, report=report, commit=workspace.snapshot())


def _plan_of(state: State) -> str:
    return str(state.get("decided_content", {}).get(state.get("planned_by", ""), state.get("plan", "")))


def _run_check(context: Context) -> tuple[int | None, str]:
    """The exit code (None: there is no check, or it did not end by itself) and the last lines."""
    if not context.order.check_command:
        return None, ""
    lines: list[str] = []

    def hear(source: str, line: str) -> None:
        lines.append(showable(line))
        del lines[:-200]
        context.stream(f"{lines[-1]}\n")

    context.log("Running the repository's check")
    try:
        return context.workspace.follow(context.order.check_command, hear), last_lines("\n".join(lines), 30)
    except StepFailed as error:
        return None, str(error)


def _verdict(context: Context, exit_code: int | None, said: str) -> str:
    if not context.order.check_command:
        return "The repository has no check of its own."
    how = "did not end by itself" if exit_code is None else "passes" if exit_code == 0 else f"fails with exit code {exit_code}"
    return (
        f"## {'✓' if exit_code == 0 else '✗'} The repository's check {how}\n\n- {code(' '.join(context.order.check_command))}{quoted(said)}"
    )


@step("coding.deliver")
def deliver(state: State, context: Context) -> Outcome:
    """Push the branch, where the order says so: just what was approved."""
    workspace = context.workspace
    workspace.restore()
    head = workspace.head()
    commits = tree.count(workspace)
    context.require_approval("coding.execute", {"head": head})
    if context.approved("coding.review"):  # who approved the change may pass the review over
        context.require_approval("coding.review", {"head": head})
    push = bool(context.order.input.get("push")) and commits > 0
    if push:
        workspace.push()
        context.log(f"Pushed {context.order.branch}", commit=head)
    update = {"branch": context.order.branch, "head": head, "git_commit_count": commits, "pushed": push}
    return Done(update=update, commit=workspace.snapshot())


def _read_only(state: State, context: Context, usual: str, more: Mapping[str, str]) -> Ran:
    """Let the agent look at the tree as it is; what it changed is put back."""
    context.workspace.restore()
    ran = _ran(state, context, usual, more, reading=True)
    context.workspace.restore()
    return ran


def _ran(state: State, context: Context, usual: str, more: Mapping[str, str], *, reading: bool = False) -> Ran:
    config = context.config
    if config.get("executor") != "command":
        raise StepFailed(NO_CODER, code="no_coder")
    return run_agent(context, config, prompts.render(config.get("prompt", usual), state, context, more=more), reading=reading)


NO_CODER = (
    "Nothing here can write code yet. Set WAYSTATION_CODER to a command line agent, or WAYSTATION_MODEL (with WAYSTATION_MODEL_URL for an "
    "endpoint of your own) to a language model; docs/coding-agents.md says how."
)
