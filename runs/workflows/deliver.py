"""The last step of work on code: the commits that were approved leave, as a branch and a pull
request, as far as the repository allows.

Each part can be done again: a push of the same commit changes nothing, and a pull request that is
open is found. So a worker that dies in between costs another try, and the commits stay in the run's
checkpoints until somebody has them.
"""

from __future__ import annotations

from typing import Any

from runs.workflows.base import (
    Code,
    Context,
    DeliveryPolicy,
    Done,
    Outcome,
    PullRequestDraft,
    State,
    StepFailed,
    effect,
)
from runs.workflows.registry import step

RETRY = {"attempts": 6, "base": 5, "cap": 600, "errors": ["forge_away", "forge_limit"]}
"""For steps that push and open pull requests: what is away for a while costs nobody a click."""
LONGEST_REQUEST = 8_000
LISTED = 50
"""Commits that a pull request's text names."""


@step(
    "deliver",
    delivers=True,
    config={
        "type": "object",
        "properties": {
            "approved": {
                "type": "array",
                "items": {"type": "string", "minLength": 1},
                "title": "Steps that must have been approved",
                "description": "Left empty: the last step that was asked about.",
            }
        },
    },
)
def deliver(state: State, context: Context) -> Outcome:
    """Deliver the commit of the last approval.

    Config: `approved`, names of steps that must have been approved, each with just this commit;
    without it, the last step that the template pauses after and somebody approved. Their reports'
    material is what `material` gives, or `leaving`.
    """
    context.workspace.restore()
    commit = context.workspace.snapshot()
    named = _named(context)
    for of in named or [""]:
        context.require_approval(of, leaving(commit), optional=not named)
    asked = bool(context.order.input.get("push"))
    return Done(update=hand_over(context, asked=asked), commit=commit)


def _named(context: Context) -> list[str]:
    """The steps that the configuration names.

    A name that is misspelt must not pass for a step that asks nothing.
    """
    names = context.config.get("approved", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise StepFailed(
            'The configuration of this step is wrong: "approved" is a list of names of steps.',
            code="bad_config",
        )
    for name in names:
        if context.approved(name) is None:
            raise StepFailed(
                f"Nobody has approved what {name} came to, so nothing was delivered.",
                code="approval_missing",
            )
    return names


def material(head: str) -> dict[str, str]:
    """What counts of a report on commits, so that it can be compared before they leave
    (`Report.material`).
    """
    return {"head": head}


def leaving(code: Code | None) -> dict[str, str] | None:
    """The material of a step after which the code is that; None, so that all counts, where there is
    no commit that could leave.
    """
    return material(code.sha) if code and code.sha != code.base else None


def effects(context: Context, *, asked: bool) -> list[str]:
    """Sentences for the report that is approved (`Report.effects`): what `hand_over` will do
    outside.
    """
    order = context.order
    if not order.delivery.pushes(asked=asked):
        return []
    pushes = effect(
        f"Pushes {order.branch} to {order.repository_url}.",
        undo="delete the branch there; no other branch is touched.",
    )
    if order.delivery.pull_request == "never":
        return [pushes]
    kind = "a draft pull request" if order.delivery.pull_request == "draft" else "a pull request"
    into = f" into {order.delivery.base_branch}" if order.delivery.base_branch else ""
    opens = effect(
        f"Opens {kind}{into}, with this order's title and request.",
        undo="close it there; who watches the repository is told.",
    )
    return [pushes, opens]


def hand_over(context: Context, *, asked: bool) -> dict[str, Any]:
    """Push the restored workspace's branch and open its pull request, where there are commits and
    the repository allows it.

    Args:
        asked: whether the order asks for a push itself.
    Returns:
        what joins the state: `branch, head, git_commit_count, pushed`, and
        `github_pull_request_url` where there is one.
    Raises:
        StepFailed: as `Workspace.push` and `Context.propose`; a part that is done stays so, and is
            not done twice.
    """
    workspace, order = context.workspace, context.order
    head = workspace.head()
    commits = int(workspace.git("rev-list", "--count", f"{workspace.base()}..HEAD"))
    pushed = commits > 0 and order.delivery.pushes(asked=asked)
    done: dict[str, Any] = {
        "branch": order.branch,
        "head": head,
        "git_commit_count": commits,
        "pushed": pushed,
    }
    if not pushed:
        return done
    workspace.push()
    context.log(f"Pushed {order.branch}", commit=head)
    if order.delivery.pull_request != "never":
        context.check()
        made = context.propose(_proposal(context, order.delivery))
        context.log(
            f"{'Opened' if made.opened else 'Brought up to date:'} pull request {made.number}",
            url=made.url,
        )
        done["github_pull_request_url"] = made.url
    return done


def _proposal(context: Context, delivery: DeliveryPolicy) -> PullRequestDraft:
    return PullRequestDraft(
        branch=context.order.branch,
        base=delivery.base_branch,
        title=context.order.title,
        body=_body(context),
        draft=delivery.pull_request == "draft",
    )


def _body(context: Context) -> str:
    order, workspace = context.order, context.workspace
    listed = workspace.git(
        "log", "--format=%h %s", f"--max-count={LISTED + 1}", f"{workspace.base()}..HEAD"
    ).split("\n")[:-1]
    lines = [f"- `{_plain(line)}`" for line in listed[:LISTED]] + (
        ["- …"] if len(listed) > LISTED else []
    )
    decisions = dict.fromkeys(approval.decision_id for approval in context.approvals.values())
    footer = [f"Work order [{order.id}]({order.page})" if order.page else f"Work order {order.id}"]
    footer += (
        [f"approved by {', '.join(f'`{decision}`' for decision in decisions)}"] if decisions else []
    )
    parts = [
        order.request.strip()[:LONGEST_REQUEST],
        "\n".join(lines),
        "---",
        ", ".join(footer) + ".",
    ]
    return "\n\n".join(filter(None, parts))


def _plain(subject: str) -> str:
    """A commit's subject as it may stand between backquotes; bytes that are no UTF-8 are shown as
    unknown.
    """
    return subject.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("`", "'")
