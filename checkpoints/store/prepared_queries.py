"""Queries and updates whose SQL is made once per process.

Django writes the SQL of a queryset anew at every use, and for a row with its relations (a hundred
columns and more) that takes several times as long as the server does. Where a person waits for an
answer, or a worker for its run, the SQL is kept and only the values change. The query itself is an
ordinary queryset, and it gives ordinary objects.

The objects are made as Django's own iteration over a queryset makes them (`ModelIterable`);
`tests/checkpoints/store/test_prepared_queries.py` checks that both give the same.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, models
from django.db.models.query import get_related_populators
from django.db.models.sql import UpdateQuery

Row = TypeVar("Row", bound=models.Model)
Value = int | str | uuid.UUID | dt.datetime

_STAND_INS: dict[type[Value], Callable[[int], Value]] = {
    int: lambda place: 31_700 + place,  # any integer's column takes it
    str: lambda place: f"stands for value {place}",
    uuid.UUID: lambda place: uuid.UUID(int=0xFEED_0000_0000_0000_0000_0000_0000_0000 + place),
    dt.datetime: lambda place: dt.datetime(1901, 1, 1, second=place, tzinfo=dt.UTC),
}


class Prepared(Generic[Row]):
    """`Prepared(lambda key: Run.objects.filter(pk=key), UUID)` gives the runs of a key with
    `.get(key)`, in a list.

    `build` must make the same query whatever the values are, and use each of them as a parameter.
    It may not use `clock.FromNow`, which is a value on SQLite: the first one would stay.
    """

    def __init__(self, build: Callable[..., models.QuerySet[Row]], *kinds: type[Value]) -> None:
        self._build, self._kinds = build, kinds
        self._made: _RowsQuery | None = None

    def get(self, *values: Value) -> list[Row]:
        """The rows, for values in the order of `kinds`."""
        made = self._made or self._make()
        with connection.cursor() as cursor:
            cursor.execute(made.sql, made.filled(values))
            rows = cursor.fetchall()
        return list(made.objects(rows))

    def _make(self) -> _RowsQuery:
        stand_ins = _stand_ins(self._kinds)
        self._made = _RowsQuery(self._build(*stand_ins), stand_ins)
        return self._made


class PreparedValues:
    """As `Prepared`, for a query of `values_list`: gives its rows as lists of values."""

    def __init__(
        self, build: Callable[..., models.QuerySet[Any, Any]], *kinds: type[Value]
    ) -> None:
        self._build, self._kinds = build, kinds
        self._made: _ValuesQuery | None = None

    def get(self, *values: Value) -> list[list[Any]]:
        """The rows, for values in the order of `kinds`."""
        made = self._made or self._make()
        with connection.cursor() as cursor:
            cursor.execute(made.sql, made.filled(values))
            rows = cursor.fetchall()
        return made.converted(rows)

    def _make(self) -> _ValuesQuery:
        stand_ins = _stand_ins(self._kinds)
        self._made = _ValuesQuery(self._build(*stand_ins), stand_ins)
        return self._made


class PreparedCount(PreparedValues):
    """As `PreparedValues`, of how many rows the query has: `.get(key)` gives `[[12]]`."""

    def _make(self) -> _ValuesQuery:
        made = super()._make()
        made.sql = f"SELECT COUNT(*) FROM ({made.sql}) AS found"  # noqa: S608  # Django's own SQL
        made.converters = {}
        return made


class PreparedUpdate:
    """`PreparedUpdate(lambda key, at: (Pause.objects.filter(pk=key), {"closed_at": at}), UUID,
    datetime)` changes the rows of a key with `.run(key, at)`; it gives how many.

    `build` gives a query and the new values of its columns, as for `Prepared`. On SQLite the SQL is
    made anew at each use, since `clock.FromNow` is a value there.
    """

    def __init__(
        self,
        build: Callable[..., tuple[models.QuerySet[Any], Mapping[str, Any]]],
        *kinds: type[Value],
    ) -> None:
        self._build, self._kinds = build, kinds
        self._made_update: _Statement | None = None

    def run(self, *values: Value) -> int:
        if connection.vendor != "postgresql":
            rows, fields = self._build(*values)
            return rows.update(**fields)
        made = self._made_update or self._make()
        with connection.cursor() as cursor:
            cursor.execute(made.sql, made.filled(values))
            return int(cursor.rowcount)

    def _make(self) -> _Statement:
        stand_ins = _stand_ins(self._kinds)
        rows, fields = self._build(*stand_ins)
        query: Any = rows.query.chain(UpdateQuery)
        query.add_update_values(fields)
        self._made_update = _Statement(query.get_compiler(DEFAULT_DB_ALIAS), stand_ins)
        return self._made_update


class _Statement:
    """The SQL of a statement, and where its values go."""

    def __init__(self, compiler: Any, stand_ins: Sequence[Value]) -> None:
        self.sql, parameters = compiler.as_sql()
        self._parameters = [(_place(stand_ins, value), value) for value in parameters]
        """For each parameter of the SQL: which of the values it is, or None where it is always the
        same.
        """
        assert {place for place, _ in self._parameters} >= set(range(len(stand_ins))), (
            f"a value is no parameter of {self.sql}"
        )

    def filled(self, values: Sequence[Value]) -> list[Any]:
        return [
            like if place is None else _like(like, values[place])
            for place, like in self._parameters
        ]


class _ValuesQuery(_Statement):
    """The SQL of a query, and how the rows of the database become values."""

    def __init__(self, query: models.QuerySet[Any, Any], stand_ins: Sequence[Value]) -> None:
        again: Any = query.query.get_compiler(DEFAULT_DB_ALIAS)
        compiler: Any = query.query.get_compiler(DEFAULT_DB_ALIAS)
        super().__init__(compiler, stand_ins)
        assert again.as_sql()[1] == tuple(value for _, value in self._parameters), (
            f"a value of its own, such as the time of now, would stay as it is: {self.sql}"
        )
        self._compiler = compiler
        self.converters: dict[int, Any] = compiler.get_converters(
            [column for column, _, _ in compiler.select]
        )

    def converted(self, rows: list[Any]) -> list[list[Any]]:
        return list(self._compiler.apply_converters(rows, self.converters))


class _RowsQuery(_ValuesQuery):
    """The SQL of a query, and how the rows of the database become objects."""

    def __init__(self, query: models.QuerySet[Any], stand_ins: Sequence[Value]) -> None:
        super().__init__(query, stand_ins)
        compiler = self._compiler
        self._annotations = dict(compiler.annotation_col_map)
        info, select = compiler.klass_info, compiler.select
        self._model = info["model"]
        self._fields = slice(info["select_fields"][0], info["select_fields"][-1] + 1)
        self._names = [column.target.attname for column, _, _ in select[self._fields]]
        # stubs of a later Django
        self._related = get_related_populators(info, select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]

    def objects(self, rows: list[Any]) -> Iterator[Any]:
        """As `ModelIterable` makes them."""
        for row in self.converted(rows):
            instance = self._model.from_db(DEFAULT_DB_ALIAS, self._names, row[self._fields])
            for related in self._related:
                related.populate(row, instance)
            for name, place in self._annotations.items():
                setattr(instance, name, row[place])
            yield instance


def _stand_ins(kinds: Sequence[type[Value]]) -> list[Value]:
    return [_STAND_INS[kind](place) for place, kind in enumerate(kinds)]


def _place(stand_ins: Sequence[Value], parameter: Any) -> int | None:
    """Find the value that a parameter stands for."""
    return next(
        (
            place
            for place, stand_in in enumerate(stand_ins)
            if parameter in (stand_in, _like(parameter, stand_in))
        ),
        None,
    )


def _like(parameter: Any, value: Value) -> Any:
    """Give a value the form that a parameter has for this database: SQLite takes UUIDs and times as
    text.
    """
    match value:
        case uuid.UUID():
            return value if isinstance(parameter, uuid.UUID) else value.hex
        case dt.datetime():
            return connection.ops.adapt_datetimefield_value(value)
        case int():
            return type(parameter)(value) if isinstance(parameter, int) else value
        case str():
            return value
