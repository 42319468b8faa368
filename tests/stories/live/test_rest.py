"""The main job over REST alone, on real processes, with two template variants."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from tests.servers.stack import until
from tests.worlds.repositories import git

pytestmark = pytest.mark.stack


def create(stack, token, **fields):
    body = {"template": "repo-tidy", "repository_url": str(stack.folder / "celery"), **fields}
    status, order = stack.call("POST", "/api/v1/work-orders", body, token=token)
    assert status == 201, order
    return order


def test_a_repository_is_tidied_with_three_answers_and_the_branch_is_pushed(
    stack, token, sample_copy
):
    """S4-57, S4-58, S4-62 on a real repository."""
    ana = token("ana")
    order = create(
        stack, ana, repository_url=str(sample_copy), user_request="Tidy up", input={"push": True}
    )
    first = stack.paused(order["id"], ana, "awaiting_plan_approval")
    assert (first["agent_work_order_id"], first["status"], first["user_decision"]) == (
        order["id"],
        "active",
        None,
    )
    stack.answer(order["id"], ana, "revise", feedback="only I001 and UP007, not in tests/")
    second = stack.paused(order["id"], ana, "awaiting_plan_approval", revision=2)
    assert second["pause_content"] != first["pause_content"]
    stack.answer(order["id"], ana, "approve", revision=2)
    review = stack.paused(order["id"], ana, "awaiting_implementation_review")
    assert review["patch"].startswith("diff --git ")
    stack.answer(order["id"], ana, "approve")
    stack.paused(order["id"], ana, "awaiting_review_decision")
    stack.answer(order["id"], ana, "approve")
    done = stack.ended(order["id"], ana)
    assert (done["current_phase"], done["git_commit_count"], done["last_checkpoint"]) == (
        "completed",
        2,
        "awaiting_review_decision",
    )
    subjects = git(sample_copy, "log", "--format=%s", f"HEAD..{done['branch']}")
    assert sorted(line.split(":")[0] for line in subjects.splitlines()) == [
        "Fix I001",
        "Fix UP007",
    ]
    messages = [
        event["data"]["message"]
        for event in stack.events(order["id"], ana)
        if event["event"] == "log"
    ]
    for line in (
        "Workflow paused",
        "Workflow resumed with decision: revise",
        "Re-running step: planning with feedback",
        "Executing step: execute",
    ):
        assert line in messages


def test_the_variant_without_pauses_runs_from_end_to_end(stack, token):
    """S4-63: level 10 on real processes."""
    ana = token("ana")
    rules = {"rules": "I001", "paths": "src/sample"}
    order = create(stack, ana, template="repo-tidy-quick", input=rules)
    events = list(stack.events(order["id"], ana))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["event"] for event in events][-2:] == ["run_completed", "checkpoint_created"]
    assert "Workflow paused" not in [event["data"].get("message") for event in events]
    assert stack.ended(order["id"], ana)["git_commit_count"] == 1


def test_prefork_workers_and_beat_give_signs_of_life_and_the_doctor_reads_them(stack):
    """As a load balancer asks: by address, with no login."""
    by_address = {"Host": "10.0.0.7"}
    until(
        lambda: stack.call("GET", "/readyz", headers=by_address)[0] == 200,
        what=f"readiness; it said {stack.call('GET', '/readyz')}",
        every=0.5,
    )
    told = json.loads(stack.manage("doctor", "--json"))
    found = {one["subject"]: one for one in told["findings"]}
    assert (told["ok"], found["workers"]["level"], found["beat"]["level"]) == (True, "fine", "fine")
    assert "worker@tests" in found["workers"]["words"]
    assert "web@" in found["web servers"]["words"] and found["work"]["level"] == "fine"


def test_the_main_job_over_the_shell(stack, token):
    """Each command is a process that starts: when to look next is asked over REST."""
    ana = token("ana")
    order = stack.manage(
        "workorder",
        "--user",
        "ana",
        "create",
        str(stack.folder / "celery"),
        "--template",
        "repo-tidy",
        "--input",
        '{"rules": "F401", "paths": "src/sample"}',
    ).strip()
    stack.paused(order, ana, "awaiting_plan_approval")
    stack.manage("workorder", "--user", "ana", "revise", order, "not in tests/")
    stack.paused(order, ana, "awaiting_plan_approval", revision=2)
    shown = stack.manage("workorder", "--user", "ana", "show", order)
    assert "# Plan:" in shown and "revision 2" in shown
    stack.manage("workorder", "--user", "ana", "approve", order, "--revision", "2")
    stack.paused(order, ana, "awaiting_implementation_review")
    stack.manage("workorder", "--user", "ana", "cancel", order)
    done = stack.ended(order, ana, "failed")
    assert done["error_message"] == "Cancelled by user at executing phase"


def test_a_form_that_the_server_could_not_read_is_refused_in_words(stack, token):
    """Daphne read each form beside Django, and answered this one with an empty 400."""
    request = urllib.request.Request(
        f"{stack.url}/api/v1/work-orders",
        b"--odd--\r\n",
        {
            "Authorization": f"Bearer {token('ana')}",
            "Content-Type": "multipart/form-data; boundary=odd",
        },
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert (refused.value.code, json.load(refused.value)["code"]) == (422, "template_required")


def test_a_source_that_is_no_repository_is_refused_with_a_reason(stack, token):
    status, problem = stack.call(
        "POST",
        "/api/v1/work-orders",
        {"template": "repo-tidy", "repository_url": str(stack.folder)},
        token=token("ana"),
    )
    assert (status, problem["code"]) == (422, "not_a_repository")
