"""The kit on the workflows that we ship: what it promises holds of them, and it is up to real
work.
"""

from __future__ import annotations

from extensions.booking import ledger
from extensions.booking.samples import make_samples
from hitl.testing import Engine, play, replays, survives_every_crash
from tests.worlds.books import invoices
from tests.worlds.books.booking import sent
from tests.worlds.repositories import UNTIDY, git, make_repository


def a_house():
    """An engine whose workers see books."""
    engine = Engine.on_sqlite()
    make_samples(engine.shared / "booking", engine.folder / "inbox")
    return engine


def test_an_invoice_is_booked_once_whoever_dies():
    """P4, S3-49: the ledger takes an entry by its document, so a repetition books nothing."""
    found = survives_every_crash(
        "smart-booking",
        engine=a_house(),
        input=sent(invoices.correct()),
        idempotent=[ledger.append],
    )
    assert found.crashes > 15 and found.effects["append"] == 1


def test_a_bookkeeper_is_asked_and_answers():
    run = play("smart-booking", engine=a_house(), input=sent(invoices.wrong_total()))
    assert run.question is not None and run.question.title == "Bookkeeper: amounts"
    run.cancel("not ours")
    assert run.status == "cancelled"


def test_a_repository_is_tidied_and_its_record_is_replayed(tmp_path):
    """A real work tree, three questions, and the real tools."""
    origin = make_repository(tmp_path / "origin", UNTIDY)
    run = play("repo-tidy", repository=origin, request="")
    titles = []
    while run.question is not None:
        titles.append(run.question.title)
        run.approve()
    assert run.done, run.error
    assert len(titles) == 3 and run.state["git_commit_count"] == 5
    assert git(origin, "branch", "--list", "waystation/*") == ""
    # a document holds no work tree, and the kit says so of each step
    assert "git work tree" in str(refusal(run))


def refusal(run):
    try:
        return replays("repo-tidy", run.exported(), request="", input={})
    except AssertionError as error:
        return error
