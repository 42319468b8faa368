"""Who may order by which template, use which repository, and have work delivered to it: asked at
the order, and at the delivery again.

A template or repository that operators restricted nothing of is everybody's, as the product ships.
What leaves for a repository must have been reviewed, or whoever asked for it holds
`runs.deliver_unreviewed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Q
from django.utils.translation import gettext

from checkpoints.database.people import User
from checkpoints.store.prepared_queries import Prepared
from runs.models import Repository, TemplateAccess, WorkOrder
from runs.models.priority import HIGHEST, NORMAL
from runs.workflows.registry import traits_of
from runs.workflows.sequence import FrozenStep

UNREVIEWED = "runs.deliver_unreviewed"
"""The right to have work delivered that no step of its template asks anybody about."""

SWITCH = "runs.change_templateaccess"
"""The right to say who orders by a template, and to switch one off."""


RAISE = "runs.raise_priority"
"""The right to let work go before the work of others."""


class NotPermitted(Exception):
    """Operators did not allow this. Nothing was begun; `code` is stable."""

    code = "not_permitted"

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


class Forbidden(NotPermitted):
    """It is allowed to others: `template_not_allowed`, `repository_not_allowed`,
    `delivery_not_allowed`, `delivery_unreviewed`, `priority_not_allowed`.
    """


class SwitchedOff(NotPermitted):
    """It is allowed to nobody at present: `template_off`, `template_not_on_repository`."""


def highest_priority(by: User) -> int:
    """The highest priority that this person may give to work."""
    return HIGHEST if by.has_perm(RAISE) else NORMAL


def is_among(user: User, groups: Iterable[Group], *, restricted: bool) -> bool:
    """Whether something is for a person: for everybody where it is not restricted, else for members
    of the groups, and superusers.
    """
    if not user.is_active:
        return False
    if not restricted or user.is_superuser:
        return True
    keys = {group.pk for group in groups}
    return bool(keys) and user.groups.filter(pk__in=keys).exists()


def names(groups: Iterable[Group]) -> str:
    """Groups as a sentence ends with them."""
    return ", ".join(sorted(group.name for group in groups)) or "no group at all"


_access = Prepared(lambda slug: TemplateAccess.objects.filter(slug=slug), str)


def access_to(slug: str) -> TemplateAccess | None:
    """What operators said about a template; None where they said nothing."""
    return next(iter(_access.get(slug)), None)


def who_may(access: TemplateAccess | None) -> str:
    """Who may order by a template, in words."""
    if access is None or (access.enabled and not access.restricted):
        return gettext("Everybody")
    if not access.enabled:
        return gettext("Nobody: it is switched off")
    return gettext("Members of %(groups)s") % {"groups": names(access.groups.all())}


def why_not(slug: str, by: User) -> NotPermitted | None:
    """What an order by this template would be refused with; None where the person may order."""
    return _why_not(access_to(slug), by)


def refusals(by: User) -> dict[str, NotPermitted]:
    """The same of all templates: slug → refusal, of those that the person may not order."""
    reasons = {
        access.slug: _why_not(access, by)
        for access in TemplateAccess.objects.prefetch_related("groups")
    }
    return {slug: refusal for slug, refusal in reasons.items() if refusal is not None}


def _why_not(access: TemplateAccess | None, by: User) -> NotPermitted | None:
    if access is None:
        return None
    if not access.enabled:
        message = (
            f"The template {access.slug} is switched off, so nothing was begun. An operator can "
            "switch it on again."
        )
        return SwitchedOff("template_off", message)
    if not is_among(by, access.groups.all(), restricted=access.restricted):
        message = (
            f"You may not order by the template {access.slug}, so nothing was begun. An "
            "operator decides which groups may."
        )
        return Forbidden("template_not_allowed", message)
    return None


def default_template() -> str:
    """Give the slug of the instance's default, for orders that name no template; "" for none."""
    return str(
        TemplateAccess.objects.filter(default=True).values_list("slug", flat=True).first() or ""
    )


def settle_default(slug: str, *, default: bool) -> None:
    """Make a template the instance's default in place of the one that was, or take that back.

    Call inside a transaction. Raises IntegrityError where another one is made it meanwhile.
    """
    if default:
        TemplateAccess.objects.filter(default=True).exclude(slug=slug).update(default=False)
        TemplateAccess.objects.get_or_create(slug=slug)
    TemplateAccess.objects.filter(slug=slug).exclude(default=default).update(default=default)


def check_order(slug: str, by: User, *, repository: Repository | None = None) -> None:
    """Raise NotPermitted where a person may not begin work by a template, or not on that
    repository.
    """
    if (refusal := why_not(slug, by)) is not None:
        raise refusal
    if repository is not None:
        check_use(repository, slug, by)


def check_repository(repository: Repository, by: User) -> None:
    """Raise Forbidden where a person may not begin work on a repository, by whatever template."""
    if not is_among(by, repository.use_groups.all(), restricted=repository.use_restricted):
        message = (
            "You may not use this repository, so nothing was begun. An operator decides which "
            "groups may."
        )
        raise Forbidden("repository_not_allowed", message)


def check_use(repository: Repository, slug: str, by: User) -> None:
    """Raise NotPermitted where a person may not begin work on a repository by this template."""
    check_repository(repository, by)
    if repository.allowed_templates and slug not in repository.allowed_templates:
        message = f"The template {slug} is not allowed on {repository.name}, so nothing was begun. "
        raise SwitchedOff(
            "template_not_on_repository",
            f"{message}Allowed are {', '.join(repository.allowed_templates)}.",
        )


def delivering_step(steps: Sequence[FrozenStep]) -> str:
    """The name of the first step that pushes by itself; "" where there is none."""
    return next((step["name"] for step in steps if traits_of(step["function"]).delivers), "")


def is_reviewed(steps: Sequence[FrozenStep], at: str, *, skipped: Iterable[str] = ()) -> bool:
    """Whether a step before `at` asks a person; one that its own condition skipped asked nobody."""
    before = [step["name"] for step in steps]
    passed = steps[: before.index(at)] if at in before else []
    return any(step["pause_after"] and step["name"] not in set(skipped) for step in passed)


def check_delivery(source: str, slug: str, people: Iterable[User], *, reviewed: bool) -> None:
    """Raise Forbidden where work of these people may not leave for the repository at `source`, as
    operators settled it by now.
    """
    repository = (
        Repository.objects.filter(url=source)
        .prefetch_related("use_groups", "delivery_groups")
        .first()
    )
    for user in people:
        if repository is not None:
            check_use(repository, slug, user)
        if repository is not None and not is_among(
            user, repository.delivery_groups.all(), restricted=repository.delivery_restricted
        ):
            message = (
                f"{user.get_username()} may not have work delivered to {repository.name}: that "
                "is for members of "
            )
            message += f"{names(repository.delivery_groups.all())}."
            raise Forbidden("delivery_not_allowed", message)
        if not user.is_active or not (reviewed or user.has_perm(UNREVIEWED)):
            message = (
                f"No step of the template {slug} asks anybody before the work is pushed, and "
                f"{user.get_username()} has no right to that."
            )
            raise Forbidden(
                "delivery_unreviewed",
                f"{message} Order by a template that asks, or without a push; an operator can "
                "give the right.",
            )


def people_behind(order: WorkOrder, started_by: int | None) -> list[User]:
    """Whoever asked for the work, and whoever began this run, as their accounts are now."""
    keys = {key for key in (order.created_by_id, started_by) if key is not None}
    return list(User.objects.filter(pk__in=keys).order_by("pk"))


def usable(by: User) -> Q:
    """Of repositories that a person may use."""
    mine = Q(use_groups__in=by.groups.values("pk"))
    return Q() if by.is_superuser else Q(use_restricted=False) | mine


def settle(row: Any, relation: str, flag: str, groups: Iterable[Group]) -> None:
    """Let these groups have it, and nobody else; everybody where none is named.

    A group that is deleted later leaves its place empty and the restriction standing: what was for
    a few is never everybody's by that.
    """
    chosen = list(groups)
    getattr(row, relation).set(chosen)
    setattr(row, flag, bool(chosen))
    row.save(update_fields=[flag])
