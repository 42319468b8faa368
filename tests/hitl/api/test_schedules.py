"""Schedules over REST: made, read, changed, started and removed by their owner."""

from __future__ import annotations

from typing import Any

import pytest

from runs import limits
from runs.models import Occurrence, Schedule, WorkOrder
from runs.schedules import keeping
from tests.runs.schedules.scheduled import HOUR, NOON, may_schedule, sweep_at
from tests.runs.schedules.scheduled import scheduled as scheduled
from tests.worlds.steps import on_code

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
BODY = {"name": "Daily", "template": "writing", "cron": "30 2 * * *", "zone": "Europe/Berlin"}
URL = "/api/v1/schedules"


@pytest.fixture
def rest(api, ana, templates):
    return api(may_schedule(ana))


def test_made_read_changed_and_removed(rest, team):
    made = rest.post(URL, {**BODY, "team": "platform", "user_request": "x"}, format="json")
    assert made.status_code == 201, made.json()
    told = made.json()
    assert (told["overlap"], told["catch_up"], told["enabled"]) == ("skip", "latest", True)
    assert (told["team"], told["user_request"], len(told["coming"])) == ("platform", "x", 5)
    assert all("T02:30+0" in at or "T03:00+02:00" in at for at in told["coming"])
    one = f"{URL}/{told['id']}"
    changed = rest.patch(one, {"cron": "0  12 * * *", "enabled": False}, format="json").json()
    assert (changed["cron"], changed["enabled"], changed["coming"]) == ("0 12 * * *", False, [])
    assert changed["user_request"] == "x"
    assert rest.get(URL).json()["results"] == [rest.get(one).json()]
    assert rest.delete(one).status_code == 204
    assert rest.get(one).status_code == 404


def test_its_history_names_orders_and_reasons(rest, scheduled):
    schedule = scheduled()
    for hours in (1, 2):
        sweep_at(NOON + hours * HOUR)
    order = WorkOrder.objects.get()
    rows = rest.get(f"{URL}/{schedule.shown_id}/occurrences").json()["results"]
    assert [row["status"] for row in rows] == ["skipped", "started"]
    assert (rows[0]["work_order_id"], order.shown_id in rows[0]["why"]) == (None, True)
    assert (rows[1]["work_order_id"], rows[1]["local"]) == (
        order.shown_id,
        "2026-06-01T13:00+00:00",
    )


def test_started_by_hand_with_a_key_it_makes_one_order(rest, scheduled):
    """S3-43, F7: the key, the order and the occurrence's row are one transaction."""
    schedule = scheduled()
    url = f"{URL}/{schedule.shown_id}/start"
    answers = [rest.post(url, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert Occurrence.objects.get().order == WorkOrder.objects.get()
    assert rest.post(url, headers={"Idempotency-Key": "twice"}).status_code == 201
    assert WorkOrder.objects.count() == 2
    made = [rest.post(URL, BODY, format="json", headers={"Idempotency-Key": "k"}) for _ in "ab"]
    assert made[0].json() == made[1].json()
    assert Schedule.objects.count() == 2


def test_nobody_else_sees_or_starts_it_and_making_one_takes_a_right(api, ben, zoe, scheduled):
    schedule = scheduled()
    for other in (ben, zoe):
        rest = api(other)
        one = f"{URL}/{schedule.shown_id}"
        assert rest.get(URL).json()["results"] == []
        for answer in (rest.get(one), rest.delete(one), rest.post(f"{one}/start")):
            assert answer.status_code == 404
        refused = rest.post(URL, BODY, format="json")
        assert (refused.status_code, refused.json()["code"]) == (403, "may_not_schedule")
    assert (Schedule.objects.count(), WorkOrder.objects.count()) == (1, 0)


def test_what_cannot_be_kept_is_refused_by_the_name_of_its_field(rest, subtests):
    cases: list[tuple[Any, ...]] = [
        ({"cron": "every day"}, 422, "cron"),
        ({"cron": "0 0 31 2 *"}, 422, "cron"),
        ({"zone": "Mars/Phobos"}, 422, "zone"),
        ({"template": "no-such"}, 404, None),
        ({"input": {"password": "hunter2"}}, 422, "input"),
        ({"catch_up_most": 101}, 400, "catch_up_most"),
        ({"overlap": "maybe"}, 400, "overlap"),
        ({"name": ""}, 400, "name"),
        ({"team": "strangers"}, 422, "team"),
        ({"template": on_code()}, 422, "repository_url"),
    ]
    for wrong, status, field in cases:
        with subtests.test(ascii(wrong)[:60]):
            answer = rest.post(URL, {**BODY, **wrong}, format="json")
            assert answer.status_code == status, answer.json()
            assert field is None or field in answer.json()["errors"]
            assert not Schedule.objects.exists()


def test_a_person_has_so_many_and_each_holds_so_much(rest, settings):
    """P12: SCHEDULES, START_BYTES."""
    large = {**BODY, "input": {"text": "x" * limits.START_BYTES}}
    assert "bytes" in rest.post(URL, large, format="json").json()["errors"]["input"][0]
    settings.WAYSTATION_SCHEDULES = 1
    assert rest.post(URL, BODY, format="json").status_code == 201
    assert "no more" in rest.post(URL, BODY, format="json").json()["errors"]["name"][0]
    assert Schedule.objects.count() == 1


def test_a_start_that_is_refused_now_says_why(rest, scheduled, ana, team):
    schedule = scheduled(team=team)
    ana.groups.clear()
    refused = rest.post(f"{URL}/{schedule.shown_id}/start")
    assert (refused.status_code, refused.json()["code"]) == (409, "schedule_cannot_start")
    assert "not in the team platform" in refused.json()["detail"]
    assert not WorkOrder.objects.exists()


def test_a_preview_names_what_the_clock_does_and_makes_nothing(api, zoe):
    """F21: whoever may make no schedule may look too."""
    url = f"{URL}/preview"
    answer = api(zoe).post(url, {"cron": "30  2 * * *", "zone": "Europe/Berlin"}, format="json")
    assert answer.status_code == 200, answer.json()
    told = answer.json()
    assert len(told["coming"]) == 10
    assert {row["local"][11:16] for row in told["coming"]} <= {"02:30", "03:00"}
    # those of a year: on the day of one, that of the next year too
    assert [change["touches"] for change in told["clock_changes"]] in ([True] * 2, [True] * 3)
    assert any("does not exist" in change["words"] for change in told["clock_changes"])
    refused = api(zoe).post(url, {"cron": "0 0 31 2 *"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "schedule_invalid")
    assert not Schedule.objects.exists()


def declare(schedule: Schedule) -> None:
    told = {"key": "0", "place": "flows.py, line 8", "values": keeping.values_of(schedule)}
    Schedule.objects.filter(pk=schedule.pk).update(declared=told)


def test_a_change_of_one_that_the_code_declares_stands_until_its_owner_goes_back(rest, scheduled):
    schedule = scheduled(until="12:00")
    declare(schedule)
    one = f"{URL}/{schedule.shown_id}"
    told = rest.get(one).json()
    assert (told["until"], told["changed"], told["declared"]["place"]) == (
        "12:00", False, "flows.py, line 8",
    )  # fmt: skip
    changed = rest.patch(one, {"until": "", "cron": "0 5 * * *"}, format="json").json()
    assert (changed["until"], changed["changed"]) == ("", True)
    assert rest.patch(one, {"until": "noon"}, format="json").status_code == 422
    assert rest.delete(one).status_code == 204
    assert (rest.get(one).json()["enabled"], rest.get(one).json()["changed"]) == (False, True)
    back = rest.patch(one, {"as_declared": True}, format="json").json()
    assert (back["cron"], back["until"], back["enabled"], back["changed"]) == (
        "0 * * * *", "12:00", True, False,
    )  # fmt: skip


def test_the_page_of_one_that_the_code_declares_says_so_and_has_the_way_back(page, scheduled):
    schedule = scheduled()
    declare(schedule)
    one = f"/schedules/{schedule.shown_id}/"
    assert "The code declares it in flows.py, line 8." in page.get(one).content.decode()
    page.post(f"{one}do", {"do": "remove"})
    shown = page.get(one).content.decode()
    assert "Somebody changed it since, and that stands." in shown
    page.post(f"{one}do", {"do": "declared"})
    schedule.refresh_from_db()
    assert schedule.enabled


def test_nobody_goes_back_to_what_the_code_never_declared(rest, scheduled):
    refused = rest.patch(f"{URL}/{scheduled().shown_id}", {"as_declared": True}, format="json")
    assert (refused.status_code, [*refused.json()["errors"]]) == (422, ["as_declared"])
