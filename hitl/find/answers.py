"""Answers, as lists are asked for them, and with them what nobody answered in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_noop

from checkpoints.database.people import NAME, User
from checkpoints.models import Thread
from hitl.decisions.reviewers import policy
from hitl.find import questions
from hitl.find.asking import Asked, Parameter
from hitl.find.lists import (
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
    Facts,
    List,
    called,
    person,
    sort,
    times,
)
from hitl.models import Decision, Via
from hitl.rendering.paging import ListOrder
from runs.models import Pause
from runs.states import PauseStatus

EXPIRED = "expired"
PASSED = "passed"
"""What the answer of a step that passed its review is called in lists."""
AT = "pause__"


def answered(user: User) -> QuerySet[Decision]:
    """Answers on a person's threads, and the own ones where they were only asked."""
    mine = Thread.objects.visible_to(user)
    asked = policy.asked_of(user)
    return Decision.objects.filter(
        Q(pause__run__thread__in=mine) | Q(decided_by=user.pk, pause__in=asked)
    )


def lapsed(user: User) -> QuerySet[Pause]:
    """The questions on a person's threads that nobody answered in time."""
    mine = Thread.objects.visible_to(user)
    return Pause.objects.filter(status=PauseStatus.EXPIRED, run__thread__in=mine)


def answer_has(keys: RawSQL) -> Q:
    """Of answers that have a word, or whose question has it."""
    return Q(pk__in=keys) | questions.question_has(keys, AT)


def _answers(keys: Sequence[Any], asker: Asker) -> list[Facts]:
    rows = Decision.objects.filter(pk__in=keys)
    by = f"decided_by__{NAME}"
    return [
        {
            **questions.facts_of(row, AT),
            "status": [PASSED if row["via"] == Via.WORKFLOW else row["action"]],
            "person": [row[by]] if row[by] else [],
        }
        for row in rows.values("action", "via", by, *questions.columns(AT))
    ]


def _given(value: str, asker: Asker) -> Q:
    passed = Q(via=Via.WORKFLOW)
    return passed if value == PASSED else Q(action=value) & ~passed


def _lapses(keys: Sequence[Any], asker: Asker) -> list[Facts]:
    rows = Pause.objects.filter(pk__in=keys).values(*questions.columns())
    return [{**questions.facts_of(row), "status": [EXPIRED]} for row in rows]


ANSWERS = List(
    name="history",
    title=gettext_noop("History"),
    address="hitl:answers",
    parameters=(
        WORDS,
        Parameter(
            "status",
            gettext_noop("Answer"),
            f"approve, revise, cancel, an answer of the template's own, {EXPIRED}, or {PASSED} for "
            "reviews that the workflow passed.",
        ),
        KIND,
        PHASE,
        TEMPLATE,
        person("Who answered"),
        TEAM,
        REPOSITORY,
        RISK,
        *times("Answered"),
        sort(newest=gettext_noop("Newest"), oldest=gettext_noop("Oldest")),
    ),
    conditions={
        **questions.of_questions(AT),
        "status": _given,
        "person": called("decided_by"),
    },
    found_by=answer_has,
    at="decided_at",
    orders={
        NEWEST: ListOrder("decided_at", newest=True, prefix="past"),
        OLDEST: ListOrder("decided_at", prefix="past"),
    },
    facts=_answers,
    beside=("past", OPEN),
    identified={
        "dec": "pk",
        "pse": "pause",
        "wo": "pause__run__work_order",
        "thr": "pause__run__thread",
    },
)
LAPSES = List(
    name="lapses",
    title=gettext_noop("Expired questions"),
    address="hitl:answers",
    parameters=ANSWERS.parameters,
    conditions={
        **questions.of_questions(),
        "status": lambda value, asker: Q() if value == EXPIRED else Q(pk__in=[]),
        "person": lambda value, asker: Q(pk__in=[]),
    },
    found_by=questions.question_has,
    at="closed_at",
    orders={
        NEWEST: ListOrder("closed_at", newest=True, prefix="past"),
        OLDEST: ListOrder("closed_at", prefix="past"),
    },
    facts=_lapses,
    identified={"pse": "pk", "wo": "run__work_order", "thr": "run__thread"},
)
"""The part of the history that has no answers: told as one list with these."""


BESIDE_INBOX = replace(ANSWERS, conditions=questions.of_questions(AT), at="pause__opened_at")
LAPSES_BESIDE_INBOX = replace(LAPSES, conditions=questions.of_questions(), at="opened_at")
"""What an inbox shows of them below what waits: asked for as the questions above, by who asked for
the work and when.
"""


def beside_inbox(asked: Asked) -> Asked:
    """What an inbox is asked, of questions that wait no longer: newest first, whenever they were
    due.
    """
    kept = {
        name: value for name, value in asked.given.items() if name not in {"due", "sort", "whose"}
    }
    return replace(asked, given=kept)
