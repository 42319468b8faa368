"""The change of a service, played and crashed: see `docs/how-to/test-workflows.md`."""

import infrastructure_change as example
import pytest

from hitl.testing import play, survives_every_crash

GOOD = {"service": "shop", "version": "2.1"}
BAD = {"service": "shop", "version": "2.1-bad"}


@pytest.fixture(autouse=True)
def shop_runs(monkeypatch, tmp_path):
    """Version 2.0 of it, which is put back before each run."""
    monkeypatch.setattr(example, "FOLDER", tmp_path)

    def put_back():
        (tmp_path / "services").mkdir(exist_ok=True)
        (tmp_path / "services" / "shop").write_text("2.0")

    put_back()
    return put_back


def calendar(folder):
    return [file.read_text() for file in (folder / "changes").iterdir()]


def test_a_change_is_rolled_out_once_two_people_have_approved_it(tmp_path):
    run = play(example.infrastructure_change, input=GOOD)
    assert run.question.title == "Roll out shop 2.1?"
    assert "-2.0\n+2.1" in run.question.patch
    run.approve()
    assert example.running("shop") == "2.0"
    run.approve()
    assert run.done
    assert (example.running("shop"), calendar(tmp_path)) == ("2.1", ["applied"])


def test_where_it_does_not_come_up_people_are_asked_to_roll_it_back(tmp_path):
    run = play(example.infrastructure_change, input=BAD)
    run.approve().approve().advance(minutes=1)
    assert run.question.title == "Roll shop back?"
    assert run.question.content == "After 2 tries: shop 2.1-bad does not answer."
    run.approve()
    assert run.done
    assert (example.running("shop"), calendar(tmp_path)) == ("2.0", ["rolled back"])
    assert run.state["conclusion"] == "shop was rolled back"


def test_a_change_that_is_cancelled_is_withdrawn_from_the_calendar(tmp_path):
    run = play(example.infrastructure_change, input=GOOD)
    run.cancel("Not on a Friday.")
    assert (run.status, calendar(tmp_path)) == ("cancelled", ["withdrawn"])
    assert example.running("shop") == "2.0"


def test_it_is_rolled_out_and_back_whoever_dies(shop_runs):
    survives_every_crash(
        example.infrastructure_change,
        input=BAD,
        answers=["approve"] * 3,
        idempotent=[example.roll_out, example.note],
        fresh=shop_runs,
    )
