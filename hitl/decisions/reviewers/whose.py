"""Whose the questions are that a person may see waiting: their own, their teams', and those that
others answer for work that they asked for.
"""

from __future__ import annotations

from django.db.models import Q

from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.decisions.reviewers import policy
from runs.models import Pause, PauseQuerySet


def own(waiting: PauseQuerySet, user: User) -> PauseQuerySet:
    """Of what waits for a person: what nobody else may be expected to answer."""
    return waiting.filter(_own(user))


def shared(waiting: PauseQuerySet, user: User) -> PauseQuerySet:
    """The rest of it: what teams, groups and people they stand in for are asked too."""
    return waiting.exclude(_own(user))


def asked(user: User) -> PauseQuerySet:
    """The open questions of work that a person asked for and that others must answer."""
    return (
        Pause.objects.open()
        .filter(run__thread__owner=user.pk)
        .exclude(pk__in=policy.waiting_for(user).values("pk"))
    )


def _own(user: User) -> Q:
    """Asked of the person by name, claimed by them, or on a thread of theirs without a team."""
    named = Pause.objects.open().naming(user.get_username(), [])
    return (
        Q(pk__in=named.values("pk"))
        | Q(claimed_by=user.pk, claimed_until__gt=clock.now())
        | Q(run__thread__owner=user.pk, run__thread__team=None, panel=None)
    )
