"""Keep the reviewers that a step's `review` rules name as rows: every page looks for a person's
questions, and a query cannot read rules. Check, too, that somebody can answer where a question
narrowed the rules of its step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet

from checkpoints.database.people import NAME, User, called
from checkpoints.state import codec
from runs.models import Panel, PanelMember, Run
from runs.workflows import refusals
from runs.workflows.base import StepFailed
from runs.workflows.reviews import stages
from runs.workflows.reviews.review import Actors, Review


def keep(review: Review) -> str | None:
    """Give the key of the panel of these rules, and write the panel if it is new; None where the
    rules ask for nothing unusual.

    Call inside a transaction.
    """
    reviewers, escalation = review.get("reviewers", {}), review.get("escalation", [])
    rules = {"self_approval": review.get("self_approval", True), "quorum": stages.quorum(review)}
    names = [
        *_named(0, reviewers),
        *(name for at, stage in enumerate(escalation, start=1) for name in _named(at, stage)),
    ]
    turns: dict[tuple[int, str, str], int] = {}
    for stage in stages.of(review):
        for name in _named(0, stage.get("reviewers", {})):
            turns[name] = turns.get(name, 0) | stages.bits(review, {stage["name"]})
    names += turns
    if not names and rules == {"self_approval": True, "quorum": 1}:
        return None
    open_to_all = not any(reviewers.values()) and not turns
    digest = codec.digest(
        codec.encode(
            {
                **rules,
                "open_to_all": open_to_all,
                "names": [list(name) for name in names],
                **({"turns": list(turns.values())} if turns else {}),
            }
        )
    )
    if not Panel.objects.filter(pk=digest).exists():
        Panel.objects.bulk_create(
            [Panel(digest=digest, open_to_all=open_to_all, **rules)], ignore_conflicts=True
        )
        members = [
            PanelMember(
                panel_id=digest,
                stage=stage,
                username=user,
                group=group,
                turn=turns.get((stage, user, group), 0),
            )
            for stage, user, group in names
        ]
        PanelMember.objects.bulk_create(members, ignore_conflicts=True)
    return digest


def _named(stage: int, actors: Actors) -> Iterator[tuple[int, str, str]]:
    for user in sorted(set(actors.get("users", []))):
        yield stage, user, ""
    for group in sorted(set(actors.get("groups", []))):
        yield stage, "", group


LISTED = 1_000
"""How many known names are searched for one that is like an unknown name."""


def check_narrowed(run: Run, review: Mapping[str, Any]) -> None:
    """Raise StepFailed where the rules of a question name a person or group that does not exist, a
    person whom the rules of its step do not name, or fewer people than must approve.
    """
    named = review.get("reviewers", {})
    if not any(named.values()):
        return
    users, groups = set(named.get("users", [])), set(named.get("groups", []))
    people = User.objects.filter(is_active=True)
    _check_known("person with an active account", users, people, NAME)
    _check_known("group", groups, Group.objects.all(), "name")
    if within := review.get("within"):
        allowed = set(people.filter(_among(within)).values_list(NAME, flat=True))
        if others := sorted(users - allowed):
            raise _refused(
                f"{refusals.in_json(others[0])} is not among the reviewers that its template names."
            )
        people = people.filter(_among(within))
    able = people.filter(_among(named))
    if not review.get("self_approval", True):
        able = able.exclude(pk__in=_askers(run))
    wanted = review.get("quorum", 1)
    if (count := able.distinct().count()) < wanted:
        raise _refused(f"{wanted} must approve, and only {count} of those whom it names could.")


def _among(actors: Mapping[str, Any]) -> Q:
    """Match the people that rules name. With two such conditions a person may match each by another
    group.
    """
    members = User.objects.filter(groups__name__in=actors.get("groups", []))
    return called(*actors.get("users", [])) | Q(pk__in=members.values("pk"))


def _askers(run: Run) -> set[int]:
    order = run.work_order
    named = {run.thread.owner_id, run.started_by_id, order.created_by_id if order else None}
    return {key for key in named if key is not None}


def _check_known(noun: str, names: set[str], rows: QuerySet[Any], field: str) -> None:
    known = rows.values_list(field, flat=True)
    existing = set(known.filter(**{f"{field}__in": names})) if names else names
    for name in sorted(names - existing):
        raise _refused(refusals.unknown(noun, name, known.order_by("pk")[:LISTED]))


def _refused(why: str) -> StepFailed:
    return StepFailed(
        f"This question narrows the rules of its step, and nobody could answer it so: {why} "
        "Nothing of this step was recorded.",
        code="review_narrowed_wrong",
    )
