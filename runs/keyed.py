"""What a request that names an `Idempotency-Key` makes: said in the transaction that makes it, so
that the key is used up with it.

The request's key is a row that `hitl.http.idempotency` writes when `made` is called: both are
committed, or neither. Of two requests with one key the second finds the row taken, and all that its
own transaction wrote is undone. Outside of such a request `made` does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol


class KeyTaken(Exception):
    """Another request with the same key was carried out meanwhile.

    Nothing of this one was done; the other one's answer counts.
    """

    code = "idempotency_in_progress"


class RequestKey(Protocol):
    """The key of the request at work."""

    def make(self, shown_id: str) -> None:
        """Write the key's row, with what is made under it, in the open transaction.

        Raises KeyTaken.
        """


_claim: ContextVar[RequestKey | None] = ContextVar("claim", default=None)


def made(shown_id: str) -> None:
    """Use the request's key up for what is being made.

    Call inside the transaction that makes it. Raises KeyTaken.

    Args:
        shown_id: what is made, as the API names it; of a change, what is changed.
    """
    claim = _claim.get()
    if claim is not None:
        claim.make(shown_id)


def is_named() -> bool:
    """Whether the request at work named a key."""
    return _claim.get() is not None


@contextmanager
def at_work(claim: RequestKey | None) -> Iterator[None]:
    """Have what is made meanwhile belong to this key; with None to none: a request that does many
    things apart is done again as a whole, and each of them refuses to be done twice.
    """
    token = _claim.set(claim)
    try:
        yield
    finally:
        _claim.reset(token)


@dataclass(frozen=True)
class _Both:
    outer: RequestKey
    inner: RequestKey

    def make(self, shown_id: str) -> None:
        self.outer.make(shown_id)
        self.inner.make(shown_id)


@contextmanager
def alongside(claim: RequestKey) -> Iterator[None]:
    """Have what is made meanwhile belong to this key too, beside the request's own."""
    outer = _claim.get()
    with at_work(claim if outer is None else _Both(outer, claim)):
        yield
