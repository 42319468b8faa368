"""A whole database through Django's `dumpdata` and `loaddata`: another program's copy is as good as
the original.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.test import override_settings

from checkpoints.models import Checkpoint, Event, JsonTextField, Memo
from checkpoints.state import codec
from runs.models import Pause
from tests.databases import cleaning, encryption_keys
from tests.databases.unguarded import unguarded as unguarded
from tests.matrix import world as worlds
from tests.worlds.histories.whole_story import broken, command

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
ODD = 'a NUL \0, half a pair \ud800, waystation: { "json": [1.0, 1e300] }, \N{GRINNING FACE}'
"""What no file and few databases take as it is."""


def stored():
    """Table → its rows as the database has them."""
    found = {}
    for model in apps.get_models():
        table = connection.ops.quote_name(model._meta.db_table)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")  # the name of a table of ours
            names = [column[0] for column in cursor.description]
            found[model._meta.db_table] = sorted(
                repr(
                    tuple(
                        (name, bytes(value) if isinstance(value, memoryview) else value)
                        for name, value in zip(names, row, strict=True)
                    )
                )
                for row in cursor.fetchall()
            )
    return found


@pytest.fixture
def everything(tmp_path):
    """Rows of nearly every kind."""
    with override_settings(WAYSTATION_DATA=tmp_path / "data", WAYSTATION_REPOSITORIES=[tmp_path]):
        worlds.load_templates()
        worlds.build()
        thread = Checkpoint.objects.order_by("pk").first().thread
        for number, value in enumerate(
            [[ODD], [None], ["{}"], [{"b": 1, "a": [1.5, 10**30]}], "plain text", "[1]"]
        ):
            Memo.objects.create(thread=thread, scope="odd", key=str(number), value=value)
        yield


def carried(path: Path, kind: str = "json"):
    """Dump all, empty the database, load it again."""
    call_command(
        "dumpdata",
        "--format",
        kind,
        "--exclude",
        "contenttypes",
        "--exclude",
        "auth.permission",
        "-o",
        str(path),
        verbosity=0,
    )
    cleaning.empty(["default"])
    call_command("loaddata", str(path), verbosity=0)


def test_a_dumped_database_is_loaded_row_for_row_and_holds_all_that_it_promised(
    everything, tmp_path
):
    """P10, P11: JSON was encoded twice, times were cut to thousandths: all checkpoints were
    damaged, and `invariants` crashed.
    """
    before, fine = stored(), broken()
    counted = Checkpoint.objects.count(), Event.objects.count()
    for kind in ("json", "jsonl", "xml"):
        carried(tmp_path / f"all.{kind}", kind)
        after = stored()
        for table, rows in before.items():
            assert after[table] == rows, (kind, table)
        assert (Checkpoint.objects.count(), Event.objects.count()) == counted and counted[0] > 10
        assert broken() == fine, kind
        for name in ("verify_checkpoints", "verify_ledger"):
            call_command(name, verbosity=0)


def said():
    """What people were asked, opened."""
    return sorted(Pause.objects.values_list("content", flat=True))


@pytest.mark.one_database
def test_what_is_sealed_at_rest_is_sealed_in_the_dump_too(tmp_path):
    """A dump held the plain words of rows that are sealed in the database; where the key is missing
    they stay sealed, and are kept.
    """
    with override_settings(WAYSTATION_DATA=tmp_path / "data", WAYSTATION_REPOSITORIES=[tmp_path]):
        with encryption_keys.keys(encryption_keys.NEW):
            worlds.load_templates()
            worlds.build()
            words, fine = said(), broken()
            carried(tmp_path / "all.json")
            text = (tmp_path / "all.json").read_text()
            assert any(words) and not [
                word for word in words if word and json.dumps(word)[1:-1] in text
            ]
            assert (said(), broken()) == (words, fine)
        with encryption_keys.keys():
            assert said() != words
            carried(tmp_path / "again.json")
        with encryption_keys.keys(encryption_keys.NEW):
            assert (said(), broken()) == (words, fine)


@pytest.mark.one_database
def test_json_that_was_encoded_twice_is_a_breach_and_not_the_end_of_the_invariants(
    everything, unguarded
):
    """What an older version's `loaddata` left behind: `invariants` ended in a traceback."""
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if isinstance(field, JsonTextField):
                for row in model._default_manager.exclude(**{field.attname: None}):
                    twice = codec.Text(
                        codec.encode(field.get_prep_value(getattr(row, field.attname)))
                    )
                    # a few columns are checked by the database
                    with suppress(IntegrityError), transaction.atomic():
                        model._default_manager.filter(pk=row.pk).update(**{field.attname: twice})
    assert any("damaged rows" in one for ids in broken().values() for one in ids)
    assert command("--deep")[0] == 1
