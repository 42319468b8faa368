"""Our copy of a remote repository on this machine: fetched into, read by every workspace on it, and
no work tree's git writes to it.

A workspace has configuration, refs and new objects of its own, and borrows the objects that are
here (git's alternates). Work trees of the mirror itself (`git worktree`) would share configuration,
hooks and refs too: what runs in one order's tree could then change what another order's git runs.

Because it is borrowed from, objects are only ever added: it is never repacked or pruned, what an
order began at has a ref, and a new one takes the place of a damaged one at once, when it is whole.
It goes when no workspace is left on this machine that borrows (`runs.git.housekeeping`).
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from runs.git.repository import RepositoryFolder
from runs.workflows.base import StepFailed

HEAD = "refs/waystation/head"
"""The origin's default branch, as it was last seen."""
_KEPT = "refs/waystation/kept"
_FETCHED = (f"+HEAD:{HEAD}", "+refs/heads/*:refs/heads/*")
_MANY_PACKS = 20
"""Each fetch adds one; after every so many git gets one index over all."""


class Mirror:
    """The bare repository in `path/.git`."""

    def __init__(self, repository: RepositoryFolder, url: str) -> None:
        self.path, self._repository, self._url = repository.path, repository, url

    def refresh(self) -> None:
        """Fetch what the origin has by now.

        Raises StepFailed: `clone_failed`, `clone_too_large`, `empty_repository`.
        """
        self._repository.hold()
        try:
            if not self._is_healthy():
                return self._renew()
            try:
                self._fetch()
            except StepFailed as error:
                if error.code != "clone_failed" or self._is_sound():
                    raise
                self._renew()
        finally:
            self._repository.lock.free()

    def mend(self) -> bool:
        """Make it from nothing if it is damaged; whether it was.

        Reads every object. Raises as `refresh`.
        """
        self._repository.hold()
        try:
            if (
                self._is_healthy()
                and not self._repository.git("fsck", "--no-dangling", fine=None).returncode
            ):
                return False
            self._renew()
            return True
        finally:
            self._repository.lock.free()

    def has(self, sha: str) -> bool:
        """Whether it has that commit, without a look at the origin."""
        if not (self.path / ".git").is_dir():
            return False
        self._repository.hold()
        try:
            return (
                self._is_healthy()
                and not self._repository.git(
                    "cat-file", "-e", f"{sha}^{{commit}}", fine=None
                ).returncode
            )
        finally:
            self._repository.lock.free()

    def keep(self, name: str, sha: str) -> None:
        """Keep the commit that an order began at, also when the origin forgets it."""
        self._repository.hold()
        try:
            self._repository.git("update-ref", f"{_KEPT}/{name}", sha, fine=None)
        finally:
            self._repository.lock.free()

    def _is_healthy(self) -> bool:
        try:
            return (
                self._repository.git("config", "--get", "remote.origin.url").output.decode().strip()
                == self._url
            )
        except StepFailed:
            return False

    def _is_sound(self) -> bool:
        return not self._repository.git(
            "fsck", "--connectivity-only", "--no-dangling", fine=None
        ).returncode

    def _renew(self) -> None:
        """Make a whole one beside it and put that in its place at once: workspaces read from the
        old one until then.
        """
        new, old = self._repository.beside("new"), self._repository.beside("old")
        if not self.path.exists() and old.exists():  # a worker was killed between the two moves
            old.rename(self.path)
        for folder in (new, old):
            shutil.rmtree(folder, ignore_errors=True)
        self._make(new)
        self._fetch_into(new)
        if (self.path / ".git").is_dir():  # as far as that can still be read
            self._repository.plain_git(
                "fetch",
                "-q",
                "--no-tags",
                str(self.path / ".git"),
                f"+{_KEPT}/*:{_KEPT}/*",
                cwd=new,
            )
        shutil.copyfile(new / ".git" / "config", self._repository.beside("config"))
        with suppress(FileNotFoundError):
            self.path.rename(old)
        new.rename(self.path)
        shutil.rmtree(old, ignore_errors=True)

    def _make(self, new: Path) -> None:
        new.mkdir(parents=True)
        for arguments in (
            ["init", "-q", "--template="],
            ["config", "core.bare", "true"],
            ["config", "remote.origin.url", self._url],
        ):
            self._repository.plain_git(*arguments, cwd=new)

    def _fetch(self) -> None:
        self._repository.pin()
        self._fetch_into(self.path)
        if len(list((self.path / ".git" / "objects" / "pack").glob("*.pack"))) % _MANY_PACKS == 0:
            self._repository.git("multi-pack-index", "write", fine=None)

    def _fetch_into(self, folder: Path) -> None:
        options = [
            "--quiet",
            "--prune",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
        ]
        fetch = ["-c", "fetch.unpackLimit=1", "fetch", *options, "origin", *_FETCHED]
        try:
            self._repository.filling_git(
                *fetch, watched=folder, cwd=folder, code="clone_failed", remote=True
            )
        except StepFailed as error:
            if "remote ref HEAD" in str(error):
                raise _empty() from None
            if error.code == "clone_too_large" and folder != self.path:
                shutil.rmtree(folder)
            raise


def _empty() -> StepFailed:
    return StepFailed(
        "The repository's default branch has no commit yet, so there is nothing to work on.",
        code="empty_repository",
    )
