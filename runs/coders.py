"""Which agent writes code where a step template leaves that open, and which programs step templates may start.

Both are settings of operators. They are looked at when an order is made, and what they come to is frozen with it: a setting that is changed
later changes no order that runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

from runs.agents.config import SCRIPTED
from runs.workflows import command_config
from runs.workflows.base import ConfigInvalid
from runs.workflows.cli_presets import PRESETS
from runs.workflows.executors import AGENT, COMMAND, NO_CODER
from runs.workflows.sequence import FrozenStep

CODING = frozenset({"coding.plan", "coding.plan_together", "coding.execute", "coding.review"})
"""Step functions that hand their work to an agent."""


READING: dict[str, Any] = {"tools": ["list_files", "read_file", "search_files"], "max_loops": 30}
"""What an agent of ours may do where it is to change nothing."""
WRITING: dict[str, Any] = {
    "tools": [*READING["tools"], "write_file", "patch_file", "delete_file", "run_check"],
    "max_loops": 60,
}


class CannotRun(Exception):
    """Work by a template could only fail on this server, so nothing was begun. `code` is stable, `lacks` says what is missing."""

    def __init__(self, code: str, slug: str, lacks: str) -> None:
        super().__init__(f"The template {slug} cannot run on this server, so nothing was begun. {lacks}")
        self.code = code
        self.lacks = lacks


class NoCoder(Exception):
    """A template wants code written, and nothing is configured that could. Nothing was made."""

    code = "no_coder"


def completed(function: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """A step template's configuration with the agent that settings name, where it needs one and names none."""
    if not _needs_one(function, config):
        return dict(config)
    if "command" in config:
        return {"executor": COMMAND, **config}
    try:
        found = configured()
        if found["executor"] == AGENT:
            found = {**found, **(WRITING if function == "coding.execute" else READING)}
        return {**found, **config}
    except NoCoder:  # said when an order is made (`require`); a template can be saved all the same
        return dict(config)


def require(steps: Sequence[Mapping[str, Any]]) -> None:
    """Raise NoCoder where one of the steps, or of their sub-steps, would have nobody to do it."""
    if any(_needs_one(step["function"], step["config"]) for step in _all(steps)):
        configured()
        raise NoCoder(NO_CODER)


def writes_code(steps: Sequence[FrozenStep]) -> bool:
    return any(step["function"] in CODING for step in _all(steps))


def check_programs(function: str, config: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid where a configuration starts a program, or passes on a variable, that operators have not allowed."""
    if function != "command" and function not in CODING:
        return
    allowed = {*settings.WAYSTATION_COMMANDS, *(_program(configured_or_nothing()))}
    for field in ("command", "read_command"):
        program = str(next(iter(config.get(field, ())), ""))
        if program and program not in allowed and "*" not in allowed:
            raise command_config.invalid(field, f"{program!r} is not among the programs that operators allow (WAYSTATION_COMMANDS).")
    if refused := sorted(set(config.get("environment", ())) - set(settings.WAYSTATION_COMMAND_ENVIRONMENT)):
        words = f"{', '.join(refused)}: not among the variables that operators allow (WAYSTATION_COMMAND_ENVIRONMENT)."
        raise command_config.invalid("environment", words)


def configured() -> dict[str, Any]:
    """The executor and its configuration that settings name. Raises NoCoder, with what to set."""
    if settings.WAYSTATION_CODER:
        return {"executor": COMMAND, **_read(settings.WAYSTATION_CODER)}
    model = settings.WAYSTATION_MODEL
    if model.model != SCRIPTED:
        named = {"model": model.model, "base_url": model.base_url, "credential": model.credential}
        return {"executor": AGENT, **{name: value for name, value in named.items() if value}}
    raise NoCoder(NO_CODER)


def configured_or_nothing() -> dict[str, Any]:
    try:
        return configured()
    except NoCoder:
        return {}


def _needs_one(function: str, config: Mapping[str, Any]) -> bool:
    if function not in CODING or "executor" in config:
        return False
    return function != "coding.plan_together" or config.get("merge", "sections") == "agent"


@lru_cache(maxsize=8)
def _read(named: str) -> dict[str, Any]:
    """The configuration that WAYSTATION_CODER names: a preset, or a JSON file. Raises NoCoder."""
    if named in PRESETS:
        return PRESETS[named]
    try:
        found = json.loads(Path(named).read_text())
        command_config.check(found)
    except OSError as error:
        known = ", ".join(PRESETS)
        words = f"WAYSTATION_CODER={named!r} is neither a known agent ({known}) nor a file that can be read: {error.strerror}."
        raise NoCoder(words) from error
    except (ValueError, TypeError, ConfigInvalid) as error:
        raise NoCoder(f"{named}, which WAYSTATION_CODER names, is no configuration of an agent: {error}") from error
    config: dict[str, Any] = found
    return config


def _program(config: Mapping[str, Any]) -> set[str]:
    return {config[field][0] for field in ("command", "read_command") if field in config}


def _all(steps: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for step in steps:
        yield step
        yield from _all(step.get("sub_steps", []))
