"""A prepared query gives what its queryset gives."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Value
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.models import Thread
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions.visibility import by_id, open_of_order
from hitl.http.authentication import _valid
from hitl.models import ApiToken
from runs.engine.advance import _claimable
from runs.models import Pause, Run
from tests.conftest import pause_of

pytestmark = pytest.mark.django_db


def everything(one):
    """All that an object holds, and what came with it in the same query."""
    if one is None:
        return None
    held = {
        field.attname: getattr(one, field.attname)
        for field in one._meta.concrete_fields
        if field.attname in one.__dict__
    }
    return (
        held,
        {name: everything(related) for name, related in one._state.fields_cache.items()},
        one._state.db,
        one._state.adding,
    )


def test_it_gives_the_same_objects_in_one_query_and_makes_its_words_once(
    paused, make_order, ana, ben
):
    """With relations that are there and that are not, on both databases."""
    pause, order = pause_of(paused), make_order()
    token, secret = ApiToken.make(ben, name="x", expires_at=timezone.now() + dt.timedelta(days=1))
    now, digest = timezone.now(), ApiToken.digest_of(secret)
    pairs: list[tuple[Any, Any]] = [
        (
            lambda: by_id.get(ben, pause.pk),
            Pause.objects.visible_to(ben).answerable().filter(pk=pause.pk),
        ),
        (
            lambda: open_of_order.get(ana, paused.pk),
            Pause.objects.open().visible_to(ana).answerable().filter(run__work_order=paused.pk),
        ),
        (
            lambda: _claimable.get(order.latest_run_id),
            Run.objects.select_related("thread__head", "work_order__repository")
            .annotate(limited=Value(False))
            .filter(pk=order.latest_run_id, status="pending"),
        ),
        (
            lambda: _valid.get(now, digest),
            ApiToken.objects.valid(now=now).select_related("user").filter(digest=digest),
        ),
    ]
    for prepared, ordinary in pairs:
        for _ in range(2):
            with CaptureQueriesContext(connection) as queries:
                found = prepared()
            assert len(queries) == 1
            assert [everything(one) for one in found] == [everything(one) for one in ordinary]
            assert len(found) == 1
    assert token.expires_at is not None
    assert _valid.get(token.expires_at, digest) == []


def test_a_stranger_and_one_who_was_locked_out_find_nothing_a_superuser_finds_all(paused, zoe, ana):
    pause = pause_of(paused)
    assert by_id.get(zoe, pause.pk) == []
    assert by_id.get(ana, pause.pk) == [pause]
    ana.is_active = False
    assert by_id.get(ana, pause.pk) == []
    assert by_id.get(User.objects.create_superuser("root"), pause.pk) == [pause]


def test_a_value_that_is_no_parameter_is_found_out(ana):
    with pytest.raises(AssertionError, match="no parameter"):
        Prepared(lambda key, other: Thread.objects.filter(pk=key), uuid.UUID, int).get(
            uuid.uuid4(), 1
        )
