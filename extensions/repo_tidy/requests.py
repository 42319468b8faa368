"""Reads a reviewer's words about rules and paths: "skip UP007 and E711 in tests/; only src/".

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import zip_longest

from extensions.repo_tidy.scope import (
    ScopeWish,
    TidyScope,
    Verb,
    clean_path,
    describe,
    selects,
    with_changes,
)
from runs.workflows import StepFailed

LONGEST = 10_000
_NEGATIONS = {"not", "no", "dont", "never", "cannot"}
_VERBS: dict[str, Verb] = {
    **dict.fromkeys(
        [
            "skip",
            "without",
            "except",
            "exclude",
            "excluding",
            "ignore",
            "ignoring",
            "leave",
            "drop",
            "remove",
            "omit",
            "minus",
            "avoid",
        ],
        "skip",
    ),
    **dict.fromkeys(["only", "just", "solely", "limit", "restrict", "narrow"], "only"),
    **dict.fromkeys(["add", "also", "include", "including", "plus", "widen", "with"], "add"),
    **dict.fromkeys(_NEGATIONS, "skip"),
}
_ACTIONS = {
    "lint",
    "clean",
    "fix",
    "apply",
    "do",
    "touch",
    "change",
    "tidy",
    "run",
    "use",
}  # after a verb they add nothing; alone they mean "add"
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        "a all again alone an and any anything are as at be but can changes check code codes "
        "directories directory everything"
        " everywhere file files find finding findings fixed fixes folder folders for from have i "
        "in inside it its keep let like now of"
        " on or out path paths plan please project repo repository rest rule rules same should "
        "so stay than thank thanks that the them"
        " then there these things this those to too under us want we well what within would up "
        "you your",
    )
)
_TIDY = re.compile(r"\b(?:tid(?:y|ies|ying)|lint(?:ing)?|ruff|clean[ -]?up)\b", re.IGNORECASE)
"""Words that ask for what a tidy-up does anyway."""
_PLACES = {"in", "inside", "within", "under", "from", "of", "at", "for", "on"}
_JOINTS = {
    "and",
    "or",
    "but",
    "in",
    "inside",
    "under",
    "from",
    "for",
    "rule",
    "rules",
    "findings",
    "fixes",
    "too",
    "then",
    "please",
}
_TOKEN = re.compile(r"""(?P<quoted>"[^"\n]+"|`[^`\n]+`)|(?P<word>[^\s,;"`]+)|(?P<stop>;)""")


@dataclass
class _RequestReader:
    known_codes: Collection[str]
    exists: Callable[[str], bool]
    changes: list[ScopeWish] = field(default_factory=list)
    not_understood: list[str] = field(default_factory=list)
    verb: Verb | None = None
    # the verb is a bare "not": a verb that follows turns it round ("do not skip")
    negated: bool = False
    # "in" was read after codes: the paths that follow say where, else they are wishes of their own
    located: bool = False
    actions_mean: Verb = "add"  # what "fix F401" asks for
    codes: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    # words taken for paths though they are written as any other word
    bare: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def end_clause(self) -> None:
        while self.unknown and self.unknown[-1].lower() in _FILLERS:
            self.unknown.pop()
        # "do not break security": a folder of that name is not what is meant
        if self.bare and self.unknown and not self.codes:
            self.unknown, self.paths = [*self.bare, *self.unknown], []
        if self.verb and (self.codes or self.paths):
            self.changes += _changes(self.verb, self.codes, self.paths)
        elif self.codes or self.paths:
            # "F401" alone: skip it, or only it?
            self.unknown = [*self.codes, *self.paths, *self.unknown]
        if self.unknown:
            self.not_understood.append(" ".join(self.unknown))
        self.codes, self.paths, self.bare, self.unknown, self.located = [], [], [], [], False

    def take_verb(self, word: str) -> None:
        verb = _VERBS[word]
        if self.negated and not self.codes and not self.paths:
            self.verb = "skip" if verb == "add" or word in _NEGATIONS else "add"
        else:
            self.end_clause()
            self.verb = verb
        self.negated = word in _NEGATIONS

    def take_action(self) -> None:
        if self.codes or self.paths or self.verb is None:
            self.end_clause()
            self.verb = self.actions_mean
        self.negated = False

    def take_code(self, code: str) -> None:
        if self.paths and self.verb:  # "skip F401 in tests/, E711": a new clause of the same verb
            self.end_clause()
        self.negated = False
        self.codes.append(code)

    def take_path(self, word: str) -> None:
        """`word` has the shape of a path, or is one."""
        try:
            path = clean_path(word)
        except StepFailed:
            self.not_understood.append(f"{word} (not a path inside the repository)")
            return
        anywhere = f"**/{path}"
        # A bare name left out is left out at any depth; taken in, it is the one at the top if there
        # is one.
        names = [
            name
            for name in (
                [anywhere, path] if self.verb == "skip" and "/" not in path else [path, anywhere]
            )
            if self.exists(name)
        ]
        if not names:
            self.not_understood.append(f"{word} (not in the repository)")
            return
        if self.codes and not self.located and self.verb:  # "skip F401, tests/"
            self.end_clause()
        self.negated = False
        self.paths.append(names[0])


def apply_feedback(
    scope: TidyScope, text: str, *, known_codes: Collection[str], exists: Callable[[str], bool]
) -> tuple[TidyScope, list[str], list[str]]:
    """The scope after a reviewer's words, what was understood, and what was not: two lists of short
    texts.

    Args:
        known_codes: full codes of all rules, such as `F401`; their prefixes are understood too.
        exists: whether a file of the repository is within a pattern.
    """
    changes, not_understood = read_changes(text, known_codes=known_codes, exists=exists)
    return with_changes(scope, changes), [describe(change) for change in changes], not_understood


def read_request(
    scope: TidyScope, text: str, *, known_codes: Collection[str], exists: Callable[[str], bool]
) -> tuple[TidyScope, list[str], list[str]] | None:
    """As `apply_feedback`, of the words of an order: "fix F401 in src/" means only that.

    None where nothing of them is understood.
    """
    changes, not_understood = read_changes(
        text, known_codes=known_codes, exists=exists, actions_mean="only"
    )
    applied = [describe(change) for change in changes]
    if not changes:
        if not _TIDY.search(text):
            return None
        applied = ["tidy, by the rules and in the places that the order names"]
    return with_changes(scope, changes), applied, not_understood


def read_changes(
    text: str,
    *,
    known_codes: Collection[str],
    exists: Callable[[str], bool],
    actions_mean: Verb = "add",
) -> tuple[list[ScopeWish], list[str]]:
    """The wishes in a reviewer's words, in their order, and the words that were none."""
    reader = _RequestReader(known_codes, exists, actions_mean=actions_mean)
    tokens = list(_TOKEN.finditer(text[:LONGEST]))
    for token, following in zip_longest(tokens, tokens[1:]):
        if token["quoted"]:
            reader.take_path(token["quoted"][1:-1])
        elif token["stop"]:
            reader.end_clause()
            reader.verb = None
        else:
            _read_word(reader, token["word"], following["word"] if following else None)
    reader.end_clause()
    return reader.changes, [
        *reader.not_understood,
        *(["… (too long; the rest was not read)"] if len(text) > LONGEST else []),
    ]


def _read_word(reader: _RequestReader, raw: str, following: str | None) -> None:
    word = raw.strip("()[]{}:!?'“”‘’«»").rstrip(".…") or raw
    plain = re.sub(r"['’]", "", word.lower())
    sentence_ends = raw.endswith((".", "!", "?")) and not reader.exists(raw)
    if (code := _code(word, plain, reader, following)) is not None:
        reader.take_code(code)
    elif _looks_like_path(word):
        reader.take_path(word)
    elif plain in _VERBS:
        reader.take_verb(plain)
    elif plain in _ACTIONS:
        reader.take_action()
    elif re.fullmatch(r"[A-Za-z]{1,5}[0-9]{1,4}", word) and not reader.exists(word):
        reader.not_understood.append(f"{word} (no rule that ruff knows)")
    elif plain in _FILLERS or not re.search(r"\w", word):
        reader.located |= plain in _PLACES
        # said back as it was written: "make it nice"
        reader.unknown += [word] if reader.unknown else []
    elif reader.verb and (reader.exists(word) or reader.exists(f"**/{word}")):
        if reader.verb == "skip" or reader.located:
            reader.bare.append(word)
            reader.take_path(word)
        else:  # "add security" may ask for anything
            reader.not_understood.append(f"{word} (if you mean the files there, write {word}/)")
    else:
        reader.unknown.append(word)
    if sentence_ends:
        reader.end_clause()
        reader.verb = None


def _code(word: str, plain: str, reader: _RequestReader, following: str | None) -> str | None:
    """The rule code or prefix that a word is.

    A prefix of letters alone must be written in capitals, for "up" is also a word.
    """
    code = word.upper()
    if not re.fullmatch(r"[A-Z]{1,5}[0-9]{0,4}", code):
        return None
    if word.isalpha() and (word != code or plain in _VERBS):
        return None
    if code in ("A", "I") and (reader.verb is None or _is_prose(following)):
        return None  # "I would", "A better …"
    return (
        code if code == "ALL" or any(selects(code, known) for known in reader.known_codes) else None
    )


def _is_prose(word: str | None) -> bool:
    return (
        word is not None and word.isalpha() and word.islower() and word not in {*_JOINTS, *_VERBS}
    )


def _looks_like_path(word: str) -> bool:
    return "/" in word or "*" in word or word.endswith((".py", ".pyi"))


def _changes(verb: Verb, codes: list[str], paths: list[str]) -> list[ScopeWish]:
    """`only F401 in src` is two wishes, the others are one."""
    codes, paths = sorted(set(codes)), sorted(set(paths))
    if verb == "only" and codes and paths:
        return [
            ScopeWish(verb=verb, codes=codes, paths=[]),
            ScopeWish(verb=verb, codes=[], paths=paths),
        ]
    return [ScopeWish(verb=verb, codes=codes, paths=paths)]
