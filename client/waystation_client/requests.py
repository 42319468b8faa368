"""One request as data, so that both clients send the same ones; and when it may be sent again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar
from urllib.parse import quote

T_co = TypeVar("T_co", covariant=True)

KEY = "Idempotency-Key"
SAFE = {"GET", "HEAD"}
PASSING = {429, 502, 503, 504}
"""Answers that say nothing was looked at, or that nobody could be asked: another try may help."""
IN_PROGRESS = "idempotency_in_progress"
LONGEST_DELAY = 60.0
"""Seconds before another try, whatever `Retry-After` says."""


@dataclass(frozen=True, slots=True)
class Request(Generic[T_co]):
    """What is asked of the server, which answers with a `T_co`."""

    method: str
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    body: object = None

    @property
    def parameters(self) -> dict[str, str]:
        """The query as it is sent: without what was not given."""
        return {name: _text(value) for name, value in self.query.items() if value is not None}

    def asking(self, words: Mapping[str, object]) -> Request[T_co]:
        """The same with further words in its query; the server refuses those that it does not
        know.
        """
        given = {name: value for name, value in self.query.items() if value is not None}
        return replace(self, query={**words, **given})


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def address(path: str, *names: str) -> str:
    """A path with its names filled in, each as one segment."""
    for name in names:
        if name in {"", ".", ".."}:
            raise ValueError(f"{name!r} names nothing.")
        head, _, rest = path.partition("{")
        path = head + quote(name, safe="").replace("{", "%7B") + rest.partition("}")[2]
    return path


def delay(tried: int, *, told: float | None = None, jitter: float | None = None) -> float:
    """Seconds before the next try: what the server says, else 0.25, 0.5, 1 … with jitter."""
    if told is not None:
        return min(max(told, 0.0), LONGEST_DELAY)
    share = random.random() if jitter is None else jitter  # noqa: S311  # spreads tries, no secret
    return float(min(0.25 * 2 ** (tried - 1), 10.0) * (0.5 + share / 2))
