"""The pipeline of content, played and crashed: see `docs/how-to/test-workflows.md`."""

import content_pipeline as example
import pytest

from hitl.testing import play, survives_every_crash

WORDY = "A teapot " + "of much use " * 20


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(example, "FOLDER", tmp_path)
    return tmp_path


def published(folder):
    return {file.stem: file.read_text() for file in folder.glob("*/*.md")}


def test_what_is_long_is_edited_by_a_person_and_what_fails_holds_nobody_up(folder):
    run = play(example.content_pipeline, input={"names": ["Cup", WORDY, " ", "Jug"]})
    assert [question.child for question in run.questions] == ["001"]
    run.approve(edited="A teapot of much use.")
    assert run.question.title == "Publish 3 descriptions?"
    assert "- 002: A product without a name has no description." in run.question.content
    assert published(folder) == {}
    run.approve()
    assert run.done
    assert published(folder) == {
        "000": "Cup: you will like it.",
        "001": "A teapot of much use.",
        "003": "Jug: you will like it.",
    }


def test_many_products_are_one_question(folder):
    run = play(example.content_pipeline, input={"names": [f"Cup {n}" for n in range(12)]})
    assert [question.title for question in run.questions] == ["Publish 12 descriptions?"]
    run.approve()
    assert (run.done, len(published(folder))) == (True, 12)


def test_the_same_is_published_whoever_dies():
    survives_every_crash(
        example.content_pipeline,
        input={"names": ["Cup"]},
        answers=["approve"],
        idempotent=[example.publish_one],
    )
