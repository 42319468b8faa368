"""Receipts, undo by its doors, and ledgers as files."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from checkpoints.models import Blob
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from hitl.threads import erasure
from tests.conftest import drive, fresh, pause_of
from tests.databases.undone import undone
from tests.doors.admin import client_of, staff
from tests.doors.html import fold
from tests.hitl.decisions.undo_windows import patient_template

pytestmark = pytest.mark.django_db


@pytest.fixture
def decision(paused, ben):
    """Ben sent a plan back."""
    made = services.decide(
        pause_of(paused).pk, Answer("revise", Via.REST, feedback="=1+1 <b>shorter</b>"), by=ben
    )
    drive(paused)
    return made


@pytest.fixture
def held(make_order, ana):
    """An approval that may still be taken back."""
    order = drive(make_order(patient_template()))
    return order, services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)


def receipt(client, decision):
    return client.get(reverse("hitl:receipt", args=[decision.pk]))


# Receipt


def test_a_receipt_says_who_what_when_and_where_it_stands(decision, paused, page):
    """P11: also how it stands in its chain."""
    html = fold(receipt(page, decision).content.decode())
    for words in (
        "Ben (ben)",
        "Rest",
        "Revision",
        "# Plan"[2:],
        "&lt;b&gt;shorter&lt;/b&gt;",
        decision.digest,
        decision.content_digest,
        decision.evidence,
    ):
        assert words in html, words
    assert f"{decision.ledger_id}, number 1" in html
    assert (
        "Checked just now: this decision is as it was written" in html
        and "not yet: once a day" in html
    )
    assert reverse("hitl:order", args=[paused.pk]) in html


def test_the_pages_lead_to_it(decision, paused, page, ana):
    address = reverse("hitl:receipt", args=[decision.pk])
    assert address in page.get(reverse("hitl:order", args=[paused.pk])).content.decode()
    assert address in page.get(reverse("hitl:inbox")).content.decode()
    desk = client_of(staff("olga", "hitl.view_decision"))
    assert (
        address
        in desk.get(reverse("admin:hitl_decision_change", args=[decision.pk])).content.decode()
    )


@pytest.mark.usefixtures("unguarded")
def test_it_says_what_does_not_hold(decision, page):
    row, shown = Decision.objects.filter(pk=decision.pk), Blob.objects.filter(pk=decision.evidence)
    for damage, words in (
        (lambda: row.update(feedback="x"), "This row was changed after it was written."),
        (
            lambda: row.update(previous="0" * 64),
            "Its neighbours in the ledger name other digests.",
        ),
        (lambda: shown.delete(), "What was shown is gone or was changed."),
    ):
        with undone():
            damage()
            html = receipt(page, decision).content.decode()
            assert words in html and "Tell an administrator" in html


def test_of_an_erased_thread_it_says_what_is_left(decision, paused, page, api, ana, zoe):
    services.cancel_order(paused.pk, by=ana, via=Via.PAGE)
    erasure.erase(paused.thread_id, by="dpo", reason="Asked for")
    html = receipt(page, decision).content.decode()
    assert "Its thread was erased" in html and "shorter" not in html and "as it was written" in html
    told = api(ana).get(f"/api/v1/decisions/{decision.shown_id}").json()
    assert (told["shown"], told["pause_id"], told["verification"]["holds"]) == (None, None, True)
    assert api(zoe).get(f"/api/v1/decisions/{decision.shown_id}").status_code == 404


def test_a_program_reads_it_too(decision, api, ana):
    told = api(ana).get(f"/api/v1/decisions/{decision.shown_id}").json()
    assert (told["action"], told["decided_by"], told["via"], told["position"]) == (
        "revise",
        "ben",
        "rest",
        1,
    )
    assert told["verification"] == {
        "holds": True,
        "intact": True,
        "linked": True,
        "shown": True,
        "anchor": None,
    }
    text = json.dumps(told["shown"], sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == told["evidence"]


# Undo, by its doors


def test_the_page_says_until_when_and_takes_it_back(held, page, ben, client):
    order, decision = held
    home = reverse("hitl:order", args=[order.pk])
    html = page.get(home).content.decode()
    assert "Continues at" in html and f'action="{reverse("hitl:undo", args=[decision.pk])}"' in html
    client.force_login(ben)
    shown = client.get(home).content.decode()
    assert (
        "Only the person who answered" in shown
        and reverse("hitl:undo", args=[decision.pk]) not in shown
    )
    client.post(reverse("hitl:undo", args=[decision.pk]))
    assert fresh(order).latest_run.status == "pending"
    answered = page.post(reverse("hitl:undo", args=[decision.pk]), follow=True)
    assert answered.redirect_chain[0][0] == home
    assert "Undone" not in html and "undid the answer" in answered.content.decode()
    assert pause_of(order).revision == 1
    again = page.post(reverse("hitl:undo", args=[decision.pk]), follow=True)
    assert "undid this answer already" in again.content.decode()
    assert "This answer was undone by Ana Ruiz" in receipt(page, decision).content.decode()


def test_a_program_takes_it_back(held, api, ana, ben):
    _, decision = held
    address = f"/api/v1/decisions/{decision.shown_id}/undo"
    refused = api(ben).post(address)
    assert (refused.status_code, refused.json()["code"]) == (403, "undo_not_yours")
    done = api(ana).post(address)
    assert (done.status_code, done.json()["action"], done.json()["undoes"]) == (
        201,
        "undo",
        decision.shown_id,
    )
    late = api(ana).post(address)
    assert (late.status_code, late.json()["code"]) == (409, "undo_too_late")
    told = api(ana).get(f"/api/v1/decisions/{decision.shown_id}").json()
    assert told["undone_by"] == done.json()["id"]
    pauses = api(ana).get("/api/v1/pauses").json()["results"]
    assert [pause["user_decision"] for pause in pauses] == [None, "approve"]


# Export


def test_a_ledger_is_exported_as_csv_that_computes_nothing(decision, api, ana):
    """A formula in somebody's words stays words."""
    response = api(ana).get("/api/v1/ledger?format=csv")
    assert (response["Content-Type"], response.streaming) == ("text/csv; charset=utf-8", True)
    [row] = csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode()))
    assert (row["feedback"], row["decided_by"], row["action"]) == (
        "'=1+1 <b>shorter</b>",
        "ben",
        "revise",
    )
    assert row["digest"] == decision.digest


def test_an_export_can_be_verified_without_this_server(decision, paused, api, ana, ben):
    """P11: as docs/how-to/ledger.md says, with nothing but a sha256."""
    services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ben)
    document = json.loads(b"".join(api(ana).get("/api/v1/ledger").streaming_content))
    tip = ""
    for row in document["decisions"]:
        text = json.dumps(row["signed"], sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() == row["digest"]
        assert row["signed"]["previous"] == tip
        tip = row["digest"]
    assert document["ledgers"] == {decision.ledger_id: {"length": 2, "tip": tip}}


def test_only_ledgers_that_one_may_see_are_exported(decision, api, zoe, ana):
    assert json.loads(b"".join(api(zoe).get("/api/v1/ledger").streaming_content))["decisions"] == []
    refused = api(zoe).get(f"/api/v1/ledger?ledger={decision.ledger_id}")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert api(ana).get(f"/api/v1/ledger?ledger={decision.ledger_id}").status_code == 200
    wrong = api(ana).get("/api/v1/ledger?format=xml")
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid")


def test_the_command_writes_the_same(decision, tmp_path):
    out = StringIO()
    call_command("export_ledger", "--format", "csv", stdout=out)
    assert decision.digest in out.getvalue()
    path = tmp_path / "ledger.json"
    call_command("export_ledger", "--output", str(path), "--ledger", decision.ledger_id)
    assert json.loads(path.read_text())["decisions"][0]["id"] == decision.shown_id
    with pytest.raises(CommandError, match="Nothing was written"):
        call_command("export_ledger", "--output", str(path))
    with pytest.raises(CommandError, match="no ledger"):
        call_command("export_ledger", "--ledger", "team:404")


def test_the_guide_s_lines_verify_an_export(decision, tmp_path, settings):
    """docs/how-to/ledger.md: its example runs."""
    path = tmp_path / "ledger.json"
    call_command("export_ledger", "--output", str(path))
    guide = (settings.BASE_DIR / "docs/how-to/ledger.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", guide, re.S)
    exec(example.replace("ledger.json", str(path)), {})
