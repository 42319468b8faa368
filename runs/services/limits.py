"""How many runs are at work at once, and how many begin in a time, as people settle it who may
change templates.

A limit holds from the next claim on, for runs under way too. One that the code declares beside its
workflow (`declared`) follows the code until a person changes it or takes it away: that stands, and
the row says what the code says, until somebody goes back to it (`as_declared`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Count, F, Q, QuerySet
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from runs import keyed
from runs.models import Place, Run, Template, WorkLimit, WorkOrder
from runs.security import scopes
from runs.states import PENDING, RUNNING
from runs.workflows.base import pointers, rates
from runs.workflows.refusals import FieldRefused, unknown

SET = "runs.add_template"
"""The right to settle limits: that of templates."""
MAY_NOT = (
    "You may not settle how much is at work at once, so nothing was changed. Who may change "
    "templates may."
)
MOST = 200
"""Limits that a server may have."""
MANY = 10_000
"""The highest number of places."""
WHERE = ("template", "name", "pointer")
"""What a limit is about; the code's stays as it says."""
HOW = ("most", "rate", "priority")
SHOWN = 5
"""Orders that hold the places somebody waits for, as the page of an order names them."""


class LimitInvalid(FieldRefused):
    """The limit cannot be kept as it is given."""

    code = "limit_invalid"


class MayNotLimit(Exception):
    """This person may not settle limits. Nothing was changed."""

    code = "may_not_limit"


def counted() -> QuerySet[WorkLimit]:
    """All limits, each with `at_work` and `waiting`: runs that hold its places by leases that hold,
    and runs that wait for one.
    """
    held = Q(
        places__epoch=F("places__run__epoch"),
        places__run__status=RUNNING,
        places__run__lease_until__gt=clock.FromNow(),
    )
    waits = Q(places__epoch=None, places__run__status=PENDING)
    return WorkLimit.objects.annotate(
        at_work=Count("places", filter=held), waiting=Count("places", filter=waits)
    )


def save(limit: WorkLimit, *, by: User, **values: Any) -> WorkLimit:
    """Keep a new limit, or change one.

    Args:
        values: `template`, `name`, `pointer`, `most`, `rate`, `priority`; what is not named stays.
            `as_declared` takes over what the code says.

    Raises:
        MayNotLimit, LimitInvalid.
    """
    _require(by)
    if values.pop("as_declared", False):
        if limit.declared is None:
            raise LimitInvalid("as_declared", gettext("The code declares no such limit."))
        values = _told(limit)
    put(limit, values)
    try:
        with transaction.atomic(durable=True):
            limit.save()
            keyed.made(f"limit_{limit.pk}")
            look_again(limit)
    except IntegrityError as error:  # work_limit_once
        raise LimitInvalid(
            "template",
            gettext("There is a limit of this template, name and pointer. Change that one."),
        ) from error
    return limit


def put(limit: WorkLimit, values: Mapping[str, Any]) -> None:
    """Give a limit, which acts from then on, these values of `save`, without keeping it. Raises
    LimitInvalid.
    """
    for name, value in values.items():
        new = value.strip() if isinstance(value, str) else value
        if limit.declared is not None and name in WHERE and new != getattr(limit, name):
            raise LimitInvalid(
                name, gettext("The code declares this limit: make another one for that.")
            )
        setattr(limit, name, new)
    limit.off = False
    check(limit)
    known = set(Template.objects.values_list("slug", flat=True))
    if limit.template not in known:
        raise LimitInvalid("template", unknown("template", limit.template, known))
    if limit._state.adding and WorkLimit.objects.count() >= MOST:
        raise LimitInvalid(
            "template", gettext("There are %(most)s limits. Remove one first.") % {"most": MOST}
        )


def check(limit: WorkLimit) -> None:
    """Raise LimitInvalid where the numbers of a limit cannot be kept."""
    if limit.pointer and not pointers.is_pointer(limit.pointer):
        raise LimitInvalid(
            "pointer", gettext("A JSON pointer, such as /customer or /order/region.")
        )
    if not 1 <= limit.most <= MANY:
        raise LimitInvalid("most", gettext("A number from 1 to %(most)s.") % {"most": f"{MANY:,}"})
    if limit.rate:
        try:
            rates.parse(limit.rate)
        except ValueError as error:
            raise LimitInvalid(
                "rate", gettext("How many begin in which time, such as 60/min, 1/s or 500/h.")
            ) from error


def remove(limit: WorkLimit, *, by: User) -> None:
    """Remove a limit; who waited under it asks anew. One that the code declares stays as a row
    that does not act, so that the code does not bring it back. Raises MayNotLimit.
    """
    _require(by)
    with transaction.atomic(durable=True):
        keyed.made(f"limit_{limit.pk}")
        take_away(limit)


def take_away(limit: WorkLimit) -> None:
    """`remove`, of whoever may. Call inside a transaction."""
    look_again(limit)
    if limit.declared is None:
        limit.delete()
    else:
        Place.objects.filter(limit=limit).delete()
        WorkLimit.objects.filter(pk=limit.pk).update(off=True)


def stands_over_code(limit: WorkLimit) -> bool:
    """Whether a person changed a limit that the code declares, or took it away."""
    told = _told(limit)
    return bool(told) and (limit.off or told != {name: getattr(limit, name) for name in told})


def _told(limit: WorkLimit) -> dict[str, Any]:
    """What the code says of a limit."""
    declared = limit.declared or {}
    return {name: declared[name] for name in HOW if name in declared}


def settle(template: str, declared: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    """Let the limits of a template be what its code declares, but for what people changed; give
    what cannot be kept in sentences.

    Args:
        declared: name and pointer → `most`, `rate`, `priority` and `place`, where it says so.
    """
    rows = {(row.name, row.pointer): row for row in WorkLimit.objects.filter(template=template)}
    for (name, pointer), told in declared.items():
        row = rows.pop((name, pointer), None)
        new = row or WorkLimit(template=template, name=name, pointer=pointer)
        if row is None or (row.declared is not None and not stands_over_code(row)):
            for field in HOW:
                setattr(new, field, told[field])
        try:
            check(new)
        except LimitInvalid as error:
            yield f"{told['place']}: limit, {error.field}: {error}"
            continue
        if row is None or row.declared != dict(told):
            new.declared = dict(told)
            _keep(new)
    for row in rows.values():  # the code declares them no more
        if row.declared is not None:
            with transaction.atomic():
                look_again(row)
                if stands_over_code(row) and not row.off:
                    WorkLimit.objects.filter(pk=row.pk).update(declared=None)
                else:
                    row.delete()


def _keep(limit: WorkLimit) -> None:
    """Write a limit that the code declares, where no other host did so just now."""
    with suppress(IntegrityError), transaction.atomic():
        limit.save()
        look_again(limit)


def _require(by: User) -> None:
    if not by.has_perm(SET):
        raise MayNotLimit(MAY_NOT)


def look_again(limit: WorkLimit) -> None:
    """Let what waits under a limit that changes ask anew with the next sweep."""
    waiting = Place.objects.waiting().filter(limit=limit).values("run")
    Run.objects.filter(pk__in=waiting, status=PENDING).update(due_at=clock.FromNow())


def in_the_way(run_id: uuid.UUID, *, by: User | None) -> tuple[list[WorkOrder], int]:
    """The orders at work in the places that a run waits for: up to SHOWN that this person may see,
    and how many others there are; with None, an operator at the shell, all may be seen.
    """
    keys = Place.objects.filter(run=run_id, epoch=None).values("key")
    held = Place.objects.at_work().filter(key__in=keys).exclude(run=run_id)
    runs = set(held.values_list("run", flat=True)[:MANY])
    visible = WorkOrder.objects.all() if by is None else WorkOrder.objects.visible_to(by)
    seen = scopes.own(visible, thread__owner=by).filter(runs__in=runs).distinct().order_by("pk")
    shown: list[WorkOrder] = list(seen[:SHOWN])
    return shown, len(runs) - len(shown)
