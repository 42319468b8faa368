"""The git work tree of one order on this machine: cloned, restored to a checkpoint, committed to,
pushed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Self

from runs.git import room
from runs.git.access import Access
from runs.git.hardening import SETTINGS
from runs.git.mirror import HEAD, Mirror
from runs.git.repository import RepositoryFolder
from runs.git.repository import WorkspaceLimits as WorkspaceLimits
from runs.workflows.base import Commit, Completed, Order, StepFailed

_BASE = "refs/waystation/base"
# the other repository's hooks are not ours to run
_LOCAL_SIDE = "git -c core.hooksPath=/dev/null -c core.fsmonitor=false"


@dataclass(frozen=True, kw_only=True)
class Saved:
    """The commit that a checkpoint recorded, and where to get the bundle that makes it from
    `base`.
    """

    sha: str
    base: str
    read_bundle: Callable[[], bytes]


class GitWorkspace:
    """Implements `runs.workflows.base.Workspace` in the folder `path`; what it needs besides lies
    next to it as `path.*`.

    Only one process at a time works in a folder: the first use takes a lock, `close` or the
    process's end frees it. Use it as a context manager.
    """

    def __init__(
        self,
        path: Path,
        order: Order,
        *,
        at: Saved | None,
        check: Callable[[], None],
        limits: WorkspaceLimits | None = None,
        protocols: Sequence[str] = ("https", "ssh"),
        git_settings: Mapping[str, str] | None = None,
        search_path: str = os.environ.get("PATH", os.defpath),
        passed_on: Callable[[], Mapping[str, str]] = dict,
        sandbox: Sequence[str] = (),
        mirror: Path | None = None,
        access: Callable[[], Access | None] = lambda: None,
        make_room: Callable[[], None] = lambda: None,
        umask_outside: int = 0o022,
        let_out: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            passed_on: gives what of this process's environment programs may be given that ask for
                it by name (`follow`).
            sandbox: what stands before a program that is followed: see `runs.processes.sandbox`.
            at: None for an order that has no commit in a checkpoint yet; it begins at the origin's
                base branch.
            git_settings: the operator's own, over ours: `{"core.sshCommand": …,
                "credential.helper": …, "http.proxy": …}`.
            mirror: where this machine keeps its copy of a remote origin; None clones from the
                origin itself.
            access: asked right before git speaks to the origin.
            make_room: called before a clone; raises StepFailed where there is no room for one.
            let_out: asked before a push; raises StepFailed where nothing may leave.
            umask_outside: of what a push writes into a local origin, which others than Waystation
                read.
        """
        self.path = path
        self._mirror_path, self._access, self._make_room = mirror, access, make_room
        self._order, self.at, self._check, self._limits = (
            order,
            at,
            check,
            limits or WorkspaceLimits(),
        )
        self._protocols, self._git_settings, self._search_path = (
            protocols,
            git_settings or {},
            search_path,
        )
        self._passed_on, self._sandbox = passed_on, sandbox
        self._umask_outside, self._let_out = umask_outside, let_out

    @cached_property
    def _repository(self) -> RepositoryFolder:
        """Made at the first use: most steps touch no file, and each is handed a workspace."""
        return self._at_path(self.path, lender=None if self._is_local else self._mirror_path)

    @cached_property
    def _mirror(self) -> Mirror | None:
        if self._mirror_path is None or self._is_local:
            return None
        return Mirror(self._at_path(self._mirror_path), self._order.repository_url)

    def _at_path(self, path: Path, *, lender: Path | None = None) -> RepositoryFolder:
        # file: local origins and bundles
        allowed = {f"protocol.{name}.allow": "always" for name in ("file", *self._protocols)}
        return RepositoryFolder(
            path,
            limits=self._limits,
            check=self._check,
            settings={**SETTINGS, **allowed, **self._git_settings},
            author=_author(self._order.author),
            search_path=self._search_path,
            url=self._order.repository_url,
            access=self._access,
            lender=lender,
            sandbox=self._sandbox,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the folder for another worker. The next use takes it again."""
        if "_repository" in self.__dict__:
            self._repository.lock.free()

    def remove(self) -> None:
        """Delete the folder and everything beside it, for an order that will not go on here."""
        self._repository.remove()

    # The work tree

    @room.asked_for()
    def restore(self) -> None:
        self._repository.hold()
        if self._is_healthy():
            try:
                return self._go_to_checkpoint()
            except StepFailed as error:
                # else: damage that only showed now, a fresh clone mends it
                if error.code != "git_failed":
                    raise
        self._clone()
        try:
            self._go_to_checkpoint()
        except StepFailed as error:
            if error.code != "git_failed" or self._mirror is None or not self._mirror.mend():
                raise
            self._clone()  # what it had borrowed was damaged
            self._go_to_checkpoint()

    def _go_to_checkpoint(self) -> None:
        base = self.at.base if self.at else self.base()
        self._need_base(base)
        if self.at and not self._has(self.at.sha):
            self._fetch_bundle(self.at)
        self.git("update-ref", _BASE, base)
        self.reset(self.at.sha if self.at else base)

    def reset(self, sha: str) -> None:
        self._repository.pin()
        self._repository.filling_git(
            "checkout", "-q", "--force", "-B", self._order.branch, sha, "--", watched=self.path
        )
        self.git("reset", "-q", "--hard", sha)
        self.git("clean", "-q", "-ffdx")

    def head(self) -> str:
        return self.git("rev-parse", "--verify", "HEAD^{commit}").strip()

    def base(self) -> str:
        return self.at.base if self.at else self.git("rev-parse", "--verify", _BASE).strip()

    def commit(self, message: str, paths: Sequence[str]) -> str:
        """Where nothing of `paths` has changed, no commit is made and the present one is given."""
        listed = b"\0".join(os.fsencode(path) for path in paths)
        self.git("reset", "-q")
        if paths:
            self._repository.git(
                "add", "-A", "-f", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=listed
            )
        if self._repository.git(
            "diff", "--cached", "--quiet", "--no-ext-diff", fine=(0, 1)
        ).returncode:
            self._repository.git(
                "commit",
                "-q",
                "--no-verify",
                "--no-gpg-sign",
                "--cleanup=verbatim",
                "-F",
                "-",
                stdin=message.encode(),
            )
        return self.head()

    def snapshot(self) -> Commit:
        sha, base = self.head(), self.base()
        if sha == base:
            return Commit(sha=sha, base=base, commits=0)
        bundle = self._repository.git("bundle", "create", "-q", "-", f"{base}..{self._ref}").output
        return Commit(
            sha=sha,
            base=base,
            bundle=bundle,
            commits=int(self.git("rev-list", "--count", f"{base}..{sha}")),
        )

    def push(self) -> None:
        self._let_out()
        # git hands this to a shell
        receive = f"umask {self._umask_outside:03o} && {_LOCAL_SIDE} receive-pack"
        options = [f"--receive-pack={receive}"] if self._is_local else []
        wanted = [
            "push",
            "--porcelain",
            "--no-verify",
            *options,
            "origin",
            f"{self._ref}:{self._ref}",
        ]
        answer = self._repository.git(*wanted, fine=None, remote=True)
        if answer.returncode:
            raise _not_pushed(
                self._order.branch,
                answer.returncode,
                self._repository.said(answer.output + b"\n" + answer.errors),
            )

    # Programs

    def run(self, arguments: Sequence[str], *, timeout: float | None = None) -> Completed:
        done = self._repository.program(arguments, timeout)
        return Completed(
            returncode=done.returncode,
            output=done.output.decode(errors="replace"),
            errors=done.errors.decode(errors="replace"),
        )

    def follow(
        self,
        arguments: Sequence[str],
        said: Callable[[str, str], None],
        *,
        environment: Mapping[str, str] = MappingProxyType({}),
        pass_on: Sequence[str] = (),
        stdin: str = "",
        timeout: float | None = None,
        max_output: int | None = None,
    ) -> int:
        offered = self._passed_on() if pass_on else {}
        passed = {name: offered[name] for name in pass_on if name in offered}
        return self._repository.follow(
            arguments,
            environment={**passed, **environment},
            stdin=stdin.encode(errors="replace"),
            seconds=timeout,
            max_output=max_output,
            said=lambda name, line: said(name, line.decode(errors="replace")),
        )

    def scratch(self, name: str, text: str) -> Path:
        return self._repository.scratch(name, text.encode(errors="replace"))

    def read_home(self, pattern: str, *, most: int) -> str:
        return self._repository.read_home(pattern, most=most).decode(errors="replace")

    def write_home(self, name: str, text: str) -> Path:
        return self._repository.write_home(name, text.encode(errors="replace"))

    def git(self, *arguments: str) -> str:
        """Bytes that are no UTF-8 (file names, old sources) come as lone surrogates, `os.fsencode`
        gives them back.
        """
        return os.fsdecode(self._repository.git(*arguments).output)

    # Inside

    @property
    def _ref(self) -> str:
        return f"refs/heads/{self._order.branch}"

    @property
    def _is_local(self) -> bool:
        return self._order.repository_url.startswith("/")

    def _is_healthy(self) -> bool:
        try:
            if (
                self.git("config", "--get", "remote.origin.url").strip()
                != self._order.repository_url
            ):
                return False
            # of a killed git: we hold the folder's lock
            (self.path / ".git" / "index.lock").unlink(missing_ok=True)
            self.git("status", "--porcelain")
            return self._has(_BASE)
        except (StepFailed, OSError):
            return False

    def _clone(self) -> None:
        """Clone beside the folder and put the clone in its place at once, so that no worker ever
        sees half of one.
        """
        self._make_room()
        new = self._repository.beside("new")
        for folder in (new, self.path):
            shutil.rmtree(folder) if folder.is_dir() and not folder.is_symlink() else folder.unlink(
                missing_ok=True
            )
        mirror = self._mirror_with_base()
        try:
            first = self._cloned(new, mirror)
        except StepFailed as error:
            if (
                mirror is None
                or error.code not in {"clone_failed", "empty_repository"}
                or not mirror.mend()
            ):
                raise
            shutil.rmtree(new, ignore_errors=True)
            first = self._cloned(new, mirror)
        self._repository.plain_git("update-ref", _BASE, first, cwd=new)
        shutil.copyfile(new / ".git" / "config", self._repository.beside("config"))
        if mirror:
            mirror.keep(self._order.id, self.at.base if self.at else first)
        new.rename(self.path)

    def _cloned(self, new: Path, mirror: Mirror | None) -> str:
        """Clone into a new folder, and give the commit to begin at."""
        source = str(mirror.path) if mirror else self._order.repository_url
        upload = [f"--upload-pack={_LOCAL_SIDE} upload-pack"] if mirror or self._is_local else []
        # a mirror lends its objects and loses none (`mirror`); a local origin may be changed or
        # removed, so all of it is copied
        sharing = "--shared" if mirror else "--no-local"
        options = [
            "--quiet",
            "--no-checkout",
            sharing,
            "--no-tags",
            "--no-recurse-submodules",
            "--template=",
            *upload,
        ]
        self._repository.filling_git(
            "clone",
            *options,
            "--",
            source,
            str(new),
            watched=new,
            cwd=self.path.parent,
            code="clone_failed",
            remote=mirror is None,
        )
        if mirror:
            self._repository.plain_git(
                "fetch", "-q", "--no-tags", *upload, source, f"+{HEAD}:{HEAD}", cwd=new
            )
            self._repository.plain_git(
                "remote", "set-url", "origin", self._order.repository_url, cwd=new
            )
        return self._first_commit(new, mirrored=mirror is not None)

    def _mirror_with_base(self) -> Mirror | None:
        """The mirror, brought up to date for an order that begins; one that is restored needs its
        base alone, and maybe no origin.
        """
        mirror = self._mirror
        if mirror is not None and not (self.at and mirror.has(self.at.base)):
            mirror.refresh()
        return mirror

    def _first_commit(self, clone: Path, *, mirrored: bool) -> str:
        """The commit that an order begins at: the tip of its base branch, or of the origin's
        default branch.
        """
        # one that is restored has begun: the branch may be gone by now
        wanted = "" if self.at else self._order.delivery.base_branch
        name = f"refs/remotes/origin/{wanted}" if wanted else HEAD if mirrored else "HEAD"
        first = self._repository.plain_git(
            "rev-parse", "--verify", "-q", f"{name}^{{commit}}", cwd=clone
        )
        if not first and wanted:
            raise StepFailed(
                f"The repository has no branch {wanted}, which its settings name as the base.",
                code="no_base_branch",
            )
        if not first:
            raise StepFailed(
                "The repository's default branch has no commit yet, so there is nothing to "
                "work on.",
                code="empty_repository",
            )
        return first

    def _has(self, name: str) -> bool:
        return not self._repository.git(
            "cat-file", "-e", f"{name}^{{commit}}", fine=None
        ).returncode

    def _need_base(self, base: str) -> None:
        if not self._has(base):
            # it may have left every branch and still be there
            self._repository.git("fetch", "-q", "--no-tags", "origin", base, fine=None, remote=True)
        if not self._has(base):
            raise StepFailed(
                f"The commit {base[:10]} this order began at is no longer in the repository, so "
                "its work cannot be restored."
                " Order it again on the present code.",
                code="base_lost",
            )

    def _fetch_bundle(self, at: Saved) -> None:
        bundle = self._repository.beside("bundle")
        try:
            bundle.write_bytes(at.read_bundle())
            self._repository.git(
                "fetch",
                "-q",
                "--no-tags",
                str(bundle),
                f"+{self._ref}:refs/waystation/saved",
                fine=None,
            )
        finally:
            bundle.unlink(missing_ok=True)
        if not self._has(at.sha):
            raise StepFailed(
                f"The checkpoint's bundle does not hold its commit {at.sha[:10]}.",
                code="bundle_damaged",
            )


def _not_pushed(branch: str, returncode: int, said: str) -> StepFailed:
    """What git's end means: 1 where the origin refused the branch, 128 where it came to no answer
    about it.
    """
    kept = "The commits are kept in this run"
    if returncode == 1:
        return StepFailed(
            f"The origin did not take the branch {branch}: {said} {kept}; put the origin "
            "right and retry, or take the patch.",
            code="push_rejected",
        )
    if re.search(r"returned error: 429", said):
        return StepFailed(
            f"The origin is asked too much at the moment: {said} {kept}. Retry later.",
            code="forge_limit",
            after=60.0,
        )
    if re.search(
        r"Authentication failed|could not read (Username|Password)|Permission "
        r"denied|returned error: 40[0-9]|not found",
        said,
    ):
        return StepFailed(
            f"The origin does not let us push {branch}: {said} {kept}; check the "
            "repository's credential, then retry.",
            code="forge_refused",
        )
    return StepFailed(
        f"The origin could not be reached to push {branch}: {said} {kept}. Retry later.",
        code="forge_away",
    )


def _author(text: str) -> tuple[str, str]:
    name, _, mail = text.rpartition("<")
    return name.strip() or "Waystation", mail.strip().rstrip(">") or "waystation@localhost"
