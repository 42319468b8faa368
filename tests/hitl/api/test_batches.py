"""Many orders at once, over REST (issue 20, 9)."""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import Permission

from hitl.http import replay
from hitl.models import Batch, Decision
from hitl.operations import batches
from runs.models import Run
from tests.conftest import drive, fresh
from tests.doors.rest import problem
from tests.worlds.scripted_step import fails_in_code
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db
BATCHES = "/api/v1/batches"


@pytest.fixture
def operator(ana, api):
    ana.user_permissions.set(Permission.objects.filter(codename__in=("view_run", "change_run")))
    return api(ana)


@pytest.mark.both_databases
def test_failed_orders_are_looked_over_and_then_retried(order_that, operator, ana, zoe, api):
    """A look changes nothing; one that is refused stops no other, and its line says why."""
    failed = [drive(order_that(fails_in_code)) for _ in range(2)]
    asked = {"action": "retry", "query": "status=failed"}
    seen = operator.post(f"{BATCHES}/preview", asked, format="json").json()
    assert {order["id"] for order in seen["orders"]} == {order.shown_id for order in failed}
    assert (seen["left_out"], seen["more"], seen["steps"]) == ([], False, [])
    assert not Batch.objects.exists() and not Run.objects.filter(status="pending").exists()
    gone = failed[0].shown_id[:-4] + "0000"
    named = {"action": "retry", "orders": [failed[0].shown_id, gone, failed[1].shown_id]}
    answer = operator.post(BATCHES, named, format="json")
    assert answer.status_code == 201
    batch = answer.json()
    assert (batch["by"], batch["action"], batch["query"]) == ("Ana Ruiz", "retry", "")
    assert [line["code"] for line in batch["lines"]] == ["", "not_found", ""]
    assert batch["lines"][0]["run_id"] == fresh(failed[0]).latest_run.shown_id
    assert batch["ended_at"] and all(line["reached"] for line in batch["lines"])
    assert operator.get(f"{BATCHES}/{batch['id']}").json() == batch
    assert operator.get(BATCHES).json()["results"] == [batch]
    # who has no right learns nothing of it
    for ask in (api(zoe).get, api(zoe).post):
        problem(ask(BATCHES, format="json"), 403, "permission_denied")
    problem(api(zoe).get(f"{BATCHES}/{batch['id']}"), 403, "permission_denied")


def test_orders_are_cancelled_by_the_rules_of_an_answer_over_rest(paused, operator):
    """The reason is kept with the decision, as is the door."""
    sent = {"action": "cancel", "orders": [paused.shown_id]}
    refused = problem(operator.post(BATCHES, sent, format="json"), 422, "batch_invalid")
    assert "Say why" in refused["detail"] and not Batch.objects.exists()
    sent["reason"] = "The customer left."
    assert operator.post(BATCHES, sent, format="json").status_code == 201
    [decision] = Decision.objects.all()
    assert (decision.action, decision.via, decision.feedback) == (
        "cancel", "rest", "The customer left.",
    )  # fmt: skip
    seen = operator.post(f"{BATCHES}/preview", sent, format="json")
    problem(seen, 400, "invalid")  # a look takes no reason
    del sent["reason"]
    seen = operator.post(f"{BATCHES}/preview", sent, format="json").json()
    assert seen["left_out"][0]["why"] == "It has ended."


@pytest.mark.both_databases
def test_the_same_key_makes_one_batch(order_that, operator):
    failed = drive(order_that(fails_in_code))
    sent = {"action": "retry", "orders": [failed.shown_id]}
    first, second = (
        operator.post(BATCHES, sent, format="json", headers={"Idempotency-Key": "one"})
        for _ in range(2)
    )
    assert first.json() == second.json() and Batch.objects.count() == 1
    assert second["Idempotent-Replayed"] == "true"


@pytest.mark.both_databases
def test_a_batch_whose_server_died_is_shown_as_it_stands_and_not_begun_again(
    order_that, operator, monkeypatch
):
    """The same key: orders that it had not reached are as they were (F7)."""
    failed = drive(order_that(fails_in_code))

    def die(*words, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(batches, "_one", die)
    sent = {"action": "retry", "orders": [failed.shown_id]}
    again = {"format": "json", "headers": {"Idempotency-Key": "two"}}
    with pytest.raises(KeyboardInterrupt):
        operator.post(BATCHES, sent, **again)
    monkeypatch.undo()
    monkeypatch.setattr(replay, "ANSWERING", dt.timedelta(0))
    told = operator.post(BATCHES, sent, **again)
    assert told.status_code == 200 and told["Idempotent-Replayed"] == "rebuilt"
    assert (told.json()["ended_at"], told.json()["lines"][0]["reached"]) == (None, False)
    assert Batch.objects.count() == 1 and not Run.objects.filter(status="pending").exists()


def test_what_cannot_be_read_does_nothing(operator, order_that, subtests):
    drive(order_that(fails_in_code))
    for sent, code in [
        ({"action": "retry"}, "batch_invalid"),
        (
            {"action": "retry", "query": "status=failed", "orders": ["wo_" + "0" * 26]},
            "batch_invalid",
        ),
        ({"action": "retry", "query": "colour=red"}, "query_not_understood"),
        ({"action": "retry", "query": "&".join("a=1" for _ in range(60))}, "batch_invalid"),
        ({"action": "fork", "query": "status=failed", "reason": "x"}, "batch_invalid"),
        ({"action": "erase", "query": "status=failed"}, "invalid"),
        ({"action": "retry", "orders": ["run_1"]}, "invalid"),
        ({"action": "retry", "orders": ["wo_" + "0" * 26] * 101}, "invalid"),
    ]:
        with subtests.test(ascii(sent)[:60]):
            answer = operator.post(BATCHES, sent, format="json")
            problem(answer, 400 if code == "invalid" else 422, code)
            assert not Batch.objects.exists() and not Run.objects.filter(status="pending").exists()
