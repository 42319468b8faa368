"""Columns whose values are sealed at rest where keys are configured (`encryption`): for rows that
may hold what people and steps said.

Sealing is no matter of the schema: migrations see the plain field, and switching it on or off
alters no table. Lookups do not seal, so a sealed column cannot be searched; only that it is empty
can.

A value that cannot be opened is `Locked`, so that the row's other columns can be read. Whoever
needs the value calls `demand`.

Besides these, `MadeAtField`: when a row was made.
"""

from __future__ import annotations

import base64
import datetime as dt
from typing import TYPE_CHECKING, Any, cast

from django.db import connection, models

from checkpoints.database import clock
from checkpoints.state import encryption

if TYPE_CHECKING:  # generic in the stubs only
    _Field = models.Field[Any, Any]
    _TextField = models.TextField[Any, Any]
    _BinaryField = models.BinaryField[Any, Any]
    _DateTimeField = models.DateTimeField[dt.datetime, dt.datetime]
else:
    _Field = object
    _DateTimeField = models.DateTimeField
    _TextField, _BinaryField = models.TextField, models.BinaryField


class Locked:
    """Stands for a value that could not be opened. Saved again, it is what was stored."""

    stored: str | bytes
    error: Exception


class LockedText(Locked, str):
    """Reads as the reason, so that a page says it."""


class LockedObject(Locked, dict[str, Any]):
    """Looks empty."""


class LockedList(Locked, list[Any]):
    """Looks empty."""


class LockedBytes(Locked, bytes):
    """Looks empty."""


def demand(value: Any) -> Any:
    """The value; raises what kept it from being opened: sealing.KeyMissing or
    sealing.SealBroken.
    """
    if isinstance(value, Locked):
        raise value.error
    return value


def locked(kind: Any, stored: str | bytes, error: Exception) -> Locked:
    """What stands for a value; `kind` is the column's default, which says what its readers
    expect.
    """
    value: Locked
    if isinstance(stored, bytes):
        value = LockedBytes()
    elif kind is dict:
        value = LockedObject()
    else:
        value = LockedList() if kind is list else LockedText(error)
    value.stored, value.error = stored, error
    return value


class StoredField(_Field):
    """A column whose stored form is not its value: `value_to_string` and `to_python` lead to and
    from the form that `dumpdata` writes.
    """

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        """As Django's, but without `to_python`: a row's value is none of a document, not even where
        it is a text.
        """
        self.validate(value, model_instance)
        self.run_validators(value)
        return value


class SealedField(StoredField):
    """What the sealed columns of text share. Stands before the field that it seals."""

    about = ""
    """Table and column: authenticated along with the value."""
    always = False
    """Whether it is sealed with the server's own key where none is configured."""

    def contribute_to_class(
        self, cls: type[models.Model], name: str, private_only: bool = False
    ) -> None:
        super().contribute_to_class(cls, name, private_only)
        self.about = f"{cls._meta.db_table}.{self.column}"

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        if isinstance(value, Locked):
            return value.stored
        prepared = super().get_db_prep_save(value, connection)
        return encryption.seal_text(prepared, self.about) if isinstance(prepared, str) else prepared

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        try:
            plain = encryption.opened_text(value, self.about)
        except (encryption.KeyMissing, encryption.SealBroken) as error:
            return locked(self.default, value, error)
        return self.read(plain)

    def read(self, plain: str) -> Any:
        """The value of an opened text."""
        return plain

    def to_python(self, value: Any) -> Any:
        """The value of what `value_to_string` gave, for `loaddata`.

        Without the key it stays sealed, as in a row.
        """
        return self.from_db_value(value, None, None) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        """As it is stored, for `dumpdata`: what is sealed at rest leaves the server sealed."""
        return self.get_db_prep_save(self.value_from_object(obj), connection) or ""


class SealedTextField(SealedField, _TextField):
    """Text, sealed at rest."""

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs


class SealedBinaryField(SealedField, _BinaryField):
    """Bytes, sealed at rest."""

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.BinaryField", args, kwargs

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        return models.BinaryField.get_db_prep_value(self, self._sealed(value), connection)

    def _sealed(self, value: Any) -> bytes:
        if isinstance(value, LockedBytes):
            return cast(bytes, value.stored)
        return encryption.seal(bytes(value), self.about, always=self.always)

    def to_python(self, value: Any) -> Any:
        return (
            self.from_db_value(base64.b64decode(value), None, None)
            if isinstance(value, str)
            else value
        )

    def value_to_string(self, obj: models.Model) -> str:
        return base64.b64encode(self._sealed(self.value_from_object(obj))).decode()

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        stored = bytes(value)
        try:
            return encryption.opened(stored, self.about)
        except (encryption.KeyMissing, encryption.SealBroken) as error:
            return locked(None, stored, error)


class SecretBinaryField(SealedBinaryField):
    """Bytes that are never plain at rest: secrets among them.

    Unreadable after a new SECRET_KEY where no key is configured.
    """

    always = True


class MadeAtField(_DateTimeField):
    """When the row was made, by the database's clock: Django's `auto_now_add`, which migrations
    see, asks the host's.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "auto_now_add": True})

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, kwargs

    def pre_save(self, instance: models.Model, add: bool) -> Any:
        if not add:
            return super().pre_save(instance, add)
        at = clock.now()
        setattr(instance, self.attname, at)
        return at
