"""A prepared query gives what its queryset gives."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.models import Value
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.database import clock
from checkpoints.models import Thread
from checkpoints.store.prepared_queries import Prepared, PreparedUpdate, PreparedValues
from hitl.decisions import services
from hitl.decisions.approvals import _named
from hitl.decisions.reviewers.delegations import _to
from hitl.decisions.reviewers.seats import _of_one, _standing_in
from hitl.decisions.services import Answer
from hitl.decisions.visibility import (
    _on_card,
    _on_page,
    _orders,
    _orders_as_seen,
    _orders_on_page,
    _shown_pauses,
    by_id,
    open_of_order,
    open_pauses_of,
)
from hitl.http.authentication import _valid
from hitl.http.logins import _permissions, _person
from hitl.http.session_store import _unexpired
from hitl.identity import keys
from hitl.models import ApiToken, Decision, Delegation, Via
from hitl.views.threads.pages import _latest, latest_of
from runs.api.work_orders import just_made
from runs.definitions.rights import _access
from runs.definitions.templates import _newest
from runs.engine.advance import _claimable
from runs.models import Panel, PanelMember, Pause, Run, Template, TemplateAccess, WorkOrder
from tests.conftest import drive, pause_of

pytestmark = pytest.mark.django_db(transaction=True)


def everything(one, *above):
    """All that an object holds, annotations too, and what came with it in the same query."""
    if one is None or any(one is other for other in above):
        return one and one.pk  # an order's thread knows its order
    held = {name: value for name, value in vars(one).items() if name != "_state"}
    return (
        held,
        {name: everything(got, one, *above) for name, got in one._state.fields_cache.items()},
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
    TemplateAccess.objects.create(slug="writing", restricted=True)
    soon = timezone.now() + dt.timedelta(days=1)
    Delegation.objects.create(
        from_user=ana, to_user=ben, starts_at=pause.opened_at, ends_at=soon, created_by=ana
    )
    PanelMember.objects.create(
        panel=Panel.objects.create(digest="x", open_to_all=False, self_approval=True, quorum=1),
        username="ben",
        stage=0,
    )
    ben.user_permissions.add(Permission.objects.get(codename="view_run"))
    page = Client()
    page.force_login(ben)
    session = str(page.session.session_key)
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
            ApiToken.objects.valid(now=now)
            .select_related("user__service_account")
            .filter(digest=digest),
        ),
        (
            lambda: _shown_pauses.get(ben, pause.pk),
            Pause.objects.shown().visible_to(ben).filter(pk=pause.pk),
        ),
        (
            lambda: _orders.get(ana, paused.pk),
            WorkOrder.objects.visible_to(ana).shown().filter(pk=paused.pk),
        ),
        (
            lambda: _orders_as_seen.get(ana, paused.pk),
            WorkOrder.objects.visible_to(ana).shown_to(ana).filter(pk=paused.pk),
        ),
        (
            lambda: _orders_on_page.get(ana, paused.pk),
            _on_page(ana, paused.pk),
        ),
        (
            lambda: open_pauses_of([pause.run_id]),
            _on_card().filter(run__in=[pause.run_id]),
        ),
        (lambda: [latest_of(paused.thread)], _latest(paused.thread_id).defer("thread__head__body")),
        (lambda: [just_made(order)], WorkOrder.objects.shown_to(ana).filter(pk=order.pk)),
        (
            lambda: _newest.get("writing"),
            Template.objects.filter(slug="writing").order_by("-version")[:1],
        ),
        (lambda: _access.get("writing"), TemplateAccess.objects.filter(slug="writing")),
        (
            lambda: _person.get(ben.pk),
            User.objects.select_related("service_account").annotate(**keys.READ).filter(pk=ben.pk),
        ),
        (
            lambda: _to.get(now, ben.pk),
            Delegation.objects.active(now=now).filter(to_user=ben).select_related("from_user"),
        ),
        (lambda: _of_one.get(now, ben.pk), _standing_in(now, ben.pk)),
        (
            lambda: _permissions.get(ben.pk),
            Permission.objects.filter(user=ben).select_related("content_type"),
        ),
        (
            lambda: _unexpired.get(session, now),
            Session.objects.filter(session_key=session, expire_date__gt=now),
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


def test_a_time_of_its_own_would_stand_still_and_is_refused_where_it_is_a_value(ana):
    prepared = Prepared(
        lambda key: Thread.objects.filter(pk=key, created_at__lte=clock.FromNow()), uuid.UUID
    )
    if connection.vendor == "postgresql":
        assert prepared.get(uuid.uuid4()) == []
        return
    with pytest.raises(AssertionError, match="would stay as it is"):
        prepared.get(uuid.uuid4())


def test_a_value_that_is_no_parameter_is_found_out(ana):
    with pytest.raises(AssertionError, match="no parameter"):
        Prepared(lambda key, other: Thread.objects.filter(pk=key), uuid.UUID, int).get(
            uuid.uuid4(), 1
        )


def test_the_decisions_of_several_keys_come_in_one_query(make_order, ana):
    """With what each was given for, and whether it was taken back; also of keys that are none."""
    for _ in range(2):
        services.decide(pause_of(drive(make_order())).pk, Answer("approve", Via.PAGE), by=ana)
    decisions = list(Decision.objects.order_by("pk"))
    keys = [*(decision.pk for decision in decisions), uuid.uuid4()]
    ordinary = Decision.objects.filter(pk__in=keys).select_related(
        "pause__run", "pause__checkpoint", "undone_by"
    )
    with CaptureQueriesContext(connection) as queries:
        found = _named(3).get(*keys)
    assert len(queries) == 1
    assert sorted(map(str, map(everything, found))) == sorted(
        map(str, map(everything, ordinary.defer("pause__checkpoint__body")))
    )
    assert not any(hasattr(decision, "undone_by") for decision in found)


def test_an_update_changes_what_its_query_changes_by_the_clock_of_each_use(make_order):
    """SQLite's now is a value of the statement: kept with its words, it would stand still."""
    due = PreparedUpdate(
        lambda key, words: (
            Run.objects.filter(pk=key, due_at__lte=clock.FromNow()),
            {"held_because": words},
        ),
        *(uuid.UUID, str),
    )
    runs = [make_order().latest_run for _ in range(2)]
    assert due.run(runs[0].pk, "one") == 1
    Run.objects.filter(pk=runs[1].pk).update(due_at=clock.FromNow())
    assert due.run(runs[1].pk, "two") == 1
    Run.objects.filter(pk=runs[0].pk).update(due_at=clock.FromNow(60))
    assert due.run(runs[0].pk, "three") == due.run(uuid.uuid4(), "none") == 0
    assert [Run.objects.get(pk=run.pk).held_because for run in runs] == ["one", "two"]


def test_prepared_values_are_those_of_the_query(paused, make_order):
    """Converted as the columns have it: times, keys, JSON, and what is not there."""
    pause, other = pause_of(paused), pause_of(drive(make_order()))

    def query(*keys):
        return Pause.objects.filter(pk__in=keys).values_list(
            "pk", "opened_at", "deadline_at", "review", "run__thread__title", "claimed_by__username"
        )

    prepared = PreparedValues(query, uuid.UUID, uuid.UUID)
    for wanted in ((pause.pk, other.pk), (other.pk, other.pk), (uuid.uuid4(), pause.pk)):
        with CaptureQueriesContext(connection) as captured:
            rows = prepared.get(*wanted)
        assert len(captured) == 1
        assert sorted(map(tuple, rows)) == sorted(query(*wanted))
