"""Which agent writes code where a step template leaves that open, and which programs step templates
may start.

Both are settings of operators. They are looked at when an order is made, and what they come to is
frozen with it: a setting that is changed later changes no order that runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from extensions.coding import command_config
from extensions.coding.cli_presets import PRESETS
from runs.agents.config import SCRIPTED
from runs.workflows import Config, ConfigInvalid, NotReady, ServerSide, Setting

READING: dict[str, Any] = {"tools": ["list_files", "read_file", "search_files"], "max_loops": 30}
"""What an agent of ours may do where it is to change nothing."""
WRITING: dict[str, Any] = {
    "tools": [*READING["tools"], "write_file", "patch_file", "delete_file", "run_check"],
    "max_loops": 60,
}
PROGRAMS = ("command", "read_command", "resume_command")
AGENT, COMMAND = "agent", "command"
"""The step functions that can do the work."""
NO_CODER_CODE = "no_coder"
NO_CODER = (
    "Nothing here can write code yet. Set WAYSTATION_CODER to a command line agent, or "
    "WAYSTATION_MODEL (with WAYSTATION_MODEL_URL for an "
    "endpoint of your own) to a language model; docs/how-to/coding-agents.md says how."
)


class AllowedPrograms(ServerSide):
    """A step that starts the program which its configuration names."""

    def check(self, config: Config, setting: Setting) -> None:
        """Raise ConfigInvalid where it starts a program, or passes on a variable, that operators
        have not allowed.
        """
        allowed = {*setting("WAYSTATION_COMMANDS"), *_program(_configured_or_nothing(setting))}
        for field in PROGRAMS:
            program = str(next(iter(config.get(field, ())), ""))
            if program and program not in allowed and "*" not in allowed:
                raise command_config.invalid(
                    field,
                    f'"{program}" is not among the programs that operators allow '
                    "(WAYSTATION_COMMANDS).",
                )
        if refused := sorted(
            set(config.get("environment", ())) - set(setting("WAYSTATION_COMMAND_ENVIRONMENT"))
        ):
            text = (
                f"{', '.join(refused)}: not among the variables that operators allow "
                "(WAYSTATION_COMMAND_ENVIRONMENT)."
            )
            raise command_config.invalid("environment", text)

    def seconds(self, config: Config, setting: Setting) -> float:
        """A clone, the program or the agent, and the check of what it changed."""
        usual = float(setting("WAYSTATION_COMMAND_SECONDS"))
        works = max(config.get("seconds", usual), config.get("limits", {}).get("seconds", 0.0))
        return float(setting("WAYSTATION_CLONE_SECONDS") + works + usual)


@dataclass(frozen=True)
class CodingAgent(AllowedPrograms):
    """A step that hands its work to an agent: its configuration names one, or the settings do."""

    usual: Mapping[str, Any]
    """What an agent of ours may do in this step: READING or WRITING."""
    merges: bool = False
    """It needs an agent only where its configuration says that one merges what the others
    planned.
    """

    def completed(self, config: Config, setting: Setting) -> dict[str, Any]:
        if not self._needs_one(config):
            return dict(config)
        if "command" in config:
            return {"executor": COMMAND, **config}
        try:
            settings = configured(setting)
        # said when an order is made (`require`); a template can be saved all the same
        except NotReady:
            return dict(config)
        return {**settings, **(self.usual if settings["executor"] == AGENT else {}), **config}

    def require(self, config: Config, setting: Setting) -> None:
        if self._needs_one(config):
            configured(setting)  # says what is wrong with what is set
            raise NotReady(NO_CODER_CODE, NO_CODER)

    def _needs_one(self, config: Config) -> bool:
        return "executor" not in config and (
            not self.merges or config.get("merge", "sections") == "agent"
        )


def configured(setting: Setting) -> dict[str, Any]:
    """The executor and its configuration that settings name. Raises NotReady, with what to set."""
    if named := setting("WAYSTATION_CODER"):
        return {"executor": COMMAND, **_read(named)}
    model = setting("WAYSTATION_MODEL")
    if model.model != SCRIPTED:
        settings = {
            "model": model.model,
            "base_url": model.base_url,
            "credential": model.credential,
        }
        return {"executor": AGENT, **{name: value for name, value in settings.items() if value}}
    raise NotReady(NO_CODER_CODE, NO_CODER)


def _configured_or_nothing(setting: Setting) -> dict[str, Any]:
    try:
        return configured(setting)
    except NotReady:
        return {}


@lru_cache(maxsize=8)
def _read(named: str) -> dict[str, Any]:
    """The configuration that WAYSTATION_CODER names: a preset, or a JSON file. Raises NotReady."""
    if named in PRESETS:
        return PRESETS[named]
    try:
        document = json.loads(Path(named).read_text())
        command_config.check(document)
    except OSError as error:
        known = ", ".join(PRESETS)
        text = (
            f'WAYSTATION_CODER="{named}" is neither a known agent ({known}) nor a file '
            f"that can be read: {error.strerror}."
        )
        raise NotReady(NO_CODER_CODE, text) from error
    except (ValueError, TypeError, ConfigInvalid) as error:
        text = f"{named}, which WAYSTATION_CODER names, is no configuration of an agent: {error}"
        raise NotReady(NO_CODER_CODE, text) from error
    config: dict[str, Any] = document
    return config


def _program(config: Config) -> set[str]:
    return {config[field][0] for field in PROGRAMS if field in config}
