"""What a tidy-up does in its work tree: list files, ask ruff, let it fix, and make sure that nothing else happened."""

from __future__ import annotations

import ast
import json
import os
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from runs.workflows.base import Context, StepFailed, Workspace

# -I: else a `ruff.py` in the repository would run in place of ruff.
RUFF = (sys.executable, "-I", "-m", "ruff")
_FOREIGN_FOLDERS = frozenset({"node_modules", "site-packages", "venv", ".venv", ".tox", ".nox", ".eggs", "__pypackages__"})
_BATCH_FILES, _BATCH_BYTES = 400, 100_000  # a command line holds 128 KB and more on every system


@dataclass(frozen=True, kw_only=True)
class Finding:
    code: str
    """Empty for a syntax error."""
    name: str
    path: str
    line: int
    message: str
    fixable: bool


@dataclass(frozen=True, kw_only=True)
class Ruff:
    """How ruff is asked in this order."""

    context: Context
    target_version: str
    unsafe_fixes: bool

    def find(self, codes: Sequence[str], files: Sequence[str]) -> list[Finding]:
        """The findings in `files`, ordered by place."""
        found: list[Finding] = []
        for batch in batches(files):
            self.context.check()
            for item in json.loads(self._check(codes, batch, "--output-format", "json") or "[]"):
                found.append(self._finding(item))
        return sorted(found, key=lambda finding: (finding.path, finding.line, finding.code, finding.message))

    def fix(self, code: str, files: Sequence[str]) -> None:
        for batch in batches(files):
            self.context.check()
            self._check([code], batch, "--fix-only", "--quiet", *(["--unsafe-fixes"] if self.unsafe_fixes else []))

    def known_codes(self) -> list[str]:
        """Every rule that runs without ruff's preview mode."""
        answer = self.context.workspace.run([*RUFF, "rule", "--all", "--output-format", "json"])
        if answer.returncode:
            raise StepFailed(f"ruff could not list its rules: {answer.errors[-500:]}", code="ruff_failed")
        return sorted(rule["code"] for rule in json.loads(answer.output) if not rule["preview"] and rule["status"] != "Removed")

    def _check(self, codes: Sequence[str], files: Sequence[str], *options: str) -> str:
        asked = ["--isolated", "--no-cache", "--select", ",".join(codes), "--target-version", self.target_version, *options]
        answer = self.context.workspace.run([*RUFF, "check", *asked, "--", *files])
        if answer.returncode not in (0, 1):
            raise StepFailed(f"ruff could not check the repository: {answer.errors.strip()[-1000:]}", code="ruff_failed")
        return answer.output

    def _finding(self, item: dict[str, object]) -> Finding:
        fix, location = item.get("fix"), item.get("location")
        applicability = fix.get("applicability") if isinstance(fix, dict) else None
        code = str(item.get("code") or "")
        return Finding(
            code="" if code == "invalid-syntax" else code,
            name=str(item.get("name") or ""),
            path=os.path.relpath(str(item["filename"]), os.path.realpath(self.context.workspace.path)),
            line=int(location["row"]) if isinstance(location, dict) else 0,
            message=str(item.get("message") or ""),
            fixable=applicability == "safe" or (applicability == "unsafe" and self.unsafe_fixes),
        )


def batches(files: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for file in files:
        length = len(os.fsencode(file)) + 1
        if batch and (len(batch) == _BATCH_FILES or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += length
    if batch:
        yield batch


def python_files(workspace: Workspace) -> list[str]:
    """The Python files the commit holds: regular files with names that can be shown, outside folders of other people's packages.

    Symbolic links and submodules are left out: what they lead to is not this repository's to change.
    """
    found = []
    for entry in workspace.git("ls-files", "--stage", "-z").split("\0"):
        about, _, path = entry.partition("\t")
        is_python = about.startswith("100") and path.endswith((".py", ".pyi"))
        if is_python and _is_showable(path) and _FOREIGN_FOLDERS.isdisjoint(PurePosixPath(path).parts):
            found.append(path)
    return sorted(found)


def all_files(workspace: Workspace) -> list[str]:
    return [path for path in workspace.git("ls-files", "-z").split("\0") if path]


def _is_showable(path: str) -> bool:
    """State is UTF-8 text: a name that is not cannot be kept in it."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


def changed_paths(workspace: Workspace) -> list[str]:
    """Everything that differs from the commit, untracked files included."""
    entries = workspace.git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all").split("\0")
    return sorted(entry[3:] for entry in entries if entry)


def unshowable(workspace: Workspace, paths: Collection[str]) -> list[Finding]:
    """Files that git takes for binary, though ruff does not mind: a reviewer would not see in the patch what became of them."""
    held = [path for path in sorted(paths) if b"\0" in (workspace.path / path).read_bytes()]
    return [Finding(code="", name="", path=path, line=0, message="holds NUL bytes", fixable=False) for path in held]


def fix_rule(ruff: Ruff, code: str, files: Sequence[str]) -> tuple[list[str], list[str]]:
    """Let ruff fix one rule in `files`: the paths that changed, and those put back because they no longer parsed.

    The work tree must be clean before. Raises StepFailed, with everything put back, if anything else changed.
    """
    workspace = ruff.context.workspace
    parsed = {path for path in files if _parses(workspace, path)}
    ruff.fix(code, files)
    changed = changed_paths(workspace)
    if outside := sorted(set(changed) - set(files)):
        workspace.reset(workspace.head())
        raise StepFailed(
            f"While {code} was fixed, {len(outside)} paths changed that are not part of the approved plan, {outside[0]!r} first."
            " Everything of this rule was put back.",
            code="outside_plan",
        )
    broken = [path for path in changed if path in parsed and not _parses(workspace, path)]
    for batch in batches(broken):
        workspace.git("checkout", "-q", "HEAD", "--", *batch)
    return [path for path in changed if path not in broken], broken


def _parses(workspace: Workspace, path: str) -> bool:
    file = workspace.path / path
    return file.is_file() and not file.is_symlink() and parses(file.read_bytes())


def parses(source: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the repository's own escapes and literals
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # NUL bytes, and nesting deeper than the parser goes
            return False
    return True


def broken_since(workspace: Workspace, base: str, paths: Collection[str]) -> list[str]:
    """Files of `paths` that parse at `base` and do not parse now."""
    broken = [path for path in sorted(paths) if path.endswith((".py", ".pyi")) and not _parses(workspace, path)]
    return [path for path in broken if parses(os.fsencode(workspace.git("cat-file", "blob", f"{base}:{path}")))]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """The repository's own check, once: its exit code (None: it did not end by itself) and its last lines."""

    exit_code: int | None
    end: str


def run_check(context: Context) -> Ran:
    """A check that cannot run is an answer too; the work tree is put back to its commit afterwards."""
    workspace = context.workspace
    head = workspace.head()
    try:
        done = workspace.run(context.order.check_command)
        ran = Ran(exit_code=done.returncode, end=last_lines(f"{done.output}\n{done.errors}"))
    except StepFailed as error:
        ran = Ran(exit_code=None, end=str(error))
    workspace.reset(head)
    return ran


def last_lines(text: str, lines: int = 12) -> str:
    said = [line for line in showable(text).split("\n") if line.strip()]
    return "\n".join(said[-lines:])[-2000:]


def showable(text: str) -> str:
    """Without what a database's JSON cannot hold: NUL and lone surrogates."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "�")
