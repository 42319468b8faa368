"""A fork forks the code too: the workspace of a run that goes on from an old checkpoint is at that
checkpoint's commit.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from checkpoints.forensics.diff import commit_of
from checkpoints.models import Checkpoint
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs.git.housekeeping import workspace_path
from runs.models import WorkOrder
from runs.services import forks
from tests.conftest import drive, head_of, pause_of
from tests.worlds.repositories import UNTIDY, git, make_repository
from tests.worlds.ruled_order import browser

pytestmark = pytest.mark.django_db


def answer(order: WorkOrder, ana, action: str, feedback: str = "") -> WorkOrder:
    services.decide(pause_of(order).pk, Answer(action, Via.PAGE, feedback=feedback), by=ana)
    return drive(order)


@pytest.fixture
def folder(templates, tmp_path) -> Path:
    return make_repository(tmp_path / "origin", UNTIDY)


@pytest.fixture
def reworked(folder, ana) -> WorkOrder:
    """An order whose execution was sent back after its review, so that its second result has other
    commits; then completed.
    """
    order = drive(runs.submit("repo-tidy", by=ana, repository_url=str(folder)))
    answer(order, ana, "approve")
    answer(order, ana, "approve")
    answer(order, ana, "revise", "skip I001")
    answer(order, ana, "approve")
    return answer(order, ana, "approve")


def path_of(order: WorkOrder) -> Path:
    assert order.latest_run is not None
    return workspace_path(order.latest_run)


def approved(order: WorkOrder) -> list[Checkpoint]:
    """The checkpoints from which a review begins, oldest first."""
    return list(
        Checkpoint.objects.filter(
            thread=order.thread_id, node_id="execute", next_step="review"
        ).order_by("id")
    )


def test_a_fork_finds_the_code_as_its_checkpoint_has_it(reworked, ana):
    """SPEC §9, issue 4, 2: the commit in the checkpoint is restored, from its bundle where the
    workspace is gone.

    S0-80: nothing is lost by a fork; the branch that was left is as good a place to go on from.
    """
    assert reworked.status == "completed"
    first, second = approved(reworked)
    assert commit_of(first) != commit_of(second)
    assert git(path_of(reworked), "rev-parse", "HEAD") == commit_of(second)
    services.fork(first.pk, by=ana, reason="the first result was right")
    order = drive(reworked)
    assert (order.status, order.phase) == ("paused", "awaiting_review_decision")
    assert git(path_of(order), "rev-parse", "HEAD") == commit_of(first)
    assert "I001" in git(path_of(order), "log", "--format=%s", "refs/waystation/base..HEAD")
    done = answer(order, ana, "approve")
    assert (done.status, commit_of(head_of(done))) == ("completed", commit_of(first))
    services.fork(second.pk, by=ana, reason="and forward again")
    order = drive(reworked)
    assert git(path_of(order), "rev-parse", "HEAD") == commit_of(second)
    answer(order, ana, "approve")
    shutil.rmtree(path_of(order))  # another worker's machine
    services.fork(first.pk, by=ana, reason="back again")
    order = drive(reworked)
    assert git(path_of(order), "rev-parse", "HEAD") == commit_of(first)
    assert commit_of(head_of(answer(order, ana, "approve"))) == commit_of(first)


# What a fork would do


def test_a_prospect_tells_what_is_repeated_what_is_kept_and_who_is_asked(folder, ana):
    order = drive(runs.submit("repo-tidy", by=ana, repository_url=str(folder)))
    for _ in range(2):
        order = answer(order, ana, "approve")
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    [at] = approved(order)
    found = forks.prospect(at)
    assert (found.refusal, found.step, found.commit) == ("", "Review", commit_of(at))
    shown = browser(ana).get(f"/checkpoints/{at.shown_id}/resume").text
    assert f"goes back to commit <code>{commit_of(at)[:10]}</code>" in shown
    assert list(found.again) == ["Review"]
    assert (list(found.ahead), list(found.kept), list(found.asks)) == (
        ["Deliver"],
        ["Planning", "Execute"],
        ["Review"],
    )


def test_a_prospect_of_a_failed_run_tells_what_comes_for_the_first_time(make_order):
    order = drive(make_order("writing-fail"))
    found = forks.prospect(head_of(order))
    assert (found.step, list(found.again), list(found.kept)) == ("Fail", ["Fail"], ["Plan"])


def test_a_prospect_says_why_where_nothing_can_begin(paused, make_order):
    assert "still alive (paused)" in forks.prospect(head_of(paused)).refusal
    ended = drive(make_order("writing-quick"))
    assert "Nothing follows" in forks.prospect(head_of(ended)).refusal
    foreign = Checkpoint.objects.get(pk=head_of(ended).pk)
    foreign.run_id = foreign.pk
    assert "No run of Waystation's own" in forks.prospect(foreign).refusal


@pytest.mark.parametrize("reason", ["x" * 2_001, "a\x00b", "a\ud800"])
def test_a_reason_that_cannot_be_kept_is_refused(make_order, ana, reason):
    order = drive(make_order("writing-quick"))
    at = Checkpoint.objects.filter(thread=order.thread_id, node_id="planning").earliest("id")
    with pytest.raises(forks.ReasonMissing):
        runs.fork(at.pk, by=ana, reason=reason)
