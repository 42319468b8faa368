"""Questions, as lists are asked for them; those that wait are the inbox."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_noop

from checkpoints.database.people import NAME, User
from hitl.decisions.deadlines.changes import SOONEST
from hitl.decisions.reviewers import whose
from hitl.find.asking import Asked, Parameter
from hitl.find.lists import (
    DAY,
    DUE,
    DUE_BY,
    KIND,
    NEWEST,
    OLDEST,
    OPEN,
    PHASE,
    REPOSITORY,
    RISK,
    TEAM,
    TEMPLATE,
    WORDS,
    Asker,
    Condition,
    Facts,
    List,
    called,
    has,
    person,
    sort,
    times,
)
from hitl.models import Comment
from hitl.rendering.paging import ListOrder
from runs.models import Pause, PauseQuerySet
from runs.workflows.tool_calls import RISKS


def due(value: str, asker: Asker, at: str = "") -> Q:
    """Of questions that are due then."""
    column, now = f"{at}deadline_at", asker.now
    return {
        "overdue": Q(**{f"{column}__lte": now}),
        "today": Q(**{f"{column}__gt": now, f"{column}__lte": now + DAY}),
        "week": Q(**{f"{column}__gt": now, f"{column}__lte": now + 7 * DAY}),
        "none": Q(**{column: None}),
    }[value]


def dues(deadline: dt.datetime | None, asker: Asker) -> list[str]:
    """The values of `due` that a deadline has."""
    if deadline is None:
        return ["none"]
    if deadline <= asker.now:
        return ["overdue"]
    return [
        name for name, span in (("today", DAY), ("week", 7 * DAY)) if deadline <= asker.now + span
    ]


def _asker(at: str) -> Condition:
    """Who asked for the work that a question is of."""
    order, owner = f"{at}run__work_order__created_by", f"{at}run__thread__owner"

    def condition(value: str, asker: Asker) -> Q:
        return called(order)(value, asker) | Q(
            called(owner)(value, asker), **{f"{at}run__work_order": None}
        )

    return condition


def _templates(at: str) -> Condition:
    own, whole = f"{at}run__definition", f"{at}run__work_order__definition"
    return lambda value, asker: (
        Q(**{f"{own}__template_slug": value}) | Q(**{f"{whole}__template_slug": value})
    )


def of_questions(at: str = "") -> dict[str, Condition]:
    """The conditions on a question, found at that path."""
    return {
        "kind": has(f"{at}kind"),
        "phase": has(f"{at}phase"),
        "template": _templates(at),
        "person": _asker(at),
        "team": has(f"{at}run__thread__team__name"),
        "repository": has(f"{at}run__work_order__repository__name"),
        "risk": lambda value, asker: Q(**{f"{at}risk_rank": RISKS.index(value)}),
    }


def question_has(keys: RawSQL, at: str = "") -> Q:
    """Of questions that have a word, or whose order, thread or comment has it."""
    said = Comment.objects.standing().filter(pk__in=keys).values("pause")
    return (
        Q(**{f"{at}pk__in": keys})
        | Q(**{f"{at}pk__in": said})
        | Q(**{f"{at}run__work_order__in": keys})
        | Q(**{f"{at}run__thread__in": keys})
    )


def columns(at: str = "") -> list[str]:
    """What `facts_of` reads of a question."""
    order = "run__work_order"
    names = (
        *("kind", "phase", "run__definition__template_slug", "risk_rank", "deadline_at", order),
        *(f"{order}__definition__template_slug", f"{order}__repository__name"),
        *(f"{order}__created_by__{NAME}", f"run__thread__owner__{NAME}"),
        "run__thread__team__name",
    )
    return [f"{at}{name}" for name in names]


def facts_of(row: Mapping[str, Any], at: str = "") -> Facts:
    order = f"{at}run__work_order"
    person = f"{order}__created_by__{NAME}" if row[order] else f"{at}run__thread__owner__{NAME}"
    rank = row[f"{at}risk_rank"]
    facts = {
        "kind": row[f"{at}kind"],
        "phase": row[f"{at}phase"],
        "template": row[f"{order}__definition__template_slug"]
        or row[f"{at}run__definition__template_slug"],
        "person": row[person],
        "team": row[f"{at}run__thread__team__name"],
        "repository": row[f"{order}__repository__name"],
        "risk": None if rank is None else RISKS[rank],
    }
    return {name: [value] for name, value in facts.items() if value}


def _questions(keys: Sequence[Any], asker: Asker) -> list[Facts]:
    rows = Pause.objects.filter(pk__in=keys).values(*columns())
    return [{**facts_of(row), "due": dues(row["deadline_at"], asker)} for row in rows]


ASKED = "asked"
WHOSE_QUESTIONS = {
    "own": gettext_noop("Mine"),
    "team": gettext_noop("My teams’"),
    ASKED: gettext_noop("Waiting on others"),
}
WHOSE = Parameter(
    "whose",
    gettext_noop("Whose"),
    f"own: yours alone; team: your teams’ too; {ASKED}: what others must answer for your work.",
    WHOSE_QUESTIONS,
)


def inbox_of(user: User, asked: Asked, waiting: PauseQuerySet) -> PauseQuerySet:
    """The questions among which an inbox looks, given all that waits for the person."""
    match asked[WHOSE.name]:
        case "own":
            return whose.own(waiting, user)
        case "team":
            return whose.shared(waiting, user)
        case "asked":
            return whose.asked(user)
    return waiting


INBOX = List(
    name="inbox",
    title=gettext_noop("Inbox"),
    address="hitl:inbox",
    parameters=(
        WORDS,
        WHOSE,
        KIND,
        PHASE,
        TEMPLATE,
        person("Who asked for the work"),
        TEAM,
        REPOSITORY,
        RISK,
        DUE_BY,
        *times("Asked"),
        sort(
            due=gettext_noop("Due soonest"),
            newest=gettext_noop("Newest"),
            oldest=gettext_noop("Waiting longest"),
        ),
    ),
    conditions={**of_questions(), "due": due},
    found_by=question_has,
    at="opened_at",
    orders={
        DUE: SOONEST,
        NEWEST: ListOrder(newest=True, prefix=Pause.PREFIX),
        OLDEST: ListOrder(prefix=Pause.PREFIX),
    },
    facts=_questions,
    beside=("after", "past", "hidden", "live", "seen", "ids", OPEN),
    identified={"pse": "pk", "wo": "run__work_order", "thr": "run__thread"},
)
