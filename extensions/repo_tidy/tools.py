"""What a tidy-up does in its work tree: list files, ask ruff, let it fix, and make sure that
nothing else happened.
"""

from __future__ import annotations

import ast
import json
import os
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from ruff import find_ruff_bin

from extensions.repo_tidy.python_versions import (
    OLDEST_OF_RUFF,
    UPGRADES,
    Version,
    oldest,
    settle,
    target_of,
    version_of,
)
from extensions.repo_tidy.ruff_settings import NO_SETTINGS, Settings, read
from extensions.repo_tidy.scope import Sources, TidyScope, selects
from runs.workflows import Context, StepFailed, Workspace
from runs.workflows.patches import changed_paths
from runs.workflows.text import last_lines

UNREAD = "E902"
"""ruff's code for a file that it cannot read."""
_FOREIGN_FOLDERS = frozenset(
    {"node_modules", "site-packages", "venv", ".venv", ".tox", ".nox", ".eggs", "__pypackages__"}
)
_BATCH_FILES, _BATCH_BYTES = 400, 100_000  # a command line holds 128 KB and more on every system


@dataclass(frozen=True, kw_only=True)
class LintFinding:
    code: str
    """Empty for a file that was not looked at: it does not parse, or cannot be read."""
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
    settings: Settings = NO_SETTINGS
    """The repository's own, where they are used."""
    oldest: Version = OLDEST_OF_RUFF
    """The Python that the code must run on, which may be older than ruff knows."""

    def find(self, codes: Sequence[str], files: Sequence[str]) -> list[LintFinding]:
        """The findings in `uploads`, ordered by place; without those of rules that the repository's
        settings leave out there.
        """
        findings: list[LintFinding] = []
        for batch in self._batches(files):
            # ruff says of a file that it cannot read in a warning alone, if E902 is not asked for
            asked = [*codes, UNREAD]
            for item in json.loads(
                self._check(asked, batch, "--output-format", "json", fixing=False) or "[]"
            ):
                findings.append(self._finding(item))
        wanted = [finding for finding in findings if not self._is_out(finding.code, finding.path)]
        return sorted(
            wanted, key=lambda finding: (finding.path, finding.line, finding.code, finding.message)
        )

    def fix(self, code: str, files: Sequence[str]) -> None:
        for batch in self._batches(files):
            self._check([code], batch, "--quiet", fixing=True)

    def _batches(self, files: Sequence[str]) -> Iterator[list[str]]:
        """Files that are checked alike, some at a time."""
        for own in (False, True):
            for batch in batches(
                [file for file in files if (self.settings.of(file) is not None) == own]
            ):
                self.context.check()
                yield batch

    def _is_out(self, code: str, path: str) -> bool:
        too_new = self.oldest < OLDEST_OF_RUFF and any(selects(family, code) for family in UPGRADES)
        return bool(code) and (too_new or self.settings.ignores(code, path))

    def _check(
        self, codes: Sequence[str], files: Sequence[str], *options: str, fixing: bool
    ) -> str:
        """Of files that are checked alike.

        What the repository's settings may say of fixing is said here, so that theirs does not
        count.
        """
        own = self.settings.of(files[0]) is not None
        how = ["--fix-only"] if fixing else ["--no-fix", "--no-fix-only"]
        unsafe = "--unsafe-fixes" if self.unsafe_fixes and fixing else "--no-unsafe-fixes"
        told = ["--force-exclude", "--no-preview"] if own else ["--isolated"]
        asked = [
            *told,
            *how,
            unsafe,
            "--no-cache",
            "--select",
            ",".join(codes),
            "--target-version",
            self.target_version,
            *options,
        ]
        answer = self.context.workspace.run([_program(), "check", *asked, "--", *files])
        if answer.returncode not in (0, 1):
            raise StepFailed(
                f"ruff could not check the repository: {answer.errors.strip()[-1000:]}",
                code="ruff_failed",
            )
        if complaint := answer.errors.strip():  # also where it says that all went well
            self.context.log(f"ruff says: {last_lines(complaint)}", level="warning")
        return answer.output

    def _finding(self, item: dict[str, object]) -> LintFinding:
        fix, location = item.get("fix"), item.get("location")
        applicability = fix.get("applicability") if isinstance(fix, dict) else None
        code = str(item.get("code") or "")
        return LintFinding(
            code="" if code in {"invalid-syntax", UNREAD} else code,
            name=str(item.get("name") or ""),
            path=os.path.relpath(
                str(item["filename"]), os.path.realpath(self.context.workspace.path)
            ),
            line=int(location["row"]) if isinstance(location, dict) else 0,
            message=str(item.get("message") or ""),
            fixable=applicability == "safe" or (applicability == "unsafe" and self.unsafe_fixes),
        )


@cache
def _program() -> str:
    """ruff itself, as it is installed beside this Python: `python -m ruff` starts a Python for each
    rule that only looks for it, and may find a `ruff.py` of the repository.
    """
    return str(find_ruff_bin())


_codes: list[str] = []
"""What `known_codes` was told: the program needs a tenth of a second to list its rules."""


def known_codes(workspace: Workspace) -> list[str]:
    """Every rule that runs without ruff's preview mode."""
    if _codes:
        return [*_codes]
    answer = workspace.run([_program(), "rule", "--all", "--output-format", "json"])
    if answer.returncode:
        raise StepFailed(
            f"ruff could not list its rules: {answer.errors[-500:]}", code="ruff_failed"
        )
    _codes[:] = sorted(
        rule["code"]
        for rule in json.loads(answer.output)
        if not rule["preview"] and rule["status"] != "Removed"
    )
    return [*_codes]


def ruff_for(context: Context, scope: TidyScope) -> Ruff:
    """ruff as a scope has it called.

    The work tree must be at a commit whose settings are the base's.
    """
    used = scope["sources"]["settings"] if "sources" in scope else []
    oldest = version_of(scope["sources"]["python"]) if "sources" in scope else OLDEST_OF_RUFF
    settings = read(context.workspace, *tracked_entries(context.workspace)) if used else NO_SETTINGS
    return Ruff(
        context=context,
        target_version=scope["target_version"],
        unsafe_fixes=scope["unsafe_fixes"],
        settings=settings,
        oldest=oldest,
    )


def look_around(context: Context, asked: str) -> tuple[Sources, Settings]:
    """What the repository says of its Python and of ruff.

    Settings that ruff itself refuses are not used, and that is said.

    Args:
        asked: the order's `target_version`; "" for none.
    """
    files, links = tracked_entries(context.workspace)
    settings = read(context.workspace, files, links)
    python = settle(asked, oldest(context.workspace, files))
    if refused := settings.refused or _refusal(context, settings, files):
        settings = Settings(refused=refused)
    configs = [settings.by_folder[folder] for folder in sorted(settings.by_folder)]
    target = target_of(python)
    overridden = {
        f"target-version = {config.target_version}"
        for config in configs
        if config.target_version not in ("", target)
    }
    sources = Sources(
        python=python,
        settings=[config.path for config in configs],
        refused=settings.refused,
        ignored=sorted({code for config in configs for code in config.ignore}),
        overridden=sorted(overridden.union(*(config.overridden for config in configs))),
        own_rules=False,
    )
    return sources, settings


def _refusal(context: Context, settings: Settings, files: Collection[str]) -> str:
    """Why ruff does not take the settings: another version is required, say, or a rule is named
    that it does not know.
    """
    for folder, config in sorted(settings.by_folder.items()):
        file = next(
            (
                path
                for path in sorted(files)
                if path.endswith(".py") and settings.of(path) is config
            ),
            None,
        )
        if file is None:
            continue
        options = [
            "--no-fix",
            "--no-fix-only",
            "--no-cache",
            "--force-exclude",
            "--output-format",
            "json",
            "--select",
            "F",
        ]
        answer = context.workspace.run([_program(), "check", *options, "--", file])
        if answer.returncode not in (0, 1):
            lines = [
                line.strip().removeprefix("Cause: ")
                for line in answer.errors.replace(str(context.workspace.path), folder).splitlines()
            ]
            reason = lines[-1] if lines else "it does not say why"
            return f"ruff does not take {config.path}: {reason}"[:300]
    return ""


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
    """The Python files the commit holds: regular files with names that can be shown, outside
    folders of other people's packages.

    Symbolic links and submodules are left out: what they lead to is not this repository's to
    change.
    """
    files, _ = tracked_entries(workspace)
    return sorted(path for path in files if path.endswith((".py", ".pyi")))


def tracked_entries(workspace: Workspace) -> tuple[list[str], list[str]]:
    """The commit's regular files and its symbolic links: with names that can be shown, outside
    folders of other people's packages.
    """
    files: list[str] = []
    links: list[str] = []
    for entry in workspace.git("ls-files", "--stage", "-z").split("\0"):
        about, _, path = entry.partition("\t")
        if _is_showable(path) and _FOREIGN_FOLDERS.isdisjoint(PurePosixPath(path).parts):
            if about.startswith("100"):
                files.append(path)
            elif about.startswith("120"):
                links.append(path)
    return files, links


def all_files(workspace: Workspace) -> list[str]:
    return [path for path in workspace.git("ls-files", "-z").split("\0") if path]


def _is_showable(path: str) -> bool:
    """State is UTF-8 text: a name that is not cannot be kept in it."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


def unshowable(workspace: Workspace, paths: Collection[str]) -> list[LintFinding]:
    """Files that git takes for binary, though ruff does not mind: a reviewer would not see in the
    patch what became of them.
    """
    held = [path for path in sorted(paths) if b"\0" in (workspace.path / path).read_bytes()]
    return [
        LintFinding(code="", name="", path=path, line=0, message="holds NUL bytes", fixable=False)
        for path in held
    ]


def fix_rule(ruff: Ruff, code: str, files: Sequence[str]) -> tuple[list[str], list[str]]:
    """Let ruff fix one rule in `uploads`: the paths that changed, and those put back because they
    no longer parsed.

    The work tree must be clean before. Raises StepFailed, with everything put back, if anything
    else changed.
    """
    workspace = ruff.context.workspace
    ruff.fix(code, files)
    changed = changed_paths(workspace)
    if outside := sorted(set(changed) - set(files)):
        workspace.reset(workspace.head())
        raise StepFailed(
            f"While {code} was fixed, {len(outside)} paths changed that are not part of the "
            f"approved plan, {outside[0]!r} first."
            " Everything of this rule was put back.",
            code="outside_plan",
        )
    broken = broken_since(workspace, "HEAD", changed)
    for batch in batches(broken):
        workspace.git("checkout", "-q", "HEAD", "--", *batch)
    return [path for path in changed if path not in broken], broken


def _parses(workspace: Workspace, path: str) -> bool:
    file = workspace.path / path
    return file.is_file() and not file.is_symlink() and parses(file.read_bytes())


def parses(source: bytes) -> bool:
    """Code is made of it in half the time of a tree; what no code can be made of may parse all the
    same.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the repository's own escapes and literals
        for flags in (0, ast.PyCF_ONLY_AST):
            # these: NUL bytes, and nesting deeper than the parser goes
            with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                compile(source, "<file>", "exec", flags, dont_inherit=True)
                return True
    return False


def broken_since(workspace: Workspace, base: str, paths: Collection[str]) -> list[str]:
    """Files of `paths` that parse at `base` and do not parse now."""
    broken = [
        path
        for path in sorted(paths)
        if path.endswith((".py", ".pyi")) and not _parses(workspace, path)
    ]
    return [
        path
        for path in broken
        if parses(os.fsencode(workspace.git("cat-file", "blob", f"{base}:{path}")))
    ]


@dataclass(frozen=True, kw_only=True)
class CheckRun:
    """The repository's own check, once: its exit code (None: it did not end by itself) and its last
    lines.
    """

    exit_code: int | None
    end: str


def run_check(context: Context) -> CheckRun:
    """A check that cannot run is an answer too; the work tree is put back to its commit
    afterwards.
    """
    workspace = context.workspace
    head = workspace.head()
    try:
        done = workspace.run(context.order.check_command)
        ran = CheckRun(exit_code=done.returncode, end=last_lines(f"{done.output}\n{done.errors}"))
    except StepFailed as error:
        ran = CheckRun(exit_code=None, end=str(error))
    workspace.reset(head)
    return ran
