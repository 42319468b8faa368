"""Health for load balancers and people: `/livez`, `/readyz`, and the signs of life behind them."""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.database import clock, outages
from hitl.operations import health
from hitl.operations.found_once import FoundOnce
from runs import tasks
from runs.engine.workers import heartbeat
from runs.models import Heartbeat, HeartbeatKind, Run, installation
from runs.models.heartbeats import LASTS
from tests.databases.whole import file_database as file_database
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
            hostname=name, connection=object(), pool=object(), app=SimpleNamespace(amqp=amqp)
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
    recorder = MigrationRecorder(connection).migration_qs.filter(app="runs")
    newest = recorder.order_by("-id").first()
    newest.delete()
    try:
        found = wrong()
        assert set(found) == {"migrations", "workers", "beat"}
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
    assert set(found) == {"database", "migrations", "workers", "beat"}
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
    assert few == many <= 5
    once = FoundOnce(itertools.count(1).__next__, fresh=60)
    assert [once.get(within=5) for _ in range(9)] == [1] * 9
    once.forget()
    assert once.get(within=5) == 2


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
