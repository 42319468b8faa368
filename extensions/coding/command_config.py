"""What a step template says about a command line agent, and whether it can be meant.

Checked when the template is saved.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from extensions.coding import gate
from extensions.coding.cli_output import RULES, Rule
from extensions.coding.cli_presets import PRESETS
from runs.workflows import ConfigInvalid, prompts, schemas

NAME = "^[A-Za-z_][A-Za-z0-9_]{0,99}$"
ARGUMENTS = {
    "type": "array",
    "items": {"type": "string", "maxLength": 10_000},
    "minItems": 1,
    "maxItems": 200,
}
TOOLS = {
    "type": "array",
    "items": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,127}$"},
    "maxItems": 100,
}
POLICY: dict[str, Any] = {
    "free": TOOLS,
    "denied": TOOLS,
    "approvals": {"type": "array"},
}
"""What a step may say though the settings name its agent."""
PROPERTIES: dict[str, Any] = {
    "command": ARGUMENTS,
    "read_command": ARGUMENTS,
    "resume_command": ARGUMENTS,
    "gate": {"enum": ["claude-code"]},
    **POLICY,
    "prompt": {"type": "string", "minLength": 1, "maxLength": 50_000},
    "stdin": {"type": "boolean"},
    "environment": {"type": "array", "items": {"type": "string", "pattern": NAME}, "maxItems": 50},
    "credentials": {
        "type": "object",
        "propertyNames": {"pattern": NAME},
        "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 100},
        "maxProperties": 20,
    },
    "output": {"anyOf": [{"enum": ["lines", *PRESETS]}, RULES]},
    "exit_codes": {
        "type": "object",
        "propertyNames": {"pattern": "^[1-9][0-9]{0,2}$"},
        "additionalProperties": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"},
        "maxProperties": 50,
    },
    "seconds": {"type": "number", "minimum": 1, "maximum": 86_400},
    "max_output": {"type": "integer", "minimum": 1_000, "maximum": 1_000_000_000},
    "changes": {"enum": ["commit", "discard"]},
    "into": {"type": "string", "pattern": NAME},
}
SCHEMA = {
    "type": "object",
    "properties": PROPERTIES,
    "required": ["command"],
    "additionalProperties": False,
}
"""
command         program and arguments; `{prompt}`, `{prompt_file}` and `{workspace}` are filled in.
Never given to a shell. read_command    instead, where nothing is to be changed (planning, review)
prompt          see `runs.workflows.prompts`; `{{request}}` where it is left out stdin           the
prompt is given on standard input environment     names of the worker's variables that it gets, of
those that operators allow credentials     variable → name of a credential output          "lines"
(the default), the name of a preset whose output it writes, or rules
(`extensions.coding.cli_output`) exit_codes      exit code → failure code of ours seconds
time limit max_output      bytes that it may write changes         "commit" (the default) what it
changed in the work tree, or "discard" it into            state key of its answer, "answer" by
default. gate, resume_command, free, denied, approvals: see `extensions.coding.gate`
"""
PLACEHOLDER = re.compile(r"\{(\w+)\}")
PLACEHOLDERS = ("prompt", "prompt_file", "workspace")
GATED = {"command": {"gate"}, "resume_command": {"gate", "session"}}
"""More placeholders of an agent that has a gate (`extensions.coding.gate`)."""
SHELLS = {
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "csh",
    "tcsh",
    "busybox",
    "pwsh",
    "cmd",
    "cmd.exe",
}
DEFAULT_PROMPT = "{{request}}"


def invalid(field: str, text: str) -> ConfigInvalid:
    """What is wrong with one part of a configuration."""
    return ConfigInvalid.of(field, text)


def check(config: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid, with a sentence for who wrote it."""
    if errors := schemas.config_faults(SCHEMA, config):
        raise ConfigInvalid(errors)
    check_gate(config)
    for field in ("command", "read_command"):
        if field in config:
            more = GATED.get(field, set()) if "gate" in config else set()
            check_arguments(field, config[field], stdin=config.get("stdin", False), more=more)
    check_prompt("prompt", config.get("prompt", DEFAULT_PROMPT))


def check_policy(config: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid where what a step says of the settings' agent cannot be meant."""
    schema = {"type": "object", "properties": POLICY, "additionalProperties": False}
    if errors := schemas.config_faults(schema, config):
        raise ConfigInvalid(errors)
    gate.check(config)


def check_gate(config: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid where an agent could not ask, or not go on."""
    gate.check(config)
    if "gate" not in config:
        for field in ("resume_command", *POLICY):
            if field in config:
                raise invalid(field, "Without a gate nobody is asked, so this means nothing.")
        return
    if "{session}" not in "".join(config.get("resume_command", ())):
        raise invalid("resume_command", "Say how the agent goes on, with {session} in it.")
    arguments, more = config["resume_command"], GATED["resume_command"]
    check_arguments("resume_command", arguments, stdin=True, more=more)
    for field in ("command", "resume_command"):
        if "{gate}" not in "".join(config[field]):
            raise invalid(field, "{gate} is not in it, so the agent would ask nobody.")


def check_prompt(field: str, template: str, *, more: Sequence[str] = ()) -> None:
    """Raise ConfigInvalid where a template of words names what there is not."""
    if names := prompts.unknown(template, more=more):
        wrong, known = (
            ", ".join(f"{{{{{name}}}}}" for name in some)
            for some in (names, (*prompts.FIXED, *more, "input.…", "state.…"))
        )
        raise invalid(field, f"{wrong}: nothing stands for that. There are {known}.")


def check_arguments(
    field: str, arguments: Sequence[str], *, stdin: bool, more: Collection[str] = ()
) -> None:
    program, *rest = arguments
    if not program.strip() or PLACEHOLDER.search(program) or "\0" in "".join(arguments):
        raise invalid(
            field,
            "The first argument is the program itself: a name or a path, without placeholders.",
        )
    if PurePath(program).name in SHELLS:
        raise invalid(
            field,
            f"{program} is a shell, and words of others would become its commands. Name the "
            "program itself.",
        )
    used = {name for argument in rest for name in PLACEHOLDER.findall(argument)}
    if unknown := sorted(used - {*PLACEHOLDERS, *more}):
        misspelt, known = (
            ", ".join(f"{{{name}}}" for name in names)
            for names in (unknown, (*PLACEHOLDERS, *sorted(more)))
        )
        raise invalid(
            field, f"{misspelt}: no placeholder. There are {known}; no shell expands others."
        )
    if not stdin and not used & {"prompt", "prompt_file"}:
        raise invalid(
            field,
            "The program would not be told what to do: use {prompt}, {prompt_file}, or "
            '"stdin": true.',
        )


def rules_of(config: Mapping[str, Any]) -> Sequence[Rule]:
    """How its output is read; none where each line is words."""
    output = config.get("output", "lines")
    if isinstance(output, str):
        return PRESETS[output]["output"] if output in PRESETS else ()
    rules: Sequence[Rule] = output
    return rules
