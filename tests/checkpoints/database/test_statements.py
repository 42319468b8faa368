"""Rows that are written together are what Django would have written one by one."""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction

from checkpoints import store
from checkpoints.database import clock, statements
from checkpoints.events import log
from checkpoints.ids import new
from checkpoints.models import CheckpointStatus, Chore, Event, EventKind, Thread
from checkpoints.store import Entry

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

FACTS = [(EventKind.LOG, {"message": text}) for text in ("a", "b")]


def whole(owner):
    """A thread that names its checkpoint, which names the thread; and its log."""
    thread, run_id = Thread(owner=owner, title="t", last_seq=len(FACTS)), new()
    entry = Entry(status=CheckpointStatus.ACTIVE, next_step="plan", total_nodes=1)
    checkpoint = store.build(thread.pk, run_id, {"a": 1}, entry, parent=None, before=None)
    thread.head = checkpoint
    return [thread, checkpoint, *log.numbered(thread.pk, run_id, FACTS)]


def test_rows_that_name_each_other_are_written_in_one_statement(django_assert_num_queries):
    rows = whole(User.objects.create_user("owner"))
    with (
        transaction.atomic(),
        django_assert_num_queries(
            1 if connection.vendor == "postgresql" else 5  # each table's own, between savepoints
        ),
    ):
        statements.write(rows)
    thread = Thread.objects.select_related("head").get()
    assert thread.head is not None
    assert store.load(thread.head) == {"a": 1}
    told = [(event.seq, event.data["message"]) for event in log.after(thread.pk, 0)]
    assert told == [(1, "a"), (2, "b")]
    assert None not in Event.objects.values_list("pk", flat=True)
    assert thread.created_at == rows[0].created_at
    # as Django's own, they may be saved again
    rows[0].title = "u"
    rows[0].save()
    assert Thread.objects.get().title == "u"


def test_a_time_from_now_is_the_databases():
    before = clock.read()
    statements.write([Chore(name="x", due_at=clock.FromNow(3600), busy_until=clock.FromNow())])
    chore = Chore.objects.get()
    hour = dt.timedelta(hours=1)
    assert before + hour <= chore.due_at <= clock.read() + hour
    assert chore.due_at - chore.busy_until == hour or connection.vendor == "sqlite"


def test_of_rows_that_do_not_all_go_none_is_written():
    thread, checkpoint, first, second = whole(User.objects.create_user("owner"))
    second.seq = first.seq
    with pytest.raises(IntegrityError), transaction.atomic():
        statements.write([thread, checkpoint, first, second])
    assert not Thread.objects.exists()
