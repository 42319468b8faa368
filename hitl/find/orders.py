"""Work orders, as lists are asked for them.

Status and phase of an order are derived from its run (`WorkOrder.status`, `WorkOrder.phase`); here
stands the same as conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce, NullIf
from django.utils.translation import gettext_noop

from checkpoints.database.people import NAME
from hitl.find import questions
from hitl.find.asking import Parameter
from hitl.find.lists import (
    DONE,
    DUE_BY,
    FAILURE,
    NEWEST,
    OLDEST,
    OPEN,
    PHASE,
    REPOSITORY,
    RISK,
    STATUSES,
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
from hitl.rendering.paging import ListOrder
from runs.models import Definition, Pause, WorkOrder
from runs.states import ENDED, RunStatus
from runs.workflows import sequence
from runs.workflows.tool_calls import RISKS

SLEEPING = "sleeping"
MOST_DEFINITIONS = 500
"""Frozen templates whose steps are looked through for a phase."""
STEP = "thread__head__next_step", "thread__head__node_id"


def _asks() -> Exists:
    return Exists(Pause.objects.open().filter(run__work_order=OuterRef("pk")))


def _order_status(value: str, asker: Asker) -> Q:
    """As `WorkOrder.status` derives it: a run that waits for its child runs is at work, unless one
    of them asks.
    """
    status = "latest_run__status"
    if value == "pending":
        return Q(latest_run=None) | Q(**{status: RunStatus.PENDING})
    paused = Q(**{status: RunStatus.PAUSED})
    if value == "paused":
        return paused & (Q(latest_run__awaited=0) | Q(_asks()))
    if value == "running":
        return Q(**{status: RunStatus.RUNNING}) | (
            paused & Q(latest_run__awaited__gt=0) & ~Q(_asks())
        )
    ended = [RunStatus.COMPLETED] if value == DONE else sorted(ENDED - {RunStatus.COMPLETED})
    return Q(**{f"{status}__in": ended})


def _sleeps(asker: Asker) -> Q:
    """Of orders whose run waits for a timer of its own, and not for another try."""
    return Q(
        latest_run__status=RunStatus.PENDING,
        latest_run__due_at__gt=asker.now,
        latest_run__attempts=0,
    )


def _order_phase(value: str, asker: Asker) -> Q:
    """As `WorkOrder.phase` derives it: of a question where one is open, else of the step."""
    if value == DONE:
        return Q(latest_run__status=RunStatus.COMPLETED)
    if value == SLEEPING:
        return _sleeps(asker)
    asked = Q(pk__in=Pause.objects.open().filter(phase=value).values("run__work_order"))
    if value not in sequence.PHASES.values():
        return asked
    at_work = ~Q(latest_run__status=RunStatus.COMPLETED) & ~_sleeps(asker) & ~Q(_asks())
    return asked | (at_work & Q(pk__in=_at_steps(value, asker)))


def _at_steps(phase: str, asker: Asker) -> QuerySet[Any, Any]:
    """The orders that a person sees and that are at a step of a phase."""
    orders = WorkOrder.objects.visible_to(asker.user)
    frozen = Definition.objects.filter(pk__in=orders.order_by().values("definition"))
    alike: dict[tuple[frozenset[str], bool], list[str]] = {}
    for definition in frozen[:MOST_DEFINITIONS]:
        names, first = _steps_in(definition, phase)
        alike.setdefault((names, first), []).append(definition.pk)
    there = Q(pk__in=[])
    for (names, first), keys in alike.items():
        there |= Q(definition__in=keys) & (
            Q(at__in=sorted(names)) | (Q(at=None) if first else Q(pk__in=[]))
        )
    at = Coalesce(NullIf(F(STEP[0]), Value("")), NullIf(F(STEP[1]), Value("")))
    return orders.alias(at=at).filter(there).values("pk")


def _steps_in(definition: Definition, phase: str) -> tuple[frozenset[str], bool]:
    """The steps of a phase, and whether the first one is among them."""
    steps = definition.steps
    names = frozenset(
        step["name"] for step in steps if sequence.phase_of(step["step_type"]) == phase
    )
    return names, bool(steps) and steps[0]["name"] in names


def order_has(keys: RawSQL) -> Q:
    """Of orders that have a word, or whose thread or a question of which has it."""
    asked = Pause.objects.filter(pk__in=keys, run__work_order__isnull=False)
    return Q(pk__in=keys) | Q(thread__in=keys) | Q(pk__in=asked.values("run__work_order"))


def _of_open(condition: Condition) -> Condition:
    """Of orders with an open question of which that is true."""
    return lambda value, asker: Q(
        pk__in=Pause.objects.open()
        .filter(condition(value, asker), run__work_order__isnull=False)
        .values("run__work_order")
    )


FACTS_OF_ORDER = (
    *("pk", "definition", "definition__template_slug", f"created_by__{NAME}", *STEP),
    *("thread__team__name", "repository__name", "latest_run__status", "latest_run__awaited"),
    *("latest_run__failure_code", "latest_run__due_at", "latest_run__attempts"),
)


def _orders(keys: Sequence[Any], asker: Asker) -> list[Facts]:
    rows = list(WorkOrder.objects.filter(pk__in=keys).values(*FACTS_OF_ORDER))
    asked: dict[Any, list[Any]] = {}
    questions = Pause.objects.open().filter(run__work_order__in=keys).order_by("pk")
    for order, *question in questions.values_list(
        "run__work_order", "phase", "risk_rank", "deadline_at"
    ):
        asked.setdefault(order, []).append(question)
    frozen = Definition.objects.in_bulk({row["definition"] for row in rows})
    return [_order(row, asked.get(row["pk"], []), frozen, asker) for row in rows]


def _order(
    row: Mapping[str, Any], asked: list[Any], frozen: Mapping[Any, Definition], asker: Asker
) -> Facts:
    status, awaited = row["latest_run__status"] or "pending", row["latest_run__awaited"]
    if status == RunStatus.PAUSED and awaited and not asked:
        status = "running"
    ended = {RunStatus.CANCELLED.value, RunStatus.EXPIRED.value}
    facts = {
        "status": "failed" if status in ended else status,
        "template": row["definition__template_slug"],
        "person": row[f"created_by__{NAME}"],
        "team": row["thread__team__name"],
        "repository": row["repository__name"],
        "failure_code": row["latest_run__failure_code"],
    }
    return {
        **{name: [value] for name, value in facts.items() if value},
        "phase": _phases(row, asked, frozen, asker),
        "risk": sorted({RISKS[rank] for _, rank, _ in asked if rank is not None}),
        "due": sorted({name for *_, at in asked for name in questions.dues(at, asker)}),
    }


def _phases(
    row: Mapping[str, Any], asked: list[Any], frozen: Mapping[Any, Definition], asker: Asker
) -> list[str]:
    status = row["latest_run__status"]
    if status == RunStatus.COMPLETED:
        return [DONE]
    if asked:
        return sorted({phase for phase, *_ in asked})
    waits = status == RunStatus.PENDING and not row["latest_run__attempts"]
    if waits and row["latest_run__due_at"] > asker.now:
        return [SLEEPING]
    steps = frozen[row["definition"]].steps
    name = row[STEP[0]] or row[STEP[1]] or (steps[0]["name"] if steps else "")
    return [sequence.phase_of(step["step_type"]) for step in steps if step["name"] == name][:1]


ORDERS = List(
    name="orders",
    title=gettext_noop("Work orders"),
    address="hitl:orders",
    parameters=(
        WORDS,
        Parameter("status", gettext_noop("Status"), "Where it stands.", STATUSES),
        PHASE,
        TEMPLATE,
        person("Who asked for it"),
        TEAM,
        REPOSITORY,
        RISK,
        DUE_BY,
        FAILURE,
        *times("Made"),
        sort(newest=gettext_noop("Newest"), oldest=gettext_noop("Oldest")),
    ),
    conditions={
        "status": _order_status,
        "phase": _order_phase,
        "template": has("definition__template_slug"),
        "person": called("created_by"),
        "team": has("thread__team__name"),
        "repository": has("repository__name"),
        "risk": _of_open(questions.of_questions()["risk"]),
        "due": _of_open(questions.due),
        "failure_code": has("latest_run__failure_code"),
    },
    found_by=order_has,
    at="created_at",
    orders={
        NEWEST: ListOrder(newest=True, prefix=WorkOrder.PREFIX),
        OLDEST: ListOrder(prefix=WorkOrder.PREFIX),
    },
    facts=_orders,
    beside=("before", OPEN),
    identified={"wo": "pk", "thr": "thread", "run": "runs__pk"},
)
