"""`smart-booking` through every door a person or program uses: REST, page without JavaScript,
command, thread.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.urls import reverse

from hitl.forms.pages import MessageForm
from hitl.models import Decision
from runs.models import Pause, WorkOrder
from tests.conftest import drive, fresh, pause_of
from tests.extensions.booking.houses import house as house
from tests.worlds.books import invoices
from tests.worlds.books.booking import sent, state_of
from tests.worlds.books.writer import to_cii, to_pdf, to_ubl

pytestmark = pytest.mark.django_db
STEEL = {"BT-31": "ATU12345675", "BT-84": invoices.STEEL_IBAN}


def create(client, **input):
    return client.post(
        "/api/v1/work-orders", {"template": "smart-booking", "input": input}, format="json"
    )


@pytest.mark.usefixtures("unguarded")
def test_an_invoice_goes_from_rest_to_the_ledger_with_a_question_in_between(house, api, ana):
    """S3-8, 13, 15..17, 27, 28, 46, 48."""
    client = api(ana)
    made = create(client, **sent(invoices.without_vat_id(), "frames.xml", to_cii))
    assert made.status_code == 201, made.json()
    order = made.json()
    assert order["input"]["invoice"].keys() == {"name", "bytes", "sha256"}
    assert (order["title"], order["repository_url"]) == ("Book an invoice: frames.xml", "")
    drive(WorkOrder.objects.get())
    asked = client.get(f"/api/v1/work-orders/{order['id']}/pause-state").json()
    assert (asked["pause_phase"], asked["required_inputs"]["required"]) == (
        "missing_supplier_data",
        ["BT-31", "BT-84"],
    )
    assert asked["answers"] == ["answer", "reject", "cancel"]
    assert (
        client.get(f"/api/v1/work-orders/{order['id']}").json()["current_phase"]
        == "missing_supplier_data"
    )
    path = f"/api/v1/pauses/{asked['id']}/decisions"
    refused = client.post(
        path, {"decision": "answer", "input": {"BT-31": "nonsense", "BT-1": "x"}}, format="json"
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "input_invalid")
    assert refused.json()["errors"].keys() == {"input", "input.BT-1", "input.BT-31", "input.BT-84"}
    assert Pause.objects.open().count() == 1
    done = client.post(path, {"decision": "answer", "input": STEEL, "revision": 1}, format="json")
    assert (done.status_code, done.json()["input"]) == (201, STEEL)
    assert (drive(WorkOrder.objects.get()).status, len(house.ledger())) == ("completed", 3)
    decision = Decision.objects.get(action="answer")
    assert decision.digest == decision.compute_digest()
    Decision.objects.filter(pk=decision.pk).update(payload={"BT-84": "DE00"})
    changed = Decision.objects.get(action="answer")
    assert changed.compute_digest() != changed.digest


def test_the_routes_of_an_order_and_of_a_run_take_the_data_too(house, api, ana):
    """S4-33 and S0-10 end in the same validator (S3-48)."""
    client = api(ana)
    first, second = house.book(invoices.without_vat_id()), house.book(invoices.unknown_supplier())
    assert (
        client.post(
            f"/api/v1/work-orders/{first.shown_id}/resume", {"decision": "answer"}, format="json"
        ).status_code
        == 422
    )
    body = {"decision": "answer", "input": STEEL}
    assert (
        client.post(f"/api/v1/work-orders/{first.shown_id}/resume", body, format="json").status_code
        == 200
    )
    path = f"/api/v1/runs/{second.latest_run.shown_id}/input"
    assert client.post(path, {"input": {"supplier": "4"}}, format="json").json()[
        "errors"
    ].keys() == {"input.supplier", "input.assign"}
    given = {"supplier": "79999", "assign": {"1": "6335/110"}}
    assert client.post(path, {"input": given}, format="json").status_code in {200, 201, 202}
    assert (drive(first).status, drive(second).status) == ("completed", "completed")


def test_an_order_without_a_file_that_can_be_taken_is_refused(house, api, ana, subtests):
    cases: list[tuple[Any, ...]] = [
        ({}, "invoice"),
        ({"invoice": {}}, "invoice"),
        ({"invoice": "text"}, "invoice"),
        ({"invoice": {"content": "not base64!"}}, "invoice"),
        ({"invoice": {"content": ""}}, "invoice"),
        ({"invoice": {"content": "QQ==", "path": "/x"}}, "invoice"),
        ({"invoice": {"path": "/etc/passwd"}}, "invoice"),
        ({"invoice": {"path": "inbox/paper-and-toner.xml"}}, "invoice"),
        ({"invoice": {"path": "/\x00"}}, "invoice"),
        ({"invoice": {"path": "/\ud800"}}, "invoice"),
        ({"invoice": {"content": "QQ==", "name": "x" * 201}}, "invoice.name"),
    ]
    for given, field in cases:
        with subtests.test(ascii(given)[:60]):
            response = create(api(ana), **given)
            assert (response.status_code, response.json()["code"]) == (422, "input_invalid")
            assert field in response.json()["errors"]
            assert not WorkOrder.objects.exists()


def test_a_file_is_taken_by_path_from_an_allowed_folder_only(house, api, ana, tmp_path):
    """Links out, a pipe, a folder and what is not there are refused in words."""
    inbox = tmp_path / "inbox"
    (tmp_path / "secret.xml").write_bytes(to_ubl(invoices.correct()))
    (inbox / "link.xml").symlink_to(tmp_path / "secret.xml")
    (inbox / "empty.xml").touch()
    os.mkfifo(inbox / "pipe.xml")
    (inbox / "huge.xml").write_bytes(b" " * 5_000_001)
    for name in ("link.xml", "pipe.xml", "gone.xml", "empty.xml", "huge.xml", "../secret.xml", ""):
        response = create(api(ana), invoice={"path": f"{inbox}/{name}"})
        assert (response.status_code, list(response.json()["errors"])) == (422, ["invoice"]), name
    outside = create(api(ana), invoice={"path": str(tmp_path / "secret.xml")}).json()["detail"]
    nothing = create(api(ana), invoice={"path": str(tmp_path / "nothing.xml")}).json()["detail"]
    assert outside.replace("secret", "nothing") == nothing
    assert create(api(ana), invoice={"path": str(inbox / "paper-and-toner.xml")}).status_code == 201
    order = drive(WorkOrder.objects.get())
    assert (order.status, order.input["invoice"]["name"]) == ("completed", "paper-and-toner.xml")
    (inbox / "paper-and-toner.xml").unlink()
    assert state_of(order)["outcome"] == "posted"


def test_an_invoice_is_sent_with_the_form_and_the_question_answered_without_javascript(house, page):
    shown = page.get("/work-orders/new?template=smart-booking").content.decode()
    assert 'enctype="multipart/form-data"' in shown
    assert 'type="file"' in shown
    assert "Repository" not in shown
    upload = SimpleUploadedFile(
        "hosting.pdf", to_pdf(invoices.without_vat_id()), content_type="application/pdf"
    )
    made = page.post("/work-orders/new", {"template": "smart-booking", "input.invoice": upload})
    assert made.status_code == 302, made.content.decode()
    order = drive(WorkOrder.objects.get())
    assert order.title == "Book an invoice: hosting.pdf"
    shown = page.get(made["Location"]).content.decode()
    for words in (
        "Missing supplier data",
        "VAT id of the seller (BT-31)",
        "hosting.pdf, ",
        "Send the data",
        "Reject the invoice",
    ):
        assert words in shown, words
    pause = pause_of(order)
    answer = {
        "action": "answer",
        "revision": "1",
        "input.BT-31": "wrong",
        "input.BT-84": invoices.STEEL_IBAN,
    }
    again = page.post(decide_url(pause), answer)
    assert again.status_code == 422
    text = again.content.decode()
    assert "isn&#x27;t a valid VAT id of the seller (BT-31)" in text
    assert f'value="{invoices.STEEL_IBAN}"' in text
    assert pause_of(order).pk == pause.pk
    assert page.post(decide_url(pause), {**answer, "input.BT-31": "ATU12345675"}).status_code == 302
    assert (drive(order).status, len(house.ledger())) == ("completed", 3)


def decide_url(pause):
    return reverse("hitl:decide", args=[pause.pk])


def test_forty_seven_of_fifty_lines_are_approved_on_the_page(house, page):
    """S3-50: nested fields; those left empty are not sent."""
    order = house.book(invoices.fifty_lines())
    shown = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert shown.index('name="input.send_back.2"') < shown.index('name="input.send_back.10"')
    assert shown.count('name="input.send_back.') == 50
    fields = {f"input.send_back.{number}": "" for number in range(1, 51)} | {
        "input.send_back.7": "Wrong price"
    }
    assert (
        page.post(
            decide_url(pause_of(order)), {"action": "approve", "revision": "1", **fields}
        ).status_code
        == 302
    )
    assert Decision.objects.get().payload == {"send_back": {"7": "Wrong price"}}
    order = drive(order)
    assert len([row for row in house.ledger() if row["position"].startswith("line")]) == 49
    assert (
        'name="input.lines.7.explanation"'
        in page.get(f"/work-orders/{order.shown_id}/").content.decode()
    )
    answer = {"input.lines.7.answer": "confirmed", "input.lines.7.explanation": "It is right."}
    assert (
        page.post(
            decide_url(pause_of(order)), {"action": "answer", "revision": "1", **answer}
        ).status_code
        == 302
    )
    drive(order)
    assert (
        page.post(decide_url(pause_of(order)), {"action": "approve", "revision": "2"}).status_code
        == 302
    )
    assert drive(order).status == "completed"


def test_a_form_without_a_usable_file_says_what_to_change(house, page, subtests):
    def file(name: str, content: bytes) -> dict[str, Any]:
        return {"input.invoice": SimpleUploadedFile(name, content)}

    for fields, words in [
        ({}, "Choose a file."),
        ({"input.invoice.path": "/etc/passwd"}, "is not inside a folder whose files may be used"),
        (file("empty.xml", b""), "The file is empty."),
        (file("huge.xml", b" " * 5_000_001), "up to 5,000,000 can be taken"),
        (file("a.xml", b"<a/>") | {"input.invoice.path": "/x"}, "not both"),
    ]:
        with subtests.test(words):
            response = page.post("/work-orders/new", {"template": "smart-booking", **fields})
            assert response.status_code == 422
            assert words in response.content.decode()
            assert not WorkOrder.objects.exists()


def test_what_an_invoice_says_is_escaped_on_the_page(house, page):
    """In the text, the facts and the labels of the form."""
    evil = "<script>alert(1)</script>"
    invoice = invoices.unknown_supplier()
    lines = (replace(invoice.lines[0], name=evil),)
    order = house.book(
        replace(invoice, lines=lines, number=evil, seller=replace(invoice.seller, name=evil))
    )
    shown = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)" in shown


def test_the_command_answers_with_data(house):
    order = house.book(invoices.without_vat_id())

    def run(*arguments):
        out = StringIO()
        call_command("workorder", "--user", "ana", *arguments, stdout=out)
        return out.getvalue()

    for wrong, words in (
        (None, "This is needed."),
        ("[]", "--input is a JSON object"),
        ("{", "--input is no JSON"),
    ):
        with pytest.raises(CommandError, match=words):
            run("approve", order.shown_id, *(["--input", wrong] if wrong else []))
    run("approve", order.shown_id, "--input", json.dumps(STEEL))
    assert drive(order).status == "completed"


def test_an_order_by_command_names_the_file(house, tmp_path):
    out = StringIO()
    path = str(tmp_path / "inbox" / "paper-and-toner.xml")
    call_command(
        "workorder",
        "--user",
        "ana",
        "create",
        "--template",
        "smart-booking",
        "--input",
        json.dumps({"invoice": {"path": path}}),
        stdout=out,
    )
    assert fresh(WorkOrder.objects.get()).shown_id == out.getvalue().strip()


def test_a_thread_says_that_this_template_wants_an_order(house, api, ana):
    """A thread's run would carry the file in its input."""
    client = api(ana)
    thread = client.post("/api/v1/threads", {"title": "x"}, format="json").json()["id"]
    body = {
        "template": "smart-booking",
        "input": {"invoice": {"content": base64.b64encode(b"x").decode()}},
    }
    response = client.post(f"/api/v1/threads/{thread}/runs", body, format="json")
    assert (response.status_code, "make a work order" in response.json()["detail"]) == (422, True)
    assert 'value="smart-booking"' not in str(MessageForm(first=True, user=ana)["template"])


def test_the_admin_says_why_it_cannot_approve_without_the_inputs(
    house, client, django_user_model, team
):
    olga = django_user_model.objects.create_superuser("olga", password="x")
    olga.groups.add(team)
    client.force_login(olga)
    order = house.book(invoices.without_vat_id())
    pause = pause_of(order)
    body = {
        "action": "approve",
        "_selected_action": [str(pause.pk)],
        "confirmed": "1",
        f"revision_{pause.shown_id}": "1",
    }
    shown = client.post("/admin/runs/pause/", body, follow=True).content.decode()
    assert "is not an answer here" in shown
    assert pause_of(order).status == "open"
