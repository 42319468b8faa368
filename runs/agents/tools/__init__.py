"""The tools that agents may call, and how others are registered."""

from runs.agents.tools.registry import (
    MAX_ARGUMENTS,
    MAX_RESULT,
    Tool,
    ToolFailed,
    ToolUse,
    UnknownTool,
    as_call,
    call,
    find,
    names,
    quoted,
    read_arguments,
    schema_of,
    tool,
)

__all__ = [
    "MAX_ARGUMENTS",
    "MAX_RESULT",
    "Tool",
    "ToolFailed",
    "ToolUse",
    "UnknownTool",
    "as_call",
    "call",
    "find",
    "names",
    "quoted",
    "read_arguments",
    "schema_of",
    "tool",
]
