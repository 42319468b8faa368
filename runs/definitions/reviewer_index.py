"""Who answers by a step's `review` rules, as rows: a person's questions are looked for on every
page, and rules are text.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkpoints.state import codec
from runs.models import Panel, PanelMember
from runs.workflows.reviews import stages
from runs.workflows.reviews.review import Actors, Review


def keep(review: Review) -> str | None:
    """The key of the panel of these rules, which is written if it is new; None where they leave it
    at the usual.

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
