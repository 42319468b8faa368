"""What coding agents print, in the shapes that their documentation gives, and what is made of
prompts. No process, no database.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from extensions.coding.cli_output import AgentCall, CallResult, OutputReader
from extensions.coding.cli_presets import PRESETS
from extensions.coding.command_config import check, rules_of
from runs.agents.config import Agent
from runs.agents.step import prompt_of
from runs.workflows import prompts
from tests.worlds.repositories import order_for

LINES: dict[str, list[Any]] = {
    "claude-code": [
        {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Read"]},
        {"type": "assistant", "message": {"role": "assistant", "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.py"}},
        ]}},
        {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result",
        "tool_use_id": "t1", "content": "x = 1"}]}},
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text",
        "text": "All done."}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "All done.",
        "total_cost_usd": 0.25, "num_turns": 2,
         "usage": {"input_tokens": 30, "cache_read_input_tokens": 5, "output_tokens": 7}},
    ],
    "codex": [
        {"type": "thread.started", "thread_id": "0199"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "i0", "type": "reasoning",
        "text": "**Looking**"}},
        {"type": "item.completed", "item": {"id": "i1", "type": "agent_message",
        "text": "I look."}},
        {"type": "item.started", "item": {"id": "t1", "type": "command_execution",
        "command": "bash -lc ls", "status": "in_progress"}},
        {"type": "item.completed", "item": {"id": "t1", "type": "command_execution",
        "command": "bash -lc ls",
                                            "aggregated_output": "x = 1", "exit_code": 0,
                                            "status": "completed"}},
        {"type": "item.completed", "item": {"id": "i3", "type": "agent_message",
        "text": "All done."}},
        {"type": "turn.completed", "usage": {"input_tokens": 30, "cached_input_tokens": 5,
        "output_tokens": 7}},
    ],
    "gemini-cli": [
        {"type": "init", "timestamp": "t", "session_id": "s", "model": "m"},
        {"type": "message", "role": "user", "content": "Do it.", "timestamp": "t"},
        {"type": "message", "role": "assistant", "content": "I look.", "delta": True,
        "timestamp": "t"},
        {"type": "tool_use", "tool_name": "read_file", "tool_id": "t1",
        "parameters": {"path": "a.py"}, "timestamp": "t"},
        {"type": "tool_result", "tool_id": "t1", "status": "success", "output": "x = 1",
        "timestamp": "t"},
        {"type": "message", "role": "assistant", "content": "All ", "delta": True,
        "timestamp": "t"},
        {"type": "message", "role": "assistant", "content": "done.", "delta": True,
        "timestamp": "t"},
        {"type": "result", "status": "success", "stats": {"total_tokens": 37, "input_tokens": 30,
        "output_tokens": 7, "tool_calls": 1}},
    ],
}  # fmt: skip
FAILED = {
    "claude-code": {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "result": "No credit.",
    },
    "codex": {"type": "turn.failed", "error": {"message": "No credit."}},
    "gemini-cli": {
        "type": "result",
        "status": "error",
        "error": {"type": "x", "message": "No credit."},
    },
}


def read(name: str, lines: list[Any]) -> tuple[OutputReader, list[Any]]:
    reader = OutputReader(rules_of({"output": name}))
    return reader, [
        piece
        for line in lines
        for piece in reader.read(line if isinstance(line, str) else json.dumps(line))
    ]


@pytest.mark.parametrize("name", PRESETS)
def test_a_presets_output_is_words_calls_an_answer_and_its_price(name):
    """S4-71: whichever agent it is."""
    reader, pieces = read(name, LINES[name])
    assert "I look." in pieces and [
        type(piece) for piece in pieces if not isinstance(piece, str)
    ] == [AgentCall, CallResult]
    [call, came] = [piece for piece in pieces if not isinstance(piece, str)]
    assert (call.id, came.id, came.result) == ("t1", "t1", "x = 1")
    assert (reader.answer, reader.failed) == ("All done.", False)
    assert (reader.usage["input_tokens"], reader.usage["output_tokens"]) == (30, 7)
    assert reader.usage.get("cost", 0) == (0.25 if name == "claude-code" else 0)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_that_says_it_failed_is_believed(name):
    reader, _ = read(name, [FAILED[name]])
    assert (reader.failed, reader.error) == (True, "No credit.")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_configuration_that_may_be_saved(name):
    check({**PRESETS[name], "output": name})
    check(PRESETS[name])


@pytest.mark.parametrize(
    "line",
    ["", "{", "[1]", "null", '"text"', "[" * 100_000,
    '{"type": "result", "usage": {"input_tokens": -1, "output_tokens": 1e400}}',
     (
         '{"type": "result", "usage": {"input_tokens": true, "output_tokens": "7"}, '
         '"total_cost_usd": NaN, "is_error": 1}'
     ),
     '{"type": "assistant", "message": {"content": "no list"}}',
     '{"type": "assistant", "message": []}'],
)  # fmt: skip
def test_odd_lines_are_no_error_and_count_nothing(line):
    reader, pieces = read("claude-code", [line])
    assert (reader.usage, reader.failed, reader.answer) == ({}, False, "")
    assert all(isinstance(piece, str) for piece in pieces)


def test_plain_lines_are_the_answer():
    reader, pieces = read("lines", ["# Plan", "", '{"type": "result"}'])
    assert pieces == ["# Plan\n", "\n", '{"type": "result"}\n']
    assert reader.answer == '# Plan\n\n{"type": "result"}'


About: Any = SimpleNamespace(
    order=order_for(
        "/x", request="Fix {{state.secret}}", input={"depth": 2}, check_command=["make", "check"]
    )
)
"""Stands in for a context."""


def test_a_prompt_says_what_there_is_and_leaves_out_what_there_is_not():
    """S4-66: `{{revision_feedback}}`, `{{state.…}}`; what is filled in is not looked at again."""
    asked, feedback = (
        "# Asked\n\n{{request}} ({{input.depth}})",
        "# Feedback\n\n{{revision_feedback}}",
    )
    template = f"Do.\n\n{asked}\n\n{feedback}\n\n# Found\n\n{{{{state.plan.files}}}} {{{{extra}}}}"
    state = {"revision_feedback": "", "secret": "no", "plan": {"files": ["a.py"]}}
    text = prompts.render(template, state, About, more={"extra": "more"})
    assert text == 'Do.\n\n# Asked\n\nFix {{state.secret}} (2)\n\n# Found\n\n[\n "a.py"\n] more\n'
    assert "# Feedback\n\nShorter" in prompts.render(
        template,
        {**state, "revision_feedback": "Shorter"},
        About,
    )
    assert prompts.unknown(template) == ["extra"]
    assert prompts.unknown("{{ state }} {{request}} {{state.x}} {{branch}}") == ["state"]


def test_a_reviewers_words_reach_the_agent_though_its_template_has_no_place_for_them():
    """S4-66.

    Before: with a prompt of the operators' own, the log said "Re-running with feedback" and the
    agent was never told of it.
    """
    state = {"revision_feedback": "Use the clock"}
    text = prompts.render("Do {{request}}.", state, About)
    assert text.endswith(f"# {prompts.FEEDBACK}\n\nUse the clock\n")
    once = prompts.render("Do: {{revision_feedback}}", state, About)
    assert once == "Do: Use the clock\n"
    assert prompts.FEEDBACK not in prompts.render(
        "Do {{request}}.",
        {"revision_feedback": ""},
        About,
    )
    placed = Agent(prompt="Write. {{revision_feedback}}! {{order.title}}")
    assert prompt_of(placed, state, About) == "Write. Use the clock! Tidy"
    told = prompt_of(Agent(prompt="Write {{order.title}}"), state, About)
    assert told.startswith("Write Tidy") and told.endswith("Use the clock\n")
    apart = Agent(prompt="Write {{order.title}}", instructions="Heed: {{revision_feedback}}")
    assert prompt_of(apart, state, About) == "Write Tidy"
