"""Whom a person may have mail sent to in the company's name, how much of it, and what it says."""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import Permission, User
from django.core import mail
from django.utils import timezone

from hitl.models import Wait
from hitl.models.outbound import Delivery
from hitl.outbound.quotas import OutsideNotAllowed
from hitl.wait_gate import primitives
from runs.models import Pause
from tests.worlds.mailing import relay

pytestmark = pytest.mark.django_db

WAIT = {"node_id": "n", "blocking_reason": "b", "question": "Which VAT number?"}
OUTSIDE = "supplier@elsewhere.example"


@pytest.fixture
def wait(ana, api):
    def post(run_id="r", **changes):
        return api(User.objects.get(pk=ana.pk)).post(
            "/api/v1/workflows/wait", {**WAIT, "run_id": run_id, **changes}, format="json"
        )

    return post


def allow(user):
    user.user_permissions.add(Permission.objects.get(codename="mail_outside"))


def told(answer):
    return answer.status_code, answer.json().get("code")


@pytest.mark.parametrize(
    "named",
    [
        {"recipients": [f"mailto:{OUTSIDE}"]},
        {"recipients": [OUTSIDE]},
        {"review": {"external": [OUTSIDE]}},
    ],
)
def test_nobody_writes_to_just_any_address_in_the_companys_name(wait, ana, named):
    """Any user had mail with a subject and a Markdown body of their own sent to any address."""
    assert told(wait(**named)) == (403, "outside_not_allowed")
    assert not Pause.objects.exists() and not Delivery.objects.exists()
    allow(ana)
    assert told(wait(**named)) == (201, None)
    assert told(wait(**named)) == (200, None)


@pytest.mark.parametrize(
    ("domains", "status"),
    [
        (["elsewhere.example"], 201),
        (["*.example"], 201),
        (["else.example"], 403),
        (["*.elsewhere.example"], 403),
    ],
)
def test_domains_that_operators_name_are_free_for_all(wait, settings, domains, status):
    settings.WAYSTATION_OUTSIDE_DOMAINS = domains
    assert wait(recipients=[OUTSIDE]).status_code == status


def test_mail_of_ones_own_words_to_somebody_without_an_account_says_who_sends_it(wait, settings):
    """It could pass for the company's own word."""
    settings.WAYSTATION_OUTSIDE_DOMAINS = ["elsewhere.example"]
    wait(question="Your invoice is overdue", content="pay " * 1_000, recipients=[OUTSIDE])
    relay()
    [letter] = mail.outbox
    assert letter.subject.startswith("Ana Ruiz via Waystation: Your invoice is overdue")
    assert "pay" not in str(letter.body)


@pytest.mark.both_databases
def test_messages_of_ones_own_choice_are_counted_per_hour_and_day(wait, ana, ben, team, settings):
    """People of the system may be named freely, but not flooded."""
    settings.WAYSTATION_MESSAGES_PER_HOUR, settings.WAYSTATION_MESSAGES_PER_DAY = 2, 3
    ben.email = "ben@example.org"
    ben.save()
    named = {"recipients": ["ben"], "team": team.name}
    assert [wait(f"r{n}", **named).status_code for n in range(3)] == [201, 201, 429]
    refused = wait("r2", **named)
    assert told(refused) == (429, "message_quota")
    assert 3_500 < int(refused["Retry-After"]) <= 3_601
    assert Wait.objects.count() == 2
    assert wait("r1", **named).status_code == 200, "what is known is no message more"
    assert wait("r3").status_code == 201, "and without recipients nothing is counted"
    Delivery.objects.update(made_at=timezone.now() - dt.timedelta(hours=2))
    assert [wait(f"d{n}", **named).status_code for n in range(2)] == [201, 429]


def test_an_engine_that_asks_further_people_later_is_bound_alike(wait, ana):
    wait()
    with pytest.raises(OutsideNotAllowed):
        primitives.send_request("r", f"mailto:{OUTSIDE}", "Which?", by=ana)
    assert not Delivery.objects.exists()
