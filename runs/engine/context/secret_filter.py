"""Secrets that a run was given are not in what it writes: wherever one stands, to the letter or
encoded, there is a marker.

Names of secrets are `checkpoints.state.redaction`'s business; this is about values, which a step
may put into any text: an error of a library that quotes a header, a model that repeats what it was
told. How a value may be written is `runs.processes.secret_encodings`; a cut one is not found.

Cost, as measured, for each 100 KiB that a run writes: 0.1 ms with one token of 50 characters (8
texts to look for), 0.25 ms with three, 0.4 ms with a password full of odd characters (37 texts); up
to ten times that where the 100 KiB are 2,000 strings. Learning takes 0.5 ms, of a private key 8 ms.
All of it grows with the length of what is written, whatever stands in it.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from checkpoints.state.redaction import MARKER
from runs.processes import secret_encodings
from runs.processes.secret_encodings import Form


class SecretFilter:
    """Replaces the secrets that it knows in any value; gives the very same object where none of
    them is in it.
    """

    def __init__(self) -> None:
        self._secrets: tuple[str, ...] = ()
        self._forms: tuple[Form, ...] = ()
        """What may stand for one of them, the longest first.

        Each is looked for by itself, which is quicker than one pattern of all.
        """

    def __repr__(self) -> str:
        return f"<Scrub of {len(self._secrets)}>"

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def learn(self, secret: str) -> None:
        if secret not in self._secrets:
            self._secrets = (*self._secrets, secret)
            forms = dict.fromkeys((*self._forms, *secret_encodings.forms(secret)))
            self._forms = tuple(sorted(forms, key=lambda form: len(form.text), reverse=True))

    def __call__(self, value: Any) -> Any:
        """A value without the secrets: texts, and all that lists, objects and dataclasses hold;
        keys too.
        """
        return self._scrubbed(value) if self._secrets else value

    def _scrubbed(self, value: Any) -> Any:
        if isinstance(value, str):
            for form in self._forms:
                if form.text in value:
                    value = re.sub(form.pattern, MARKER, value)
            return value
        if isinstance(value, Mapping):
            pairs = [(self._scrubbed(key), self._scrubbed(item)) for key, item in value.items()]
            same = all(
                key is old and item is value[old]
                for (key, item), old in zip(pairs, value, strict=True)
            )
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
        return max((_overlap(text, form.text) for form in self._forms), default=0)


def _overlap(text: str, form: str) -> int:
    """How many characters at the end of a text are the beginning of a form, but not all of it."""
    place = text.find(form[0], max(0, len(text) - len(form) + 1))
    while place >= 0 and not form.startswith(text[place:]):
        place = text.find(form[0], place + 1)
    return len(text) - place if place >= 0 else 0


class PiecewiseFilter:
    """What a step says piece by piece: an end that may begin a secret is held back until the next
    piece tells.
    """

    def __init__(self, scrub: SecretFilter, say: Callable[[str], None]) -> None:
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
