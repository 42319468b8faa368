"""The data migration, played and crashed: see `docs/how-to/test-workflows.md`."""

import json

import data_migration as example
import pytest

from hitl.testing import play, survives_every_crash


@pytest.fixture(autouse=True)
def seven_people(monkeypatch, tmp_path):
    monkeypatch.setattr(example, "FOLDER", tmp_path)
    rows = [json.dumps({"id": number, "name": f" person {number}"}) for number in range(7)]
    (tmp_path / "people.jsonl").write_text("\n".join(rows))
    return tmp_path


def migrated(folder):
    files = sorted((folder / "people.new").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_person_sees_the_first_batch_before_the_others_are_touched(seven_people):
    run = play(example.migration, input={"table": "people", "batch": 3})
    assert len(migrated(seven_people)) == 3
    assert "Person 0" in run.question.content
    run.approve()
    assert run.done
    assert [row["name"] for row in migrated(seven_people)] == [f"Person {n}" for n in range(7)]
    assert (run.state["rows"], run.state["batches"]) == (7, 3)


def test_a_migration_that_is_cancelled_touches_nothing_more(seven_people):
    run = play(example.migration, input={"table": "people", "batch": 3})
    run.cancel("The names look wrong.")
    assert len(migrated(seven_people)) == 3


def test_a_batch_that_failed_is_gone_on_with_once_it_is_mended(seven_people, monkeypatch):
    run = play(example.migration, input={"table": "people", "batch": 3})
    with monkeypatch.context() as broken:
        broken.setattr(example, "convert", lambda row: row["nothing"])
        run.approve()
    assert run.question.title == "Drop the new table people?"
    assert run.question.content.startswith("Batch 2 failed: ")
    run.answer("go_on")
    assert (run.done, len(migrated(seven_people))) == (True, 7)


def test_what_was_migrated_is_dropped_where_somebody_says_so(seven_people, monkeypatch):
    run = play(example.migration, input={"table": "people", "batch": 3})
    monkeypatch.setattr(example, "convert", lambda row: row["nothing"])
    run.approve().approve()
    assert (run.done, migrated(seven_people)) == (True, [])


def test_a_table_that_is_not_there_fails_in_words():
    run = play(example.migration, input={"table": "nobody"})
    assert (run.failed, run.failure_code) == (True, "no_such_table")


def test_each_batch_is_written_once_whoever_dies():
    survives_every_crash(
        example.migration,
        input={"table": "people", "batch": 3},
        answers=["approve"],
        idempotent=[example.target],
    )
