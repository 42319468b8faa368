"""What an agent left in the work tree, made into commits of the order's branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runs.processes import secret_encodings
from runs.workflows import Context, StepFailed, Workspace
from runs.workflows.patches import Numbers, changed_paths, cut_patch, read_numstat
from runs.workflows.text import showable

PLAINLY = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What the order's branch holds since its base."""

    commits: Sequence[str]
    """Subjects of those that were just made, oldest first."""
    numbers: Numbers
    patch: str
    left_out: Sequence[str]
    """Folders that are repositories of their own, whose files no commit of ours could hold."""
    branch: str

    @property
    def facts(self) -> Mapping[str, str | int]:
        lines = f"+{self.numbers['added']} −{self.numbers['removed']}"
        return {
            "Commits": len(self.commits),
            "Files": self.numbers["files"],
            "Lines": lines,
            "Branch": self.branch,
        }


def commit(context: Context, start: str, *, subject: str, secrets: Sequence[str] = ()) -> Changes:
    """Commit all that was changed since `start`, and put the order's branch there, whatever became
    of branches meanwhile.

    Commits that the agent itself made upon `start` stay; where it left `start`'s history, its
    changes become one commit upon `start`. Raises StepFailed(code="secret_in_change") where one of
    `secrets` stands in what was changed: it would be pushed.
    """
    workspace = context.workspace
    _settle(context, start)
    changed = changed_paths(workspace)
    left_out = [path for path in changed if path.endswith("/")]
    subject_line = " ".join(showable(subject).split())[:72] or "Work"
    workspace.commit(
        f"{subject_line}\n\nMade for the work order {context.order.id}, step {context.step}.\n",
        sorted(set(changed) - set(left_out)),
    )
    if secrets and _holds(
        workspace.git("log", "-p", *PLAINLY, "--text", f"{start}..HEAD"), secrets
    ):
        subject_line = (
            "The agent wrote a credential that it was given into the repository, so its changes "
            "were not kept."
        )
        raise StepFailed(subject_line, code="secret_in_change")
    return since_base(context, start, left_out=left_out)


def _holds(text: str, secrets: Sequence[str]) -> bool:
    """Whether one of the secrets stands in a text, also encoded."""
    return any(form.text in text for secret in secrets for form in secret_encodings.forms(secret))


def since_base(context: Context, start: str, *, left_out: Sequence[str] = ()) -> Changes:
    """The branch's changes since its base; its commits since `start`."""
    workspace = context.workspace
    base = workspace.base()
    made = showable(workspace.git("log", "--format=%s", "--reverse", f"{start}..HEAD")).split("\n")[
        :-1
    ]
    numbers = read_numstat(workspace.git("diff", *PLAINLY, "--numstat", "-z", base, "HEAD"))
    patch = cut_patch(showable(workspace.git("diff", *PLAINLY, base, "HEAD")))
    return Changes(
        commits=made, numbers=numbers, patch=patch, left_out=left_out, branch=context.order.branch
    )


def count(workspace: Workspace) -> int:
    """Commits of the order's branch since its base."""
    return int(workspace.git("rev-list", "--count", f"{workspace.base()}..HEAD"))


def _settle(context: Context, start: str) -> None:
    workspace, ref = context.workspace, f"refs/heads/{context.order.branch}"
    try:
        head = workspace.head()
        lost = bool(workspace.git("rev-list", "--max-count=1", start, f"^{head}").strip())
    except StepFailed as error:
        if error.code != "git_failed":
            raise
        head, lost = start, True  # it is at a branch that has no commit
    workspace.git("update-ref", ref, start if lost else head)
    workspace.git("symbolic-ref", "HEAD", ref)
