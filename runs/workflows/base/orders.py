"""What was asked for, and what may leave with the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class DeliveryPolicy:
    """What may leave with an order's work, as its repository's settings say: frozen with the order,
    and never more than they say now.
    """

    push: Literal["never", "asked", "branch"] = "asked"
    """Whether the branch is pushed: not at all, where the order asks for it, or always."""
    pull_request: Literal["never", "draft", "ready"] = "never"
    """Whether one is opened for it, and as what."""
    base_branch: str = ""
    """Where the order's branch begins and its pull request leads; "" for the repository's default
    branch.
    """

    def pushes(self, *, asked: bool) -> bool:
        """Whether the branch is pushed for an order that asked for it, or did not."""
        return self.push == "branch" or (self.push == "asked" and asked)


@dataclass(frozen=True, kw_only=True)
class PullRequestDraft:
    """A pull request as it should be: what a forge is asked for."""

    branch: str
    base: str
    """"" for the repository's default branch."""
    title: str
    body: str
    """Markdown."""
    draft: bool = False


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """A pull request, or merge request, that is open at a forge."""

    number: int
    url: str
    """Where people see it."""
    opened: bool
    """Whether it was opened just now; else it was there, and has the wanted title and body now."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What was asked for, frozen when it was asked.

    A run on a thread without a work order gets one made of that thread.
    """

    id: str
    """Shown id, `wo_…`; `thr_…` where there is no work order."""
    title: str
    request: str
    """What was asked for, in words."""
    input: Mapping[str, Any]
    """Checked against the template's input schema."""
    repository_url: str
    """An absolute local path or a remote URL, checked when the order was made; "" for workflows
    without code.
    """
    branch: str
    """`waystation/<id>`; a child run works on a branch of its own, `waystation/<id>-<run id>`."""
    check_command: Sequence[str] = ()
    """The repository's own check, an argument list that an operator wrote; empty when there is
    none.
    """
    user_id: int | None = None
    """Who asked for this run."""
    for_user: str = ""
    """Whom the thread is held with, as the program that opened it calls them; "" for nobody."""
    session: str = ""
    """The session that the program named with them."""
    author: str = "Waystation <waystation@localhost>"
    """Git author and committer of the run's commits, `Name <mail>`."""
    page: str = ""
    """Where people see it."""
    delivery: DeliveryPolicy = DeliveryPolicy()
