"""An address of the database that names several servers: a primary and its standbys."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection
from django.db.utils import ConnectionHandler

from checkpoints.database import addresses


def test_hosts_with_commas_between_them_are_tried_in_order_and_the_one_that_writes_is_taken():
    found = addresses.database("postgresql://u:p%40@db1:5432,db2:5433/name", pool=0)
    assert (found["HOST"], found["PORT"]) == ("db1,db2", "5432,5433")
    assert (found["USER"], found["PASSWORD"], found["NAME"]) == ("u", "p@", "name")
    assert found["OPTIONS"]["target_session_attrs"] == "read-write"
    assert found["OPTIONS"]["connect_timeout"] == "2"
    chosen = addresses.database("postgresql://u@db1,db2/name?connect_timeout=9", pool=0)
    assert (chosen["HOST"], chosen["PORT"]) == ("db1,db2", "")
    assert chosen["OPTIONS"]["connect_timeout"] == "9"
    alone = addresses.database("postgresql://u@[::1]:6000/name", pool=0)
    assert (alone["HOST"], alone["PORT"]) == ("::1", "6000")
    assert alone["OPTIONS"]["connect_timeout"] == "5"
    assert "target_session_attrs" not in alone["OPTIONS"]


def test_a_port_that_is_none_is_named_and_not_a_traceback():
    with pytest.raises(ImproperlyConfigured, match="port that is none"):
        addresses.database("postgresql://u@db1:543x/name", pool=0)


@pytest.mark.django_db
@pytest.mark.one_database
def test_a_server_that_is_not_there_is_passed_over_and_one_that_only_reads_is_refused(tmp_path):
    there = dict(parse_qsl(urlsplit(os.environ["DATABASE_URL"]).query))["host"]
    url = f"postgresql://waystation@/{connection.settings_dict['NAME']}?host={tmp_path},{there}"
    answers = {}
    for more in ("", "&options=-c%20default_transaction_read_only%3Don"):
        hosts = ConnectionHandler({"default": addresses.database(url + more, pool=0)})
        try:
            with hosts["default"].cursor() as cursor:
                cursor.execute("SELECT 1")
                answers[more] = cursor.fetchone()
        except OperationalError as error:
            answers[more] = str(error)
        finally:
            hosts["default"].close()
    first, second = answers.values()
    assert first == (1,)
    assert "read-only" in second
