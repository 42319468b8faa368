"""What stands ready before a race, and what a loser may be told."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from django.contrib.auth.models import Group

from runs.engine.advance import advance
from runs.models import WorkOrder
from tests.matrix.races.doors import Racer

LATE = dt.timedelta(days=1)
"""No worker picks up here what was answered."""


Ask = Callable[..., WorkOrder]


def ready(make_order: Ask, racer: Racer) -> WorkOrder:
    """An order that waits for an answer."""
    order = make_order(by=racer.user, team=Group.objects.get(name="racers"))
    assert order.latest_run is not None
    while advance(order.latest_run.pk, budget=60):
        pass
    return order
