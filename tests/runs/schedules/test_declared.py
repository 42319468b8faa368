"""Limits and schedules that stand beside a workflow: they follow the code, a person's change stands
over it, and one can go back.
"""

from __future__ import annotations

import datetime as dt
import importlib
import sys
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User

from runs.definitions import shipped
from runs.models import Occurrence, Schedule, WorkLimit
from runs.schedules import keeping, times
from runs.services import limits as work_limits
from runs.workflows import Done, limit, registry, schedule, step, workflow
from runs.workflows.declare import WorkflowInvalid
from tests.runs.schedules.scheduled import HOUR, MINUTE, NOON, history, reasons, sweep_at
from tests.runs.schedules.scheduled import scheduled as scheduled
from tests.worlds.people import give, person

ANY: Any = 3
AT_ONEC: Any = {"at_onec": 1}
SKIP_IF_OPNE: Any = {"skip_if_opne": True}
pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
FLOW = """
from runs.workflows import Done, limit, schedule, step, workflow

@step("{name}.end")
def end(state, context):
    return Done()

workflow("{name}", title="Refunds", steps=[end], {standing})
"""
LIMITS = 'limits=[limit(at_once=5, per="/customer", name="crm", rate="60/min")]'
SCHEDULES = (
    'schedules=[schedule("0 7 * * 1-5", tz="Europe/Berlin", until="12:00", skip_if_open=True)]'
)


@pytest.fixture
def flow(tmp_path, monkeypatch, settings, templates):
    """`flow("limits=[…]")`: the code as it is deployed now, loaded."""
    for name in ("_STEPS", "_TRAITS", "_LATEST"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two of one second look alike
    settings.WAYSTATION_SCHEDULES_BY = "batch"
    give(person("batch"), "add_schedule")
    settings.WAYSTATION_WORKFLOWS = [str(tmp_path)]

    def deploy(standing: str = "") -> None:
        sys.modules.pop("standing_flow", None)
        path = tmp_path / "standing_flow.py"
        path.write_text(FLOW.format(name="standing_flow", standing=standing))
        importlib.invalidate_caches()
        registry._STEPS.pop("standing_flow.end", None)
        shipped.load()

    return deploy


@pytest.fixture
def editor(ana):
    give(ana, "add_template")
    return User.objects.get(pk=ana.pk)


def the_limit() -> WorkLimit:
    return WorkLimit.objects.get(template="standing_flow")


def test_a_limit_follows_the_code(flow):
    flow(LIMITS)
    found = the_limit()
    assert (found.most, found.pointer, found.name, found.rate) == (5, "/customer", "crm", "60/min")
    assert found.declared["place"] == "standing_flow.py, line 8"
    flow(LIMITS)
    assert the_limit().pk == found.pk
    flow(LIMITS.replace("at_once=5", "at_once=9"))
    assert (the_limit().most, the_limit().pk) == (9, found.pk)
    assert not work_limits.stands_over_code(the_limit())
    flow()
    assert not WorkLimit.objects.exists()


def test_a_persons_change_of_a_limit_stands_until_somebody_goes_back(flow, editor):
    flow(LIMITS)
    work_limits.save(the_limit(), by=editor, most=2)
    flow(LIMITS.replace("at_once=5", "at_once=9"))
    assert (the_limit().most, the_limit().declared["most"]) == (2, 9)
    assert work_limits.stands_over_code(the_limit())
    work_limits.save(the_limit(), by=editor, as_declared=True)
    assert (the_limit().most, work_limits.stands_over_code(the_limit())) == (9, False)
    with pytest.raises(work_limits.LimitInvalid, match="The code declares this limit"):
        work_limits.save(the_limit(), by=editor, pointer="/region")


def test_a_limit_that_somebody_took_away_stays_away(flow, editor):
    flow(LIMITS)
    work_limits.remove(the_limit(), by=editor)
    flow(LIMITS)
    assert the_limit().off
    assert not WorkLimit.objects.acting().exists()
    assert work_limits.stands_over_code(the_limit())
    work_limits.save(the_limit(), by=editor, as_declared=True)
    assert WorkLimit.objects.acting().exists()


def test_a_persons_limit_of_the_same_places_stands_when_the_code_declares_one(flow, editor):
    flow()
    values = {"template": "standing_flow", "pointer": "/customer", "name": "crm", "most": 1}
    work_limits.save(WorkLimit(), by=editor, **values)
    flow(LIMITS)
    assert (the_limit().most, work_limits.stands_over_code(the_limit())) == (1, True)
    flow()
    assert (the_limit().most, the_limit().declared) == (1, None)


def the_schedule() -> Schedule:
    return Schedule.objects.select_related("owner", "team").get(template="standing_flow")


def test_a_schedule_follows_the_code_and_keeps_its_history(flow):
    flow(SCHEDULES)
    found = the_schedule()
    assert (found.cron, found.zone, found.until) == ("0 7 * * 1-5", "Europe/Berlin", "12:00")
    assert (found.overlap, found.owner.get_username(), found.enabled) == ("skip", "batch", True)
    assert found.name == "Refunds: 0 7 * * 1-5"
    flow(SCHEDULES)
    flow(SCHEDULES.replace("0 7", "30 6").replace("=True", "=False"))
    assert (the_schedule().pk, the_schedule().cron, the_schedule().overlap) == (
        found.pk, "30 6 * * 1-5", "allow",
    )  # fmt: skip
    assert the_schedule().next_at.astimezone(ZoneInfo("Europe/Berlin")).hour == 6
    flow()
    gone = the_schedule()
    assert (gone.enabled, gone.declared) == (False, None)
    assert gone.stopped_because == "The code declares it no more."


def test_a_persons_change_of_a_schedule_stands_until_they_go_back(flow):
    flow(SCHEDULES)
    keeping.change(the_schedule(), cron="0 9 * * 1-5")
    flow(SCHEDULES.replace("0 7", "0 8"))
    assert (the_schedule().cron, keeping.stands_over_code(the_schedule())) == ("0 9 * * 1-5", True)
    keeping.change(the_schedule(), as_declared=True)
    assert (the_schedule().cron, keeping.stands_over_code(the_schedule())) == ("0 8 * * 1-5", False)
    keeping.remove(the_schedule())
    flow(SCHEDULES)
    assert not the_schedule().enabled
    keeping.change(the_schedule(), as_declared=True)
    assert the_schedule().enabled


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("", "It says nobody in whose name it orders"),
        ("nobody", 'There is no account "nobody"'),
        ("plain", "plain may not make schedules"),
    ],
)
def test_a_schedule_in_nobodys_name_is_refused_with_its_line_and_the_rest_is_loaded(
    flow, settings, by, words
):
    person("plain")
    settings.WAYSTATION_SCHEDULES_BY = by
    with pytest.raises(
        shipped.TemplatesRefused, match=r"standing_flow\.py, line 8: schedule"
    ) as no:
        flow(f"{LIMITS}, {SCHEDULES}")
    assert words in str(no.value)
    assert not Schedule.objects.exists()
    assert the_limit().most == 5


@step("standing.end")
def end(state, context):
    return Done()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: limit(), "say `at_once`, `rate`, or both"),
        (lambda: limit(at_once=0), "`at_once` is a number from 1 to 10,000"),
        (lambda: limit(at_once=1, per="customer"), "`per` is 'template' or a JSON pointer"),
        (lambda: limit(rate="60 per min"), "is no rate"),
        (lambda: limit(**AT_ONEC), 'There is no keyword "at_onec". Did you mean at_once?'),
        (lambda: schedule("0 7 * *"), "five fields"),
        (lambda: schedule("0 7 * * 9"), "schedule('0 7 * * 9'"),
        (lambda: schedule("0 7 * * *", tz="Berlin"), 'There is no time zone "Berlin"'),
        (lambda: schedule("0 7 * * *", until="noon"), "`until` is a time such as 12:00"),
        (lambda: schedule("0 7 * * *", **SKIP_IF_OPNE), "Did you mean skip_if_open?"),
        (
            lambda: workflow(
                "standing", title="X", steps=[end], limits=[limit(at_once=1), limit(at_once=2)]
            ),
            "give this one a `name` of its own",
        ),
        (lambda: workflow("standing", title="X", steps=[end], limits=[ANY]), "3 is no limit(…)"),
    ],
)
def test_what_cannot_be_declared_is_refused_at_its_line(make, words):
    with pytest.raises(WorkflowInvalid) as refused:
        make()
    assert words in str(refused.value)
    assert refused.value.place.startswith(f"{__file__}, line ")


def test_what_could_not_start_until_its_time_is_left_out_and_says_so(scheduled):
    schedule = scheduled(cron="0 13 * * *", until="15:00")
    sweep_at(NOON + 4 * HOUR)
    assert history(schedule) == [("13:00", "skipped", 1)]
    assert reasons(schedule) == ["it could not start until 15:00"]


def test_what_waits_for_earlier_work_is_left_out_after_its_time(scheduled):
    schedule = scheduled(cron="0 * * * *", until="14:30", overlap="queue")
    sweep_at(NOON + HOUR)
    sweep_at(NOON + 2 * HOUR)
    assert [status for _, status, _ in history(schedule)] == ["started", "due"]
    sweep_at(NOON + 2 * HOUR + 31 * MINUTE)
    assert [status for _, status, _ in history(schedule)] == ["started", "skipped"]
    assert Occurrence.objects.filter(why="it could not start until 14:30").exists()


@pytest.mark.parametrize(
    ("zone", "at", "until", "ends"),
    [
        ("Europe/Berlin", "2026-03-29T00:30+01:00", "02:30", "2026-03-29T03:30:00+02:00"),
        ("Europe/Berlin", "2026-10-25T00:30+02:00", "02:30", "2026-10-25T02:30:00+01:00"),
        ("Europe/Berlin", "2026-06-01T13:00+02:00", "12:00", "2026-06-02T12:00:00+02:00"),
        ("UTC", "2026-06-01T07:00+00:00", "12:00", "2026-06-01T12:00:00+00:00"),
    ],
)
def test_the_time_until_which_it_may_start_is_of_its_zones_clock(zone, at, until, ends):
    found: Any = times.ends(dt.datetime.fromisoformat(at), until, zone)
    assert found.astimezone(ZoneInfo(zone)).isoformat() == ends
