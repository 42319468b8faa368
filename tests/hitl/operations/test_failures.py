"""The page of failures: what went wrong, where in the code, and retrying many."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from checkpoints import ids
from hitl.operations import batches
from hitl.operations.batches import BatchChoice
from runs.models import StepTraceback
from runs.workflows.base import Go
from tests.conftest import drive
from tests.worlds.scripted_step import DOES, fails_in_code, fails_with_words
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db


def client_with(user, *rights) -> Client:
    user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def failed(order_that):
    """Two orders: one failed in its code, one with words of its step."""
    return drive(order_that(fails_in_code)), drive(order_that(fails_with_words))


def test_failures_are_counted_by_code_and_chosen_by_template_and_code(failed, ana, make_order):
    """Before, an operator saw incidents of a day alone."""
    drive(make_order("writing-quick"))
    operator = client_with(ana, "view_run")
    page = operator.get("/operations/failures/").content.decode()
    assert re.search(r"step_error</code>.*?1 run,", page, re.DOTALL)
    assert "The bank is closed." in page
    assert "KeyError" in page
    assert "writing-quick" not in page.split("Newest first")[1]
    page = operator.get("/operations/failures/?code=bank_closed&days=1").content.decode()
    assert "KeyError" not in page
    assert "at execute" in page
    page = operator.get("/operations/failures/?code=none_such").content.decode()
    assert "Nothing failed" in page
    assert "Show all" in page


def test_the_line_of_the_authors_code_is_shown_to_holders_of_the_right_alone(failed, ana, zoe):
    """The traceback quotes code and values; the words of the failure are everybody's who sees the
    order.
    """
    run = failed[0].latest_run
    address = f"/operations/failures/{run.shown_id}/"
    assert "runs.view_steptraceback" in client_with(ana, "view_run").get(address).content.decode()
    page = client_with(zoe, "view_run", "view_steptraceback").get(address).content.decode()
    assert "scripted_step.py" in page
    assert "in fails_in_code" in page
    assert client_with(ana).get(address).status_code == 403


def test_a_traceback_is_bounded_and_readable(order_that):
    """P12: a value of millions of characters is in what is raised."""

    def step(state, context):
        raise ValueError(f"\ud800\x00 {'x' * 3_000_000}")

    order = drive(order_that(step))
    [kept] = StepTraceback.objects.filter(run=order.latest_run)
    assert len(kept.text) < 21_000
    assert kept.step == "execute"
    assert "in step" in kept.text
    assert kept.text.encode()


def test_nonsense_is_refused_calmly(ana):
    operator = client_with(ana, "view_run", "change_run")
    assert operator.get("/operations/failures/?days=-1&code=%00&template=%F0").status_code == 200
    assert operator.get("/operations/failures/?before=x").status_code == 404
    answer = operator.get("/operations/failures/retry?code=none_such", follow=True)
    assert "Nothing was done." in answer.content.decode()


def test_a_retry_that_succeeds_leaves_the_page(order_that, ana):
    order = order_that(fails_in_code)
    drive(order)
    operator = client_with(ana, "view_run", "change_run")
    page = operator.get("/operations/failures/retry").content.decode()
    assert "Retry 1 order?" in page
    batches.begin(ids.new(), BatchChoice(action="retry", orders=[order.pk]), by=ana)
    DOES["step"] = lambda state, context: Go()
    assert drive(order).status == "completed"
    assert "Nothing failed" in operator.get("/operations/failures/").content.decode()
