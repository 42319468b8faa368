"""Nobody answers: who is reminded, who is asked besides, and what the rules do at the deadline, on
a clock of the test's own.
"""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.models import Event
from hitl.decisions import closing, notifications, services
from hitl.decisions.deadlines import changes, outcomes, together
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from project.celery import app
from runs import definitions
from runs import services as runs
from runs.definitions import due_times
from runs.engine import ending
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.services import PauseClosed
from runs.tasks import order_rounds
from runs.threads import turns
from runs.workflows.base import Ask, Child, Gather, Report
from tests.conftest import drive, fresh, kinds, log_lines, pause_of
from tests.databases.undone import undone
from tests.databases.whole import rows
from tests.doors.html import fold
from tests.worlds.deadlines import HOUR, at, updates
from tests.worlds.deadlines import asked as asked
from tests.worlds.deadlines import fire as fire_one
from tests.worlds.histories import whole_story
from tests.worlds.scripted_step import DOES, state_of
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db

FOUR = {"after": "PT4H"}
SECOND = dt.timedelta(seconds=1)


def fire(now):
    return outcomes.fire_due(now=now)


@pytest.mark.both_databases
def test_a_question_opens_with_its_times(asked):
    """S3-9, F13: the times are columns, and the checkpoint says when it is due."""
    order = asked(
        deadline=FOUR, reminders=["PT3H", "PT1H"], escalation=[{"after": "PT2H", "users": ["zoe"]}]
    )
    pause = pause_of(order)
    assert (pause.deadline_at, pause.next_at, pause.extendable_until) == (
        at(pause, 4),
        at(pause, 1),
        at(pause, 8),
    )
    assert due_times.reminders(pause) == [at(pause, 1), at(pause, 3)]
    assert due_times.stages(pause) == [at(pause, 2)]
    assert order.thread.head.metadata["next_deadline"] == pause.deadline_at.isoformat()
    assert (
        Event.objects.get(kind="approval_requested").data["deadline_at"]
        == pause.deadline_at.isoformat()
    )


def test_a_question_without_rules_waits_for_ever(paused):
    pause = pause_of(paused)
    assert (pause.deadline_at, pause.next_at) == (None, None)
    assert "next_deadline" not in paused.thread.head.metadata
    before = rows()
    assert fire(timezone.now() + dt.timedelta(days=4000)) == 0
    assert rows() == before


def test_a_revision_has_a_deadline_of_its_own(asked, ana):
    first = pause_of(order := asked(deadline=FOUR))
    services.decide(first.pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    second = pause_of(drive(order))
    assert (second.revision, second.deadline_at) == (2, at(second, 4))
    assert second.opened_at > first.opened_at
    fire(at(first, 4))
    assert fresh(order).status == "paused"


def test_a_deadline_counts_in_its_zone_and_hours_of_work(asked, settings):
    settings.WAYSTATION_CALENDARS = {"sundays": {"days": ["sun"], "hours": ["10:00", "12:00"]}}
    pause = pause_of(
        asked(deadline={"after": "PT2H", "calendar": "sundays", "zone": "Pacific/Kiritimati"})
    )
    there = pause.deadline_at.astimezone(dt.timezone(dt.timedelta(hours=14)))
    assert (there.weekday(), 10 <= there.hour <= 12) == (6, True)


def test_a_question_keeps_the_zone_it_was_asked_in_wherever_its_server_moves(asked, settings):
    """F21: an instant in UTC and the zone.

    Where the rules name none, the server's was not kept: an escalation over a change of the clock
    counted its day in the zone that the server had by then, and was due at another hour.
    """
    settings.TIME_ZONE = "Europe/Berlin"
    deadline, stages = {"after": "P1D", "outcome": "escalate"}, [{"after": "P1D", "users": ["zoe"]}]
    pause = pause_of(asked(deadline=deadline, escalation=stages))
    named = pause_of(asked(deadline={**deadline, "zone": "Asia/Tokyo"}, escalation=stages))
    assert (pause.times["zone"], named.times["zone"]) == ("Europe/Berlin", "Asia/Tokyo")
    assert pause.deadline_at.utcoffset() == dt.timedelta(0)
    settings.TIME_ZONE = "America/New_York"
    # Berlin's clock goes back in the night, New York's a week later
    eve = dt.datetime(2026, 10, 24, 12, tzinfo=dt.UTC)
    assert due_times.longer(pause, eve) == dt.datetime(2026, 10, 25, 13, tzinfo=dt.UTC)
    assert due_times.longer(named, eve) == dt.datetime(2026, 10, 25, 12, tzinfo=dt.UTC)
    pause.times.pop("zone")  # as of a release that kept none
    assert due_times.longer(pause, eve) == dt.datetime(2026, 10, 25, 12, tzinfo=dt.UTC)


def test_a_calendar_that_is_gone_makes_no_early_deadline(asked, settings):
    """It opens without a deadline, says why, and `invariants` names it."""
    order = asked(deadline={"after": "PT2H", "calendar": "business"})
    settings.WAYSTATION_CALENDARS = {}
    services.decide(
        pause_of(order).pk, Answer("revise", Via.PAGE, feedback="again"), by=order.created_by
    )
    pause = pause_of(drive(order))
    assert (pause.deadline_at, pause.next_at) == (None, None)
    assert 'no calendar "business"' in pause.times["problem"]
    assert broken() == {"deadline_missing"}


def broken(now=None):
    notifications.announce()
    return whole_story.broken(now=now).keys()


@pytest.mark.both_databases
def test_reminders_come_in_time_and_once(asked, ana, ben):
    """P8: not a second early, once however often the sweep looks, and nothing else changes."""
    order = asked(deadline={"after": "P2D"}, reminders=["PT2H", "P1D"])
    pause = pause_of(order)
    assert fire(at(pause, 2) - SECOND) == 0
    for _ in range(3):
        fire(at(pause, 2))
    assert [(one["what"], one["to"], one["pause_id"]) for one in updates(order)] == [
        ("reminded", ["ana", "ben"], pause.shown_id)
    ]
    fire(at(pause, 24))
    assert [one["what"] for one in updates(order)] == ["reminded", "reminded"]
    assert pause_of(order).next_at == pause.deadline_at


def test_reminders_that_were_missed_come_as_one(asked):
    order = asked(deadline={"after": "P2D"}, reminders=["PT1H", "PT2H", "PT3H"])
    fire(at(pause_of(order), 20))
    fire(at(pause_of(order), 21))
    assert [(one["what"], one["instead_of"]) for one in updates(order)] == [("reminded", 3)]


@pytest.mark.both_databases
def test_after_an_outage_past_the_deadline_only_the_deadline_acts(asked):
    """F30: nobody is reminded of what is over."""
    order = asked(
        deadline=FOUR, reminders=["PT1H"], escalation=[{"after": "PT2H", "users": ["zoe"]}]
    )
    fire(at(pause_of(order), 1000))
    assert updates(order) == []
    assert fresh(order).latest_run.status == "expired"


@pytest.mark.both_databases
def test_a_stage_of_the_escalation_asks_further_people(asked, ana, ben, zoe):
    """S3-47, C21."""
    boss = User.objects.create_user("boss")
    stages = [{"after": "PT1H", "users": ["zoe"]}, {"after": "PT3H", "users": ["boss", "zoe"]}]
    order = asked(deadline=FOUR, reviewers={"users": ["ben"]}, escalation=stages)
    fire(at(pause_of(order), 1))
    assert pause_of(order).stage == 1
    assert [(one["what"], one["stage"], one["to"]) for one in updates(order)] == [
        ("escalated", 1, ["zoe"])
    ]
    fire(at(pause_of(order), 3))
    assert [(one["stage"], one["to"]) for one in updates(order)][1:] == [(2, [boss.username])]
    # they get no longer than the others
    assert pause_of(order).deadline_at == at(pause_of(order), 4)
    fire(at(pause_of(order), 4))
    assert fresh(order).latest_run.status == "expired"


def test_stages_that_were_missed_are_reached_at_once(asked, zoe):
    stages = [{"after": f"PT{hours}H", "users": ["zoe"]} for hours in (1, 2, 3)]
    order = asked(deadline=FOUR, escalation=stages)
    fire(at(pause_of(order), 3.5))
    assert [one["stage"] for one in updates(order)] == [3]


def test_rules_without_a_deadline_remind_and_escalate_all_the_same(asked, zoe):
    order = asked(reminders=["PT1H"], escalation=[{"after": "PT2H", "users": ["zoe"]}])
    fire(at(pause_of(order), 5))
    assert [one["what"] for one in updates(order)] == ["reminded", "escalated"]
    assert (pause_of(order).next_at, fire(at(pause_of(order), 10_000))) == (None, 0)


@pytest.mark.both_databases
def test_what_nobody_answers_expires(asked, ana):
    """P8, F29, S3-42, SPEC: expired is not rejected, and no decision says so."""
    order = asked(deadline=FOUR)
    pause = pause_of(order)
    fire(at(pause, 4) - SECOND)
    assert fresh(order).status == "paused"
    fire(at(pause, 4))
    fire(at(pause, 4))
    pause.refresh_from_db()
    order = fresh(order)
    run = order.latest_run
    assert (pause.status, run.status, run.failure_code, order.status) == (
        "expired",
        "expired",
        "expired",
        "failed",
    )
    assert (pause.closed_at, run.ended_at) == (at(pause, 4), at(pause, 4))
    assert run.error == "Expired at Plan Approval: nobody answered in time"
    assert kinds(order)[-3:] == ["log", "run_expired", "checkpoint_created"]
    assert (order.thread.head.status, order.thread.head.metadata["failure_code"]) == (
        "failed",
        "expired",
    )
    assert not Decision.objects.exists()
    assert broken(at(pause, 5)) == set()


def test_silence_cancels_where_the_template_says_so(asked):
    """The ledger has it, as nobody's."""
    order = asked(deadline={**FOUR, "outcome": "cancel"})
    pause = pause_of(order)
    fire(at(pause, 4))
    run, decision = fresh(order).latest_run, Decision.objects.get()
    assert (run.status, run.failure_code) == ("cancelled", "cancelled_by_policy")
    assert run.error == "Cancelled by policy at planning phase"
    assert (decision.action, decision.via, decision.decided_by, decision.decided_at) == (
        "cancel",
        "policy",
        None,
        at(pause, 4),
    )
    assert Pause.objects.get().status == "cancelled"
    assert broken(at(pause, 5)) == set()


@pytest.mark.both_databases
def test_silence_approves_only_where_the_template_says_so(asked):
    """C21: nobody decided, and the trail says it."""
    order = asked(deadline={**FOUR, "outcome": "approve"})
    pause = pause_of(order)
    fire(at(pause, 4))
    decision = Decision.objects.get()
    assert (decision.action, decision.via, decision.decided_by, str(decision)) == (
        "approve", "policy", None, "approve: the template's rules"
    )  # fmt: skip
    assert "no vote" in decision.feedback
    assert decision.intact
    received = Event.objects.get(kind="approval_received").data
    assert (received["by"], received["via"]) == ("the template's rules", "policy")
    assert state_of(order)["revision_feedback"] == ""
    assert drive(order).status == "completed"
    assert broken(at(pause, 5)) == set()


def test_silence_brings_no_data(order_that):
    """A step that asks for data under such a rule gets none from silence: the question expires."""
    asks = Ask(
        question="Which?",
        report=Report(content="?"),
        answers={"approve": "finish"},
        required_inputs={"type": "object", "properties": {"iban": {"type": "string"}}},
    )
    order = drive(
        order_that(lambda state, context: asks, review={"deadline": {**FOUR, "outcome": "approve"}})
    )
    assert due_times.outcome_of(pause_of(order)) == "expire"
    fire(at(pause_of(order), 4))
    assert fresh(order).latest_run.status == "expired"


def test_silence_gives_no_answer_that_there_is_not(order_that):
    asks = Ask(
        question="Which?", report=Report(content="?"), answers={"left": "finish", "right": "finish"}
    )
    order = drive(
        order_that(lambda state, context: asks, review={"deadline": {**FOUR, "outcome": "approve"}})
    )
    fire(at(pause_of(order), 4))
    assert fresh(order).latest_run.status == "expired"


def test_an_escalating_deadline_goes_through_the_stages_and_then_expires(asked, zoe):
    """S3-47: each stage gets as long as the first people had, from when it is told."""
    User.objects.create_user("boss")
    stages = [{"after": "PT6H", "users": ["zoe"]}, {"after": "PT9H", "users": ["boss"]}]
    order = asked(
        deadline={**FOUR, "outcome": "escalate"}, reviewers={"users": ["ben"]}, escalation=stages
    )
    opened = pause_of(order).opened_at
    assert due_times.outcome_of(pause_of(order)) == "escalate"
    fire(opened + 5 * HOUR)  # an hour late
    pause = pause_of(order)
    assert (pause.stage, pause.deadline_at, pause.extendable_until) == (
        1,
        opened + 9 * HOUR,
        opened + 13 * HOUR,
    )
    assert [(one["what"], one["to"], one["deadline_at"]) for one in updates(order)] == [
        ("escalated", ["zoe"], (opened + 9 * HOUR).isoformat())
    ]
    fire(opened + 9 * HOUR)
    pause = pause_of(order)
    assert (pause.stage, pause.deadline_at, due_times.outcome_of(pause)) == (
        2,
        opened + 13 * HOUR,
        "expire",
    )
    fire(opened + 13 * HOUR - SECOND)
    assert fresh(order).status == "paused"
    fire(opened + 13 * HOUR)
    assert fresh(order).latest_run.status == "expired"
    assert [one["what"] for one in updates(order)] == ["escalated", "escalated"]


@pytest.mark.both_databases
def test_a_sweep_that_read_too_early_ends_nothing(asked, ana):
    """P8: it looked, then somebody gave more time, or further people were asked."""
    pause = pause_of(order := asked(deadline=FOUR))
    seen = Pause.objects.answerable().get(pk=pause.pk)
    for moved in (
        lambda: changes.extend(pause.pk, by=ana, until=at(pause, 5), reason="x"),
        lambda: Pause.objects.update(stage=1),
    ):
        with undone():
            moved()
            for act in (
                lambda: runs.expire(seen, now=at(pause, 4)),
                lambda: closing.decide_by_policy(
                    seen, action="approve", feedback="", at=at(pause, 4)
                ),
            ):
                with pytest.raises(PauseClosed):
                    act()
            assert (fresh(order).status, Decision.objects.exists()) == ("paused", False)


def test_who_answers_too_late_is_told_that_it_expired(asked, ana, api, page):
    """F8, F9: at every door the calm truth, and no button."""
    order = asked(deadline=FOUR)
    pause = pause_of(order)
    fire(at(pause, 4))
    with pytest.raises(
        services.AlreadyAnswered, match=r"It expired at .*: nobody had answered in time"
    ):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    late = api(ana).post(
        f"/api/v1/pauses/{pause.shown_id}/decisions", {"decision": "approve"}, format="json"
    )
    assert (late.status_code, late.json()["code"], late.json()["state"]) == (
        409,
        "pause_closed",
        "expired",
    )
    late = api(ana).post(
        f"/api/v1/work-orders/{order.shown_id}/resume", {"decision": "approve"}, format="json"
    )
    assert (late.status_code, late.json()["code"]) == (409, "pause_closed")
    shown = page.post(f"/pauses/{pause.shown_id}/decide", {"action": "approve", "revision": 1})
    assert shown.status_code == 409
    assert "It expired at" in shown.content.decode()
    assert "data-approve" not in shown.content.decode()


def test_an_expired_order_asks_again_when_it_is_retried(asked, ana):
    """Nothing that came before runs again, and the question gets its whole time anew."""
    order = asked(deadline=FOUR, reminders=["PT1H"])
    old = pause_of(order)
    fire(at(old, 4))
    new_run = runs.retry(order.pk, by=ana)
    new = pause_of(order)
    assert (new.run_id, new.content, new.revision) == (new_run.pk, old.content, old.revision)
    assert (new.deadline_at, new.next_at, new.reminded) == (at(new, 4), at(new, 1), 0)
    assert (fresh(order).status, Run.objects.get(pk=new_run.pk).retry_of_id) == (
        "paused",
        old.run_id,
    )
    services.decide(new.pk, Answer("approve", Via.PAGE), by=ana)
    assert drive(order).status == "completed"
    assert broken() == set()


def test_a_fork_of_what_expired_asks_anew_and_approves_nothing(asked, ana):
    """Going on from the last checkpoint is no way around the question."""
    order = asked(deadline=FOUR)
    fire(at(pause_of(order), 4))
    runs.fork(fresh(order).thread.head.pk, by=ana, reason="We need it after all")
    assert drive(order).status == "paused"


def test_a_thread_without_an_order_that_expired_is_asked_again_by_a_turn_without_input(asked, ana):
    """S1-4: nothing new was said, so it goes on where it stopped."""
    asked(deadline=FOUR)  # makes the template
    thread = turns.open_thread(by=ana, title="Alone")
    first = turns.invoke(thread.pk, turns.Turn(template="ruled", input={"text": "x"}), by=ana)
    advance(first.pk, budget=60)
    old = Pause.objects.open().get(run=first)
    fire_one(old.pk, now=at(old, 4))
    first.refresh_from_db()
    again = turns.invoke(thread.pk, turns.Turn(), by=ana)
    new = Pause.objects.open().get(run=again)
    assert (first.status, again.status, again.retry_of_id, new.deadline_at) == (
        "expired",
        "paused",
        first.pk,
        at(new, 4),
    )


def test_a_question_whose_run_does_not_wait_holds_up_no_other(asked):
    """It should not be, and `invariants` names it; the sweep looks at it again later."""
    pause = pause_of(asked(deadline=FOUR))
    Run.objects.filter(pk=pause.run_id).update(status="pending")
    assert [fire(at(pause, 4)), fire(at(pause, 4))] == [1, 0]
    pause.refresh_from_db()
    assert pause.status == "open"


def test_a_child_run_that_expires_takes_its_parent_along_and_asks_again_with_it(
    make_order, templates, ana
):
    family(make_order, review={"deadline": FOUR})
    order = drive(make_order("family"))
    child = question_of_child()
    fire(at(child, 4))
    assert Run.objects.get(pk=child.run_id).status == "expired"
    drive(order)
    assert fresh(order).latest_run.status == "failed"
    runs.retry(order.pk, by=ana)
    drive(order)
    again = Pause.objects.open().get()
    assert (again.run.retry_of_id, again.deadline_at) == (child.run_id, at(again, 4))
    assert broken() == set()


def family(make_order, **step):
    DOES["step"] = lambda state, context: Gather(children=[Child(name="one")])
    definitions.edit_step_template(
        "test-gather",
        title="Gather",
        function="test.anything",
        config={},
        sub_steps=[
            {
                "step_type": "planning",
                "step_template_slug": "test-plan",
                "pause_after": True,
                "pause_phase": "x",
                **step,
            }
        ],
    )
    steps = [
        {"step_type": "execute", "step_template_slug": "test-gather"},
        {"step_type": "deliver", "name": "finish", "step_template_slug": "test-finish"},
    ]
    definitions.edit_template("family", steps=steps, title="Family", needs_repository=False)


def question_of_child():
    for run in Run.objects.filter(parent__isnull=False, status="pending"):
        advance(run.pk, budget=60)
    return Pause.objects.open().get()


def test_one_question_whose_rules_fail_holds_up_no_other(asked, monkeypatch):
    """It is looked at again a minute later, not at once and for ever."""
    bad, good = asked(deadline=FOUR), asked(deadline=FOUR)
    first, now = pause_of(bad), at(pause_of(good), 4)
    expire = ending.expire

    def failing(pause, **kwargs):
        if pause.pk == first.pk:
            raise RuntimeError("the disk is full")
        return expire(pause, **kwargs)

    monkeypatch.setattr(ending, "expire", failing)
    assert fire(now) == 2
    assert [fresh(order).latest_run.status for order in (bad, good)] == ["paused", "expired"]
    assert fire(now) == 0
    monkeypatch.undo()
    fire(now + outcomes.AGAIN)
    assert fresh(bad).latest_run.status == "expired"


@pytest.mark.both_databases
def test_what_a_deadline_costs_does_not_grow_with_what_is_open(asked, monkeypatch):
    """Statements: so many for each question that is due, none for the others."""
    orders = [asked(deadline=FOUR) for _ in range(8)]
    Pause.objects.filter(run__thread=orders[0].thread_id).update(
        next_at=timezone.now() + dt.timedelta(days=30)
    )
    now, costs = at(pause_of(orders[-1]), 4), []
    monkeypatch.setattr(together, "DRAFTING", 60.0)  # however slow the machine
    for limit in (2, 5):
        with CaptureQueriesContext(connection) as queries:
            assert outcomes.fire_due(now=now, limit=limit) == limit
        costs.append(len(queries))
    each = (costs[1] - costs[0]) / 3
    # its state, where a checkpoint before holds some of it; SQLite also writes run and log one by
    # one
    assert each <= (1 if connection.vendor == "postgresql" else 8)
    # which are due, which have runs above or below, and all that is written, in one transaction; on
    # PostgreSQL also, in another one, which of them nobody holds
    assert costs[0] - 2 * each <= (12 if connection.vendor == "postgresql" else 9)


def test_a_batch_is_bounded(asked):
    orders = [asked(deadline=FOUR) for _ in range(3)]
    now = at(pause_of(orders[-1]), 4)
    assert outcomes.fire_due(now=now, limit=2) == 2
    assert outcomes.fire_due(now=now, limit=2) == 1
    assert outcomes.fire_due(now=now, limit=2) == 0


def test_a_reminder_looks_nobody_up_twice(asked):
    """Who may answer, and where they are told, is read once for a batch."""
    orders = [asked(deadline=FOUR, reminders=["PT1H"]) for _ in range(3)]
    now = at(pause_of(orders[-1]), 1)
    with CaptureQueriesContext(connection) as queries:
        assert fire(now) == 3
    assert sum('FROM "auth_user"' in query["sql"] for query in queries) == 1
    assert sum('FROM "hitl_endpoint"' in query["sql"] for query in queries) == 2
    assert [len(updates(order)) for order in orders] == [1, 1, 1]


@pytest.mark.both_databases
def test_reminders_and_escalations_of_a_batch_are_written_together(asked, zoe):
    """Statements: none more for each further question, and each is told in its own log."""
    stages = [{"after": "PT6H", "users": ["zoe"]}]
    rules = {"deadline": {**FOUR, "outcome": "escalate"}, "reminders": ["PT1H"]}
    orders = [asked(**rules, escalation=stages) for _ in range(8)]
    costs: list[list[int]] = []
    for hours in (1, 4):
        now = at(pause_of(orders[-1]), hours)
        costs.append([])
        for limit in (2, 6):
            with CaptureQueriesContext(connection) as queries:
                assert outcomes.fire_due(now=now, limit=limit) == limit
            costs[-1].append(len(queries))
    assert [few for few, _ in costs] == [many for _, many in costs]
    for order in orders:
        told = updates(order)
        assert [event["what"] for event in told] == ["reminded", "escalated"]
        assert {event["pause_id"] for event in told} == {pause_of(order).shown_id}
        assert (pause_of(order).reminded, pause_of(order).stage) == (1, 1)
        assert pause_of(order).deadline_at == now + 4 * HOUR


@pytest.mark.both_databases
def test_sweeps_that_begin_at_different_places_share_what_is_due(asked):
    orders = [asked(deadline=FOUR) for _ in range(4)]
    assert outcomes.fire_due(now=at(pause_of(orders[-1]), 4), limit=1, share=0.5) == 1
    assert [fresh(order).latest_run.status for order in orders] == [
        "paused",
        "paused",
        "expired",
        "paused",
    ]


def test_the_sweep_is_on_the_timer_and_lets_what_is_due_act(
    asked, settings, committing, monkeypatch
):
    order = asked(deadline=FOUR)
    Pause.objects.update(
        deadline_at=timezone.now(), next_at=timezone.now(), extendable_until=timezone.now()
    )
    assert settings.CELERY_BEAT_SCHEDULE["rounds"]["task"] == order_rounds.name
    monkeypatch.setattr("runs.tasks._order", lambda name: app.tasks[name].apply())
    with committing():
        order_rounds.apply()
    assert fresh(order).latest_run.status == "expired"


@pytest.mark.both_databases
def test_the_database_lets_nothing_expire_early(asked, paused):
    """P8 as a constraint."""
    pause = pause_of(asked(deadline=FOUR))
    for one, moment in ((pause, at(pause, 3)), (pause_of(paused), timezone.now())):
        with pytest.raises(IntegrityError, match="pause_expired_not_early"), transaction.atomic():
            Pause.objects.filter(pk=one.pk).update(status="expired", closed_at=moment)
    with pytest.raises(IntegrityError, match="pause_deadline_within_reach"), transaction.atomic():
        Pause.objects.filter(pk=pause.pk).update(deadline_at=at(pause, 9))


@pytest.mark.both_databases
@pytest.mark.usefixtures("unguarded")
def test_only_the_rules_decide_as_nobody(paused, ana):
    services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
    for change in ({"decided_by": None}, {"via": "policy"}):
        with pytest.raises(IntegrityError, match="decision_by_one_only"), transaction.atomic():
            Decision.objects.update(**change)


@pytest.mark.both_databases
def test_what_is_due_and_untouched_is_found(asked):
    pause = pause_of(asked(deadline=FOUR))
    assert broken(at(pause, 4)) == set()
    assert broken(at(pause, 4.1)) == {"deadline_not_met"}


@pytest.mark.both_databases
def test_an_expired_question_and_its_run_go_together(asked):
    order = asked(deadline=FOUR)
    pause = pause_of(order)
    fire(at(pause, 4))
    Run.objects.update(status="failed")
    assert "expired_and_its_run_did_not" in broken(at(pause, 4))
    Run.objects.update(status="expired")
    Pause.objects.update(status="cancelled")
    assert "expired_without_its_question" in broken(at(pause, 4))


@pytest.mark.both_databases
def test_a_decision_of_rules_that_do_not_decide_is_found(asked):
    order = asked(deadline={**FOUR, "outcome": "approve"})
    fire(at(pause_of(order), 4))
    Pause.objects.update(review={"deadline": {**FOUR, "outcome": "cancel"}})
    assert "decided_by_silence" in broken()


def test_the_trail_of_a_silent_approval_reads_as_such(asked, page):
    order = asked(deadline={**FOUR, "outcome": "approve"})
    fire(at(pause_of(order), 4))
    assert any("approve" in words for words in log_lines(order))
    shown = fold(page.get(f"/work-orders/{order.shown_id}/").content.decode())
    assert (
        "the template&#x27;s rules</b> approved" in shown
        or "the template&#39;s rules</b> approved" in shown
    )
    inbox = page.get("/").content.decode()
    assert "template&#x27;s rules" in inbox
