"""What stands ready before a race, and what a loser may be told."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from django.contrib.auth.models import Group

from runs.models import WorkOrder
from tests.conftest import drive
from tests.matrix.races.doors import Racer

LATE = dt.timedelta(days=1)
"""No worker picks up here what was answered."""


Ask = Callable[..., WorkOrder]


def ready(make_order: Ask, racer: Racer) -> WorkOrder:
    return drive(make_order(by=racer.user, team=Group.objects.get(name="racers")))
