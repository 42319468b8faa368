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
