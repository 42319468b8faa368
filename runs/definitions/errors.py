"""What is said of a template that is not there, or cannot be saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain

from django.utils.translation import gettext

from runs.workflows.refusals import FieldRefused, FieldsRefused

SAVED_MEANWHILE = (
    "Somebody saved this template at the same moment. Look at the new version and save again."
)


class TemplateInvalid(FieldsRefused):
    """A template cannot be saved."""

    code = "template_invalid"

    def told(self, errors: Mapping[str, list[str]]) -> str:
        return gettext("The template was not saved: ") + " ".join(chain(*errors.values()))


class SavedMeanwhile(TemplateInvalid):
    """Another version is current than the one that was looked at; nothing was saved."""

    code = "template_saved_meanwhile"

    def __init__(self) -> None:
        super().__init__({"version": [SAVED_MEANWHILE]})


refused = TemplateInvalid.of


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
