"""The pages of schedules, without JavaScript."""

from __future__ import annotations

import pytest
from django.test import Client

from runs import definitions
from runs.models import Schedule, TemplateAccess, WorkOrder
from tests.runs.schedules.scheduled import HOUR, NOON, may_schedule, sweep_at
from tests.runs.schedules.scheduled import scheduled as scheduled

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]
FORM = {
    "template": "writing",
    "name": "Daily <b>",
    "cron": "0 9 * * *",
    "zone": "Europe/Berlin",
    "overlap": "queue",
    "catch_up": "all",
    "catch_up_most": "3",
    "request": "the numbers",
}
SHAPE = {
    "type": "object",
    "properties": {
        "days": {"type": "integer", "maximum": 9},
        "letter": {"type": "string", "maxLength": 500},
        "words": {"type": "array", "items": {"type": "string"}},
        "range": {
            "type": "object",
            "properties": {"since": {"type": "string", "format": "date"}},
        },
    },
}


@pytest.fixture
def shaped(templates):
    """A template whose orders take a number, words, and an object with a date."""
    return definitions.edit_template("writing", input_schema=SHAPE).slug


def test_made_on_the_page_started_by_hand_switched_off_and_removed(page, ana, templates):
    may_schedule(ana)
    assert "Choose a template" in page.get("/schedules/new").content.decode()
    form = page.get("/schedules/new?template=writing").content.decode()
    assert 'name="cron"' in form
    made = page.post("/schedules/new", FORM, follow=True)
    schedule = Schedule.objects.get()
    assert (schedule.overlap, schedule.catch_up, schedule.catch_up_most) == ("queue", "all", 3)
    assert (schedule.request, schedule.name) == ("the numbers", "Daily <b>")
    text = made.content.decode()
    assert "Daily &lt;b&gt;" in text
    assert "Next times" in text
    do = f"/schedules/{schedule.shown_id}/do"
    started = page.post(do, {"do": "start"})
    assert started["Location"] == f"/work-orders/{WorkOrder.objects.get().shown_id}/"
    assert "started by hand" in page.get(f"/schedules/{schedule.shown_id}/").content.decode()
    page.post(do, {"do": "off"})
    assert "It is switched off" in page.get(f"/schedules/{schedule.shown_id}/").content.decode()
    page.post(do, {"do": "remove"})
    assert "No schedules" in page.get("/schedules/").content.decode()
    assert WorkOrder.objects.count() == 1


def test_the_page_changes_its_times_and_says_what_is_wrong_with_them(page, scheduled):
    schedule = scheduled()
    url = f"/schedules/{schedule.shown_id}/"
    wrong = page.post(url, {**FORM, "cron": "at nine"})
    assert wrong.status_code == 422
    assert "Five fields" in wrong.content.decode()
    assert page.post(url, FORM).status_code == 302
    schedule.refresh_from_db()
    assert (schedule.cron, schedule.template) == ("0 9 * * *", "writing")


def test_a_schedule_that_was_stopped_says_why_and_goes_on_once_that_is_mended(page, scheduled):
    schedule = scheduled()
    access = TemplateAccess.objects.create(slug="writing", restricted=True)
    sweep_at(NOON + HOUR)
    url = f"/schedules/{schedule.shown_id}/"
    text = page.get(url).content.decode()
    assert "It was stopped, and starts nothing" in text
    assert "may not order by the template writing" in text
    assert "Stopped" in page.get("/schedules/").content.decode()
    access.delete()
    page.post(f"{url}do", {"do": "on"})
    schedule.refresh_from_db()
    assert (schedule.enabled, schedule.stopped_because) == (True, "")
    assert schedule.next_at is not None


def test_who_has_no_right_reads_that_and_a_stranger_finds_nothing(page, zoe, scheduled, templates):
    schedule = scheduled()
    other = Client()
    other.force_login(zoe)
    assert other.get("/schedules/new").status_code == 403
    assert "An operator can give you the right" in other.get("/schedules/").content.decode()
    assert other.get(f"/schedules/{schedule.shown_id}/").status_code == 404
    assert other.post(f"/schedules/{schedule.shown_id}/do", {"do": "start"}).status_code == 404
    assert not WorkOrder.objects.exists()


def test_times_are_shown_before_anything_is_kept(page, scheduled, ana):
    """F21."""
    schedule = scheduled()
    typed = {**FORM, "cron": "30 2 * * *", "show": "times"}
    for url in (f"/schedules/{schedule.shown_id}/", "/schedules/new"):
        shown = page.post(url, {**typed, "name": ""})
        assert shown.status_code == 200
        text = shown.content.decode()
        assert "These would be its next times" in text
        assert "02:30 comes twice on that day: it starts the first time alone." in text
        assert "02:30 does not exist on that day: it starts once at 03:00." in text
        assert 'value="30 2 * * *"' in text
        assert "This field is required" not in text
        wrong = page.post(url, {**typed, "zone": "Mars/Phobos"})
        assert (wrong.status_code, "no time zone" in wrong.content.decode()) == (422, True)
    after = Schedule.objects.get()
    assert (after.cron, after.version) == (schedule.cron, schedule.version)


def test_the_page_changes_what_is_ordered_and_keeps_what_it_does_not_show(page, scheduled, shaped):
    given = {"days": 2, "words": ["a b", "c"], "range": {"since": "2026-01-01"}, "extra": [1]}
    schedule = scheduled(template=shaped, input=given, title="Old")
    url = f"/schedules/{schedule.shown_id}/"
    text = page.get(url).content.decode()
    assert 'value="2026-01-01"' in text
    assert "\na b\nc</textarea>" in text
    assert '<textarea dir="auto" id="id_input_letter"' in text
    form = {
        **FORM,
        "title": "New",
        "priority": "-2",
        "input.days": "3",
        "input.letter": "Dear Ms Ruiz,\r\nhello",
        "input.words": "a b\r\nc",
        "input.range.since": "2026-02-01",
    }
    changed = page.post(url, form)
    assert changed.status_code == 302, changed.content.decode()
    schedule.refresh_from_db()
    assert (schedule.title, schedule.priority, schedule.overlap) == ("New", -2, "queue")
    assert schedule.input == {
        **given,
        "days": 3,
        "letter": "Dear Ms Ruiz,\nhello",
        "range": {"since": "2026-02-01"},
    }
    wrong = page.post(url, {**form, "input.days": "99"})
    assert wrong.status_code == 422
    assert "Nothing was changed" in wrong.content.decode()


def test_without_its_template_its_times_alone_are_changed(page, scheduled):
    schedule = scheduled(title="Kept")
    TemplateAccess.objects.create(slug="writing", restricted=True)
    url = f"/schedules/{schedule.shown_id}/"
    assert "its times alone can be changed here" in page.get(url).content.decode()
    assert page.post(url, FORM).status_code == 302
    schedule.refresh_from_db()
    assert (schedule.cron, schedule.title) == ("0 9 * * *", "Kept")
