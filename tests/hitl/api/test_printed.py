"""S4's addresses, bodies and steps as its document prints them; and that a form of another site
gains nothing by that.
"""

from __future__ import annotations

import json

import pytest
from django.test import Client
from rest_framework.test import APIClient

from extensions.coding import steps
from runs import definitions
from runs.models import Template, WorkOrder
from runs.workflows import registry
from tests.databases.whole import rows
from tests.doors.rest import ana_api as ana_api
from tests.doors.rest import editor_api as editor_api
from tests.doors.rest import problem
from tests.worlds.ruled_order import browser

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

PRINTED = "/api/agent-work-orders/"
FORM = "application/x-www-form-urlencoded"
THREE = [{"step_type": name, "pause_after": False} for name in ("planning", "execute", "review")]


@pytest.mark.parametrize(
    ("address", "said"),
    [(PRINTED, FORM), (PRINTED[:-1], f"{FORM}; charset=utf-8"), ("/api/v1/work-orders", "")],
)
def test_with_a_token_json_need_not_say_that_it_is(ana_api, address, said):
    """S4-35: `curl -d` says that it sends a form; the documents' commands were answered 415."""
    answer = ana_api.generic(
        "POST", address, json.dumps({"template": "writing"}), content_type=said
    )
    assert answer.status_code == 201, answer.json()
    assert WorkOrder.objects.get().shown_id == answer.json()["agent_work_order_id"]


def test_with_a_cookie_json_says_so(templates, ana, subtests):
    """C29: a form of another site can send these with the cookie of whoever looks at it."""
    for said in [FORM, "", "text/plain"]:
        with subtests.test(ascii(said)[:60]):
            # the second: with its token too
            for checks, refusal in (
                (True, (403, "permission_denied")),
                (False, (415, "unsupported_media_type")),
            ):
                client = Client(enforce_csrf_checks=checks)
                client.force_login(ana)
                before = rows()
                problem(
                    client.generic(
                        "POST", PRINTED, json.dumps({"template": "writing"}), content_type=said
                    ),
                    *refusal,
                )
                assert rows() == before


@pytest.mark.parametrize("checks", [True, False])
def test_a_form_with_files_needs_its_token_as_pages_do_and_says_what_it_lacks(
    templates, ana, checks
):
    """C29: a browser sends it for other sites, too; with it comes no template here."""
    client = Client(enforce_csrf_checks=checks)
    client.force_login(ana)
    before = rows()
    said = "multipart/form-data; boundary=x"
    answer = client.generic("POST", PRINTED, "--x--", content_type=said)
    assert answer.status_code == (403 if checks else 422), answer.content
    assert rows() == before


def test_with_a_token_what_says_that_it_is_something_else_is_refused(ana_api):
    before, body = rows(), json.dumps({"template": "writing"})
    for said in ("text/plain", "application/xml"):
        refused = ana_api.generic("POST", PRINTED, body, content_type=said)
        problem(refused, 415, "unsupported_media_type")
    assert rows() == before


def test_a_real_form_is_no_json(ana_api, subtests):
    before = rows()
    for body in ["template=writing", "", "[]", "{", '{"template": "writing"} x']:
        with subtests.test(ascii(body)[:60]):
            assert ana_api.generic("POST", PRINTED, body, content_type=FORM).status_code in {
                400,
                422,
            }
    assert rows() == before


def test_without_credentials_nothing_is_read(templates):
    answer = APIClient().generic("POST", PRINTED, "{", content_type=FORM)
    problem(answer, 401, "not_authenticated")


def test_what_is_not_there_is_said_as_everywhere(ana_api):
    problem(ana_api.get(f"{PRINTED}nothing/here"), 404, "not_found")


def test_steps_that_name_their_type_alone_are_the_usual_ones(editor_api):
    """S4-62, S4-63: before, they were refused.

    A template may be read, edited in the browser and put back as it was printed.
    """
    put = editor_api.generic(
        "PUT",
        f"{PRINTED}templates/workflows/short",
        json.dumps({"steps": THREE}),
        content_type=FORM,
    )
    assert put.status_code == 200, put.json()
    template = definitions.current("short")
    assert template.steps == THREE and template.reducers == steps.REDUCERS
    found = definitions.freeze_steps(template.steps)
    assert [step["step_template_slug"] for step in found] == [
        "standard-planning",
        "standard-execute",
        "standard-review",
    ]
    assert [step["name"] for step in found] == [
        "planning",
        "execute",
        "review",
    ] and registry.need_request(found)
    again = editor_api.put(f"{PRINTED}templates/workflows/short", put.json(), format="json")
    assert (again.status_code, again.json()["version"]) == (200, 1)


@pytest.mark.parametrize(
    "chosen", [{"backend": "redis"}, {"checkpoints": {"backend": "file:///tmp"}}]
)
def test_no_template_chooses_where_checkpoints_are_kept(editor_api, chosen):
    """C30: the server does, by `CHECKPOINTS_URL`; how often is a template's own."""
    address = "/api/v1/templates/workflows/own"
    refused = problem(
        editor_api.put(address, {"steps": THREE, **chosen}, format="json"), 400, "invalid"
    )
    assert refused["errors"].keys() == chosen.keys()
    assert not Template.objects.filter(slug="own").exists()
    saved = editor_api.put(address, {"steps": THREE, "frequency": "failure"}, format="json")
    assert (saved.status_code, saved.json()["frequency"]) == (200, "failure")


def test_the_page_of_such_a_template_shows_its_steps(ana, editor_api):
    definitions.edit_template("short", steps=[*THREE, {"step_type": "deliver"}])
    page = browser(ana).get("/templates/short/")
    assert page.status_code == 200
    assert all(
        title in page.content.decode() for title in ("Planning", "Execute", "Review", "Deliver")
    )
    assert browser(ana).get("/templates/").status_code == 200


@pytest.mark.parametrize(
    "missing", [{"step_type": "plannning"}, {"step_type": "plannning", "step_template_slug": ""}]
)
def test_a_type_that_is_misspelt_is_no_usual_one(editor_api, missing):
    answer = editor_api.put(
        f"{PRINTED}templates/workflows/short", {"steps": [missing]}, format="json"
    )
    said = problem(answer, 422, "template_invalid")["errors"]["steps.0.step_type"]
    assert "Did you mean planning?" in said[0]


def test_operators_say_what_the_usual_step_of_a_type_is(templates):
    """As of the next order; one that is called as the type serves where there is none."""
    function = definitions.current_step_template("test-plan").function
    for slug in ("audit", "standard-audit"):
        definitions.edit_step_template(slug, title="Ours", function=function)
        assert definitions.freeze_steps([{"step_type": "audit"}])[0]["step_template_slug"] == slug


def test_a_template_that_says_how_keys_add_up_keeps_that(editor_api):
    definitions.edit_template("short", steps=THREE, reducers={})
    assert definitions.current("short").reducers == {}
