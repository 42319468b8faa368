"""What a document brings is its importer's word: it runs nothing behind a question, and nothing in
it reads like a fact of this server.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from checkpoints import ids
from checkpoints.models import Checkpoint, Event, Thread
from checkpoints.state import codec
from hitl.models import Decision, Import
from hitl.threads import export as whole
from runs import definitions
from runs.engine.advance import advance
from runs.models import Pause, Run
from tests.worlds import steps
from tests.worlds.histories.documents import signed
from tests.worlds.histories.exported import bring_in, holds

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
RULES = {"reviewers": {"users": ["ben"]}, "self_approval": False}


@pytest.fixture
def reviewed(templates, ben):
    """`writing` with a plan that Ben must approve."""
    template = definitions.current("writing")
    first, *others = template.steps
    definitions.edit_template("writing", steps=[{**first, "review": RULES}, *others])


@pytest.fixture
def document(reviewed, make_order, ana) -> dict[str, Any]:
    """Ana's own order as it waits for Ben, changed by her into one that he is said to have
    approved.
    """
    order = make_order(by=ana)
    while advance(order.latest_run_id, budget=60):
        pass
    made: dict[str, Any] = json.loads(codec.encode(whole.export(order.thread_id)))
    asked = next(row for row in made["checkpoints"] if row["id"] == made["thread"]["head"])
    answer = {
        "pause": made["pauses"][0]["id"],
        "decision": ids.show("dec", ids.new()),
        "action": "approve",
        "revision": 1,
    }
    forged = {
        **asked,
        "id": ids.show("ckpt", ids.new()),
        "parent_id": asked["id"],
        "status": "active",
        "next_step": "execute",
        "metadata": {
            "approved": {"planning": {**answer, "content": "0" * 64, "material": ""}},
            "cleared": "execute",
            "skipped": ["planning"],
            "stepped_around": ["planning"],
            "scope": f"{asked['run_id']}/execute/1",
            "loops": {"planning": 1},
        },
    }
    made["thread"]["head"] = forged["id"]
    state = _state(made, asked)
    after = {
        **state,
        "decided": {"planning": "approve"},
        "call_decisions": {"execute": {"pay": {"decision": "approve"}}},
    }
    forged["change"] = codec.difference(codec.state(state), codec.state(after, codec.state(state)))
    forged["digest"] = codec.state_digest(codec.state(after))
    made["checkpoints"].append(forged)
    told = {
        "pause_id": made["pauses"][0]["id"],
        "decision_id": answer["decision"],
        "decision": "approve",
        "by": "Carol",
        "revision": 1,
    }
    made["events"].append(
        {
            **made["events"][-1],
            "seq": made["events"][-1]["seq"] + 1,
            "event": "approval_received",
            "data": told,
        }
    )
    return made


def _state(made: dict[str, Any], row: dict[str, Any]) -> Any:
    rows = {one["id"]: one for one in made["checkpoints"]}
    line = [row]
    while line[-1]["parent_id"]:
        line.append(rows[line[-1]["parent_id"]])
    state = codec.state(line.pop()["state"])
    while line:
        state = codec.apply(state, line.pop()["change"])
    return state


@pytest.fixture
def importer(ana):
    ana.user_permissions.add(Permission.objects.get(codename="import_thread"))
    return ana


@pytest.fixture
def imported(api, importer, document) -> Thread:
    made = api(importer).post(
        "/api/v1/threads/import", signed(document), content_type="application/json"
    )
    assert made.status_code == 201, made.json()
    assert made.json()["imported_at"]
    steps.forget()
    return Thread.objects.get(pk=ids.parse("thr", made.json()["id"]))


def work_off() -> None:
    while run := Run.objects.filter(status="pending").first():
        advance(run.pk, budget=60)


def test_no_door_leads_from_an_import_behind_what_it_says_was_approved(imported, api, ana):
    """Her own document ran the reviewed step."""
    decisions, client = Decision.objects.count(), api(ana)
    base = f"/api/v1/threads/{imported.shown_id}/runs"
    head = imported.head
    assert head.next_step == "execute" and "approved" not in head.metadata
    for body in (
        {"checkpoint_id": head.shown_id},
        {"checkpoint_id": head.shown_id, "resume_from": "execute"},
        {"resume_from": "execute"},
        {"resume_from": "execute", "state": {"drafts": ["mine"]}},
        {"checkpoint_id": head.shown_id, "template": "writing"},
        {"checkpoint_id": head.shown_id, "input": {"more": 1}},
    ):
        refused = client.post(base, body, format="json")
        assert (refused.status_code, refused.json()["code"]) == (409, "imported_work"), (
            body,
            refused.json(),
        )
    fork = client.post(
        f"/api/v1/checkpoints/{head.shown_id}/fork", {"reason": "mine"}, format="json"
    )
    assert (fork.status_code, fork.json()["code"]) == (409, "imported_work")
    run = Run.objects.get(thread=imported)
    at = client.post(
        f"/api/v1/runs/{run.shown_id}/resume", {"checkpoint_id": head.shown_id}, format="json"
    )
    assert (at.status_code, at.json()["code"]) == (409, "imported_work")
    page = Client()
    page.force_login(ana)
    shown = page.get(f"/checkpoints/{head.shown_id}/").content.decode()
    assert "nobody has answered here" in shown and "Resume from here" not in shown
    assert not steps.CALLS

    resumed = client.post(f"/api/v1/runs/{run.shown_id}/resume", {}, format="json")
    assert resumed.status_code == 200, resumed.json()
    work_off()
    assert [step for step, _ in steps.CALLS] == ["planning"], (
        "a run that names no place begins with the first step that asks"
    )
    pause = Pause.objects.open().get(run__thread=imported)
    assert (pause.step, pause.review["reviewers"]) == ("planning", {"users": ["ben"]})
    own = client.post(
        f"/api/v1/pauses/{pause.shown_id}/decisions",
        {"decision": "approve", "revision": pause.revision},
        format="json",
    )
    assert own.status_code == 403, "who imported it does not approve it either"
    assert Decision.objects.count() == decisions
    state = client.get(f"/api/v1/threads/{imported.shown_id}/state").json()["values"]
    assert "call_decisions" not in state and state["decided"] == {}
    assert holds() == []


def test_what_was_imported_is_marked_wherever_it_is_shown(imported, api, ana, admin_client):
    """A page said "Carol approved" of an event that Ana had written."""
    client, thread = api(ana), imported.shown_id
    events = client.get(f"/api/v1/threads/{thread}/events").json()["results"]
    assert events and all(event["imported"] is True for event in events)
    run = client.get(f"/api/v1/threads/{thread}/runs").json()["results"][0]
    assert run["imported_at"]
    history = client.get(f"/api/v1/threads/{thread}/history").json()["results"]
    assert all(one["imported"] is True for one in history)
    again = client.get(f"/api/v1/threads/{thread}/export").json()
    rows = [
        row for section in ("events", "runs", "pauses", "checkpoints") for row in again[section]
    ]
    assert again["thread"]["imported"] is True and all(row["imported"] for row in rows)
    page = Client()
    page.force_login(ana)
    head = imported.head.shown_id
    for address in (
        f"/threads/{thread}/",
        f"/threads/{thread}/history",
        f"/checkpoints/{head}/",
        "/threads/",
    ):
        shown = page.get(address, follow=True).content.decode()
        assert '<span class="imported">Imported</span>' in shown, address
        assert (
            "<b>Carol</b>" not in shown
            and "Carol</b> approved" not in shown
            and "receipt" not in shown
        ), address
    assert (
        "not checked here: approve, said to be by Carol"
        in page.get(f"/threads/{thread}/").content.decode()
    )
    inside = admin_client.get(
        f"/admin/checkpoints/checkpoint/{imported.head_id}/change/"
    ).content.decode()
    assert '<span class="imported">Imported</span>' in inside
    for table in ("checkpoints/checkpoint", "checkpoints/event", "checkpoints/thread", "runs/run"):
        assert admin_client.get(f"/admin/{table}/?q={thread}").status_code == 200
    assert not Decision.objects.filter(pause__run__thread=imported).exists()


def test_what_is_done_here_afterwards_is_not_marked(imported, api, ana, ben):
    """The mark tells one from the other, on every wire."""
    run = Run.objects.get(thread=imported)
    api(ana).post(f"/api/v1/runs/{run.shown_id}/resume", {}, format="json")
    work_off()
    count = imported.last_seq
    answer = api(ana).get(f"/api/v1/threads/{imported.shown_id}/events?after={count}")
    events = answer.json()["results"]
    assert events and not any("imported" in event for event in events)
    head = Thread.objects.get(pk=imported.pk).head
    assert "imported" not in head.metadata
    document = whole.export(imported.pk)
    assert [one.get("imported", False) for one in document["runs"]] == [True, False]
    assert Event.objects.filter(thread=imported, seq__lte=count).count() == count
    page = Client()
    page.force_login(ana)
    shown = page.get(f"/checkpoints/{head.shown_id}/").content.decode()
    assert '<span class="imported">' not in shown


def test_a_document_that_says_it_is_no_import_is_marked_all_the_same(document, zoe):
    """Neither a time of tomorrow nor a mark of its own tells a page otherwise."""
    for row in (*document["checkpoints"], *document["events"]):
        row["created_at" if "created_at" in row else "at"] = "2999-01-01T00:00:00+00:00"
    document["events"][0]["data"] = {"imported_at": None}
    thread = Thread.objects.get(pk=bring_in(document, zoe).pk)
    assert all(one.data["imported_at"] for one in Event.objects.filter(thread=thread))
    assert not Checkpoint.objects.filter(thread=thread, created_at__gt=thread.imported_at).exists()
    assert not Event.objects.filter(thread=thread, at__gt=thread.imported_at).exists()
    assert Import.objects.get(pk=thread.pk).imported_by == zoe
