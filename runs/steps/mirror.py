"""Our copy of a remote repository on this machine: fetched into, cloned from, and nothing of a work tree ever touches it.

A workspace is a clone of it with objects, configuration and refs of its own. Work trees of the mirror itself (`git worktree`) would share
these: what runs in one order's tree could then change what another order's git reads or runs.
"""

from __future__ import annotations

import shutil

from runs.steps.repository import Repository
from runs.workflows.base import StepFailed

HEAD = "refs/waystation/head"
"""The origin's default branch, as it was last seen."""
_KEPT = "refs/waystation/kept"
_FETCHED = (f"+HEAD:{HEAD}", "+refs/heads/*:refs/heads/*")


class Mirror:
    """The bare repository in `path/.git`."""

    def __init__(self, repository: Repository, url: str) -> None:
        self.path, self._repository, self._url = repository.path, repository, url

    def refresh(self) -> None:
        """Fetch what the origin has by now. Raises StepFailed: `clone_failed`, `clone_too_large`, `empty_repository`."""
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

    def renew(self) -> None:
        """Make it from nothing, since nobody can clone from it. Raises as `refresh`."""
        self._repository.hold()
        try:
            self._renew()
        finally:
            self._repository.lock.free()

    def has(self, sha: str) -> bool:
        """Whether it has that commit, without a look at the origin."""
        if not (self.path / ".git").is_dir():
            return False
        self._repository.hold()
        try:
            return self._is_healthy() and not self._repository.git("cat-file", "-e", f"{sha}^{{commit}}", fine=None).returncode
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
            return self._repository.git("config", "--get", "remote.origin.url").output.decode().strip() == self._url
        except StepFailed:
            return False

    def _is_sound(self) -> bool:
        return not self._repository.git("fsck", "--connectivity-only", "--no-dangling", fine=None).returncode

    def _renew(self) -> None:
        self._make()
        self._fetch()

    def _make(self) -> None:
        """An empty one, made beside the folder and put in its place at once."""
        new, git = self._repository.beside("new"), self._repository.plain_git
        for folder in (new, self.path):
            shutil.rmtree(folder, ignore_errors=True)
        new.mkdir(parents=True)
        for arguments in (["init", "-q", "--template="], ["config", "core.bare", "true"], ["config", "remote.origin.url", self._url]):
            git(*arguments, cwd=new)
        shutil.copyfile(new / ".git" / "config", self._repository.beside("config"))
        new.rename(self.path)

    def _fetch(self) -> None:
        options = ["--quiet", "--prune", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"]
        self._repository.pin()
        try:
            self._repository.filling_git("fetch", *options, "origin", *_FETCHED, watched=self.path, code="clone_failed", remote=True)
        except StepFailed as error:
            if "remote ref HEAD" in str(error):
                raise _empty() from None
            if error.code == "clone_too_large":
                shutil.rmtree(self.path)
            raise


def _empty() -> StepFailed:
    return StepFailed("The repository's default branch has no commit yet, so there is nothing to work on.", code="empty_repository")
