"""`/metrics`: read as Prometheus reads it, and held against the rows; who may; what it costs; the
dashboard and the alerts that are made of it.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from checkpoints.database import clock
from checkpoints.models import Checkpoint, CheckpointStatus
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.models.outbound import Channel, Delivery, DeliveryStatus, Occasion
from hitl.operations import invariants, metrics
from hitl.views import probes
from runs import env
from runs.engine.workers import heartbeat
from runs.models import Heartbeat, HeartbeatKind, Pause, Run
from tests.conftest import drive, pause_of
from tests.databases.whole import file_database as file_database
from tests.servers.stack import until

MONITORING = Path(__file__).parents[3] / "docs" / "monitoring"
RUNBOOKS = MONITORING.parent / "how-to" / "runbooks.md"
TOKEN = "a-token-of-prometheus"
OURS = re.compile(r"waystation_\w+")
CHOSEN = re.compile(r'(waystation_\w+)\{\w+="([^"]+)"\}')
BY_TOKEN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def scraped(settings, transactional_db, file_database):
    """Scrapes anew, and gives all samples by name and labels, in the order of their names."""
    settings.WAYSTATION_METRICS_TOKEN = TOKEN

    def scrape() -> dict[Any, float]:
        metrics.forget()
        metrics.broken_invariants(within=30)
        answer = Client(headers=BY_TOKEN).get("/metrics")
        assert answer.status_code == 200, answer.content
        assert answer["Content-Type"].startswith("text/plain; version=")
        text = answer.content.decode()
        assert TOKEN not in text
        return {
            (sample.name.removeprefix("waystation_"), *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    # a look that a test without this fixture began would be taken for one at this test's rows
    at_rest()
    yield scrape
    at_rest()
    metrics.forget()


def at_rest() -> None:
    until(
        lambda: not any(thread.name == "found once" for thread in threading.enumerate()),
        what="the last look",
    )


@pytest.mark.both_databases
def test_the_numbers_are_those_of_the_rows(scraped, make_order, ana, ben):
    """All by the official parser."""
    answered, revised, open_, late = (drive(make_order()) for _ in range(4))
    now = clock.now()
    seconds = {answered: 100, revised: 5000}
    for order, took in seconds.items():
        Pause.objects.filter(pk=pause_of(order).pk).update(
            opened_at=now - dt.timedelta(seconds=took)
        )
    services.decide(pause_of(answered).pk, Answer("approve", Via.PAGE), by=ana)
    services.decide(pause_of(revised).pk, Answer("revise", Via.PAGE, feedback="x"), by=ana)
    for order, review in ((open_, {"risk": "high"}), (late, {})):
        Pause.objects.filter(pk=pause_of(order).pk).update(review=review)
    past = now - dt.timedelta(hours=2)
    Pause.objects.filter(pk=pause_of(late).pk).update(
        deadline_at=past, extendable_until=past, next_at=past, opened_at=past
    )
    waiting, silent = make_order(), make_order()
    Run.objects.filter(pk=waiting.latest_run_id).update(
        due_at=now - dt.timedelta(seconds=400), deaths=1
    )
    Run.objects.filter(pk=silent.latest_run_id).update(
        status="running", lease_owner="box:1", lease_until=past, lost_attempts=1
    )
    told = {"occasion": Occasion.ASKED, "channel": Channel.EMAIL, "made_at": now}
    for place, (status, at) in enumerate(
        [(DeliveryStatus.QUEUED, past), (DeliveryStatus.QUEUED, now), (DeliveryStatus.DEAD, now)]
    ):
        Delivery.objects.create(**told, place=str(place), status=status, next_at=at)
    heartbeat._write(
        Heartbeat(
            name="w",
            kind=HeartbeatKind.WORKER,
            queues=["control", "steps", "a" * 99],
            facts={"concurrency": 4, "owner": "box:1"},
        )
    )
    heartbeat._write(Heartbeat(name=heartbeat.LOOK, kind=HeartbeatKind.LOOK))
    found = scraped()
    runs = {status: Run.objects.filter(status=status).count() for status in ("pending", "paused")}
    assert {status: found["runs", status] for status in runs} == runs
    assert found["runs", "running"] == found["leases_lost",] == 1
    assert (
        sum(found["runs_begun_in_a_day", status] for status in ("pending", "running", "paused"))
        == 6
    )
    assert (found["incidents_in_a_day",], found["runs_that_lost_workers",]) == (0, 2)
    assert found["queue_waiting", "steps"] == runs["pending"]
    assert 400 <= found["queue_oldest_seconds", "steps"] < 460
    assert [found["questions_open", risk] for risk in ("low", "normal", "high", "unread")] == [
        0,
        1,
        1,
        0,
    ]
    assert [found["questions_late", risk] for risk in ("normal", "high")] == [1, 0]
    assert 7200 <= found["question_oldest_seconds",] < 7260
    assert 7200 <= found["sweep_lag_seconds", "deadlines"] < 7260
    counts = {
        (action, bound): found["answer_seconds_bucket", action, bound, "writing"]
        for action in ("approve", "revise")
        for bound in ("60.0", "300.0", "3600.0", "14400.0", "+Inf")
    }
    assert counts == {
        ("approve", "60.0"): 0, ("approve", "300.0"): 1, ("approve", "3600.0"): 1,
        ("approve", "14400.0"): 1, ("approve", "+Inf"): 1,
        ("revise", "60.0"): 0, ("revise", "300.0"): 0, ("revise", "3600.0"): 0,
        ("revise", "14400.0"): 1, ("revise", "+Inf"): 1,
    }  # fmt: skip
    assert 100 <= found["answer_seconds_sum", "approve", "writing"] < 160
    assert found["steps_total", "pending_input"] == (
        Checkpoint.objects.filter(status=CheckpointStatus.PENDING_INPUT).exclude(node_id="").count()
    )
    assert 0 <= found["recent_step_seconds", "0.5"] <= found["recent_step_seconds", "1"] < 60
    assert [found["deliveries", status] for status in ("queued", "sending", "dead")] == [2, 0, 1]
    assert (found["deliveries_late",], found["deliveries_planned_total", "dead"]) == (1, 1)
    assert [found["workers", queue] for queue in ("control", "agents")] == [1, 0]
    assert ("workers", "a" * 99) not in found
    assert 0 <= found["look_age_seconds",] < 60
    assert found["watchers", "threads"] == 0
    assert (found["queue_free", "steps"], found["queue_free", "agents"]) == (3, 0)
    assert (found["part_ok", "database"], found["part_ok", "work"]) == (1, 0)
    broken = {result.invariant.code: result.count for result in invariants.check(now=clock.now())}
    assert {code: found["invariant_broken_rows", code] for code in broken} == broken
    assert any(broken.values())
    assert ("process_resident_memory_bytes",) in found


@pytest.mark.both_databases
def test_a_scrape_is_a_fixed_number_of_statements_and_many_scrapes_are_one(
    scraped, make_order, monkeypatch, settings
):
    def cost() -> int:
        with CaptureQueriesContext(connection) as taken:
            metrics.find()
        return len(taken)

    drive(make_order())
    few = cost()
    for _ in range(6):
        drive(make_order())
    assert cost() == few <= 30
    looks: list[int] = []

    def look() -> list[Any]:
        looks.append(1)
        return []

    monkeypatch.setattr(metrics._found, "_find", look)
    metrics.forget()
    client = Client(headers=BY_TOKEN)
    assert [client.get("/metrics").status_code for _ in range(5)] == [200] * 5
    assert looks == [1]
    monkeypatch.setattr(metrics._found, "_find", lambda: 1 / 0)
    metrics.forget()
    assert client.get("/metrics").status_code == 503


@pytest.mark.django_db
def test_each_number_is_read_by_an_index(make_order, ana):
    """With many rows a scan would take a server's time at each scrape."""
    if connection.vendor != "postgresql":
        pytest.skip("plans are PostgreSQL's here")
    services.decide(pause_of(drive(make_order())).pk, Answer("approve", Via.PAGE), by=ana)
    with CaptureQueriesContext(connection) as taken:
        metrics.find()
    asked = [query["sql"] for query in taken if query["sql"].startswith(("SELECT", "(SELECT"))]
    plans = {}
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for sql in asked:
            cursor.execute(f"EXPLAIN {sql}".replace("%", "%%"))
            plans[sql] = "\n".join(line for (line,) in cursor.fetchall())
    few = r"(?!runs_heart|django_migrations)"  # tables of few rows
    scanned = [(sql, plan) for sql, plan in plans.items() if re.search(f"Seq Scan on {few}", plan)]
    assert len(plans) >= 15
    assert not scanned, scanned


@pytest.mark.django_db
def test_only_a_token_or_an_address_of_the_settings_is_answered(settings, monkeypatch, ana):
    """To all others nothing is there, whoever they are."""
    monkeypatch.setattr(metrics, "families", list)
    monkeypatch.setattr(metrics, "broken_invariants", list)
    person = Client()
    person.force_login(ana)

    def statuses() -> list[int]:
        return [
            person.get("/metrics").status_code,
            *(
                Client(headers=headers).get("/metrics", REMOTE_ADDR=address).status_code
                for headers, address in (
                    ({}, "10.1.2.3"),
                    ({"Authorization": "Bearer "}, "10.1.2.3"),
                    ({"Authorization": f"Bearer {TOKEN}x"}, "10.1.2.3"),
                    (BY_TOKEN, "192.0.2.1"),
                    ({"X-Forwarded-For": "10.1.2.3"}, "192.0.2.1"),
                    ({}, "2001:db8::7"),
                )
            ),
        ]

    assert statuses() == [404] * 7
    settings.WAYSTATION_METRICS_TOKEN = TOKEN
    assert statuses() == [404, 404, 404, 404, 200, 404, 404]
    monkeypatch.setenv("N", "10.0.0.0/8, 2001:db8::/32")
    settings.WAYSTATION_METRICS_ALLOW = env.networks("N")
    assert statuses() == [404, 200, 200, 200, 200, 404, 200]
    for value, read in (("10.0.0.7/8", env.networks), ("short", env.bearer)):
        monkeypatch.setenv("N", value)
        with pytest.raises(ImproperlyConfigured, match=r"^N: "):
            read("N")


def test_labels_are_bounded_whatever_templates_are_called(scraped, make_order, ana, monkeypatch):
    monkeypatch.setattr(metrics, "TEMPLATES", 0)
    services.decide(pause_of(drive(make_order())).pk, Answer("approve", Via.PAGE), by=ana)
    monkeypatch.setattr(metrics, "QUESTIONS", 0)
    drive(make_order())
    found = scraped()
    assert found["answer_seconds_count", "approve", "other"] == 1
    assert (found["questions_open", "unread"], found["questions_open", "normal"]) == (1, 0)


def asked_by_alerts_and_dashboard() -> list[str]:
    """Every expression of PromQL that we ship."""
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
    board = json.loads((MONITORING / "dashboard.json").read_text())
    return [rule["expr"] for rule in rules] + [
        target["expr"] for panel in board["panels"] for target in panel["targets"]
    ]


@pytest.mark.both_databases
def test_each_number_that_alerts_and_dashboard_ask_for_is_there_before_anything_happened(scraped):
    """S0-70: a panel that stays empty looks like one that is broken; a label's value, too."""
    served = scraped()
    names = {f"waystation_{name}" for name, *_ in served}
    values = {(f"waystation_{name}", value) for name, *labels in served for value in labels}
    asked = asked_by_alerts_and_dashboard()
    assert not {name for expr in asked for name in OURS.findall(expr)} - names
    chosen = {pair for expr in asked for pair in CHOSEN.findall(expr)}
    assert chosen and not chosen - values


@pytest.mark.django_db
def test_nobody_is_told_that_all_is_well_before_it_was_looked_at(monkeypatch):
    """P12: an invariant's number is there at once, and is no number until the first look ended."""
    monkeypatch.setattr(metrics._broken, "get", lambda **kept: None)
    broken = next(iter(metrics.broken_invariants()))
    assert len(broken.samples) == len(invariants.INVARIANTS)
    assert all(math.isnan(sample.value) for sample in broken.samples)


@pytest.mark.django_db
def test_alerts_have_their_runbooks_and_numbers_their_descriptions():
    """Prometheus' own tool takes the rules and their tests; each alert has its runbook."""
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts-test.yml"]):
        done = subprocess.run(
            ["promtool", *command], cwd=MONITORING, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
    sections = RUNBOOKS.read_text()
    for rule in rules:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page == "docs/how-to/runbooks.md"
        assert f'<a id="{anchor}"></a>\n## {rule["alert"]}\n' in sections
    described = (MONITORING.parent / "how-to" / "metrics.md").read_text()
    families = metrics.find() + metrics.broken_invariants() + list(probes._of_this_process())
    names = {family.name.removeprefix("waystation_") for family in families}
    beginnings = ("queue_", "questions_", "deliveries_")
    missing = [name for name in names if name not in described and not name.startswith(beginnings)]
    assert not missing
