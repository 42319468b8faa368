"""The oldest Python that a repository supports, by its own words: read, never executed.

Pure but for reading files of the work tree.
"""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from runs.workflows import Workspace

Version = tuple[int, int]

OLDEST_OF_RUFF, NEWEST_OF_RUFF = (3, 7), (3, 15)
ASSUMED = (3, 11)
"""Where neither the order nor the repository says a version."""
FROM_REPOSITORY = "repository"
"""An order's `target_version` for what the repository says."""
UPGRADES = ("UP", "FURB", "FA")
"""Families of rules that write newer Python. ruff writes that of 3.7 at least, so they are left out
where older ones are supported.
"""
_LONGEST = 1_000_000
_PYTHON_2 = (2, 7)
_CLASSIFIER = re.compile(r"Programming Language :: Python :: (\d)\.(\d+)\s*$")
_ENVIRONMENT = re.compile(r"py(?:thon)?-?(\d)\.?(\d+)(?!\d)|py\{([\d,\s.]+)\}")


class Python(TypedDict):
    """The oldest Python of an order, and why it is that one."""

    version: str  # as in "3.9"; what ruff is given is in the scope's `target_version`
    source: str  # the file that says so, and its words; "" where the repository says nothing
    asked: str  # what the order names, as in "3.11"; "" for nothing


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What one file says."""

    version: Version
    path: str
    words: str


def settle(asked: str, found: Declared | None) -> Python:
    """The older one of what the order names (as in "py311") and what the repository says: a fix
    must break neither.
    """
    named = _of_ruff(asked) if asked.startswith("py") else None
    version = min(
        version
        for version in (
            named,
            found.version if found else None,
            ASSUMED if not (named or found) else None,
        )
        if version
    )
    return Python(
        version=".".join(map(str, version)),
        source=f"{found.path}: {found.words}" if found else "",
        asked=".".join(map(str, named)) if named else "",
    )


def target_of(python: Python) -> str:
    """The version as ruff takes it, such as "py39"."""
    major, minor = min(max(version_of(python), OLDEST_OF_RUFF), NEWEST_OF_RUFF)
    return f"py{major}{minor}"


def version_of(python: Python) -> Version:
    major, minor = python["version"].split(".")
    return int(major), int(minor)


def _of_ruff(target: str) -> Version | None:
    match = re.fullmatch(r"py(\d)(\d+)", target)
    return (int(match[1]), int(match[2])) if match else None


def oldest(workspace: Workspace, files: Iterable[str]) -> Declared | None:
    """The oldest Python that the packages of a repository support together; None where none of them
    says one.

    In each folder the first of these counts: requires-python (python_requires), classifiers, ruff's
    target-version, tox, .python-version.

    Args:
        files: the repository's regular files.
    """
    by_folder: dict[str, list[tuple[int, Declared]]] = {}
    for path in sorted(files):
        reader = _READERS.get(PurePosixPath(path).name)
        if reader is None:
            continue
        for rank, version, declaration in _safely(reader, workspace.path / path):
            declared = Declared(version=version, path=path, words=declaration)
            by_folder.setdefault(str(PurePosixPath(path).parent), []).append((rank, declared))
    counting = [
        min(declared, key=lambda one: (one[0], one[1].version))[1]
        for declared in by_folder.values()
    ]
    return min(counting, key=lambda one: one.version, default=None)


Found = Iterator[tuple[int, Version, str]]
"""Rank (the lower counts more), version, and the words that say so."""


def _safely(reader: Callable[[str], Found], path: Path) -> list[tuple[int, Version, str]]:
    """What a file says; nothing where it cannot be read: it is somebody else's."""
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST).decode(errors="replace")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(reader(text))
    except (
        OSError,
        ValueError,
        SyntaxError,
        RecursionError,
        MemoryError,
        configparser.Error,
        tomllib.TOMLDecodeError,
    ):
        return []


def _pyproject(text: str) -> Found:
    document = tomllib.loads(text)
    project, tools = _table(document.get("project")), _table(document.get("tool"))
    poetry = _table(tools.get("poetry"))
    yield from _requires("requires-python", project.get("requires-python"))
    yield from _requires("tool.poetry python", _table(poetry.get("dependencies")).get("python"))
    yield from _classified(
        [*_listed(project.get("classifiers")), *_listed(poetry.get("classifiers"))]
    )
    yield from _ruffs(_table(tools.get("ruff")))
    tox = _table(tools.get("tox"))
    yield from _environments(
        f"{tox.get('legacy_tox_ini', '')} {' '.join(_listed(tox.get('env_list')))}"
    )


def _ruff(text: str) -> Found:
    yield from _ruffs(tomllib.loads(text))


def _ruffs(table: Mapping[str, Any]) -> Found:
    if version := _of_ruff(str(table.get("target-version", ""))):
        yield 2, version, f'ruff\'s target-version = "{table["target-version"]}"'


def _setup_cfg(text: str) -> Found:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    yield from _requires("python_requires", parser.get("options", "python_requires", fallback=None))
    for name in ("classifiers", "classifier"):
        yield from _classified(parser.get("metadata", name, fallback="").splitlines())


def _setup_py(text: str) -> Found:
    """The literal arguments of setup(), and names of the module that stand for such."""
    tree = ast.parse(text)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(tree):
        for keyword in call.keywords if isinstance(call, ast.Call) else []:
            value: ast.expr | None = keyword.value
            value = constants.get(value.id) if isinstance(value, ast.Name) else value
            if keyword.arg == "python_requires" and isinstance(value, ast.Constant):
                yield from _requires("python_requires", value.value)
            if keyword.arg == "classifiers" and isinstance(value, ast.List | ast.Tuple):
                yield from _classified(
                    str(item.value) for item in value.elts if isinstance(item, ast.Constant)
                )


def _tox(text: str) -> Found:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    yield from _environments(
        " ".join(parser.get("tox", name, fallback="") for name in ("envlist", "env_list"))
    )


def _python_version(text: str) -> Found:
    for line in text.splitlines():
        if match := re.match(r"\s*(?:cpython-?)?(\d)\.(\d+)", line):
            yield 4, (int(match[1]), int(match[2])), match[0].strip()


def _requires(name: str, value: Any) -> Found:
    if isinstance(value, Mapping):
        value = value.get("version")
    if isinstance(value, str) and (version := lowest(value)) is not None:
        yield 0, version, f"{name} = “{value.strip()[:80]}”"


def lowest(specifier: str) -> Version | None:
    """The oldest Python that a version specifier takes, also in Poetry's way of writing; None where
    it says nothing of the kind.
    """
    versions = [
        version for part in specifier.split("||") if (version := _lowest(part.strip())) is not None
    ]
    return min(versions, default=None)


def _lowest(specifier: str) -> Version | None:
    written = re.sub(r"(?<![=~<>!])[\^~]\s*(?=\d)", ">=", specifier)
    written = re.sub(r"^(\d[\d.]*)(\.\*)?$", r"==\1.*", written)
    try:
        allowed = SpecifierSet(written)
    except InvalidSpecifier:
        return None
    candidates = [_PYTHON_2, *((3, minor) for minor in range(50))]
    fits = (
        candidate
        for candidate in candidates
        if any(allowed.contains(f"{candidate[0]}.{candidate[1]}{patch}") for patch in ("", ".99"))
    )
    return next(fits, None) if written else None


def _classified(lines: Iterable[str]) -> Found:
    versions = [
        (int(match[1]), int(match[2]))
        for line in lines
        if (match := _CLASSIFIER.match(str(line).strip()))
    ]
    if versions:
        yield 1, min(versions), f"classifier Python :: {min(versions)[0]}.{min(versions)[1]}"


def _environments(text: str) -> Found:
    versions = []
    for match in _ENVIRONMENT.finditer(text):
        if match[3]:
            named = [re.sub(r"\D", "", name) for name in match[3].split(",")]
            versions += [(int(name[0]), int(name[1:])) for name in named if len(name) > 1]
        else:
            versions.append((int(match[1]), int(match[2])))
    if versions:
        yield 3, min(versions), f"tox environment py{min(versions)[0]}{min(versions)[1]}"


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


_READERS: Mapping[str, Callable[[str], Found]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "setup.py": _setup_py,
    "ruff.toml": _ruff,
    ".ruff.toml": _ruff,
    "tox.ini": _tox,
    ".python-version": _python_version,
}
