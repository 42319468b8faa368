"""What the tools of the MCP door say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from extensions.mcp.door.server import TOOLS, server
from runs.models import installation

KEYWORDS = {"type", "anyOf", "enum", "const", "$ref"}
"""By one of these a schema says what a value is."""


def said(shape: type[BaseModel]) -> Iterator[tuple[str, dict[str, Any]]]:
    schema = shape.model_json_schema()
    yield from schema["properties"].items()
    for name, inner in schema.get("$defs", {}).items():
        for field, value in inner.get("properties", {}).items():
            yield f"{name}.{field}", value


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_says_of_each_value_what_it_is(name):
    """Issue 21: MCP's inspector warns of values of which a schema says nothing."""
    tool = TOOLS[name]
    for shape in filter(None, (tool.takes, tool.gives)):
        loose = [field for field, value in said(shape) if not KEYWORDS & value.keys()]
        assert not loose, (shape, loose)


def test_the_server_says_which_version_it_is():
    assert server.version == installation.version() != ""
