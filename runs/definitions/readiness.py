"""Check whether this server can do the work of a template: pages that offer templates say so, and
orders are refused with the reason.

Only faults that are certain count: no library, no key, no program that writes code, no graph of
that name, no repository that may be reached. A step checks all of it again when its turn comes,
since settings change while work waits. Web servers check on behalf of workers, so all processes
must have the same packages and settings; only environment variables that operators allow as
credentials are looked up by the workers themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, PermissionsMixin
from django.utils.translation import gettext

from runs.agents import tools
from runs.agents.config import ASK_HUMAN
from runs.agents.model import ADDRESSES, ModelEndpoint
from runs.definitions.freezing import setting
from runs.models import StepTemplate, Template
from runs.models.kinds import Kinds
from runs.security import credentials
from runs.workflows.code import extras
from runs.workflows.refusals import in_json
from runs.workflows.registry import Lack, NotReady, UnknownStep, find, traits_of

DEEP = 20
"""How many levels of sub-steps are checked; WAYSTATION_GATHER_DEPTH is less."""


class CannotRun(Exception):
    """Work by a template could only fail on this server, so nothing was begun.

    `code` is stable, `lacks` says what is missing.
    """

    def __init__(self, code: str, slug: str, lacks: str) -> None:
        super().__init__(
            gettext(
                "The template %(slug)s cannot run on this server, so nothing was begun. %(lacks)s"
            )
            % {"slug": slug, "lacks": lacks}
        )
        self.code = code
        self.lacks = lacks


def lacking(templates: Iterable[Template], *, by: AbstractBaseUser) -> dict[str, CannotRun]:
    """Find the templates that cannot run here: slug → the refusal of an order by this person."""
    here = as_seen_by(by)
    refusals = {template.slug: here.why_not(template) for template in templates}
    return {slug: refusal for slug, refusal in refusals.items() if refusal is not None}


def as_seen_by(by: AbstractBaseUser) -> ServerAbilities:
    """Give this server's abilities for the orders that a person may make, for a team or without."""
    return ServerAbilities(
        by.groups.values_list("pk", flat=True) if isinstance(by, PermissionsMixin) else []
    )


def require(template: Template, *, team: int | None, kinds: Kinds) -> None:
    """Raise CannotRun where work by this template, of this team, could only fail on this server."""
    here = ServerAbilities([team] if team is not None else [], kinds)
    if (refusal := here.why_not(template)) is not None:
        raise refusal


class ServerAbilities:
    """The keys and step templates of this server, read once for all templates of a list."""

    def __init__(self, teams: Iterable[int], kinds: Kinds | None = None) -> None:
        self._teams = teams
        self._given = kinds

    def why_not(self, template: Template) -> CannotRun | None:
        """Give the refusal of an order by this template; None where it can run."""
        if not (lacks := list(dict.fromkeys(self._lacks_of_template(template)))):
            return None
        message = " ".join(text if text.endswith(".") else f"{text}." for _, text in lacks)
        return CannotRun(lacks[0][0], template.slug, message)

    @cached_property
    def _kinds(self) -> Kinds:
        return self._given or Kinds.every()

    @cached_property
    def _keys(self) -> set[str]:
        return {*credentials.names(self._teams), *settings.WAYSTATION_CREDENTIALS_FROM_ENV}

    def _lacks_of_template(self, template: Template) -> Iterator[Lack]:
        if template.needs_repository and not any_repository():
            message = (
                "Nothing can be worked on: no folder of WAYSTATION_REPOSITORIES is there, and "
                "WAYSTATION_GIT_HOSTS names no host."
            )
            yield "no_repository_allowed", message
        yield from self._lacks_of_steps(template.steps, DEEP)

    def _lacks_of_steps(self, steps: Iterable[Mapping[str, Any]], deep: int) -> Iterator[Lack]:
        steps = list(steps) if deep else []
        self._kinds.learn(steps)
        for step in steps:
            kind = self._kinds.of(step)
            if kind is None:
                named = str(step.get("step_template_slug") or step.get("step_type") or "")
                yield "template_invalid", f"There is no step template {in_json(named)} any more"
            else:
                yield from self._lacks_of_kind(kind)
                yield from self._lacks_of_steps(kind.sub_steps, deep - 1)

    def _lacks_of_kind(self, kind: StepTemplate) -> Iterator[Lack]:
        traits = traits_of(kind.function)
        config = traits.server.completed(kind.config, setting)
        try:
            find(kind.function)
            traits.server.require(config, setting)
        except UnknownStep as error:
            yield "step_unknown", str(error)
        except NotReady as error:
            yield error.code, str(error)
        yield from traits.server.lacks(config, setting)
        if traits.uses_models:
            default = settings.WAYSTATION_MODEL
            about = {"function": kind.function, "config": config}
            yield from (
                ("not_installed", warning)
                for warning in extras.warnings_of([about], default=default.model)
            )
            yield from self._lacks_of_keys(
                list(_models_in(config)) or ([default] if traits.asks_servers_model else []), config
            )
            yield from (("unknown_tool", str(error)) for error in _unknown_tools(config))

    def _lacks_of_keys(
        self, asked: Iterable[ModelEndpoint], config: Mapping[str, Any]
    ) -> Iterator[Lack]:
        names = list(config.get("credentials", {}).values())
        for key in asked:
            if key.credential:
                names.append(key.credential)
            elif not key.base_url and key.provider in ADDRESSES:
                yield (
                    "credential_missing",
                    f"The model {key.model} is asked at its vendor's, and no key for it is named",
                )
        for name in names:
            if name not in self._keys:
                advice = "an operator keeps one in the admin or with `manage.py credential set`"
                yield "credential_missing", f"There is no credential {in_json(name, 80)}: {advice}"


def any_repository() -> bool:
    """Whether this server's lists name any place where a repository could be."""
    remote = settings.WAYSTATION_GIT_SCHEMES and settings.WAYSTATION_GIT_HOSTS
    return bool(remote) or any(Path(folder).is_dir() for folder in settings.WAYSTATION_REPOSITORIES)


def _models_in(value: Any) -> Iterator[ModelEndpoint]:
    """Find the models that a configuration names, at any depth: some executors hold another one."""
    if isinstance(value, Mapping):
        if isinstance(value.get("model"), str):
            named = {
                name: str(value.get(name) or "") for name in ("model", "base_url", "credential")
            }
            yield ModelEndpoint(**named)
        for inner in value.values():
            yield from _models_in(inner)


def _unknown_tools(config: Mapping[str, Any]) -> Iterator[tools.UnknownTool]:
    for name in config.get("tools", ()):
        try:
            _ = name == ASK_HUMAN or tools.find(name)
        except tools.UnknownTool as error:
            yield error
