"""Looking back and going on from there: the admin for operators, pages for reviewers, REST for
programs.
"""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from checkpoints import ids, lineage, store
from checkpoints.admin import lists
from checkpoints.admin.base import ReadOnlyAdmin
from checkpoints.events import log
from checkpoints.forensics import steps
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from hitl.api.threads.checkpoints import EXAMPLE
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs.engine.advance import advance
from runs.models import Run
from runs.threads import turns as turns
from tests.conftest import drive, fresh, head_of, pause_of
from tests.databases.whole import rows
from tests.doors.admin import client_of, page_of, said, staff

# its parts are asked of each database by their own tests
pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
API = "/api/v1"
ROWS = reverse("admin:checkpoints_checkpoint_changelist")


@pytest.fixture
def desk(db):
    return client_of(User.objects.create_superuser("root"))


@pytest.fixture
def ended(make_order):
    """A completed order of four steps without pauses."""
    return drive(make_order("writing-quick"))


def after(order, node):
    return Checkpoint.objects.filter(thread=order.thread_id, node_id=node).earliest("id")


def door(name, checkpoint):
    return reverse(f"admin:checkpoints_checkpoint_{name}", args=[checkpoint.pk])


def put(thread, state, parent=None, **entry):
    said = store.Entry(status=CheckpointStatus.ACTIVE, **entry)
    return store.save(thread.pk, ids.new(), state, said, parent=parent, before=None)


# The events of a step


def test_every_event_of_the_log_belongs_to_exactly_one_checkpoint(paused, ana):
    """Issue 4, 9: a pause, answers and an end among them."""
    for action in ("revise", "approve", "approve", "approve"):
        services.decide(
            pause_of(paused).pk,
            Answer(action, Via.PAGE, feedback="more" if action == "revise" else ""),
            by=ana,
        )
        drive(paused)
    history = lineage.history(paused.thread_id)[::-1]
    assert [event.seq for one in history for event in steps.events_of(one)] == [
        event.seq for event in log.after(paused.thread_id, 0)
    ]
    asked, answered = history[1:3]
    assert asked.status == "pending_input"
    assert [event.kind for event in steps.events_of(asked)][-3:] == [
        "checkpoint_created",
        "run_paused",
        "log",
    ]
    assert steps.events_of(answered)[0].kind == "approval_received"


# The admin: looking


def test_the_thread_page_has_the_history_of_s0_and_the_branches(ended, desk, ana):
    """S0-54, S0-55: the six columns; which came from which, and the head."""
    first = after(ended, "planning")
    services.fork(first.pk, by=ana, reason="again")
    drive(ended)
    page = desk.get(page_of("checkpoints_thread", ended.thread_id)).text
    head = page[page.index("<thead>", page.index("Checkpoint History")) :]
    assert [part.split("<")[0] for part in head.split('scope="col">')[1:7]] == [
        "ID",
        "Status",
        "Step",
        "Round",
        "Time",
        "Actions",
    ]
    shown = first.shown_id.removeprefix("ckpt_")
    assert f"{shown[:8]}…{shown[-4:]}" in page
    assert "Branch 1" in page and "Branch 2" in page
    assert page.count(">latest<") == 2  # in the tree and in the table
    assert f'href="{door("resume", first)}"' in page
    assert f'href="{page_of("checkpoints_checkpoint", first.pk)}"' in page
    assert ">-<" in page.replace(" ", "")  # a start has neither node nor loop


def test_a_long_history_comes_in_pages_and_costs_the_same_on_each(desk):
    thread = Thread.objects.create(owner=User.objects.create_user("owner"))
    made = None
    for number in range(120):
        made = put(thread, {"n": number}, made, node_id="work")

    def look(**page):
        with CaptureQueriesContext(connection) as captured:
            response = desk.get(page_of("checkpoints_thread", thread.pk), page)
        assert response.status_code == 200
        return response.context["history"], response.context["older"], len(captured)

    first, older, cost = look()
    assert (len(first), first[0]["is_head"]) == (lineage.PAGE, True)
    second, older, again = look(before=older)
    third, older, last = look(before=older)
    assert [row["checkpoint"].pk for row in [*first, *second, *third]] == [
        one.pk for one in lineage.history(thread.pk, limit=200)
    ]
    assert older == ""
    assert cost == again == last <= 10


def test_a_checkpoint_page_shows_state_change_events_and_the_decision(paused, desk, ana):
    """S0-55, issue 4, 9."""
    services.decide(
        pause_of(paused).pk, Answer("revise", Via.PAGE, feedback="shorter, please"), by=ana
    )
    answered = fresh(paused).thread.head
    page = desk.get(page_of("checkpoints_checkpoint", answered.pk)).text
    assert "This checkpoint records an answer" in page
    assert "shorter, please" in page
    assert '<code class="path">/revision_feedback</code>' in page
    assert "approval_received" in page
    assert "Matches" in page
    drive(paused)
    asked = fresh(paused).thread.head
    assert "The last answer before it" in desk.get(page_of("checkpoints_checkpoint", asked.pk)).text
    first = lineage.history(paused.thread_id)[-1]
    page = desk.get(page_of("checkpoints_checkpoint", first.pk)).text
    assert "The first of its thread" in page and "No person" in page


def test_the_state_is_searched_by_a_get(ended, desk):
    url = page_of("checkpoints_checkpoint", after(ended, "planning").pk)
    found = desk.get(url, {"find": "drafts"}).text
    assert "<mark>drafts</mark>" in found and "1 found" in found
    assert "Nothing contains" in desk.get(url, {"find": "<nowhere>"}).text
    assert "There is nothing at this path" in desk.get(url, {"at": "/no/where"}).text
    assert desk.get(url, {"at": "/drafts", "start": "²"}).status_code == 200


def test_any_two_checkpoints_are_compared(ended, desk):
    one, two = after(ended, "planning"), after(ended, "execute")
    url = reverse("admin:checkpoints_checkpoint_diff")
    page = desk.get(url, {"old": one.shown_id, "new": two.shown_id}).text
    assert '<code class="path">/worked</code>' in page
    assert "1 added" in page
    assert "1 removed" in desk.get(url, {"old": two.shown_id, "new": one.shown_id}).text
    assert "/worked" in desk.get(url, {"new": two.shown_id}).text  # alone: against its parent
    assert "There is no checkpoint" in desk.get(url, {"old": "nonsense", "new": two.shown_id}).text
    other = put(Thread.objects.create(owner=User.objects.get(username="ana")), {})
    assert "different threads" in desk.get(url, {"old": other.shown_id, "new": two.shown_id}).text
    assert desk.get(url).status_code == 200


def test_a_damaged_parent_is_told_and_breaks_no_page(ended, desk, page):
    one, two = after(ended, "planning"), after(ended, "execute")
    Checkpoint.objects.filter(pk=one.pk).update(digest="0" * 64)
    for client, url in (
        (desk, page_of("checkpoints_checkpoint", two.pk)),
        (page, f"/checkpoints/{two.shown_id}/"),
    ):
        response = client.get(url)
        assert response.status_code == 200
        assert "does not match its digest" in response.text


# The admin: lists


def listed(desk, **query):
    response = desk.get(ROWS, query)
    assert response.status_code == 200, response
    return response.context["cl"]


@pytest.fixture
def many(db):
    thread = Thread.objects.create(owner=User.objects.create_user("owner"))
    made = None
    for number in range(130):
        made = put(thread, {"n": number}, made, node_id="rare" if number in {3, 40} else "work")
    Checkpoint.objects.filter(pk=made.pk).update(status="failed", size=50_000)
    return lineage.history(thread.pk, limit=200)


def test_the_list_comes_in_pages_by_key_both_ways(many, desk, monkeypatch):
    """F24: nothing is counted, and no page is reached by counting rows off."""
    monkeypatch.setattr(ReadOnlyAdmin, "list_per_page", 50)
    first = listed(desk)
    assert (first.result_list, first.newer) == (many[:50], "")
    second = desk.get(ROWS + first.older).context["cl"]
    assert second.result_list == many[50:100]
    third = desk.get(ROWS + second.older).context["cl"]
    assert (third.result_list, third.older) == (many[100:], "")
    back = desk.get(ROWS + third.newer).context["cl"]
    assert back.result_list == many[50:100]
    front = desk.get(ROWS + back.newer).context["cl"]
    assert (front.result_list, front.newer) == (many[:50], "")
    with CaptureQueriesContext(connection) as captured:
        desk.get(ROWS + first.older)
    assert not [one["sql"] for one in captured if "COUNT(" in one["sql"] or "OFFSET" in one["sql"]]


def test_filters_find_by_thread_run_status_node_age_and_size(many, desk, ended):
    assert listed(desk, status="failed").result_list == [many[0]]
    assert {one.pk for one in listed(desk, node="rare").result_list} == {many[126].pk, many[89].pk}
    assert listed(desk, size="10k").result_list == [many[0]]
    assert listed(desk, age="older").result_list == []
    assert len(listed(desk, age="hour").result_list) == ReadOnlyAdmin.list_per_page
    thread, run = ids.show("thr", many[0].thread_id), ids.show("run", many[5].run_id)
    assert [one.pk for one in listed(desk, q=thread, node="rare").result_list] == [
        many[89].pk,
        many[126].pk,
    ]
    assert listed(desk, q=run).result_list == [many[5]]
    assert listed(desk, q=thread, status="completed").result_list == []
    assert all(
        one.thread_id == ended.thread_id
        for one in listed(desk, q=ended.thread.shown_id).result_list
    )


def test_a_filter_that_is_none_is_no_error(desk, subtests):
    for query in [
        {"status": "nonsense"},
        {"age": "x"},
        {"size": "x"},
        {"before": "nonsense"},
        {"after": "1"},
        {"unknown": "1"},
    ]:
        with subtests.test(ascii(query)[:60]):
            assert desk.get(ROWS, query).status_code == 302
    assert desk.get(ROWS, {"node": "a\0b", "q": "\0"}).status_code == 400


def test_a_filter_without_an_index_looks_so_far_and_offers_to_look_further(many, desk, monkeypatch):
    monkeypatch.setattr(lists, "SCAN", 100)
    first = listed(desk, node="rare")
    assert first.result_list == [many[89]]
    further = desk.get(ROWS + first.further).context["cl"]
    assert (further.result_list, further.further) == ([many[126]], "")


# The admin: acting


def test_resuming_asks_first_says_what_is_repeated_and_wants_a_reason(ended, desk):
    """S0-55, S0-80."""
    url = door("resume", after(ended, "planning"))
    before = rows()
    page = desk.get(url).text
    assert "Work, Check, Finish" in page and "Plan: not repeated" in page
    assert desk.post(url, {"reason": " "}).status_code == 422
    assert rows() == before
    assert said(desk.post(url, {"reason": "the shop was closed"}))[0][0] == "success"
    run = Run.objects.get(work_order=ended, forked_from__isnull=False)
    assert (run.reason, run.forked_from_id) == ("the shop was closed", after(ended, "planning").pk)
    assert drive(ended).status == "completed"
    [root, fork] = lineage.branches(fresh(ended).thread).branches
    assert (root.is_current, fork.is_current, fork.start) == (False, True, run.forked_from_id)


def test_a_fork_takes_an_edited_state_and_tells_who_edited_what(ended, desk):
    """S0-80, issue 4, 2."""
    at = after(ended, "planning")
    url = door("fork", at)
    state = json.loads(desk.get(url).context["form"]["state"].value())
    assert state == store.load(at)
    desk.post(url, {"state": json.dumps({**state, "worked": 41}), "reason": "more"})
    begun = head_of(fresh(ended))
    assert store.load(begun)["worked"] == 41
    assert begun.parent_id == at.pk
    assert store.load(Checkpoint.objects.get(pk=at.pk)) == state
    assert "A new run began here" in desk.get(page_of("checkpoints_checkpoint", begun.pk)).text
    assert store.load(head_of(drive(ended)))["worked"] == 42


def test_what_cannot_be_taken_is_told_on_the_form_and_nothing_typed_is_lost(ended, desk, subtests):
    before = rows()
    for state, words in [
        ("{ broken", "Not JSON"),
        ("[1]", "begins with {"),
        ('{"a": NaN}', "NaN"),
        ('{"a": ' + "9" * 5_000 + "}", "cannot be kept"),
        ("[" * 9_999, "cannot be kept"),
        ("", "required"),
    ]:
        with subtests.test(ascii(state)[:60]):
            response = desk.post(
                door("fork", after(ended, "planning")), {"state": state, "reason": "why I do this"}
            )
            assert response.status_code == 422
            assert words in response.text
            assert response.context["form"]["state"].value() == state
            assert "why I do this" in response.text
    assert rows() == before


def test_a_refusal_of_the_machine_is_on_the_form_too(paused, desk):
    first = lineage.history(paused.thread_id)[-1]
    response = desk.post(door("fork", first), {"state": "{}", "reason": "now"})
    assert response.status_code == 422
    assert "still alive" in response.text
    assert "still alive" in desk.get(door("resume", first)).text


def test_a_damaged_state_is_not_edited(ended, desk):
    at = after(ended, "planning")
    Checkpoint.objects.filter(pk=at.pk).update(digest="0" * 64)
    response = desk.get(door("fork", at))
    assert response.status_code == 302
    assert "does not match" in said(response)[0][1]
    assert desk.post(door("resume", at), {"reason": "x"}).status_code == 422


def test_who_acts_sees_the_thread_too(ended, team):
    """F4: the rights of each page are in `matrix/desk`."""
    resume = door("resume", after(ended, "planning"))
    rights = ("view_checkpoint", "view_thread", "change_checkpoint")
    outsider, member = (
        staff(name, *(f"checkpoints.{right}" for right in rights)) for name in ("out", "in")
    )
    before = Run.objects.count()
    response = client_of(outsider).post(resume, {"reason": "x"})
    assert response.status_code == 422 and "belongs to other people" in response.text
    assert Run.objects.count() == before
    member.groups.add(team)
    assert client_of(member).post(resume, {"reason": "x"}).status_code == 302


def test_a_thread_is_exported_from_its_page_and_changes_nothing_by_it(ended, desk):
    """Issue 4, 9: the document that REST gives."""
    before = rows()
    address = reverse("admin:checkpoints_thread_export", args=[ended.thread_id])
    assert address in desk.get(page_of("checkpoints_thread", ended.thread_id)).content.decode()
    response = desk.get(address)
    document = json.loads(response.content)
    assert document["thread"]["id"] == ended.thread.shown_id
    assert len(document["checkpoints"]) == Checkpoint.objects.count()
    assert f'filename="{ended.thread.shown_id}.json"' in response["Content-Disposition"]
    assert rows() == before


def test_an_export_wants_the_right_to_see_what_is_in_it(ended):
    """F4: states and the log."""
    address = reverse("admin:checkpoints_thread_export", args=[ended.thread_id])
    for rights in (
        [],
        ["checkpoints.view_thread"],
        ["checkpoints.view_thread", "checkpoints.view_checkpoint"],
    ):
        assert client_of(staff(f"few{len(rights)}", *rights)).get(address).status_code == 403
    whole = staff(
        "whole", "checkpoints.view_thread", "checkpoints.view_checkpoint", "checkpoints.view_event"
    )
    assert client_of(whole).get(address).status_code == 200


def test_a_thread_that_cannot_be_read_is_not_exported(ended, desk):
    Checkpoint.objects.filter(pk=ended.thread.head_id).update(digest="0" * 64)
    address = reverse("admin:checkpoints_thread_export", args=[ended.thread_id])
    assert "Nothing was exported" in str(said(desk.get(address, follow=True)))


def test_an_act_on_nothing_is_a_404(desk):
    for name in ("resume", "fork"):
        for key in (ids.new(), "nonsense"):
            address = reverse(f"admin:checkpoints_checkpoint_{name}", args=[key])
            assert desk.get(address).status_code == 404


# Reviewers


def test_a_reviewer_finds_the_history_from_the_order(ended, page):
    """Issue 4, 10."""
    assert (
        f"/threads/{ended.thread.shown_id}/history"
        in page.get(f"/work-orders/{ended.shown_id}/").text
    )
    shown = page.get(f"/threads/{ended.thread.shown_id}/history").text
    assert "Checkpoint History" in shown and "Branch 1" in shown
    assert f"/checkpoints/{after(ended, 'planning').shown_id}/resume" in shown


def test_a_reviewer_resumes_after_reading_what_it_means(ended, page):
    """Issue 4, 10: a POST from a page that says it all; a GET changes nothing."""
    at = after(ended, "execute")
    url = f"/checkpoints/{at.shown_id}/resume"
    before = rows()
    words = page.get(url).text
    assert "Check, Finish" in words  # repeated
    assert "Plan, Work: not repeated" in words
    assert page.post(url, {"reason": ""}).status_code == 422
    assert rows() == before
    response = page.post(url, {"reason": "look again"})
    assert response["Location"] == f"/work-orders/{ended.shown_id}/"
    assert drive(ended).status == "completed"
    late = page.post(f"/checkpoints/{fresh(ended).thread.head.shown_id}/resume", {"reason": "x"})
    assert late.status_code == 409 and "Nothing follows" in late.text


def test_a_thread_without_an_order_has_a_history_too(templates, ana, team, page):
    thread = turns.open_thread(by=ana, team=team)
    run = turns.invoke(thread.pk, turns.Turn(template="writing-quick", input={}), by=ana)
    advance(run.pk, budget=60)
    assert f"/threads/{thread.shown_id}/history" in page.get(f"/threads/{thread.shown_id}/").text
    at = Checkpoint.objects.filter(thread=thread, node_id="planning").earliest("id")
    assert (
        page.post(f"/checkpoints/{at.shown_id}/resume", {"reason": "again"})["Location"]
        == f"/threads/{thread.shown_id}/"
    )


def test_strangers_compare_nothing(ended, zoe):
    response = client_of(zoe).get(
        "/checkpoints/compare",
        {"old": after(ended, "planning").shown_id, "new": after(ended, "execute").shown_id},
    )
    assert response.status_code == 200
    assert "There is no checkpoint" in response.text and "/worked" not in response.text


# REST


@pytest.fixture
def call(api, ana):
    client = api(ana)

    def ask(path, status=200, **query):
        response = client.get(f"{API}/{path}", query)
        assert response.status_code == status, response.content
        return response.json()

    return ask


def test_the_example_of_a_diff_is_what_a_diff_gives(ana, call):
    """Every example of the OpenAPI document is true."""
    thread = Thread.objects.create(owner=ana)
    one = put(thread, {"draft": "one\ntwo", "rules": ["F"]}, node_id="planning")
    two = store.save(
        thread.pk,
        one.run_id,
        {"draft": "one\n2", "rules": ["F", "UP"]},
        store.Entry(status=CheckpointStatus.ACTIVE, node_id="execute"),
        parent=one,
        before=None,
    )
    found = call(f"checkpoints/{two.shown_id}/diff")
    assert (found.pop("old"), found.pop("new")) == (one.shown_id, two.shown_id)
    assert found == {key: value for key, value in EXAMPLE.items() if key not in {"old", "new"}}


def test_a_diff_is_refused_with_a_stable_code(ended, ana, zoe, call):
    one, two = after(ended, "planning"), after(ended, "execute")
    first = lineage.history(ended.thread_id)[-1]
    own, others = (
        put(Thread.objects.create(owner=ana), {}),
        put(Thread.objects.create(owner=zoe), {}),
    )
    assert call(f"checkpoints/{first.shown_id}/diff", 409)["code"] == "no_parent"
    assert call(f"checkpoints/{two.shown_id}/diff", 400, against="nonsense")["code"] == "invalid"
    assert (
        call(f"checkpoints/{two.shown_id}/diff", 404, against=others.shown_id)["code"]
        == "not_found"
    )
    assert (
        call(f"checkpoints/{two.shown_id}/diff", 404, against=ids.show("ckpt", ids.new()))["code"]
        == "not_found"
    )
    assert (
        call(f"checkpoints/{two.shown_id}/diff", 409, against=own.shown_id)["code"]
        == "different_threads"
    )
    Checkpoint.objects.filter(pk=one.pk).update(digest="0" * 64)
    assert (
        call(f"checkpoints/{two.shown_id}/diff", 409, against=one.shown_id)["code"]
        == "checkpoint_damaged"
    )


def test_a_diff_of_what_utf8_cannot_hold_is_no_error(ana, call):
    thread = Thread.objects.create(owner=ana)
    one = put(thread, {"a\ud800": "x\ny\ud800", "b": "\x00"})
    two = put(thread, {"a\ud800": "x\nz\udfff", "b": "\ud800"}, one)
    assert len(call(f"checkpoints/{two.shown_id}/diff")["changes"]) == 2


def test_the_events_of_a_checkpoint_and_the_branches_of_a_thread(ended, ana, call):
    """S0-53, S0-80."""
    at = after(ended, "planning")
    kinds = [event["event"] for event in call(f"checkpoints/{at.shown_id}/events")["results"]]
    assert kinds[-1] == "checkpoint_created" and "step_started" in kinds
    services.fork(at.pk, by=ana, reason="again")
    drive(ended)
    thread = ended.thread.shown_id
    root, fork = call(f"threads/{thread}/branches")["branches"]
    assert (root["number"], root["start"], root["is_current"]) == (1, None, False)
    assert (fork["start"], fork["is_current"], fork["status"]) == (at.shown_id, True, "completed")
    own = call(f"threads/{thread}/history", branch=fork["tip"], limit=3)
    assert next(one["id"] for one in own["results"]) == fork["tip"]
    rest = call(
        own["next"].split(f"{API}/")[1].split("?")[0],
        branch=own["next"].split("branch=")[1].split("&")[0],
    )
    walked = [one["id"] for one in own["results"] + rest["results"]]
    assert walked == [one.shown_id for one in lineage.chain(ids.parse("ckpt", fork["tip"]))]
    assert (rest["next"], at.shown_id in walked, root["tip"] in walked) == (None, True, False)
    assert (
        call(f"threads/{thread}/history", 404, branch=ids.show("ckpt", ids.new()))["code"]
        == "not_found"
    )
    assert call(f"threads/{thread}/history", 400, branch="nonsense")["code"] == "invalid"
    assert call(f"threads/{thread}/branches", 400, before="nonsense")["code"] == "invalid"
    assert len(call(f"threads/{thread}/branches", before=fork["first"])["branches"]) == 1


def test_a_fork_over_rest_wants_a_reason_that_can_be_kept(ended, ana, api):
    url = f"{API}/checkpoints/{after(ended, 'planning').shown_id}/fork"
    for reason in ("", " ", "x" * 2_001, "a\ud800"):
        response = api(ana).post(
            url, json.dumps({"reason": reason}), content_type="application/json"
        )
        assert (response.status_code, response.json()["code"]) == (400, "invalid")
    assert Run.objects.count() == 1
