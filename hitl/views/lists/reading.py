"""What the rows of lists show, each list in one query that brings that and no more.

Of questions and answers themselves there are the objects that the rules ask; of all around them
there are the words that a row has, not five levels of objects. The SQL is made once per process.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DEFAULT_DB_ALIAS, models
from django.db.models import OuterRef, QuerySet, Subquery

from checkpoints import ids
from checkpoints.database.people import NAMED_BY, User
from checkpoints.models import Checkpoint, Thread
from checkpoints.store.prepared_queries import PreparedValues
from checkpoints.text import invisible
from hitl.models import Decision, name_of
from hitl.rendering.links import order_at, root_of, thread_at
from hitl.rendering.paging import RowPosition
from runs.models import Definition, Pause, Run, WorkOrder

AT_ONCE = 51
"""Rows of one query: those of a page, and one that says whether there are more."""


def _columns(model: type[models.Model], *names: str) -> list[str]:
    """The key and these columns, in the order in which `from_db` takes them."""
    known = model._meta.concrete_fields
    return [field.attname for field in known if field.primary_key or field.name in names]


Row = list[Any]
PERSON = _columns(User, *NAMED_BY)
KEY = PERSON.index(User._meta.pk.attname)
OF_WORK = (
    *("work_order_id", "work_order__title", "thread_id", "thread__title", "thread__team__name"),
    *("child_name", "parent_id", "parent__thread_id", "parent__parent_id"),
    *("definition__template_slug", "definition__template_version"),
    *(f"work_order__created_by__{name}" for name in PERSON),
    *(f"thread__owner__{name}" for name in PERSON),
)
OF_OPEN = _columns(
    Pause,
    *("question", "revision", "kind", "review", "turn", "opened_at", "changed_at", "deadline_at"),
    *(
        "status",
        "answers",
        "labels",
        "answers_without_input",
        "required_inputs",
        "calls",
        "content_digest",
    ),
    *("claimed_until", "summary", "brief", "facts", "approvals"),
)
OF_PAST = _columns(Pause, "status", "question", "revision", "labels", "closed_at")
OF_ORDER = _columns(WorkOrder, "title", "definition", "latest_run", "thread", "created_at")
OF_RUN = _columns(Run, "status", "awaited", "due_at")
OF_HEAD = _columns(Checkpoint, "run_id", "node_id", "next_step", "metadata")
OF_ANSWER = _columns(
    Decision, "action", "feedback", "by_name", "for_name", "external", "via", "decided_at"
)


@dataclass(frozen=True, slots=True)
class Work:
    """Whose question it is: an order's, a child run's, a thread's."""

    title: str
    child: str
    is_of_order: bool
    is_child: bool
    definition: str
    asker: str
    """The name of who asked for the work."""
    team: str
    home: str
    """The address of the page that shows it."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An open question, as a row shows it."""

    pause: Pause
    work: Work
    claimed_by: int | None
    claimer: str
    """The name of who has claimed it."""


@dataclass(frozen=True, slots=True)
class Past:
    """A question that is over: answered, or expired where there is no decision."""

    pause: Pause
    work: Work
    decision: Decision | None
    at: dt.datetime

    @property
    def key(self) -> uuid.UUID:
        return self.decision.pk if self.decision else self.pause.pk

    @property
    def place(self) -> RowPosition:
        return RowPosition(self.at, self.key)


def waiting(keys: Sequence[uuid.UUID]) -> list[Waiting]:
    """Questions, in the order of their keys; without those that are no more."""
    found = {row.pause.pk: row for row in read_waiting(_waiting(keys))}
    return [found[key] for key in keys if key in found]


def read_waiting(rows: Iterable[Row]) -> Iterator[Waiting]:
    """The questions that rows of `OPEN_ROW` tell of."""
    people: dict[int, User] = {}
    for row in rows:
        pause, at = _object(Pause, OF_OPEN, row, 0)
        work, at = _work(row, at, people)
        claimer, at = _person(row, at, people)
        yield Waiting(
            pause,
            work,
            claimer.pk if claimer else None,
            name_of(claimer) if claimer else "",
        )


def answers(keys: Sequence[uuid.UUID]) -> list[Past]:
    """These answers, in no order."""
    return list(_past(_answers(keys)))


def answers_to(pauses: Sequence[uuid.UUID]) -> list[Past]:
    """The answers to these questions, the first ones first."""
    found = _past(_answers_to(pauses))
    return sorted(found, key=lambda past: past.place)


def lapses(keys: Sequence[uuid.UUID]) -> list[Past]:
    """The same of questions that nobody answered in time."""
    people: dict[int, User] = {}
    found = []
    for row in _lapses(keys):
        pause, at = _object(Pause, OF_PAST, row, 0)
        work, at = _work(row, at, people)
        if pause.closed_at is not None:
            found.append(Past(pause, work, None, pause.closed_at))
    return found


@dataclass(frozen=True, slots=True)
class ListedOrder:
    """A work order as a row shows it: with its latest run, its head and its definition."""

    order: WorkOrder
    asker: str
    """The name of who asked for it."""


def orders(keys: Sequence[uuid.UUID]) -> list[ListedOrder]:
    """Work orders, in the order of their keys; without those that are no more."""
    people: dict[int, User] = {}
    rows = _orders(keys)
    known = _definitions({row[_DEFINITION] for row in rows})
    found = {}
    for row in rows:
        order, at = _object(WorkOrder, OF_ORDER, row, 0)
        run, at = _object(Run, OF_RUN, row, at) if order.latest_run_id else (None, at + len(OF_RUN))
        has_head = row[at + _HEAD] is not None
        head, at = _object(Checkpoint, OF_HEAD, row, at) if has_head else (None, at + len(OF_HEAD))
        asker, at = _person(row, at, people)
        order.latest_run, order.definition = run, known[order.definition_id]
        order.thread = Thread(pk=order.thread_id, head=head)
        order.asked = row[at]
        found[order.pk] = ListedOrder(order, name_of(asker) if asker else "")
    return [found[key] for key in keys if key in found]


def _definitions(digests: set[str]) -> dict[str, Definition]:
    """Those of some orders. Their content never changes: each is read once per process."""
    missing = digests - _known.keys()
    if missing:
        if len(_known) > MOST_KNOWN:
            _known.clear()
        _known.update(Definition.objects.in_bulk(missing))
    return {digest: _known[digest] for digest in digests}


MOST_KNOWN = 500
_known: dict[str, Definition] = {}


def _past(rows: Iterable[Row]) -> Iterator[Past]:
    people: dict[int, User] = {}
    for row in rows:
        decision, at = _object(Decision, OF_ANSWER, row, 0)
        decision.decided_by, at = _person(row, at, people)
        decision.on_behalf_of, at = _person(row, at, people)
        pause, at = _object(Pause, OF_PAST, row, at)
        work, at = _work(row, at, people)
        yield Past(pause, work, decision, decision.decided_at)


def _object(model: Any, columns: Sequence[str], row: Row, at: int) -> tuple[Any, int]:
    """What the columns from a place on make, and the place behind them; so do those below."""
    end = at + len(columns)
    return model.from_db(DEFAULT_DB_ALIAS, columns, row[at:end]), end


def _person(row: Row, at: int, people: dict[int, User]) -> tuple[User | None, int]:
    """Of a page most are the same few."""
    key = row[at + KEY]
    if key is None:
        return None, at + len(PERSON)
    if key not in people:
        people[key], _ = _object(User, PERSON, row, at)
    return people[key], at + len(PERSON)


def _work(row: Row, at: int, people: dict[int, User]) -> tuple[Work, int]:
    end = at + 11
    order, order_title, thread, title, team, child, parent, above, further, slug, version = row[
        at:end
    ]
    creator, end = _person(row, end, people)
    owner, end = _person(row, end, people)
    asker = creator or owner
    if order is not None:
        home = order_at(order)
    else:
        home = thread_at(_root(parent, further, above) if parent is not None else thread)
    work = Work(
        order_title or invisible.plain(title) or ids.show(Thread.PREFIX, thread),
        child,
        order is not None,
        parent is not None,
        f"{slug} v{version}",
        name_of(asker) if asker else "",
        team or "",
        home,
    )
    return work, end


def _root(parent: uuid.UUID, further: uuid.UUID | None, above: uuid.UUID) -> uuid.UUID:
    """The thread of the run for which, in the end, a child run of a thread works."""
    return above if further is None else root_of(Run.objects.get(pk=parent)).thread_id


class _ByKeys:
    """The rows of some keys: one query for a page of them, and another for a single one."""

    def __init__(self, build: Callable[[Sequence[uuid.UUID]], QuerySet[Any, Any]]) -> None:
        self._one = PreparedValues(lambda key: build([key]), uuid.UUID)
        self._page = PreparedValues(lambda *keys: build(keys), *[uuid.UUID] * AT_ONCE)

    def __call__(self, keys: Sequence[uuid.UUID]) -> list[Row]:
        if len(keys) == 1:
            return self._one.get(*keys)
        found = []
        for start in range(0, len(keys), AT_ONCE):
            part = keys[start : start + AT_ONCE]
            # the same key again finds no row more
            found += self._page.get(*part, *[part[-1]] * (AT_ONCE - len(part)))
        return found


def _of(path: str, names: Sequence[str]) -> list[str]:
    return [f"{path}__{name}" for name in names]


OPEN_ROW = (*OF_OPEN, *_of("run", OF_WORK), *_of("claimed_by", PERSON))
_waiting = _ByKeys(lambda keys: Pause.objects.filter(pk__in=keys).values_list(*OPEN_ROW))
_lapses = _ByKeys(
    lambda keys: Pause.objects.filter(pk__in=keys).values_list(*OF_PAST, *_of("run", OF_WORK))
)
_orders = _ByKeys(
    lambda keys: (
        WorkOrder.objects.filter(pk__in=keys)
        .annotate(asked=Subquery(Run.objects.phase_asked(OuterRef("pk"))))
        .values_list(
            *OF_ORDER,
            *_of("latest_run", OF_RUN),
            *_of("thread__head", OF_HEAD),
            *_of("created_by", PERSON),
            "asked",
        )
    )
)
_DEFINITION, _HEAD = OF_ORDER.index("definition_id"), OF_HEAD.index("id")
_SHOWN = (
    *OF_ANSWER,
    *_of("decided_by", PERSON),
    *_of("on_behalf_of", PERSON),
    *_of("pause", OF_PAST),
    *_of("pause__run", OF_WORK),
)
_answers = _ByKeys(
    lambda keys: Decision.objects.filter(pk__in=keys, pause__isnull=False).values_list(*_SHOWN)
)
_answers_to = _ByKeys(lambda keys: Decision.objects.filter(pause__in=keys).values_list(*_SHOWN))
