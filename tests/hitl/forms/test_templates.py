"""Templates in the browser: what a template and its steps say is set by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.template.loader import render_to_string
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl.forms.templates import TemplateForm
from runs import definitions
from runs.definitions import yaml_files
from runs.definitions.templates import EDITED
from runs.models import Template
from tests.hitl.forms.controls import Controls, form_of, query

pytestmark = pytest.mark.django_db
RICH: dict[str, Any] = {
    "pause_after": True,
    "pause_phase": "awaiting_a_word",
    "max_revisions": 1,
    "revise_to": "plan",
    "choices": [{"name": "later", "label": "Later ", "to": "plan"}],
    "retry": {"attempts": 3, "base": 0.5, "cap": 60, "errors": ["Busy", " odd "]},
    "timeout": None,
    "skip_when": {"properties": {"done": {"const": True}}, "required": ["done"]},
    "max_loops": 7,
    "queue": "agents",
    "on_change": "hold",
    "interrupt_before": False,
    "interrupt_after": True,
    "required_inputs": {"type": "object", "properties": {"legal": {"type": "string"}}},
    "review": {
        "stages": [
            {"name": "legal", "title": "Law", "question": "Are the\nterms fair?",
             "reviewers": {"users": ["ana"], "groups": []}, "quorum": 1},
            {"name": "cfo", "reviewers": {"users": ["ben"], "groups": ["Heads, all"]},
             "after": ["legal"], "external": [],
             "deadline": {"after": "PT4H", "calendar": "business", "zone": ""}},
        ],
        "deadline": {"after": "P2D", "calendar": "business", "zone": "Europe/Berlin",
                     "outcome": "escalate"},
        "reminders": [],
        "escalation": [{"after": "P1D", "users": ["cleo"]}],
        "reason_required": ["cancel"],
        "self_approval": False,
        "edits": True,
        "undo": 0,
    },
}  # fmt: skip
"""A step that says something of everything."""


@pytest.fixture
def cleo(django_user_model):
    return django_user_model.objects.create_user("cleo", "cleo@example.org", "x")


@pytest.fixture
def editor(templates, ana) -> Client:
    ana.user_permissions.add(Permission.objects.get(codename="add_template"))
    client = Client()
    client.force_login(ana)
    return client


def url(slug: str = "repo-tidy") -> str:
    return f"/templates/{slug}/"


def shown(editor: Client, slug: str = "repo-tidy"):
    """What a browser sends when nothing was changed."""
    return form_of(editor.get(url(slug)).content.decode())


def put(sent, fields):
    for name, value in fields.items():
        sent[name] = value
    return sent


def rows(name: str, *values: str) -> dict[str, str]:
    """The fields of a list whose rows are texts."""
    return {f"{name}.count": str(len(values))} | {
        f"{name}.{number}": value for number, value in enumerate(values)
    }


def pressed(editor: Client, sent, change: str, slug: str = "repo-tidy"):
    """The form after one of its buttons."""
    page = editor.post(url(slug), put(sent, {"change": change}))
    assert page.status_code == 200
    assert "errorlist" not in page.content.decode()
    return form_of(page.content.decode())


def test_the_list_says_where_each_template_asks(editor):
    page = editor.get("/templates/").content.decode()
    row = re.search(r"Tidy a repository</a>.*?</li>", page, re.S)
    assert row
    assert "Pauses after Planning, Execute, Review." in row[0]


def test_a_pause_is_taken_out_in_the_browser_and_the_next_order_runs_on(editor, make_order):
    """S4-4, S4-12: the old version stays for what was ordered with it."""
    before = make_order("writing")
    sent = shown(editor, "writing")
    asked = [name for name in sent if name.endswith(".pause_after")]
    assert asked
    for name in asked:
        del sent[name]
    answer = editor.post(url("writing"), sent)
    assert answer.status_code == 302
    assert "Saved as version 2" in editor.get(url("writing")).content.decode()
    assert [
        step.get("pause_after") for step in Template.objects.get(slug="writing", version=1).steps
    ] != [False] * 2
    after = make_order("writing")
    assert not any(step["pause_after"] for step in after.definition.steps)
    assert any(step["pause_after"] for step in before.definition.steps)


def test_saving_what_is_shown_makes_no_version(editor, subtests):
    for slug in ["repo-tidy", "smart-booking", "writing", "repo-tidy-quick"]:
        with subtests.test(ascii(slug)[:60]):
            assert editor.post(url(slug), shown(editor, slug)).status_code == 302
            first, last = Template.objects.get(slug=slug, version=1), definitions.current(slug)
            assert {name: getattr(last, name) for name in EDITED} == {
                name: getattr(first, name) for name in EDITED
            }
            assert last.version == 1


def test_rules_of_a_step_are_written_and_others_stay(editor, ben):
    """S4-12: who answers, how many, by when; what was not changed is kept."""
    current = definitions.current("repo-tidy")
    steps = [
        {**step, "review": {"undo": 30, "reminders": ["PT1H"]}}
        if step["step_type"] == "planning"
        else step
        for step in current.steps
    ]
    definitions.edit_template("repo-tidy", steps=steps)
    sent = put(
        shown(editor),
        {
            **rows("0.review.reviewers.users", "ben", "ana"),
            "0.review.quorum": "2",
            "0.review.deadline.after": "2",
            "0.review.deadline.after.unit": "D",
            "0.review.deadline.outcome": "cancel",
            "0.review.deadline.calendar": "business",
            "0.review.risk": "high",
        },
    )
    del sent["0.review.self_approval"]
    assert editor.post(url(), sent).status_code == 302
    saved = definitions.current("repo-tidy")
    assert saved.steps[0]["review"] == {
        "undo": 30,
        "reminders": ["PT1H"],
        "reviewers": {"users": ["ben", "ana"]},
        "quorum": 2,
        "self_approval": False,
        "risk": "high",
        "deadline": {"after": "P2D", "outcome": "cancel", "calendar": "business"},
    }
    assert saved.steps[1:] == steps[1:]
    assert saved.created_by is not None


def test_stages_in_turn_are_added_removed_and_saved_by_buttons_alone(editor, ben, cleo):
    """S4-72 without JavaScript: each stage with its people, its question and its turn."""
    sent = shown(editor)
    for _ in range(3):
        sent = pressed(editor, sent, "add:0.review.stages")
    sent = put(
        sent,
        {
            "0.review.stages.0.name": "dropped",
            "0.review.stages.1.name": "legal",
            **rows("0.review.stages.1.reviewers.users", "ben"),
            "0.review.stages.1.question": "Are the terms acceptable?",
            "0.review.stages.2.name": "cfo",
            **rows("0.review.stages.2.reviewers.users", "cleo"),
            "0.review.stages.2.after": "legal",
            "0.review.stages.2.deadline.after": "PT4H",
        },
    )
    sent = pressed(editor, sent, "remove:0.review.stages.0")
    sent = pressed(editor, sent, "down:0")  # the rules move with their step
    assert sent["1.review.stages.0.name"] == "legal"
    assert editor.post(url(), pressed(editor, sent, "up:1")).status_code == 302
    assert definitions.current("repo-tidy").steps[0]["review"] == {
        "stages": [
            {
                "name": "legal",
                "question": "Are the terms acceptable?",
                "reviewers": {"users": ["ben"]},
            },
            {
                "name": "cfo",
                "reviewers": {"users": ["cleo"]},
                "after": ["legal"],
                "deadline": {"after": "PT4H"},
            },
        ]
    }


def test_what_else_a_step_and_a_template_may_say_is_written_on_the_page(editor):
    """Tries, time, further answers, code that changed, reducers and what is kept."""
    sent = pressed(editor, shown(editor), "add:0.choices")
    sent = pressed(editor, sent, "add:template.reducers")
    sent = put(
        sent,
        {
            "0.choices.0.name": "skip",
            "0.choices.0.label": "Skip the rest",
            "0.choices.0.to": "review",
            "0.choices.0.approves": "true",
            "0.may_pass": "Fewer than ten fixes.",
            "0.revise_to": "planning",
            "0.retry.attempts": "4",
            "0.retry.base": "1.5",
            "0.retry.errors": "Busy\r\nTimeout",
            "0.timeout": "90",
            "0.on_change": "hold",
            "0.max_loops": "3",
            "0.skip_when": '{"required": ["done"]}',
            "0.interrupt_after": "true",
            "template.reducers.0.key": "lines",
            "template.reducers.0.reducer": "append",
            "template.frequency": "loops",
            "template.retention.days": "30",
            "template.size_budget": "5000",
        },
    )
    before = definitions.current("repo-tidy").steps
    assert editor.post(url(), sent).status_code == 302
    saved = definitions.current("repo-tidy")
    assert saved.steps[0] == {
        **before[0],
        "choices": [{"name": "skip", "label": "Skip the rest", "to": "review", "approves": True}],
        "may_pass": "Fewer than ten fixes.",
        "revise_to": "planning",
        "retry": {"attempts": 4, "base": 1.5, "errors": ["Busy", "Timeout"]},
        "timeout": 90,
        "on_change": "hold",
        "max_loops": 3,
        "skip_when": {"required": ["done"]},
        "interrupt_after": True,
    }
    assert saved.steps[1:] == before[1:]
    assert saved.reducers == {"lines": "append"}
    assert (saved.frequency, saved.retention, saved.size_budget) == ("loops", {"days": 30}, 5000)


def test_durations_are_a_number_and_a_unit_and_what_no_unit_says_stays(editor):
    steps = definitions.current("repo-tidy").steps
    odd = {"deadline": {"after": "P1DT2H"}, "reminders": ["PT90M", "PT20H"]}
    definitions.edit_template("repo-tidy", steps=[{**steps[0], "review": odd}, *steps[1:]])
    sent = shown(editor)
    assert [sent[f"0.review.{name}"] for name in ("deadline.after", "deadline.after.unit")] == [
        "P1DT2H",
        "",
    ]
    assert [sent[f"0.review.reminders.0{more}"] for more in ("", ".unit")] == ["90", "TM"]
    put(sent, {"0.review.reminders.1": "3", "0.review.reminders.1.unit": "TH"})
    assert editor.post(url(), sent).status_code == 302
    saved = definitions.current("repo-tidy").steps[0]["review"]
    assert saved == {**odd, "reminders": ["PT90M", "PT3H"]}
    put(sent, {"version": "3", "0.review.deadline.after": "P2D"})  # whoever knows ISO 8601 may
    assert editor.post(url(), sent).status_code == 302
    assert definitions.current("repo-tidy").steps[0]["review"]["deadline"] == {"after": "P2D"}


def test_asking_after_a_step_takes_a_tick_alone(editor, make_order):
    """Before, As usual was refused: the step needs a pause_phase."""
    steps = [
        {key: value for key, value in step.items() if not key.startswith("pause_")}
        for step in definitions.current("repo-tidy").steps
    ]
    definitions.edit_template("repo-tidy", steps=steps)
    sent = put(shown(editor), {"0.pause_after": "true", "0.pause_phase": ""})
    assert editor.post(url(), sent).status_code == 302
    saved = definitions.current("repo-tidy").steps
    assert definitions.freeze_steps(saved)[0]["pause_phase"] == "awaiting_planning_approval"


def test_steps_are_folded_people_offered_and_an_added_step_has_the_focus_on_its_name(editor, ben):
    page = editor.get(url()).content.decode()
    assert page.count("<details open>") == page.count('id="step-1"><details open') == 0
    assert f'<option value="{ben.username}">' in page
    assert re.search(r'<optgroup label="Tidy a repository">\s*<option value="tidy-', page)
    added = put(shown(editor), {"change": "add", "add": "tidy-review"})
    page = editor.post(url(), added).content.decode()
    focused = re.findall(r"<(\w+)[^>]*autofocus", page)
    assert focused == ["input"]
    assert re.search(r'name="4.name"[^>]*autofocus', page)
    [last] = re.findall(r'id="step-5">.*?<details( open)?>', page, re.S)
    assert last
    grown = put(form_of(page), {"change": "add:1.review.reviewers.users"})
    page = editor.post(url(), grown).content.decode()
    assert re.findall(r'id="step-2">.*?<details( open)?>', page, re.S) == [" open"]
    assert 'list="known-people"' in page
    wrong = put(form_of(page), {"2.review.quorum": "0"})
    page = editor.post(url(), wrong).content.decode()
    assert re.findall(r'id="step-3">.*?<details( open)?>', page, re.S) == [" open"]


def test_rules_are_taken_back_by_emptying_their_fields(editor, ben):
    steps = definitions.current("repo-tidy").steps
    rules = {
        "retry": {"attempts": 3, "errors": ["Busy"]},
        "timeout": 5,
        "on_change": "hold",
        "review": {"quorum": 1, "deadline": {"after": "P1D", "outcome": "cancel"}},
    }
    definitions.edit_template(
        "repo-tidy", steps=[{**steps[0], **rules}, *steps[1:]], reducers={"lines": "append"}
    )
    empty = ("timeout", "on_change", "retry.attempts", "review.deadline.after")
    sent = put(shown(editor), {f"0.{name}": "" for name in empty})
    sent = pressed(editor, sent, "remove:template.reducers.0")
    assert editor.post(url(), sent).status_code == 302
    saved = definitions.current("repo-tidy")
    assert saved.steps[0] == {**steps[0], "review": {"quorum": 1}}
    assert saved.reducers == {}


def test_a_step_that_says_everything_is_shown_whole_and_stays_as_it_is(editor, ben, cleo):
    """What YAML may say is on the page; saving it untouched changes nothing."""
    Group.objects.create(name="Heads, all")
    kept: dict[str, Any] = {
        "steps": [{"name": "plan", "step_type": "planning", **RICH}],
        "reducers": {"a ": "append", "": "merge"},
        "retention": {"days": None, "count": 3},
        "state_schema": {"type": "object"},
        "description": "One\r\ntwo ",
        "title": "All  of it",
    }
    saved = definitions.edit_template("all", needs_repository=False, **kept)
    before = yaml_files.export(["all"])
    page = editor.get(url("all")).content.decode()
    assert "kept as it is" not in page
    for text in ("terms fair?", "Heads, all", "awaiting_a_word", "Europe/Berlin", "escalate"):
        assert text in page
    assert editor.post(url("all"), form_of(page)).status_code == 302
    last = definitions.current("all")
    assert {name: getattr(last, name) for name in EDITED} == {
        name: getattr(saved, name) for name in EDITED
    }
    assert last.version == saved.version
    assert yaml_files.export(["all"]) == before
    sent = put(form_of(page), {"0.review.stages.1.quorum": "1"})
    assert editor.post(url("all"), sent).status_code == 302
    step = definitions.current("all").steps[0]
    assert step["review"]["stages"].pop(1)["quorum"] == 1
    assert {**step, "review": 0} == {**saved.steps[0], "review": 0}


def test_what_cannot_be_is_said_at_its_field_and_nothing_is_saved(editor, ben, subtests):
    untouched = shown(editor)
    for field, value, words in [
        ("0.review.quorum", "0", "Must be at least 1."),
        ("0.review.deadline.after", "soon", "soon"),
        ("0.review.quorum", "3", "Only 2 may answer"),
        ("0.review.link_answers", "true", "of low risk"),
        ("0.review.escalation.0.after", "P9D", "after the deadline"),
        ("title", "", "required"),
        ("0.max_revisions", "11", "Between 0 and 10"),
        ("0.retry.attempts", "21", "Must be at most 20."),
        ("0.timeout", "soon", "Must be a number or empty."),
        ("0.skip_when", "{oops", "This is not JSON"),
        ("0.required_inputs", '{"type": "array"}', "object"),
        ("template.reducers.0.key", "", "Enter “Key of the state”."),
        ("template.size_budget", "0", "whole number of bytes"),
    ]:
        with subtests.test(ascii(field)[:60]):
            sent = put(
                untouched.copy(),
                {
                    **rows("0.review.reviewers.users", "ben", "ana"),
                    "0.review.deadline.after": "PT2H",
                    "0.review.escalation.count": "1",
                    "0.review.escalation.0.after": "PT1H",
                    **rows("0.review.escalation.0.users", "ben"),
                    "template.reducers.count": "1",
                    "template.reducers.0.key": "k",
                    "template.reducers.0.reducer": "append",
                    field: value,
                },
            )
            answer = editor.post(url(), sent)
            assert answer.status_code == 422
            page = answer.content.decode()
            ident = "id_" + re.sub(r"[^\w-]", "_", field)
            error = re.search(rf'id="({ident}[._]error)"', page)
            assert error and words in re.sub("<[^>]+>", "", page[error.start() :][:600])
            control = re.search(rf'<[^>]*id="{ident}"[^>]*>', page)
            assert control and 'aria-invalid="true"' in control[0]
            assert error[1] in control[0]
            assert form_of(page)[field] == value
            assert definitions.current("repo-tidy").version == 1


def test_a_reducer_twice_is_said_and_nothing_is_lost(editor):
    sent = put(shown(editor), {"template.reducers.count": "2"})
    for number in range(2):
        put(sent, {f"template.reducers.{number}.key": "k"})
        put(sent, {f"template.reducers.{number}.reducer": "append"})
    page = editor.post(url(), sent)
    assert page.status_code == 422
    assert "This key is there twice." in page.content.decode()
    assert form_of(page.content.decode())["template.reducers.1.key"] == "k"


def test_two_who_edit_at_once_lose_nothing(editor):
    """F7: the second is told, and keeps what was entered."""
    sent = put(shown(editor), {"title": "Mine", "0.review.quorum": "3", "0.retry.attempts": "5"})
    definitions.edit_template("repo-tidy", title="Theirs")
    answer = editor.post(url(), sent)
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "Somebody saved this template at the same moment" in page
    kept = form_of(page)
    assert (kept["title"], kept["0.review.quorum"], kept["0.retry.attempts"]) == ("Mine", "3", "5")
    assert definitions.current("repo-tidy").title == "Theirs"


def test_a_page_that_showed_no_rules_changes_none(editor):
    steps = definitions.current("repo-tidy").steps
    steps[0]["review"] = {"quorum": 2}
    definitions.edit_template("repo-tidy", steps=steps, reducers={"k": "append"})
    assert editor.post(url(), {"version": "2", "title": "Mine"}).status_code == 302
    saved = definitions.current("repo-tidy")
    assert (saved.title, saved.steps, saved.reducers) == ("Mine", steps, {"k": "append"})


def test_who_may_not_sees_it_and_changes_nothing(editor, ben):
    page = Client()
    page.force_login(ben)
    seen = page.get(url()).content.decode()
    assert "Save as version" not in seen
    assert '<fieldset class="plain" disabled>' in seen
    refused = page.post(url(), put(shown(editor), {"title": "Mine"}))
    assert refused.status_code == 403
    assert "You may not change templates" in refused.content.decode()
    assert definitions.current("repo-tidy").version == 1


def test_there_is_no_page_of_a_template_that_is_none(editor):
    assert editor.get(url("nothing")).status_code == 404


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
NAMES = st.lists(TEXT, max_size=3)
OPTIONAL: dict[str, Any] = {
    "pause_phase": TEXT,
    "max_revisions": st.integers(0, 10),
    "revise_to": TEXT,
    "choices": st.lists(
        st.fixed_dictionaries({"name": TEXT, "label": TEXT, "to": TEXT}), max_size=2
    ),
    "retry": st.fixed_dictionaries(
        {"attempts": st.integers(1, 20)},
        optional={"base": st.floats(0.001, 3600), "cap": st.integers(1, 86400), "errors": NAMES},
    ),
    "timeout": st.none() | st.floats(0.001, 86400) | st.integers(1, 9),
    "skip_when": st.none() | st.dictionaries(TEXT, TEXT, max_size=2),
    "interrupt_before": st.booleans(),
    "on_change": st.sampled_from(["continue", "hold"]),
    "required_inputs": st.dictionaries(TEXT, st.floats(-1e9, 1e9), max_size=2),
    "of an older version": TEXT,
    "review": st.fixed_dictionaries(
        {},
        optional={
            "reviewers": st.fixed_dictionaries({}, optional={"users": NAMES, "groups": NAMES}),
            "quorum": st.integers(1, 20),
            "stages": st.lists(
                st.fixed_dictionaries(
                    {"name": TEXT},
                    optional={"title": TEXT, "question": TEXT, "quorum": st.integers(1, 20),
                              "after": NAMES, "external": NAMES, "own": TEXT,
                              "reviewers": st.fixed_dictionaries({}, optional={"users": NAMES})},
                ),
                max_size=3,
            ),
            "self_approval": st.booleans(),
            "edits": st.booleans(),
            "reminders": NAMES,
            "escalation": st.lists(
                st.fixed_dictionaries({"after": TEXT}, optional={"groups": NAMES}), max_size=2
            ),
            "deadline": st.fixed_dictionaries(
                {"after": TEXT}, optional={"calendar": TEXT, "zone": TEXT, "outcome": TEXT}
            ),
            "undo": st.integers(0, 9),
            "of an older version": TEXT,
        },
    ),
}  # fmt: skip


@settings(deadline=None, max_examples=30)  # it renders templates
@given(
    steps=st.lists(
        st.fixed_dictionaries({"name": TEXT}, optional=OPTIONAL), min_size=1, max_size=3
    ),
    reducers=st.dictionaries(TEXT, st.sampled_from(["append", "merge"]), max_size=3),
)
def test_whatever_a_template_says_comes_back_from_a_page_that_nobody_touched(steps, reducers):
    """No key, no white space, no empty list is lost, valid or not."""
    template = Template(slug="x", version=3, title="X", steps=steps, reducers=reducers)
    sent = query([("version", "3"), ("title", "X"), ("rows", str(len(steps)))])
    sent["template.rules"] = "1"
    form = TemplateForm(template=template)
    html = ""
    for number, rules in enumerate(form.rules):
        sent[f"{number}.rules"], sent[f"{number}.base"] = "1", str(number)
        html += "".join(
            render_to_string("hitl/forms/_schema_field.html", {"field": field})
            for field in rules.form.fields
        )
    for field in form.of_all.fields:
        html += render_to_string("hitl/forms/_schema_field.html", {"field": field})
    controls = Controls()
    controls.feed(html)
    assert len(set(controls.ids)) == len(controls.ids)
    for name, value in controls.posted:
        sent.appendlist(name, value)
    again = TemplateForm(sent, template=template)
    assert again.is_valid(), again.errors
    saved = again.fields_to_save()
    assert saved["steps"] == steps
    assert (saved["reducers"], saved["retention"]) == (reducers, {})


@given(value=st.text(max_size=60))
def test_whatever_is_typed_is_kept_or_refused_but_never_an_error(value):
    template = Template(
        slug="x",
        version=3,
        title="X",
        steps=[{"step_type": "planning", "step_template_slug": "p", "pause_after": True}],
    )
    names = (
        "title", "version", "0.base", "0.rules", "0.pause_phase", "0.review.quorum",
        "0.review.reviewers.users.count", "0.review.reviewers.users.0", "0.review.stages.count",
        "0.review.deadline.after", "0.review.deadline.after.unit",
        "0.review.deadline.outcome", "0.review.stages.0.name", "0.required_inputs", "0.timeout",
        "0.choices.count", "template.rules", "template.reducers.count", "change",
    )  # fmt: skip
    form = TemplateForm(query((name, value) for name in names), template=template)
    if form.is_valid():
        assert form.fields_to_save()["steps"][0]["step_template_slug"] == "p"
