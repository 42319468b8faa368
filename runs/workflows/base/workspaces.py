"""The folder that a step works in: code, commits, and the commands that run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Commit:
    """The code's state after a step, so that any worker can restore it.

    `bundle` is a git bundle of `base..sha` (empty where the two are equal): with the repository at
    `base` it is all that is needed.
    """

    sha: str
    base: str
    """The commit that the order's branch began at."""
    bundle: bytes = b""
    commits: int | None = None
    """How many commits `base..sha` holds; None where nobody counted."""


class Code(Protocol):
    """Which commit it is, and the one that the order's branch began at; a `Commit` is one."""

    @property
    def sha(self) -> str: ...

    @property
    def base(self) -> str: ...


class Workspace(Protocol):
    """A git work tree of one order.

    Every method raises `StepFailed` with a sentence for the person, and honours `Context.check`.
    """

    path: Path

    @property
    def at(self) -> Code | None:
        """The checkpoint's commit, which `restore` goes to; None where no checkpoint has one yet.

        Asks no git.
        """

    def restore(self) -> None:
        """Make `path` a clean work tree of the order's branch at the checkpoint's commit, cloning
        when it is not there.
        """

    def run(self, arguments: Sequence[str], *, timeout: float | None = None) -> Completed:
        """Run a program in the work tree: no shell, own process group, killed with its children at
        the time or output limit.
        """

    def follow(
        self,
        arguments: Sequence[str],
        said: Callable[[str, str], None],
        *,
        environment: Mapping[str, str] = ...,
        pass_on: Sequence[str] = ...,
        stdin: str = ...,
        timeout: float | None = ...,
        max_output: int | None = ...,
    ) -> int:
        """Run a program in the work tree and hear it line by line; gives its exit code, 128 and
        more for a signal.

        When it ends, or is ended, all that it started ends with it, also what left its process
        group: SIGTERM first, soon SIGKILL.

        Args:
            said: called with "output" or "errors" and a line without its end; what it raises ends
                the program.
            environment: joins the little that programs are given.
            pass_on: names of variables of the worker's own environment; those that operators allow
                are given too.
            max_output: bytes of both outputs together; more ends the program (`output_limit`).
        """

    def scratch(self, name: str, text: str) -> Path:
        """Write a file that programs may read and that is not in the work tree."""

    def read_home(self, pattern: str, *, most: int) -> str:
        """The newest file of the order's home folder whose path fits a pattern such as
        `.agent/*.json`; "" where there is none, or it is larger than `most` bytes.

        Programs write there what they like: a link is no file.
        """

    def write_home(self, name: str, text: str) -> Path:
        """Write a file of the order's home folder, which programs see as `HOME`."""

    def git(self, *arguments: str) -> str:
        """Run git in the work tree and give its output; the repository's own hooks and
        configuration are never executed.
        """

    def head(self) -> str:
        """The commit the work tree is at."""

    def base(self) -> str:
        """The commit the order's branch began at."""

    def reset(self, sha: str) -> None:
        """Put branch and work tree back to `sha`."""

    def commit(self, message: str, paths: Sequence[str]) -> str:
        """Commit just `paths`, with the order's author, and give the new commit."""

    def snapshot(self) -> Commit:
        """The present commit with the bundle that restores it."""

    def push(self) -> None:
        """Push the order's branch to the origin. Pushing the same commit again changes nothing.

        Raises StepFailed: `push_rejected`, `forge_refused` where the origin does not let us,
        `forge_away`, `forge_limit`.
        """


@dataclass(frozen=True, kw_only=True)
class Completed:
    """A program that ended.

    `output` is stdout, `errors` stderr, both decoded and cut at the output limit.
    """

    returncode: int
    output: str
    errors: str
