"""`decide`, the one way to answer: what each answer does, who is refused, and what the ledger then
holds.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from checkpoints.models import Checkpoint, Event
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Ledger, Via
from runs.models import Pause, Run
from tests.conftest import drive, fresh, kinds, log_lines, pause_of
from tests.databases.undone import undone
from tests.databases.whole import rows
from tests.worlds import steps
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db


def answer(order, by, action="approve", feedback="", **kwargs):
    return services.decide(
        pause_of(order).pk, Answer(action, Via.PAGE, feedback=feedback, **kwargs), by=by
    )


@pytest.fixture
def unchanged():
    """Nothing in the whole database may change during the test after `unchanged()` was called."""
    before: list[object] = []
    yield lambda: before.append(rows())
    assert [rows()] == before


@pytest.mark.both_databases
def test_an_approval_closes_the_pause_and_sets_the_run_going(paused, ana):
    """S4-24, S4-31, S0-23, C13: the question is closed and the run goes on."""
    pause = pause_of(paused)
    decision = answer(paused, ana)
    pause.refresh_from_db()
    assert (pause.status, decision.action, decision.decided_by, decision.via) == (
        "answered",
        "approve",
        ana,
        "page",
    )
    assert pause.closed_at is not None
    assert (decision.revision, decision.content_digest) == (1, pause.content_digest)
    order = fresh(paused)
    assert (order.status, order.phase, order.current_step) == ("pending", "executing", "execute")


def test_a_team_member_may_answer(paused, ben):
    """C20."""
    assert answer(paused, ben).decided_by == ben


@pytest.mark.both_databases
def test_an_answer_is_one_story_in_the_log(paused, ben):
    """S0-30, S4-57."""
    answer(paused, ben)
    assert kinds(paused)[-4:] == ["approval_received", "checkpoint_created", "run_resumed", "log"]
    received = Event.objects.get(kind="approval_received").data
    assert (received["decision"], received["by"], received["to"], received["via"]) == (
        "approve",
        "Ben",
        "execute",
        "page",
    )
    assert log_lines(paused)[-1] == "Workflow resumed with decision: approve"


def test_a_revision_keeps_the_feedback_and_opens_a_new_pause(paused, ana):
    """S4-29, S4-58: the first revision stays as it was."""
    first = pause_of(paused)
    decision = answer(paused, ana, "revise", "  Add security considerations \n")
    assert decision.feedback == "Add security considerations"
    assert state_of(paused)["revision_feedback"] == "Add security considerations"
    second = pause_of(drive(paused))
    assert (second.revision, second.pk == first.pk) == (2, False)
    assert Pause.objects.get(pk=first.pk).content == first.content != second.content


def test_an_extra_answer_of_the_template_leads_where_it_says(paused, ana):
    """S4-2."""
    answer(paused, ana)
    drive(paused)
    assert answer(paused, ana, "skip_review").action == "skip_review"
    assert fresh(paused).current_step == "finish"


def test_a_revision_needs_feedback(paused, ana, unchanged, subtests):
    unchanged()
    for feedback in ["", "   ", "\n\t "]:
        with subtests.test(ascii(feedback)[:60]):
            with pytest.raises(
                services.AnswerInvalid, match="a revision needs feedback"
            ) as refused:
                answer(paused, ana, "revise", feedback)
            assert (refused.value.code, list(refused.value.errors)) == (
                "feedback_required",
                ["feedback"],
            )


def test_an_unknown_answer_is_refused_and_the_known_ones_are_named(
    paused, ana, unchanged, subtests
):
    """F20: an outcome is never guessed from text."""
    unchanged()
    for action in [
        "",
        "APPROVE",
        "approved",
        "yes",
        "skip_review",
        "execute",
        "approve\x00",
        "x" * 500,
    ]:
        with subtests.test(ascii(action)[:60]):
            with pytest.raises(
                services.AnswerInvalid, match="Answers are: approve, revise, cancel"
            ) as refused:
                answer(paused, ana, action)
            assert refused.value.code == "unknown_answer"


def test_feedback_that_cannot_be_kept_is_refused(paused, ana, unchanged, subtests):
    unchanged()
    for feedback in ["a\x00b", "caf\udce9", "x" * 20_001]:
        with subtests.test(ascii(feedback)[:60]):
            with pytest.raises(services.AnswerInvalid) as refused:
                answer(paused, ana, "revise", feedback)
            assert list(refused.value.errors) == ["feedback"]


def test_revisions_are_bounded_and_the_last_can_still_be_approved(paused, ana):
    for number in (1, 2, 3):
        answer(paused, ana, "revise", f"round {number}")
        drive(paused)
    before = rows()
    with pytest.raises(services.AnswerInvalid, match="sent back 3 times already") as refused:
        answer(paused, ana, "revise", "once more")
    assert refused.value.code == "revisions_exhausted"
    assert rows() == before
    answer(paused, ana)
    assert drive(paused).phase == "awaiting_implementation_review"


def test_an_answer_to_another_revision_writes_nothing(paused, ana, unchanged):
    """F16, C8."""
    answer(paused, ana, "revise", "shorter")
    drive(paused)
    unchanged()
    with pytest.raises(services.RevisionMismatch, match="at revision 2 by now") as refused:
        answer(paused, ana, revision=1)
    assert refused.value.pause == pause_of(paused)


@pytest.mark.both_databases
def test_versions_are_compared_and_never_times(paused, ana):
    """F21: the one that came second is asked, though its clock went back."""
    first = pause_of(paused)
    answer(paused, ana, "revise", "shorter")
    second = pause_of(drive(paused))
    Pause.objects.filter(pk=second.pk).update(opened_at=first.opened_at - dt.timedelta(hours=1))
    Checkpoint.objects.filter(thread=paused.thread_id).update(created_at=first.opened_at)
    Event.objects.filter(thread=paused.thread_id).update(at=first.opened_at)
    with pytest.raises(services.RevisionMismatch, match="at revision 2 by now"):
        answer(paused, ana, revision=1)
    assert services.open_pause(fresh(paused)) == second
    answer(paused, ana, revision=2)
    assert (drive(paused).phase, state_of(paused)["drafts"]) == (
        "awaiting_implementation_review",
        ["first", "shorter"],
    )


@contextmanager
def failing_at(table: str) -> Iterator[None]:
    """The database fails when that table is to be written."""

    def execute(real: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if table in written(sql):
            raise OperationalError(f"no {table} today")
        return real(sql, params, many, context)

    with connection.execute_wrapper(execute):
        yield


def written(sql: str) -> list[str]:
    return re.findall(r'(?:INSERT INTO|UPDATE|DELETE FROM) "?(\w+)', sql)


@pytest.mark.both_databases
def test_an_answer_and_all_that_follows_from_it_are_one_commit(paused, ana):
    """C3: whichever table fails, the answer was not given."""
    with CaptureQueriesContext(connection) as rehearsal:
        answer(paused, ana)
    drive(paused)
    tables = {table for query in rehearsal for table in written(query["sql"])}
    assert tables >= {
        "hitl_decision",
        "hitl_ledger",
        "runs_pause",
        "runs_run",
        "checkpoints_checkpoint",
        "checkpoints_event",
    }
    before = rows()
    for table in sorted(tables):
        with failing_at(table), pytest.raises(OperationalError):
            answer(paused, ana)
        assert rows() == before, table
    assert answer(paused, ana).action == "approve"


@pytest.mark.parametrize(
    ("first", "words"),
    [("approve", "approved"), ("revise", "sent back for revision"), ("cancel", "cancelled")],
)
def test_the_second_answer_is_told_who_won_and_writes_nothing(
    paused, ana, ben, unchanged, first, words
):
    """P1, F0, F8, S4-51."""
    pause = pause_of(paused)
    answer(paused, ana, first, "shorter")
    unchanged()
    for second in ("approve", "revise", "cancel", "nonsense"):
        with pytest.raises(
            services.AlreadyAnswered,
            match=f"Already {words} by Ana Ruiz at .* Your answer was not recorded",
        ) as refused:
            services.decide(pause.pk, Answer(second, Via.PAGE, feedback="longer"), by=ben)
        decision = refused.value.decision
        assert decision is not None
        assert (decision.action, decision.decided_by) == (first, ana)


def test_the_name_of_an_extra_answer_is_said_as_its_button_does(paused, ana, ben):
    answer(paused, ana)
    drive(paused)
    pause = pause_of(paused)
    answer(paused, ana, "skip_review")
    with pytest.raises(
        services.AlreadyAnswered,
        match="Already answered with “Approve and skip review” by Ana Ruiz",
    ):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)


def test_a_stranger_learns_nothing(paused, zoe, unchanged):
    """F4: no difference between a pause of others and one that does not exist."""
    unchanged()
    messages = []
    for pause_id in (pause_of(paused).pk, uuid.uuid4()):
        with pytest.raises(services.NotFound) as refused:
            services.decide(pause_id, Answer("approve", Via.PAGE), by=zoe)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]


def test_somebody_who_left_the_team_may_answer_no_more(paused, ben, team, unchanged):
    ben.groups.remove(team)
    unchanged()
    with pytest.raises(services.NotFound):
        answer(paused, ben)


def test_a_deactivated_person_may_answer_no_more(paused, ana, unchanged):
    ana.is_active = False
    ana.save()
    unchanged()
    with pytest.raises(services.NotFound):
        answer(paused, ana)


@pytest.mark.both_databases
def test_a_cancelled_order_has_failed_and_says_why(paused, ana):
    """S4-30, S4-61, C6, F23."""
    pause = pause_of(paused)
    answer(paused, ana, "cancel")
    order = drive(paused)
    run = order.latest_run
    assert (order.status, run.status, run.error) == (
        "failed",
        "cancelled",
        "Cancelled by user at planning phase",
    )
    assert run.failure_code == "cancelled_by_user"
    assert Pause.objects.get(pk=pause.pk).status == "cancelled"
    assert not Pause.objects.open().exists()
    assert order.thread.head.status == "cancelled"
    assert [step for step, _ in steps.CALLS] == ["planning"]
    assert kinds(order)[-4:] == ["approval_received", "log", "run_cancelled", "checkpoint_created"]


def test_the_error_of_a_cancelled_order_names_the_phase_it_was_in(paused, ana):
    """S4-61."""
    for phase in ("executing", "reviewing"):
        answer(paused, ana)
        drive(paused)
        with undone():
            answer(paused, ana, "cancel")
            assert fresh(paused).latest_run.error == f"Cancelled by user at {phase} phase"


def test_an_order_that_waits_for_a_worker_can_be_cancelled_too(make_order, ana):
    order = make_order()
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    order = drive(order)
    assert (order.status, order.latest_run.error) == (
        "failed",
        "Cancelled by user at planning phase",
    )
    assert steps.CALLS == []


def test_the_reason_of_who_cancels_what_asks_nothing_is_kept_and_shown(make_order, ana, client):
    """Before, REST, batches and the command lost it where no question was open."""
    order = make_order()
    services.cancel_order(order.pk, by=ana, via=Via.REST, reason=" The <deal> is off.\x00 ")
    ended = Event.objects.get(thread=order.thread_id, kind="run_cancelled")
    assert ended.data["by"] == "ana" and ended.data["reason"].startswith("The <deal> is off.")
    client.force_login(ana)
    page = client.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert "Cancelled by user at planning phase: The &lt;deal&gt; is off." in page


def test_an_order_that_ended_cannot_be_cancelled(make_order, ana, unchanged):
    from runs.states import RunEnded

    order = drive(make_order("writing-quick"))
    unchanged()
    with pytest.raises(RunEnded, match="ended already"):
        services.cancel_order(order.pk, by=ana, via=Via.PAGE)


@pytest.mark.both_databases
def test_there_is_one_open_pause_at_most(paused):
    """S4-23, C14, S4-16, S4-51: the database says so."""
    pause = pause_of(paused)
    pause.pk = uuid.uuid4()
    with pytest.raises(IntegrityError), transaction.atomic():
        pause.save(force_insert=True)


@pytest.mark.both_databases
def test_a_pause_has_one_decision_at_most(paused, ana):
    """P1: the database says so."""
    decision = answer(paused, ana)
    decision.pk, decision.position = uuid.uuid4(), 99
    with pytest.raises(IntegrityError), transaction.atomic():
        decision.save(force_insert=True)


def test_an_order_answers_its_open_question_only(paused, ana, unchanged):
    """F3: an answer that names another question is not given to this one."""
    first = pause_of(paused)
    answer(paused, ana)
    drive(paused)
    unchanged()
    with pytest.raises(services.RevisionMismatch):
        services.answer_order(
            paused.pk, Answer("approve", Via.REST), by=ana, pause_id=first.shown_id
        )


def test_an_order_that_asks_nothing_takes_no_answer(make_order, ana, unchanged):
    """S4-32."""
    order = make_order()
    unchanged()
    with pytest.raises(services.NotPaused, match="waits for nobody"):
        services.answer_order(order.pk, Answer("approve", Via.REST), by=ana)


@pytest.fixture
def five_decisions(make_order, ana, ben, zoe):
    """Four of the team on two orders, and one of Zoe on her own."""
    orders = [drive(make_order()), drive(make_order())]
    for order, by, action in [
        (0, ana, "revise"),
        (1, ben, "approve"),
        (0, ben, "approve"),
        (1, ana, "cancel"),
    ]:
        answer(orders[order], by, action, "again é\U0001f9d0")
        drive(orders[order])
    own = drive(make_order(by=zoe, team=None))
    answer(own, zoe)


@pytest.mark.both_databases
def test_the_ledger_is_a_chain_without_a_gap(five_decisions, team, zoe):
    """P11: every digest can be computed again from what is stored."""
    chain = list(Decision.objects.filter(ledger=f"team:{team.pk}").order_by("position"))
    assert [decision.position for decision in chain] == [1, 2, 3, 4]
    assert [decision.previous for decision in chain] == [
        "",
        *(decision.digest for decision in chain[:-1]),
    ]
    assert [decision.compute_digest() for decision in chain] == [
        decision.digest for decision in chain
    ]
    ledger = Ledger.objects.get(name=f"team:{team.pk}")
    assert (ledger.length, ledger.tip) == (4, chain[-1].digest)
    assert Decision.objects.get(ledger=f"user:{zoe.pk}").position == 1


@pytest.mark.both_databases
def test_nothing_that_finished_before_the_pause_runs_again(paused, ana):
    """P5."""
    checkpoints = Checkpoint.objects.count()
    answer(paused, ana)
    drive(paused)
    assert [step for step, _ in steps.CALLS] == ["planning", "execute"]
    assert Checkpoint.objects.count() == checkpoints + 2  # the answer's, and the step's
    assert Run.objects.count() == 1
