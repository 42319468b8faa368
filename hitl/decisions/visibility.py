"""What a person may see, looked up: what there is not, and what they may not see, are the same.

People who are asked on a thread that they take no part in see the question, and the page of its
order or thread. No more. So do colleagues whose opinion a comment asks, until it is taken back; by
that alone they cannot answer.

Such an observer looks at the page and its news, and answers; to cancel the order, retry, fork or
export it, or read its states and checkpoints, one must take part (`Thread.objects.visible_to`).
Who may suspend it: `hitl.decisions.reviewers.suspending`. Observers keep seeing it once the
question is closed, so that they learn what became of it; whoever stands in for somebody, as long as
the delegation lasts. Both are looked for only where the usual, quick way finds nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from django.db import models
from django.db.models import Exists, OuterRef, Q, Value

from checkpoints.database import one_look
from checkpoints.database.people import User
from checkpoints.models import Checkpoint, Thread
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions.deadlines import outcomes
from hitl.decisions.errors import NotFound
from hitl.decisions.reviewers import external_access, policy, suspending
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.decisions.reviewers.policy import Actor, ReviewContext
from hitl.models import Comment, Decision, Delegation, Mention, Snooze
from runs.definitions import rights
from runs.models import Artifact, Pause, PauseQuerySet, Run, WorkOrder
from runs.states import LIVE, SUSPENDED
from runs.workflows.sequence import APPROVE

AnyReviewContext = ReviewContext | external_access.ExternalReviewContext
Row = TypeVar("Row", bound=models.Model)


class _VisibleRows(Generic[Row]):
    """What a person sees of a key, as `query` reads it.

    Prepared, since whoever asks waits; superusers and who was switched off see by other queries.
    """

    def __init__(self, query: Callable[[User, uuid.UUID], models.QuerySet[Row]]) -> None:
        self._query = query
        self._prepared = Prepared(lambda user_id, key: query(User(pk=user_id), key), int, uuid.UUID)

    def get(self, by: User, key: uuid.UUID) -> list[Row]:
        usual = by.is_authenticated and by.is_active and not by.is_superuser
        rows = self._prepared.get(by.pk, key) if usual else list(self._query(by, key))
        for row in rows:
            _note(row, by)
        return rows


def _note(row: models.Model, by: User) -> None:
    about: tuple[uuid.UUID, uuid.UUID | None]
    match row:
        case Pause() if Pause.run.is_cached(row):
            about = row.run.thread_id, row.run_id
        case WorkOrder() if one_look.is_one():  # a retry gives it another run
            about = row.thread_id, row.latest_run_id
        case Thread():
            about = row.pk, None
        case _:
            return
    one_look.keep(("seen", by.pk, row.pk), about)


def seen(key: uuid.UUID, *, by: User) -> tuple[uuid.UUID, uuid.UUID | None] | None:
    """The thread, and the run, of what this look found and this person sees; None where it found
    none of this key.
    """
    found: tuple[uuid.UUID, uuid.UUID | None] | None = one_look.kept(("seen", by.pk, key))
    return found


by_id = _VisibleRows(lambda by, key: Pause.objects.visible_to(by).answerable().filter(pk=key))
"""Questions that a person may answer as one who takes part: by their key,"""
open_of_order = _VisibleRows(
    lambda by, key: Pause.objects.visible_to(by).answerable().open().filter(run__work_order=key)
)
"""and the open ones of a work order."""
_naming = Prepared(
    lambda name, user_id, key: (
        Pause.objects.naming(name, User.objects.filter(pk=user_id).values("groups__name"))
        .answerable()
        .filter(pk=key)
    ),
    str,
    int,
    uuid.UUID,
)
"""Questions whose rules name a person or a group of theirs: most of those whom a question is put to
without their taking part.
"""
_whole_threads = _VisibleRows(
    lambda by, key: (
        Thread.objects.visible_to(by)
        .filter(pk=key)
        .select_related("owner", "team", "head", "work_order")
        .defer("head__body")
    )
)
_runs = _VisibleRows(lambda by, key: Run.objects.visible_to(by).shown().filter(pk=key))
_threads = _VisibleRows(lambda by, key: Thread.objects.visible_to(by).filter(pk=key).only("pk"))
_shown_pauses = _VisibleRows(lambda by, key: Pause.objects.shown().visible_to(by).filter(pk=key))
_orders = _VisibleRows(lambda by, key: WorkOrder.objects.visible_to(by).shown().filter(pk=key))
_orders_as_seen = _VisibleRows(
    lambda by, key: WorkOrder.objects.visible_to(by).shown_to(by).filter(pk=key)
)
_checkpoints = _VisibleRows(
    lambda by, key: (
        Checkpoint.objects.filter(thread__in=Thread.objects.visible_to(by), pk=key)
        .select_related("thread__work_order", "thread__head")
        .defer("thread__head__body")
    )
)
_run_of_anybody = Prepared(lambda key: Run.objects.shown().filter(pk=key), uuid.UUID)


def find_pause(pauses: PauseQuerySet, pause_id: uuid.UUID, *, by: User) -> Pause:
    """Give a question, read as `pauses` says, that a person sees as a participant or because it is
    put to them. Raises NotFound.
    """
    pause = pauses.filter(pk=pause_id).visible_to(by).first()
    return pause if pause is not None else _find_as_observer(pauses, pause_id, by)


def find_shown(pause_id: uuid.UUID, *, by: User) -> Pause:
    """As `find_pause`, read with all that lists and pages show."""
    pause = next(iter(_shown_pauses.get(by, pause_id)), None)
    return pause if pause is not None else _find_as_observer(Pause.objects.shown(), pause_id, by)


def _find_as_observer(pauses: PauseQuerySet, pause_id: uuid.UUID, by: User) -> Pause:
    pause = None
    if _may(by) and _shown_to(by).filter(pk=pause_id).exists():
        pause = pauses.filter(pk=pause_id).first()
    if pause is None:
        raise NotFound("There is no such question.")
    _note(pause, by)
    return pause


def sees_pause(pause_id: uuid.UUID, *, by: User) -> bool:
    try:
        find_pause(Pause.objects.all(), pause_id, by=by)
    except NotFound:
        return False
    return True


def asked_on_order(order_id: uuid.UUID, *, by: User) -> list[Pause]:
    """The open questions of a work order that a person is asked, as `answerable`, without taking
    part in it.
    """
    if not _may(by):
        return []
    asked = policy.asked_of(by).filter(run__work_order=order_id).values("pk")
    theirs = Q(pk__in=asked)
    if suspending.may(by, order_id=order_id):
        theirs |= Q(run__work_order=order_id, phase=SUSPENDED)
    return list(Pause.objects.open().answerable().filter(theirs).order_by("pk"))


def is_observer(thread: Thread, *, by: User) -> bool:
    """Whether a person who sees a thread takes no part in it."""
    if thread.owner_id == by.pk:
        return False
    return not one_look.once(("part", by.pk, thread.pk), lambda: _threads.get(by, thread.pk))


def sees(thread_id: uuid.UUID, *, by: User) -> bool:
    if seen(thread_id, by=by) is not None:
        return True
    return bool(_threads.get(by, thread_id)) or is_asked(thread_id, by=by)


def is_asked(thread_id: uuid.UUID, *, by: User) -> bool:
    """Whether a question of a thread, its order's child runs among it, is or was put to a
    person, or their opinion on it was asked.
    """
    if not _may(by):
        return False
    order = WorkOrder.objects.filter(thread=thread_id).values("pk")
    of_thread = Pause.objects.filter(run__thread=thread_id) | Pause.objects.filter(
        run__work_order__in=order
    )
    below = _below(thread_id)
    shown = _shown_to(by)
    return shown.filter(pk__in=of_thread.values("pk")).exists() or bool(
        below and shown.filter(run__in=below).exists()
    )


def threads_shown_to(by: User) -> models.QuerySet[Thread]:
    """The threads of whose own questions a person sees one without taking part."""
    if not _may(by):
        return Thread.objects.none()
    return Thread.objects.filter(pk__in=_shown_to(by).values("run__thread"))


def _shown_to(by: User) -> PauseQuerySet:
    """The questions that a person sees without taking part: was asked, or asked about."""
    about = Mention.objects.filter(person=by, asked=True, comment__withdrawn_at=None)
    asked = policy.asked_of(by)
    return Pause.objects.filter(
        Q(pk__in=asked.values("pk"))
        | Q(pk__in=suspending.stops_of(asked).values("pk"))
        | Q(pk__in=about.values("comment__pause"))
    )


def _below(thread_id: uuid.UUID) -> list[uuid.UUID]:
    """The runs below a thread's own: their questions are shown on its page."""
    run_ids = level = list(
        Run.objects.filter(parent__thread=thread_id).values_list("pk", flat=True)
    )
    while level := list(Run.objects.filter(parent__in=level).values_list("pk", flat=True)):
        run_ids = [*run_ids, *level]
    return run_ids


def _may(by: User) -> bool:
    return by.is_authenticated and by.is_active and not by.is_superuser


def review_context(pause_id: uuid.UUID, by: Actor) -> AnyReviewContext:
    """How whoever answers stands to a question, read `answerable`; raises NotFound."""
    if isinstance(by, Outsider):
        return _outside(pause_id, by)
    pause = next(iter(by_id.get(by, pause_id)), None)
    if pause is not None:
        return suspending.context_of(pause, by, takes_part=True)
    if _may(by) and (named := _naming.get(by.get_username(), by.pk, pause_id)):
        _note(named[0], by)
        return suspending.context_of(named[0], by)
    try:
        pause = _find_as_observer(Pause.objects.answerable(), pause_id, by)
    except NotFound:
        if (stop := _stop_for_operator(pause_id, by)) is not None:
            return suspending.StopContext(stop, by)
        # the people whom the rules ask from the deadline on are asked now
        if not outcomes.meet(Pause.objects.filter(pk=pause_id)):
            raise
        pause = _find_as_observer(Pause.objects.answerable(), pause_id, by)
    return suspending.context_of(pause, by)


def _stop_for_operator(pause_id: uuid.UUID, by: User) -> Pause | None:
    """A suspension that operators may let go on without seeing the work."""
    stop = Pause.objects.answerable().filter(pk=pause_id, phase=SUSPENDED).first()
    return stop if stop is not None and may_suspend(stop.run, by=by) else None


def _outside(pause_id: uuid.UUID, by: Outsider) -> external_access.ExternalReviewContext:
    pause = Pause.objects.answerable().filter(pk=pause_id).first()
    if pause is None or not external_access.may_answer(pause, by.address):
        raise NotFound("There is no such question.")
    return external_access.ExternalReviewContext(pause, by)


def find_checkpoint(checkpoint_id: uuid.UUID, *, by: User) -> Checkpoint:
    """A checkpoint that this person may see; raises NotFound."""
    checkpoint = next(iter(_checkpoints.get(by, checkpoint_id)), None)
    if checkpoint is None:
        raise NotFound("There is no such checkpoint.")
    return checkpoint


def find_order(order_id: uuid.UUID, *, by: User) -> WorkOrder:
    """A work order that this person may see; raises NotFound."""
    order = next(iter(_orders.get(by, order_id)), None)
    if order is None:
        raise NotFound("There is no such work order.")
    return order


def may_suspend(run: Run | None, *, by: User) -> bool:
    """Whether a person who takes no part in a run's work may have it stop, and go on again."""
    return run is not None and suspending.may(
        by, order_id=run.work_order_id, thread_id=run.thread_id
    )


def find_to_suspend(order_id: uuid.UUID, *, by: User) -> WorkOrder:
    """A work order that this person may have stopped; raises NotFound."""
    try:
        return find_order(order_id, by=by)
    except NotFound:
        order = WorkOrder.objects.shown().filter(pk=order_id).first()
        if order is None or not suspending.may(by, order_id=order_id):
            raise
        return order


def find_run_to_suspend(run_id: uuid.UUID, *, by: User) -> Run:
    """A run that this person may have stopped; raises NotFound."""
    run = next(iter(_runs.get(by, run_id)), None)
    if run is None:
        run = next(iter(_run_of_anybody.get(run_id)), None)
        if run is None or not may_suspend(run, by=by):
            raise NotFound("There is no such run.")
    return run


def find_thread(thread_id: uuid.UUID, *, by: User) -> Thread:
    """A thread that this person may see; raises NotFound."""
    thread = next(iter(_whole_threads.get(by, thread_id)), None)
    if thread is None:
        raise NotFound("There is no such thread.")
    return thread


def find_run(run_id: uuid.UUID, *, by: User) -> Run:
    """A run that this person may see; raises NotFound."""
    run = next(iter(_runs.get(by, run_id)), None)
    if run is None:
        raise NotFound("There is no such run.")
    return run


def look_at_run(run_id: uuid.UUID, *, by: User) -> Run:
    """A run that this person may see, or is asked on; raises NotFound."""
    run = next(iter(_run_of_anybody.get(run_id)), None)
    if run is None or not sees(run.thread_id, by=by):
        raise NotFound("There is no such run.")
    return run


def look_at_order(order_id: uuid.UUID, *, by: User) -> WorkOrder:
    """A work order that this person may see, or is asked on; raises NotFound."""
    order = next(iter(_orders_as_seen.get(by, order_id)), None)
    if (
        order is None
        and (asked := WorkOrder.objects.shown_to(by).filter(pk=order_id).first())
        and is_asked(asked.thread_id, by=by)
    ):
        _note(asked, by)
        return asked
    if order is None:
        raise NotFound("There is no such work order.")
    return order


class SeenOrder(NamedTuple):
    """A work order, and how a person sees it."""

    order: WorkOrder
    observes: bool
    """They take no part in it, but are asked on it."""


def _on_page(by: User, key: uuid.UUID) -> models.QuerySet[WorkOrder]:
    """With what most orders have none of, so that it need not be looked for; and with what decides
    whether this person may raise priorities.
    """
    thread = OuterRef("thread")
    orders = WorkOrder.objects.visible_to(by).shown_to(by).filter(pk=key)
    return orders.annotate(
        has_children=Exists(Run.objects.filter(parent__thread=thread)),
        has_artifacts=Exists(Artifact.objects.filter(thread=thread)),
        may_raise=_may_raise(by),
    )


_orders_on_page = _VisibleRows(_on_page)


def _may_raise(by: User) -> Exists:
    """Whether somebody was given the right to raise priorities, himself or by a group."""
    app, _, name = rights.RAISE.partition(".")
    own = Q(user_permissions__content_type__app_label=app, user_permissions__codename=name)
    of_group = Q(
        groups__permissions__content_type__app_label=app, groups__permissions__codename=name
    )
    return Exists(User.objects.filter(own | of_group, pk=by.pk))


def order_on_page(order_id: uuid.UUID, *, by: User) -> SeenOrder:
    """As `look_at_order`, with what its page has beside it."""
    order = next(iter(_orders_on_page.get(by, order_id)), None)
    if order is not None:
        return SeenOrder(order, observes=False)
    return SeenOrder(look_at_order(order_id, by=by), observes=True)


_threads_on_page = _VisibleRows(
    lambda by, key: _threads_shown(Thread.objects.visible_to(by).filter(pk=key)).annotate(
        takes_part=Value(True)
    )
)


def _threads_shown(threads: models.QuerySet[Thread]) -> models.QuerySet[Thread]:
    """With what their page shows, and `has_home`: whether that of an order or of another run may be
    theirs.
    """
    of_another = Run.objects.filter(thread=OuterRef("pk")).exclude(parent=None, work_order=None)
    related = threads.select_related("owner", "team", "head", "work_order")
    return related.defer("head__body").annotate(has_home=Exists(of_another))


def thread_on_page(thread_id: uuid.UUID, *, by: User) -> Thread | None:
    """A thread that this person sees, or is asked on; None where there is no such thread.

    One in which they take part says so in `takes_part`.
    """
    thread = next(iter(_threads_on_page.get(by, thread_id)), None)
    if thread is None and is_asked(thread_id, by=by):
        return _threads_shown(Thread.objects.filter(pk=thread_id)).first()
    return thread


def _on_card() -> PauseQuerySet:
    # the checkpoint tells what the revision cost
    related = Pause.objects.open().shown().select_related("checkpoint").defer("checkpoint__body")
    return related.annotate(**_said_at()).order_by("id")


_open_pauses = Prepared(lambda key: _on_card().filter(run__work_order=key), uuid.UUID)
_open_of_run = Prepared(lambda key: _on_card().filter(run=key), uuid.UUID)


def open_pauses_of(runs: Sequence[uuid.UUID]) -> list[Pause]:
    """The open questions of these runs, oldest first."""
    if len(runs) == 1:  # the usual
        return _open_of_run.get(runs[0])
    return list(_on_card().filter(run__in=runs)) if runs else []


def _said_at() -> dict[str, Exists]:
    """What most questions have none of, so that it need not be looked for: annotations of
    questions.
    """
    here = OuterRef("pk")
    before = Decision.objects.filter(
        pause__run__thread=OuterRef("run__thread"), pause__lt=here, action=APPROVE
    )
    return {
        "has_comments": Exists(Comment.objects.filter(pause=here)),
        "has_handed_over": Exists(Delegation.objects.filter(pause=here)),
        "has_snoozes": Exists(Snooze.objects.filter(pause=here)),
        "has_approved": Exists(before.exclude(pause__step=OuterRef("step"))),
    }


def open_pauses(order: WorkOrder) -> list[Pause]:
    """The open questions of a work order, oldest first: its run's own, or those of its child
    runs.
    """
    if order.latest_run is None or order.latest_run.status not in LIVE:
        return []
    return _open_pauses.get(order.pk)


def open_pause(order: WorkOrder) -> Pause | None:
    """The oldest open question of a work order."""
    return next(iter(open_pauses(order)), None)
