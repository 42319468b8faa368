"""Whatever stands in a configuration where it does not fit, the refusal speaks JSON's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from extensions.booking import steps as booking
from extensions.coding import command_config, executors
from extensions.coding import steps as coding
from extensions.repo_tidy import steps as repo_tidy
from runs.agents import config as agents
from runs.definitions import step_options
from runs.workflows import registry, schemas
from runs.workflows.base import ConfigInvalid
from runs.workflows.refusals import FieldRefused, as_text
from runs.workflows.reviews import calendars, narrowing, rules

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1.5,
    "",
    "it",
    [],
    [None, True],
    {},
    {"it": [None, True]},
)
"""Of each type of JSON, some of them holding what Python writes otherwise."""
PYTHON = re.compile(
    r"\b(?:None|True|False|NoneType|dict|tuple|str|int|bool)\b|\w+(?:Error|Exception)\b|<class"
    r"|(?<!\w)'[^']*'(?!\w)"
)
"""Python's words, its classes, and texts as it quotes them."""
CALENDAR = {
    "properties": {
        "days": {"type": "array", "items": {"type": "string"}},
        "hours": {"type": "array", "items": {"type": "string"}},
        "holidays": {"type": "array", "items": {"type": "string"}},
        "country": {"type": "string"},
        "subdivision": {"type": "string"},
    }
}
APPROVAL = {
    "properties": {
        "tool": {"type": "string"},
        "ask": {"type": "boolean"},
        "why": {"type": "string"},
        "when": {
            "properties": {"risk": {}, "argument": {}, "op": {}, "value": {}},
        },
    }
}
CODING = {"properties": {"executor": {}, **command_config.PROPERTIES}}


def answered(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    taken = schemas.check(dict(schema))

    def check(value: Any) -> None:
        if errors := schemas.answer_faults(taken, value):
            raise ConfigInvalid(errors)

    return check


def configured(name: str) -> Callable[[Any], None]:
    return lambda value: registry.check_config(name, value)


KINDS: dict[str, tuple[Callable[[Any], object], Mapping[str, Any]]] = {
    "an agent": (agents.check, agents.SCHEMA),
    "a command": (command_config.check, command_config.SCHEMA),
    "a gated command": (
        lambda value: command_config.check({"gate": "claude-code", **value}),
        command_config.SCHEMA,
    ),
    "a command's policy": (
        command_config.check_policy,
        {"type": "object", "properties": command_config.POLICY},
    ),
    "a coding step": (executors.check, CODING),
    "what an agent asks about": (
        lambda value: agents.check({"approvals": [value]}),
        {**APPROVAL, "type": "object"},
    ),
    "a step's options": (step_options.freeze, step_options.SCHEMA),
    "what is kept": (
        lambda value: step_options.check_keeping({"retention": value}),
        step_options.RETENTION,
    ),
    "a review": (lambda value: rules.check(value, {}), rules.SCHEMA),
    "a question's own rules": (lambda value: narrowing.narrow({}, value), narrowing._SCHEMA),
    "a calendar": (calendars.read, CALENDAR),
    **{
        f"the input of {name}": (answered(schema), schema)
        for name, schema in (
            ("booking", booking.INPUT_SCHEMA),
            ("coding", coding.INPUT_SCHEMA),
            ("repo-tidy", repo_tidy.INPUT_SCHEMA),
        )
    },
}
OF_STEPS = [
    name
    for name in registry.known()
    if registry.find(name).__module__.startswith(("runs.", "extensions."))
]


def places(schema: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place that a schema speaks of: a name in an object, 0 in a list."""
    yield path
    if not isinstance(schema, Mapping):
        return
    for name, part in schema.get("properties", {}).items():
        yield from places(part, (*path, name))
    if schema.get("additionalProperties") is False:
        yield (*path, "strange")
    if isinstance(schema.get("items"), Mapping):
        yield from places(schema["items"], (*path, 0))
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield from places(schema["additionalProperties"], (*path, "NAME"))
    for key in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(key, []):
            if isinstance(part, Mapping) and {"properties", "items"} & part.keys():
                yield from list(places(part, path))[1:]


def holding(path: tuple[Any, ...], value: Any) -> Any:
    for part in reversed(path):
        value = [value] if part == 0 else {part: value}
    return value


def said_of(check: Callable[[Any], object], value: Any) -> str:
    """What is said of a value; a check that breaks instead is a fault of its own."""
    try:
        check(value)
    except ConfigInvalid as refused:
        return as_text(refused.errors)
    except (FieldRefused, schemas.SchemaRefused, calendars.CalendarInvalid) as refused:
        return str(refused)
    return ""


def python_said(check: Callable[[Any], object], schema: Mapping[str, Any]) -> list[str]:
    told, refusals = [], 0
    for path in dict.fromkeys(places(schema)):
        if not path:
            continue  # a configuration is an object, which its caller has looked at
        for value in VALUES:
            said = said_of(check, holding(path, value))
            refusals += bool(said)
            if PYTHON.search(said):
                told.append(f"{'.'.join(map(str, path))} = {value!r}: {said}")
    assert refusals, "nothing was refused, so nothing was looked at"
    return told


@pytest.mark.parametrize("kind", KINDS)
def test_no_refusal_of_a_configuration_speaks_python(kind, settings):
    check, schema = KINDS[kind]
    assert python_said(check, schema) == []


@pytest.mark.parametrize(
    "name", [name for name in OF_STEPS if (registry.config_schema(name) or {}).get("properties")]
)
def test_no_refusal_of_a_steps_configuration_speaks_python(name):
    assert python_said(configured(name), registry.config_schema(name) or {}) == []


SAYS_MORE = {"title", "description", "default", "examples", "deprecated", "$schema", "$comment"}


@pytest.mark.parametrize(
    "keyword", sorted({*schemas.Checker.VALIDATORS, "pattern", "$ref"} - SAYS_MORE)
)
def test_no_refusal_of_a_schema_speaks_python(keyword):
    for value in VALUES:
        said = said_of(schemas.check, {"type": "object", "properties": {"it": {keyword: value}}})
        assert not PYTHON.search(said), f"{keyword} = {value!r}: {said}"
