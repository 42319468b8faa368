"""Templates as they are written, checked, versioned and frozen."""

from runs.definitions.checks import check_keys
from runs.definitions.errors import (
    SAVED_MEANWHILE,
    SavedMeanwhile,
    TemplateInvalid,
    TemplateNotFound,
    TemplateNotNamed,
)
from runs.definitions.freezing import (
    below,
    fingerprint_of,
    freeze,
    freeze_endings,
    freeze_steps,
)
from runs.definitions.templates import (
    current,
    current_step_template,
    edit_step_template,
    edit_template,
    make_default,
    of_today,
    usual_fields,
    warnings_of,
    warnings_of_kind,
)
from runs.models.kinds import Kinds, usual

__all__ = [
    "SAVED_MEANWHILE",
    "Kinds",
    "SavedMeanwhile",
    "TemplateInvalid",
    "TemplateNotFound",
    "TemplateNotNamed",
    "below",
    "check_keys",
    "current",
    "current_step_template",
    "edit_step_template",
    "edit_template",
    "fingerprint_of",
    "freeze",
    "freeze_endings",
    "freeze_steps",
    "make_default",
    "of_today",
    "usual",
    "usual_fields",
    "warnings_of",
    "warnings_of_kind",
]
