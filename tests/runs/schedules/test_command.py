"""`manage.py schedules`: what an operator reads and does in the shell."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from runs.models import Occurrence, Schedule, TemplateAccess, WorkOrder
from tests.runs.schedules.scheduled import HOUR, NOON, may_schedule, sweep_at
from tests.runs.schedules.scheduled import scheduled as scheduled

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def said(*words: str) -> str:
    out = StringIO()
    call_command("schedules", *words, stdout=out)
    return out.getvalue()


def refused(*words: str) -> str:
    with pytest.raises(CommandError) as error:
        said(*words)
    return str(error.value)


def test_the_list_begins_with_what_is_next_and_says_what_became_of_the_latest(scheduled, ben):
    assert said("list") == "No schedules.\n"
    late = scheduled(name="Late", cron="0 9 * * *", zone="Europe/Berlin")
    soon = scheduled(name="Soon", by=may_schedule(ben))
    for hours in (1, 2):
        sweep_at(NOON + hours * HOUR)
    lines = said("list").splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("sch_")] == ["Soon", "Late"]
    assert lines[0].startswith(f"{soon.shown_id}  on       2026-06-01T15:00+00:00")
    assert "2026-06-01T14:00+00:00  skipped: wo_" in lines[1]
    assert "Europe/Berlin  ana  Late" in lines[2]
    assert said("list", "--owner", "ana").split()[0] == late.shown_id
    assert "--limit 5 shows them" in said("list", "--limit", "1")
    document = json.loads(said("list", "--json", "--limit", "1"))
    assert (document["more"], document["schedules"][0]["last"]["status"]) == (True, "skipped")
    assert document["schedules"][0]["owner"] == "ben"


def test_one_is_shown_with_its_next_times_and_what_the_clock_does_to_them(scheduled):
    schedule = scheduled(cron="30 2 * * *", zone="Europe/Berlin")
    text = said("show", schedule.shown_id)
    assert "orders by writing, priority 0" in text
    assert "02:30 comes twice on that day: it starts the first time alone." in text
    assert text.endswith("Latest occurrences:\n    none yet\n")
    document = json.loads(said("show", schedule.shown_id, "--json"))
    assert (document["owner"], document["occurrences"]) == ("ana", [])
    assert len(document["coming"]) == len(document["preview"]["coming"]) == 5


def test_it_is_paused_resumed_and_run_as_its_owner(scheduled):
    schedule = scheduled()
    assert said("pause", schedule.shown_id) == "Switched off.\n"
    assert said("pause", schedule.shown_id) == "It is off already.\n"
    assert "none: it is off" in said("show", schedule.shown_id)
    assert json.loads(said("show", schedule.shown_id, "--json"))["preview"] is None
    assert said("resume", schedule.shown_id) == "Switched on.\n"
    assert said("run", schedule.shown_id).strip() == WorkOrder.objects.get().shown_id
    assert WorkOrder.objects.get().thread.owner == schedule.owner
    assert Occurrence.objects.get().status == "started"


def test_what_cannot_be_done_is_said_and_nothing_is_written(scheduled):
    """Exit code 1, with one sentence."""
    schedule = scheduled()
    TemplateAccess.objects.create(slug="writing", restricted=True)
    assert "may not order by the template writing" in refused("run", schedule.shown_id)
    assert not WorkOrder.objects.exists()
    sweep_at(NOON + HOUR)
    assert "\n    stopped: " in said("list")
    for strange in ("sch_nothing", "wo_1", schedule.shown_id[:-1], "1"):
        assert "There is no schedule" in refused("pause", strange)
    assert "no user 'nobody'" in refused("list", "--owner", "nobody")
    assert "from 1 to 500" in refused("list", "--limit", "0")
    assert Schedule.objects.count() == 1


def test_a_list_of_many_asks_no_more_often_than_one_of_few(scheduled, django_assert_num_queries):
    """P12."""
    for _ in range(7):
        scheduled()
    sweep_at(NOON + HOUR)
    with django_assert_num_queries(2):
        said("list")
