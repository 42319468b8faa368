"""What operators settle about repositories, and whether it fits together; the admin's form and REST
ask the same questions.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from checkpoints.database.people import User
from runs import keyed
from runs.definitions import TemplateNotNamed, readiness, rights
from runs.git.forges.places import BadForge, checked_project, checked_url, project_of
from runs.git.sources import check_source
from runs.models import ForgeKind, PullRequestPolicy, PushPolicy, Repository, Template
from runs.workflows import refusals
from runs.workflows.refusals import FieldsRefused, as_text

SETTLED = (
    "name", "default_template", "check_command", "author", "use_template_execution", "base_branch",
    "push_policy", "pull_request_policy",
    "forge", "forge_url", "forge_project", "credential", "allowed_templates",
)  # fmt: skip
"""What may be changed of a repository without making it another one."""
GROUPS = {"use_groups": "use_restricted", "delivery_groups": "delivery_restricted"}
"""Whom a repository is for, each with the column that says that groups were chosen
(`rights.settle`).
"""
_BRANCH = re.compile(
    r"(?!-)(?!.*(\.\.|//|@\{|\.lock(/|$)|/\.|\.$))(?![./])[^\s~^:?*\[\\\x00-\x1f\x7f]+(?<!/)"
)
_CREDENTIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class RepositoryNotFound(Exception):
    code = "not_found"


class RepositoryExists(Exception):
    """Something is settled about that repository already; nothing was changed."""

    code = "repository_exists"

    def __init__(self, repository: Repository) -> None:
        super().__init__(
            gettext("%(url)s is repository %(id)s already. PUT changes what is settled of it.")
            % {"url": repository.url, "id": repository.shown_id}
        )


class OrdersStopped(Exception):
    """An operator has stopped work orders on this repository."""

    code = "template_execution_off"


class RepositoryInvalid(FieldsRefused):
    """Settings that do not fit together."""

    code = "repository_invalid"

    def told(self, errors: Mapping[str, list[str]]) -> str:
        return gettext("Nothing was changed: ") + as_text(errors)


def find(repository_id: uuid.UUID) -> Repository:
    """Raises RepositoryNotFound."""
    try:
        return Repository.objects.get(pk=repository_id)
    except Repository.DoesNotExist:
        raise RepositoryNotFound(gettext("There is no such repository.")) from None


@transaction.atomic(durable=True)
def configure(repository_id: uuid.UUID, **changes: Any) -> Repository:
    """Change what is settled of a repository, some of SETTLED and GROUPS, which are lists of names.

    Orders that were made keep theirs, but nothing leaves that is forbidden now.

    Raises RepositoryNotFound, RepositoryInvalid.
    """
    repository = find(repository_id)
    chosen = {name: _groups(name, changes.pop(name)) for name in GROUPS if name in changes}
    for name, value in changes.items():
        assert name in SETTLED, name
        setattr(repository, name, value)
    if errors := problems({name: getattr(repository, name) for name in (*SETTLED, "url")}):
        raise RepositoryInvalid(errors)
    repository.save(update_fields=list(changes))
    for name, groups in chosen.items():
        rights.settle(repository, name, GROUPS[name], groups)
    return repository


@transaction.atomic(durable=True)
def register(url: str, *, name: str = "", **values: Any) -> Repository:
    """Settle something about a repository that nothing was settled about before.

    Args:
        name: that of the folder at the URL's end, where it is left out.
        values: as of `configure`.

    Raises BadSource, RepositoryExists, RepositoryInvalid.
    """
    source = checked_source(url)
    if (known := Repository.objects.filter(url=source).first()) is not None:
        raise RepositoryExists(known)
    name = name.strip() or source.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
    chosen = {field: _groups(field, values.pop(field)) for field in GROUPS if field in values}
    repository = Repository(url=source, name=name[:120], **values)
    if errors := problems({field: getattr(repository, field) for field in (*SETTLED, "url")}):
        raise RepositoryInvalid(errors)
    try:
        with transaction.atomic():
            repository.save(force_insert=True)
    except IntegrityError as error:  # repository_url_once
        raise RepositoryExists(Repository.objects.get(url=source)) from error
    for field, groups in chosen.items():
        rights.settle(repository, field, GROUPS[field], groups)
    keyed.made(repository.shown_id)
    return repository


def _groups(field: str, names: list[str]) -> list[Group]:
    groups = {group.name: group for group in Group.objects.filter(name__in=names)}
    if missing := [name for name in names if name not in groups]:
        known = Group.objects.order_by("name").values_list("name", flat=True)
        raise RepositoryInvalid(
            {field: [refusals.unknown("group", name, known) for name in missing]}
        )
    return list(groups.values())


def checked_source(url: str) -> str:
    """The normalised form of a source that orders may name. Raises BadSource."""
    return check_source(
        url.strip(),
        folders=[Path(folder) for folder in settings.WAYSTATION_REPOSITORIES],
        schemes=settings.WAYSTATION_GIT_SCHEMES,
        hosts=settings.WAYSTATION_GIT_HOSTS,
    )


def check_open(repository: Repository) -> None:
    """Raise OrdersStopped where no new work order may be made on a repository."""
    if not repository.use_template_execution:
        raise OrdersStopped(
            gettext(
                "Work orders on %(name)s are switched off, so none was made. An operator can "
                "switch them on again."
            )
            % {"name": repository.name}
        )


def template_for(repository: Repository | None, by: User, *, named: bool) -> str:
    """Give the slug of the template of an order that names none: the repository's own default, else
    the instance's, else the only one that fits.

    Args:
        repository: the order's, where something is settled about it.
        named: whether the order names a repository.

    Raises TemplateNotNamed where none of these says which.
    """
    if repository is not None and repository.default_template:
        return repository.default_template
    refused, allowed = rights.refusals(by), repository.allowed_templates if repository else []
    known = [
        template
        for template in Template.objects.current().order_by("slug")
        if (template.needs_repository or not named) and (not allowed or template.slug in allowed)
    ]
    fitting = {template.slug for template in known if template.needs_repository == named}
    if (default := rights.default_template()) in fitting:
        return default
    offered = [template for template in known if template.slug not in refused]
    lacks = readiness.lacking(offered, by=by)
    slugs = [template.slug for template in offered if template.slug not in lacks]
    if len(only := [slug for slug in slugs if slug in fitting]) == 1:
        return only[0]
    listed = (
        f"You may use: {', '.join(slugs)}." if slugs else "There is none that you may use here."
    )
    raise TemplateNotNamed(
        f"The order names no template, so nothing was begun. {listed} An operator can say which "
        "one is meant: a repository's `default_template`, or `default: true` of a template."
    )


def problems(values: Mapping[str, Any]) -> dict[str, list[str]]:
    """What is wrong with a repository's settings: field → sentences; empty where they fit together.

    Args:
        values: all of SETTLED, and `url`.
    """
    errors: dict[str, list[str]] = {}
    for field, text in _texts(values):
        if text != "".join(sign for sign in text if sign.isprintable()):
            errors[field] = ["There are characters in it that cannot be seen."]
    checks = {
        "name": _name, "default_template": _default_template, "check_command": _check_command,
        "base_branch": _base_branch,
        "credential": _credential, "push_policy": _push_policy,
        "pull_request_policy": _pull_request_policy, "forge": _forge,
        "forge_url": _forge_url, "forge_project": _forge_project,
        "allowed_templates": _allowed_templates,
    }  # fmt: skip
    for field, check in checks.items():
        if field not in errors and (sentence := check(values)):
            errors[field] = [sentence]
    return errors


def _texts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(field, value) for field, value in values.items() if isinstance(value, str)]


def _name(values: Mapping[str, Any]) -> str:
    return "" if values["name"].strip() else "Give it a name."


def _default_template(values: Mapping[str, Any]) -> str:
    slug = values["default_template"]
    fits = not slug or Template.objects.current().filter(slug=slug, needs_repository=True).exists()
    return (
        ""
        if fits
        else f"There is no template {refusals.in_json(slug, 80)} that works on a repository."
    )


def _allowed_templates(values: Mapping[str, Any]) -> str:
    slugs = values["allowed_templates"]
    if not isinstance(slugs, list) or not all(isinstance(slug, str) for slug in slugs):
        return 'Give a list of slugs such as ["repo-tidy"]; an empty list for all templates.'
    known = set(
        Template.objects.current().filter(needs_repository=True).values_list("slug", flat=True)
    )
    if missing := [slug for slug in slugs if slug not in known]:
        return refusals.unknown("template that works on a repository", missing[0], known)
    default = values["default_template"]
    wrong = bool(slugs and default and default not in slugs)
    return (
        f"Orders that name no template go by {default}: allow it, or choose another default."
        if wrong
        else ""
    )


def _check_command(values: Mapping[str, Any]) -> str:
    command = values["check_command"]
    if isinstance(command, list) and all(
        isinstance(word, str) and word and "\0" not in word for word in command
    ):
        return ""
    return (
        'Give a list of words such as ["python", "-m", "pytest", "-q"]; an empty list for no check.'
    )


def _base_branch(values: Mapping[str, Any]) -> str:
    branch = values["base_branch"]
    return "" if not branch or _BRANCH.fullmatch(branch) else "This can be no branch's name."


def _credential(values: Mapping[str, Any]) -> str:
    name = values["credential"]
    if name and not _CREDENTIAL.fullmatch(name):
        return (
            "Give the credential's name, never its value: letters, digits, dots, dashes and "
            "underscores."
        )
    if not name and values["pull_request_policy"] != PullRequestPolicy.NEVER:
        return "A pull request needs a credential with the token for the forge."
    return ""


def _push_policy(values: Mapping[str, Any]) -> str:
    if values["push_policy"] not in PushPolicy.values:
        return f"One of {', '.join(PushPolicy.values)}."
    if (
        values["pull_request_policy"] != PullRequestPolicy.NEVER
        and values["push_policy"] != PushPolicy.BRANCH
    ):
        return "A pull request needs its branch: choose “branch”, or no pull requests."
    return ""


def _pull_request_policy(values: Mapping[str, Any]) -> str:
    return (
        ""
        if values["pull_request_policy"] in PullRequestPolicy.values
        else f"One of {', '.join(PullRequestPolicy.values)}."
    )


def _forge(values: Mapping[str, Any]) -> str:
    if values["forge"] not in ForgeKind.values:
        return f"One of {', '.join(filter(None, ForgeKind.values))}, or empty."
    if not values["forge"] and values["pull_request_policy"] != PullRequestPolicy.NEVER:
        return "A pull request is opened at a forge: name its kind."
    return ""


def _forge_url(values: Mapping[str, Any]) -> str:
    if not values["forge"]:
        return "Name the kind of forge, too." if values["forge_url"] else ""
    try:
        checked_url(values["forge"], values["forge_url"], allowed=settings.WAYSTATION_FORGES)
    except BadForge as error:
        return str(error) if values["forge"] in ForgeKind.values else ""
    return ""


def _forge_project(values: Mapping[str, Any]) -> str:
    kind, project = values["forge"], values["forge_project"]
    try:
        if kind in {ForgeKind.GITHUB, ForgeKind.GITLAB} and project:
            checked_project(project, kind=kind)
        elif (
            kind in {ForgeKind.GITHUB, ForgeKind.GITLAB}
            and values["pull_request_policy"] != PullRequestPolicy.NEVER
        ):
            project_of(values["url"], kind=kind, forge_url=values["forge_url"])
    except BadForge as error:
        return str(error)
    return ""
