"""Fields that many serializers of the REST API have."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from types import MethodType
from typing import Any, ClassVar

from django.utils import timezone
from rest_framework import ISO_8601, serializers
from rest_framework.fields import empty
from rest_framework.settings import api_settings

from runs.workflows import refusals

MOST_UNKNOWN = 10
"""Fields of a body that are told to be unknown."""


def unknown_fields(
    serializer: serializers.Field[Any, Any, Any, Any], given: Any
) -> dict[str, list[str]]:
    """Say which fields of a body nobody would read, at any depth, and which ones there are; the
    first MOST_UNKNOWN.

    A misspelt field would be a wish that nobody hears. A serializer may name fields that it takes
    and does not read in `passed_over`.
    """
    errors: dict[str, list[str]] = {}
    _look(serializer, given, "", errors)
    return errors


def _look(field: Any, given: Any, place: str, errors: dict[str, list[str]]) -> None:
    if isinstance(field, serializers.ListSerializer):
        for number, item in enumerate(given if isinstance(given, list) else ()):
            _look(field.child, item, f"{place}{number}.", errors)
    elif isinstance(field, serializers.Serializer) and isinstance(given, dict):
        known = {name: known for name, known in field.fields.items() if not known.read_only}
        for name, value in given.items():
            if len(errors) >= MOST_UNKNOWN:
                return
            if name in known:
                _look(known[name], value, f"{place}{name}.", errors)
            elif name not in getattr(field, "passed_over", ()):
                errors[f"{place}{name}"[:100]] = [refusals.unknown("field", str(name), known)]


class OptionalText(serializers.CharField):
    """Text that may be left out or empty, and with `allow_null` null; "" then."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"default": "", "allow_blank": True, **settings})

    def run_validation(self, data: Any = empty) -> str:
        return super().run_validation(data) or ""


class TextOrNull(serializers.CharField):
    """Text that may be left out or null; null then."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"default": None, "allow_null": True, **settings})


Read = Callable[[Any, Any], Any]
"""A field's value, of a serializer and a row."""


class TellsQuickly:
    """Rows told as the serializer beside it would tell them, in a third of the calls: how each
    field is read is found out with the first row, and not at each field of each row.
    """

    _reads: ClassVar[dict[type, list[tuple[str, Read]]]] = {}

    @cached_property
    def zone(self) -> dt.tzinfo:
        """The time zone of all its rows' moments, looked up once."""
        return timezone.get_current_timezone()

    def to_representation(self: Any, instance: Any) -> dict[str, Any]:
        reads = self._reads.get(type(self))
        if reads is None:
            fields = list(self._readable_fields)
            reads = [(field.field_name, _read(type(self), field)) for field in fields]
            self._reads[type(self)] = reads
        return {name: read(self, instance) for name, read in reads}


def _read(kind: Any, field: Any) -> Read:
    if isinstance(field, serializers.SerializerMethodField):
        method: Read = getattr(kind, field.method_name)
        return method

    name = field.field_name

    def as_usual(serializer: Any, row: Any) -> Any:
        field = serializer.fields[name]
        value = field.get_attribute(row)
        return None if value is None else field.to_representation(value)

    related: Any = (
        serializers.BaseSerializer,
        serializers.RelatedField,
        serializers.ManyRelatedField,
    )
    if not field.source_attrs:
        return as_usual
    get = attrgetter(".".join(field.source_attrs))
    if isinstance(field, serializers.Serializer) and field.allow_null and field.default is None:

        def unless_nothing(serializer: Any, row: Any) -> Any:
            try:
                there = get(row) is not None
            except AttributeError:  # of a relation that is not there
                there = False
            return as_usual(serializer, row) if there else None

        return unless_nothing
    if isinstance(field, related):
        return as_usual
    show = copy.deepcopy(field).to_representation
    if getattr(show, "__func__", None) is serializers.CharField.to_representation:
        show = str  # what it does
    # of a relation that is not there
    nothing = field.default is None or (field.default is empty and field.allow_null)

    def quickly(serializer: Any, row: Any) -> Any:
        try:
            value = get(row)
        except AttributeError:
            return None if nothing else as_usual(serializer, row)
        if type(value) is MethodType:
            value = value()
        return None if value is None else show(value)

    def moment(serializer: Any, row: Any) -> Any:
        value = get(row)
        if value is None:
            return None
        if type(value) is not dt.datetime or value.tzinfo is None:
            return as_usual(serializer, row)
        text = value.astimezone(serializer.zone).isoformat()
        return f"{text[:-6]}Z" if text[-6:] == "+00:00" else text

    is_moment = (
        type(field) is serializers.DateTimeField
        and not {"format", "timezone"} & vars(field).keys()
        and api_settings.DATETIME_FORMAT == ISO_8601
        and len(field.source_attrs) == 1
    )
    return moment if is_moment else quickly


class ChildCountsOut(serializers.Serializer[Any]):
    """How the child runs of a run's last gather stand."""

    total = serializers.IntegerField()
    queued = serializers.IntegerField(help_text="Not started yet.")
    live = serializers.IntegerField(help_text="Started and not ended.")
    ended = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="Of those that ended: did not complete.")


class ProgressOut(serializers.Serializer[Any]):
    """How far a step is, by its own words, or how many of a run's child runs have ended."""

    done = serializers.FloatField()
    of = serializers.FloatField(allow_null=True, help_text="null where nobody knows.")
    unit = serializers.CharField(help_text="In the plural; may be empty.")
