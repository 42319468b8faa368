"""S4's validation levels 3 to 10 as its document prints them, on the running product: its commands
to the letter for 3 to 5, 9 and 10, and what it says to click and to see for 6 and 8. (Levels 1 and
2 are linters and unit tests: `make check`, `make test`; level 7 begins the first story of
tests/stories/browser/test_order.py.)

Replaced are the host, the ids, the token that the document does not have (C20), the repository's
address (no network here) and the waiting: instead of `sleep` the test looks until it is so. A
command that the document cuts short with `...` is completed with what level 3 prints. Added are one
that makes the repository which level 3 finds, and `"default": true` of the templates (C29).
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.databases import copies
from tests.databases.copies import TOKENS
from tests.doors.looks import spinning, style
from tests.servers.private import redis
from tests.servers.stack import REQUESTS, Stack, until
from tests.worlds.repositories import make_repository

pytestmark = pytest.mark.stack
CODER = Path(__file__).resolve().parents[2] / "programs" / "coder.py"
TOKEN = TOKENS["olga"]
BASE = "http://localhost:8053/api/agent-work-orders"
REGISTER = """curl -X POST .../repositories -d '{"url": "https://github.com/test/repo"}'"""

PUT_STANDARD = """curl -X PUT http://localhost:8053/api/agent-work-orders/templates/workflows/standard-dev \\
  -d '{
    "steps": [
      {"step_type": "planning", "step_template_slug": "standard-planning", "pause_after": true, "pause_phase": "awaiting_plan_approval"}
    ]
  }'"""
ENABLE = """curl -X PUT http://localhost:8053/api/agent-work-orders/repositories/{repo_id}/template-execution \\
  -d '{"use_template_execution": true}'"""
CREATE = """curl -X POST http://localhost:8053/api/agent-work-orders/ \\
  -d '{"repository_url": "https://github.com/test/repo", "user_request": "Add auth"}'"""
STREAM = "curl -N http://localhost:8053/api/agent-work-orders/$WO_ID/logs/stream"
PAUSE_STATE = "curl http://localhost:8053/api/agent-work-orders/$WO_ID/pause-state"
STATUS = "curl http://localhost:8053/api/agent-work-orders/$WO_ID"
APPROVE = """curl -X POST http://localhost:8053/api/agent-work-orders/$WO_ID/resume \\
  -H "Content-Type: application/json" \\
  -d '{"decision": "approve"}'"""
REVISE = """curl -X POST http://localhost:8053/api/agent-work-orders/$WO_ID/resume \\
  -d '{
    "decision": "revise",
    "feedback": "Add security considerations to the plan. Include authentication flow diagram."
  }'"""
PUT_ADVANCED = """curl -X PUT .../templates/workflows/advanced-dev \\
  -d '{
    "steps": [
      {"step_type": "planning", "pause_after": true, "pause_phase": "awaiting_plan_approval"},
      {"step_type": "execute", "pause_after": true, "pause_phase": "awaiting_implementation_review"},
      {"step_type": "review", "pause_after": true, "pause_phase": "awaiting_review_decision"}
    ]
  }'"""
APPROVE_SHORT = """curl -X POST .../$WO_ID/resume -d '{"decision": "approve"}'"""
PUT_QUICK = """curl -X PUT .../templates/workflows/quick-fix \\
  -d '{
    "steps": [
      {"step_type": "planning", "pause_after": false},
      {"step_type": "execute", "pause_after": false}
    ]
  }'"""


class Terminal:
    """Sends the document's commands as curl would, to the running product."""

    def __init__(self, stack: Stack, ids: dict[str, str]) -> None:
        self.stack, self.ids = stack, ids
        self.order = ""

    def request_of(self, command: str) -> tuple[str, str, str | None, dict[str, str]]:
        """Method, path, body and headers of a command. curl says
        `application/x-www-form-urlencoded` of what -d sends, where no -H does.
        """
        words = shlex.split(command.replace("\\\n", " "))
        assert words.pop(0) == "curl"
        method, address, body = "", "", None
        headers: dict[str, str] = {}
        while words:
            match words.pop(0):
                case "-X":
                    method = words.pop(0)
                case "-d":
                    body = words.pop(0)
                    headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
                case "-H":
                    name, _, value = words.pop(0).partition(": ")
                    headers[name] = value
                case "-N":
                    pass
                case word:
                    address = (
                        re.sub(r"^\.\.\.", BASE, word)
                        .replace("$WO_ID", self.order)
                        .replace("{repo_id}", self.ids["repository"])
                    )
        assert address.startswith("http://localhost:8053/"), address
        if body is not None:
            body = body.replace("https://github.com/test/repo", self.ids["url"])
            if "/templates/workflows/" in address:
                body = json.dumps({**json.loads(body), "default": True})
        path = address.removeprefix("http://localhost:8053")
        return (
            method or ("POST" if body is not None else "GET"),
            path,
            body,
            {**headers, "Authorization": f"Bearer {TOKEN}"},
        )

    def send(self, command: str) -> Any:
        """The JSON of the answer, which is a success."""
        method, path, body, headers = self.request_of(command)
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.port, timeout=30)
        with closing(connection):
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read().decode()
        assert response.status < 300, f"{command}\n{response.status} {text}"
        return json.loads(text)

    def create(self) -> str:
        """`WO_ID=$(curl -X POST … | jq -r '.agent_work_order_id')`."""
        self.order = str(self.send(CREATE)["agent_work_order_id"])
        return self.order

    def stream(self, pattern: str) -> Generator[str, None, None]:
        """`curl -N … | grep <pattern>`, until the stream ends or the reader leaves it."""
        method, path, _, headers = self.request_of(STREAM)
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.port, timeout=60)
        with closing(connection):
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            assert response.status == 200
            end = time.monotonic() + 60
            for raw in response:  # a heartbeat at least, each 15 s
                assert time.monotonic() < end, (
                    f"nothing more with {pattern!r} came in the log of {self.order}"
                )
                if re.search(pattern, line := raw.decode()):
                    yield line

    def sees(self, pattern: str, *expected: str) -> None:
        """The lines of the live log that match hold these texts, in this order."""
        left = list(expected)
        with closing(self.stream(pattern)) as lines:
            for line in lines:
                while left and left[0] in line:
                    left.pop(0)
                if not left:
                    return
        raise AssertionError(f"the log ended without {left}")

    def paused(self, phase: str, but: str = "") -> dict[str, Any]:
        """`sleep 30`, then the pause state: a question of that phase, and not the one of that
        id.
        """

        def look() -> dict[str, Any] | None:
            state = self.send(PAUSE_STATE)
            return state if state and state["pause_phase"] == phase and state["id"] != but else None

        found = until(
            look, what=f"{phase} of {self.order}; {self.stack.log_tail()}", every=REQUESTS
        )
        assert found is not None
        return found

    def becomes(self, **expected: str) -> dict[str, Any]:
        """`sleep`, then the order, which is as expected by then."""

        def look() -> dict[str, Any] | None:
            order: dict[str, Any] = self.send(STATUS)
            return order if {name: order[name] for name in expected} == expected else None

        found = until(
            look, what=f"{expected} of {self.order}; {self.stack.log_tail()}", every=REQUESTS
        )
        assert found is not None
        return found


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The product of its own, with a scripted command line agent as the one that writes code."""
    folder = tmp_path_factory.mktemp("levels")
    (folder / "control").mkdir()
    config = {
        "command": [sys.executable, str(CODER), str(folder / "control")],
        "stdin": True,
        "output": "claude-code",
    }
    (folder / "coder.json").write_text(json.dumps(config))
    database = copies.postgresql(f"levels_{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}")
    with redis(folder) as url:
        stack = Stack(
            folder,
            {
                "DATABASE_URL": database,
                "REDIS_URL": url,
                "WAYSTATION_CODER": str(folder / "coder.json"),
            },
        )
        try:
            stack.worker()
            stack.beat()
            stack.web()
            yield stack
        finally:
            stack.stop()


@pytest.fixture(scope="module")
def terminal(stack: Stack) -> Terminal:
    """A terminal whose repository is registered, and where nothing says yet which template it
    takes.
    """
    url = stack.folder / "test" / "repo"
    make_repository(url, {"README.md": "# Project\n"})
    terminal = Terminal(stack, {"repository": "", "url": str(url)})
    terminal.ids["repository"] = terminal.send(REGISTER)["id"]
    return terminal


@pytest.fixture
def held(stack: Stack) -> Iterator[Callable[[str], Path]]:
    """`held("execute")`: the agent waits in that phase, until the file is gone."""
    files = []

    def hold(phase: str) -> Path:
        files.append(stack.folder / "control" / f"hold-{phase}")
        files[-1].touch()
        return files[-1]

    yield hold
    for file in files:
        file.unlink(missing_ok=True)


def test_level_3_pause_at_planning(terminal):
    """S4-56, S4-34, S4-35, S4-13: before, these addresses were 404, a body without a JSON header
    415, and `standard-planning` unknown.

    That nothing further runs is proven where there is more to run, and where all is tried that
    could run it: `hitl/test_api_levels.py`.
    """
    assert terminal.send(PUT_STANDARD)["slug"] == "standard-dev"
    assert terminal.send(ENABLE)["use_template_execution"] is True
    order = terminal.create()
    terminal.sees("pause", "Workflow paused")
    state = terminal.send(PAUSE_STATE)
    assert (state["agent_work_order_id"], state["pause_phase"], state["status"]) == (
        order,
        "awaiting_plan_approval",
        "active",
    )
    assert (
        "Add `greeting.py`" in state["pause_content"] and state["id"] and state["pause_timestamp"]
    )
    shown = terminal.send(STATUS)
    assert (shown["status"], shown["current_phase"]) == ("paused", "awaiting_plan_approval"), (
        "C5: the phase says what the status is called"
    )
    with closing(terminal.stream("Executing step|Workflow")) as lines:
        assert ["Executing step: planning" in next(lines), "Workflow paused" in next(lines)] == [
            True,
            True,
        ]
    assert terminal.send(PAUSE_STATE) == state


def test_level_4_resume_with_approval(terminal, held):
    """S4-57: on level 9's template.

    The one that level 3 prints ends with planning, so that nothing could be executed (C27).
    """
    terminal.send(PUT_ADVANCED)
    terminal.create()
    pause = terminal.paused("awaiting_plan_approval")
    hold = held("execute")
    assert terminal.send(APPROVE)["success"] is True
    terminal.sees(
        "resume|execute", "Workflow resumed with decision: approve", "Executing step: execute"
    )
    terminal.becomes(status="running", current_phase="executing")
    resolved = terminal.stack.call("GET", f"/api/v1/pauses/{pause['id']}", token=TOKEN)[1]
    assert (resolved["status"], resolved["user_decision"]) == ("resolved", "approve")
    assert resolved["updated_at"] >= resolved["resume_timestamp"] > pause["updated_at"]
    hold.unlink()
    terminal.paused("awaiting_implementation_review")


def test_level_5_resume_with_revision_feedback(terminal):
    """S4-58."""
    terminal.send(PUT_STANDARD)
    terminal.create()
    first = terminal.paused("awaiting_plan_approval")
    assert terminal.send(REVISE)["success"] is True
    terminal.sees(
        "revise|feedback|revision|Executing",
        "Workflow resumed with decision: revise",
        "Re-running step: planning with feedback",
        "Revision feedback: Add security considerations",
        "Executing step: planning",
    )
    second = terminal.paused("awaiting_plan_approval", but=first["id"])
    assert (
        "Include authentication flow diagram." in second["pause_content"] != first["pause_content"]
    )
    stored = terminal.stack.call("GET", f"/api/v1/pauses/{first['id']}", token=TOKEN)[1]
    assert (
        stored["user_feedback"]
        == "Add security considerations to the plan. Include authentication flow diagram."
    )


def ordered(
    terminal: Terminal,
    open_page: Callable[..., Page],
    request: str = "Add auth",
    *,
    clock: bool = False,
) -> Page:
    """An order with three pauses, made in the browser; `clock`: in one whose time can be put
    forward.
    """
    terminal.send(PUT_ADVANCED)
    page = open_page("olga", "/")
    if clock:
        page.clock.install()
    page.goto("/work-orders/new?template=advanced-dev")
    page.get_by_role("textbox", name="Repository").fill(terminal.ids["url"])
    page.get_by_label("Request").fill(request)
    page.get_by_role("button", name="Start the work order").click()
    page.wait_for_url(re.compile(r"/work-orders/wo_"))
    terminal.order = page.url.rstrip("/").rpartition("/")[2]
    return page


def test_level_6_the_pause_card(terminal, held, open_page):
    """S4-59: before, no test saw the plan fold, the age grow or the spinner turn."""
    hold = held("plan")
    page = ordered(terminal, open_page, "Add auth in small steps", clock=True)
    title, card = page.locator("main header.title"), page.locator(".pause")
    expect(title.locator(".status")).to_have_text("Running", timeout=60_000)
    expect(title.locator(".phase")).to_have_text("Planning")
    expect(card).to_have_count(0)
    hold.unlink()
    expect(card.get_by_role("heading", level=2)).to_have_text(
        "⏸️ Waiting for Plan Approval", timeout=60_000
    )
    assert [style(card, f"border{side}Color") for side in ("Top", "Right", "Bottom", "Left")] == [
        "rgb(245, 158, 11)"
    ] * 4
    expect(card.locator("header time")).to_have_text("Paused just now")
    page.clock.fast_forward(60_000)
    expect(card.locator("header time")).to_have_text("Paused 1 minute ago")
    plan, first = card.locator("#content"), card.locator("#content p").first
    expect(first).to_have_text("All of it. Add greeting.py with a test.")
    assert first.locator("code").inner_text() == "greeting.py", "formatted"
    folded = plan.evaluate("it => it.clientHeight")
    card.get_by_role("button", name="Show More").click()
    assert plan.evaluate("it => it.clientHeight") > folded
    card.get_by_role("button", name="Show Less").click()
    assert plan.evaluate("it => it.clientHeight") == folded
    assert [
        words.split("\n")[0] for words in card.locator(".answers .button").all_inner_texts()
    ] == ["Approve", "Revise", "Cancel"]
    hold = held("execute")
    with spinning(page, card.get_by_role("button", name="Approve")):
        expect(card.get_by_role("heading", level=2)).to_have_text("⏸️ Waiting for Plan Approval")
        assert terminal.send(PAUSE_STATE)["status"] == "active"
    expect(card).to_have_count(0)
    expect(title.locator(".phase")).to_have_text("Executing")
    expect(page.locator(".log")).to_contain_text("Workflow resumed with decision: approve")
    assert terminal.becomes(status="running", current_phase="executing")
    expect(title.locator(".status")).to_have_text("Running")


def test_level_8_cancel(terminal, open_page):
    """S4-61."""
    page = ordered(terminal, open_page)
    expect(page.locator(".pause")).to_contain_text("⏸️ Waiting for Plan Approval", timeout=60_000)
    page.locator("[data-cancel]").click()
    dialog = page.locator("dialog[data-confirm]")
    expect(dialog).to_contain_text("Are you sure you want to cancel this work order?")
    page.get_by_role("button", name="No, go back").click()
    expect(dialog).not_to_be_visible()
    assert terminal.send(STATUS)["status"] == "paused", "an accident cancels nothing"
    page.locator("[data-cancel]").click()
    with spinning(page, page.get_by_role("button", name="Yes, Cancel")):
        assert terminal.send(STATUS)["status"] == "paused"
    expect(page.locator("main")).to_contain_text("Cancelled by user at planning phase")
    expect(page.locator("main .status").first).to_have_text("Cancelled")
    expect(page.locator(".pause")).to_have_count(0)
    shown = terminal.send(STATUS)
    assert (shown["status"], shown["failure_code"]) == ("failed", "cancelled_by_user")
    with closing(terminal.stream("Executing step")) as started:
        assert not [line for line in started if "execute" in line]


def test_level_9_multiple_checkpoints(terminal):
    """S4-62: before, a step without `step_template_slug` was refused.

    A pull request takes a step that delivers; none is printed (C28).
    """
    terminal.send(PUT_ADVANCED)
    terminal.create()
    for phase in (
        "awaiting_plan_approval",
        "awaiting_implementation_review",
        "awaiting_review_decision",
    ):
        terminal.paused(phase)
        assert terminal.send(APPROVE_SHORT)["success"] is True
    done = terminal.becomes(status="completed")
    assert done["git_commit_count"] > 0
    assert done["github_pull_request_url"] is None
    assert done["usage"]["input_tokens"] == 3000, (
        "of three agents, though the template says nothing of how they add up"
    )


def test_level_10_no_pause_workflow(terminal):
    """S4-63."""
    terminal.send(PUT_QUICK)
    order = terminal.create()
    terminal.becomes(status="completed")
    with closing(terminal.stream("pause")) as lines:
        assert list(lines) == []
    pauses = terminal.stack.call("GET", "/api/v1/pauses?limit=200", token=TOKEN)[1]["results"]
    assert order not in {pause["agent_work_order_id"] for pause in pauses}
    assert terminal.send(PAUSE_STATE) is None
