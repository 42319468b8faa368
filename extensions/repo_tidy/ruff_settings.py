"""A repository's own ruff configuration: whether it may be used, which files it is for, and what of
it counts in a tidy-up.

ruff finds it by itself, file by file, as it does for whoever works there. Before that it is read
here, so that ruff opens nothing outside the work tree: `extend` may name any file of the machine,
and a tracked link may lead to one. A file that no configuration of the repository is for is checked
without any: else ruff would go on looking above the work tree.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from extensions.repo_tidy.scope import selects
from runs.workflows import Workspace

NAMES = (".ruff.toml", "ruff.toml", "pyproject.toml")
"""In the order in which ruff takes them in one folder; the last one only with a table for ruff."""
_LONGEST = 1_000_000
_DEEPEST = 10
_OVERRIDDEN = {"preview": True, "unsafe-fixes": True}
"""Settings that a tidy-up does not take from it: stable rules alone, and unsafe fixes only where
the order wants them.
"""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The rules that one file selects and leaves out."""

    select: Sequence[str]
    ignore: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Config:
    """What one configuration says of rules, with what it extends."""

    path: str
    layers: Sequence[Layer] = ()
    """Itself last, before it what it extends, the farthest first."""
    overridden: Sequence[str] = ()
    target_version: str = ""

    def ignores(self, code: str) -> bool:
        """Whether it leaves a rule out, as ruff reads it: the longest matching selector counts, of
        two alike the one that ignores.
        """
        out = 0  # the length of the selector that leaves it out
        for layer in self.layers:
            wanted, unwanted = _longest(layer.select, code), _longest(layer.ignore, code)
            if unwanted and unwanted >= wanted:
                out = max(out, unwanted)
            elif wanted >= out:
                out = 0
        return out > 0

    @property
    def select(self) -> list[str]:
        return [code for layer in self.layers for code in layer.select]

    @property
    def ignore(self) -> list[str]:
        return [code for layer in self.layers for code in layer.ignore if self.ignores(code)]


def _longest(selectors: Sequence[str], code: str) -> int:
    return max(
        (
            0 if selector == "ALL" else len(selector)
            for selector in selectors
            if selects(selector, code)
        ),
        default=0,
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The configurations of a repository, by their folders; none where they are not used."""

    by_folder: Mapping[str, Config] = field(default_factory=dict)
    refused: str = ""
    """Why they are not used, where there are some."""

    def of(self, path: str) -> Config | None:
        """The configuration that is for a file: the nearest one."""
        for folder in map(str, PurePosixPath(path).parents):
            if (config := self.by_folder.get(folder)) is not None:
                return config
        return None

    def ignores(self, code: str, path: str) -> bool:
        config = self.of(path)
        return config is not None and config.ignores(code)

    @property
    def select(self) -> list[str]:
        """The rules that they select, all together."""
        return sorted({code for config in self.by_folder.values() for code in config.select})


NO_SETTINGS = Settings()


class _Refused(Exception):
    """The configurations cannot be used; says why."""


def read(workspace: Workspace, files: Collection[str], links: Collection[str]) -> Settings:
    """The repository's configurations, or why they are not used.

    Args:
        files: its regular files.
        links: its symbolic links.
    """
    try:
        if led := sorted(link for link in links if PurePosixPath(link).name in NAMES):
            raise _Refused(f"{led[0]} is a link")
        return Settings(by_folder=dict(_configs(workspace, frozenset(files))))
    except _Refused as error:
        return Settings(refused=str(error))


def _configs(workspace: Workspace, files: frozenset[str]) -> Iterable[tuple[str, Config]]:
    configs: dict[str, str] = {}
    for name in NAMES:
        for path in sorted(path for path in files if posixpath.basename(path) == name):
            if name != "pyproject.toml" or "ruff" in _tools(_parsed(workspace, path)):
                configs.setdefault(posixpath.dirname(path) or ".", path)
    for folder, path in sorted(configs.items()):
        yield folder, _read(workspace, path, files)


def _parsed(workspace: Workspace, path: str) -> Mapping[str, Any]:
    try:
        with (workspace.path / path).open("rb") as file:
            return tomllib.loads(file.read(_LONGEST).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise _Refused(f"{path} cannot be read as TOML ({type(error).__name__})") from error


def _tools(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return _table(document.get("tool"))


def _read(workspace: Workspace, path: str, files: frozenset[str]) -> Config:
    """One configuration with those it extends, the farthest first.

    Raises _Refused where it leads out of the repository.
    """
    chain: list[Mapping[str, Any]] = []
    at, seen = path, {path}
    while True:
        document = _parsed(workspace, at)
        table = (
            _table(_tools(document).get("ruff"))
            if posixpath.basename(at) == "pyproject.toml"
            else document
        )
        chain.insert(0, table)
        if (extended := table.get("extend")) is None:
            break
        at = _within(str(extended), at, files)
        if at in seen or len(chain) > _DEEPEST:
            raise _Refused(f"{path} extends itself")
        seen.add(at)
    flat = [{**table, **_table(table.get("lint"))} for table in chain]
    layers = [
        Layer(
            select=_codes(table, "select") + _codes(table, "extend-select"),
            ignore=_codes(table, "ignore") + _codes(table, "extend-ignore"),
        )
        for table in flat
    ]
    last = {key: value for table in flat for key, value in table.items()}
    overridden = [
        f"{name} = {str(value).lower()}"
        for name, value in _OVERRIDDEN.items()
        if last.get(name) is value
    ]
    return Config(
        path=path,
        layers=layers,
        overridden=overridden,
        target_version=str(last.get("target-version", "")),
    )


def _within(extended: str, path: str, files: frozenset[str]) -> str:
    """The file of the repository that a configuration extends. Raises _Refused for any other."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), extended))
    if re.search(r"[~$]", extended) or target not in files:
        raise _Refused(f"{path} extends “{extended[:200]}”, which is no file of the repository")
    return target


def _codes(table: Mapping[str, Any], name: str) -> list[str]:
    value = table.get(name)
    return [str(code) for code in value] if isinstance(value, list) else []


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
