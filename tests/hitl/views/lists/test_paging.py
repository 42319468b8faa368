"""Every list of every page, with more rows than a page holds: nothing is cut without a word, and
links lead through all of it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import ids, lineage, store
from checkpoints.events import log
from checkpoints.models import EventKind
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.live import inbox_feed
from hitl.models import ApiToken, Delegation, Snooze, Via
from hitl.models.outbound import Channel, Delivery, DeliveryStatus, Endpoint, Occasion
from hitl.operations import changed_code, dashboard
from hitl.rendering.paging import ListAddress, ListOrder, NoSuchPlace, RowPosition
from hitl.views import (
    artifacts,
    delegations,
    inbox,
    orders,
    outbound,
    story,
    tokens,
)
from hitl.views.lists import history
from hitl.views.threads import chat
from hitl.views.threads import pages as threads
from runs.models import Artifact, Pause
from runs.states import RunStatus
from runs.threads import turns as turns
from tests.hitl.views.lists.copied_rows import World
from tests.worlds.people import person

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)
QUESTION = re.compile(r'data-row="(pse_\w+)"')


def text(response: Any) -> str:
    assert response.status_code == 200, response
    return str(response.content.decode())


def walk(page: Client, address: str, name: str) -> Iterator[str]:
    """The pages of a list, by the links that a reader would follow."""
    for _ in range(50):
        shown = text(page.get(address))
        yield shown
        links = [
            found.replace("&amp;", "&") for found in re.findall(r'rel="next" href="([^"]+)"', shown)
        ]
        following = [found for found in links if re.search(rf"[?&]{name}=", found)]
        if not following:
            return
        address = urljoin(address, following[0].split("#")[0])
    raise AssertionError("it has no end")


@pytest.fixture
def world(ana, ben, paused, make_order) -> World:
    ana.is_superuser = True
    ana.save()
    return World(ana, ben, paused, make_order)


def questions(world: World) -> tuple[str, str]:
    world.asked(5)
    return "/", r'data-row="(pse_\w+)"'


def answers(world: World) -> tuple[str, str]:
    closed = {
        "status": "expired",
        "deadline_at": timezone.now() - 2 * HOUR,
        "extendable_until": timezone.now() - HOUR,
    }
    # two at each moment
    world.asked(
        6, closed_at=lambda n: timezone.now() - HOUR + dt.timedelta(seconds=n // 2), **closed
    )
    return "/", r'data-of="(pse_\w+)"'


def hidden(world: World) -> tuple[str, str]:
    for pause in world.asked(5):
        Snooze.objects.create(pause=pause, person=world.ana, until=timezone.now() + HOUR)
    return "/", r">(Question \d)\?</a>\s*<p>"


def work_orders(world: World) -> tuple[str, str]:
    made = world.copies(world.order.thread, 5, head_id=None)
    world.copies(world.order, 5, thread_id=lambda n: made[n].pk, latest_run_id=None)
    return "/work-orders/", r'main-link" href="(/work-orders/wo_\w+/)'


def thread_rows(world: World) -> tuple[str, str]:
    for number in range(5):
        turns.open_thread(by=world.ana, title=f"Talk {number}")
    return "/threads/", r'main-link" href="(/threads/thr_\w+/)'


def timeline(world: World) -> tuple[str, str]:
    facts = [(EventKind.STEP_STARTED, {"step": f"s{number}"}) for number in range(6)]
    log.append(
        world.order.thread_id,
        None,
        [*facts, *((EventKind.LOG, {"message": "noise"}) for _ in range(40))],
    )
    return f"/work-orders/{world.order.shown_id}/", r'<li id="event-(\d+)"'


def lines(world: World) -> tuple[str, str]:
    log.append(
        world.order.thread_id,
        None,
        [(EventKind.LOG, {"message": f"line {number}", "level": "info"}) for number in range(6)],
    )
    return f"/work-orders/{world.order.shown_id}/", r"<span>(line \d)"


def thread_runs(world: World) -> tuple[str, str]:
    thread = turns.open_thread(by=world.ana, title="Talk")
    run = world.order.latest_run
    assert run is not None
    world.copies(
        run,
        6,
        thread_id=thread.pk,
        work_order_id=None,
        status=RunStatus.CANCELLED,
        ended_at=timezone.now(),
    )
    return f"/threads/{thread.shown_id}/", r'<code title="(run_\w+)"'


def kept(world: World) -> tuple[str, str]:
    run = world.order.latest_run
    assert run is not None
    Artifact.objects.bulk_create(
        Artifact(
            thread_id=run.thread_id,
            run=run,
            step="plan",
            loop_num=1,
            name=f"note {n}",
            size=1,
            digest="0" * 64,
        )
        for n in range(6)
    )
    return f"/work-orders/{world.order.shown_id}/", r"plan,\s+(note \d)"


def spoken(world: World) -> tuple[str, str]:
    thread = turns.open_thread(by=world.ana, title="Talk")
    run = world.order.latest_run
    assert run is not None
    state = {
        "messages": [{"id": f"m{n}", "role": "user", "content": f"words {n}"} for n in range(7)]
    }
    (other,) = world.copies(
        run,
        1,
        thread_id=thread.pk,
        work_order_id=None,
        status=RunStatus.COMPLETED,
        ended_at=timezone.now(),
    )
    store.save(
        thread.pk,
        other.pk,
        state,
        store.Entry(status="completed", node_id="plan"),
        parent=None,
        before=None,
    )
    return f"/threads/{thread.shown_id}/", r"(words \d)"


def checkpoints(world: World) -> tuple[str, str]:
    head = world.order.thread.head
    assert head is not None
    world.copies(head, 6, status="active")  # each from the same one
    return f"/threads/{world.order.thread.shown_id}/history", r'<code title="(ckpt_\w+)"'


def token_rows(world: World) -> tuple[str, str]:
    ApiToken.objects.bulk_create(
        ApiToken(user=world.ana, name=f"token {n}", digest=f"{n:064}") for n in range(6)
    )
    return "/tokens/", r"<b>(token \d)</b>"


def given(world: World) -> tuple[str, str]:
    now = timezone.now()
    Delegation.objects.bulk_create(
        Delegation(
            from_user=world.ana,
            to_user=person(f"d{n}"),
            starts_at=now,
            ends_at=now + HOUR,
            created_by=world.ana,
        )
        for n in range(6)
    )
    return "/delegations/", r"End the delegation to (d\d)"


def delivered(world: World) -> tuple[str, str]:
    Delivery.objects.bulk_create(
        Delivery(
            pause=None, occasion=Occasion.TEST, channel=Channel.EMAIL, recipient=world.ana,
            status=DeliveryStatus.DEAD, place=f"to {n}",
            next_at=timezone.now(), made_at=timezone.now(), error=f"failed {n}",
        )
        for n in range(6)
    )  # fmt: skip
    return "/deliveries/?status=dead", r" · (failed \d)\s*</p>"


def stuck(world: World) -> tuple[str, str]:
    world.runs(6, status=RunStatus.PENDING, due_at=timezone.now() - HOUR)  # all at one moment
    return "/operations/", r"<p>\s*(run_\w+) · queue"


def workers(world: World) -> tuple[str, str]:
    far = timezone.now() + HOUR
    world.runs(6, status=RunStatus.RUNNING, lease_owner=lambda n: f"worker {n}", lease_until=far)
    return "/operations/", r"<b>(worker \d)</b>"


def held(world: World) -> tuple[str, str]:
    world.runs(
        6,
        status=RunStatus.PENDING,
        due_at=timezone.now() + HOUR,
        held_because=lambda n: f"held {n}",
    )
    slug = world.order.definition.template_slug
    return f"/operations/code/?template={slug}&reason=held", r"· (held \d)\s"


def places(world: World) -> tuple[str, str]:
    Endpoint.objects.bulk_create(
        Endpoint(
            owner=world.ana,
            channel=Channel.WEBHOOK,
            target=f"https://e{n}.example/",
            name=f"place {n}",
        )
        for n in range(6)
    )
    return "/notifications/", r"<b>(place \d)"


FILL = {
    # the list: rows for it, its name in addresses, what says how many rows a page has, and whether
    # each page is shown oldest first
    "inbox": (questions, "after", (inbox, "SHOWN"), False),
    "history": (answers, "past", (history, "HISTORY"), False),
    "hidden questions": (hidden, "hidden", (inbox, "SHOWN"), False),
    "work orders": (work_orders, "before", (orders, "PAGE"), False),
    "threads": (thread_rows, "before", (threads, "PAGE"), False),
    "timeline": (timeline, "events", (story, "TIMELINE"), False),
    "log": (lines, "log", (story, "LOG"), True),
    "conversation": (spoken, "said", (chat, "SHOWN"), True),
    "runs": (thread_runs, "runs", (threads, "RUNS"), False),
    "artifacts": (kept, "artifacts", (artifacts, "SHOWN"), True),
    "checkpoints": (checkpoints, "before", (lineage, "PAGE"), False),
    "tokens": (token_rows, "before", (tokens, "SHOWN"), False),
    "delegations": (given, "given", (delegations, "SHOWN"), False),
    "deliveries": (delivered, "before", (outbound, "PAGE"), False),
    "endpoints": (places, "after", (outbound, "PAGE"), False),
    "stuck runs": (stuck, "stuck", (dashboard, "SHOWN"), False),
    "workers": (workers, "workers", (dashboard, "SHOWN"), False),
    "held runs": (held, "after", (changed_code, "SHOWN"), False),
}


READ_BY_KEYS = ("inbox", "history", "timeline", "checkpoints")
"""One of each kind of key: a time or none, a time, a number, an id; all lists are read alike."""
LISTS = [
    pytest.param(name, marks=[pytest.mark.both_databases] if name in READ_BY_KEYS else [])
    for name in FILL
]


@pytest.mark.parametrize("name", LISTS)
def test_links_lead_through_all_of_a_list(world, page, monkeypatch, name):
    """The inbox ended at 100 of 468 without a word, history at 30, log and timeline at 200."""
    fill, param, (module, size), oldest_first = FILL[name]
    address, pattern = fill(world)
    with CaptureQueriesContext(connection) as all_of_it:
        (whole,) = (re.findall(pattern, shown) for shown in walk(page, address, param))
    assert len(whole) > 4 and len(set(whole)) == len(whole)
    monkeypatch.setattr(module, size, 2)
    walked = walk(page, address, param)
    with CaptureQueriesContext(connection) as one_page:
        shown = next(walked)
    second = next(walked)
    pages = [re.findall(pattern, each) for each in (shown, second, *walked)]
    assert len(pages) > 2 and all(len(rows) <= 2 for rows in pages)
    assert [row for rows in (pages[::-1] if oldest_first else pages) for row in rows] == whole
    assert len(all_of_it) <= len(one_page) + 2, (
        "as many queries for many rows as for few, but for the number of them all"
    )
    onward = {one for one in re.findall(r'rel="next" href="([^"]+)"', shown) if f"{param}=" in one}
    assert len(onward) == 1
    assert re.search(r'href="(?:[^"]*/)?(?:\?status=dead)?(?:[?]?#[a-z-]+)?">', second), (
        "the way back to the first page"
    )
    for nonsense in ("nonsense", "-1", "9" * 400, "\x00", "pse_0", "1.1.1", "é"):
        # checkpoints are looked up leniently; any name is one that a worker may have
        if name not in {"checkpoints", "workers"}:
            assert page.get(address.split("?")[0], {param: nonsense}).status_code == 404, nonsense


def bare(shown: str) -> str:
    """A page's words without what marks numbers among them."""
    return " ".join(re.sub(r"</?span[^>]*>", "", shown).split())


@pytest.mark.both_databases
def test_the_inbox_begins_with_what_is_due_soonest(world, page, monkeypatch):
    """Those without deadline come last."""
    late, soon = timezone.now() + HOUR, timezone.now() + dt.timedelta(minutes=4)
    far = {"extendable_until": late + HOUR}
    first, second = world.asked(2, deadline_at=late, **far)  # at one moment: the older one first
    (third,) = world.asked(1)
    (urgent,) = world.asked(1, deadline_at=soon, **far)
    wanted = [
        urgent.shown_id,
        first.shown_id,
        second.shown_id,
        world.pause.shown_id,
        third.shown_id,
    ]
    assert QUESTION.findall(next(walk(page, "/", "after"))) == wanted
    monkeypatch.setattr(inbox, "SHOWN", 2)
    assert [row for shown in walk(page, "/", "after") for row in QUESTION.findall(shown)] == wanted
    shown = text(page.get("/"))
    assert (
        "2 of 5 questions, the earliest due first. You can select questions on this page only."
    ) in bare(shown)
    told = inbox_feed.waiting_now([world.ana.pk])[0][world.ana.pk]
    assert [ids.show("pse", one) for one in told] == wanted


@pytest.mark.both_databases
def test_a_later_page_stays_where_it_is_and_counts_what_is_new(world, page, monkeypatch):
    """Rows that come and go before it neither repeat nor hide others."""
    monkeypatch.setattr(inbox, "SHOWN", 2)
    world.asked(5)
    first, second, _ = map(QUESTION.findall, walk(page, "/", "after"))
    shown = text(page.get("/"))
    onward = re.search(r'rel="next" href="([^"]+)"', shown)
    newest = re.search(r'data-newest="(pse_\w+)"', shown)
    assert onward and newest
    services.decide(ids.parse("pse", first[0]), Answer("cancel", Via.PAGE), by=world.ana)
    due = timezone.now() + HOUR
    # all of them on the first page now
    world.asked(3, deadline_at=due, extendable_until=due + HOUR)
    live = text(page.get(f"{onward[1]}&seen={newest[1]}&live"))
    assert re.findall(r'data-row="(pse_\w+)"', live) == second
    assert 'data-news="3"' in live and 'data-first="/"' in live
    assert "live" not in re.findall(r'rel="next" href="([^"]+)"', live)[0]
    assert page.get("/?seen=nonsense").status_code == 404


def test_kinds_and_history_keep_their_places_beside_each_other(world, page, monkeypatch):
    monkeypatch.setattr(inbox, "SHOWN", 2)
    monkeypatch.setattr(history, "HISTORY", 2)
    answers(world)
    Pause.objects.filter(status="expired").update(kind="input")
    world.asked(4, kind="input")
    shown = text(page.get("/?kind=input"))
    assert "2 of 4 questions" in bare(shown)
    links = [one.replace("&amp;", "&") for one in re.findall(r'rel="next" href="([^"]+)"', shown)]
    assert all("kind=input" in link for link in links)
    both = text(page.get(links[1].split("#")[0]))
    assert re.search(r'rel="next" href="/\?kind=input&amp;past=[^"&]+&amp;after=', both)
    assert len(re.findall(r'data-row="(pse_\w+)"', both)) == 2


def test_work_started_can_still_be_found(world, page):
    """Two hundred log lines pushed even "Work started" out of the timeline."""
    log.append(
        world.order.thread_id,
        None,
        [(EventKind.LOG, {"message": f"noise {n}", "level": "info"}) for n in range(300)],
    )
    shown = text(page.get(f"/work-orders/{world.order.shown_id}/"))
    assert "Work started" in shown
    assert ">earlier lines</a>" in shown


def test_a_list_on_a_page_that_a_post_answered_leads_back_to_the_page(world, page, monkeypatch):
    monkeypatch.setattr(story, "TIMELINE", 2)
    refused = page.post(
        f"/pauses/{world.pause.shown_id}/decide",
        {"action": "revise", "revision": 1, "feedback": ""},
    )
    assert refused.status_code in {400, 422}
    links = re.findall(r'rel="next" href="([^"]+)"', refused.content.decode())
    assert links and all(
        link.startswith(f"/work-orders/{world.order.shown_id}/?events=") for link in links
    )


def test_an_earlier_page_of_the_log_is_what_the_socket_looks_at_again(world, page, monkeypatch):
    """News do not replace what somebody reads."""
    monkeypatch.setattr(story, "TIMELINE", 2)
    address = f"/work-orders/{world.order.shown_id}/"
    (onward,) = re.findall(r'rel="next" href="([^"]+)"', text(page.get(address)))
    place = onward.split("#")[0]
    assert f'data-page="{place}"' in text(page.get(place))
    before = re.findall(r'<li id="event-(\d+)"', text(page.get(place)))
    log.append(world.order.thread_id, None, [(EventKind.STEP_STARTED, {"step": "later"})])
    assert re.findall(r'<li id="event-(\d+)"', text(page.get(f"{place}&live"))) == before


@pytest.mark.both_databases
def test_the_rest_list_of_questions_is_newest_first_and_its_cursors_hold(world, api, monkeypatch):
    """Whatever is asked or answered while a program reads."""
    client = api(world.ana)
    world.asked(6)
    want = [pause.shown_id for pause in Pause.objects.open().order_by("-pk")]
    got: list[str] = []
    url = "/api/v1/pauses?open=1&limit=2"
    while url:
        answer = client.get(url).json()
        got += [one["id"] for one in answer["results"]]
        if len(got) == 2:
            world.asked(3)
            services.decide(ids.parse("pse", got[0]), Answer("cancel", Via.PAGE), by=world.ana)
        url = answer["next"]
    assert got == want


@pytest.mark.parametrize(
    "order",
    [
        ListOrder("deadline_at", timeless=True, prefix="pse"),
        ListOrder(prefix="pse"),
        ListOrder("until"),
        ListOrder(key="seq"),
    ],
)
@pytest.mark.parametrize("at", [None, dt.datetime(2026, 7, 1, 12, 0, 0, 123457, tzinfo=dt.UTC)])
def test_an_address_gives_back_the_place_it_was_made_of(order, at):
    key = ids.new() if order.prefix else 4711
    place = RowPosition(at if order.time else None, key)
    assert order.read(order.write(place)) == place
    for nonsense in (
        "",
        ".",
        "1.",
        "..",
        "x.1",
        "1e9.1",
        "9" * 30 + ".1",
        "²",
        "pse_",
        "-1",
        " 1",
        "1" * 300,
    ):
        with pytest.raises(NoSuchPlace):
            order.read(nonsense)


def test_an_address_keeps_what_else_it_says():
    here = ListAddress("/x/", {"kind": "input", "after": "1", "live": "", "evil": "<&>"})
    assert here.to(after="2") == "/x/?kind=input&after=2&evil=%3C%26%3E"
    assert str(here.only("kind", "after")) == "/x/?kind=input&after=1"
    assert here.only("kind").to("history", kind="") == "/x/#history"
