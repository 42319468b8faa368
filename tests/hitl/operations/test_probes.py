"""Health for load balancers and people: `/livez`, `/readyz`, and the signs of life behind them."""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import os
import socket
import subprocess
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.database import clock, outages
from hitl.operations import health, loads
from hitl.operations.doctor import network
from hitl.operations.found_once import FoundOnce
from runs import tasks
from runs.engine.workers import heartbeat
from runs.models import Heartbeat, HeartbeatKind, Pause, Run, installation
from runs.models.heartbeats import LASTS
from tests.databases.whole import file_database as file_database
from tests.servers.private import Redis as RedisServer
from tests.servers.private import free_port
from tests.servers.stack import until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("file_database", "anew"),
    pytest.mark.both_databases,
]


@pytest.fixture
def anew(monkeypatch):
    """Each test looks for itself."""
    monkeypatch.setattr(heartbeat, "_looked_at", None)
    health.forget()
    yield
    health.forget()


class Consumer(SimpleNamespace):
    """As much of Celery's as a sign of life is made of."""

    def __init__(self, name: str = "steps@here", *queues: str) -> None:
        chosen = dict.fromkeys(queues or ("control", "steps", "outbound"))
        amqp = SimpleNamespace(queues=SimpleNamespace(consume_from=chosen))
        super().__init__(
            hostname=name,
            connection=object(),
            pool=SimpleNamespace(limit=2),
            app=SimpleNamespace(amqp=amqp),
        )


@pytest.fixture
def working(file_database, anew):
    """A worker of the shipped queues, and a look that was carried out.

    Its threads write beside the test: after `file_database`, whatever marks come first.
    """
    heartbeat.show_worker(Consumer())
    tasks.order_rounds()
    until(lambda: Heartbeat.objects.count() == 2, what="both signs of life")
    yield
    heartbeat.end()
    until(lambda: threads("heartbeat") == 0, what="the end of the threads")


def threads(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


def asked(query: str = "", status: int = 503) -> dict[str, Any]:
    health.forget()
    answer = Client().get(f"/readyz{query}")
    assert answer.status_code == status, answer.content
    parts: dict[str, Any] = answer.json()["parts"]
    assert (answer.json()["ready"], answer["Cache-Control"].split(",")[0]) == (
        status == 200,
        "max-age=0",
    )
    return parts


def wrong(query: str = "") -> dict[str, str]:
    return {name: part["words"] for name, part in asked(query).items() if not part["ok"]}


def aged(kind: HeartbeatKind, seconds: float = LASTS + 5) -> None:
    Heartbeat.objects.filter(kind=kind).update(seen_at=clock.FromNow(-seconds))


@pytest.mark.usefixtures("working")
def test_all_is_well_and_says_which_version_to_whoever_calls_by_whatever_name():
    """No login; a load balancer calls by address, without TLS, before anything else is up."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(settings, "SECURE_SSL_REDIRECT", True)
        answer = Client(headers={"host": "10.1.2.3:8000"}).get("/readyz")
        live = Client(headers={"host": "10.1.2.3:8000"}).get("/livez")
    told = answer.json()
    assert (answer.status_code, told["ready"], told["version"]) == (
        200,
        True,
        installation.version(),
    )
    assert told["commit"] == installation.commit()
    assert list(told["parts"]) == list(health.PARTS)
    assert (live.status_code, live.json()) == (200, {"live": True})
    assert Client().post("/readyz").status_code == Client().post("/livez").status_code == 405
    assert Client().get("/readyz?parts=mood").json()["code"] == "unknown_part"


@pytest.mark.usefixtures("working")
def test_each_part_that_is_missing_is_a_503_with_its_words(make_order, monkeypatch):
    """The others are still told."""
    asked(status=200)
    aged(HeartbeatKind.LOOK)
    assert set(found := wrong()) == {"beat"}
    assert "no beat was seen" in found["beat"] and "s ago" in found["beat"]
    heartbeat.begin("beat@here", HeartbeatKind.BEAT)
    until(lambda: Heartbeat.objects.filter(kind="beat").exists())
    assert "no worker does what it asks for" in wrong()["beat"]
    aged(HeartbeatKind.WORKER)
    assert "No worker was seen in the last 100 s." in wrong()["workers"]
    assert set(asked("?parts=database,migrations,redis", 200)) == {
        "database",
        "migrations",
        "redis",
    }
    Heartbeat.objects.filter(kind="worker").update(queues=["control"], seen_at=clock.FromNow())
    assert "No worker that takes outbound and steps was seen" in wrong()["workers"]
    Heartbeat.objects.filter(kind="worker").update(queues=["control", "steps", "outbound"])
    Heartbeat.objects.filter(kind="look").update(seen_at=clock.FromNow())
    assert asked(status=200)["workers"]["ok"]  # nothing waits in `agents`
    order = make_order()
    Run.objects.filter(pk=order.latest_run_id).update(queue="agents")
    assert "takes agents was seen" in wrong()["workers"]
    [(_, last)] = MigrationLoader(None).graph.leaf_nodes("runs")
    newest = MigrationRecorder(connection).migration_qs.get(app="runs", name=last)
    newest.delete()
    try:
        found = wrong()
        assert set(found) == {"migrations", "workers", "beat", "work"}
        assert f"1 missing, first runs.{newest.name}" in found["migrations"]
    finally:
        newest.save(force_insert=True)
    monkeypatch.setattr(settings, "REDIS_URL", f"redis://:s3cret@127.0.0.1:{free_port()}/0")
    assert wrong()["redis"] == "Redis cannot be reached."


@pytest.mark.usefixtures("working")
def test_a_database_that_is_away_or_hangs_is_told_in_bounded_time_without_its_words(
    monkeypatch, caplog
):
    """Its error names hosts and users; and a probe never hangs with it."""
    monkeypatch.setattr(logging.getLogger("hitl.http.tracing"), "level", logging.CRITICAL)

    def refuse(self: BaseDatabaseWrapper) -> None:
        if threading.current_thread().name == "found once":
            raise OperationalError('connection to "db.secret.example" failed for user "bob"')

    with monkeypatch.context() as patched:
        patched.setattr(BaseDatabaseWrapper, "ensure_connection", refuse)
        patched.setattr(outages, "is_trouble", lambda error: True)
        found = wrong()
    assert set(found) == {"database", "migrations", "workers", "beat", "work"}
    assert found["database"] == "The database cannot be reached."
    assert "secret" not in str(found) and "bob" not in str(found)
    gone = threading.Event()
    hanging: FoundOnce[list[Any]] = FoundOnce(lambda: [gone.wait(20)], fresh=1)
    monkeypatch.setattr(health, "_database", hanging)
    monkeypatch.setattr(health, "WITHIN", 0.2)
    began = time.monotonic()
    assert "does not answer within" in wrong()["database"]
    wrong()
    assert time.monotonic() - began < 3
    assert threads("found once") == 1  # whoever asks meanwhile starts no other
    assert Client().get("/livez").status_code == 200
    gone.set()


@pytest.mark.usefixtures("working")
def test_a_look_is_a_fixed_number_of_statements_and_shared_by_all_who_ask(make_order):
    def cost() -> int:
        with CaptureQueriesContext(connection) as taken:
            health.look_at_database()
        return len([query for query in taken if "MIT" not in query["sql"][-6:]])

    few = cost()
    for number in range(12):
        make_order()
        heartbeat._write(Heartbeat(name=f"w{number}", kind=HeartbeatKind.WORKER))
    many = cost()
    assert few == many <= 7
    once = FoundOnce(itertools.count(1).__next__, fresh=60)
    assert [once.get(within=5) for _ in range(9)] == [1] * 9
    once.forget()
    assert once.get(within=5) == 2


@pytest.mark.usefixtures("working")
def test_a_look_that_is_older_than_its_interval_allows_is_not_called_carried_out(settings):
    """With a sweep each 5 s one of 99 s ago was called carried out."""
    aged(HeartbeatKind.LOOK, 20)
    assert "carried out: 2" in asked(status=200)["beat"]["words"]
    aged(HeartbeatKind.LOOK, 35)
    assert "was last carried out 35 s ago" in wrong()["beat"]
    settings.WAYSTATION_SWEEP_SECONDS = 60
    asked(status=200)


@pytest.mark.usefixtures("working")
def test_rounds_that_are_behind_are_told_though_the_look_is_carried_out(make_order, paused):
    asked(status=200)
    past = clock.now() - dt.timedelta(seconds=75)
    run = Run.objects.filter(pk=make_order().latest_run_id)
    run.update(status="running", lease_owner="gone:1", lease_until=past)
    assert "to take back the runs of a worker that fell silent is due since 7" in wrong()["beat"]
    run.update(lease_until=clock.FromNow(20))
    asked(status=200)
    pause = Pause.objects.filter(run=paused.latest_run_id)
    pause.update(deadline_at=past, extendable_until=past, next_at=past, opened_at=past)
    assert "to do what a deadline says is due since 7" in wrong()["beat"]


@pytest.mark.usefixtures("working")
def test_a_due_run_that_no_worker_takes_is_told_with_its_seconds_and_the_free_places(
    make_order, settings
):
    """Work of others waited for minutes and all was well."""
    waits, *held = (Run.objects.filter(pk=make_order().latest_run_id) for _ in range(3))
    assert "steps 2" in asked(status=200)["work"]["words"]
    for patience in (5, 10):
        settings.WAYSTATION_PATIENCE_SECONDS = patience
        most = 12 * patience
        waits.update(due_at=clock.FromNow(5 - most))
        asked(status=200)
        waits.update(due_at=clock.FromNow(-most - 5))
        assert set(wrong()) == {"work"}
    (worker,) = Heartbeat.objects.filter(kind="worker")
    for run, places in zip(
        [waits, *held], ["2 places free", "1 places free", "All places"], strict=True
    ):
        if run is not waits:
            run.update(
                status="running",
                lease_owner=worker.facts["owner"],
                lease_until=clock.FromNow(20),
            )
        words = wrong()["work"]
        assert f"steps: {3 - ['2', '1', 'A'].index(places[0])} due" in words
        assert f"has waited for {most + 5} s" in words or f"for {most + 6} s" in words
        assert places in words
    Heartbeat.objects.filter(kind="worker").update(queues=["control", "outbound"])
    assert set(wrong()) == {"workers"}  # which says it all


@pytest.mark.usefixtures("working")
def test_children_of_forking_workers_hold_the_places_of_their_host(make_order):
    def forking(name: str, owner: str, *queues: str) -> None:
        facts = {"pool": "prefork", "concurrency": 2, "owner": owner}
        heartbeat._write(
            Heartbeat(name=name, kind=HeartbeatKind.WORKER, queues=list(queues), facts=facts)
        )

    Heartbeat.objects.filter(kind="worker").delete()
    forking("a", "box:1", "control", "steps", "outbound")
    forking("b", "box:2", "steps")
    forking("c", "other:1", "agents")
    for child, queue in (("box:11", "steps"), ("box:12", "steps"), ("other:11", "agents")):
        Run.objects.filter(pk=make_order().latest_run_id).update(
            status="running", queue=queue, lease_owner=child, lease_until=clock.FromNow(20)
        )
    rows = list(Heartbeat.objects.filter(kind="worker"))
    free = {load.name: load.free for load in loads.read(rows, now=clock.now()).queues}
    assert (free["steps"], free["agents"], free["control"]) == (2, 1, 0)
    rows[0].facts.pop("concurrency")  # of a version before
    queues = loads.read(rows[:1], now=clock.now()).queues
    assert [load.free for load in queues if load.workers] == [None] * len(rows[0].queues)


@pytest.fixture
def redis_server(tmp_path, settings):
    server = RedisServer(tmp_path)
    server.start()
    settings.REDIS_URL = server.url
    with redis.Redis.from_url(server.url) as client:
        yield client
    server.kill()


@pytest.mark.one_database
def test_a_redis_that_answers_and_takes_nothing_is_not_well(redis_server):
    """It was pinged: five decisions were accepted and none moved for 70 s."""

    def said() -> str:
        health.forget()
        (part,) = health.look_at_redis()
        assert part.ok is ("takes messages" in part.words)
        return part.words

    assert said() == "Redis takes messages."
    assert 0 < redis_server.ttl(health.WRITTEN) <= health.WRITTEN_LASTS
    redis_server.config_set("maxmemory", "1mb")
    redis_server.config_set("maxmemory-policy", "noeviction")
    assert said() == health.REDIS_FULL
    redis_server.config_set("maxmemory", "0")
    redis_server.config_set("min-replicas-to-write", "1")
    assert said() == health.REDIS_REFUSES
    redis_server.config_set("min-replicas-to-write", "0")
    redis_server.replicaof("127.0.0.1", str(free_port()))
    assert said() == health.REDIS_READ_ONLY
    assert [(one.words, "primary" in one.mend) for one in network.broker()] == [
        (health.REDIS_READ_ONLY, True)
    ]
    redis_server.replicaof("NO", "ONE")
    assert said() == "Redis takes messages."


def test_a_worker_that_ends_takes_its_sign_back_and_one_without_its_broker_gives_none():
    consumer = Consumer("agents@here", "agents")
    heartbeat.show_worker(consumer)
    until(lambda: Heartbeat.objects.filter(pk="agents@here").exists())
    row = Heartbeat.objects.get()
    assert (row.kind, row.queues, row.version) == ("worker", ["agents"], installation.version())
    assert settings.SECRET_KEY not in str(row.facts)
    heartbeat.end()
    until(lambda: not Heartbeat.objects.exists(), what="the row to go")
    consumer.connection = None
    heartbeat.show_worker(consumer)
    until(lambda: threads("heartbeat") == 1)
    heartbeat.end()
    until(lambda: threads("heartbeat") == 0)
    assert not Heartbeat.objects.exists()


def test_what_a_process_left_behind_a_day_ago_is_dropped():
    heartbeat._write(Heartbeat(name="old@gone", kind=HeartbeatKind.WORKER))
    Heartbeat.objects.update(seen_at=F("seen_at") - dt.timedelta(days=2))
    heartbeat.begin("beat@here", HeartbeatKind.BEAT)
    until(lambda: list(Heartbeat.objects.values_list("pk", flat=True)) == ["beat@here"])
    heartbeat.end()
    until(lambda: threads("heartbeat") == 0)


def test_a_web_server_gives_a_sign_of_each_of_its_processes_and_no_other_program_does(monkeypatch):
    """doctor named workers of before an upgrade, and neither web servers nor beats."""
    heartbeat.show_web()
    assert threads("heartbeat") == 0  # a test
    monkeypatch.setattr(heartbeat, "_web", 0)
    monkeypatch.setattr("sys.argv", ["/usr/lib/python3/daphne/__main__.py"])
    for _ in range(3):
        heartbeat.show_web()
    assert threads("heartbeat") == 1
    until(lambda: Heartbeat.objects.exists(), what="the row")
    row = Heartbeat.objects.get()
    assert (row.kind, row.version, row.name) == (
        "web",
        installation.version(),
        f"web@{socket.gethostname()}:{os.getpid()}",
    )
    monkeypatch.setattr(heartbeat, "_web", os.getppid())  # as a fork finds it
    heartbeat.show_web()
    assert threads("heartbeat") == 2
    for thread in heartbeat.end():
        thread.join(10)
    assert not Heartbeat.objects.exists()


def test_an_old_beat_beside_a_new_one_is_seen_and_one_that_ended_is_dropped():
    """They had one name, so the old one kept the new one's row."""
    host, gone = socket.gethostname(), subprocess.Popen(["true"])
    gone.wait()
    for name, owner in (
        ("beat@here", f"{host}:{os.getppid()}"),
        ("web@here", f"{host}:{gone.pid}"),
        ("web@there", f"elsewhere:{gone.pid}"),
    ):
        kind = HeartbeatKind(name.partition("@")[0])
        heartbeat._write(Heartbeat(name=name, kind=kind, facts={"owner": owner}, version="0.0.1"))
    heartbeat.begin("beat@here", HeartbeatKind.BEAT)
    until(lambda: Heartbeat.objects.filter(name__startswith="beat@here:").exists())
    rows = dict(Heartbeat.objects.values_list("name", "version"))
    assert rows == {
        "beat@here": "0.0.1",
        f"beat@here:{os.getpid()}": installation.version(),
        "web@there": "0.0.1",
    }
    heartbeat.end()
    until(lambda: threads("heartbeat") == 0)
    assert set(Heartbeat.objects.values_list("name", flat=True)) == {"beat@here", "web@there"}
