"""Spans of a run: one for each step, a trace for each stretch, linked to the one before."""

from __future__ import annotations

import io
import json
import logging
import os

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from checkpoints.telemetry import about, json_lines, log_lines, spans
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs.engine import traces
from runs.engine.advance import advance
from runs.engine.context.secret_filter import SecretFilter
from tests.conftest import drive, fresh, head_of, pause_of
from tests.programs.begun import Begun
from tests.worlds import steps

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


@pytest.fixture
def made():
    """The spans that this process makes meanwhile."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans.install(provider.get_tracer("test"))
    yield exporter.get_finished_spans
    spans.install(None)


def trace_of(span):
    return span.context.trace_id


def test_a_resume_is_a_trace_of_its_own_that_links_to_the_one_before(make_order, ben, made):
    """A question that was open for three days would else be a span of three days."""
    paused = drive(make_order())
    first, *steps_before = sorted(made(), key=lambda span: span.start_time)
    assert first.name == "begin writing" and first.parent is None and not first.links
    assert {span.name.partition(" ")[0] for span in steps_before} == {"step"}
    assert {span.parent.span_id for span in steps_before} == {first.context.span_id}
    assert {trace_of(span) for span in steps_before} == {trace_of(first)}
    asked = steps_before[-1]
    assert asked.attributes["waystation.step.outcome"] == "question"
    assert asked.attributes["waystation.run.id"] == paused.latest_run.shown_id

    known = len(made())
    pause = pause_of(paused)
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
    drive(paused)
    again, *steps_after = sorted(made()[known:], key=lambda span: span.start_time)
    assert again.name == "resume writing" and trace_of(again) != trace_of(first)
    assert [link.context.span_id for link in again.links] == [first.context.span_id]
    assert {trace_of(span) for span in steps_after} == {trace_of(again)}
    begun = [(span.start_time, span.name) for span in (*steps_before, *steps_after)]
    assert len({name for _, name in begun}) == len(begun)  # one for each step
    assert all(span.end_time >= span.start_time for span in made())


def test_who_takes_a_run_over_goes_on_in_its_trace_and_a_retry_links_to_it(make_order, made):
    """Another worker, another process: where the span belongs is in the checkpoint."""
    order, slices = make_order("writing-quick"), 0
    while advance(order.latest_run_id, budget=0):
        slices += 1
    assert slices > 2 and fresh(order).latest_run.status == "completed"
    assert len(made()) == slices + 2  # the stretch, and each step
    assert len({trace_of(span) for span in made()}) == 1
    assert sum(span.parent is None for span in made()) == 1

    failing = drive(make_order("writing-fail"))
    failed = made()[-1]
    assert failed.status.status_code == StatusCode.ERROR
    assert failed.attributes["error.type"] == "StepFailed"
    assert "shop is closed" not in str(failed.to_json())  # words of a failure may hold anything
    before = trace_of(failed)
    runs.retry(failing.pk, by=failing.created_by)
    known = len(made())
    drive(fresh(failing))
    (root,) = [span for span in made()[known:] if span.parent is None]
    assert [link.context.trace_id for link in root.links] == [before]


def test_what_a_row_holds_of_a_trace_is_taken_only_where_it_is_one(make_order, made):
    """A document that was imported, or a hand in the admin, may have written anything there."""
    order = make_order()
    head = head_of(order)
    assert spans.tracing is not None
    for odd in (7, {"trace": "x", "span": ["y"]}, {"trace": "0" * 32, "span": "1" * 16}):
        head.metadata = {**head.metadata, traces.TRACE: odd}
        place = traces.enter(spans.tracing, order.latest_run, head)
        assert spans.place(place.trace, place.span) == place
        assert not made()[-1].links


@pytest.fixture
def line():
    """What a logger wrote last, as the JSON formatter writes it."""
    log_lines.install()
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(json_lines.JsonLines())
    logging.getLogger("author").addHandler(handler)
    yield lambda: json.loads(stream.getvalue().splitlines()[-1])
    logging.getLogger("author").removeHandler(handler)


def test_a_line_of_the_log_names_run_thread_and_span_and_holds_no_secret(make_order, made, line):
    """Also one that a library writes while a step works, in a thread of the step's own."""
    order = make_order()
    words = "wst_abcdefghijkl and Bearer abcdefghijkl and redis://:hunter2@cache/0 and /l/aaaaaaaaa"
    log = logging.getLogger("author")
    steps.HOOKS["planning"] = lambda: log.warning("%s half \ud83d", words)
    try:
        drive(order)
    finally:
        del steps.HOOKS["planning"]
    said, run = line(), order.latest_run
    step = made()[-1].context
    assert said["run_id"] == run.shown_id and said["thread_id"] == run.thread.shown_id
    assert said["trace_id"] == f"{step.trace_id:032x}" and said["span_id"] == f"{step.span_id:016x}"
    assert (said["level"], said["logger"]) == ("WARNING", "author")
    assert said["time"].endswith("Z")
    for secret in ("abcdefghijkl", "hunter2", "aaaaaaaaa"):
        assert secret not in json.dumps(said)

    scrub = SecretFilter()
    scrub.learn("open sesame")
    with about.work(request_id="req_1", scrub=scrub):
        try:
            raise ValueError("the door heard open sesame")
        except ValueError:
            log.exception("a call failed: %s", "x" * 40_000)
    said = line()
    assert "ValueError" in said["exception"] and "sesame" not in said["exception"]
    assert said["request_id"] == "req_1" and "run_id" not in said
    assert len(said["message"]) < 33_000
    assert about.now() == about.NOTHING


def test_a_line_of_daphnes_about_a_request_is_json_like_the_others(settings, caplog):
    settings.LOG_FORMAT = "json"
    entry = log_lines._entry(lambda *_, **__: pytest.fail("written as text"))
    with caplog.at_level(logging.INFO, "waystation.access"):
        entry(None, "10.0.0.7:1", None, "GET /l/aaaaaaaaaaaa", 200, 12)
    assert caplog.messages == ["10.0.0.7:1 GET /l/[redacted] 200"]


def test_nothing_of_opentelemetry_and_sentry_is_imported_where_they_are_off():
    """Redis' client imports OpenTelemetry's SDK by itself where it is installed."""
    code = (
        "import sys, django; django.setup(); import project.asgi, runs.tasks; "
        "from checkpoints.telemetry import spans; assert spans.tracing is None; "
        "off = ('opentelemetry.exporter', 'opentelemetry.proto', 'sentry_sdk'); "
        "print([name for name in sys.modules if name.startswith(off)])"
    )
    settings = {"DJANGO_SETTINGS_MODULE": "project.settings", "WAYSTATION_MCP": "0"}
    done = Begun("-c", code, environment={**os.environ, **settings}).ended()
    assert done.stdout.strip() == "[]", done.stderr
