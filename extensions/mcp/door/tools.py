"""A tool, and a call of one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import anyio
from pydantic import BaseModel, ConfigDict

from hitl.live.topics import in_database_thread
from hitl.models import ApiToken
from runs.security import scopes

P = ParamSpec("P")
T = TypeVar("T")
PROGRESS_EVERY = 15.0
"""Seconds between two lines of progress: hosts give up on a call that says nothing for minutes."""


class Arguments(BaseModel):
    """The arguments of a tool; the docstring of each is the tool's description."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class ToolCall:
    """A call at work, by the token that makes it."""

    token: ApiToken
    address: Mapping[str, str]
    """What stands in the query of this door's address: `team`, `reviewers`, `deadline`."""
    report_progress: Callable[[float], Awaitable[None]]
    as_task: bool = False
    """What waits is told at once: the client asks again by itself."""

    async def do(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that uses the database, as this token."""

        def act() -> T:
            with scopes.acting(self.token.scope, self.token.pk):
                return function(*args, **kwargs)

        result: T = await in_database_thread(act)()
        return result

    async def reporting(self, waiting: Awaitable[Any]) -> Any:
        """Wait, and say every few seconds that the call goes on."""

        async def beat() -> None:
            begun = asyncio.get_running_loop().time()
            while True:
                await asyncio.sleep(PROGRESS_EVERY)
                await self.report_progress(asyncio.get_running_loop().time() - begun)

        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            result = await waiting
            group.cancel_scope.cancel()
        return result


@dataclass(frozen=True)
class Tool:
    name: str
    takes: type[Arguments]
    gives: type[BaseModel] | None
    """None: one block of text, which `run` gives."""
    scopes: tuple[str, ...]
    """Which tokens use it, beside those that may write."""
    run: Callable[[ToolCall, Any], Awaitable[Any]]
    reads: bool = False
    """It changes nothing."""
    repeatable: bool = True
    """The same call again does nothing more."""
    fails: Callable[[str], str] | None = None
    """What it gives in place of an error, in these words."""

    @property
    def description(self) -> str:
        return " ".join((self.takes.__doc__ or "").split())
