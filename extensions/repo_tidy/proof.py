"""Whether what a tidy-up changed fits the oldest Python that the repository supports, as far as
that can be told without running it.

ruff tells syntax by version; vermin tells modules, names and parameters of the standard library
that came later. Nothing is imported: that would run the repository's code.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence

from extensions.repo_tidy.python_versions import Version
from extensions.repo_tidy.report import VerdictRow
from extensions.repo_tidy.tools import Ruff, parses
from runs.workflows import Workspace

_NEEDS = re.compile(
    r"^L\d+(?: C\d+)?: (?P<what>.*) requires? \S+, (?P<major>\d)\.(?P<minor>\d+)$", re.MULTILINE
)
_LATER = re.compile(rb"^from __future__ import .*\bannotations\b", re.MULTILINE)
"""Annotations are not evaluated, so `X | Y` in them needs nothing; vermin tells it from other uses
by nothing else.
"""
_NAMED = 5


def rows(ruff: Ruff, base: str, changed: Sequence[str], version: str) -> list[VerdictRow]:
    """Two lines of the verdict.

    `version` is the oldest Python, as it is shown; `changed` are Python files that parse.
    """
    return [
        _syntax(ruff, base, changed, version),
        _library(ruff.context.workspace, base, changed, version),
    ]


def _syntax(ruff: Ruff, base: str, changed: Sequence[str], version: str) -> VerdictRow:
    errors = (
        [finding for finding in ruff.find(["E902"], changed) if not finding.code] if changed else []
    )
    named = "; ".join(f"{error.path}:{error.line} {error.message}" for error in errors[:_NAMED])
    return VerdictRow(
        claim=f"The changed files have the syntax of Python {version}",
        passed=not errors,
        found=named or f"compiled by ruff for {version}; not imported and not run under it",
    )


def _library(workspace: Workspace, base: str, changed: Sequence[str], version: str) -> VerdictRow:
    major, minor = map(int, version.split("."))
    newer: list[str] = []
    before_already: list[str] = []
    unread = 0
    for path in changed:
        now = needs((workspace.path / path).read_bytes(), (major, minor))
        # where it needs nothing, it needs nothing that it did not need before
        before = now and needs(
            os.fsencode(workspace.git("cat-file", "blob", f"{base}:{path}")), (major, minor)
        )
        if now is None or before is None:
            unread += 1
            continue
        newer += [f"{path}: {feature}" for feature in sorted(now - before)]
        before_already += [f"{path}: {feature}" for feature in sorted(now & before)]
    verdict = "; ".join(newer[:_NAMED]) if newer else "vermin finds nothing newer than before"
    if before_already:
        verdict += f"; newer already before, and left so: {'; '.join(before_already[:_NAMED])}"
    if unread:
        verdict += f"; {unread} could not be looked at"
    return VerdictRow(
        claim=f"They need nothing newer of the standard library than {version} has",
        passed=not newer,
        found=verdict,
    )


def needs(source: bytes, oldest: Version) -> set[str] | None:
    """What a source uses that came after `oldest`, such as "'datetime.UTC' member (3.11)"; None
    where that cannot be told.
    """
    if not parses(source):  # also newer syntax than that of the Python that runs here
        return None
    import vermin

    config = vermin.Config()
    config.set_verbose(3)
    # the comments that tell it to look away: finding out that there are none takes long
    config.set_parse_comments(b"novm" in source or b"novermin" in source)
    if not _LATER.search(source):
        config.set_eval_annotations(True)
        config.enable_feature("union-types")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            output = vermin.visit(source.decode("utf-8-sig"), config).output_text()
    except (ValueError, RecursionError, SyntaxError, vermin.InvalidVersionException):
        return None
    needed = {
        (match["what"], (int(match["major"]), int(match["minor"])))
        for match in _NEEDS.finditer(output)
    }
    return {
        f"{feature} ({version[0]}.{version[1]})" for feature, version in needed if version > oldest
    }
