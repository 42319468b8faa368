"""What a tidy-up may touch, with the wishes of its reviewers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, NotRequired, TypedDict

from extensions.repo_tidy.python_versions import FROM_REPOSITORY, Python
from runs.workflows import StepFailed

Verb = Literal["only", "skip", "add"]

RULE = re.compile(r"[A-Z]{1,5}[0-9]{0,4}")
DEFAULT_RULES = ("F", "I", "UP", "E7")


class ScopeWish(TypedDict):
    """One wish: `skip F401 in tests`.

    Without codes it is about paths alone, without paths about codes alone.
    """

    verb: Verb
    codes: list[str]
    paths: list[str]


class Sources(TypedDict):
    """What the repository says of how it is to be checked, as it was found when the order began."""

    python: Python
    settings: list[str]  # its ruff configurations that are used
    refused: str  # why those that there are are not
    ignored: list[str]  # rules that they leave out
    overridden: list[str]  # what of them does not count here
    own_rules: bool  # the rules are theirs: the order names none


class TidyScope(TypedDict):
    select: list[str]  # rule codes and prefixes, as ordered
    paths: list[str]  # folders, files and globs, as ordered; empty is the whole repository
    changes: list[ScopeWish]  # the reviewers' wishes since, oldest first; later ones count more
    target_version: str
    unsafe_fixes: bool
    sources: NotRequired[Sources]  # missing in orders that began before there was this


def covers(scope: TidyScope, code: str, path: str) -> bool:
    """Whether findings of the rule `code` in the file `path` are in scope.

    "Skip" stays in force under a later, wider "only"; it ends with an "add" that matches, or an
    "only" that names the very same.
    """
    by_code = _Side(on=any(selects(selector, code) for selector in scope["select"]))
    by_path = _Side(
        on=not scope["paths"] or any(within(path, pattern) for pattern in scope["paths"])
    )
    # the latest wish about this rule in this place, e.g. "skip F401 in tests"
    pair: bool | None = None
    for change in scope["changes"]:
        codes = [selector for selector in change["codes"] if selects(selector, code)]
        paths = [pattern for pattern in change["paths"] if within(path, pattern)]
        if change["verb"] != "only" and change["codes"] and change["paths"]:
            if codes and paths:
                pair = change["verb"] == "add"
            continue
        for side, named, matched in (
            (by_code, change["codes"], codes),
            (by_path, change["paths"], paths),
        ):
            if named and side.apply(change["verb"], matched):
                pair = None
    return pair if pair is not None else by_code.open and by_path.open


class _Side:
    """Rules or places: whether they are in, and by which patterns they were left out."""

    def __init__(self, *, on: bool) -> None:
        self.on, self.skipped = on, set[str]()

    @property
    def open(self) -> bool:
        return self.on and not self.skipped

    def apply(self, verb: Verb, matched: Sequence[str]) -> bool:
        """Take a wish in; True when it says more than an earlier wish about a rule in a place."""
        match verb:
            case "only":
                self.on = bool(matched)
                self.skipped -= {
                    name for name in self.skipped if _bare(name) in map(_bare, matched)
                }
                return not matched
            case "skip":
                self.skipped |= set(matched)
            case "add" if matched:
                self.on, self.skipped = True, set()
        return bool(matched)


def _bare(name: str) -> str:
    return name.removeprefix("**/")


def selects(selector: str, code: str) -> bool:
    """As ruff reads selectors: `F` and `F4` select F401, but `E` does not select ERA001.

    `PL` stands for its four families.
    """
    if selector == "ALL" or selector == code:
        return True
    families = {_letters(selector)} | ({"PLC", "PLE", "PLR", "PLW"} if selector == "PL" else set())
    return code.startswith(selector) and _letters(code) in families


def _letters(code: str) -> str:
    return code.rstrip("0123456789")


def within(path: str, pattern: str) -> bool:
    """Whether a file is what the pattern names, or inside it: `src`, `docs/conf.py`,
    `**/migrations`, `*.pyi`.
    """
    return _compiled(pattern).fullmatch(path) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern == ".":
        return re.compile(r".*", re.DOTALL)
    pieces = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.compile(
        "".join(pieces.get(part) or re.escape(part) for part in parts) + r"(?:/.*)?", re.DOTALL
    )


def selectors(scope: TidyScope) -> list[str]:
    """Every rule that may be in scope somewhere: what ruff is asked for, before `covers` sorts it
    out.
    """
    named = {
        code for change in scope["changes"] if change["verb"] != "skip" for code in change["codes"]
    }
    return sorted(named.union(scope["select"]))


def first_scope(order_input: Mapping[str, object], own_rules: Sequence[str] = ()) -> TidyScope:
    """The scope an order asks for. Raises StepFailed for rules and paths that cannot be meant.

    Args:
        own_rules: those that the repository selects: they count where the order names none.
    """
    rules = [rule.upper() for rule in _words(order_input.get("rules"))] or list(
        own_rules or DEFAULT_RULES
    )
    for rule in rules:
        if not RULE.fullmatch(rule):
            raise StepFailed(
                f"“{rule}” is not a rule code; one looks like F401, UP or E7.", code="bad_rule"
            )
    return TidyScope(
        select=sorted(set(rules)),
        paths=sorted({clean_path(path) for path in _words(order_input.get("paths"))} - {"."}),
        changes=[],
        target_version=asked_version(order_input) or "py311",
        unsafe_fixes=bool(order_input.get("unsafe_fixes")),
    )


def asked_version(order_input: Mapping[str, object]) -> str:
    """The version that an order names, as in "py39"; "" where it leaves that to the repository."""
    asked = str(order_input.get("target_version") or "")
    return "" if asked == FROM_REPOSITORY else asked


def _words(value: object) -> list[str]:
    """From a list, or from text with commas or spaces; quotes keep a name with spaces together."""
    if isinstance(value, str):
        return [quoted or plain for quoted, plain in re.findall(r'"([^"]+)"|([^\s,;"]+)', value)]
    return [str(item) for item in value] if isinstance(value, Sequence) else []


def clean_path(path: str) -> str:
    """The path as git writes it.

    Raises StepFailed where it would leave the repository or cannot be read.
    """
    parts = [part for part in path.strip().split("/") if part not in ("", ".")]
    if (
        path.startswith(("/", "-", "~"))
        or ".." in parts
        or ".git" in parts
        or not path.isprintable()
    ):
        raise StepFailed(
            f"“{path}” is not a path inside the repository; write it like src/package.",
            code="bad_path",
        )
    if len(path) > 400 or path.count("*") > 4:
        raise StepFailed("A path may have 400 characters and four asterisks.", code="bad_path")
    return "/".join(parts) or "."


def describe(change: ScopeWish) -> str:
    codes, paths = ", ".join(change["codes"]), ", ".join(f"`{path}`" for path in change["paths"])
    begin = {"only": "only", "skip": "left out", "add": "added"}[change["verb"]]
    return f"{begin} {codes} in {paths}" if codes and paths else f"{begin} {codes or paths}"


def with_changes(scope: TidyScope, changes: Sequence[ScopeWish]) -> TidyScope:
    """Said again, a wish takes the place of its first saying, so the same words twice leave the
    same scope.
    """
    taken = list(scope["changes"])
    for change in changes:
        taken = [*(earlier for earlier in taken if earlier != change), change]
    return TidyScope(**{**scope, "changes": taken})
