"""Replace values under names of secrets before they are stored: a step that needs a secret reads it
from the environment.

**Names only.** A value is replaced by MARKER where its key is named like a secret; texts are never
searched, so a secret inside a message, a URL or a list is kept as it is.

**Which names.** A name is split into words at `-`, `_`, spaces, other signs and capitals (`apiKey`,
`API-Key`, `X_API_KEY`), and is one of a secret where the words of a setting stand in it, in any
case: `token` finds `github_token`, `accessToken`, `TOKEN`; `api_key` also finds `apikey`. Whole
words only: `tokens_used` and `secretary` are none. A name that ends by saying what it measures or
tells *about* the secret is none either (ABOUT): `next_token_count`, `token_limit`,
`password_changed_at`. Nor is one that counts what a language model read or wrote (COUNTED):
`input_tokens`, `max_tokens`.

**Which values.** All but null, true, false and what is empty: they give nothing away, and a step
may ask whether a secret was there.

No Django here: `configure` is called once at the start, with `WAYSTATION_REDACT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MARKER = "[redacted]"
"""What is kept instead. Fixed, so that the same state has the same digest."""
ABOUT = frozenset({
    "age", "at", "bytes", "chars", "cost", "count", "counts", "enabled", "expires", "expiry", "id",
    "ids", "kind", "length", "limit", "max",
    "min", "name", "number", "path", "price", "rate", "required", "seconds", "size", "status",
    "total", "ttl", "type", "usage", "used",
    "valid", "version",
})  # fmt: skip
"""Last words of names that tell of a secret without being one."""
COUNTED = frozenset(
    {
        "cache",
        "cached",
        "completion",
        "input",
        "max",
        "output",
        "prompt",
        "read",
        "reasoning",
        "total",
        "write",
    }
)
"""Words that make `tokens` behind them a number of a model's tokens."""
BY_NAME = frozenset({"decided", "decided_content", "gathered", "call_decisions"})
"""State keys of the engine's own, whose values are objects by the names of steps and child runs:
those names are no keys of a value.
"""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+")
_KNOWN_LIMIT = 10_000
SINGLE = frozenset({str, int, float, bool, type(None)})
"""Types of values that hold no others."""


class SecretNames(dict[str, bool]):
    """Name → whether it is the name of a secret; decided once per name."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._wanted = [words for words in map(_words, secrets) if words]
        self._joined = frozenset("".join(words) for words in self._wanted)
        self.below: SecretNames = self
        """The names that hold for the values inside."""
        self.by_name: SecretNames = _ByName(self)

    def __missing__(self, name: str) -> bool:
        if len(self) > _KNOWN_LIMIT:  # names may be data, such as file names
            self.clear()
        is_secret = self[name] = self._is_secret(name)
        return is_secret

    def _is_secret(self, name: str) -> bool:
        words = _words(name)
        if (
            not words
            or words[-1] in ABOUT
            or (words[-1] == "tokens" and words[-2:-1] and words[-2] in COUNTED)
        ):
            return False
        return not self._joined.isdisjoint(words) or any(
            _holds(words, wanted) for wanted in self._wanted
        )


class _ByName(SecretNames):
    """For an object by the names of steps: those are no names of secrets, but what stands below
    them may be.
    """

    def __init__(self, below: SecretNames) -> None:
        self.below = below
        self.by_name = self

    def __missing__(self, name: str) -> bool:
        return False


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _holds(words: Sequence[str], wanted: Sequence[str]) -> bool:
    return any(
        words[place : place + len(wanted)] == wanted
        for place in range(len(words) - len(wanted) + 1)
    )


_names = SecretNames(())


def configure(secrets: Sequence[str]) -> None:
    """Set the names of secrets from now on; an empty list switches redaction off."""
    global _names
    _names = SecretNames(secrets)


def names() -> SecretNames:
    return _names


def is_secret(name: str) -> bool:
    """Whether a name is the name of a secret."""
    return _names[name]


def hidden(value: Any) -> Any:
    """Give what is kept of a value under the name of a secret."""
    empty = (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, str | list | Mapping) and not value)
    )
    return value if empty else MARKER


def redact(value: Any) -> Any:
    """Give a JSON value without its secrets: the very same object where it has none."""
    if isinstance(value, dict):
        changed: dict[str, Any] = {}
        for key, old in value.items():
            if type(key) is str and _names[key]:
                new = hidden(old)
            elif type(old) in SINGLE:
                continue
            else:
                new = redact(old)
            if new is not old:
                changed[key] = new
        return {**value, **changed} if changed else value
    if isinstance(value, list):
        items = [redact(item) for item in value]
        return (
            items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        )
    return value


def found(value: Any, path: str = "") -> Iterator[str]:
    """Find the paths of the values that redaction would replace, such as `user.password`.

    `value` is a whole state, or an update of one.
    """
    for key, item in value.items():
        if key in BY_NAME and isinstance(item, Mapping):
            for name, inner in item.items():
                yield from _found_in(inner, f"{path}{key}.{name}")
        elif _names[key]:
            if hidden(item) != item:
                yield f"{path}{key}"
        else:
            yield from _found_in(item, f"{path}{key}")


def _found_in(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if _names[key]:
                if hidden(item) != item:
                    yield f"{path}.{key}"
            else:
                yield from _found_in(item, f"{path}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _found_in(item, f"{path}[{place}]")
