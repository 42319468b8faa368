"""The morning report, played and crashed: see `docs/how-to/test-workflows.md`."""

import datetime as dt
from zoneinfo import ZoneInfo

import morning_report as example
import pytest

from hitl.testing import play, survives_every_crash

SEVEN = dt.datetime(2026, 11, 27, 7, tzinfo=ZoneInfo(example.BERLIN))


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(example, "FOLDER", tmp_path)
    (tmp_path / "figures.txt").write_text("12 orders")
    return tmp_path


def sent(folder):
    return [file.read_text() for file in folder.glob("reports/*")]


def test_it_is_sent_as_it_was_released(folder):
    run = play(example.morning_report, at=SEVEN)
    run.revise("The weekend is counted.")
    assert (run.question.title, sent(folder)) == ("Send this report?", [])
    run.approve()
    assert run.done
    assert sent(folder) == ["# This morning\n\n12 orders\n\nThe weekend is counted."]


def test_at_noon_it_is_too_late(folder):
    run = play(example.morning_report, at=SEVEN)
    run.advance(hours=4, minutes=59)
    assert run.question
    run.advance(minutes=2)
    assert (run.status, sent(folder)) == ("expired", ["There is no report today."])


def test_it_waits_for_the_figures(folder):
    (folder / "figures.txt").unlink()
    run = play(example.morning_report, at=SEVEN)
    assert run.status == "pending"
    (folder / "figures.txt").write_text("3 orders")
    run.advance(minutes=30)
    assert "3 orders" in run.question.content


def test_it_begins_at_seven_and_not_after_noon():
    [begins] = example.morning_report.schedules
    assert (begins.cron, begins.zone, begins.until) == ("0 7 * * 1-5", "Europe/Berlin", "12:00")


def test_it_is_sent_once_whoever_dies():
    survives_every_crash(
        example.morning_report, at=SEVEN, answers=["approve"], idempotent=[example.send]
    )
