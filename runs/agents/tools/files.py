"""Tools on the files of the run's workspace, and on nothing else: list, read, search, write, patch,
delete, and the repository's own check.

They work on the tree that the loop restored before its first call, and that it commits at its end.
They change nothing outside the workspace, so no call is asked about unless a template's rules say
so.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import re2

from runs.agents.approval import ApprovalRule
from runs.agents.tools import confined
from runs.agents.tools.confined import PathRefused
from runs.agents.tools.registry import ToolFailed, ToolUse, quoted, tool
from runs.workflows import schemas
from runs.workflows.base import StepFailed

LARGEST = 1_000_000
"""Bytes of a file that is read or written."""
SHOWN = 60_000
"""Characters of a file that are given at once."""
ENTRIES = 2_000
MATCHES = 200
LINE = 300
"""Characters of a line that matches."""
SEARCHED = 50_000_000
"""Bytes that one search looks through."""
OUTPUT = 20_000
"""Characters of a check's output that are given: its end."""
PATH = {
    "type": "string",
    "minLength": 1,
    "maxLength": confined.LONGEST_PATH,
    "description": "from the workspace's top, e.g. src/app.py",
}
FOLDER = {
    "type": "string",
    "maxLength": confined.LONGEST_PATH,
    "description": "a folder from the workspace's top; left out: all",
}
GLOB = {
    "type": "string",
    "maxLength": 200,
    "description": "only paths like this, e.g. *.py or src/*/test_*",
}


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _root(use: ToolUse) -> Path:
    if not use.context.order.repository_url:
        raise ToolFailed("This run has no repository, so there are no files.")
    path = use.context.workspace.path
    if not path.is_dir() or path.is_symlink():
        raise StepFailed("The workspace is not there; restore it first.", code="no_workspace")
    return path


def _read_text(use: ToolUse, path: str) -> str:
    """Read a file's text; raises ToolFailed."""
    try:
        content = confined.read(_root(use), path, limit=LARGEST)
    except PathRefused as error:
        raise ToolFailed(str(error)) from error
    text = _decode(content)
    if text is None:
        raise ToolFailed(f"{path} is no text in UTF-8: {len(content):,} bytes of something else.")
    return text


def _decode(content: bytes) -> str | None:
    """Decode a file's content; None where it is no text."""
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None


def _write(use: ToolUse, path: str, text: str) -> bool:
    content = text.encode()
    if len(content) > LARGEST:
        raise ToolFailed(f"That would be {len(content):,} bytes; a file has up to {LARGEST:,}.")
    try:
        return confined.write(_root(use), path, content)
    except PathRefused as error:
        raise ToolFailed(str(error)) from error


def _walk(use: ToolUse, arguments: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """List the paths that are asked for, and whether each is a regular file; raises ToolFailed."""
    glob = arguments.get("glob", "*")
    try:
        for number, (path, is_file) in enumerate(
            confined.walk(_root(use), arguments.get("folder", ""))
        ):
            if number % 100 == 0:
                use.context.check()
            if fnmatchcase(path, glob) or fnmatchcase(path.rpartition("/")[2], glob):
                yield path, is_file
    except PathRefused as error:
        raise ToolFailed(str(error)) from error


@tool(
    "list_files",
    description=(
        "The paths of the workspace's files, in order. Links and other special files are named "
        "apart, and not followed."
    ),
    parameters=_object({"folder": FOLDER, "glob": GLOB}),
    risk="low",
    in_workspace=True,
)
def list_files(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    files: list[str] = []
    special: list[str] = []
    for path, is_file in _walk(use, arguments):
        if len(files) + len(special) == ENTRIES:
            return {"files": files, "special": special, "cut": True}
        (files if is_file else special).append(path)
    return {"files": files, "special": special, "cut": False}


@tool(
    "read_file",
    description=(
        f"A text file of the workspace, from a line on. Up to {SHOWN:,} characters at once."
    ),
    parameters=_object(
        {
            "path": PATH,
            "from_line": {"type": "integer", "minimum": 1},
            "lines": {"type": "integer", "minimum": 1},
        },
        "path",
    ),
    risk="low",
    in_workspace=True,
)
def read_file(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    lines = _read_text(use, arguments["path"]).split("\n")
    first = arguments.get("from_line", 1) - 1
    wanted = "\n".join(lines[first : first + arguments.get("lines", len(lines))])
    return {
        "path": arguments["path"],
        "text": wanted[:SHOWN],
        "from_line": first + 1,
        "total_lines": len(lines),
        "cut": len(wanted) > SHOWN,
    }


@tool(
    "search_files",
    description=(
        "The lines of the workspace's text files that match a pattern (RE2 syntax, no "
        "look-around), with path and line number."
    ),
    parameters=_object(
        {
            "pattern": {"type": "string", "minLength": 1, "maxLength": 1_000},
            "folder": FOLDER,
            "glob": GLOB,
        },
        "pattern",
    ),
    risk="low",
    in_workspace=True,
)
def search_files(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    try:
        pattern = schemas.compiled(arguments["pattern"])
    except re2.error as error:
        raise ToolFailed(f"This is no pattern of RE2's syntax: {str(error)[:200]}") from error
    matches: list[dict[str, Any]] = []
    left = SEARCHED
    for path, is_file in _walk(use, arguments):
        if not is_file or (text := _searchable(use, path)) is None:
            continue
        left -= len(text)
        if left < 0:
            return {"matches": matches, "cut": True}
        for number, line in enumerate(text.split("\n"), start=1):
            if pattern.search(line):
                if len(matches) == MATCHES:
                    return {"matches": matches, "cut": True}
                matches.append({"path": path, "line": number, "text": line[:LINE]})
    return {"matches": matches, "cut": False}


def _searchable(use: ToolUse, path: str) -> str | None:
    """Read a file's text; None where it is too large, no text, or gone by now."""
    try:
        return _decode(confined.read(_root(use), path, limit=LARGEST))
    except PathRefused:
        return None


def _shown_write(arguments: Mapping[str, Any]) -> str:
    return f"The whole of the file:\n\n{quoted(arguments['path'])}\n\n{quoted(arguments['text'])}"


@tool(
    "write_file",
    description=(
        "Write a whole text file of the workspace, with the folders above it, over what was there."
    ),
    parameters=_object(
        {"path": PATH, "text": {"type": "string", "maxLength": LARGEST}}, "path", "text"
    ),
    editable=["/text"],
    preview=_shown_write,
    in_workspace=True,
)
def write_file(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    new = _write(use, arguments["path"], arguments["text"])
    return {"path": arguments["path"], "new": new, "bytes": len(arguments["text"].encode())}


def _shown_patch(arguments: Mapping[str, Any]) -> str:
    changes = [
        line
        for edit in arguments["edits"]
        for line in difflib.unified_diff(
            edit["old"].split("\n"), edit["new"].split("\n"), lineterm="", n=10_000
        )
        if not line.startswith(("---", "+++"))
    ]
    return (
        f"Parts of the file:\n\n{quoted(arguments['path'])}\n\n"
        f"{quoted(chr(10).join(changes), language='diff')}"
    )


@tool(
    "patch_file",
    description=(
        "Replace parts of a text file. Each `old` must stand in it exactly once, to the letter; "
        "all are done or none."
    ),
    parameters=_object(
        {
            "path": PATH,
            "edits": {
                "type": "array",
                "minItems": 1,
                "maxItems": 50,
                "items": _object(
                    {"old": {"type": "string", "minLength": 1}, "new": {"type": "string"}},
                    "old",
                    "new",
                ),
            },
        },
        "path",
        "edits",
    ),
    editable=["/edits"],
    preview=_shown_patch,
    in_workspace=True,
)
def patch_file(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    path, text = arguments["path"], _read_text(use, arguments["path"])
    for number, edit in enumerate(arguments["edits"], start=1):
        count = text.count(edit["old"])
        if count != 1:
            problem = (
                "does not stand there"
                if count == 0
                else f"stands there {count} times; take more of the lines around it"
            )
            raise ToolFailed(
                f"Nothing was changed: what edit {number} replaces {problem}. Read {path} again."
            )
        text = text.replace(edit["old"], edit["new"])
    _write(use, path, text)
    return {"path": path, "edits": len(arguments["edits"]), "bytes": len(text.encode())}


@tool(
    "delete_file",
    description="Delete one file of the workspace.",
    parameters=_object({"path": PATH}, "path"),
    in_workspace=True,
)
def delete_file(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    try:
        confined.remove(_root(use), arguments["path"])
    except PathRefused as error:
        raise ToolFailed(str(error)) from error
    return {"deleted": arguments["path"]}


OUTCOMES = {"timeout", "output_limit", "program_missing"}
"""Codes of a check that did not end by itself: the model is told, since it may have written the
code that hangs.
"""


@tool(
    "run_check",
    description=(
        "Run the repository's own check (tests, linter) on the workspace as it stands, and tell "
        "how it ended."
    ),
    parameters=_object({}),
    approval=[
        ApprovalRule(
            ask=False,
            why=(
                "It is the check that operators set for this repository, run in its workspace "
                "without any secret."
            ),
        )
    ],
    risk="high",  # it runs what the model wrote: a rule on high risk asks
    in_workspace=True,
)
def run_check(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    _root(use)
    command, workspace = use.context.order.check_command, use.context.workspace
    if not command:
        raise ToolFailed("Operators have set no check command for this repository.")
    before = _untracked(use)
    lines: list[str] = []
    try:
        # `follow`, since it runs what the model wrote: a program that nobody trusts
        code = workspace.follow(command, lambda source, line: lines.append(line))
    except StepFailed as error:
        use.context.check()  # raises where the step's own time is up: no fault of the check's
        if error.code not in OUTCOMES:
            raise
        raise ToolFailed(f"The check did not end: {error}") from error
    finally:
        _remove(use, _untracked(use) - before)
    output = "\n".join(lines).strip()
    return {
        "passed": code == 0,
        "exit_code": code,
        "output": output[-OUTPUT:],
        "cut": len(output) > OUTPUT,
    }


def _untracked(use: ToolUse) -> set[str]:
    """List the files that git neither tracks nor is told to ignore."""
    return set(
        filter(
            None,
            use.context.workspace.git("ls-files", "-z", "--others", "--exclude-standard").split(
                "\0"
            ),
        )
    )


def _remove(use: ToolUse, paths: set[str]) -> None:
    """Remove the files that a check left behind, such as reports: they are no part of the work."""
    for path in sorted(paths):
        try:
            confined.remove(_root(use), path)
        except PathRefused:  # a link, or gone: the next loop cleans it up
            continue
