"""Turns on a thread over REST: what is taken, refused, and said of both."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from checkpoints.models import Checkpoint, Thread
from hitl.api.threads import fields
from runs.definitions import shipped
from runs.models import Run
from runs.threads import turns as turns
from runs.threads.turns import Turn
from tests.worlds.talking_threads import FAIL, RAN, drive, state_of
from tests.worlds.talking_threads import give as give
from tests.worlds.talking_threads import thread as thread

pytestmark = pytest.mark.django_db


@pytest.fixture
def call(api, ana, thread):
    def call(method: str, path: str, body: Any = None, *, by=ana, status: int = 200) -> Any:
        response = getattr(api(by), method)(f"/api/v1/{path}", body, format="json")
        assert response.status_code == status, response.content
        for run in Run.objects.filter(status="pending"):
            drive(run)
        return response.json() if response.content else None

    return call


def test_a_conversation_over_rest(call):
    """S0-7, S0-40, S0-53, S0-57, S0-58, S1-27."""
    made = call("post", "threads", {"title": "Support"}, status=201)
    path = f"threads/{made['id']}"
    said = call("post", f"{path}/runs", {"template": "talk-pausing", "input": "Hello"}, status=201)
    assert (said["how"], said["run"]["status"], said["decision"]) == ("started", "pending", None)
    [waiting] = call("get", "runs?status=pending_input")["results"]
    assert (waiting["id"], waiting["thread_id"], waiting["pending_input"]["prompt"]) == (
        said["run"]["id"], made["id"], "Waiting for Plan Approval",
    )  # fmt: skip
    assert waiting["pending_input"]["checkpoint_id"] == call("get", path)["head"]
    said = call("post", f"{path}/runs?auto_resume_pending=true", {"input": "APPROVE"}, status=201)
    assert (said["how"], said["decision"]) == ("answered", "approve")
    run = call("get", f"runs/{said['run']['id']}")
    assert (run["status"], run["pending_input"], run["work_order_id"]) == ("completed", None, None)
    state = call("get", f"{path}/state")
    assert (state["values"]["last"], state["next_step"]) == ("step3", "")
    history = call("get", f"{path}/history")["results"]
    assert [one["node_id"] for one in history] == ["step3", "step2", "step1", "step1", ""]
    assert call("get", f"runs/{run['id']}/checkpoints")["results"] == history
    events = call("get", f"{path}/events?after=2")["results"]
    assert [event["seq"] for event in events] == list(range(3, 3 + len(events)))
    assert call("get", f"checkpoints/{history[0]['id']}")["state"]["last"] == "step3"


def test_what_a_caller_leaves_out_is_made_with_defaults(call, thread):
    """S1-9: and no body at all goes on where the thread stands."""
    spelled_out: dict[str, Any] = {
        "template": "talk", "input": {"colour": "red"}, "state": None, "resume_from": "",
        "checkpoint_id": None, "interrupt_before": [],
        "interrupt_after": [], "replaces": "", "reason": "", "step_around": False,
        "workflow_uri": "",
    }  # fmt: skip
    made = call("post", "threads", {}, status=201)["id"]
    call("post", f"threads/{made}/runs?auto_resume_pending=true", spelled_out, status=201)
    call(
        "post",
        f"threads/{thread.shown_id}/runs",
        {"template": "talk", "input": {"colour": "red"}},
        status=201,
    )
    one, other = Run.objects.order_by("pk")
    for name in (
        "definition_id",
        "input",
        "interrupt_before",
        "interrupt_after",
        "retry_of_id",
        "status",
    ):
        assert getattr(one, name) == getattr(other, name), name
    stopping = {"template": "talk", "input": {}, "interrupt_after": ["step2"]}
    run = call("post", f"threads/{thread.shown_id}/runs", stopping, status=201)["id"]
    RAN.clear()
    said = call("post", f"threads/{thread.shown_id}/runs", status=201)
    assert (said["how"], said["id"], RAN) == ("answered", run, ["step3"])


def test_a_run_is_answered_resumed_and_cancelled_over_rest(call, thread):
    """S0-10, S0-11, S0-42, S0-73."""
    path = f"threads/{thread.shown_id}/runs"
    run = call("post", path, {"template": "talk-pausing", "input": {}}, status=201)["run"]["id"]
    assert call("post", f"runs/{run}/resume", {})["how"] == "asked"
    said = call("post", f"runs/{run}/input", {"content": "shorter"}, status=201)
    assert (said["decision"], said["run"]["id"]) == ("revise", run)
    assert call("post", f"runs/{run}/cancel")["status"] == "cancelled"
    assert call("post", f"runs/{run}/cancel", status=409)["code"] == "run_ended"
    assert call("post", f"runs/{run}/input", {"content": "x"}, status=409)["code"] == "pause_closed"
    assert call("post", f"runs/{run}/resume", {}, status=409)["code"] == "nothing_to_resume"
    first = Checkpoint.objects.filter(thread=thread).earliest("created_at").shown_id
    said = call("post", f"runs/{run}/resume", {"checkpoint_id": first})
    assert said["how"] == "resumed"
    assert said["run"]["id"] != run


def test_a_run_that_waits_is_resumed_by_the_checkpoint_it_waits_at(call, thread):
    """S0-42, S0-73: a client sends the checkpoint that it remembers."""
    run = call(
        "post",
        f"threads/{thread.shown_id}/runs",
        {"template": "talk-pausing", "input": {}},
        status=201,
    )["id"]
    before = Run.objects.count()
    [pending] = call("get", "runs?status=pending_input&mine=true")["results"]
    said = call(
        "post", f"runs/{run}/resume", {"checkpoint_id": pending["pending_input"]["checkpoint_id"]}
    )
    assert (said["how"], said["id"], said["run"]["id"], said["run"]["status"]) == (
        "asked",
        run,
        run,
        "paused",
    )
    earlier = Checkpoint.objects.filter(thread=thread).earliest("created_at").shown_id
    assert (
        call("post", f"runs/{run}/resume", {"checkpoint_id": earlier}, status=409)["code"]
        == "run_live"
    )
    assert Run.objects.count() == before
    assert call("post", f"runs/{run}/input", {"content": "APPROVE"}, status=201)["id"] == run
    assert call("get", f"runs/{run}")["status"] == "completed"


def test_a_run_that_waits_for_a_worker_is_followed_from_where_it_stands(api, ana, thread):
    """S0-42: its first checkpoint is the one that it stands at."""
    run = turns.invoke(thread.pk, Turn(template="talk", input={}), by=ana)
    head = Checkpoint.objects.get(thread=thread).shown_id
    said = api(ana).post(
        f"/api/v1/runs/{run.shown_id}/resume", {"checkpoint_id": head}, format="json"
    )
    assert (said.status_code, said.json()["how"], said.json()["id"]) == (
        200,
        "following",
        run.shown_id,
    )


def test_a_workflow_is_named_by_its_path_too(call, thread):
    """S0-40."""
    path = f"threads/{thread.shown_id}/runs"
    said = call(
        "post",
        path,
        {"workflow_uri": "workflows/talk.yaml", "input": {"input": "Hello"}},
        status=201,
    )
    assert (said["id"], said["run"]["template"]) == (said["run"]["id"], "talk")
    assert (
        call(
            "post", path, {"workflow_uri": "talk", "template": "talk", "input": "More"}, status=201
        )["how"]
        == "started"
    )
    for wrong, status in (
        ({"workflow_uri": "talk.yaml", "template": "talk-pausing"}, 422),
        ({"workflow_uri": "../"}, 400),
        ({"workflow_uri": "a b"}, 400),
        ({"workflow_uri": 3.5}, 400),
    ):
        refused = call("post", path, {"input": "x", **wrong}, status=status)
        assert refused["errors"].keys() == {"workflow_uri"}
    assert (
        call("post", path, {"workflow_uri": "workflows/none.yaml", "input": "x"}, status=404)[
            "code"
        ]
        == "template_not_found"
    )


def test_what_was_asked_last_comes_first_and_mine_is_mine(call, api, ana, ben, team, page):
    """S0-57, S0-58, C26: page by page too."""
    own = [turns.open_thread(by=ana, team=team).shown_id for _ in range(3)]
    theirs = turns.open_thread(by=ben, team=team).shown_id
    for opened, by in [*((one, ana) for one in own), (theirs, ben)]:
        call(
            "post",
            f"threads/{opened}/runs",
            {"template": "talk-pausing", "input": {}},
            by=by,
            status=201,
        )
    call("post", f"threads/{own[0]}/runs", {"input": "shorter"}, status=201)  # asked anew

    def asked(query: str) -> list[str]:
        found, url = [], f"runs?status=pending_input&limit=1{query}"
        while url:
            page = call("get", url)
            found += [one["pending_input"]["thread_id"] for one in page["results"]]
            url = (page["next"] or "").partition("/api/v1/")[2]
        return found

    assert asked("") == [own[0], theirs, own[2], own[1]]
    assert asked("&mine=true") == [own[0], own[2], own[1]]
    [last] = call("get", "runs?status=pending_input&mine=1&limit=1")["results"]
    assert {"run_id", "thread_id", "checkpoint_id", "prompt", "created_at"} <= last[
        "pending_input"
    ].keys()
    assert last["pending_input"]["run_id"] == last["id"]
    assert call("get", "runs?mine=perhaps", status=400)["code"] == "invalid"
    for one in (*own, theirs):
        call("post", f"threads/{one}/runs", {"input": "APPROVE"}, status=201)
    assert Checkpoint.objects.filter(status="pending_input").count() == 5, (
        "evidence of each time that was asked; kept for good"
    )
    assert (asked(""), asked("&mine=true"), page.get("/").context["waiting"]) == ([], [], ""), (
        "what was answered waits no more"
    )


@pytest.mark.one_database
def test_a_program_finds_what_waits_for_one_of_its_users(call):
    """S0-57, C31: the document asks by `user_id`; a program with one account here had to read what
    waits for all of its users, and could not tell whose each was.
    """
    path = "runs?status=pending_input&mine=true&user_id="
    opened = [
        call("post", "threads", {"user_id": who, "session_id": session}, status=201)["id"]
        for who, session in (("u-1", "a"), ("u-2", "a"), ("u-1", "b"), ("", ""))
    ]
    for one in opened:
        call("post", f"threads/{one}/runs", {"template": "talk-pausing", "input": {}}, status=201)
    found = [one["thread_id"] for one in call("get", f"{path}u-1")["results"]]
    assert found == [opened[2], opened[0]], "asked last comes first"
    assert call("get", f"{path}nobody")["results"] == []
    assert len(call("get", path)["results"]) == len(opened), "no name is no filter"


def test_a_run_and_its_child_runs_are_suspended_over_rest(api, thread, ana):
    """Issue 3, 5: each at its own next boundary."""
    run = turns.invoke(thread.pk, Turn(template="talk", input={}), by=ana)
    own = Thread.objects.create(owner=ana)
    Run.objects.create(
        thread=own,
        definition=run.definition,
        parent=run,
        child_name="kid",
        depth=1,
        due_at=run.due_at,
    )
    address = f"/api/v1/runs/{run.shown_id}/suspend"
    assert api(ana).post(address).json()["id"] == run.shown_id
    assert set(Run.objects.values_list("suspend_by", flat=True)) == {"Ana Ruiz"}
    Run.objects.update(status="cancelled", ended_at=run.due_at)
    late = api(ana).post(address)
    assert (late.status_code, late.json()["code"]) == (409, "run_ended")


def test_a_failed_run_is_resumed_over_rest_as_the_run_to_follow(call, thread):
    """S0-42."""
    FAIL.add("step2")
    run = call(
        "post", f"threads/{thread.shown_id}/runs", {"template": "talk", "input": {}}, status=201
    )["run"]["id"]
    FAIL.clear()
    said = call("post", f"runs/{run}/resume", {})
    assert (said["how"], said["run"]["retry_of"]) == ("resumed", run)
    assert call("get", f"runs/{said['run']['id']}")["status"] == "completed"


def test_a_checkpoint_of_a_thread_is_forked_over_rest(call, thread):
    call("post", f"threads/{thread.shown_id}/runs", {"template": "talk", "input": {}}, status=201)
    after_one = Checkpoint.objects.get(thread=thread, node_id="step1")
    run = call(
        "post",
        f"checkpoints/{after_one.shown_id}/fork",
        {"reason": "try again", "state": {"x": 1}},
        status=201,
    )
    assert run["thread_id"] == thread.shown_id
    assert call("get", f"runs/{run['id']}")["status"] == "completed"
    assert state_of(thread)["x"] == 1


def test_nonsense_is_a_clear_refusal(call, thread, subtests):
    for method, path, body, status, code in [
        ("post", "threads/{t}/runs", {"template": "talk", "input": [1]}, 400, "invalid"),
        ("post", "threads/{t}/runs", {"template": "talk", "input": {"x": "\x00"}}, 400, "invalid"),
        (
            "post",
            "threads/{t}/runs",
            {"template": "nothing", "input": {}},
            404,
            "template_not_found",
        ),
        ("post", "threads/{t}/runs", {"input": {}}, 422, "input_invalid"),
        (
            "post",
            "threads/{t}/runs",
            {"template": "talk", "input": {"messages": 3}},
            422,
            "merge_failed",
        ),
        ("post", "threads/{t}/runs", {"checkpoint_id": "ckpt_x"}, 400, "invalid"),
        (
            "post",
            "threads/{t}/runs?auto_resume_pending=perhaps",
            {"template": "talk"},
            400,
            "invalid",
        ),
        ("post", "threads", {"title": "x" * 201}, 400, "invalid"),
        ("post", "threads", {"team": "nobody's"}, 422, "invalid"),
        ("get", "threads/{t}/state", None, 404, "not_found"),
        ("get", "threads/{t}/events?after=-1", None, 400, "invalid"),
        ("get", "threads/{t}/events?limit=99999", None, 400, "invalid"),
        ("get", "threads/thr_00000000000000000000000000", None, 404, "not_found"),
        ("get", "runs?status=odd", None, 400, "invalid"),
        ("get", "runs?thread=odd", None, 400, "invalid"),
        ("get", "runs/run_00000000000000000000000000", None, 404, "not_found"),
        ("post", "runs/run_00000000000000000000000000/resume", {}, 404, "not_found"),
        ("get", "checkpoints/ckpt_00000000000000000000000000", None, 404, "not_found"),
    ]:
        with subtests.test(ascii(method)[:60]):
            assert call(method, path.format(t=thread.shown_id), body, status=status)["code"] == code
            assert not Run.objects.exists()


def test_the_examples_of_the_document_are_taken_by_the_shipped_chat_agent(api, ana, thread):
    """S0-40: they follow each other on one thread, as a reader would send them."""
    shipped.load()
    said = []
    for example in sorted(fields.EXAMPLES, key=lambda one: "workflow_uri" not in one.value):
        if example.value.get("input") == "APPROVE":
            continue  # answers a question, which the model has to ask first
        response = api(ana).post(
            f"/api/v1/threads/{thread.shown_id}/runs", example.value, format="json"
        )
        said.append((response.status_code, response.content))
        Run.objects.filter(status="pending").update(status="completed", ended_at=timezone.now())
    assert [status for status, _ in said] == [201, 201], said
