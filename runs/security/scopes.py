"""What a token is for: its scope, what each scope allows, and the scope of the token that acts just
now. See docs/reference/tokens.md.

A view names beside `write` the scopes that its unsafe methods (`may_act`) and its safe ones
(`may_read`) take; `hitl.http.authentication` reads both. Where one door both answers and starts,
`check_answer` and `check_start` are asked at the place that does it, and `decide` asks once more:
so a door that forgets its scopes still takes no answer from a token that may only ask.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.db.models import TextChoices


class Scope(TextChoices):
    READ = "read", "Read"
    ASK = "ask", "Ask: start work and read your own; never answer"
    ANSWER = "answer", "Answer: read questions and answer them; never start work"
    WRITE = "write", "Read, start and answer"


ASKS = (Scope.ASK,)
ANSWERS = (Scope.ANSWER,)
EITHER = (Scope.ASK, Scope.ANSWER)
"""What the attributes of views hold; each comes beside `write`."""


class ScopeMissing(Exception):
    """The token is not for this; nothing was done."""

    code = "scope_missing"


class AskCannotAnswer(ScopeMissing):
    """A program that asks does not answer."""

    code = "scope_ask_cannot_answer"

    def __init__(self) -> None:
        super().__init__(
            "This token may ask, so it answers no question, least of all its own. Nothing "
            "was decided: let a person answer."
        )


class OwnQuestion(ScopeMissing):
    """A token answers no question that it asked itself, whatever its scope."""

    code = "own_question"

    def __init__(self) -> None:
        super().__init__(
            "This token asked the question, so it does not answer it. Nothing was decided: let a "
            "person answer."
        )


def refusal(scope: str, needed: Iterable[str]) -> ScopeMissing | None:
    """Why a token of this scope is refused where these are needed; None where it is not."""
    allowed = {*needed, Scope.WRITE.value}
    if scope in allowed:
        return None
    if scope == Scope.ASK and Scope.ANSWER in allowed:
        return AskCannotAnswer()
    if scope == Scope.READ:
        return ScopeMissing("This token may only read. Nothing was changed.")
    return ScopeMissing(
        f"This token has the scope {scope}, and this needs {' or '.join(sorted(allowed))}. "
        "Nothing was done."
    )


@dataclass(frozen=True)
class _ActingToken:
    scope: str
    key: uuid.UUID | None


_acting: ContextVar[_ActingToken | None] = ContextVar("acting", default=None)


@contextmanager
def acting(scope: str | None, token: uuid.UUID | None = None) -> Iterator[None]:
    """What is done meanwhile is done by this token, of this scope; None: by a person, or by the
    server itself.
    """
    before = _acting.set(None if scope is None else _ActingToken(scope, token))
    try:
        yield
    finally:
        _acting.reset(before)


def enter(scope: str, token: uuid.UUID) -> None:
    """A token was recognised: what the request does from here on, it does.

    Inside of `acting`, which ends it.
    """
    _acting.set(_ActingToken(scope, token))


def acting_token() -> uuid.UUID | None:
    """The key of the token that acts just now; None where none does."""
    acts = _acting.get()
    return None if acts is None else acts.key


def check_read() -> None:
    """Raise ScopeMissing where a token acts that may only answer."""
    _check((Scope.READ, Scope.ASK))


def check_answer() -> None:
    """Raise ScopeMissing where a token acts that may not answer."""
    _check(ANSWERS)


def check_start(*, steers: bool = False) -> None:
    """Raise ScopeMissing where a token acts that may not start work; or, to go on from an earlier
    point (`steers`), not do that.
    """
    _check(() if steers else ASKS)


def _check(needed: Iterable[str]) -> None:
    acts = _acting.get()
    refused = None if acts is None else refusal(acts.scope, needed)
    if refused is not None:
        raise refused


def asks() -> bool:
    """Whether a token acts that asks, and so gets its person's own alone."""
    acts = _acting.get()
    return acts is not None and acts.scope == Scope.ASK


def own(found: Any, **owner: Any) -> Any:
    """The rows of a list that a token may see: of one that asks, those that this lookup finds to be
    its person's own.
    """
    return found.filter(**owner) if asks() else found
