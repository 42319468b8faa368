"""Crons of LangGraph's own client are schedules of whoever makes them."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest

from runs import limits
from runs.models import Schedule, WorkOrder
from tests.doors.langgraph import refused, sdk_of
from tests.runs.schedules.scheduled import HOUR, NOON, may_schedule, sweep_at
from tests.runs.schedules.scheduled import scheduled as scheduled

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]
YEARLY = "0 0 1 1 *"


@pytest.fixture
def crons(templates, ana):
    return sdk_of(may_schedule(ana)).crons


def test_a_cron_is_made_found_changed_and_removed(crons, team):
    made: Any = crons.create(
        "writing",
        schedule="30  2 * * *",
        timezone="Europe/Berlin",
        input={"topic": "Rome"},
        metadata={"name": "Daily", "waystation_team": team.name},
    )
    row = Schedule.objects.get()
    assert (str(row.pk), row.name, row.zone, row.cron, row.overlap) == (
        made["cron_id"], "Daily", "Europe/Berlin", "30 2 * * *", "allow",
    )  # fmt: skip
    assert (row.input, row.team) == ({"topic": "Rome"}, team)
    assert (made["payload"]["input"], made["thread_id"]) == ({"topic": "Rome"}, None)
    assert dt.datetime.fromisoformat(made["next_run_date"]) == row.next_at
    assert crons.search() == [made]
    changed = crons.update(made["cron_id"], schedule=YEARLY, enabled=False, end_time=None)
    assert (changed["schedule"], changed["enabled"], changed["next_run_date"]) == (
        YEARLY, False, None,
    )  # fmt: skip
    assert (changed["metadata"], changed["payload"]) == (made["metadata"], made["payload"])
    renamed = crons.update(made["cron_id"], metadata={"name": "Yearly"}, timezone="UTC")
    assert (renamed["metadata"]["name"], renamed["timezone"]) == ("Yearly", "UTC")
    assert renamed["enabled"] is False
    other = crons.create("writing", schedule=YEARLY, enabled=False)
    assert not Schedule.objects.filter(next_at__isnull=False).exists()
    crons.delete(made["cron_id"])
    assert [one["cron_id"] for one in crons.search()] == [other["cron_id"]]


def test_it_begins_an_order_each_time_in_its_owners_name(crons, ana):
    about = {"suite": "mine", "name": "Hourly"}
    made: Any = crons.create(
        "writing", schedule="0 * * * *", input={"topic": "Rome"}, metadata=about
    )
    assert made["metadata"] == about
    assert crons.count(metadata={"suite": "mine"}) == 1
    changed = crons.update(made["cron_id"], metadata={"colour": "red"}, enabled=True)
    assert changed["metadata"] == {**about, "colour": "red"}
    Schedule.objects.update(cursor=NOON, next_at=NOON)
    for hours in (1, 2):
        sweep_at(NOON + hours * HOUR)
    orders = WorkOrder.objects.all()
    assert len({order.thread_id for order in orders}) == 2
    assert {order.thread.owner for order in orders} == {ana}
    assert {order.input["topic"] for order in orders} == {"Rome"}
    for order in orders:
        (run,) = sdk_of(ana).runs.list(str(order.thread_id))
        assert run["metadata"] == {"suite": "mine", "colour": "red"}


def test_search_and_count_know_the_filters_of_the_client(crons, scheduled):
    of_page = scheduled(name="By page")
    one, two = (
        crons.create("writing", schedule=YEARLY, enabled=on, metadata={"name": name})["cron_id"]
        for name, on in (("one", True), ("two", False))
    )
    kind = crons.search(limit=1)[0]["assistant_id"]
    assert crons.count() == crons.count(assistant_id=kind) == crons.count(assistant_id="writing")
    assert crons.count() == 3
    assert crons.count(metadata={"name": "one"}) == 1
    assert crons.count(assistant_id=str(uuid.uuid4())) == crons.count(thread_id="x") == 0
    newest = [row["cron_id"] for row in crons.search()]
    assert newest == [two, one, str(of_page.pk)]
    assert [row["cron_id"] for row in crons.search(sort_order="asc", limit=1, offset=1)] == [one]
    assert [row["cron_id"] for row in crons.search(enabled=False)] == [two]
    assert crons.search(sort_by="next_run_date", sort_order="asc", select=["cron_id"]) == [
        {"cron_id": str(of_page.pk)}, {"cron_id": one}, {"cron_id": two},
    ]  # fmt: skip
    assert refused(crons.search, sort_by="colour")[0] == 422
    assert refused(crons.search, select=["colour"])[0] == 422


def test_what_a_schedule_does_not_keep_is_refused_in_words(crons, subtests):
    cases: list[tuple[dict[str, Any], str]] = [
        ({"end_time": dt.datetime(2030, 1, 1, tzinfo=dt.UTC)}, "no end here"),
        ({"webhook": "https://x.example"}, "deliveries"),
        ({"context": {"model": "x"}}, "configured"),
        ({"config": {"configurable": {"model": "x"}}}, "configured"),
        ({"config": {"configurable": {"thread_id": "x"}}}, "configured"),
        ({"config": {"metadata": {"a": 1}}}, "no effect"),
        ({"interrupt_before": "*"}, "steps"),
        ({"interrupt_after": ["write"]}, "steps"),
        ({"stream_mode": "values"}, "follows"),
        ({"stream_subgraphs": True}, "follows"),
        ({"on_run_completed": "delete"}, "send keep"),
        ({"metadata": {"label": "x" * limits.START_BYTES}}, "bytes"),
        ({"metadata": {str(number): 1 for number in range(51)}}, "50 keys"),
        ({"metadata": {"name": 5}}, "is a text"),
        ({"metadata": {"name": ""}}, "1 to 120"),
        ({"metadata": {"waystation_team": "strangers"}}, "no team"),
        ({"input": {"password": "hunter2"}}, "secret"),
        ({"input": [1]}, "object"),
        ({"schedule": "every day"}, "Five fields"),
        ({"timezone": "Mars/Phobos"}, "time zone"),
    ]
    made: Any = crons.create("writing", schedule=YEARLY)
    for wrong, words in cases:
        with subtests.test(ascii(wrong)[:60]):
            status, said = refused(crons.create, "writing", **{"schedule": YEARLY, **wrong})
            assert (status, words in said) == (422, True), said
            status, said = refused(crons.update, made["cron_id"], **wrong)
            assert (status, words in said) == (422, True), said
    assert (
        "in its way"
        in refused(crons.create, "writing", schedule=YEARLY, multitask_strategy="reject")[1]
    )
    assert refused(crons.create, "no-such", schedule=YEARLY)[0] == 404
    assert crons.search() == [made]


def test_none_is_made_of_a_thread(crons):
    status, said = refused(crons.create_for_thread, str(uuid.uuid4()), "writing", schedule=YEARLY)
    assert (status, "without a thread" in said) == (422, True)
    assert not Schedule.objects.exists()


def test_others_see_none_and_making_one_takes_the_right(crons, ben, zoe):
    key = crons.create("writing", schedule=YEARLY)["cron_id"]
    for other in (ben, zoe):
        theirs = sdk_of(other).crons
        assert (theirs.search(), theirs.count()) == ([], 0)
        assert refused(theirs.update, key, enabled=False)[0] == 404
        assert refused(theirs.delete, key)[0] == 404
        status, said = refused(theirs.create, "writing", schedule=YEARLY)
        assert (status, "may not make schedules" in said) == (403, True)
    assert refused(crons.delete, "mine")[0] == 422
    assert Schedule.objects.get().enabled


@pytest.mark.parametrize(("scope", "reads"), [("read", True), ("ask", False), ("answer", False)])
def test_a_token_does_what_it_does_over_rest(crons, ana, scope, reads):
    key = crons.create("writing", schedule=YEARLY)["cron_id"]
    narrow = sdk_of(may_schedule(ana), scope).crons
    for act, args in (
        (narrow.create, {"assistant_id": "writing", "schedule": YEARLY}),
        (narrow.update, {"cron_id": key, "enabled": False}),
        (narrow.delete, {"cron_id": key}),
    ):
        assert refused(act, **args)[0] == 403
    if reads:
        assert narrow.count() == len(narrow.search()) == 1
    else:
        assert refused(narrow.search)[0] == refused(narrow.count)[0] == 403
