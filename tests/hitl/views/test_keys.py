"""Whether single keys act is a person's own choice."""

from __future__ import annotations

import pytest
from django.test import Client

from hitl.models import Preference
from tests.worlds.people import person

pytestmark = pytest.mark.django_db
OFF, ON = 'value="off">', 'value="on">'


def browser_of(who):
    client = Client()
    client.force_login(who)
    return client


def test_who_switches_single_keys_off_has_none_in_any_browser_and_others_keep_theirs():
    """Before: the choice was one browser's, and the next one approved by `a` again."""
    ada, ben = person("ada"), person("ben")
    first, second = browser_of(ada), browser_of(ada)
    page = first.get("/threads/").content.decode()
    assert OFF in page and "<body>" in page
    answer = first.post("/keys", {"single_keys": "off", "next": "/threads/"})
    assert (answer.status_code, answer["Location"]) == (302, "/threads/")
    for client in (first, second):
        page = client.get("/threads/").content.decode()
        assert ON in page and '<body class="no-keys">' in page
    assert "<body>" in browser_of(ben).get("/threads/").content.decode()
    second.post("/keys", {"single_keys": "on"})
    assert "<body>" in first.get("/threads/").content.decode()
    assert Preference.objects.get().person == ada


def test_the_switch_goes_back_to_pages_of_ours_alone_and_takes_no_other_word():
    client = browser_of(person("ada"))
    for place in ("https://elsewhere.example/", "//elsewhere.example/", ""):
        answer = client.post("/keys", {"single_keys": "perhaps", "next": place})
        assert (answer.status_code, answer["Location"]) == (302, "/")
    assert not Preference.objects.exists()
    assert client.get("/keys").status_code == 405


def test_a_stranger_and_a_form_of_another_site_switch_nothing():
    assert Client().post("/keys", {"single_keys": "off"})["Location"].startswith("/login")
    forged = Client(enforce_csrf_checks=True)
    forged.force_login(person("ada"))
    assert forged.post("/keys", {"single_keys": "off"}).status_code == 403
    assert not Preference.objects.exists()


def test_the_choice_comes_with_the_account_and_costs_no_query(django_assert_max_num_queries):
    client = browser_of(person("ada"))
    client.post("/keys", {"single_keys": "off"})
    with django_assert_max_num_queries(60) as asked:
        client.get("/threads/")
    assert not [one for one in asked if one["sql"].startswith('SELECT "hitl_preference"')]


def test_what_has_a_key_says_so_and_only_where_single_keys_act(page, paused):
    """Axe names controls by their keys; who switched single keys off is told of none."""
    place = f"/work-orders/{paused.shown_id}/"
    shown = page.get(place).content.decode()
    for key in ("A", "R", "X", "Control+Enter", "Control+K", "?"):
        assert f'aria-keyshortcuts="{key}"' in shown, key
    assert '<a class="skip" href="#decision">' in shown and 'id="decision"' in shown
    page.post("/keys", {"single_keys": "off"})
    shown = page.get(place).content.decode()
    assert 'aria-keyshortcuts="A"' not in shown and 'aria-keyshortcuts="Control+K"' in shown


def test_the_lines_for_newcomers_stay_closed_for_who_closed_them():
    ada, ben = person("ada"), person("ben")
    browser = browser_of(ada)
    assert "Here work waits for people" in browser.get("/").content.decode()
    assert browser.get("/welcome").status_code == 405
    assert browser.post("/welcome")["Location"] == "/"
    assert "Here work waits for people" not in browser.get("/").content.decode()
    browser.force_login(ben)
    assert "Here work waits for people" in browser.get("/").content.decode()
