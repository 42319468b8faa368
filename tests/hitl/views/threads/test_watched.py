"""The page of an order at work is written once for all who watch it, and shows each of them what
their own page does.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.template import loader
from django.test import Client

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.views import orders
from hitl.views.threads import watched
from runs.models import WorkOrder
from runs.services import resubmit
from tests.conftest import drive, fresh, pause_of
from tests.hitl.live.sockets import write
from tests.worlds.ruled_order import browser
from tests.worlds.ruled_order import ruled as ruled
from tests.worlds.scripted_step import fails_in_code
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
MORE = re.compile(r'<p class="more" data-live="more">.*?</p>', re.S)
OWN = re.compile(r'( data-every="\d+"|name="csrfmiddlewaretoken" value="\w+")')


@pytest.fixture(autouse=True)
def _nothing_is_known():
    watched._written.clear()
    watched._may_change.clear()


@pytest.fixture
def root(db):
    return User.objects.create_superuser("root")


def told(text: str) -> str:
    """A page without what is everybody's own, and without empty lines."""
    return re.sub(r"\s*\n\s*", "\n", OWN.sub("", MORE.sub("", text)))


def at_work(make_order: Any, **more: Any) -> Any:
    return make_order(**more)


def failed(make_order: Any, **more: Any) -> WorkOrder:
    order = drive(make_order(**more))
    services.decide(pause_of(order).pk, Answer("cancel", Via.PAGE), by=order.created_by)
    return order


def begun_again(make_order: Any, **more: Any) -> WorkOrder:
    order = failed(make_order, **more)
    resubmit.ask_again(order.pk, by=order.created_by)
    return order


@pytest.mark.parametrize("made", [at_work, failed, begun_again])
def test_each_is_shown_what_their_own_page_shows(made, make_order, ana, ben, root, subtests):
    """P3, F4: who asked for it, a colleague, an operator; in two languages."""
    order = made(make_order)
    page = f"/work-orders/{order.shown_id}/"
    for one in (ana, ben, root, ben, ana):
        for language in ("en", "de"):
            with subtests.test(who=one.username, language=language):
                own, shared = (
                    browser(one).get(f"{page}?{query}", headers={"accept-language": language})
                    for query in ("live", "live=work")
                )
                assert "data-every" in shared.content.decode()
                assert told(own.content.decode()) == told(shared.content.decode())


def test_who_was_only_asked_sees_as_little_as_before(ruled, ana, ben):
    """Of an order that a colleague has just been shown whole."""
    cleo = User.objects.create_user("cleo")
    order = ruled({"reviewers": {"users": ["cleo"]}})
    services.decide(pause_of(order).pk, Answer("cancel", Via.PAGE), by=ana)
    page = f"/work-orders/{order.shown_id}/"
    whole = browser(ben).get(f"{page}?live=work").content.decode()
    part = browser(cleo).get(f"{page}?live=work").content.decode()
    assert "Search and download" in whole
    assert "Search and download" not in part
    assert told(part) == told(browser(cleo).get(f"{page}?live").content.decode())


def test_it_is_written_once_and_anew_behind_each_event(make_order, ben):
    order = make_order()
    page, written = f"/work-orders/{order.shown_id}/?live=work", []

    def count(*args, **kwargs):
        written.append(args)
        return real(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        real = loader.render_to_string
        patch.setattr(loader, "render_to_string", count)
        patch.setattr(watched, "AGAIN", 60.0)  # however slow this machine is
        shown = [browser(one).get(page).content.decode() for one in (ben, ben, ben)]
        assert len(written) == 1
        write(order, "something new")
        behind = browser(ben).get(page).content.decode()
        assert (told(behind), len(written)) == (told(shown[0]), 1)
        assert f'data-seq="{fresh(order).thread.last_seq - 1}"' in behind, "it says as of when"
        patch.setattr(watched, "AGAIN", 0.0)
        assert "something new" in browser(ben).get(page).content.decode()
        assert len(written) == 2
        patch.setattr(watched, "FOR", 0.0)
        browser(ben).get(page)
        assert len(written) == 3


def test_each_gets_a_token_of_their_own_that_counts(make_order, ana, ben):
    order = make_order()
    page = f"/work-orders/{order.shown_id}/"
    clients = [Client(enforce_csrf_checks=True) for _ in range(2)]
    tokens = []
    for client, one in zip(clients, (ana, ben), strict=True):
        client.force_login(one)
        assert watched.TOKEN not in client.get(f"{page}?live=work").content.decode()
        shown = client.get(f"{page}suspend").content.decode()
        tokens += re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', shown)[-1:]
    sent = [(0, 0), (1, 1), (0, 1)]
    answers = [
        clients[of].post(f"{page}suspend", {"csrfmiddlewaretoken": tokens[whose]})
        for of, whose in sent
    ]
    assert [answer.status_code for answer in answers] == [302, 302, 403]


def test_what_an_agent_wrote_is_given_nobodys_token(make_order, ben):
    """A link or a line that held what stands for the token was given that of its reader."""
    order = make_order(title=f"Look at {watched.TOKEN} and {watched.TOKEN}")
    write(order, f"https://example.org/?{watched.TOKEN}")
    shown = browser(ben).get(f"/work-orders/{order.shown_id}/?live=work").content.decode()
    assert "csrfmiddlewaretoken" not in shown
    assert shown.count("&lt;token&gt;") >= 3
    assert watched.TOKEN not in shown


def test_who_lost_the_right_between_two_looks_is_shown_nothing(make_order, ben, zoe, team):
    """P3."""
    order = make_order()
    page = f"/work-orders/{order.shown_id}/?live=work"
    assert browser(ben).get(page).status_code == 200
    assert browser(zoe).get(page).status_code == 404
    ben.groups.remove(team)
    assert browser(ben).get(page).status_code == 404


def test_where_the_code_failed_is_shown_to_those_alone_who_may_read_tracebacks(
    order_that, ana, ben, team
):
    """P3: a page that is written once for all has it for nobody, whoever it was written for."""
    dev = User.objects.create_user("dev")
    dev.groups.add(team)
    for right in ("view_run", "view_steptraceback"):
        dev.user_permissions.add(Permission.objects.get(codename=right))
    ben.user_permissions.add(Permission.objects.get(codename="view_run"))
    order = order_that(fails_in_code)
    kinds: dict[User, Any] = {
        one: orders.WRITER.kind_of(one, order.thread_id, "en") for one in (ana, ben, dev)
    }
    assert kinds[dev] != kinds[ben], "before it is known whether the work will fail"
    assert all(orders.WRITER.write(kind) for kind in kinds.values())
    drive(order)
    assert orders.WRITER.write(kinds[dev]) is None, "which has them fetch their own"
    here, trace = "scripted_step.py", f"/operations/failures/{order.latest_run.shown_id}/"
    for kind in (kinds[ana], replace(kinds[ben], by=dev.pk)):
        written = orders.WRITER.write(kind)
        assert written is not None
        _, told_to_all = written
        assert "This work order failed" in told_to_all
        assert here not in told_to_all
    for query in ("", "?live", "?live=work"):
        for one in (dev, ben, ana, dev):
            page = browser(one).get(f"/work-orders/{order.shown_id}/{query}").content.decode()
            assert "This work order failed" in page
            assert (here in page, trace in page) == (one is dev, one is dev), (one, query)
    assert "fails_in_code" in browser(dev).get(trace).content.decode()


def test_a_page_with_a_question_is_everybodys_own(make_order, ben):
    order = drive(make_order())
    page = f"/work-orders/{order.shown_id}/?live=work"
    shown = browser(ben).get(page).content.decode()
    assert "data-pause" in shown
    assert "data-every" not in shown
    assert not watched._written
