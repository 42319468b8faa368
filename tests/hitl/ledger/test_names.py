"""The name of who decided is a fact of the decision: what an account is called later changes
nothing of it.
"""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.ledger import verification
from hitl.models import ApiToken, Decision, Via, Vote
from hitl.threads import erasure
from tests.conftest import drive, pause_of
from tests.worlds.deadlines import asked as asked

pytestmark = pytest.mark.django_db


def rename(user):
    user.first_name, user.last_name = "Carol", "White"
    user.save()


def test_a_renamed_account_changes_nothing_of_what_it_decided(asked, ana, ben, api, page):
    """On no page and receipt."""
    order = asked(quorum=2)
    for by in (ben, ana):
        services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=by)
    decision, vote = Decision.objects.get(), Vote.objects.order_by("pk")[1]
    rename(ana)
    decision, vote = Decision.objects.get(), Vote.objects.get(pk=vote.pk)
    assert (decision.who, vote.who, decision.signed()["by_name"], decision.renamed) == (
        "Ana Ruiz",
        "Ana Ruiz",
        "Ana Ruiz",
        "Carol White",
    )
    told = api(ana).get(f"/api/v1/decisions/{decision.shown_id}").json()
    assert (told["by_name"], told["verification"]["holds"]) == ("Ana Ruiz", True)
    receipt = page.get(f"/decisions/{decision.shown_id}/").content.decode()
    assert "name at that time; the account is called Carol White today" in receipt
    assert list(verification.LedgerCheck().breaches()) == []
    vote.by_name = "Carol White"
    assert vote.compute_digest() != vote.digest


def test_an_erasure_takes_the_name_and_the_chain_holds(asked, ana):
    order = asked()
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    drive(order)
    erasure.erase(order.thread_id, by="root", reason="asked for")
    decision = Decision.objects.get()
    assert (decision.by_name, decision.decided_by, decision.intact) == ("", ana, True)
    assert list(verification.LedgerCheck().breaches()) == []


def test_an_expired_token_says_that_it_is(ana, client):
    """Programs asked for other credentials instead of a new token."""
    token, secret = ApiToken.make(
        ana, name="x", expires_at=timezone.now() - dt.timedelta(seconds=1)
    )
    late = client.get("/api/v1/pauses", headers={"authorization": f"Bearer {secret}"})
    assert (late.status_code, late.json()["code"]) == (401, "token_expired")
    ApiToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now())
    gone = client.get("/api/v1/pauses", headers={"authorization": f"Bearer {secret}"})
    assert (gone.status_code, gone.json()["code"]) == (401, "token_invalid")
