"""The registry of tools: what a model may hand in, what a tool may give, and how a call is shown to
who decides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from runs.agents import tools
from runs.agents.tools import ToolFailed, ToolUse, UnknownTool, registry, tool
from runs.workflows import schemas, tool_calls
from runs.workflows.schemas import SchemaRefused
from tests.worlds.tool_context import use

pytestmark = pytest.mark.one_database

PARAMETERS = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "to": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["text"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_TOOLS", {})


def letter(**more: Any) -> tools.Tool:
    @tool("letter", description="Write a letter.", parameters=PARAMETERS, **more)
    def write(arguments: Mapping[str, Any], use: ToolUse) -> Any:
        return {"sent": arguments["text"], "key": use.key}

    return tools.find("letter")


def test_a_tool_is_called_with_what_the_model_wrote_and_knows_its_idempotency_key() -> None:
    assert tools.call(letter(), '{"text": "hello"}', use(call_id="c1")) == {
        "sent": "hello",
        "key": "run_1/agent/1/c1",
    }
    assert tools.call(tools.find("letter"), {"text": "hello"}, use())["sent"] == "hello"


@pytest.mark.parametrize(
    "written",
    [
        "", "[]", "null", '"text"', "{", '{"text": 1}', '{"text": "a", "cc": "b"}', '{"text": NaN}',
        '{"text": 1e999}', "{'text': 'a'}",
        '{"text": "\\ud800"}', '{"text": "a", "to": ' + "[" * 70 + "]" * 70 + "}", "[" * 100_000,
        '{"text": ' + "9" * 5_000 + "}",
    ],
)  # fmt: skip
def test_arguments_that_are_no_json_or_do_not_fit_are_told_to_the_model(written: str) -> None:
    """F6: malformed tool JSON ends in words for the model, never in a crash."""
    with pytest.raises(ToolFailed, match="letter"):
        tools.call(letter(), written, use())


@pytest.mark.parametrize(
    "written",
    [
        '{"text": "' + "x" * tools.MAX_ARGUMENTS + '"}',
        '{"text": "' + "ü" * (tools.MAX_ARGUMENTS // 2) + '"}',
    ],
)
def test_arguments_beyond_the_limit_are_refused(written: str) -> None:
    """F6."""
    with pytest.raises(ToolFailed, match="too long"):
        tools.read_arguments(letter(), written)
    with pytest.raises(ToolFailed, match="too long"):
        tools.read_arguments(tools.find("letter"), {"text": "x" * tools.MAX_ARGUMENTS})


def test_what_a_tool_gives_is_bounded_json() -> None:
    @tool("much", description="Too much.", parameters={"type": "object"})
    def much(arguments: Mapping[str, Any], use: ToolUse) -> Any:
        return "x" * tools.MAX_RESULT

    @tool("odd", description="No JSON.", parameters={"type": "object"})
    def odd(arguments: Mapping[str, Any], use: ToolUse) -> Any:
        return {1, 2}

    with pytest.raises(ToolFailed, match="Ask for less"):
        tools.call(tools.find("much"), {}, use())
    with pytest.raises(TypeError, match="odd gave no JSON"):
        tools.call(tools.find("odd"), {}, use())


def test_an_unknown_tool_is_a_failure_that_the_model_is_told_of() -> None:
    with pytest.raises(UnknownTool, match='There is no tool "rm"'):
        tools.find("rm")


def test_names_schemas_and_risks_are_checked_when_a_tool_is_registered() -> None:
    for name in ("Letter", "", "a" * 65, "a-b", "1a"):
        with pytest.raises(ValueError):
            tool(name, description="", parameters={"type": "object"})
    with pytest.raises(SchemaRefused):
        letter_with = tool("letter", description="", parameters={"type": "string"})
        letter_with(lambda arguments, use: None)
    letter()
    with pytest.raises(ValueError, match="two tools"):
        letter()


def test_the_model_is_told_name_description_and_parameters() -> None:
    assert tools.schema_of(letter()) == {
        "name": "letter",
        "description": "Write a letter.",
        "parameters": PARAMETERS,
    }


def test_a_call_is_asked_about_with_its_preview_risk_and_what_may_be_changed() -> None:
    """S2-26."""
    made = letter(
        risk="high", editable=["/text"], preview=lambda arguments: tools.quoted(arguments["text"])
    )
    asked = tools.as_call(made, "c1", {"text": "a ``` b"})
    [kept] = tool_calls.kept([asked])
    assert (
        kept["risk"] == "high"
        and kept["editable"] == ["/text"]
        and kept["schema"] == {**PARAMETERS, schemas.ORDER: ["text", "to"]}
    )
    assert kept["preview"] == "````\na ``` b\n````"
