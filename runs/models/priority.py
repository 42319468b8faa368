"""The priority of work: a number that orders, schedules and inbound starts have."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

LOWEST, HIGHEST = -10, 10
NORMAL = 0
WORDS = (
    "From -10 to 10: work with a higher priority begins first. Above 0 takes the right "
    "runs.raise_priority."
)


def priority_field(**more: Any) -> models.SmallIntegerField[Any, Any]:
    """The column; each model that has it names its own constraint (`bounded`)."""
    return models.SmallIntegerField(
        default=NORMAL,
        validators=[MinValueValidator(LOWEST), MaxValueValidator(HIGHEST)],
        help_text=WORDS,
        **more,
    )


def bounded(name: str) -> models.CheckConstraint:
    """The constraint that keeps a model's priority in its range."""
    return models.CheckConstraint(
        condition=Q(priority__gte=LOWEST, priority__lte=HIGHEST), name=name
    )
