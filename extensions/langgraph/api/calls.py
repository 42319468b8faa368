"""A request at work at this door, and what it is answered with."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from checkpoints.database.people import User
from hitl.live.pump import StreamRefused

Body = TypeVar("Body", bound="Given")


class Given(BaseModel):
    """A body. What this door does not know it refuses: a wish that nobody hears is worse."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request of a person's token."""

    by: User
    names: Mapping[str, str]
    """The parts of the address."""
    query: Mapping[str, str]
    data: Any = None
    """The body, as JSON."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self, kind: type[Body]) -> Body:
        """The body, read. Raises StreamRefused."""
        return read(kind, {} if self.data is None else self.data)

    def key(self, name: str) -> uuid.UUID:
        """An id of the address. Raises StreamRefused."""
        return key_of(self.names[name], name)

    def number(self, name: str, default: int, *, most: int) -> int:
        """A number of the query. Raises StreamRefused."""
        text = self.query.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise invalid(f"{name} is a number from 0.")
        return min(int(text), most)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a request is answered with."""

    data: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Streamed:
    """What a request is answered with, piece by piece."""

    frames: AsyncGenerator[list[bytes], None]
    may_stay: Callable[[], bool]
    """Whether its person may go on reading. Asked in a database thread."""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_result: bool = False
    """Whether it is one JSON document, which is not there yet."""


def read(kind: type[Body], data: Any) -> Body:
    """Read a body; null is as left out, but at `input`. Raises StreamRefused."""
    if isinstance(data, dict):
        data = {key: value for key, value in data.items() if value is not None}
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc']))[:100] or 'body'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False, include_context=False)
        ]
        raise invalid(f"Nothing was done. {'. '.join(faults[:10])}.") from error


def invalid(words: str) -> StreamRefused:
    """422: the request says what this door cannot do."""
    return StreamRefused(422, "invalid", words)


def key_of(text: Any, name: str) -> uuid.UUID:
    """An id as clients send it. Raises StreamRefused."""
    try:
        return uuid.UUID(text if isinstance(text, str) else "")
    except ValueError:
        raise invalid(f"{name} is a UUID.") from None
