"""The one order in which locks are taken: pauses, runs from the parent down, threads upwards,
ledgers. So nobody waits in a circle.

Whoever writes several rows of a kind, or begins again with a pause, locks them here first. SQLite
has nothing to lock: there a writer holds everything.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from django.db.models import Q, QuerySet
from django.db.models.base import Model

from checkpoints.models import Thread
from checkpoints.store.prepared_queries import Prepared
from runs.models import Pause, Run
from runs.states import PauseStatus


def take(rows: QuerySet[Model], *order: str) -> None:
    """Lock these rows, in the order of these columns.

    Call inside a transaction. Whatever is then done with a row asks for itself whether it may.
    """
    list(rows.order_by(*order).select_for_update(no_key=True).values_list("pk"))


def lock_for_answers(pauses: Sequence[Pause]) -> None:
    """Lock what the answers to several pauses write, whatever they are.

    Call inside a transaction, before anything is written.
    """
    asking = [pause.run for pause in pauses]
    runs = {run.pk: run for run in asking}
    for run in asking:
        runs |= {other.pk: other for other in [*above(run), *below(run)]}
    closing = Q(pk__in=[pause.pk for pause in pauses]) | Q(run__in=runs, status=PauseStatus.OPEN)
    take(Pause.objects.filter(closing), "pk")
    take(Run.objects.filter(pk__in=runs), "depth", "pk")
    for run in sorted(runs.values(), key=lambda run: (-run.depth, run.thread_id)):
        take(Thread.objects.filter(pk=run.thread_id))


def above(run: Run) -> Iterator[Run]:
    """The run that waits for a run, and those that wait for that one."""
    while run.parent is not None:
        run = run.parent
        yield run


def below(run: Run) -> list[Run]:
    """Live runs under a run, level by level: one that has ended has none, its children end with
    it.
    """
    level = _children.get(run.pk)
    found = level
    while level:
        level = list(Run.objects.live().filter(parent__in=level).order_by("pk"))
        found = [*found, *level]
    return found


_children = Prepared(lambda key: Run.objects.live().filter(parent=key).order_by("pk"), uuid.UUID)
"""Prepared, since every cancellation asks, and mostly there are none."""
