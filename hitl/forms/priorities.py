"""The field for the priority of work, as far as a person may give it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext

from checkpoints.database.people import User
from runs.definitions import rights
from runs.models.priority import LOWEST, NORMAL


class PriorityField(forms.IntegerField):
    """Left empty it is normal. The service asks again who may give which."""

    def __init__(self, by: User, **kwargs: Any) -> None:
        highest = rights.highest_priority(by)
        words = gettext(
            "From %(lowest)s to %(highest)s; %(normal)s is normal. Work with a higher "
            "one begins first."
        ) % {"lowest": LOWEST, "highest": highest, "normal": NORMAL}
        super().__init__(
            **{
                "min_value": LOWEST,
                "max_value": highest,
                "initial": NORMAL,
                "required": False,
                "help_text": words,
                "label": gettext("Priority"),
                **kwargs,
            }
        )

    def clean(self, value: Any) -> int:
        number = super().clean(value)
        return NORMAL if number is None else number
