"""For tests of tools: what a tool gets besides its arguments, outside the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runs.agents.tools import ToolUse
from runs.workflows.base import Context, Order, Told


def context(
    *, config: Mapping[str, Any] | None = None, check_command: tuple[str, ...] = (), **more: Any
) -> Context:
    """A step's context that keeps nothing."""
    order = Order(
        id="wo_1",
        title="",
        request="",
        input={},
        repository_url="",
        branch="waystation/wo_1",
        check_command=check_command,
    )
    given = {"workspace": None, **more}
    return Context(
        run_id="run_1", step="agent", loop_num=1, key="run_1/agent/1", config=config or {},
        order=order,
        log=lambda *_, **__: None, once=_once, check=lambda: None, **given,
    )  # fmt: skip


def _once(
    key: str,
    function: Callable[[], Any],
    *,
    tell: Callable[[Any], Told] | None = None,
    optional: bool = False,
) -> Any:
    return function()


def use(call_id: str = "call_1", state: Mapping[str, Any] | None = None, **more: Any) -> ToolUse:
    return ToolUse(context=context(**more), call_id=call_id, state=state or {})
