"""What happens when processes die: nothing is lost, nothing is done twice."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from http.client import RemoteDisconnected

import pytest

from tests.databases.copies import TOKENS
from tests.killed.middleware import HEADER
from tests.servers.private import Server
from tests.servers.stack import Stack, until
from tests.stories.conftest import make_stack, settle
from tests.worlds.repositories import git

pytestmark = pytest.mark.stack

ORDERS = "/api/v1/work-orders"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack for breaking: the server and beat run."""
    stack = make_stack(tmp_path_factory.mktemp("accidents"), "accidents")
    stack.environment["DJANGO_SETTINGS_MODULE"] = "tests.killed.settings"
    settle(stack)
    try:
        stack.beat()
        stack.web()
        yield stack
    finally:
        stack.stop()


@pytest.fixture
def worker(own: Stack) -> Server:
    """One that lives, perhaps from the test before; a test may kill it."""
    left = [process for process in own.processes[2:] if process.poll() is None]
    return left[0] if left else own.worker("first")


def order_at_execute(own: Stack, token: str, **scope: str) -> str:
    """An order whose plan was just approved; of the whole repository, if nothing else is said."""
    body = {
        "template": "repo-tidy",
        "repository_url": str(own.folder / "celery"),
        "input": scope,
    }
    status, order = own.call("POST", ORDERS, body, token=token)
    assert status == 201, order
    own.paused(order["id"], token, "awaiting_plan_approval")
    own.answer(order["id"], token, "approve")
    return str(order["id"])


def test_a_worker_killed_in_the_middle_of_execute_is_replaced_and_no_commit_is_doubled(own, worker):
    """P3, P4, S2-5, F13: kill -9 after the first commits; another worker finishes."""
    token = TOKENS["ana"]
    order = order_at_execute(own, token, rules="F401, I001, UP007")
    own.wait_for_log(order, token, "Fix ")
    own.kill(worker)
    assert own.order(order, token)["status"] == "running"
    own.worker("heir")
    own.paused(order, token, "awaiting_implementation_review")
    own.answer(order, token, "approve")
    own.paused(order, token, "awaiting_review_decision")
    own.answer(order, token, "approve")
    done = own.ended(order, token)
    workspace = own.folder / "data" / "workspaces" / order
    subjects = git(workspace, "log", "--format=%s", f"origin/HEAD..{done['branch']}").splitlines()
    assert len(subjects) == len(set(subjects)) == done["git_commit_count"] > 1
    messages = [event["data"].get("message", "") for event in own.events(order, token)]
    assert any("was lost; another one takes over" in message for message in messages)


@pytest.mark.usefixtures("worker")
def test_a_worker_without_the_workspace_restores_it_from_the_checkpoint(own):
    token = TOKENS["ana"]
    order = order_at_execute(own, token, rules="I001, UP007", paths="src/celery/worker src/sample")
    state = own.paused(order, token, "awaiting_implementation_review")
    # in which the worker may be putting a lock away just now
    folder = own.folder / "data" / "workspaces"
    until(
        lambda: not subprocess.run(["rm", "-rf", folder], check=False).returncode,
        what="the workspaces to be gone",
    )
    own.answer(order, token, "approve")
    own.paused(order, token, "awaiting_review_decision")
    own.answer(order, token, "approve")
    done = own.ended(order, token)
    assert done["git_commit_count"] == int(state["facts"]["Commits"])


def test_an_answer_given_while_no_worker_lives_is_kept_and_acted_on(own, worker):
    """P2, P3."""
    token = TOKENS["ana"]
    status, order = own.call(
        "POST",
        ORDERS,
        {
            "template": "repo-tidy",
            "repository_url": str(own.folder / "celery"),
            "input": {"rules": "I001"},
        },
        token=token,
    )
    assert status == 201
    own.paused(order["id"], token, "awaiting_plan_approval")
    own.kill(worker)
    own.answer(order["id"], token, "revise", feedback="not in tests/")
    own.worker("second")
    own.paused(order["id"], token, "awaiting_plan_approval", revision=2)


@pytest.mark.usefixtures("worker")
def test_a_cancelled_order_is_let_go_by_the_worker_that_works_on_it(own):
    """S4-30, S4-61 while executing; F23."""
    token = TOKENS["ana"]
    order = order_at_execute(own, token)
    until(lambda: own.order(order, token)["status"] == "running", what="the worker")
    assert own.call("POST", f"/api/v1/work-orders/{order}/cancel", token=token) == (
        200,
        {"success": True},
    )
    done = own.ended(order, token, "failed")
    assert (done["error_message"], done["failure_code"]) == (
        "Cancelled by user at executing phase",
        "cancelled_by_user",
    )
    events = [event["event"] for event in own.events(order, token)]
    assert events[-2:] == ["run_cancelled", "checkpoint_created"]


def test_a_server_killed_before_or_after_its_commit_makes_one_order_per_key(own):
    """F7: 2 of 152 keys made two orders when the web was killed.

    Now the key is committed with the order, or with nothing.
    """
    token, told = TOKENS["ana"], {}
    web = own.processes[1]
    for where in ("before the commit", "after the commit"):
        body, headers = (
            {"template": "repo-tidy", "repository_url": str(own.folder / "celery"), "title": where},
            {"Idempotency-Key": where},
        )
        with pytest.raises((RemoteDisconnected, ConnectionError)):
            own.call("POST", ORDERS, body, token=token, headers={**headers, HEADER: where})
        web.wait(10)
        web = own.web()
        status, sent, order = own.exchange("POST", ORDERS, body, token=token, headers=headers)
        told[where] = (status, sent.get("Idempotent-Replayed"), order["title"])
        assert [
            one["id"]
            for one in own.call("GET", ORDERS, token=token)[1]["results"]
            if one["title"] == where
        ] == [order["id"]]
    assert told == {
        "before the commit": (201, None, "before the commit"),
        "after the commit": (200, "rebuilt", "after the commit"),
    }
