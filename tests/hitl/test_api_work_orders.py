"""Work orders and templates for machines: the levels of S4 as a program walks them, and what nonsense gets."""

from __future__ import annotations

import base64
import json

import pytest
from django.contrib.auth.models import Permission
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from checkpoints.models import Thread
from runs.models import Pause, Run, Template, WorkOrder
from tests import steps
from tests.conftest import drive, log_lines
from tests.databases import rows
from tests.runs.repositories import make_repository

pytestmark = pytest.mark.django_db
ORDERS = "/api/v1/work-orders"


def problem(response, status, code):
    """The problem document of an answer, checked for its form (RFC 9457)."""
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code)
    assert response["Content-Type"] == "application/problem+json"
    assert body["type"] == "about:blank"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    return body


@pytest.fixture
def ana_api(templates, ana, api):
    return api(ana)


@pytest.fixture
def editor_api(ana, ana_api):
    """Ana, who may also edit templates."""
    ana.user_permissions.add(Permission.objects.get(codename="add_template"))
    return ana_api


class Walk:
    """One work order as a program sees it; the worker takes its turn after each request."""

    def __init__(self, client, **order):
        self.client = client
        response = client.post(ORDERS, order, format="json")
        assert response.status_code == 201, response.json()
        self.id = response.json()["agent_work_order_id"]
        self.row = WorkOrder.objects.get()
        self.work()

    def work(self):
        self.row = drive(self.row)

    def get(self, path=""):
        return self.client.get(f"{ORDERS}/{self.id}{path}").json()

    def resume(self, status=200, **answer):
        response = self.client.post(f"{ORDERS}/{self.id}/resume", answer, format="json")
        assert response.status_code == status, response.json()
        self.work()
        return response.json()


# The levels, each on a template that pauses and on one that does not.


def test_level_3_pause_at_planning(editor_api, tmp_path):
    """S4-56, S4-35, S4-9."""
    step = {"step_type": "planning", "step_template_slug": "test-plan", "pause_after": True, "pause_phase": "awaiting_plan_approval"}
    put = editor_api.put("/api/v1/templates/workflows/standard-dev", {"steps": [step]}, format="json")
    assert (put.status_code, put.json()["version"]) == (200, 1)
    repository = make_repository(tmp_path / "repository", {"a.py": "a = 1\n"})
    order = Walk(editor_api, template="standard-dev", repository_url=str(repository), user_request="Add auth")
    pause = order.get("/pause-state")
    assert (pause["agent_work_order_id"], pause["pause_phase"], pause["status"]) == (order.id, "awaiting_plan_approval", "active")
    assert pause["pause_content"].startswith("# Plan 1")
    assert pause["pause_timestamp"]
    assert log_lines(order.row)[-1] == "Workflow paused"
    assert (order.get()["status"], order.get()["current_phase"]) == ("paused", "awaiting_plan_approval")


def test_level_3_without_pauses(ana_api):
    order = Walk(ana_api, template="writing-quick")
    assert order.get("/pause-state") is None
    assert order.get()["status"] == "completed"


def test_level_4_resume_with_approval(ana_api):
    """S4-57, S4-24, S4-32, S4-52."""
    order = Walk(ana_api, template="writing")
    pause_id = order.get("/pause-state")["id"]
    assert ana_api.post(f"{ORDERS}/{order.id}/resume", {"decision": "approve"}, format="json").json() == {"success": True}
    assert (order.get()["status"], order.get()["current_phase"]) == ("pending", "executing")
    assert order.get("/pause-state") is None
    resolved = ana_api.get(f"/api/v1/pauses/{pause_id}").json()
    assert (resolved["status"], resolved["user_decision"], resolved["decided_by"]) == ("resolved", "approve", "ana")
    assert resolved["resume_timestamp"]
    order.work()
    assert log_lines(order.row)[-3:] == ["Workflow resumed with decision: approve", "Executing step: execute", "Workflow paused"]


def test_level_4_without_pauses(ana_api):
    """S4-32: only a pause can be resumed."""
    order = Walk(ana_api, template="writing-quick")
    before = rows()
    problem(ana_api.post(f"{ORDERS}/{order.id}/resume", {"decision": "approve"}, format="json"), 409, "not_paused")
    assert rows() == before


def test_level_5_resume_with_revision_feedback(ana_api):
    """S4-58, S4-29."""
    order = Walk(ana_api, template="writing")
    first = order.get("/pause-state")
    order.resume(decision="revise", feedback="Add security considerations to the plan.")
    second = order.get("/pause-state")
    assert (second["revision"], second["pause_phase"]) == (2, "awaiting_plan_approval")
    assert "Add security considerations" in second["pause_content"]
    assert second["id"] != first["id"]
    answered = ana_api.get(f"/api/v1/pauses/{first['id']}").json()
    assert answered["user_feedback"] == "Add security considerations to the plan."
    assert log_lines(order.row)[-5:-1] == [
        "Workflow resumed with decision: revise",
        "Re-running step: planning with feedback",
        "Revision feedback: Add security considerations to the plan.",
        "Executing step: planning",
    ]


def test_level_5_without_pauses(ana_api):
    order = Walk(ana_api, template="writing-quick")
    assert order.resume(409, decision="revise", feedback="too late")["code"] == "not_paused"
    assert [step for step, _ in steps.CALLS].count("planning") == 1


def test_level_8_cancel_workflow(ana_api):
    """S4-61, S4-30, S4-52."""
    order = Walk(ana_api, template="writing")
    assert order.resume(decision="cancel") == {"success": True}
    shown = order.get()
    assert (shown["status"], shown["error_message"]) == ("failed", "Cancelled by user at planning phase")
    assert shown["failure_code"] == "cancelled_by_user"
    assert order.get("/pause-state") is None
    assert [step for step, _ in steps.CALLS] == ["planning"]


def test_level_8_without_pauses(ana_api):
    """An order that waits for a worker is cancelled by its own route."""
    made = ana_api.post(ORDERS, {"template": "writing-quick"}, format="json").json()
    assert ana_api.post(f"{ORDERS}/{made['id']}/cancel").json() == {"success": True}
    drive(WorkOrder.objects.get())
    shown = ana_api.get(f"{ORDERS}/{made['id']}").json()
    assert (shown["status"], shown["error_message"]) == ("failed", "Cancelled by user at planning phase")
    assert steps.CALLS == []


def test_level_9_multiple_checkpoints(ana_api):
    """S4-62."""
    order = Walk(ana_api, template="writing")
    seen = []
    for _ in range(3):
        seen.append(order.get("/pause-state")["pause_phase"])
        assert order.resume(decision="approve") == {"success": True}
    assert seen == ["awaiting_plan_approval", "awaiting_implementation_review", "awaiting_review_decision"]
    shown = order.get()
    assert (shown["status"], shown["current_phase"], shown["git_commit_count"]) == ("completed", "completed", 2)
    assert shown["last_checkpoint"] == "awaiting_review_decision"  # S4-18


def test_level_9_without_pauses(ana_api):
    order = Walk(ana_api, template="writing-quick")
    shown = order.get()
    assert (shown["status"], shown["git_commit_count"], shown["last_checkpoint"]) == ("completed", 2, None)


def test_level_10_no_pause_workflow(editor_api, tmp_path):
    """S4-63, S4-11."""
    plan = {"step_type": "planning", "step_template_slug": "test-plan", "pause_after": False}
    work = {"step_type": "execute", "step_template_slug": "test-work", "pause_after": False}
    assert editor_api.put("/api/v1/templates/workflows/quick-fix", {"steps": [plan, work]}, format="json").status_code == 200
    repository = make_repository(tmp_path / "repository", {"a.py": "a = 1\n"})
    order = Walk(editor_api, template="quick-fix", repository_url=str(repository))
    assert order.get()["status"] == "completed"
    assert not Pause.objects.exists()
    assert not any("paused" in line for line in log_lines(order.row))


def test_level_10_on_a_template_that_pauses_again_after_an_edit(editor_api):
    """P10: the order made before keeps the version it was made with."""
    order = Walk(editor_api, template="writing-quick")
    pausing = [{"step_type": "planning", "step_template_slug": "test-plan", "pause_after": True, "pause_phase": "awaiting_plan_approval"}]
    put = editor_api.put("/api/v1/templates/workflows/writing-quick", {"steps": pausing}, format="json")
    assert put.json()["version"] == 2
    assert (order.get()["template_version"], order.get()["status"]) == (1, "completed")


# Templates.


def test_the_same_template_again_makes_no_new_version(editor_api):
    body = editor_api.get("/api/v1/templates/workflows/writing").json()
    again = editor_api.put("/api/v1/templates/workflows/writing", {"steps": body["steps"]}, format="json")
    assert again.json()["version"] == body["version"] == 1


@pytest.mark.parametrize("method", ["put", "patch", "post", "delete"])
def test_who_may_not_edit_templates_does_not(ana_api, method):
    """C20."""
    before = rows()
    response = getattr(ana_api, method)("/api/v1/templates/workflows/writing", {"steps": []}, format="json")
    problem(response, 403, "permission_denied")
    assert rows() == before


def test_everybody_reads_templates_also_by_head_and_options(ana_api):
    for method in ("get", "head", "options"):
        assert getattr(ana_api, method)("/api/v1/templates/workflows/writing").status_code == 200


def test_a_template_that_is_not_there_is_said_to_be_missing(ana_api):
    problem(ana_api.get("/api/v1/templates/workflows/nothing"), 404, "template_not_found")
    problem(ana_api.post(ORDERS, {"template": "nothing"}, format="json"), 404, "template_not_found")


GOOD = {"step_type": "planning", "step_template_slug": "test-plan"}


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [{}],
        [{**GOOD, "step_template_slug": "nothing"}],
        [{**GOOD, "step_template_slug": "test-plan\x00"}],
        [{**GOOD, "name": "a\x00"}],
        [{**GOOD, "name": "\ud800"}],
        [{**GOOD, "pause_after": "yes"}],
        [{**GOOD, "pause_after": True}],
        [{**GOOD, "choices": 5}],
        [{**GOOD, "choices": None}],
        [{**GOOD, "choices": ["x"]}],
        [{**GOOD, "choices": [{"name": "go", "label": "Go", "to": "nowhere"}]}],
        [{**GOOD, "choices": [{"name": "n" * 65, "label": "Go", "to": "planning"}]}],
        [{**GOOD, "choices": [{"name": "approve", "label": "Go", "to": "planning"}]}],
        [{**GOOD, "revise_to": "nowhere"}],
        [{**GOOD, "max_revisions": 1e9}],
        [{**GOOD, "max_revisions": True}],
        [GOOD, GOOD],
        [GOOD] * 60,
        [{**GOOD, "extra": "\x00"}],
    ],
)
def test_a_template_that_makes_no_sense_is_refused_with_its_place(editor_api, steps):
    before = rows()
    response = editor_api.put("/api/v1/templates/workflows/writing", json.dumps({"steps": steps}), content_type="application/json")
    assert "steps" in str(problem(response, 422, "template_invalid")["errors"])
    assert rows() == before


@pytest.mark.parametrize("schema", [{"type": 5}, {"type": "object", "properties": []}, {"$ref": "#/nothing"}, {"title": "\x00"}])
def test_an_input_schema_that_is_none_is_refused(editor_api, schema):
    before = rows()
    response = editor_api.put("/api/v1/templates/workflows/writing", {"input_schema": schema}, format="json")
    problem(response, 422, "template_invalid")
    assert rows() == before


def test_a_slug_that_is_too_long_is_refused(editor_api):
    response = editor_api.put(f"/api/v1/templates/workflows/{'a' * 81}", {"steps": [GOOD]}, format="json")
    problem(response, 422, "template_invalid")


# Making orders.


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"template": "repo-tidy"}, 422, "input_invalid"),
        ({"template": "repo-tidy", "repository_url": "/etc"}, 422, None),
        ({"template": "repo-tidy", "repository_url": "ext::sh -c id"}, 422, None),
        ({"template": "repo-tidy", "repository_url": "https://evil.example/x"}, 422, None),
        ({"template": "repo-tidy", "repository_url": "/tmp/\x00"}, 400, "invalid"),
        ({"template": "writing\x00"}, 400, "invalid"),
        ({"template": "writing", "title": "a\x00"}, 400, "invalid"),
        ({"template": "writing", "title": "x" * 201}, 400, "invalid"),
        ({"template": "writing", "title": ["x"]}, 400, "invalid"),
        ({"template": "writing", "user_request": "a\x00"}, 400, "invalid"),
        ({"template": "writing", "user_request": "\ud800"}, 400, "invalid"),
        ({"template": "writing", "user_request": "x" * 20_001}, 400, "invalid"),
        ({"template": "writing", "input": []}, 400, "invalid"),
        ({"template": "writing", "input": "x"}, 400, "invalid"),
        ({"template": "writing", "input": {"a": "\ud800"}}, 422, "input_invalid"),
        ({"template": "writing", "input": {"\udcff": 1}}, 422, "input_invalid"),
        ({"template": "writing", "team": "nobody"}, 400, "invalid"),
        ({"template": "writing", "team": "a\x00"}, 400, "invalid"),
        ({"template": "writing", "team": {"name": "platform"}}, 400, "invalid"),
        ([], 400, "invalid"),
        ("approve", 400, "invalid"),
        (None, 400, "invalid"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_and_leaves_nothing(ana_api, body, status, code):
    before = rows()
    response = ana_api.post(ORDERS, json.dumps(body), content_type="application/json")
    found = problem(response, status, code or response.json()["code"])
    assert "errors" in found or code is None
    assert rows() == before


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "{",
        "nonsense",
        '{"input": NaN}',
        "[" * 100_000,
        '{"input":' * 900 + "1" + "}" * 900,
        '{"input": {"n": ' + "9" * 5000 + "}}",
        "\udcff",
    ],
)
def test_a_body_that_is_no_json_is_refused_and_leaves_nothing(ana_api, raw):
    before = rows()
    ana_api.raise_request_exception = False
    response = ana_api.post(ORDERS, raw.encode("utf-8", "surrogateescape"), content_type="application/json")
    assert response.status_code in {400, 422}
    assert response["Content-Type"] == "application/problem+json"
    assert rows() == before


def test_deep_input_is_refused_before_anything_is_made(ana_api):
    deep: dict[str, object] = {}
    for _ in range(100):
        deep = {"a": deep}
    problem(ana_api.post(ORDERS, {"template": "writing", "input": deep}, format="json"), 422, "input_invalid")
    assert not WorkOrder.objects.exists()


def test_a_form_is_no_json(ana_api):
    problem(ana_api.post(ORDERS, {"template": "writing"}, format="multipart"), 415, "unsupported_media_type")


def test_a_team_that_is_not_yours_cannot_be_given_an_order(templates, zoe, team, api):
    response = api(zoe).post(ORDERS, {"template": "writing", "team": "platform"}, format="json")
    problem(response, 400, "invalid")
    assert not Thread.objects.exists()


def test_nobody_learns_which_teams_there_are(templates, zoe, team, api):
    """F4: a team of others and no team at all get the same answer."""
    said = [api(zoe).post(ORDERS, {"template": "writing", "team": name}, format="json").json()["errors"] for name in ("platform", "nobody")]
    assert json.dumps(said[0]).replace("platform", "x") == json.dumps(said[1]).replace("nobody", "x")


def test_a_client_cannot_make_up_state(ana_api):
    """F6: what is not asked for is not taken."""
    body = {
        "template": "writing",
        "status": "completed",
        "id": "wo_" + "0" * 26,
        "checkpoint_data": {"x": 1},
        "created_by": "ben",
        "latest_run": 1,
    }
    made = ana_api.post(ORDERS, body, format="json").json()
    assert (made["status"], made["created_by"]) == ("pending", "ana")
    assert made["id"] != body["id"]
    assert Run.objects.get().status == "pending"


def test_an_order_shows_the_same_after_reading_it_again(ana_api):
    made = ana_api.post(
        ORDERS, {"template": "writing", "title": "Tidy é \U0001f9d0", "user_request": "a\nb", "input": {"k": [1, None, "é"]}}, format="json"
    )
    assert made.status_code == 201
    assert ana_api.get(f"{ORDERS}/{made.json()['id']}").json() == made.json()
    assert made.json()["input"] == {"k": [1, None, "é"]}


def test_orders_come_newest_first_page_by_page(ana_api, make_order):
    made = [make_order().shown_id for _ in range(5)]
    seen, url = [], f"{ORDERS}?limit=2"
    while url:
        page = ana_api.get(url).json()
        assert len(page["results"]) <= 2
        seen += [order["id"] for order in page["results"]]
        url = page["next"]
    assert seen == made[::-1]


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "%00",
        base64.b64encode(b"p=x").decode(),
        base64.b64encode(b"p=\x00").decode(),
        base64.b64encode(b"o=99999999999999").decode(),
        "é",
    ],
)
@pytest.mark.parametrize("path", [ORDERS, "/api/v1/pauses"])
def test_a_cursor_that_is_none_is_refused(ana_api, path, cursor):
    response = ana_api.get(path, {"cursor": cursor})
    assert response.status_code in {200, 404}
    if response.status_code == 404:
        problem(response, 404, "not_found")


@pytest.mark.parametrize("limit", ["0", "-1", "x", "999999999999999999999", "\x00"])
def test_a_limit_that_is_none_gets_the_usual_page(ana_api, limit):
    assert ana_api.get(ORDERS, {"limit": limit}).status_code == 200


def test_a_failed_order_is_retried_and_one_that_did_not_fail_is_not(ana_api, make_order):
    order = drive(make_order("writing-fail"))
    again = ana_api.post(f"{ORDERS}/{order.shown_id}/retry")
    assert (again.status_code, again.json()["status"]) == (200, "pending")
    problem(ana_api.post(f"{ORDERS}/{order.shown_id}/retry"), 409, "run_ended")


def test_an_order_that_ended_is_not_cancelled(ana_api, make_order):
    order = drive(make_order("writing-quick"))
    before = rows()
    problem(ana_api.post(f"{ORDERS}/{order.shown_id}/cancel"), 409, "run_ended")
    assert rows() == before


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1/work-orders/1", "/api/v1/work-orders/wo_" + "z" * 26, "/api/v1/"])
def test_an_unknown_address_of_the_api_is_a_problem_document(ana_api, path):
    problem(ana_api.get(path), 404, "not_found")


def test_a_method_that_is_not_served_is_named(ana_api):
    response = ana_api.delete(ORDERS)
    problem(response, 405, "method_not_allowed")
    assert response["Allow"] == "GET, POST, HEAD, OPTIONS"


# Whatever is sent.

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "template": st.sampled_from(["writing", "writing-quick", "repo-tidy"]) | anything,
        "title": anything,
        "user_request": anything,
        "input": st.dictionaries(st.text(st.characters(exclude_categories=()), max_size=5), anything, max_size=3) | anything,
        "repository_url": anything,
        "team": st.just("platform") | anything,
    },
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies | anything)
@example({"template": "writing", "input": {"a": "\ud800"}})
def test_no_body_of_a_new_order_is_a_server_error(ana_api, body):
    """And whatever was taken can be read again, alone and in the list."""
    ana_api.raise_request_exception = False
    response = ana_api.post(ORDERS, json.dumps(body), content_type="application/json")
    assert response.status_code < 500
    if response.status_code == 201:
        assert ana_api.get(f"{ORDERS}/{response.json()['id']}").status_code == 200
        assert ana_api.get(ORDERS).status_code == 200


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(
        {
            "steps": st.lists(
                st.dictionaries(
                    st.sampled_from(["step_type", "name", "pause_after", "choices", "revise_to", "pause_phase", "max_revisions"]), anything
                ).map(lambda step: {**GOOD, **step}),
                max_size=2,
            )
            | anything
        },
        optional={"title": anything, "description": anything, "input_schema": anything},
    )
)
def test_no_template_is_a_server_error(editor_api, body):
    editor_api.raise_request_exception = False
    response = editor_api.put("/api/v1/templates/workflows/any", json.dumps(body), content_type="application/json")
    assert response.status_code < 500
    assert editor_api.get("/api/v1/templates/workflows/any").status_code == (200 if Template.objects.filter(slug="any").exists() else 404)
