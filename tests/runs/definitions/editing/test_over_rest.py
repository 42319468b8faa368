"""Templates as wholes over REST: versions, differences, copies, switches, dry runs, functions."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group

from runs import definitions
from runs.definitions import rights
from runs.models import StepTemplate, Template, TemplateAccess, WorkOrder
from runs.workflows import registry
from tests.doors.rest import ORDERS, problem
from tests.worlds.people import give

AT = "/api/v1/templates/workflows"
KINDS = "/api/v1/templates/steps"


@pytest.fixture
def letter(templates):
    """A template of two steps, the first of which asks."""
    for name in ("draft", "send"):
        definitions.edit_step_template(
            f"letter-{name}",
            title=name.capitalize(),
            function="gate.wait_for_input",
            config={
                "question": "What?",
                "blocking_reason": "words",
                "required_inputs": {"type": "object"},
            },
        )
    return definitions.edit_template(
        "letter",
        title="Letter",
        needs_repository=False,
        steps=[step("draft", pause_after=True, pause_phase="awaiting_draft"), step("send")],
    )


def step(name, **more):
    return {"name": name, "step_type": name, "step_template_slug": f"letter-{name}", **more}


def test_every_function_of_ours_says_what_its_configuration_holds(ana_api, templates):
    """The page makes a form of it, so it has to take what is saved already."""
    found = ana_api.get("/api/v1/templates/functions").json()["functions"]
    by_name = {function["name"]: function for function in found}
    asked = by_name["gate.wait_for_input"]["config_schema"]["properties"]
    assert {"question", "blocking_reason", "required_inputs"} <= asked.keys()
    for kind in StepTemplate.objects.current():
        registry.check_config(kind.function, kind.config)
    one = ana_api.get("/api/v1/templates/functions/agent").json()
    assert one == by_name["agent"]
    assert "output" in one["writes_schema"]["properties"]
    gone = ana_api.get("/api/v1/templates/functions/agnet")
    assert "Did you mean agent?" in problem(gone, 404, "step_function_not_found")["detail"]


def test_a_misspelt_key_of_a_configuration_is_refused_with_the_near_one(editor_api, ana, letter):
    give(ana, "add_steptemplate")
    sent = {"title": "x", "function": "gate.wait_for_input", "config": {"qestion": "x"}}
    refused = problem(editor_api.put(f"{KINDS}/x", sent, format="json"), 422, "template_invalid")
    assert "question" in refused["errors"]["config.qestion"][0]
    sent["config"] = {"question": 7}
    refused = problem(editor_api.put(f"{KINDS}/x", sent, format="json"), 422, "template_invalid")
    assert refused["errors"] == {"config.question": ["Must be text."]}


def test_lists_are_filtered(ana_api, letter):
    TemplateAccess.objects.create(slug="letter", enabled=False)

    def slugs(query):
        return {row["slug"] for row in ana_api.get(f"{AT}?{query}").json()["results"]}

    assert slugs("q=LETT") == slugs("enabled=false") == slugs("step=letter-send") == {"letter"}
    assert "letter" not in slugs("enabled=true")
    assert ana_api.get(f"{AT}?enabled=perhaps").status_code == 400
    kinds = ana_api.get(f"{KINDS}?q=letter&function=gate.wait_for_input").json()["results"]
    assert {kind["slug"] for kind in kinds} == {"letter-draft", "letter-send"}


def test_versions_are_listed_read_and_compared(ana_api, letter):
    definitions.edit_template(
        "letter",
        title="Letters",
        steps=[step("send", timeout=5), step("draft", pause_after=True, pause_phase="other")],
    )
    rows = ana_api.get(f"{AT}/letter/versions").json()["results"]
    assert [row["version"] for row in rows] == [2, 1]
    assert ana_api.get(f"{AT}/letter/versions/1").json()["title"] == "Letter"
    problem(ana_api.get(f"{AT}/letter/versions/9"), 404, "template_not_found")
    problem(ana_api.get(f"{AT}/nothing/versions"), 404, "template_not_found")
    found = ana_api.get(f"{AT}/letter/differences?old=1&new=2").json()
    assert found == ana_api.get(f"{AT}/letter/differences").json()
    assert [change["path"] for change in found["fields_changed"]] == ["/title"]
    by_name = {one["name"]: one for one in found["steps"]}
    assert [change["path"] for change in by_name["send"]["changes"]] == ["/timeout"]
    assert [change["path"] for change in by_name["draft"]["changes"]] == ["/pause_phase"]
    assert sum(one["moved"] for one in found["steps"]) == 1
    same = ana_api.get(f"{AT}/letter/differences?old=2&new=2").json()
    assert same["total"] == 0
    assert ana_api.get(f"{AT}/letter/differences?old=one").status_code == 400
    problem(ana_api.get(f"{AT}/letter/differences?new=code"), 409, "nothing_newer")


def test_a_step_that_came_or_went_is_told_by_its_name(ana_api, letter):
    definitions.edit_template("letter", steps=[{**step("draft"), "name": "write"}])
    steps = ana_api.get(f"{AT}/letter/differences").json()["steps"]
    assert {(one["name"], one["kind"]) for one in steps} == {
        ("write", "added"),
        ("draft", "removed"),
        ("send", "removed"),
    }


def test_step_templates_have_versions_too(ana_api, letter):
    definitions.edit_step_template("letter-send", title="Post", function="agent", config={})
    rows = ana_api.get(f"{KINDS}/letter-send/versions").json()["results"]
    assert [row["version"] for row in rows] == [2, 1]
    assert ana_api.get(f"{KINDS}/letter-send/versions/1").json()["title"] == "Send"
    found = ana_api.get(f"{KINDS}/letter-send/differences").json()
    paths = {change["path"] for change in found["fields_changed"]}
    assert {"/title", "/function", "/config/question"} <= paths


def test_a_copy_is_for_the_same_groups_and_takes_no_name_that_is_taken(
    editor_api, ana, letter, ana_api
):
    access = TemplateAccess.objects.create(slug="letter")
    rights.settle(access, "groups", "restricted", [Group.objects.create(name="writers")])
    made = editor_api.post(f"{AT}/letter/copies", {"slug": "letter-2"}, format="json")
    assert made.status_code == 201, made.content
    body = made.json()
    assert (body["title"], body["version"]) == ("Letter (copy)", 1)
    assert body["steps"] == letter.steps
    assert body["who_may_order"] == "Members of writers"
    taken = editor_api.post(f"{AT}/letter/copies", {"slug": "letter-2"}, format="json")
    problem(taken, 409, "template_exists")
    bad = editor_api.post(f"{AT}/letter/copies", {"slug": "two words"}, format="json")
    assert bad.status_code == 400
    none = editor_api.post(f"{AT}/nothing/copies", {"slug": "x"}, format="json")
    problem(none, 404, "template_not_found")
    old = {"slug": "x", "version": 7}
    problem(editor_api.post(f"{AT}/letter/copies", old, format="json"), 404, "template_not_found")


def test_without_the_right_nothing_is_copied_switched_or_taken_over(ana_api, letter):
    for answer in (
        ana_api.post(f"{AT}/letter/copies", {"slug": "x"}, format="json"),
        ana_api.put(f"{AT}/letter/enabled", {"enabled": False}, format="json"),
        ana_api.put(f"{AT}/letter/take-over", {"version": 1}, format="json"),
        ana_api.put(f"{KINDS}/letter-send/take-over", {"version": 1}, format="json"),
    ):
        assert answer.status_code == 403
    assert not Template.objects.filter(slug="x").exists()
    assert not TemplateAccess.objects.exists()


def test_what_is_switched_off_is_ordered_by_nobody_and_work_under_way_goes_on(ana_api, ana, letter):
    order = {"template": "letter"}
    before = ana_api.post(ORDERS, order, format="json")
    assert before.status_code == 201, before.content
    give(ana, "change_templateaccess")
    off = ana_api.put(f"{AT}/letter/enabled", {"enabled": False}, format="json")
    assert (off.status_code, off.json()["enabled"]) == (200, False)
    assert (
        "switched off"
        in problem(ana_api.post(ORDERS, order, format="json"), 409, "template_off")["detail"]
    )
    assert WorkOrder.objects.get().latest_run.status == "pending"
    tried = ana_api.post(f"{AT}/letter/dry-run", {}, format="json").json()
    assert [finding["code"] for finding in tried["findings"]] == ["template_off"]
    ana_api.put(f"{AT}/letter/enabled", {"enabled": True}, format="json")
    assert ana_api.post(ORDERS, order, format="json").status_code == 201


def test_switching_keeps_who_may_order(ana_api, ana, letter):
    access = TemplateAccess.objects.create(slug="letter")
    rights.settle(access, "groups", "restricted", [Group.objects.create(name="writers")])
    give(ana, "change_templateaccess")
    for enabled in (False, True):
        ana_api.put(f"{AT}/letter/enabled", {"enabled": enabled}, format="json")
    assert rights.who_may(rights.access_to("letter")) == "Members of writers"


def test_saving_over_a_newer_version_is_a_conflict(editor_api, ana, letter):
    read = editor_api.get(f"{AT}/letter").json()
    definitions.edit_template("letter", title="Mine")
    late = editor_api.put(f"{AT}/letter", {**read, "title": "Late"}, format="json")
    problem(late, 409, "template_saved_meanwhile")
    assert definitions.current("letter").title == "Mine"
    give(ana, "add_steptemplate")
    kind = editor_api.get(f"{KINDS}/letter-send").json()
    definitions.edit_step_template("letter-send", title="Post", function="agent", config={})
    late = editor_api.put(f"{KINDS}/letter-send", kind, format="json")
    problem(late, 409, "template_saved_meanwhile")


def test_a_dry_run_says_whom_each_step_asks_and_by_when_and_keeps_nothing(
    ana_api, ana, ben, letter
):
    group = Group.objects.create(name="heads")
    ben.groups.add(group)
    review = {
        "reviewers": {"groups": ["heads"]},
        "deadline": {"after": "PT4H", "outcome": "cancel"},
        "reminders": ["PT1H"],
        "escalation": [{"after": "PT2H", "users": [ana.username]}],
    }
    steps = [step("draft", pause_after=True, pause_phase="p", review=review), step("send")]
    versions = Template.objects.count()
    tried = ana_api.post(f"{AT}/letter/dry-run", {"steps": steps, "input": {}}, format="json")
    assert tried.status_code == 200, tried.content
    body = tried.json()
    assert body["ok"]
    pause = body["steps"][0]["pause"]
    assert (pause["who"], pause["people"], pause["outcome"]) == ("the group heads", 1, "cancel")
    assert pause["answers"] == {"approve": "send", "revise": "draft", "cancel": ""}
    assert pause["deadline"] > pause["stages"][0]["at"] > pause["reminders"][0]
    assert pause["stages"][0]["who"] == ana.username
    assert body["steps"][1]["pause"] is None
    assert body["steps"][1]["may_ask"]
    assert Template.objects.count() == versions
    assert not WorkOrder.objects.exists()


def test_a_dry_run_finds_what_would_go_wrong(ana_api, ana, letter):
    Group.objects.create(name="nobody")
    ana.groups.add(Group.objects.create(name="one"))
    found = {}
    for name, review in {
        "empty": {"reviewers": {"groups": ["nobody"]}},
        "few": {"reviewers": {"groups": ["one"]}, "quorum": 2},
        "own": {"reviewers": {"users": [ana.username]}, "self_approval": False},
    }.items():
        steps = [step("draft", pause_after=True, pause_phase="p", review=review)]
        answer = ana_api.post(f"{AT}/letter/dry-run", {"steps": steps}, format="json").json()
        assert not answer["ok"]
        found[name] = [finding["code"] for finding in answer["findings"]]
    assert found == {
        "empty": ["nobody_to_ask"],
        "few": ["quorum_too_high"],
        "own": ["quorum_too_high"],
    }
    bad = {"steps": [step("draft", revise_to="nowhere")]}
    answer = ana_api.post(f"{AT}/letter/dry-run", bad, format="json").json()
    assert answer["findings"][0]["code"] == "template_invalid"
    assert answer["steps"] == []
    wrong = {"input_schema": {"type": "object", "required": ["a"]}, "input": {}}
    answer = ana_api.post(f"{AT}/letter/dry-run", wrong, format="json").json()
    assert [(f["code"], f["field"]) for f in answer["findings"]] == [("input_invalid", "a")]
    problem(ana_api.post(f"{AT}/nothing/dry-run", {}, format="json"), 404, "template_not_found")
    new = {"title": "New", "needs_repository": False, "steps": letter.steps}
    assert ana_api.post(f"{AT}/nothing/dry-run", new, format="json").json()["ok"]
    misspelt = ana_api.post(f"{AT}/letter/dry-run", {"stepps": []}, format="json")
    assert misspelt.status_code == 400
