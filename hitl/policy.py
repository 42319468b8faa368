"""Who may answer a question."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from runs.models import Pause
from runs.workflows.review import Actors


def answerers(pause: Pause) -> QuerySet[User]:
    """The people who may answer an open question: those whom its rules name, with the stages of escalation that were reached.

    Where the rules name nobody: the thread's team and its owner.
    """
    named: list[Actors] = [pause.review.get("reviewers", {}), *pause.review.get("escalation", [])[: pause.stage]]
    users = {name for actors in named for name in actors.get("users", [])}
    groups = {name for actors in named for name in actors.get("groups", [])}
    thread = pause.run.thread
    if users or groups:
        who = Q(username__in=users) | Q(groups__name__in=groups)
    else:
        who = Q(pk=thread.owner_id) | (Q(groups=thread.team_id) if thread.team_id else Q())
    return User.objects.filter(who, is_active=True).distinct()
