"""Whether anybody can answer a question whose step narrowed its rules: the people that it names, as
the accounts stand when it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet

from checkpoints.database.people import NAME, User, called
from runs.models import Run
from runs.workflows import refusals
from runs.workflows.base import StepFailed

LISTED = 1_000
"""Names among which a near one is looked for."""


def check(run: Run, review: Mapping[str, Any]) -> None:
    """Raise StepFailed where the rules of a question name somebody whom nobody is, somebody whom
    the rules of its step do not name, or fewer people than must approve.
    """
    named = review.get("reviewers", {})
    if not any(named.values()):
        return
    users, groups = set(named.get("users", [])), set(named.get("groups", []))
    people = User.objects.filter(is_active=True)
    _check_known("person with an active account", users, people, NAME)
    _check_known("group", groups, Group.objects.all(), "name")
    if within := review.get("within"):
        theirs = set(people.filter(_among(within)).values_list(NAME, flat=True))
        if others := sorted(users - theirs):
            raise _refused(f"{others[0]!r} is not among the reviewers that its template names.")
        people = people.filter(_among(within))
    able = people.filter(_among(named))
    if not review.get("self_approval", True):
        able = able.exclude(pk__in=_askers(run))
    wanted = review.get("quorum", 1)
    if (count := able.distinct().count()) < wanted:
        raise _refused(f"{wanted} must approve, and only {count} of those whom it names could.")


def _among(actors: Mapping[str, Any]) -> Q:
    """Of the people that rules name: each such condition looks at all groups of a person."""
    members = User.objects.filter(groups__name__in=actors.get("groups", []))
    return called(*actors.get("users", [])) | Q(pk__in=members.values("pk"))


def _askers(run: Run) -> set[int]:
    order = run.work_order
    named = {run.thread.owner_id, run.started_by_id, order.created_by_id if order else None}
    return {key for key in named if key is not None}


def _check_known(noun: str, names: set[str], rows: QuerySet[Any], field: str) -> None:
    known = rows.values_list(field, flat=True)
    there = set(known.filter(**{f"{field}__in": names})) if names else names
    for name in sorted(names - there):
        raise _refused(refusals.unknown(noun, name, known.order_by("pk")[:LISTED]))


def _refused(why: str) -> StepFailed:
    return StepFailed(
        f"This question narrows the rules of its step, and nobody could answer it so: {why} "
        "Nothing of this step was recorded.",
        code="review_narrowed_wrong",
    )
