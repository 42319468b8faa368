"""The request to a supplier is a template that operators edit (S3-50)."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from extensions.booking.configuration import LETTERS
from runs.models import Pause, StepTemplate
from runs.workflows import letters
from tests.conftest import pause_of
from tests.extensions.booking.houses import house as house
from tests.worlds.books import invoices
from tests.worlds.books.booking import House

pytestmark = pytest.mark.django_db
URL = "/templates/steps/booking-decide/texts"
TEXT = "Liebe {{supplier}},\n\nes fehlt auf {{invoice}}:\n\n{{missing}}"


@pytest.fixture
def operator(zoe) -> Client:
    zoe.user_permissions.add(Permission.objects.get(codename="add_steptemplate"))
    client = Client()
    client.force_login(zoe)
    return client


def newest() -> StepTemplate:
    return StepTemplate.objects.filter(slug="booking-decide").latest("version")


def form(**texts: str) -> dict[str, object]:
    return {
        "version": newest().version,
        **{name: letter.usual for name, letter in LETTERS.items()},
        **texts,
    }


def asked(house: House) -> Pause:
    return pause_of(house.book(invoices.without_vat_id()))


def test_the_shipped_text_is_a_template_and_what_operators_write_is_what_suppliers_read(
    house, operator
):
    """S3-50: the request to the supplier was fixed in code."""
    first = asked(house)
    assert "{{missing}}" in newest().config["texts"]["request"]
    assert "Dear Stahlbau Huber KG," in first.content
    assert (
        'href="/templates/steps/booking-decide/texts"'
        in operator.get("/templates/smart-booking/").content.decode()
    )
    assert (
        operator.post(URL, form(request=TEXT, request_subject="Fehlt: {{names}}")).status_code
        == 302
    )
    second = asked(house)
    assert "    Liebe Stahlbau Huber KG," in second.content
    assert second.outside["question"] == "Fehlt: VAT id of the seller, IBAN to pay to"
    assert second.outside["content"].startswith("Liebe Stahlbau Huber KG,\n\nes fehlt auf invoice")
    assert "(BT\\-31)" in second.outside["content"] or "BT\\-31" in second.outside["content"]
    first.refresh_from_db()
    assert "Dear Stahlbau Huber KG," in first.content


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"request": "Dear {{whoever}}: {{missing}}"}, "Nothing stands for {{whoever}}"),
        ({"request": "Please pay."}, "It must hold {{missing}}"),
        ({"lines": "x" * 5000}, "at most 4000 characters"),
    ],
)
def test_a_text_that_could_not_be_sent_is_refused_beside_its_field(house, operator, texts, words):
    """S3-50."""
    before = newest().version
    refused = operator.post(URL, form(**texts))
    assert (refused.status_code, newest().version) == (422, before)
    assert words in refused.content.decode()


def test_over_rest_the_same_texts_are_taken_and_refused(house, ana, api):
    """S3-50: one rule for the page and the API."""
    ana.user_permissions.add(Permission.objects.get(codename="add_steptemplate"))
    kind, client = newest(), api(ana)
    body = {"title": kind.title, "function": kind.function, "config": {"texts": {"request": TEXT}}}
    url = "/api/v1/templates/steps/booking-decide"
    assert client.put(url, body, format="json").status_code == 200
    refused = client.put(
        url,
        {**body, "config": {"texts": {"request": "{{nobody}} {{missing}}", "reqest": "x"}}},
        format="json",
    )
    assert refused.status_code in {400, 422}
    assert set(refused.json()["errors"]) == {"config.texts.request", "config.texts.reqest"}


def test_what_another_saved_meanwhile_is_not_overwritten_and_who_may_not_changes_nothing(
    house, operator, ana
):
    """S3-50, F9."""
    old = form(request=TEXT)
    assert operator.post(URL, form(lines="Bitte: {{lines}}")).status_code == 302
    assert operator.post(URL, old).status_code == 422
    reader = Client()
    reader.force_login(ana)
    before = newest().version
    assert reader.post(URL, form(request=TEXT)).status_code == 403
    assert (newest().version, reader.get(URL).status_code) == (before, 200)
    assert (
        "This step sends no texts"
        in operator.get("/templates/steps/booking-post/texts").content.decode()
    )


def test_values_are_not_filled_in_twice_and_empty_paragraphs_go():
    """S3-50: a supplier called {{missing}} would be told what is missing in its greeting."""
    told = {
        "supplier": "{{missing}}",
        "again": "",
        "invoice": "1",
        "issued": "2",
        "names": "",
        "missing": "- x",
    }
    assert (
        letters.fill(
            LETTERS, "request", {"request": "Dear {{supplier}},\n\n{{again}}\n\n{{missing}}"}, told
        )
        == "Dear {{missing}},\n\n- x"
    )
