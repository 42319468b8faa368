"""The rules that must never break are there in the database, not only in the models."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction

from checkpoints.ids import new
from checkpoints.models import Thread

pytestmark = pytest.mark.django_db

OURS = ("checkpoints", "runs", "hitl")


def test_every_constraint_and_index_that_a_model_names_exists():
    """F7: a migration that drops an index by its column can take the unique constraint on that
    column along, without a word.
    """
    missing = []
    with connection.cursor() as cursor:
        for model in (model for name in OURS for model in apps.get_app_config(name).get_models()):
            there = connection.introspection.get_constraints(cursor, model._meta.db_table)
            named = {one.name for one in [*model._meta.constraints, *model._meta.indexes]}
            missing += [(model.__name__, name) for name in named - set(there)]
    assert missing == []


def test_a_threads_head_is_one_of_its_own_checkpoints(paused, make_order):
    """On SQLite, which has the plain foreign key, it is at least one that exists."""
    other = make_order()
    strange = other.thread.head_id if connection.vendor == "postgresql" else new()
    with pytest.raises(IntegrityError), transaction.atomic():
        Thread.objects.filter(pk=paused.thread_id).update(head=strange)
        connection.check_constraints()
