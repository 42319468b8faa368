"""The admin: forensics that change nothing, and actions that answer through the services."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints import ids, store
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Decision, Via
from runs.models import Pause, Run
from tests.conftest import drive, fresh, kinds, pause_of
from tests.doors.admin import ask, client_of, confirm, list_of, page_of, said, staff
from tests.doors.admin import desk as desk
from tests.doors.admin import one_of_each as one_of_each
from tests.doors.admin import root as root

pytestmark = pytest.mark.django_db

READ_ONLY = [
    "checkpoints_thread", "checkpoints_checkpoint", "checkpoints_event", "runs_steptemplate",
    "runs_definition", "runs_run", "runs_pause",
    "runs_workorder", "hitl_decision", "hitl_vote", "hitl_ledger", "hitl_anchor", "hitl_import",
    "hitl_delivery", "hitl_endpoint",
    "hitl_earlyanswer", "hitl_wait",
]  # fmt: skip


# Looking


def test_an_empty_list_says_so(desk):
    """Unfold's own words stood also where nobody can create a row."""
    for query, words in (
        ("", "No early answer has been recorded."),
        ("?q=zzz", "No early answer matches this search and these filters."),
    ):
        shown = desk.get(f"/admin/hitl/earlyanswer/{query}").content.decode()
        assert words in shown and "yielded" not in shown


def test_a_list_costs_no_query_for_each_row_and_deletes_nothing_that_was_recorded(
    one_of_each, make_order, desk, ana
):
    def queries():
        counts = {}
        for page in [*READ_ONLY, "runs_template", "hitl_apitoken", "auth_user"]:
            with CaptureQueriesContext(connection) as captured:
                shown = desk.get(list_of(page))
            assert page == "auth_user" or "delete_selected" not in shown.text, page
            counts[page] = len(captured)
        return counts

    before = queries()
    for number in range(4):
        order = drive(make_order())
        services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
        drive(order)
        ApiToken.make(ana, name=str(number))
    assert queries() == before
    assert max(before.values()) <= 8


FOUND_BY = {
    "checkpoints_thread": ["thread", "order", "run"],
    "checkpoints_checkpoint": ["checkpoint", "thread", "run"],
    "checkpoints_event": ["thread", "run"],
    "runs_workorder": ["order", "thread", "run", "pause"],
    "runs_run": ["run", "thread", "order", "pause"],
    "runs_pause": ["pause", "run", "thread", "order", "checkpoint"],
    "hitl_decision": ["decision", "pause", "run", "thread"],
}


def test_rows_are_found_by_the_ids_that_people_see(make_order, desk, ana):
    order, other = drive(make_order()), drive(make_order())
    pause = pause_of(order)
    decision = services.decide(pause.pk, Answer("cancel", Via.PAGE), by=ana)
    services.decide(pause_of(other).pk, Answer("cancel", Via.PAGE), by=ana)
    order = fresh(order)
    rows = {
        "thread": order.thread,
        "order": order,
        "run": order.latest_run,
        "checkpoint": pause.checkpoint,
        "pause": pause,
        "decision": decision,
    }
    thread_of = {
        "checkpoints_thread": lambda row: row.pk,
        "runs_pause": lambda row: row.run.thread_id,
        "hitl_decision": lambda row: row.pause.run.thread_id,
    }

    def found(page, query):
        return desk.get(list_of(page), {"q": query}).context["cl"].result_list

    for page, names in FOUND_BY.items():
        for name in names:
            threads = {
                thread_of.get(page, lambda row: row.thread_id)(row)
                for row in found(page, rows[name].shown_id)
            }
            assert threads == {order.thread_id}, (page, name)
        assert not found(page, ids.show("thr", ids.new()))
        assert not found(page, ids.show("repo", ids.new()))
        assert desk.get(list_of(page), {"q": "wo_ nonsense"}).status_code == 200


def put(thread, state):
    return store.save(
        thread.pk,
        ids.new(),
        state,
        store.Entry(status=CheckpointStatus.ACTIVE),
        parent=None,
        before=None,
    )


def test_a_state_is_shown_as_text_and_never_as_markup(root, desk):
    """F15; also what UTF-8 cannot hold."""
    thread = Thread.objects.create(owner=root, title="<script>alert(0)</script>")
    checkpoint = put(thread, {"words": "<script>alert(1)</script>", "odd": "a\ud800b\x00"})
    page = desk.get(page_of("checkpoints_checkpoint", checkpoint.pk)).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert(" not in page
    assert "Matches" in page
    child = store.save(
        thread.pk,
        ids.new(),
        {},
        store.Entry(status=CheckpointStatus.ACTIVE),
        parent=checkpoint,
        before=None,
    )
    assert (
        f'href="{page_of("checkpoints_checkpoint", child.pk)}"'
        in desk.get(page_of("checkpoints_checkpoint", checkpoint.pk)).text
    )
    assert (
        f'href="{page_of("checkpoints_checkpoint", checkpoint.pk)}"'
        in desk.get(page_of("checkpoints_checkpoint", child.pk)).text
    )
    assert (
        f'href="{page_of("checkpoints_checkpoint", child.pk)}"'
        in desk.get(page_of("checkpoints_thread", thread.pk)).text
    )
    assert "<script>alert(" not in desk.get(page_of("checkpoints_thread", thread.pk)).text
    assert "<script>alert(" not in desk.get(list_of("checkpoints_thread")).text


def test_a_long_state_keeps_its_beginning_and_its_end(root, desk):
    thread = Thread.objects.create(owner=root)
    checkpoint = put(thread, {"a": "begin" + "x" * 400_000 + "end"})
    page = desk.get(page_of("checkpoints_checkpoint", checkpoint.pk)).text
    assert "...[truncated]..." in page
    assert "begin" in page
    assert "xend" in page


def test_a_damaged_checkpoint_tells_its_damage_instead_of_failing(root, desk, subtests):
    thread = Thread.objects.create(owner=root)
    for body in ['{"words":"forged"}', "no json", "[1]", "null"]:
        checkpoint = put(thread, {"words": "written"})
        with connection.cursor() as cursor:
            key = checkpoint.pk if connection.vendor == "postgresql" else checkpoint.pk.hex
            cursor.execute("UPDATE checkpoints_checkpoint SET body = %s WHERE id = %s", [body, key])
        with subtests.test(body):
            response = desk.get(page_of("checkpoints_checkpoint", checkpoint.pk))
            assert response.status_code == 200
            assert "Damaged:" in response.text
            assert "Does not match" in response.text
    for page in ("checkpoints_checkpoint", "checkpoints_thread"):
        assert desk.get(list_of(page)).status_code == 200
    assert desk.get(page_of("checkpoints_thread", thread.pk)).status_code == 200


@pytest.mark.usefixtures("unguarded")
def test_a_decision_that_was_changed_after_it_was_written_is_told(one_of_each, desk):
    decision = Decision.objects.get()
    assert "Matches" in desk.get(page_of("hitl_decision", decision.pk)).text
    Decision.objects.update(feedback="forged")
    assert "Does not match" in desk.get(page_of("hitl_decision", decision.pk)).text


def test_a_page_of_no_row_and_a_nonsense_filter_are_no_errors(desk):
    assert desk.get(page_of("runs_pause", "nonsense")).status_code == 302
    assert (
        desk.get(list_of("checkpoints_event"), {"thread__id__exact": "nonsense"}).status_code == 302
    )


# Who may


def test_staff_outside_of_the_team_are_told_kindly(paused):
    """The right to act is not the right to see: `decide` has the last word."""
    client = client_of(
        staff(
            "max",
            "runs.view_pause",
            "runs.change_pause",
            "runs.view_workorder",
            "runs.change_workorder",
        )
    )
    for page, action, one in (
        ("runs_pause", "approve", pause_of(paused)),
        ("runs_workorder", "cancel_order", paused),
        ("runs_workorder", "retry", paused),
    ):
        response = confirm(client, page, action, one)
        assert response.status_code == 302
        [(level, words)] = said(response)
        assert level == "error"
        assert "belongs to other people" in words
    assert not Decision.objects.exists()


# Answering


def test_approving_asks_first_and_then_decides_once(paused, desk, root):
    pause = pause_of(paused)
    response = ask(desk, "runs_pause", "approve", pause)
    assert response.status_code == 200
    assert pause.shown_id in response.text
    assert "revision 1" in response.text
    assert f'name="revision_{pause.shown_id}" value="1"' in response.text
    assert "csrfmiddlewaretoken" in response.text
    assert not Decision.objects.exists()
    response = confirm(desk, "runs_pause", "approve", pause)
    assert said(response) == [("success", f"{pause.shown_id}: approved")]
    decision = Decision.objects.get()
    assert (decision.action, decision.via, decision.decided_by, decision.revision) == (
        "approve",
        "admin",
        root,
        1,
    )
    assert "approval_received" in kinds(paused)


def test_a_second_answer_is_told_who_was_first(paused, desk, ana):
    pause = pause_of(paused)
    services.decide(pause.pk, Answer("cancel", Via.PAGE), by=ana)
    [(level, words)] = said(confirm(desk, "runs_pause", "approve", pause))
    assert level == "warning"
    assert "Already cancelled by Ana Ruiz" in words
    assert Decision.objects.get().action == "cancel"


def test_an_answer_to_a_revision_that_is_no_longer_open_is_refused(paused, desk):
    pause = pause_of(paused)
    Pause.objects.filter(pk=pause.pk).update(revision=2)
    for revision in ("1", "", "one", "²", "1" * 5_000):
        [(level, words)] = said(
            confirm(
                desk, "runs_pause", "approve", pause, **{f"revision_{pause.shown_id}": revision}
            )
        )
        assert level == "warning"
        assert "revision 2" in words
    assert not Decision.objects.exists()


def test_revise_needs_feedback_and_carries_it(paused, desk):
    pause = pause_of(paused)
    assert "<textarea" in ask(desk, "runs_pause", "revise", pause).text
    response = confirm(desk, "runs_pause", "revise", pause, feedback="  ")
    assert response.status_code == 200
    assert "This field is required" in response.text
    assert f'value="{pause.pk}"' in response.text
    assert not Decision.objects.exists()
    [(level, _)] = said(confirm(desk, "runs_pause", "revise", pause, feedback="shorter"))
    assert level == "success"
    assert Decision.objects.get().feedback == "shorter"
    assert pause_of(drive(paused)).revision == 2


def test_each_of_several_gets_its_own_message(make_order, desk, ana):
    first, second = (pause_of(drive(make_order())) for _ in range(2))
    services.decide(first.pk, Answer("approve", Via.PAGE), by=ana)
    levels = {
        words.partition(":")[0]: level
        for level, words in said(confirm(desk, "runs_pause", "cancel_order", first, second))
    }
    assert levels == {first.shown_id: "warning", second.shown_id: "success"}
    assert list(Decision.objects.order_by("pk").values_list("action", "via")) == [
        ("approve", "page"),
        ("cancel", "admin"),
    ]


def test_ids_that_are_none_are_refused_without_an_error(paused, desk):
    for page in ("runs_pause", "runs_workorder", "hitl_apitoken"):
        action = {"hitl_apitoken": "revoke"}.get(page, "cancel_order")
        response = desk.post(
            list_of(page), {"action": action, "index": "0", "_selected_action": "nonsense"}
        )
        assert said(response) == [("error", "These rows are not in this list. Nothing was done.")]
        response = desk.post(
            list_of(page), {"action": action, "index": "0", "_selected_action": str(ids.new())}
        )
        assert said(response)[0][0] == "warning"


def test_an_order_is_cancelled_through_the_services(paused, desk):
    """By itself here, and below by its run: that both lists have both, `matrix/desk` says."""
    page = "runs_workorder"
    assert "Cancel these orders?" in ask(desk, page, "cancel_order", paused).text
    assert fresh(paused).status == "paused"
    assert said(confirm(desk, page, "cancel_order", paused)) == [
        ("success", f"{paused.shown_id}: cancelled")
    ]
    decision = Decision.objects.get()
    assert (decision.action, decision.via) == ("cancel", "admin")
    for again in ("cancel_order", "retry"):
        [(level, _)] = said(confirm(desk, page, again, paused))
        assert level == "warning"
    assert Run.objects.count() == 1


def test_a_failed_order_is_retried_through_the_services(make_order, desk):
    order = drive(make_order("writing-fail"))
    ended = order.latest_run
    assert "Retry these orders?" in ask(desk, "runs_run", "retry", ended).text
    assert fresh(order).status == "failed"
    [(level, words)] = said(confirm(desk, "runs_run", "retry", ended))
    assert level == "success"
    assert fresh(order).latest_run.shown_id in words
    [(level, words)] = said(confirm(desk, "runs_run", "retry", ended))
    assert (level, words) == (
        "warning",
        f"{ended.shown_id}: This is not the latest run of a work order, so nothing was done.",
    )
    assert Run.objects.count() == 2


def test_a_damaged_checkpoint_stops_an_answer_with_its_reason(paused, desk):
    pause = pause_of(paused)
    Checkpoint.objects.filter(pk=pause.checkpoint_id).update(digest="0" * 64)
    [(level, words)] = said(confirm(desk, "runs_pause", "approve", pause))
    assert level == "error"
    assert "does not match its digest" in words
    assert not Decision.objects.exists()


def test_a_nul_in_an_address_is_a_bad_request(desk):
    """Before, it was an error of the server on PostgreSQL."""
    for query in ("status__exact=a%00b", "q=%00", "p=%00"):
        assert desk.get(f"/admin/runs/run/?{query}").status_code == 400
    assert desk.get("/admin/runs/run/?q=a").status_code == 200
