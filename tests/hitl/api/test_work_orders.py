"""Work orders and templates for machines, and what nonsense gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import ids
from runs import definitions
from runs.models import Template, WorkOrder
from runs.workflows.base import Go
from tests.conftest import drive
from tests.databases.whole import rows
from tests.doors.rest import ORDERS, anything, problem
from tests.doors.rest import ana_api as ana_api
from tests.doors.rest import editor_api as editor_api
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.steps import on_code

pytestmark = pytest.mark.django_db


# Templates.


def test_everybody_reads_templates_also_by_head_and_options(ana_api):
    for method in ("get", "head", "options"):
        assert getattr(ana_api, method)("/api/v1/templates/workflows/writing").status_code == 200


def test_a_template_that_is_not_there_is_said_to_be_missing(ana_api):
    problem(ana_api.get("/api/v1/templates/workflows/nothing"), 404, "template_not_found")
    problem(ana_api.post(ORDERS, {"template": "nothing"}, format="json"), 404, "template_not_found")


GOOD = {"step_type": "planning", "step_template_slug": "test-plan"}


def test_a_template_that_makes_no_sense_is_refused_with_its_place(editor_api, subtests):
    before = rows()
    for steps in [
        [],
        [{}],
        [{**GOOD, "step_template_slug": "nothing"}],
        [{**GOOD, "step_template_slug": "test-plan\x00"}],
        [{**GOOD, "name": "a\x00"}],
        [{**GOOD, "name": "\ud800"}],
        [{**GOOD, "pause_after": "yes"}],
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
    ]:
        with subtests.test(ascii(steps)[:60]):
            response = editor_api.put(
                "/api/v1/templates/workflows/writing",
                json.dumps({"steps": steps}),
                content_type="application/json",
            )
            assert "steps" in str(problem(response, 422, "template_invalid")["errors"])
    assert rows() == before


def test_an_input_schema_that_is_none_is_refused(editor_api, subtests):
    before = rows()
    schemas: list[dict[str, Any]] = [
        {"type": 5},
        {"type": "object", "properties": []},
        {"$ref": "#/nothing"},
        {"title": "\x00"},
    ]
    for schema in schemas:
        with subtests.test(ascii(schema)):
            response = editor_api.put(
                "/api/v1/templates/workflows/writing", {"input_schema": schema}, format="json"
            )
            problem(response, 422, "template_invalid")
    assert rows() == before


def test_a_slug_that_is_too_long_is_refused(editor_api):
    response = editor_api.put(
        f"/api/v1/templates/workflows/{'a' * 81}", {"steps": [GOOD]}, format="json"
    )
    problem(response, 422, "template_invalid")


# Making orders.


def test_an_order_that_makes_no_sense_is_refused_and_leaves_nothing(ana_api, subtests):
    on_code()
    before, deep = rows(), json.loads('{"a":' * 100 + "{}" + "}" * 100)
    for body, status, code in [
        ({"template": "on-code"}, 422, "input_invalid"),
        ({"template": "on-code", "repository_url": "/etc"}, 422, None),
        ({"template": "on-code", "repository_url": "ext::sh -c id"}, 422, None),
        ({"template": "on-code", "repository_url": "https://evil.example/x"}, 422, None),
        ({"template": "on-code", "repository_url": "/tmp/\x00"}, 400, "invalid"),
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
        ({"template": "writing", "input": deep}, 422, "input_invalid"),
        ({"template": "writing", "team": "nobody"}, 422, "invalid"),
        ({"template": "writing", "team": "a\x00"}, 400, "invalid"),
        ({"template": "writing", "team": {"name": "platform"}}, 400, "invalid"),
        ([], 400, "invalid"),
        ("approve", 400, "invalid"),
        (None, 400, "invalid"),
    ]:
        with subtests.test(ascii(body)[:60]):
            response = ana_api.post(ORDERS, json.dumps(body), content_type="application/json")
            found = problem(response, status, code or response.json()["code"])
            assert "errors" in found or code is None
    assert rows() == before


def test_a_step_reads_the_defaults_of_the_input_that_was_left_out(ana_api, order_that):
    """Before, a form filled them in and an order over REST had none."""
    read = []

    def look(state, context):
        read.append(dict(context.order.input))
        return Go()

    order_that(look)
    definitions.edit_template(
        "anything",
        input_schema={
            "type": "object",
            "properties": {"tone": {"type": "string", "default": "calm"}, "size": {}},
        },
    )
    for brought in ({}, {"tone": "loud", "size": 1}):
        body = {"template": "anything", "input": brought}
        made = ana_api.post(ORDERS, body, format="json").json()
        assert made["input"] == {"tone": "calm", **brought}
        drive(WorkOrder.objects.get(pk=ids.parse("wo", made["id"])))
    assert read == [{"tone": "calm"}, {"tone": "loud", "size": 1}]


def test_a_form_has_a_part_for_each_item_of_a_list_and_for_each_text_of_the_input(ana_api):
    """Before, a list in a form was refused whatever stood in it, as schemathesis found."""
    steps = ["planning", "finish"]
    form = {"template": "writing", "interrupt_before": steps, "input": '{"x": 1}', "input.y.z": "2"}
    answer = ana_api.post(ORDERS, form, format="multipart")
    assert answer.status_code == 201, answer.json()
    order = WorkOrder.objects.get()
    assert order.input == {"x": 1, "y": {"z": "2"}}
    assert order.latest_run.interrupt_before == steps
    too_deep = {"template": "writing", f"input{'.a' * 300}": "1"}
    problem(ana_api.post(ORDERS, too_deep, format="multipart"), 400, "invalid")


def test_nobody_learns_which_teams_there_are(templates, zoe, team, api):
    """F4: a team of others and no team at all get the same answer."""
    said = [
        api(zoe).post(ORDERS, {"template": "writing", "team": name}, format="json").json()["errors"]
        for name in ("platform", "nobody")
    ]
    assert json.dumps(said[0]).replace("platform", "x") == json.dumps(said[1]).replace(
        "nobody", "x"
    )


def test_an_order_shows_the_same_after_reading_it_again(ana_api):
    made = ana_api.post(
        ORDERS,
        {
            "template": "writing",
            "title": "Tidy é \U0001f9d0",
            "user_request": "a\nb",
            "input": {"k": [1, None, "é"]},
        },
        format="json",
    )
    assert made.status_code == 201
    assert ana_api.get(f"{ORDERS}/{made.json()['id']}").json() == made.json()
    assert made.json()["input"] == {"k": [1, None, "é"]}


def test_a_limit_that_is_none_is_refused_and_one_beyond_the_largest_page_gets_that(ana_api):
    """Before, it got the usual page, as if it had not been sent."""
    for limit in ("0", "-1", "x", "", "\x00"):
        problem(ana_api.get(ORDERS, {"limit": limit}), 400, "invalid")
    assert ana_api.get(ORDERS, {"limit": "999999999999999999999"}).status_code == 200


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


def test_an_unknown_address_of_the_api_is_a_problem_document(ana_api):
    for path in ("nothing", "work-orders/1", f"work-orders/wo_{'z' * 26}", ""):
        problem(ana_api.get(f"/api/v1/{path}"), 404, "not_found")


# Whatever is sent.


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.fixed_dictionaries(
        {
            "steps": st.lists(
                st.dictionaries(
                    st.sampled_from(
                        [
                            "step_type",
                            "name",
                            "pause_after",
                            "choices",
                            "revise_to",
                            "pause_phase",
                            "max_revisions",
                        ]
                    ),
                    anything,
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
    response = editor_api.put(
        "/api/v1/templates/workflows/any", json.dumps(body), content_type="application/json"
    )
    assert response.status_code < 500
    assert editor_api.get("/api/v1/templates/workflows/any").status_code == (
        200 if Template.objects.filter(slug="any").exists() else 404
    )


def test_time_at_work_and_time_of_people_are_figures(ana_api, paused):
    """As the order's picture draws them; in seconds."""
    told = ana_api.get(f"{ORDERS}/{paused.shown_id}/time").json()
    assert (told["now"], told["complete"]) == ("people", True)
    assert told["people"] >= 0
    assert (told["timer"], told["retry"]) == (0, 0)
    assert [step["step"] for step in told["steps"]] == ["planning"]
    assert told["steps"][0]["work"] == told["work"]


def test_the_priority_is_given_with_the_order_and_changed_by_its_requester(
    api, ana, ben, team, templates, page
):
    """Above 0 it takes a right; whoever only sees the order may not change it."""
    body = {"template": "writing", "team": "platform", "priority": -2}
    made = api(ana).post("/api/v1/work-orders", body, format="json")
    assert (made.status_code, made.json()["priority"]) == (201, -2)
    refused = api(ana).post("/api/v1/work-orders", {**body, "priority": 1}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "priority_not_allowed")
    assert api(ana).post(
        "/api/v1/work-orders", {**body, "priority": 11}, format="json"
    ).status_code in {400, 422}
    one = f"/api/v1/work-orders/{made.json()['id']}/priority"
    assert api(ana).post(one, {"priority": -5}, format="json").json()["priority"] == -5
    assert api(ben).post(one, {"priority": -6}, format="json").status_code == 403
    ana.user_permissions.add(Permission.objects.get(codename="raise_priority"))
    ana = User.objects.get(pk=ana.pk)
    assert api(ana).post(one, {"priority": 3}, format="json").json()["priority"] == 3
