"""Lists are asked by the same words at every door; what is not understood is refused; pages hold
still while rows come.
"""

from __future__ import annotations

import datetime as dt
import re
from urllib.parse import urljoin

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import OuterRef, Subquery
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.models import Thread
from hitl.decisions import services
from hitl.decisions.deadlines.changes import PreparedInbox
from hitl.decisions.services import Answer
from hitl.find import counts
from hitl.models import Via
from runs.models import Pause, Repository, Run, WorkOrder
from runs.states import RunStatus
from tests.conftest import drive, fresh, pause_of
from tests.hitl.views.lists.copied_rows import World
from tests.worlds.ruled_order import browser
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)
API = "/api/v1"


@pytest.fixture
def world(ana, ben, paused, make_order) -> World:
    return World(ana, ben, paused, make_order)


def shown(page, address: str, pattern: str) -> list[str]:
    response = page.get(address)
    assert response.status_code == 200, response.content[:600]
    return re.findall(pattern, response.content.decode())


ORDER_LINK = r'main-link" href="/work-orders/(wo_\w+)/'


@pytest.mark.both_databases
def test_orders_are_found_by_what_their_rows_say(world, page, api, ana, ben, team):
    """Each filter finds as `WorkOrder` itself derives it, at the page and over REST."""
    asks = world.order
    alone = drive(world.make_order("writing", by=ana, team=None, title="Alone"))
    failed = drive(world.make_order("writing-fail"))
    new = world.make_order()
    repository = Repository.objects.create(name="shop", url="/tmp/shop")
    WorkOrder.objects.filter(pk=alone.pk).update(repository=repository)
    Pause.objects.filter(pk=pause_of(alone).pk).update(
        risk_rank=2, deadline_at=timezone.now() - HOUR, extendable_until=timezone.now()
    )
    orders = {one.shown_id: fresh(one) for one in (asks, alone, failed, new)}
    assert {one.status for one in orders.values()} == {"paused", "failed", "pending"}

    def found(query: str) -> set[str]:
        rows = api(ana).get(f"{API}/work-orders?{query}").json()["results"]
        listed = [row["id"] for row in rows]
        assert shown(page, f"/work-orders/?{query}", ORDER_LINK) == listed, query
        return set(listed)

    for status in ("pending", "running", "paused", "completed", "failed"):
        assert found(f"status={status}") == {
            key for key, one in orders.items() if one.status == status
        }, status
    for phase in {one.phase for one in orders.values()} | {"completed", "reviewing", "nothing"}:
        assert found(f"phase={phase}") == {
            key for key, one in orders.items() if one.phase == phase
        }, phase
    assert found("template=writing-fail") == {failed.shown_id}
    assert found("person=me") == found("person=ana") == set(orders)
    assert found("person=ben") == set()
    assert found("team=platform") == set(orders) - {alone.shown_id}
    assert found("repository=shop&risk=high&due=overdue") == {alone.shown_id}
    assert found("risk=low") == set()
    assert failed.latest_run is not None
    assert found(f"failure_code={failed.latest_run.failure_code}") == {failed.shown_id}
    assert found("since=1h") == set(orders)
    assert found("until=1h") == found("until=2020-01-01") == set()
    newest = [row["id"] for row in api(ana).get(f"{API}/work-orders").json()["results"]]
    oldest = shown(page, "/work-orders/?sort=oldest", ORDER_LINK)
    assert newest == oldest[::-1] == sorted(orders, reverse=True)


ASKS = [
    *(
        "",
        "kind=approval&phase=awaiting_plan_approval&template=writing",
        "person=me",
        "team=editors",
    ),
    *("risk=high", "q=second", "due=week", "since=1h", "whose=own", "whose=team&sort=newest"),
]


@pytest.mark.both_databases
def test_rows_are_the_same_by_sql_that_is_kept_whoever_asks_and_whenever(
    make_order, ruled, ana, ben, team, page, monkeypatch
):
    """P3: what is kept of a query for the next who ask is nobody's own, and no moment's."""
    orders = [make_order(title="The second"), make_order(by=ben), make_order(team=None)]
    pauses = [*(pause_of(drive(order)) for order in orders), pause_of(ruled({"risk": "high"}))]
    named = pause_of(ruled({"reviewers": {"users": ["ben"]}}))
    mixed = pause_of(ruled({"reviewers": {"groups": [team.name], "users": ["ana"]}}))
    keys = ",".join(pause.shown_id for pause in (*pauses, named, mixed))
    clients = {"ana": page, "ben": browser(ben)}

    def told() -> dict[tuple[str, str], set[str]]:
        return {
            (name, query): set(shown(client, f"/rows?ids={keys}&{query}", r'data-row="(\w+)"'))
            for query in ASKS
            for name, client in clients.items()
        }

    def agreed() -> dict[tuple[str, str], set[str]]:
        kept = told()
        with monkeypatch.context() as patched:
            patched.setattr(PreparedInbox, "get", lambda *_: None)
            assert kept == told()
        return kept

    found = agreed()
    assert len(found["ana", ""]) == len(found["ben", ""]) == 5
    assert found["ana", "person=me"] != found["ben", "person=me"] != set()
    later = timezone.now() + 3 * HOUR
    Pause.objects.filter(pk=pauses[0].pk).update(deadline_at=later, extendable_until=later)
    ben.groups.clear()
    User.objects.filter(pk=ana.pk).update(is_superuser=True)
    assert pauses[0].shown_id in agreed()["ana", "due=week"] - found["ana", "due=week"]


@pytest.mark.both_databases
def test_threads_are_found_by_where_their_latest_run_stands(world, page, ana):
    runs = {str(run.status): run for run in world.runs(1)}
    for status in (RunStatus.COMPLETED, RunStatus.FAILED):
        (run,) = world.runs(1, status=status, ended_at=timezone.now(), failure_code="odd")
        runs[str(status)] = run
    empty = Thread.objects.create(owner=ana, title="Empty")
    link = r'main-link" href="/threads/(thr_\w+)/'
    for word, run in runs.items():
        thread = Thread.objects.get(pk=run.thread_id).shown_id
        assert shown(page, f"/threads/?status={word}", link) == [thread], word
    assert shown(page, "/threads/?status=new", link) == [empty.shown_id]
    assert len(shown(page, "/threads/?failure_code=odd&template=writing", link)) == 2
    assert shown(page, "/threads/?status=resumed", link) == []


REFUSED = [
    ("/", "stauts=paused", "stauts"),
    ("/", "kind=odd", "approval, input"),
    ("/?live=", "q=x&q=y", "Once only"),
    ("/work-orders/", "kind=approval", "There is no such filter here"),
    ("/work-orders/", "since=yesterday", "2026-07-31"),
    ("/work-orders/", "since=2026-13-01", "2026-07-31"),
    ("/threads/", "risk=high", "risk"),
    ("/threads/", "q=a+b+c+d+e+f+g+h+i", "At most 8 words"),
    ("/decisions/", "utm_source=mail", "utm_source"),
    ("/decisions/", f"team={'x' * 201}", "At most 200"),
]


def test_a_page_says_what_it_does_not_understand_and_shows_no_rows(world, page, subtests):
    """An unknown filter was passed over."""
    for path, query, words in REFUSED:
        with subtests.test(ascii(path)[:60]):
            said = page.get(f"{path}{'&' if '?' in path else '?'}{query}")
            text = said.content.decode()
            assert said.status_code == 422
            assert "main-link" not in text
            if "live" not in path:
                assert words in text and "Known here are" in text
                assert f'href="{path}">Show the list without filters' in text


def test_a_form_that_says_nothing_asks_for_everything(world, page):
    """Forms without JavaScript send their empty fields too."""
    everything = shown(page, "/work-orders/", ORDER_LINK)
    empty = "&".join(f"{name}=" for name in ("q", "status", "team", "since", "until", "sort"))
    assert shown(page, f"/work-orders/?{empty}", ORDER_LINK) == everything


@pytest.mark.both_databases
@pytest.mark.parametrize("sort", ["due", "newest", "oldest"])
def test_pages_hold_still_while_rows_come(world, page, api, ana, sort):
    """Each row that was there is seen once, and what is due first comes first."""
    soon = timezone.now() + HOUR
    times = {"deadline_at": lambda n: soon + dt.timedelta(minutes=n % 4), "extendable_until": soon}
    times["extendable_until"] = soon + 2 * HOUR
    world.asked(6, **times)
    world.asked(3)
    there = {pause.shown_id for pause in Pause.objects.all()}
    seen: list[str] = []
    address = f"{API}/pauses?open=1&sort={sort}&limit=3"
    while address:
        answer = api(ana).get(address).json()
        seen += [row["id"] for row in answer["results"]]
        address = answer["next"]
        world.asked(1, **times)
        world.asked(1)
    assert there <= set(seen) and len(seen) == len(set(seen))
    rows = Pause.objects.in_bulk(field_name="pk")
    by_id = {pause.shown_id: pause for pause in rows.values()}
    key = {
        "due": lambda one: (one.deadline_at is None, one.deadline_at or soon, one.pk),
        "newest": lambda one: -one.pk.int,
        "oldest": lambda one: one.pk.int,
    }[sort]
    told = [by_id[one] for one in seen]
    assert told == sorted(told, key=key)


@pytest.mark.both_databases
def test_the_inbox_is_paged_by_what_is_due_first(world, page, monkeypatch):
    """Item 2: soonest deadline first is what an inbox begins with, filters or none."""
    from hitl.views import inbox

    monkeypatch.setattr(inbox, "SHOWN", 3)
    soon = timezone.now() + HOUR
    world.asked(
        7,
        deadline_at=lambda n: soon - dt.timedelta(minutes=n),
        extendable_until=soon,
    )
    for query in ("", "?template=writing", "?q=question&due=today"):
        address, seen = f"/{query}", []
        for _ in range(9):
            text = page.get(address).content.decode()
            seen += re.findall(r'data-row="(pse_\w+)"', text)
            following = re.search(r'rel="next" href="([^"]*after=[^"]+)"', text)
            if following is None:
                break
            address = urljoin(address, following[1].replace("&amp;", "&"))
        pauses = {pause.shown_id: pause for pause in Pause.objects.open()}
        dues = [pauses[one].deadline_at for one in seen]
        timed = [at for at in dues if at is not None]
        assert timed == sorted(timed) and len(timed) == 7, query
        assert dues == [*timed, *[None] * (len(dues) - 7)]


@pytest.mark.both_databases
def test_counts_tell_what_each_choice_would_leave(world, page, ben):
    """Among the rows that the person may see, and that fit the other filters."""
    world.asked(4, kind="input")
    world.asked(2, kind="tools")
    hidden = world.copies(world.order.thread, 1, owner_id=ben.pk, team_id=None, head_id=None)
    (run,) = world.copies(world.order.latest_run, 1, thread_id=hidden[0].pk, work_order_id=None)
    world.copies(world.pause, 1, run_id=run.pk, kind="external", phase="secret_phase")
    text = choices_of(page, "/", "inbox")
    assert ">Data (4)<" in text and ">Tool calls (2)<" in text and ">Approvals (1)<" in text
    assert "Wait gates" not in text and "Secret phase" not in text
    assert ">Tool calls (2)<" in choices_of(page, "/", "inbox", "kind=input")
    assert "4 found" in words_of(page, "/?kind=input")
    text = choices_of(page, "/", "inbox", "kind=input&phase=nothing")
    assert ">Data (0)<" in text and ">Nothing (0)<" in text
    assert "0 found" in words_of(page, "/?kind=input&phase=nothing")


def words_of(page, address: str) -> str:
    """What a page says, without its tags."""
    return " ".join(re.sub(r"<[^>]*>", "", page.get(address).content.decode()).split())


def choices_of(page, path: str, listed: str, query: str = "") -> str:
    """What there is to choose from: the same by a request of its own and in the page of a link."""
    asked = f"{query}&" if query else ""
    alone: str = page.get(f"/filters/{listed}?{query}").content.decode()
    whole = page.get(f"{path}?{asked}filters=open").content.decode()
    choices = r"<option value[^>]*>[^<]+ \(\d+\+?\)</option>"
    assert re.findall(choices, alone) and re.findall(choices, alone) == re.findall(choices, whole)
    return alone


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("path", "listed", "query", "chosen"),
    [
        ("/", "inbox", "kind=approval", "Approvals"),
        ("/work-orders/", "orders", "status=paused", "Paused"),
        ("/threads/", "threads", "status=paused", "Paused"),
        ("/decisions/", "history", "status=approve", "Approve"),
    ],
)
def test_filters_are_counted_where_they_are_open_and_say_what_is_chosen_where_not(
    world, page, ana, path, listed, query, chosen, monkeypatch
):
    """Issue 34: each page counted 300 rows for what nobody looked at. What is chosen is sent again
    with the form.
    """
    services.decide(world.pause.pk, Answer("approve", Via.PAGE), by=ana)
    drive(world.make_order())
    choices_of(page, path, listed, query)
    monkeypatch.setattr(counts, "count", lambda *_: pytest.fail("nobody looked"))
    text = page.get(f"{path}?{query}").content.decode()
    name, _, value = query.partition("=")
    field = text.partition(f'name="{name}"')[2].partition("</select>")[0]
    assert f'<option value="{value}" selected>{chosen}</option>' in field
    assert '<option value="">Any</option>' in field
    assert f'name="filters" value="open" formaction="{path}#filters"' in text
    assert f'data-choices="/filters/{listed}?{query}"' in text


@pytest.mark.one_database
def test_choices_are_refused_as_their_page_is(world, page):
    """404 where there is no such list, and 422 with what is wrong."""
    assert page.get("/filters/nothing").status_code == 404
    refused = page.get("/filters/orders?stauts=paused")
    assert refused.status_code == 422
    assert "stauts" in refused.content.decode() and "<select" not in refused.content.decode()


@pytest.mark.both_databases
def test_many_rows_cost_as_many_queries_as_few(world, page, monkeypatch):
    """Counts stop at a bound and say so; nothing grows with the list but what the page shows."""
    monkeypatch.setattr(counts, "COUNTED", 90)
    addresses = {
        "orders": "/work-orders/?status=paused&q=waystation",
        "inbox": "/?q=question&kind=approval",
        "threads": "/threads/?status=paused&person=me",
    }
    WorkOrder.objects.update(title="Waystation order")

    def costs() -> dict[str, int]:
        made = {}
        for name, address in addresses.items():
            page.get(address)
            with CaptureQueriesContext(connection) as captured:
                response = page.get(address)
            assert response.status_code == 200
            made[name] = len(captured)
        return made

    grow(world, 60)  # more than a page holds
    few = costs()
    grow(world, 200)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as autovacuum does, which sees no transaction of a test
    many = costs()
    assert many == few
    for name, address in addresses.items():
        if name == "inbox":  # which counts its rows for itself, and says one number
            found = re.search(r'data-found="(\d+)"', page.get(address).content.decode())
            assert found and int(found[1]) > counts.COUNTED
            assert f"{found[1]} found" in words_of(page, address)
        else:
            assert f"{counts.COUNTED}+ found" in words_of(page, address), name


def grow(world: World, count: int) -> None:
    """So many more orders that wait, and threads that ask."""
    world.asked(count)
    threads = world.copies(world.order.thread, count, head_id=None)
    orders = world.copies(
        world.order,
        count,
        thread_id=lambda n: threads[n].pk,
        latest_run_id=None,
        title="Waystation order",
    )
    run = world.order.latest_run
    assert run is not None
    world.copies(
        run, count, thread_id=lambda n: threads[n].pk, work_order_id=lambda n: orders[n].pk
    )
    own = Run.objects.filter(work_order=OuterRef("pk")).values("pk")
    WorkOrder.objects.filter(latest_run=None).update(latest_run=Subquery(own))
    assert Run.objects.count() > count
