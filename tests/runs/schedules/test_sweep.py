"""What becomes of occurrences: started, skipped or refused, and never without a word."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from checkpoints import store
from hitl.threads import erasure
from runs import services
from runs.models import Occurrence, Schedule, TemplateAccess, WorkOrder
from runs.schedules import keeping, sweep
from tests.runs.schedules.scheduled import HOUR, MINUTE, NOON, history, reasons, sweep_at
from tests.runs.schedules.scheduled import scheduled as scheduled

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
ONE = pytest.mark.one_database


def test_an_occurrence_is_an_order_in_its_owners_name_and_starts_once(scheduled, ana, team):
    schedule = scheduled(title="Hourly", request="the numbers", team=team)
    assert sweep_at(NOON + 59 * MINUTE) == 1
    assert not WorkOrder.objects.exists()  # never early
    for _ in range(3):
        sweep_at(NOON + HOUR)
    order = WorkOrder.objects.get()
    assert (order.created_by, order.title, order.request) == (ana, "Hourly", "the numbers")
    assert order.thread.team == team
    occurrence = Occurrence.objects.get()
    assert (occurrence.order, occurrence.at, occurrence.by) == (order, NOON + HOUR, None)
    schedule.refresh_from_db()
    assert (schedule.cursor, schedule.next_at) == (NOON + HOUR, NOON + 2 * HOUR)


def test_by_what_has_not_ended_an_occurrence_is_skipped_waits_or_does_not_care(scheduled):
    skip = scheduled(overlap="skip")
    queue = scheduled(overlap="queue")
    allow = scheduled(overlap="allow")
    for hours in (1, 2, 3):
        sweep_at(NOON + hours * HOUR)
    assert [status for _, status, _ in history(skip)] == ["started", "skipped", "skipped"]
    first = Occurrence.objects.get(schedule=skip, status="started").order
    assert reasons(skip)[1] == (
        f"{first.shown_id}, started at 2026-06-01T13:00+00:00, has not ended"
    )
    assert [status for _, status, _ in history(queue)] == ["started", "due", "due"]
    assert reasons(queue)[1].startswith("waits: wo_")
    assert [status for _, status, _ in history(allow)] == ["started"] * 3
    # its turn comes when the one before has ended, and then the next one's
    for place in (1, 2):
        order = Occurrence.objects.filter(schedule=queue, status="started").latest("at").order
        services.cancel(order.pk, by=order.created_by)
        sweep_at(NOON + 3 * HOUR + place * sweep.AGAIN)
        assert [status for _, status, _ in history(queue)].count("started") == place + 1


def test_more_than_ten_do_not_wait(scheduled):
    """P12: a schedule by the minute over work that never ends does not pile up."""
    schedule = scheduled(cron="* * * * *", overlap="queue", catch_up="all", catch_up_most=100)
    sweep_at(NOON + 30 * MINUTE)
    statuses = [status for _, status, _ in history(schedule)]
    assert statuses == ["started", *["due"] * 9, *["skipped"] * 20]
    assert reasons(schedule)[-1] == "10 occurrences wait for earlier work already"


@ONE
def test_weeks_later_it_says_what_it_skipped_and_why(scheduled):
    schedules = {rule: scheduled(catch_up=rule, overlap="allow", catch_up_most=2)
                 for rule in ("latest", "all", "none")}  # fmt: skip
    sweep_at(NOON + dt.timedelta(weeks=3) + 30 * MINUTE)
    assert history(schedules["latest"]) == [("13:00", "skipped", 503), ("12:00", "started", 1)]
    assert history(schedules["all"]) == [
        ("13:00", "skipped", 502),
        ("11:00", "started", 1),
        ("12:00", "started", 1),
    ]
    assert history(schedules["none"]) == [("13:00", "skipped", 504)]
    assert "catches up on the latest alone" in reasons(schedules["latest"])[0]
    assert "up to 2, and these are older" in reasons(schedules["all"])[0]
    assert "found more than 5 minutes late" in reasons(schedules["none"])[0]


def test_a_clock_that_jumps_by_hours_starts_nothing_twice(scheduled):
    """F21: forward six hours and back again; what was started stays started, and what comes after
    is started at its time.
    """
    schedule = scheduled(overlap="allow", catch_up="all", catch_up_most=100)
    sweep_at(NOON + HOUR)
    sweep_at(NOON + 7 * HOUR)
    for minutes in range(60, 7 * 60, 30):  # back by six, and through them again
        sweep_at(NOON + minutes * MINUTE)
    assert [time for time, _, _ in history(schedule)] == [f"{n}:00" for n in range(13, 20)]
    assert WorkOrder.objects.count() == 7
    sweep_at(NOON + 8 * HOUR)
    assert WorkOrder.objects.count() == 8


@ONE
@pytest.mark.parametrize(
    "case", ["inactive", "no right", "no schedules", "not in the team", "team gone"]
)
def test_an_owner_who_may_not_any_more_stops_it_with_a_reason_on_its_row(
    scheduled, ana, team, case
):
    """The right to have work begun by the clock was asked when a schedule was made, and never
    again: whoever lost it kept what they had.
    """
    schedule = scheduled(team=team, overlap="queue")
    if case == "inactive":
        ana.is_active = False
        ana.save()
    elif case == "no right":
        TemplateAccess.objects.create(slug="writing", restricted=True)
    elif case == "no schedules":
        ana.user_permissions.clear()
    elif case == "not in the team":
        ana.groups.clear()
    else:
        Group.objects.filter(pk=team.pk).delete()
    sweep_at(NOON + HOUR)
    schedule.refresh_from_db()
    words = {
        "inactive": "ana is not active",
        "no right": "may not order by the template",
        "no schedules": "ana may not make schedules any more",
        "not in the team": "not in the team platform",
        "team gone": "team that the orders were for is gone",
    }[case]
    assert (schedule.enabled, schedule.next_at) == (False, None)
    assert words in schedule.stopped_because
    assert words in reasons(schedule)[0]
    assert history(schedule) == [("13:00", "refused", 1)]
    assert not WorkOrder.objects.exists()
    sweep_at(NOON + 5 * HOUR)
    assert len(history(schedule)) == 1


@ONE
def test_what_may_be_otherwise_tomorrow_refuses_one_occurrence_alone(scheduled):
    schedule = scheduled()
    access = TemplateAccess.objects.create(slug="writing", enabled=False)
    sweep_at(NOON + HOUR)
    assert "switched off" in reasons(schedule)[0]
    access.delete()
    sweep_at(NOON + 2 * HOUR)
    assert [status for _, status, _ in history(schedule)] == ["refused", "started"]


def test_trouble_of_the_server_is_no_refusal_and_holds_up_no_other(scheduled, monkeypatch):
    """P12: one schedule's trouble; it is tried again, and after an hour its row says so."""
    ill, well = scheduled(name="ill", request="ill"), scheduled(name="well")
    submit = services.submit

    def away(slug, **order):
        if order["request"] == "ill":
            raise store.StoreUnavailable("the store is away")
        return submit(slug, **order)

    monkeypatch.setattr(services, "submit", away)
    sweep_at(NOON + HOUR)
    assert [status for _, status, _ in history(ill) + history(well)] == ["due", "started"]
    ill.refresh_from_db()
    assert ill.next_at == NOON + HOUR + sweep.TROUBLE
    monkeypatch.setattr(services, "submit", submit)
    sweep_at(NOON + HOUR + sweep.TROUBLE)
    assert history(ill)[0][1] == "started"
    monkeypatch.setattr(services, "submit", away)
    Schedule.objects.filter(pk=ill.pk).update(overlap="allow")
    sweep_at(NOON + 2 * HOUR)
    Occurrence.objects.open().update(made_at=NOON)
    sweep_at(NOON + 2 * HOUR + sweep.TROUBLE)
    assert history(ill)[1][1] == "refused"
    assert "StoreUnavailable" in reasons(ill)[1]


@ONE
def test_switched_off_it_starts_nothing_and_switched_on_it_catches_up_on_nothing(scheduled):
    schedule = scheduled()
    keeping.change(schedule, enabled=False)
    assert sweep_at(NOON + 5 * HOUR) == 0
    keeping.change(schedule, enabled=True)
    schedule.refresh_from_db()
    assert schedule.cursor > NOON
    assert schedule.next_at > schedule.cursor
    assert not Occurrence.objects.exists()


def test_by_hand_it_starts_beside_its_times_and_its_row_names_who(scheduled, ana):
    schedule = scheduled()
    order = keeping.start_now(schedule, ana)
    occurrence = Occurrence.objects.get()
    assert (occurrence.order, occurrence.by, occurrence.status) == (order, ana, "started")
    ana.is_active = False
    ana.save()
    with pytest.raises(keeping.CannotStart):
        keeping.start_now(Schedule.objects.select_related("owner").get(), ana)
    assert WorkOrder.objects.count() == 1


def test_the_database_keeps_an_occurrence_from_being_there_twice(scheduled):
    schedule = scheduled()
    sweep_at(NOON + HOUR)
    row = {"schedule": schedule, "at": NOON + HOUR, "local": "again"}
    with pytest.raises(IntegrityError, match=r"occurrence_once|UNIQUE"), transaction.atomic():
        Occurrence.objects.create(**row)
    order = WorkOrder.objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        Occurrence.objects.filter(schedule=schedule).update(status="refused")
    assert Occurrence.objects.get().order == order


def test_ten_thousand_schedules_cost_a_sweep_one_query_by_an_index(scheduled):
    """P12."""
    one = scheduled()
    same = {field.attname: getattr(one, field.attname) for field in Schedule._meta.concrete_fields}
    later = {**same, "next_at": NOON + 9 * HOUR, "cursor": NOON}
    del later["id"]
    Schedule.objects.bulk_create([Schedule(**later) for _ in range(10_000)], batch_size=1000)
    Schedule.objects.filter(pk=one.pk).update(next_at=NOON + 9 * HOUR)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE runs_schedule")
    with CaptureQueriesContext(connection) as sent:
        assert sweep_at(NOON) == 0
    assert len(sent) == 1
    plan = Schedule.objects.due(now=NOON).order_by("next_at").values("pk")[:500].explain()
    assert "schedule_enabled_by_next" in plan
    # and where all are due at once, a round takes so many and no more
    Schedule.objects.update(next_at=NOON)
    with CaptureQueriesContext(connection) as sent:
        assert sweep_at(NOON) == sweep.BATCH
    assert len(sent) < 12 * sweep.BATCH
    assert Schedule.objects.filter(next_at=NOON).count() == 10_001 - sweep.BATCH


def test_what_waits_for_long_is_not_refused_for_a_lock_that_others_hold(scheduled, monkeypatch):
    schedule = scheduled(overlap="queue")
    sweep_at(NOON + HOUR)
    sweep_at(NOON + 2 * HOUR)
    now = NOON + 3 * HOUR
    Occurrence.objects.open().update(made_at=now - 2 * sweep.GIVE_UP)

    def held(*args, **more):
        raise OperationalError("lock timeout") from psycopg.errors.LockNotAvailable()

    with monkeypatch.context() as patched:
        patched.setattr(sweep, "look_at", held)
        Schedule.objects.update(next_at=now)
        sweep_at(now)
    assert [status for _, status, _ in history(schedule)] == ["started", "due"]
    schedule.refresh_from_db()
    assert schedule.next_at == now + sweep.TROUBLE


def test_a_history_has_an_end(scheduled, monkeypatch):
    monkeypatch.setattr(sweep, "KEPT", 3)
    schedule = scheduled(overlap="allow")
    for hours in range(1, 7):
        sweep_at(NOON + hours * HOUR)
    assert [time for time, _, _ in history(schedule)] == ["16:00", "17:00", "18:00"]
    assert WorkOrder.objects.count() == 6


def test_erasing_an_order_leaves_the_time_it_was_started_at(scheduled, ana):
    scheduled()
    sweep_at(NOON + HOUR)
    order = WorkOrder.objects.get()
    services.cancel(order.pk, by=ana)
    erasure.erase(order.thread_id, by="root", reason="asked for")
    occurrence = Occurrence.objects.get()
    assert (occurrence.status, occurrence.order, occurrence.why) == (
        "started",
        None,
        "its order was erased",
    )


@ONE
@pytest.mark.parametrize(
    ("cron", "night", "starts"),
    [
        ("30 2 * * *", "2027-03-28", ["03:00+02:00"]),
        ("*/30 * * * *", "2026-10-25", ["00:30+02:00", "01:00+02:00", "01:30+02:00", "02:00+02:00",
                                         "02:30+02:00", "02:00+01:00", "02:30+01:00"]),
    ],
    ids=["left-out", "twice-passing"],
)  # fmt: skip
def test_a_night_on_which_the_clock_changes_is_swept_as_any_other(scheduled, cron, night, starts):
    """F21: by two beats, one of which is a minute behind the other."""
    schedule = scheduled(cron=cron, zone="Europe/Berlin", overlap="allow", catch_up="all")
    midnight = dt.datetime.fromisoformat(f"{night}T00:00").replace(tzinfo=ZoneInfo(schedule.zone))
    begin = midnight.astimezone(dt.UTC)
    Schedule.objects.update(cursor=begin, next_at=begin)
    for tick in range(0, 220, 10):
        for late in (0, 1):
            sweep_at(begin + (tick - late) * MINUTE)
    rows = Occurrence.objects.filter(schedule=schedule).order_by("at")
    assert [row.local[11:] for row in rows][: len(starts)] == starts
    assert {row.status for row in rows} == {"started"}
    assert WorkOrder.objects.count() == len(rows)


@ONE
def test_two_thousand_that_are_due_at_once_all_come_to_their_turn(scheduled, monkeypatch):
    """P12: round after round, wherever each begins among them; none is looked at twice in vain."""
    one = scheduled(template="writing-quick")
    same = {field.attname: getattr(one, field.attname) for field in Schedule._meta.concrete_fields}
    del same["id"]
    Schedule.objects.bulk_create([Schedule(**same) for _ in range(2_000)], batch_size=1000)
    looked: list[str] = []

    def look_at(schedule, *, now):
        looked.append(schedule.shown_id)
        Schedule.objects.filter(pk=schedule.pk).update(next_at=now + HOUR)

    monkeypatch.setattr(sweep, "look_at", look_at)
    rounds = 0
    while sweep.start_due(now=NOON, share=rounds % 10 / 10, limit=100):
        rounds += 1
    assert len(looked) == len(set(looked)) == 2_001
    assert rounds <= 22
