"""Runs git and other programs in a stranger's repository: locked, bounded, in an environment of our
own.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runs.git.access import Access, environment, write_askpass
from runs.git.folder_lock import FolderBusy, FolderLock
from runs.git.hardening import ATTRIBUTES, git_environment, program_environment, write_settings
from runs.processes import process
from runs.processes.sandbox import before
from runs.workflows.base import StepFailed

GRACE_SECONDS = 1.5
"""What a program that is followed gets to end by itself; less than
`runs.engine.time_limit.GRACE`.
"""
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, kw_only=True)
class WorkspaceLimits:
    """Seconds and bytes that a workspace may use."""

    command_seconds: float = 900
    git_seconds: float = 300
    clone_seconds: float = 900
    lock_seconds: float = 900
    output_bytes: int = 64 * 2**20
    clone_bytes: int = 2 * 2**30
    folder_bytes: int = 0
    """What a workspace may grow to while programs work in it, all that lies beside it included; 0
    for any size.
    """


LOOK_SECONDS = 5.0
"""Between two looks at how large a folder has become."""
BESIDE = ("home", "tmp", "new", "old")
"""Folders that lie beside a work tree or a mirror."""
NOTES = ("config", "gitconfig", "bundle", "askpass", "group")
"""Files that lie beside it, but for the lock."""
ALTERNATES = "objects/info/alternates"
"""git's file that names whose objects it may read."""


class RepositoryFolder:
    """The folder `path` and what lies beside it as `path.*`; every use takes the folder's lock
    first.

    A command that speaks to `url`, the origin, gets `access` in its environment; no other process
    does.
    """

    def __init__(
        self,
        path: Path,
        *,
        limits: WorkspaceLimits,
        check: Callable[[], None],
        settings: Mapping[str, str],
        author: tuple[str, str],
        search_path: str,
        url: str = "",
        access: Callable[[], Access | None] = lambda: None,
        lender: Path | None = None,
        sandbox: Sequence[str] = (),
    ) -> None:
        """
        Args:
            lender: the one repository whose objects count as this one's (git's alternates).
            sandbox: what stands before programs that are followed (`runs.processes.sandbox`).
        """
        self.path, self._lender, self._sandbox = path, lender, sandbox
        self._url, self._access = url, access
        self._limits, self._check, self._settings = limits, check, settings
        self.lock = FolderLock(self.beside("lock"), self.beside("group"))
        self._environment = program_environment(
            home=self.beside("home"), temporary=self.beside("tmp"), search_path=search_path
        )
        without_home = self._environment | {"HOME": os.devnull}
        self._git_environment = git_environment(
            without_home, file=self.beside("gitconfig"), settings=settings, author=author
        )

    def beside(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{name}")

    def program(self, arguments: Sequence[str], seconds: float | None) -> process.Finished:
        """Run a program that is not git, in the work tree."""
        self._prepare()
        done = self._run(
            arguments,
            self._environment,
            seconds or self._limits.command_seconds,
            check=self._bounded(),
        )
        self._check_size()
        return done

    def follow(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdin: bytes,
        seconds: float | None,
        max_output: int | None,
        said: Callable[[str, bytes], None],
    ) -> int:
        """As `program`, with more in its environment, behind the sandbox, line by line, and ended
        with all that it started.

        Gives its exit code.
        """
        self._prepare()
        arguments = [*before(self._sandbox, self._places), *arguments]
        program = shutil.which(arguments[0], path=self._environment["PATH"])
        if program is None and not (self.path / arguments[0]).is_file():
            raise StepFailed(
                f"{arguments[0]} is not installed where this worker looks for programs.",
                code="program_missing",
            )
        known = {
            name: value for name, value in environment.items() if name not in self._environment
        }
        changes = {
            "said": said,
            "grace": GRACE_SECONDS,
            "max_output": max_output or self._limits.output_bytes,
        }
        seconds = seconds or self._limits.command_seconds
        environment = {**known, **self._environment}
        done = self._run(
            arguments, environment, seconds, check=self._bounded(), stdin=stdin, changes=changes
        )
        self._check_size()
        return done.returncode

    @property
    def _places(self) -> dict[str, Path]:
        """What a sandbox may name, see there."""
        mirror = self._lender or self.beside("mirror")
        return {
            "workspace": self.path,
            "home": self.beside("home"),
            "tmp": self.beside("tmp"),
            "mirror": mirror,
        }

    def scratch(self, name: str, content: bytes) -> Path:
        """A file outside the work tree that programs may read."""
        self._prepare()
        file = self.beside("tmp") / name
        file.unlink(missing_ok=True)  # it may have become a link to elsewhere
        file.write_bytes(content)
        return file

    def read_home(self, pattern: str, *, most: int) -> bytes:
        """See `runs.workflows.base.Workspace.read_home`."""
        self._prepare()
        home = self.beside("home").resolve()
        files = {
            path: path.stat()
            for path in home.glob(pattern)
            # what a link leads to is not the program's to show
            if path.resolve() == path and path.is_file()
        }
        newest = max(files, key=lambda path: files[path].st_mtime_ns, default=None)
        if newest is None or files[newest].st_size > most:
            return b""
        return newest.read_bytes()

    def write_home(self, name: str, content: bytes) -> Path:
        """Write a file in the home folder, wherever links there may lead."""
        self._prepare()
        folder, file = self.beside("home"), self.beside("home") / name
        for parent in [folder / part for part in reversed(Path(name).parents)][1:]:
            if parent.is_symlink() or (parent.exists() and not parent.is_dir()):
                parent.unlink()
            parent.mkdir(exist_ok=True)
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        file.unlink(missing_ok=True)
        file.write_bytes(content)
        return file

    def _prepare(self) -> None:
        self.hold()
        if not self.path.is_dir():
            raise StepFailed("The workspace is not there; restore it first.", code="no_workspace")
        for folder in (self.beside("home"), self.beside("tmp")):
            if folder.is_symlink():
                folder.unlink()
            folder.mkdir(exist_ok=True)

    def git(
        self,
        *arguments: str,
        fine: Sequence[int] | None = (0,),
        stdin: bytes = b"",
        remote: bool = False,
    ) -> process.Finished:
        """Run git; an exit code that is not `fine` fails the step (None: all are).

        With `remote` it speaks to the origin.
        """
        self.hold()
        self.pin()
        done = self._run(
            ["git", *arguments], self._for_git(remote), self._limits.git_seconds, stdin=stdin
        )
        if fine is not None and done.returncode not in fine:
            raise StepFailed(
                f"git {arguments[0]} failed: {self.said(done.errors)}", code="git_failed"
            )
        return done

    def filling_git(
        self,
        *arguments: str,
        watched: Path,
        cwd: Path | None = None,
        code: str = "git_failed",
        remote: bool = False,
    ) -> None:
        """Run a git command that fills the disk, and end it when `watched` grows over the limit."""

        def check() -> None:
            self._check()
            if size(watched) > self._limits.clone_bytes:
                message = (
                    f"The repository is larger than the {self._limits.clone_bytes:,} bytes "
                    "allowed here."
                )
                raise StepFailed(message, code="clone_too_large")

        done = self._run(
            ["git", *arguments],
            self._for_git(remote),
            self._limits.clone_seconds,
            check=check,
            cwd=cwd,
        )
        check()
        if done.returncode:
            raise StepFailed(f"git {arguments[0]} failed: {self.said(done.errors)}", code=code)

    def plain_git(self, *arguments: str, cwd: Path) -> str:
        """Run git in a fresh clone that is not in its place yet; "" when it fails."""
        done = self._run(
            ["git", *arguments], self._git_environment, self._limits.git_seconds, cwd=cwd
        )
        return "" if done.returncode else os.fsdecode(done.output).strip()

    def said(self, output: bytes) -> str:
        """The end of what git said, as one line without credentials."""
        access = self._access()
        return last_lines(output.replace(access.token.encode(), b"...") if access else output)

    def remove(self) -> None:
        """Delete the folder and everything beside it."""
        self.hold()
        drop(self.path)
        self.lock.drop()

    def _for_git(self, remote: bool) -> dict[str, str]:
        access = self._access() if remote else None
        if access is None:
            return self._git_environment
        write_askpass(self.beside("askpass"))
        return {
            **self._git_environment,
            **environment(access, self._url, askpass=self.beside("askpass")),
        }

    def _bounded(self) -> Callable[[], None]:
        """A check that also looks at the size, which takes long in large folders and so is done
        rarely.
        """
        looked = time.monotonic()

        def check() -> None:
            nonlocal looked
            self._check()
            if time.monotonic() - looked > LOOK_SECONDS:
                self._check_size()
                looked = time.monotonic()

        return check

    def _check_size(self) -> None:
        limit = self._limits.folder_bytes
        if (
            limit
            and sum(size(folder) for folder in (self.path, *(self.beside(name) for name in BESIDE)))
            > limit
        ):
            raise StepFailed(
                f"The workspace has grown over the {limit:,} bytes that an order may use.",
                code="disk_quota",
            )

    def _run(
        self,
        arguments: Sequence[str],
        environment: dict[str, str],
        seconds: float,
        *,
        check: Callable[[], None] | None = None,
        stdin: bytes = b"",
        cwd: Path | None = None,
        changes: Mapping[str, Any] = MappingProxyType({}),
    ) -> process.Finished:
        bounds = process.Bounds(
            seconds=seconds,
            max_output=self._limits.output_bytes,
            check=check or self._check,
            started=self.lock.note_group,
        )
        bounds = replace(bounds, **changes)
        try:
            return process.run(
                arguments, cwd=cwd or self.path, env=environment, bounds=bounds, stdin=stdin
            )
        except process.ProgramMissing as error:
            raise StepFailed(f"{error}.", code="program_missing") from None
        except process.ProcessTimeIsUp as error:
            raise StepFailed(f"{arguments[0]} was ended: {error}.", code="timeout") from None
        except process.TooMuchOutput as error:
            raise StepFailed(f"{arguments[0]} was ended: {error}.", code="output_limit") from None

    def hold(self) -> None:
        try:
            if self.lock.take(seconds=self._limits.lock_seconds, check=self._check):
                write_settings(self.beside("gitconfig"), self._settings)
        except FolderBusy:
            raise StepFailed(
                "Another worker holds this order's workspace. Retry in a while.",
                code="workspace_busy",
            ) from None

    def pin(self) -> None:
        """Put back what decides which programs git runs, in case a command in the work tree changed
        it.
        """
        git_dir = self.path / ".git"
        if git_dir.is_symlink() or not git_dir.is_dir() or not self.beside("config").is_file():
            raise StepFailed("The workspace is damaged; restore it first.", code="no_workspace")
        # we would write where they lead
        if any((git_dir / name).is_symlink() for name in ("objects", "objects/info", "info")):
            raise StepFailed("The workspace is damaged; restore it first.", code="no_workspace")
        for name in ("config.worktree", "commondir", "info/grafts"):
            (git_dir / name).unlink(missing_ok=True)
        _put(git_dir / "config", self.beside("config").read_bytes())
        _put(git_dir / "info" / "attributes", ATTRIBUTES)
        if self._lender is None:
            (git_dir / ALTERNATES).unlink(missing_ok=True)
        else:
            _put(git_dir / ALTERNATES, os.fsencode(self._lender / ".git" / "objects") + b"\n")


def _put(file: Path, wanted: bytes) -> None:
    if file.is_symlink() or not file.is_file() or file.read_bytes() != wanted:
        file.unlink(missing_ok=True)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(wanted)


def drop(path: Path) -> None:
    """Delete a folder and all that lies beside it, but for the lock, which the caller holds.

    Killed in between, it is done again.
    """
    for folder in (path, *(path.with_name(f"{path.name}.{name}") for name in BESIDE)):
        shutil.rmtree(folder) if folder.is_dir() and not folder.is_symlink() else folder.unlink(
            missing_ok=True
        )
    for name in NOTES:
        path.with_name(f"{path.name}.{name}").unlink(missing_ok=True)


def last_lines(output: bytes, lines: int = 3) -> str:
    """The end of what git said, as one line without credentials."""
    text = _CREDENTIALS.sub("", output.decode(errors="replace"))
    shown = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.startswith(("hint:", "Done"))
    ]
    return " / ".join(shown[-lines:])[:600].rstrip(".") + "."


def size(folder: Path) -> int:
    """Bytes of the files in a folder; links count as themselves, and a folder that is not there as
    nothing.
    """
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # files come and go while git works
                total += os.lstat(os.path.join(parent, name)).st_size
    return total
