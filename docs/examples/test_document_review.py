"""The document review, played and crashed: see `docs/how-to/test-workflows.md`."""

import document_review as example

from hitl.testing import play, survives_every_crash

GIVEN = {"title": "Terms", "text": "We may do anything."}


def test_an_editor_changes_the_text_two_lawyers_agree_and_just_that_is_published(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(example, "SHELF", tmp_path)
    run = play(example.document_review, input=GIVEN, people={"lea": ["legal"], "leo": ["legal"]})
    run.approve(edited="We may do some things.")
    assert run.question.facts["Stage"] == "Legal"
    assert run.question.content == "We may do some things."
    run.approve(by="lea")
    assert not run.done
    run.approve(by="leo")
    assert run.done
    assert (tmp_path / run.state["published"]).read_text() == "We may do some things."


def test_what_a_lawyer_sends_back_comes_to_the_author_and_goes_through_all_stages_again(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(example, "SHELF", tmp_path)
    run = play(example.document_review, input=GIVEN, people={"lea": ["legal"], "leo": ["legal"]})
    run.approve(edited="We may do some things.")
    run.revise("Which things?", by="lea")
    assert run.question.title == "“Terms” came back: Which things?"
    run.answer(text="We may send you a letter.")
    assert (run.question.facts["Stage"], run.question.content) == (
        "Editing",
        "We may send you a letter.",
    )
    run.approve()
    assert run.question.content == "We may send you a letter."
    run.approve(by="lea")
    run.approve(by="leo")
    assert (tmp_path / run.state["published"]).read_text() == "We may send you a letter."


def test_a_document_is_published_once_whoever_dies(monkeypatch, tmp_path):
    monkeypatch.setattr(example, "SHELF", tmp_path)
    survives_every_crash(
        example.document_review,
        input=GIVEN,
        people={"lea": ["legal"], "leo": ["legal"]},
        answers=["approve", "approve", "approve"],
        idempotent=["document_review.put_on_shelf"],
    )
