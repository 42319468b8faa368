"""Full-text search, and all that differs in it between the two databases.

Beside the tables stands an index of words that the database itself keeps, by triggers, in the
transaction of whoever writes a row: nothing is found late, and what is erased is found no more. A
step's own writes touch no column that is indexed, so they pay nothing. What is sealed at rest is in
no index: there the words are not to be read without the key, so such texts are not found.

PostgreSQL has a table of `tsvector`s with a GIN index, SQLite an FTS5 table without content. Both
take words as they are written, without stems: they are found by their beginning, in any language.
Whether a person may see what was found, the list asks that searches.
"""

from __future__ import annotations

# ruff: noqa: S608, S611  # what stands in the statements are our own names; words are parameters
import re
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.apps import apps as current
from django.apps.registry import Apps
from django.db import connection, transaction
from django.db.models import Model
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext

from checkpoints.models import Thread
from checkpoints.state import codec, encryption
from hitl.models import Comment, Decision
from runs.models import Pause, WorkOrder

LONGEST = 200
"""Characters of what is searched for."""
MOST = 8
"""Words of it."""
INDEXED = 10_000
"""Characters of a column that are indexed."""
TABLE = "hitl_search"
BATCH = 1_000
"""Rows that are indexed at once when the index is made."""
# what PostgreSQL's parser would take for a part of a host, a path or a number
SIGNS = "".join(sign for sign in string.punctuation if sign != "'")


class TooManyWords(Exception):
    """More is searched for than one search takes."""

    def __init__(self) -> None:
        super().__init__(
            gettext("At most %(most)s words, of %(longest)s characters together.")
            % {"most": MOST, "longest": LONGEST}
        )


@dataclass(frozen=True)
class Source:
    """A table, and its columns whose words are found."""

    model: type[Model]
    columns: Sequence[str]

    @property
    def table(self) -> str:
        return self.model._meta.db_table


SOURCES = (
    Source(WorkOrder, ("title", "request", "repository_url")),
    Source(Thread, ("title",)),
    Source(Pause, ("question", "content")),
    Source(Decision, ("feedback",)),
    Source(Comment, ("text",)),
)


def words_of(text: str) -> list[str]:
    """The words that are searched for. Raises TooManyWords."""
    if len(text) > LONGEST:
        raise TooManyWords
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFC", text).lower())
    if len(words) > MOST:
        raise TooManyWords
    return list(dict.fromkeys(words))


def having(word: str) -> RawSQL:
    """The keys of all rows that have a word that begins so; of one sign, that word itself."""
    sign = "" if len(word) == 1 else "*"
    if connection.vendor == "postgresql":
        query = f"'{word}'" + (":*" if sign else "")
        return RawSQL(f"SELECT key FROM {TABLE} WHERE words @@ to_tsquery('simple', %s)", [query])
    return RawSQL(
        f"SELECT k.key FROM {TABLE} JOIN {TABLE}_key k ON k.id = {TABLE}.rowid "
        f"WHERE {TABLE} MATCH %s",
        [f'"{word}"{sign}'],
    )


def install(*, apps: Apps = current, **_: Any) -> None:
    """After each `migrate`, unless it ended at older tables: make what is missing of the index,
    and fill it. One query where all is there.
    """
    wanted = {_name(source): source for source in SOURCES}
    there = _there()
    if set(there) == set(wanted) or not all(_has(apps, source) for source in SOURCES):
        return
    (_make_postgresql if connection.vendor == "postgresql" else _make_sqlite)(wanted, there)


def take_off(*, plan: Sequence[Any] = (), **_: Any) -> None:
    """Before migrations: SQLite renames and drops no column that a trigger names."""
    if plan and connection.vendor == "sqlite":
        _drop(_there())


def _has(apps: Apps, source: Source) -> bool:
    try:
        fields = apps.get_model(source.model._meta.label)._meta.concrete_fields
    except LookupError:
        return False
    return set(source.columns) <= {field.column for field in fields}


def _there() -> dict[str, str]:
    """Name → table of the triggers that are there."""
    sql = (
        """SELECT tgname, relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE tgname LIKE 'search\\_%' AND pg_table_is_visible(pg_class.oid)"""
        if connection.vendor == "postgresql"
        else "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger' AND "
        "name LIKE 'search\\_%\\_add' ESCAPE '\\'"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return {name.removesuffix("_add"): table for name, table in cursor.fetchall()}


def _name(source: Source) -> str:
    """Of a source's triggers: with the digest of what they say, so that others have other names."""
    return f"search_{source.table}_{codec.digest(_words(source, 'NEW'))[:8]}"


def _words(source: Source, row: str) -> str:
    """SQL of the text whose words are indexed, which is readable without a key."""
    cut = "left" if connection.vendor == "postgresql" else "substr"
    texts = [f"COALESCE({row}.\"{column}\", '')" for column in source.columns]
    begin = "" if cut == "left" else "1, "
    readable = [
        f"CASE WHEN {text} LIKE '{encryption.MARK}%' THEN '' "
        f"ELSE {cut}({text}, {begin}{INDEXED}) END"
        for text in texts
    ]
    joined = " || ' ' || ".join(readable)
    if connection.vendor == "postgresql":
        signs, blanks = f"{SIGNS}''", " " * (len(SIGNS) + 1)
        return f"strip(to_tsvector('simple', translate({joined}, '{signs}', '{blanks}')))"
    return joined


def _drop(there: dict[str, str]) -> None:
    with connection.cursor() as cursor:
        for name, table in there.items():
            if connection.vendor == "postgresql":
                cursor.execute(f'DROP TRIGGER "{name}" ON "{table}"')
                continue
            for event in ("add", "change", "remove"):
                cursor.execute(f'DROP TRIGGER IF EXISTS "{name}_{event}"')


def _make_postgresql(wanted: dict[str, Source], there: dict[str, str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (key uuid PRIMARY KEY, words tsvector NOT NULL)"
        )
        cursor.execute(f"CREATE INDEX IF NOT EXISTS {TABLE}_words ON {TABLE} USING gin (words)")
    _drop({name: table for name, table in there.items() if name not in wanted})
    for name in set(wanted) - set(there):
        source = wanted[name]
        columns = ", ".join(f'"{column}"' for column in source.columns)
        function = f"search_{source.table}"
        with connection.cursor() as cursor:
            cursor.execute(f"""
                CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF TG_OP = 'DELETE' THEN
                        DELETE FROM {TABLE} WHERE key = OLD.id;
                    ELSE
                        INSERT INTO {TABLE} (key, words) VALUES (NEW.id, {_words(source, "NEW")})
                        ON CONFLICT (key) DO UPDATE SET words = EXCLUDED.words;
                    END IF;
                    RETURN NULL;
                END $$""")
            cursor.execute(
                f'CREATE TRIGGER "{name}" AFTER INSERT OR DELETE OR UPDATE OF {columns} '
                f'ON "{source.table}" FOR EACH ROW EXECUTE FUNCTION {function}()'
            )
        _fill(source)


def _fill(source: Source) -> None:
    """Index the rows that were there before, some at a time, so that nobody waits long."""
    keys = source.model._default_manager.order_by("pk").values_list("pk", flat=True)
    last = None
    while batch := list((keys.filter(pk__gt=last) if last else keys)[:BATCH]):
        with transaction.atomic(), connection.cursor() as cursor:
            # none of them goes or changes meanwhile: the triggers hold from the next moment on
            cursor.execute(
                f'WITH held AS (SELECT * FROM "{source.table}" WHERE id BETWEEN %s AND %s '
                f"FOR SHARE) INSERT INTO {TABLE} (key, words) "
                f"SELECT id, {_words(source, 'held').replace('%', '%%')} FROM held "
                "ON CONFLICT (key) DO UPDATE SET words = EXCLUDED.words",
                [batch[0], batch[-1]],
            )
        last = batch[-1]


def _make_sqlite(wanted: dict[str, Source], there: dict[str, str]) -> None:
    """All of it anew, in one transaction: what went by meanwhile told no trigger."""
    with transaction.atomic(), connection.cursor() as cursor:
        _drop(there)
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}_key")
        # a row's own number may change; this one is kept
        cursor.execute(f"CREATE TABLE {TABLE}_key (id INTEGER PRIMARY KEY, key TEXT UNIQUE)")
        cursor.execute(
            f"CREATE VIRTUAL TABLE {TABLE} USING "
            "fts5(words, content='', tokenize='unicode61 remove_diacritics 0')"
        )
        for name, source in wanted.items():
            for statement in _sqlite_triggers(name, source):
                cursor.execute(statement)
            table = source.table
            cursor.execute(f'INSERT INTO {TABLE}_key (key) SELECT id FROM "{table}"')
            cursor.execute(
                f"INSERT INTO {TABLE} (rowid, words) SELECT k.id, {_words(source, 'held')} "
                f'FROM "{table}" held JOIN {TABLE}_key k ON k.key = held.id'
            )


def _sqlite_triggers(name: str, source: Source) -> list[str]:
    columns = ", ".join(f'"{column}"' for column in source.columns)
    number = f"(SELECT id FROM {TABLE}_key WHERE key = {{row}}.id)"
    add = (
        f"INSERT INTO {TABLE} (rowid, words) "
        f"VALUES ({number.format(row='NEW')}, {_words(source, 'NEW')});"
    )
    forget = (
        f"INSERT INTO {TABLE} ({TABLE}, rowid, words) "
        f"VALUES ('delete', {number.format(row='OLD')}, {_words(source, 'OLD')});"
    )
    key = f"INSERT INTO {TABLE}_key (key) VALUES (NEW.id);"
    lose = f"DELETE FROM {TABLE}_key WHERE key = OLD.id;"
    events = {
        "add": ("INSERT", key + add),
        "change": (f"UPDATE OF {columns}", forget + add),
        "remove": ("DELETE", forget + lose),
    }
    return [
        f'CREATE TRIGGER "{name}_{event}" AFTER {when} ON "{source.table}" BEGIN {does} END'
        for event, (when, does) in events.items()
    ]
