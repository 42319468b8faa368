"""Many orders at once: looked over, done one by one, and written down (issue 20, 9)."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from checkpoints.database import clock
from hitl.models import Batch, Decision, Preference
from hitl.operations import batches, flow
from hitl.operations.batches import BatchChoice
from runs import tasks
from runs.models import Run
from tests.conftest import drive, fresh, log_lines
from tests.worlds.scripted_step import fails_in_code, fails_with_words
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db
NEW = "/operations/batches/new"


def operator(user, *rights) -> Client:
    named = rights or ("view_run", "change_run")
    user.user_permissions.set(Permission.objects.filter(codename__in=named))
    client = Client()
    client.force_login(user)
    return client


def form(page: str, **values: Any) -> dict[str, Any]:
    """What the preview's form sends."""
    hidden = dict(re.findall(r'type="hidden" name="(action|batch|query)" value="([^"]*)"', page))
    return {**hidden, "order": re.findall(r'name="order" value="([^"]*)"', page), **values}


def test_many_are_retried_after_a_look_and_one_that_is_refused_stops_no_other(order_that, ana, zoe):
    """Each goes on from its last good checkpoint, and its log says who retried it."""
    failed = drive(order_that(fails_in_code)), drive(order_that(fails_with_words))
    client = operator(ana)
    page = client.get("/operations/failures/retry?days=7").content.decode()
    assert "Retry 2 orders?" in page
    assert not Run.objects.filter(status="pending").exists(), "GET changes nothing"
    assert not Batch.objects.exists()
    sent = form(page)
    gone = failed[0].shown_id[:-4] + "0000"
    sent["order"] = [failed[0].shown_id, gone, failed[1].shown_id, failed[0].shown_id]
    page = client.post(NEW, sent, follow=True).content.decode()
    assert "2 of 3 go on" in page
    assert "There is no such work order." in page
    for order in failed:
        assert fresh(order).latest_run.status == "pending"
        assert log_lines(order)[-1] == "Retried by ana from step execute"
    again = client.post(NEW, sent, follow=True).content.decode()
    assert "2 of 3 go on" in again, "a form that is sent twice does it once"
    [kept] = Batch.objects.all()
    assert (kept.action, kept.by, kept.ended_at is not None) == ("retry", ana, True)
    assert [result["code"] for result in kept.results] == ["", "not_found", ""]
    shown = client.get("/operations/").content.decode()
    assert f"/operations/batches/{kept.shown_id}/" in shown
    page = operator(zoe).get(f"/operations/batches/{kept.shown_id}/").content.decode()
    assert failed[0].title not in page, "who does not see an order sees its id alone"
    assert failed[0].shown_id in page


def test_orders_of_a_filter_are_cancelled_with_a_reason_and_what_has_ended_is_left_out(
    paused, make_order, ana
):
    """Through `decide`, as if each had been cancelled on its own page."""
    done = drive(make_order("writing-quick"))
    client = operator(ana)
    listed = client.get("/work-orders/?person=me").content.decode()
    assert f"{NEW}?action=cancel&amp;person=me" in listed
    page = client.get(f"{NEW}?action=cancel&person=me").content.decode()
    assert "Cancel 1 order?" in page and paused.title in page
    assert "It has ended." in page.split("Left out")[1] and done.title in page
    sent = form(page, reason=" ")
    answer = client.post(NEW, sent, follow=True).content.decode()
    assert "Say why" in answer and not Decision.objects.exists() and not Batch.objects.exists()
    page = client.post(NEW, {**sent, "reason": "The customer left."}, follow=True).content.decode()
    assert "1 of 1 cancelled" in page and "The customer left." in page
    [decision] = Decision.objects.all()
    assert (decision.action, decision.feedback, decision.decided_by) == (
        "cancel", "The customer left.", ana,
    )  # fmt: skip
    assert Batch.objects.get().query == "person=me"


def test_ended_orders_are_forked_from_a_step_of_their_workflow(make_order, ana):
    orders = [drive(make_order("writing-quick")) for _ in range(2)]
    client = operator(ana)
    page = client.get(f"{NEW}?action=fork&status=completed").content.decode()
    assert "Fork 2 orders?" in page
    steps = re.findall(r'<option value="([^"]*)">', page)
    assert steps == [step["name"] for step in orders[0].definition.steps]
    # before: with a refusal what was typed was gone
    for wrong, kept in [({"step": ""}, ">The text was wrong.</textarea>"),
                        ({"reason": " "}, f'<option value="{steps[-1]}" selected>')]:  # fmt: skip
        sent = form(page, reason="The text was wrong.", step=steps[-1])
        refused = client.post(NEW, {**sent, **wrong})
        assert refused.status_code == 422 and kept in refused.content.decode()
    page = client.post(NEW, sent, follow=True).content.decode()
    assert "2 of 2 forked" in page
    for order in orders:
        run = fresh(order).latest_run
        assert (run.status, run.reason) == ("pending", "The text was wrong.")
        assert drive(order).status == "completed"
    without = batches.begin(
        uuid.uuid4(),
        BatchChoice(action="fork", orders=[orders[0].pk], reason="again", step="no_such_step"),
        by=ana,
    )
    assert without.results[0]["code"] == "cannot_fork"


def test_a_batch_that_was_cut_short_says_how_far_it_came(order_that, ana, monkeypatch):
    """It is written before anything is touched."""
    orders = [drive(order_that(fails_in_code)) for _ in range(2)]
    one = batches._one

    def killed(batch, key, via, *, by):
        if key == orders[1].pk:
            raise KeyboardInterrupt
        return one(batch, key, via, by=by)

    monkeypatch.setattr(batches, "_one", killed)
    key = uuid.uuid4()
    with pytest.raises(KeyboardInterrupt):
        batches.begin(
            key, BatchChoice(action="retry", orders=[order.pk for order in orders]), by=ana
        )
    page = operator(ana).get(f"/operations/batches/{Batch.objects.get().shown_id}/")
    assert "It has not ended" in page.content.decode()
    assert page.content.decode().count("Not reached.") == 1


@pytest.mark.parametrize(
    "query", ["", "action=erase", "action=retry&order=x", "action=retry&colour=red",
              "action=cancel&status=failed"],
)  # fmt: skip
def test_nonsense_and_nothing_are_refused_calmly(ana, query):
    client = operator(ana)
    answer = client.get(f"{NEW}?{query}", follow=True)
    assert answer.status_code in {200, 422} and answer.redirect_chain, query
    for values in ({}, {"action": "retry", "batch": "x"}, {"action": "retry", "order": "wo_1"}):
        assert client.post(NEW, values).status_code == 302
    too_many = {"action": "retry", "batch": str(uuid.uuid4()), "order": [
        f"wo_{number:026d}" for number in range(101)]}  # fmt: skip
    assert client.post(NEW, too_many).status_code == 302
    assert not Batch.objects.exists() and not Preference.objects.exists()
    assert operator(ana, "view_run").get(f"{NEW}?action=retry").status_code == 403


def test_the_page_of_operations_tells_who_is_waited_for_and_what_was_answered(
    paused, make_order, ana, ben
):
    """By age, by reviewer, by day; and where the time of finished runs went."""
    drive(make_order("writing-quick"))
    told = flow.lately(now=clock.now())
    assert dict(told.ages)["under an hour"] == 1 and sum(dict(told.ages).values()) == 1
    assert told.open_to_all + sum(one.open for one in told.asked) >= 1
    assert told.spent.runs == 1 and told.spent.people.total_seconds() == 0
    client = operator(ana)
    page = client.get("/operations/").content.decode()
    assert "Answers by day" in page and "1 run that began in the last 7 days has ended" in page
    assert "Nobody has answered in the last 14 days" in page
    before = [day.count for day in told.days]
    client.post(f"/pauses/{paused.latest_run.pauses.get().shown_id}/decide", {"action": "approve"})
    after = flow.lately(now=clock.now()).days
    assert "Nobody has answered" not in client.get("/operations/").content.decode()
    assert sum(before) == 0 and after[0].answers == {"approve": 1}


def test_what_is_stuck_is_sent_again_by_a_button(make_order, ana):
    """Also while beat is away: what its sweep would do, now."""
    order = make_order("writing")
    run = Run.objects.filter(work_order=order)
    ended = clock.now() - dt.timedelta(hours=1)
    run.update(status="running", lease_owner="gone", lease_until=ended)
    client = operator(ana)
    assert "Send them again now" in client.get("/operations/").content.decode()
    assert client.get("/operations/sweep").status_code == 405
    page = client.post("/operations/sweep", follow=True).content.decode()
    assert "What was lost was taken back" in page
    assert run.get().status == "pending"
    assert operator(ana, "view_run").post("/operations/sweep").status_code == 403


def test_one_stuck_run_is_sent_again_from_where_it_is_explained(make_order, ana, zoe, monkeypatch):
    """And no other: what the button for all does, for one."""
    ended = clock.now() - dt.timedelta(hours=1)
    order, other = make_order("writing"), make_order("writing")
    Run.objects.update(status="running", lease_owner="gone", lease_until=ended)
    sent: list[uuid.UUID] = []
    monkeypatch.setattr(tasks, "send", lambda run_id, queue, how: sent.append(run_id))
    run, client = order.latest_run, operator(ana)
    url, why = f"/operations/{run.shown_id}/send-again", f"/work-orders/{order.shown_id}/why"
    assert url in client.get("/operations/").content.decode()
    assert url in client.get(why).content.decode()
    assert client.get(url).status_code == 405
    answer = client.post(url, {"order": ""}, follow=True)
    assert (answer.redirect_chain, sent) == ([(why, 302)], [run.pk])
    assert "was sent to the workers of the queue steps again" in answer.content.decode()
    assert (fresh(order).latest_run.status, fresh(other).latest_run.status) == (
        "pending",
        "running",
    )
    Run.objects.filter(pk=run.pk).update(due_at=clock.now() + dt.timedelta(hours=1))
    assert "needs no message" in client.post(url, follow=True).content.decode()
    assert sent == [run.pk]
    zoe.user_permissions.clear()
    assert operator(zoe, "view_run").post(url).status_code == 403
    assert url not in operator(ana, "view_run").get(why).content.decode()
    assert operator(ana).post(f"/operations/{other.thread.shown_id}/send-again").status_code == 404


def test_whoever_sends_again_hears_that_the_broker_is_away(make_order, ana, monkeypatch):
    run = make_order("writing").latest_run
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
    monkeypatch.setattr(tasks.advance_run, "apply_async", lambda *args, **how: 1 / 0)
    page = operator(ana).post(f"/operations/{run.shown_id}/send-again", follow=True)
    assert "The broker does not answer." in page.content.decode()
