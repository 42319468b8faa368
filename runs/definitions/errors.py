"""What is said of a template that is not there, or cannot be saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.utils.translation import gettext

from runs.workflows.refusals import FieldRefused

SAVED_MEANWHILE = (
    "Somebody saved this template at the same moment. Look at the new version and save again."
)


class TemplateInvalid(Exception):
    """A template cannot be saved. `errors` maps a field to sentences."""

    code = "template_invalid"

    def __init__(self, errors: dict[str, list[str]]) -> None:
        super().__init__(
            gettext("The template was not saved: ")
            + " ".join(text for texts in errors.values() for text in texts)
        )
        self.errors = errors


class SavedMeanwhile(TemplateInvalid):
    """Another version is current than the one that was looked at; nothing was saved."""

    code = "template_saved_meanwhile"

    def __init__(self) -> None:
        super().__init__({"version": [SAVED_MEANWHILE]})


def refused(field: str, *sentences: str) -> TemplateInvalid:
    """Give the refusal of one field, to be raised."""
    return TemplateInvalid({field: [*sentences]})


class TemplateNotFound(Exception):
    code = "template_not_found"


class TemplateNotNamed(TemplateNotFound):
    """An order names no template, and its repository has none of its own.

    The message lists those that would do.
    """

    code = "template_required"


@contextmanager
def refusing(prefix: str = "") -> Iterator[None]:
    """Refuse the template where a rule refuses one of its fields; `prefix` says where that is."""
    try:
        yield
    except FieldRefused as error:
        raise refused(f"{prefix}{error.field}", str(error)) from error
