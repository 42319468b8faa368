"""Pages and REST lists make as many queries for thirty rows as for three."""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import ids, store
from checkpoints.events import log
from checkpoints.models import EventKind
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Decision, Snooze, Via, Vote
from runs.models import Panel, PanelMember, Run, WorkOrder
from tests.conftest import drive, head_of, pause_of
from tests.hitl.views.lists.copied_rows import World
from tests.worlds.people import person

pytestmark = pytest.mark.django_db

FEW, MANY = 3, 33
PLACES = {
    "inbox": "/",
    "inbox, what changed": "/?live",
    "inbox, filters open": "/?filters=open",
    "inbox, of others": "/?whose=asked",
    "choices of orders": "/filters/orders",
    "order page": "/work-orders/{order}/",
    "inbox, asked": "/?q=question&kind=approval&risk=normal&sort=newest",
    "list of orders": "/work-orders/",
    "list of orders, asked": "/work-orders/?q=order&status=paused&due=none&phase=planning",
    "list of threads, asked": "/threads/?q=thread&status=completed",
    "history": "/decisions/?status=approve&since=7d",
    "list of threads": "/threads/",
    "thread page": "/threads/{chat}/",
    "history of a thread": "/threads/{thread}/history",
    "REST pauses": "/api/v1/pauses?limit=200",
    "REST open pauses": "/api/v1/pauses?open=1&limit=200",
    "REST work orders": "/api/v1/work-orders",
    "REST decisions": "/api/v1/decisions?sort=oldest",
    "REST pauses, asked": "/api/v1/pauses?open=1&sort=due&q=question&limit=200",
    "REST threads": "/api/v1/threads",
    "REST runs": "/api/v1/runs",
    "REST checkpoints": "/api/v1/runs/{run}/checkpoints",
    "REST history": "/api/v1/threads/{thread}/history",
    "REST events": "/api/v1/threads/{thread}/events",
    "REST messages": "/api/v1/threads/{chat}/messages",
    "admin checkpoints": "/admin/checkpoints/checkpoint/",
    "admin runs": "/admin/runs/run/",
    "admin questions": "/admin/runs/pause/",
}


@pytest.fixture
def world(ana: User, ben: User, paused: WorkOrder, make_order) -> World:
    return World(ana, ben, paused, make_order)


def grow(world: World, count: int, answered: Decision, chat: Run) -> None:
    """So many more of everything: each of another person's, of one team, by rules of their own, and
    voted on.
    """
    number = User.objects.count()
    people = [person(f"asker{number + n}", first_name=f"Asker {n}") for n in range(count)]
    group = Group.objects.create(name=f"experts {number}")
    panel = Panel.objects.create(
        digest=f"{number}", open_to_all=False, self_approval=True, quorum=2
    )
    PanelMember.objects.create(panel=panel, stage=0, group=group.name)
    if number % 2:  # so that some questions are Ana's to answer, and some only to look at
        world.ana.groups.add(group)
    theirs = {"owner_id": lambda n: people[n].pk}
    threads = world.copies(world.order.thread, count, head_id=None, **theirs)
    orders = world.copies(
        world.order,
        count,
        thread_id=lambda n: threads[n].pk,
        created_by_id=lambda n: people[n].pk,
        latest_run_id=None,
    )
    run = world.order.latest_run
    assert run is not None
    of_orders = world.copies(
        run, count, thread_id=lambda n: threads[n].pk, work_order_id=lambda n: orders[n].pk
    )
    for order, its_run in zip(orders, of_orders, strict=True):
        WorkOrder.objects.filter(pk=order.pk).update(latest_run=its_run)
    rules = {"quorum": 2, "reviewers": {"groups": [group.name]}}
    asked = world.copies(
        world.pause,
        count,
        run_id=lambda n: of_orders[n].pk,
        review=rules,
        panel_id=panel.pk,
        claimed_by_id=lambda n: people[n].pk,
        claimed_until=timezone.now(),
    )
    Vote.objects.bulk_create(
        Vote(
            pause=pause,
            voter=voter,
            seat=voter,
            action="approve",
            content_digest="",
            via=Via.REST,
            voted_at=timezone.now(),
            digest=f"{pause.pk}",
        )
        for pause, voter in zip(asked, people, strict=True)
    )
    world.asked(count)
    hidden = world.asked(count)
    until = timezone.now() + dt.timedelta(days=1)
    Snooze.objects.bulk_create(Snooze(pause=p, person=world.ana, until=until) for p in hidden)
    over = world.copies(
        world.pause,
        count,
        run_id=lambda n: of_orders[n].pk,
        status="answered",
        closed_at=timezone.now(),
    )
    first = Decision.objects.count() + 1
    world.copies(
        answered,
        count,
        pause_id=lambda n: over[n].pk,
        decided_by_id=lambda n: people[n].pk,
        position=lambda n: first + n,
    )
    head = head_of(world.order)
    world.copies(head, count, parent_id=head.pk, status="active")
    world.copies(
        chat, count, status="completed", ended_at=timezone.now(), input={"message": "Hello"}
    )
    said = [{"id": f"m{n}", "role": "user", "content": f"words {n}"} for n in range(number)]
    entry = store.Entry(status="completed", node_id="plan")
    store.save(chat.thread_id, chat.pk, {"messages": said}, entry, parent=None, before=None)
    for n in range(count):
        log.append(chat.thread_id, chat.pk, [(EventKind.LOG, {"message": f"line {n}"})])
        log.append(world.order.thread_id, run.pk, [(EventKind.LOG, {"message": f"line {n}"})])


def asked(
    world: World, chat: Run, *, for_the_first_time: bool = False
) -> dict[str, tuple[list[str], int]]:
    """What each place asks of the database, and how long its answer is."""
    order, run = world.order, world.order.latest_run_id
    assert run is not None
    names = {
        "order": order.shown_id,
        "thread": order.thread.shown_id,
        "chat": ids.show("thr", chat.thread_id),
        "run": ids.show("run", run),
    }
    token = ApiToken.make(world.ana, name="counts")[1]
    client = Client(headers={"host": "localhost", "authorization": f"Bearer {token}"})
    page = Client(headers={"host": "localhost"})
    page.force_login(world.ana)
    costs = {}
    for name, pattern in sorted(PLACES.items(), key=lambda place: place[0].startswith("admin")):
        door = client if "/api/" in pattern else page
        if name.startswith("admin"):
            User.objects.filter(pk=world.ana.pk).update(is_staff=True, is_superuser=True)
        if for_the_first_time:
            door.get(pattern.format(**names))  # what is read once for a process
        with CaptureQueriesContext(connection) as captured:
            response = door.get(pattern.format(**names))
        assert response.status_code == 200, response.content[:500]
        costs[name] = [query["sql"] for query in captured], len(response.content)
    User.objects.filter(pk=world.ana.pk).update(is_staff=False, is_superuser=False)
    return costs


def test_a_page_makes_as_many_queries_for_many_rows_as_for_few(world: World):
    """P11."""
    other = drive(world.make_order())
    answered = services.decide(pause_of(other).pk, Answer("approve", Via.PAGE), by=world.ana)
    assert isinstance(answered, Decision)
    [chat] = world.runs(1)
    for _ in range(FEW):
        grow(world, 1, answered, chat)
    few = asked(world, chat, for_the_first_time=True)
    grow(world, MANY, answered, chat)
    many = asked(world, chat)
    assert not {name for name in PLACES if many[name][1] <= few[name][1]}
    assert not {
        name: [query for query in many[name][0] if query not in few[name][0]][:8]
        for name in PLACES
        if len(many[name][0]) != len(few[name][0])
    }
