"""The eight jobs of `docs/examples`, each ordered on a running server and brought to its end."""

from __future__ import annotations

import base64
import json
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest

from tests.databases import copies
from tests.databases.copies import TOKENS
from tests.servers.stack import ROOT, Stack, until

pytestmark = pytest.mark.stack
ANA, BEN, ZOE, OLGA = (TOKENS[name] for name in ("ana", "ben", "zoe", "olga"))
GROUPS = ["data", "editors", "finance", "finance-heads", "leads", "legal", "operators", "support"]
GROUPS += ["warehouse"]
PEOPLE = f"""{copies.PEOPLE}
groups = [Group.objects.create(name=name) for name in {GROUPS!r}]
for name in ("ben", "zoe"):
    User.objects.get(username=name).groups.add(*groups)
"""


class Server(Stack):
    """All in one process, with a copy of the examples: what they write stays there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {})
        self.examples = folder / "examples"
        self.environment |= {
            "WAYSTATION_WORKFLOWS": f"+{self.examples}",
            "WAYSTATION_OUTBOUND_ALLOW": "127.0.0.1",
            "WAYSTATION_SCHEDULES_BY": "olga",
        }

    def made(self, path: str, body: dict[str, Any], token: str) -> dict[str, Any]:
        status, answer = self.call("POST", f"/api/v1/{path}", body, token=token)
        assert status in {200, 201, 202}, answer
        return dict(answer)

    def begin(self, template: str, **given: Any) -> str:
        """Order work in Ana's name; gives its id."""
        return str(self.made("work-orders", {"template": template, **given}, ANA)["id"])

    def asked(self, step: str, about: str = "", *, by: str = BEN) -> dict[str, Any]:
        """Wait until an order asks at a step; "" is a question of no order."""

        def look() -> dict[str, Any] | None:
            open_now = self.call("GET", "/api/v1/pauses?open=true", token=by)[1]["results"]
            for pause in open_now:
                if pause["step"] == step and (pause["agent_work_order_id"] or "") == about:
                    return dict(pause)
            return None

        found = until(look, what=f"{step} of {about}; {self.log_tail()}", every=0.2)
        assert found is not None
        return found

    def decide(self, pause: dict[str, Any], decision: str, *, by: str = BEN, **more: Any) -> None:
        self.made(f"pauses/{pause['id']}/decisions", {"decision": decision, **more}, by)

    def approve(self, order: str, *steps: str) -> None:
        for step in steps:
            self.decide(self.asked(step, order), "approve")

    def call_of(self, order: str, step: str, **decision: Any) -> None:
        """Decide the one call that is asked about."""
        pause = self.asked(step, order)
        [call] = pause["calls"]
        self.decide(pause, "answer", input={"calls": {call["id"]: decision}})

    def written(self, folder: str) -> list[str]:
        files = (self.examples / folder).rglob("*")
        return sorted(file.read_text() for file in files if file.is_file())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("examples"))
    ours = ignore_patterns("__pycache__", "data", "published", "test_*")
    copytree(ROOT / "docs" / "examples", server.examples, ignore=ours)
    (server.examples / "data").mkdir()
    copies.sqlite(server.folder / "data")
    server.manage("shell", "-c", PEOPLE)
    server.standalone()
    try:
        yield server
    finally:
        server.stop()


def test_a_change_of_a_service_is_rolled_back_where_it_does_not_come_up(server):
    order = server.begin("infrastructure-change", input={"service": "shop", "version": "2-bad"})
    server.decide(server.asked("plan", order), "approve", by=ZOE)
    server.approve(order, "plan", "propose_rollback")
    server.ended(order, OLGA)
    assert server.written("data/services") == ["none"]
    assert server.written("data/changes") == ["rolled back"]
    other = server.begin("infrastructure-change", input={"service": "till", "version": "3"})
    server.decide(server.asked("plan", other), "cancel", feedback="Not today")
    calendar = ["rolled back", "withdrawn"]
    until(lambda: server.written("data/changes") == calendar, what="the calendar", every=0.2)


def test_a_large_claim_of_expenses_is_approved_by_the_lead_and_by_finance(server):
    receipt = {"name": "receipt.txt", "content": base64.b64encode(b"Thank you!").decode()}
    lines = [{"day": "2026-11-02", "kind": "travel", "amount": 1100}]
    claim = {"reason": "A customer came.", "lines": lines, "receipt": receipt}
    order = server.begin("expenses", input=claim)
    server.approve(order, "check", "finance")
    server.ended(order, ANA)
    assert "1100.00" in server.written("data/payments")


def test_forty_products_are_described_and_released_by_one_answer(server):
    order = server.begin("content-pipeline", input={"names": [f"Cup {n}" for n in range(40)]})
    server.approve(order, "proof")
    server.ended(order, ANA)
    assert len(server.written(f"published/{order}")) == 40


def test_an_agent_and_a_graph_ask_before_they_reach_outside(server):
    order = server.begin("customer-answer", user_request="fetch https://example.org")
    server.call_of(order, "work", decision="respond", result="The page is gone.")
    server.call_of(order, "letter", decision="edit", arguments={"text": "Dear Ada"})
    server.ended(order, ANA)
    assert server.written("data/letters") == ["Dear Ada"]


def test_a_table_is_migrated_once_its_first_batch_was_looked_at(server):
    rows = [json.dumps({"id": number, "name": f" person {number}"}) for number in range(7)]
    (server.examples / "data" / "people.jsonl").write_text("\n".join(rows))
    order = server.begin("data-migration", input={"table": "people", "batch": 3})
    server.approve(order, "first")
    server.ended(order, ANA)
    assert "".join(server.written("data/people.new")).count("Person") == 7


def test_the_schedule_of_the_morning_report_is_there_and_orders_one(server):
    (server.examples / "data" / "figures.txt").write_text("12 orders")
    known = server.call("GET", "/api/v1/schedules", token=OLGA)[1]["results"]
    [schedule] = [one for one in known if one["template"] == "morning-report"]
    assert (schedule["cron"], schedule["until"]) == ("0 7 * * 1-5", "12:00")
    order = server.made(f"schedules/{schedule['id']}/start", {}, OLGA)["id"]
    server.approve(order, "collect")
    server.ended(order, OLGA)
    assert server.written("data/reports") == ["# This morning\n\n12 orders"]


def test_a_shop_begins_a_return_by_webhook_and_hears_of_its_end(server):
    """By the example's own shop, which signs and verifies."""
    shop = runpy.run_path(str(server.examples / "_shop.py"))
    source = {"name": "returns", "template": "parcel-return", "title": "A return"}
    mapping = {"order_number": "/data/order", "amount": "/data/amount"}
    start = server.made("inbound-starts", {**source, "mapping": mapping}, OLGA)
    with listening(shop["Shop"]) as url:
        hook = {"channel": "webhook", "target": url, "templates": ["parcel-return"]}
        told = server.made("endpoints", {**hook, "occasions": ["order_completed"]}, OLGA)
        shop["Shop"].secret = told["secret"]
        order, again = (
            shop["begin"](server.url + start["address"], start["secret"], "A-100", 40)[
                "work_order_id"
            ]
            for _ in range(2)
        )
        assert order == again
        server.approve(order, "agree")
        parcel = server.asked("parcel", order)
        came = {
            "traceId": parcel["run_id"],
            "promptId": "parcel_came",
            "response": {"complete": True},
        }
        assert server.call("POST", "/api/v1/resume", came, token=OLGA)[0] == 403, "the owner"
        server.made("resume", came, BEN)
        server.ended(order, OLGA)
        [end] = until(lambda: list(shop["Shop"].ends.values()), what="the webhook", every=0.2)
    assert (end["type"], end["data"]["work_order_id"]) == ("order.completed", order)
    assert "40.00" in server.written("data/payments")


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A web server of ours for a while; gives its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{receiver.server_port}/"
        receiver.shutdown()


def test_a_script_that_is_killed_while_it_asks_finds_its_questions_again(server, tmp_path):
    (tmp_path / "old.log").touch()
    os.utime(tmp_path / "old.log", (0, 0))
    (tmp_path / "new.log").touch()

    def run() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, server.examples / "_clean_up.py", tmp_path],
            env={
                "PYTHONPATH": str(ROOT / "client"),
                "WAYSTATION_URL": server.url,
                "WAYSTATION_TOKEN": ANA,
            },
            stdout=subprocess.PIPE,
            text=True,
        )

    def asked() -> dict[str, Any]:
        """What Ana's script asks; nothing else is open by now."""

        def look() -> dict[str, Any] | None:
            found = server.call("GET", "/api/v1/pauses?open=true", token=BEN)[1]["results"]
            return next((one for one in found if not one["agent_work_order_id"]), None)

        return until(look, what="the script's question", every=0.2) or {}

    script = run()
    first = asked()
    script.kill()
    script.communicate()
    server.decide(first, "answer", input={"days": 7})
    script = run()
    second = asked()
    assert "delete" in second["question"]
    script.kill()
    script.communicate()
    assert (tmp_path / "old.log").exists()
    server.decide(second, "approve")
    words, _ = run().communicate(timeout=30)
    assert words.startswith("Deleted all that is older than ")
    assert [file.name for file in tmp_path.iterdir()] == ["new.log"]
