"""One row never ends a round: each round of the product with a row first in line that fails in a
way nobody foresaw.
"""

from __future__ import annotations

import datetime as dt
from functools import partial

import pytest
from django.core import mail
from django.db import OperationalError
from django.utils import timezone

from checkpoints.models import Thread
from checkpoints.retention import rules as dropping
from hitl.decisions import notifications, services
from hitl.decisions.deadlines import outcomes
from hitl.decisions.services import Answer
from hitl.ledger import anchors
from hitl.models import EarlyAnswer, Ledger, Via
from hitl.models.outbound import Delivery, DeliveryStatus, Occasion
from hitl.outbound import messages, sending
from hitl.wait_gate import early_answers
from runs import retention, tasks
from runs.engine import ending
from runs.engine.recovery import lost_runs
from runs.git import housekeeping
from runs.models import Pause, QueuedTurn, Run
from runs.threads import message_queue
from runs.threads.turns import Turn
from tests.conftest import drive, pause_of
from tests.worlds.deadlines import asked as asked
from tests.worlds.deadlines import at
from tests.worlds.mailing import relay
from tests.worlds.talking_threads import thread

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

__all__ = ["thread"]


class Unforeseen(Exception):
    """What no code expects."""


@pytest.fixture
def failing(monkeypatch):
    """Makes a function fail for what its first argument is chosen by, and act as it does for all
    others.
    """

    def make(module, name, chosen, error=Unforeseen):
        real = getattr(module, name)

        def sometimes(first, *args, **kwargs):
            if chosen(first):
                raise error("this row")
            return real(first, *args, **kwargs)

        monkeypatch.setattr(module, name, sometimes)

    return make


@pytest.fixture
def two(make_order):
    """Two orders that wait; the first one's rows are looked at first."""
    return drive(make_order()), drive(make_order())


def contact(pause, address):
    notifications.write_to(pause, Occasion.ASKED, address, mark="request")
    return Delivery.objects.get(pause=pause, mark="request")


def test_an_address_that_no_mail_may_have_is_dead_with_its_reason_and_others_are_sent(
    two, ana, page
):
    """One address with a newline raised in the mail backend and ended every round of deliveries,
    first in line each time.
    """
    bad = contact(pause_of(two[0]), "victim@example.org\nBcc: all@example.org")
    good = contact(pause_of(two[1]), "supplier@example.org")
    relay()
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.status, good.status) == (DeliveryStatus.DEAD, DeliveryStatus.SENT)
    assert "not a mail address" in bad.error
    assert [letter.to for letter in mail.outbox] == [["supplier@example.org"]]
    assert (
        "not a mail address"
        in page.get(f"/deliveries/?pause={pause_of(two[0]).shown_id}").content.decode()
    )


def test_such_a_recipient_is_refused_at_the_door(ana, api):
    client = api(ana)
    for recipient in (
        "a@example.org\nBcc: b@example.org",
        "a@b@c",
        "@",
        "a b@example.org",
        "x" * 250 + "@example.org",
        "ben\x00",
        " ",
    ):
        told = {"run_id": "r", "node_id": "n", "blocking_reason": "b", "recipients": [recipient]}
        refused = client.post("/api/v1/workflows/wait", told, format="json")
        assert refused.status_code in {400, 422}, recipient
        assert "recipients" in str(refused.json()["errors"]), recipient
    assert not Pause.objects.exists()


def test_a_message_that_fails_as_nobody_foresaw_is_put_off_and_others_are_sent(two, failing):
    bad, good = (
        contact(pause_of(two[0]), "a@example.org"),
        contact(pause_of(two[1]), "b@example.org"),
    )
    failing(messages, "of", lambda delivery: delivery.pk == bad.pk)
    relay()
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.status, bad.attempts, good.status) == (
        DeliveryStatus.QUEUED,
        1,
        DeliveryStatus.SENT,
    )
    assert "Unforeseen" in bad.error
    assert bad.next_at > timezone.now()


def test_one_bad_mail_of_a_digest_is_left_out_of_it(make_order, ana, ben, reachable, failing):
    orders = [drive(make_order(by=ana)) for _ in range(6)]
    notifications.announce()
    bad = Delivery.objects.get(pause=pause_of(orders[0]), recipient=ben)
    failing(messages, "of", lambda delivery: delivery.pk == bad.pk)
    sending.deliver(seconds=30)
    assert set(
        Delivery.objects.filter(recipient=ben).exclude(pk=bad.pk).values_list("status", flat=True)
    ) == {DeliveryStatus.SENT}
    bad.refresh_from_db()
    assert bad.status == DeliveryStatus.QUEUED


def test_a_database_that_is_away_ends_the_round_and_blames_no_row(two, failing):
    bad = contact(pause_of(two[0]), "a@example.org")
    failing(messages, "of", lambda delivery: True, OperationalError)
    with pytest.raises(OperationalError):
        sending.deliver(seconds=30)
    bad.refresh_from_db()
    assert (bad.status, bad.error) == (DeliveryStatus.SENDING, "")


def test_questions_that_cannot_be_announced_do_not_stay_in_the_way(make_order, failing):
    """A round took the first so many; as many that fail each time kept all later ones from ever
    being told.
    """
    orders = [drive(make_order()) for _ in range(3)]
    bad = {pause_of(order).pk for order in orders[:2]}
    failing(notifications, "_announce", lambda key: key in bad)
    assert notifications.announce(limit=1) == 1
    assert set(Pause.objects.untold().values_list("pk", flat=True)) == bad


def test_the_rules_of_other_questions_act(asked, failing):
    pauses = [pause_of(asked(deadline={"after": "PT4H"})) for _ in range(2)]
    failing(ending, "expire", lambda pause: pause.pk == pauses[0].pk)
    outcomes.fire_due(now=at(pauses[1], 5))
    assert set(Pause.objects.open().values_list("pk", flat=True)) == {pauses[0].pk}
    pauses[0].refresh_from_db()
    assert pauses[0].next_at == at(pauses[1], 5) + outcomes.AGAIN


def test_other_early_answers_are_given_and_those_that_wait_go_to_the_end_of_the_line(
    make_order, ana, ben, failing, monkeypatch
):
    """The first 200 that waited for their questions were looked at in each round, and no others:
    ten runs kept all from theirs.
    """
    monkeypatch.setattr(early_answers, "BATCH", 1)
    first, second = make_order(), make_order()
    now = timezone.now()
    kept = [
        EarlyAnswer.objects.create(
            thread=order.thread, run=order.latest_run, node_id="planning",
            event={"payload": {"x": 1}}, by=ana, via=Via.REST,
            received_at=now, expires_at=now + early_answers.kept_for(),
            changed_at=now + dt.timedelta(seconds=place),
        )
        for place, order in enumerate((first, second))
    ]  # fmt: skip
    looked = []

    def look(one):
        looked.append(one.pk)
        if one.pk == kept[0].pk:
            raise Unforeseen
        return False

    monkeypatch.setattr(early_answers, "_look", look)
    early_answers.sweep(now=now + dt.timedelta(seconds=10))
    early_answers.sweep(now=now + dt.timedelta(seconds=20))
    assert looked == [kept[0].pk, kept[1].pk]


def test_other_ledgers_get_their_anchors(two, ana, ben, failing):
    for order, by in zip(two, (ana, ben), strict=True):
        services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=by)
    ledgers = list(Ledger.objects.order_by("pk"))
    failing(anchors, "_drop", lambda ledger: ledger.pk == ledgers[0].pk)
    assert len(anchors.drop_due(now=timezone.now())) == len(ledgers) - 1


def test_other_lost_runs_are_taken_back(make_order, failing):
    runs = [make_order().latest_run for _ in range(2)]
    ago = timezone.now() - dt.timedelta(minutes=5)
    Run.objects.update(status="running", lease_owner="gone", lease_until=ago)
    failing(lost_runs, "_return", lambda run: run.pk == runs[0].pk)
    assert [key for key, _ in lost_runs.take_back(now=timezone.now())] == [runs[1].pk]


def test_other_threads_are_tidied(two, failing):
    bad = min(two[0].thread_id, two[1].thread_id)
    seen = []

    def chosen(thread_id):
        seen.append(thread_id)
        return thread_id == bad

    failing(dropping, "droppable", chosen)
    retention.prune(now=timezone.now())
    assert set(seen) == set(Thread.objects.values_list("pk", flat=True))


def test_one_chore_of_the_sweep_does_not_keep_the_next_from_its_turn(db, monkeypatch):
    tended = []
    monkeypatch.setattr(retention, "tend", partial(_fail))
    monkeypatch.setattr(housekeeping, "tend", lambda *, now: tended.append(now))
    tasks.sweep()
    assert tended


def _fail(*, now):
    raise Unforeseen


def test_a_message_that_cannot_begin_as_nobody_foresaw_is_refused_and_the_next_begins(
    thread, ana, failing
):
    """It stayed first in its line, which stood for ever, and its task failed in every sweep."""
    turns = [
        message_queue.put(thread.pk, Turn(template="talk", input={"input": text}), by=ana)
        for text in ("first", "second")
    ]
    failing(message_queue, "_begin", lambda turn: turn.pk == turns[0].pk)
    run = message_queue.begin_next(thread.pk)
    assert run is not None
    states = dict(QueuedTurn.objects.values_list("pk", "status"))
    assert [states[turn.pk] for turn in turns] == ["refused", "begun"]
