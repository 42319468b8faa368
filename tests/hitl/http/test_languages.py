"""Pages speak a person's language, programs are answered in English (issue 19, 7)."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from django.test import Client
from django.utils import translation

from checkpoints.text import dates
from hitl.forms.json_schema import SchemaForm
from hitl.identity import languages
from hitl.models import Preference
from hitl.rendering.moments import ago, ahead
from tests.conftest import drive
from tests.worlds.people import person

pytestmark = pytest.mark.django_db
GERMAN, ENGLISH = '<html lang="de">', '<html lang="en">'
NOON = dt.datetime(2026, 7, 7, 12, 0, 5, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("cookie", "header", "default", "html"),
    [
        ("", "", "en", ENGLISH),
        ("", "", "de", GERMAN),
        ("", "de-AT,en;q=0.5", "en", GERMAN),
        ("", "fr, de;q=0.3", "en", GERMAN),
        ("", "fr, *", "de", GERMAN),
        ("en", "de", "de", ENGLISH),
        ("de", "en", "en", GERMAN),
        ("xx", "de", "en", GERMAN),
        ("../../etc", "\udcff;;q=,", "en", ENGLISH),
    ],
)
def test_a_choice_comes_before_the_browsers_wish_and_that_before_the_setting(
    settings, cookie, header, default, html
):
    settings.WAYSTATION_LANGUAGE = default
    client = Client(headers={"accept-language": header})
    client.cookies["django_language"] = cookie
    response = client.get("/login")
    assert html in response.content.decode()
    assert "Accept-Language" in response["Vary"]
    assert response["Content-Language"] == html[12:14]
    assert translation.get_language() == "en", "nothing of it stays behind"


def test_the_switch_in_the_foot_keeps_a_choice_and_goes_back_to_the_page():
    client = Client(enforce_csrf_checks=True)
    page = client.get("/login?next=/threads/").content.decode()
    assert 'value="/login?next=/threads/"' in page
    assert client.get("/language?language=de").status_code == 405
    data = {"language": "de", "next": "/login?next=/threads/"}
    assert client.post("/language", data).status_code == 403, "it needs the token of a page"
    token = client.cookies["csrftoken"].value
    answer = client.post("/language", {**data, "csrfmiddlewaretoken": token})
    assert (answer.status_code, answer["Location"]) == (302, data["next"])
    assert GERMAN in client.get("/login").content.decode()
    data |= {"csrfmiddlewaretoken": token, "next": "https://elsewhere.example/", "language": "en"}
    assert client.post("/language", data)["Location"] == "/", "never to another host"


def test_a_choice_goes_with_the_person_into_the_next_browser_and_their_mails():
    ada, ben = person("ada"), person("ben")
    first = Client()
    first.force_login(ada)
    first.post("/language", {"language": "de", "next": "/"})
    first.post("/language", {"language": "xx", "next": "/"})
    assert [(row.person, row.language) for row in Preference.objects.all()] == [(ada, "de")]
    Client().post("/language", {"language": "de", "next": "/"})
    assert Preference.objects.count() == 1, "of a stranger the browser alone keeps it"
    for who, cookie, html in [(ada, "", GERMAN), (ada, "en", ENGLISH), (ben, "", ENGLISH)]:
        browser = Client()
        if cookie:
            browser.cookies["django_language"] = cookie
        browser.post(
            "/login", {"username": who.username, "password": f"{who.username}'s long password"}
        )
        assert html in browser.get("/threads/").content.decode()
    for key, language in [(ada.pk, "de"), (ben.pk, "en"), (None, "en")]:
        with languages.spoken_to(key):
            assert translation.get_language() == language


def test_the_admin_names_tables_columns_and_help_in_the_readers_language():
    """Most of these names Django makes from the fields'; nothing marks them one by one."""
    client = Client(headers={"accept-language": "de"})
    client.force_login(person("root", is_staff=True, is_superuser=True))
    page = client.get("/admin/runs/workorder/").content.decode()
    assert "Aufträge" in page
    form = client.get("/admin/runs/repository/add/").content.decode()
    assert "Ein lokaler Pfad in den erlaubten Ordnern" in form
    assert "Regel fürs Pushen" in form or "Prüfbefehl" in form
    english = client.get("/admin/runs/repository/add/", headers={"accept-language": "en"})
    assert "A local path inside the allowed folders" in english.content.decode()


def test_numbers_for_browsers_have_points_in_every_language(make_order, ana):
    """A German comma within an attribute is no number: pictures fell apart (seen in a browser)."""
    order = drive(make_order("writing-quick"))
    client = Client(headers={"accept-language": "de"})
    client.force_login(ana)
    page = client.get(f"/work-orders/{order.shown_id}/picture").content.decode()
    assert GERMAN in page and "Wohin die Zeit ging" in page
    drawn = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert re.search(r'x="\d+\.\d+"', drawn)
    assert not re.findall(r'\s[\w-]+="[\d ]*\d,\d[\d, ]*"', drawn)
    with translation.override("de"):
        schema = {"type": "object", "properties": {"net": {"type": "number"}}}
        [field] = SchemaForm(schema, initial={"net": 1234.5}).fields
        assert field.value == "1234.5"


def test_programs_are_answered_in_english():
    """Their `code` is what is compared; the text beside it must not hang on who asks."""
    answer = Client(headers={"accept-language": "de"}).get("/api/v1/pauses")
    assert "Authentication credentials were not provided." in answer.content.decode()
    assert "Content-Language" not in answer


def test_the_words_of_the_scripts_may_be_kept_for_ever_and_english_has_none():
    client = Client(headers={"accept-language": "de"})
    client.force_login(person("ada"))
    page = client.get("/threads/").content.decode()
    place = page.split('<script src="')[1].split('"')[0]
    assert place.startswith("/words.js?language=de&amp;v=")
    answer = client.get(place.replace("&amp;", "&"))
    assert "immutable" in answer["Cache-Control"] and "gerade eben" in answer.content.decode()
    english = client.get("/threads/", headers={"accept-language": "en"}).content.decode()
    assert "/words.js" not in english
    assert client.get("/words.js?language=xx").status_code == 404


@pytest.mark.parametrize(
    ("language", "shown", "past", "coming"),
    [
        ("en", "7 Jul 2026, 12:00", "3 minutes ago", "in 1 hour"),
        ("de", "07.07.2026, 12:00", "vor 3 Minuten", "in 1 Stunde"),
    ],
)
def test_each_language_has_one_style_of_dates(monkeypatch, language, shown, past, coming):
    monkeypatch.setattr("checkpoints.database.clock.now", lambda: NOON)
    with translation.override(language):
        assert dates.shown(NOON) == shown
        assert dates.told(NOON, exact=True) == f"{shown}:05 UTC"
        assert ago(NOON - dt.timedelta(seconds=200)) == past
        assert ahead(NOON + dt.timedelta(seconds=4000)) == coming
