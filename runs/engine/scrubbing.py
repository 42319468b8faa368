"""Secrets that a run was given are not in what it writes: wherever one stands to the letter, there is a marker.

Names of secrets are `checkpoints.redaction`'s business; this is about values, which a step may put into any text: an error of a library
that quotes a header, a model that repeats what it was told. Only the value itself is looked for: an encoded or cut one is not found.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from checkpoints.redaction import MARKER


class Scrub:
    """Replaces the secrets that it knows in any value; gives the very same object where none of them is in it."""

    def __init__(self) -> None:
        self._secrets: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None

    def __repr__(self) -> str:
        return f"<Scrub of {len(self._secrets)}>"

    def __bool__(self) -> bool:
        return self._pattern is not None

    def learn(self, secret: str) -> None:
        if secret not in self._secrets:
            self._secrets = tuple(sorted((*self._secrets, secret), key=len, reverse=True))  # of two, the longer is found first
            self._pattern = re.compile("|".join(map(re.escape, self._secrets)))

    def __call__(self, value: Any) -> Any:
        """A value without the secrets: texts, and all that lists, objects and dataclasses hold; keys too."""
        return value if self._pattern is None else self._scrubbed(value)

    def _scrubbed(self, value: Any) -> Any:
        if isinstance(value, str):
            assert self._pattern is not None
            return self._pattern.sub(MARKER, value) if self._pattern.search(value) else value
        if isinstance(value, Mapping):
            pairs = [(self._scrubbed(key), self._scrubbed(item)) for key, item in value.items()]
            same = all(key is old and item is value[old] for (key, item), old in zip(pairs, value, strict=True))
            return value if same else dict(pairs)
        if isinstance(value, list | tuple):
            items = [self._scrubbed(item) for item in value]
            same = all(new is old for new, old in zip(items, value, strict=True))
            return value if same else items
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            old = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            new = {name: self._scrubbed(item) for name, item in old.items()}
            changed = {name: item for name, item in new.items() if item is not old[name]}
            return dataclasses.replace(value, **changed) if changed else value
        return value

    def begun(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a secret."""
        longest = max(map(len, self._secrets), default=0)
        ends = range(min(longest - 1, len(text)), 0, -1)
        return next((size for size in ends if any(secret.startswith(text[-size:]) for secret in self._secrets)), 0)


class Said:
    """What a step says piece by piece: an end that may begin a secret is held back until the next piece tells."""

    def __init__(self, scrub: Scrub, say: Callable[[str], None]) -> None:
        self._scrub, self._say = scrub, say
        self._held = ""
        self._turn = threading.Lock()

    def add(self, text: str) -> None:
        with self._turn:
            whole = self._scrub(self._held + text)
            held = self._scrub.begun(whole)
            self._held = whole[len(whole) - held :]
            self._say(whole[: len(whole) - held])

    def flush(self) -> None:
        """Say what was held back: something else follows."""
        with self._turn:
            held, self._held = self._held, ""
            self._say(held)

    def close(self) -> None:
        self.flush()
