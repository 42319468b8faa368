"""The tools that agents may call: registered by name, described by JSON Schema, called with what
the model wrote if that fits.

    @tool(
        "send_letter",
        description="Send a letter.",
        parameters=SCHEMA,
        risk="high",
        editable=["/text"],
    )
    def send_letter(arguments: Mapping[str, Any], use: ToolUse) -> Any:
        return post_office.send(arguments["text"], idempotency_key=use.key)

A tool may be called again after a crash between its work and the record of it: it hands `use.key`
to whatever it calls outside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from runs.agents.approval import ApprovalRule
from runs.workflows import refusals, schemas
from runs.workflows.base import Context
from runs.workflows.tool_calls import RISKS, Call

MAX_ARGUMENTS = 512 * 1024
"""Bytes of a call's arguments."""
MAX_RESULT = 256 * 1024
"""Bytes of what a call gives."""
DEEPEST = 64
"""Values inside values."""
LONGEST_DESCRIPTION = 1_000
LONGEST_PREVIEW = 20_000
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""What every maker of models takes."""


class ToolFailed(Exception):
    """A tool could not do what was asked, and says why: the words are told to the model, which may
    try something else.

    Any StepFailed that a tool raises ends the run instead.
    """

    code = "tool_failed"


class UnknownTool(ToolFailed):
    """There is no tool of that name."""

    code = "unknown_tool"


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """What a tool gets besides its arguments."""

    context: Context
    call_id: str
    """The model's own id of the call."""
    state: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The run's state as the loop found it, read-only."""

    @property
    def key(self) -> str:
        """The same at every attempt of this call."""
        return f"{self.context.key}/{self.call_id}"

    def credential(self, name: str, *, to: str = "") -> str:
        """See `runs.workflows.base.GiveCredential`."""
        return self.context.credential(name, to=to)


Function = Callable[[Mapping[str, Any], ToolUse], Any]
Preview = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool as it is registered."""

    name: str
    description: str
    """For the model."""
    parameters: Mapping[str, Any]
    """JSON Schema of an object, as `schemas.check_inputs` keeps it."""
    function: Function
    approval: Sequence[ApprovalRule] = ()
    risk: Literal["low", "normal", "high"] = "normal"
    editable: Sequence[str] = ()
    """JSON pointers of what a person may change in the arguments before the call is made; "" is all
    of them.
    """
    answerable: bool = True
    """Whether a person who is asked about a call may give its result in the tool's place."""
    preview: Preview | None = None
    """Markdown for whoever decides the call: what it would do."""
    doubt: Callable[[ToolUse], str] | None = None
    """Says why a person must look at a call whatever the rules say; "" where nothing speaks for it.
    Asked before each call; raises ToolFailed."""
    in_workspace: bool = False
    """Reads and changes the run's workspace only.

    That is put back to the last checkpoint before a loop begins anew, so such a call is made
    again then, in its old order, and its result is never taken from `Context.once`."""


_TOOLS: dict[str, Tool] = {}


def tool(
    name: str,
    *,
    description: str,
    parameters: Mapping[str, Any],
    approval: Sequence[ApprovalRule] = (),
    risk: Literal["low", "normal", "high"] = "normal",
    editable: Sequence[str] = (),
    answerable: bool = True,
    preview: Preview | None = None,
    doubt: Callable[[ToolUse], str] | None = None,
    in_workspace: bool = False,
) -> Callable[[Function], Function]:
    """Register a function as a tool.

    Raises ValueError for a name that is taken or none, schemas.SchemaRefused for the parameters.
    """
    if not _NAME.fullmatch(name) or risk not in RISKS or len(description) > LONGEST_DESCRIPTION:
        raise ValueError(
            f"{name!r}: a tool has a name of a-z, 0-9 and _, a risk of {RISKS}, and up to "
            f"{LONGEST_DESCRIPTION} characters"
        )

    def register(function: Function) -> Function:
        made = Tool(
            name=name,
            description=description,
            parameters=schemas.check_inputs(dict(parameters)),
            function=function,
            approval=tuple(approval),
            risk=risk,
            editable=tuple(editable),
            answerable=answerable,
            preview=preview,
            doubt=doubt,
            in_workspace=in_workspace,
        )
        if _TOOLS.setdefault(name, made).function is not function:
            raise ValueError(f"two tools are called {name!r}")
        return function

    return register


def find(name: str) -> Tool:
    """The tool of that name; raises UnknownTool."""
    if name not in _TOOLS:
        raise UnknownTool(f"There is no tool {refusals.in_json(name, 80)}.")
    return _TOOLS[name]


def names() -> list[str]:
    """Every tool's name, in order."""
    return sorted(_TOOLS)


def schema_of(tool: Tool) -> dict[str, Any]:
    """What a model is told of a tool: `{"name", "description", "parameters"}`."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": schemas.for_others(tool.parameters),
    }


def read_arguments(tool: Tool, written: str | Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as a model wrote them, if they are JSON that the tool takes; raises ToolFailed
    with what to mend.
    """
    text = written if isinstance(written, str) else _text(written)
    if len(text) > MAX_ARGUMENTS or len(text.encode(errors="replace")) > MAX_ARGUMENTS:
        raise ToolFailed(
            f"The arguments of {tool.name} are too long: up to {MAX_ARGUMENTS:,} bytes are taken."
        )
    try:
        given = json.loads(text or "{}", parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ToolFailed(f"The arguments of {tool.name} are no JSON: {str(error)[:200]}") from None
    if not isinstance(given, dict):
        raise ToolFailed(f"The arguments of {tool.name} must be a JSON object.")
    if _depth(given) > DEEPEST:
        raise ToolFailed(f"The arguments of {tool.name} are nested deeper than {DEEPEST} levels.")
    if faults := schemas.validate_resume_payload(tool.parameters, given, longest=MAX_ARGUMENTS):
        problems = refusals.as_text({place or "arguments": faults[place] for place in faults})
        raise ToolFailed(f"The arguments of {tool.name} do not fit: {problems[:2_000]}")
    return given


def _text(arguments: Mapping[str, Any]) -> str:
    try:
        return json.dumps(arguments, default=_as_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolFailed(f"The arguments are no JSON: {str(error)[:200]}") from None


def _as_plain(value: Any) -> Any:
    """A state's read-only containers as JSON has them."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


def _depth(value: Any) -> int:
    """How deep a JSON value is, counted without recursion."""
    depth, level = 0, [value]
    while level:
        inner = [
            part
            for value in level
            for part in (
                value.values()
                if isinstance(value, dict)
                else value
                if isinstance(value, list)
                else ()
            )
        ]
        depth, level = depth + 1, inner
    return depth


def call(tool: Tool, written: str | Mapping[str, Any], use: ToolUse) -> Any:
    """Call a tool and give its result, a JSON value; raises ToolFailed, and whatever ends the
    run.
    """
    result = tool.function(read_arguments(tool, written), use)
    try:
        size = len(json.dumps(result, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the tool {tool.name} gave no JSON value: {str(error)[:200]}") from error
    if size > MAX_RESULT:
        raise ToolFailed(
            f"What {tool.name} gave has {size:,} bytes; up to {MAX_RESULT:,} are taken. Ask "
            "for less at once."
        )
    return result


def as_call(tool: Tool, call_id: str, arguments: Mapping[str, Any]) -> Call:
    """The call as a person decides it. `arguments` are as `read_arguments` gave them."""
    preview = tool.preview(arguments)[:LONGEST_PREVIEW] if tool.preview else ""
    return Call(
        id=call_id,
        tool=tool.name,
        arguments=arguments,
        preview=preview,
        risk=tool.risk,
        editable=tool.editable,
        schema=tool.parameters,
        answerable=tool.answerable,
    )


def quoted(text: str, *, language: str = "") -> str:
    """A text of a model's as Markdown that shows it to the letter: no mark of its own ends the
    block.
    """
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"
