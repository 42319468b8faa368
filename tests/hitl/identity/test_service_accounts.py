"""Accounts without a person: they ask, order and read by tokens; they log in nowhere and decide
nothing.
"""

from __future__ import annotations

import datetime as dt
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction
from django.test import Client
from rest_framework.test import APIClient

from checkpoints import ids
from checkpoints.database import clock
from hitl.decisions import services
from hitl.decisions.reviewers import delegations, policy
from hitl.decisions.services import Answer
from hitl.identity import service_accounts
from hitl.identity.service_accounts import AccountRefused
from hitl.models import ApiToken, Decision, Delegation, ServiceAccount, Via, Vote
from tests.conftest import drive, pause_of
from tests.databases.whole import rows
from tests.doors.rest import ORDERS, problem
from tests.worlds.ruled_order import browser
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db


@pytest.fixture
def bot(team):
    return service_accounts.make("deploy-bot", purpose="Asks before it deploys.", teams=[team])


def with_secret(secret):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


@pytest.mark.both_databases
def test_it_orders_reads_and_cancels_its_own_and_a_person_decides(templates, bot, team, ana):
    """P1: the run of a program waits for a person all the same."""
    _, secret = service_accounts.issue(bot, name="pipeline", scope="ask", by=ana)
    api = with_secret(secret)
    body = {"template": "writing", "team": team.name}
    orders = []
    for _ in range(2):
        made = api.post(ORDERS, body, format="json")
        assert made.status_code == 201, made.json()
        orders.append(made.json()["id"])
        assert api.get(f"{ORDERS}/{made.json()['id']}").status_code == 200
    first, second = (
        drive(services.find_order(ids.parse("wo", shown), by=bot.user)) for shown in orders
    )
    refused = api.post(f"{ORDERS}/{orders[0]}/resume", {"decision": "approve"}, format="json")
    problem(refused, 403, "scope_ask_cannot_answer")
    given = services.decide(pause_of(first).pk, Answer("approve", Via.PAGE), by=ana)
    assert isinstance(given, Decision)
    assert api.post(f"{ORDERS}/{orders[1]}/cancel", {}, format="json").status_code == 200
    cancelled = Decision.objects.get(pause__run__thread=second.thread_id)
    assert (cancelled.action, cancelled.decided_by) == ("cancel", bot.user)


def test_no_rule_no_delegation_and_no_door_lets_it_decide(ruled, bot, ana, ben):
    """P6: rules that name it, somebody who stands for it or for whom it stands change nothing."""
    rules = {"reviewers": {"users": ["deploy-bot", "ana"]}, "quorum": 1}
    pause = pause_of(ruled(rules))
    now = clock.now()
    for giver, taker in ((ana, bot.user), (bot.user, ben)):
        Delegation.objects.create(
            from_user=giver,
            to_user=taker,
            starts_at=now,
            ends_at=now + dt.timedelta(days=1),
            created_by=ana,
        )
    before = rows()
    for via in (Via.PAGE, Via.MAIL, Via.SLACK, Via.WEBHOOK, Via.MCP):
        for action in ("approve", "skip", "revise"):
            answer = Answer(action, via, feedback="so")
            with pytest.raises(policy.NotAllowed, match="service account decides nothing") as told:
                services.decide(pause.pk, answer, by=bot.user)
            assert told.value.code == "service_account"
        with pytest.raises(policy.NotAllowed) as told:
            services.decide(pause.pk, Answer("approve", via), by=ben)
        assert told.value.code == "not_a_reviewer"
    with pytest.raises(CommandError, match="service account"):
        call_command("workorder", "--user", "deploy-bot", "approve", pause.run.work_order.shown_id)
    assert rows() == before
    assert not policy.waiting_for(bot.user).exists()
    assert set(policy.answerers(pause)) == {ana}
    assert bot.user not in delegations.colleagues(ana)


@pytest.mark.both_databases
def test_the_database_itself_takes_no_decision_and_no_vote_of_it(ruled, bot, ana, ben):
    """P6, P11: whoever writes past `decide` is refused by the ledger's tables."""
    pause = pause_of(ruled({"quorum": 2}))
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    vote = Vote.objects.get()
    for column in ("voter", "seat"):
        other = Vote.objects.get()
        other.pk = None
        other.voter = other.seat = ben
        setattr(other, column, bot.user)
        with pytest.raises(DatabaseError, match="takes no such row"), transaction.atomic():
            other.save(force_insert=True)
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
    decision = Decision.objects.get()
    for column in ("decided_by", "on_behalf_of"):
        copy = Decision.objects.get()
        copy.pk, copy.position, copy.pause = None, 99, pause
        setattr(copy, column, bot.user)
        with pytest.raises(DatabaseError, match="takes no such row"), transaction.atomic():
            copy.save(force_insert=True)
    assert (Vote.objects.count(), list(Decision.objects.all())) == (2, [decision])
    assert vote.intact if hasattr(vote, "intact") else vote.digest == vote.compute_digest()


def test_it_logs_in_at_no_page_whatever_its_password(bot):
    """Somebody may set a password in the admin, or give it the staff's mark."""
    bot.user.set_password("a long and odd one")
    bot.user.is_staff = bot.user.is_superuser = True
    bot.user.save()
    client = Client()
    said = client.post("/login", {"username": "deploy-bot", "password": "a long and odd one"})
    assert said.status_code == 200
    assert "sessionid" not in client.cookies
    forced = browser(bot.user)  # a session, wherever it came from
    assert forced.get("/").status_code == 302
    assert forced.get("/admin/").status_code == 302


@pytest.mark.both_databases
def test_its_tokens_end_and_neither_answer_nor_steer(bot, ana):
    for scope in ("answer", "write", "everything"):
        with pytest.raises(AccountRefused, match="read or ask"):
            service_accounts.issue(bot, name="x", scope=scope)
    for days in (0, 367):
        with pytest.raises(AccountRefused, match="From 1 to 366 days"):
            service_accounts.issue(bot, name="x", scope="ask", days=days)
    for scope, ends in (("write", clock.now() + dt.timedelta(days=1)), ("ask", None)):
        with (
            pytest.raises(DatabaseError, match=r"token_of_service_asks_and_ends"),
            transaction.atomic(),
        ):
            ApiToken.make(bot.user, name="x", scope=scope, expires_at=ends)
    token, _ = service_accounts.issue(bot, name="x", scope="read", by=ana)
    assert (token.of_service, token.made_by) == (True, ana)


def test_a_token_is_replaced_while_the_old_one_still_works(bot, ana):
    old, secret = service_accounts.issue(bot, name="pipeline", scope="ask", days=30)
    new, other = service_accounts.rotate(old, overlap=dt.timedelta(hours=2), by=ana)
    assert (new.scope, new.replaces, new.made_by) == ("ask", old, ana)
    old.refresh_from_db()
    now = clock.now()
    assert old.expires_at is not None
    assert new.expires_at is not None
    assert old.expires_at < now + dt.timedelta(hours=2, minutes=1)
    assert new.expires_at > now + dt.timedelta(days=29)
    assert [with_secret(one).get(ORDERS).status_code for one in (secret, other)] == [200, 200]
    ApiToken.objects.filter(pk=old.pk).update(expires_at=now - dt.timedelta(seconds=1))
    problem(with_secret(secret).get(ORDERS), 401, "token_expired")
    for token, words in ((old, "not valid any more"), (new, None)):
        token.refresh_from_db()
        if words:
            with pytest.raises(AccountRefused, match=words):
                service_accounts.rotate(token)
    service_accounts.rotate(new)
    with pytest.raises(AccountRefused, match="came in its place already"):
        service_accounts.rotate(new)
    persons, _ = ApiToken.make(ana, name="mine")
    with pytest.raises(AccountRefused, match="a person's token"):
        service_accounts.rotate(persons)


def test_a_switched_off_account_is_refused_everywhere(bot):
    _, secret = service_accounts.issue(bot, name="pipeline", scope="read")
    assert with_secret(secret).get(ORDERS).status_code == 200
    service_accounts.switch(bot, on=False)
    assert with_secret(secret).get(ORDERS).status_code == 401
    service_accounts.switch(bot, on=True)
    assert with_secret(secret).get(ORDERS).status_code == 200


def test_the_command_makes_renews_and_closes_one(team):
    def said(*words):
        out = StringIO()
        call_command("service_account", *words, stdout=out)
        return out.getvalue()

    said("make", "nightly", "--purpose", "Starts the nightly tidy.", "--team", team.name)
    secret = said("token", "nightly", "--label", "cron", "--scope", "read").split()[-1]
    assert with_secret(secret).get(ORDERS).status_code == 200
    listed = said("list")
    assert "Starts the nightly tidy. · made by the shell" in listed
    token = ApiToken.objects.get()
    assert f"{token.pk} cron · read" in listed
    fresh = said("rotate", "nightly", str(token.pk), "--overlap-hours", "1").split()[-1]
    assert with_secret(fresh).get(ORDERS).status_code == 200
    said("off", "nightly")
    assert with_secret(fresh).get(ORDERS).status_code == 401
    assert "(switched off)" in said("list")
    said("on", "nightly")
    for words in (
        ("make", "nightly", "--purpose", "again"),
        ("make", "a b/c", "--purpose", "again"),
        ("make", "other", "--purpose", " "),
        ("make", "other", "--purpose", "x", "--team", "nobody"),
        ("token", "nobody"),
        ("token", "nightly", "--days", "0"),
        ("rotate", "nightly", "no-id"),
        ("rotate", "nightly", str(ApiToken.objects.latest("pk").pk), "--overlap-hours", "-1"),
    ):
        before = rows()
        with pytest.raises(CommandError, match="Nothing was done"):
            said(*words)
        assert rows() == before


def at(moment):
    """As the admin's form asks for a time."""
    return {"expires_at_0": moment.date().isoformat(), "expires_at_1": f"{moment:%H:%M:%S}"}


def wrong_in(response):
    """What a form of the admin refuses, by its fields."""
    return response.context["adminform"].form.errors


def test_operators_make_look_after_and_see_them(client, team, ana):
    root = User.objects.create_superuser("root")
    client.force_login(root)
    made = client.post(
        "/admin/hitl/serviceaccount/add/",
        {"name": "deploy-bot", "purpose": "Deploys.", "teams": [team.pk]},
        follow=True,
    )
    assert "Give it a token" in made.content.decode()
    account = ServiceAccount.objects.get()
    assert (account.made_by, list(account.user.groups.all())) == (root, [team])
    token = {"user": account.pk, "name": "pipeline", "scope": "write"}
    add, odd = "/admin/hitl/apitoken/add/", {"name": "a b/c", "purpose": "Deploys."}
    assert [*wrong_in(client.post("/admin/hitl/serviceaccount/add/", odd))] == ["name"]
    assert wrong_in(client.post(add, token))["scope"][0].startswith("A service account asks")
    token["scope"] = "ask"
    now = clock.now()
    for days, person in [(None, account.pk), (-1, account.pk), (367, account.pk), (-1, ana.pk)]:
        ends = {} if days is None else at(now + dt.timedelta(days=days))
        refused = wrong_in(client.post(add, {**token, "user": person, **ends}))
        assert [*refused] == ["expires_at"], (days, person)
    client.post(add, {**token, **at(now + dt.timedelta(days=365))})
    assert ApiToken.objects.get().made_by == root
    page = client.get("/tokens/").content.decode()
    assert "deploy-bot" in page
    assert "1 valid token" in page
    action = {"_selected_action": [account.pk], "confirmed": "yes"}
    there = "/admin/hitl/serviceaccount/"
    shown = client.post(there, {**action, "action": "rotate_tokens"}, follow=True).content.decode()
    assert with_secret(shown.split("shown only now: ")[1].split("<")[0].strip()).get(ORDERS)
    assert ApiToken.objects.filter(replaces__isnull=False).count() == 1
    client.post(there, {**action, "action": "switch_off"})
    assert not User.objects.get(pk=account.pk).is_active
    client.force_login(ana)
    assert "deploy-bot" not in client.get("/tokens/").content.decode()
