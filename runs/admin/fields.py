"""Fields of the admin's forms."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.utils.translation import gettext
from unfold.widgets import UnfoldAdminTextareaWidget

from runs.admin import credentials as credentials


class JsonField(forms.JSONField):
    """JSON in lines that a person can read and edit; only such as every database keeps."""

    widget = UnfoldAdminTextareaWidget

    def to_python(self, value: Any) -> Any:
        try:
            parsed = super().to_python(value)
            kept = (
                b"\\u0000" not in json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode()
            )
        except (ValueError, RecursionError):  # NaN, half a character, nested too deeply
            kept = False
        if not kept:
            raise forms.ValidationError(
                gettext(
                    "This holds what cannot be kept: NaN, a NUL, half a character, or too many "
                    "levels."
                )
            )
        return parsed

    def bound_data(self, data: Any, initial: Any) -> Any:
        return data or ""  # a form that is shown again shows what was typed

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
