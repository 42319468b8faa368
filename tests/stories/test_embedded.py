"""The embedded default: one process on SQLite in an empty folder."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import prepared
from tests.stack import Stack, until

pytestmark = pytest.mark.stack


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path, {})
    stack.environment.pop("WAYSTATION_LEASE_SECONDS")  # as a newcomer has it
    yield stack
    stack.stop()


@pytest.fixture
def ready(alone: Stack) -> Stack:
    """Its folder is not quite empty: the tables are there."""
    prepared.sqlite(alone.folder / "data")
    return alone


def printed(stack: Stack) -> tuple[str, str]:
    """The password and the order that the first start printed."""
    text = (stack.folder / "standalone.log").read_text()
    password = re.search(r"password\s+(\S+)", text)
    order = re.search(r"wo_[0-9a-z]{26}", text)
    assert password and order, text
    return password[1], order[0]


def test_killed_at_a_pause_it_comes_back_with_the_question_and_runs_no_step_twice(alone):
    """P2, P5, S2-32, S2-33: kill -9 of everything, start again, approve."""
    process = alone.standalone("--demo")
    order = printed(alone)[1]
    token = alone.manage("api_token", "reviewer").split()[-1]
    asked = alone.paused(order, token, "awaiting_plan_approval")
    alone.kill(process)
    alone.standalone("--demo")
    assert alone.paused(order, token, "awaiting_plan_approval")["id"] == asked["id"]
    alone.answer(order, token, "approve")
    alone.paused(order, token, "awaiting_implementation_review")
    alone.answer(order, token, "skip_review")
    alone.ended(order, token)
    started = [event["data"]["step"] for event in alone.events(order, token) if event["event"] == "step_started"]
    assert started == ["planning", "execute", "deliver"]


def test_killed_while_a_step_works_it_goes_on_by_itself(ready):
    process = ready.standalone("--demo")
    order = printed(ready)[1]
    token = ready.manage("api_token", "reviewer").split()[-1]
    ready.paused(order, token, "awaiting_plan_approval")
    ready.answer(order, token, "approve")
    ready.wait_for_log(order, token, "Fix ")
    ready.kill(process)
    ready.standalone("--demo")
    state = ready.paused(order, token, "awaiting_implementation_review")
    workspace = ready.folder / "data" / "workspaces" / order
    subjects = subprocess.run(
        ["git", "-C", workspace, "log", "--format=%s", "origin/HEAD..HEAD"], capture_output=True, text=True, check=True
    ).stdout
    assert len(subjects.splitlines()) == len(set(subjects.splitlines())) == int(state["facts"]["Commits"])


def test_it_stops_cleanly_on_sigterm_and_says_so(ready):
    process = ready.standalone()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert "Stopping" in (ready.folder / "standalone.log").read_text()


def test_two_on_one_folder_are_refused_with_a_reason(ready):
    ready.standalone()
    words = ready.manage("standalone", "--port", "1", check=False)
    assert "Another Waystation already works in" in words


def test_a_taken_port_is_said(ready, tmp_path_factory):
    ready.standalone()
    other = Stack(tmp_path_factory.mktemp("other"), {})
    words = other.manage("standalone", "--port", str(ready.port), check=False)
    assert f"Port {ready.port} on 127.0.0.1 cannot be used" in words


def test_of_the_demo_invoices_one_is_booked_and_two_wait(ready):
    """S3-49, S3-50, offline: one books itself, one waits for a bookkeeper, one for the supplier; a second start makes no more."""
    process = ready.standalone("--demo")
    token = ready.manage("api_token", "reviewer").split()[-1]

    def phases() -> list[str]:
        orders = ready.call("GET", "/api/v1/work-orders", token=token)[1]["results"]
        return sorted(one["current_phase"] for one in orders if one["template"] == "smart-booking")

    expected = ["completed", "missing_supplier_data", "needs_bookkeeper_decision"]
    until(lambda: phases() == expected, what="the three invoices")
    ledger = ready.folder / "data" / "shared" / "booking" / "ledger.csv"
    assert len(ledger.read_text().splitlines()) == 5
    ready.kill(process)
    ready.standalone("--demo")
    assert phases() == expected
