"""Traces, logs and reports of errors, as systems of others receive them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.databases import copies
from tests.databases.copies import PEOPLE, TOKENS
from tests.servers.collector import Collector, attributes, collecting, rotel
from tests.servers.stack import SlowStack, until

pytestmark = [pytest.mark.stack]

TOKEN = TOKENS["ana"]
SECRETS = ("hunter2", "abcdefghijkl", "tell nobody", TOKEN)

WITHOUT = """
import runpy, sys
sys.modules[{!r}] = None
sys.argv = ["daphne", "-p", "1", "project.asgi:application"]
runpy.run_module("daphne", run_name="__main__")
"""
"""Starts a server where a package is missing."""


def named(collector: Collector, name: str):
    return [span for span in collector.spans if span.name == name]


def test_a_collector_gets_spans_sentry_gets_errors_and_the_log_is_json(tmp_path):
    """What leaves names runs, steps and models, and holds no secret and nothing that was said.

    Nothing is sent before a process ends: each sends what it has, those of bodies too.
    """
    copies.sqlite(tmp_path / "data")
    with collecting() as collector:
        with rotel(collector, tmp_path) as endpoint:
            run, log = _work(collector, endpoint, tmp_path)
            bodies = {"step planning", "step tick0", "chat scripted"}
            until(lambda: bodies <= {span.name for span in collector.spans}, what=f"{bodies}")
        _look_at_spans(collector, run)
        _look_at_report(collector, run)
        _look_at_log(log, run)
    sent = collector.raw.decode(errors="replace")
    assert not [secret for secret in SECRETS if secret in sent]


def _work(collector: Collector, endpoint: str, folder: Path) -> tuple[str, str]:
    """One run that waits, goes on and fails, and one that asks a model; gives the first one's id
    and the log.
    """
    there = {
        "LOG_FORMAT": "json",
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "3600000",
        "SENTRY_DSN": collector.dsn,
        "SENTRY_ENVIRONMENT": "tests",
        "WAYSTATION_COMMIT": "abc1234",
    }
    SlowStack(folder, {}).load(PEOPLE)  # telemetry would be loaded there, and say nothing
    stack = SlowStack(folder, there)
    process = stack.standalone()
    try:
        order = stack.begin("slow-broken", TOKEN)
        stack.paused(order, TOKEN, "awaiting_plan_approval")
        stack.answer(order, TOKEN, "approve")
        run = stack.ended(order, TOKEN, "failed")["run_id"]
        status, chat = stack.call(
            "POST",
            "/api/v1/work-orders",
            {"template": "chat-agent", "input": {"input": "tell nobody"}},
            token=TOKEN,
        )
        assert status == 201, chat
        stack.ended(chat["id"], TOKEN)
        until(lambda: collector.reports, what="the report of the error")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)
    return run, (stack.folder / "standalone.log").read_text()


def _look_at_spans(collector: Collector, run: str) -> None:
    assert collector.services == {"waystation"}
    (first,), (again,) = (named(collector, f"{how} slow-broken") for how in ("begin", "resume"))
    (asked,), (failed,) = named(collector, "step planning"), named(collector, "step tick0")
    assert (asked.trace_id, failed.trace_id) == (first.trace_id, again.trace_id)
    assert [link.trace_id for link in again.links] == [first.trace_id] != [again.trace_id]
    assert attributes(failed)["waystation.run.id"] == run
    assert attributes(failed)["error.type"] == "RuntimeError" and not failed.events
    (chat,) = named(collector, "chat scripted")
    told = attributes(chat)
    assert (told["gen_ai.operation.name"], told["gen_ai.request.model"]) == ("chat", "scripted")
    assert told["gen_ai.usage.output_tokens"] > 0
    above = {span.span_id: span for span in collector.spans}[chat.parent_span_id]
    assert above.name.startswith("step ")
    (posted,) = [
        span
        for span in collector.spans
        if attributes(span).get("http.route", "").endswith("/resume")
    ]
    assert attributes(posted)["http.response.status_code"] == 200
    assert order_id_is_in_none(collector)


def order_id_is_in_none(collector: Collector) -> bool:
    """Requests are named by their route."""
    return not any("wo_" in span.name for span in collector.spans)


def _look_at_report(collector: Collector, run: str) -> None:
    report = next(
        one for one in collector.reports if "RuntimeError" in json.dumps(one.get("exception", {}))
    )
    assert report["tags"]["run_id"] == run
    assert (report["release"], report["environment"]) == ("abc1234", "tests")
    (frame, *_) = reversed(report["exception"]["values"][-1]["stacktrace"]["frames"])
    assert frame["function"] == "broken" and "vars" not in frame
    assert "user" not in report and "extra" not in report and "breadcrumbs" not in report


def _look_at_log(log: str, run: str) -> None:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    said = [line for line in log.splitlines() if not line.startswith("{")]
    assert all(words.startswith(("Waystation runs", "Stop it", "Stopping")) for words in said), said
    (failure,) = [line for line in lines if line["message"].startswith("step tick0 of")]
    assert failure["run_id"] == run and failure["level"] == "ERROR"
    assert "RuntimeError" in failure["exception"] and len(failure["trace_id"]) == 32
    assert "[redacted]" in failure["exception"] and "hunter2" not in failure["exception"]


@pytest.mark.parametrize(
    ("setting", "value", "package"),
    [
        ("SENTRY_DSN", "https://key@errors.example/1", "sentry_sdk"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "opentelemetry.sdk"),
        ("SENTRY_DSN", "no dsn, and a secret", ""),
    ],
)
def test_a_setting_without_its_package_stops_the_start_and_says_what_to_install(
    tmp_path: Path, setting, value, package
):
    stack = SlowStack(tmp_path, {setting: value})
    process = stack.start("server", "-c", WITHOUT.format(package))
    assert process.wait(60) != 0
    words = (tmp_path / "server.log").read_text()
    last = words.strip().splitlines()[-1]
    assert last.startswith("django.core.exceptions.ImproperlyConfigured") and setting in last
    assert ("pip install -r requirements-" in last) == bool(package)
    assert value not in last
