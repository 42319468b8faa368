"""Templates put together, compared, tried and switched off on pages, without JavaScript."""

from __future__ import annotations

import pytest

from hitl.forms.configurations import KindForm
from runs import definitions
from runs.models import StepTemplate, Template, TemplateAccess, WorkOrder
from tests.hitl.forms.controls import form_of
from tests.worlds.people import give

GATE = {"question": "What?", "blocking_reason": "words", "required_inputs": {"type": "object"}}


@pytest.fixture
def letter(templates):
    for name in ("draft", "send"):
        definitions.edit_step_template(
            f"letter-{name}",
            title=name.capitalize(),
            function="gate.wait_for_input",
            config=GATE,
        )
    return definitions.edit_template(
        "letter", title="Letter", needs_repository=False, steps=[step("draft"), step("send")]
    )


def step(name, **more):
    return {"name": name, "step_type": name, "step_template_slug": f"letter-{name}", **more}


@pytest.fixture
def editor(ana, client, letter):
    give(ana, "add_template", "add_steptemplate", "change_templateaccess")
    client.force_login(ana)
    return client


def filled(page):
    """What a browser would send of the page's form as it stands."""
    return {name: values[-1] for name, values in form_of(page.content.decode()).lists() if values}


def names(page):
    return [step["name"] for step in page.context["form"].drafts]


def test_steps_are_moved_removed_and_added_and_nothing_is_saved_before_save(editor):
    page = editor.get("/templates/letter/")
    sent = filled(page) | {"title": "Typed", "0.review.quorum": "2"}
    sent |= {"0.review.reviewers.groups.count": "1", "0.review.reviewers.groups.0": "nobody"}
    page = editor.post("/templates/letter/", sent | {"change": "down:0"})
    assert page.status_code == 200
    assert names(page) == ["send", "draft"]
    again = filled(page)
    assert (again["title"], again["1.review.quorum"], again["1.review.reviewers.groups.0"]) == (
        "Typed", "2", "nobody",
    )  # fmt: skip
    assert "errorlist" not in page.content.decode()
    page = editor.post("/templates/letter/", again | {"change": "add", "add": "letter-send"})
    page = editor.post("/templates/letter/", filled(page) | {"change": "remove:1"})
    assert definitions.current("letter").version == 1
    saved = editor.post("/templates/letter/", filled(page) | {"1.name": "send-twice"})
    assert saved.status_code == 302, saved.context["form"].errors
    current = definitions.current("letter")
    assert (current.version, current.title) == (2, "Typed")
    assert [one["name"] for one in current.steps] == ["send", "send-twice"]
    assert current.steps[1]["step_template_slug"] == "letter-send"


def test_what_a_page_does_not_show_moves_with_its_step(editor):
    definitions.edit_template("letter", steps=[step("draft", timeout=5), step("send")])
    page = editor.post(
        "/templates/letter/", filled(editor.get("/templates/letter/")) | {"change": "up:1"}
    )
    editor.post("/templates/letter/", filled(page))
    assert definitions.current("letter").steps[1]["timeout"] == 5


def test_a_draft_survives_what_is_wrong_with_it(editor):
    sent = filled(editor.get("/templates/letter/"))
    page = editor.post("/templates/letter/", sent | {"change": "add", "add": "letter-send"})
    wrong = filled(page) | {
        "2.name": "send",
        "2.review.reviewers.users.count": "1",
        "2.review.reviewers.users.0": "nobody",
    }
    page = editor.post("/templates/letter/", wrong)
    assert page.status_code == 422
    assert filled(page)["2.name"] == "send"
    assert "needs a name of its own" in page.content.decode()
    assert definitions.current("letter").version == 1


def test_saving_over_a_newer_version_keeps_what_was_entered_and_may_be_insisted_on(editor):
    sent = filled(editor.get("/templates/letter/")) | {"title": "Mine"}
    definitions.edit_template("letter", title="Theirs", steps=[step("send")])
    page = editor.post("/templates/letter/", sent)
    assert page.status_code == 409
    assert names(page) == ["draft", "send"]
    assert 'value="Mine"' in page.content.decode()
    assert definitions.current("letter").title == "Theirs"
    saved = editor.post("/templates/letter/", sent | {"over": "2"})
    assert saved.status_code == 302
    assert definitions.current("letter").title == "Mine"


def test_a_new_template_is_made_of_chosen_steps_and_ordered_by(editor, ana):
    page = editor.get("/templates/new?steps=letter-draft&steps=letter-send")
    assert page.status_code == 200
    sent = filled(page) | {"slug": "note", "title": "Note", "0.pause_after": "on"}
    made = editor.post("/templates/new", sent)
    assert made.status_code == 302, made.context["form"].errors
    note = definitions.current("note")
    assert [one["name"] for one in note.steps] == ["letter-draft", "letter-send"]
    assert not note.needs_repository
    assert editor.post("/work-orders/new", {"template": "note"}).status_code == 302
    assert WorkOrder.objects.get().template == note


def test_a_new_template_begins_empty_and_says_so_when_it_is_saved_so(editor):
    page = editor.get("/templates/new")
    assert "There are no steps yet" in page.content.decode()
    assert "null" not in page.content.decode()
    wrong = filled(page) | {"slug": "empty", "title": "Empty"}
    page = editor.post("/templates/new", wrong)
    assert page.status_code == 422
    assert "between 1 and 50 steps" in page.content.decode()
    wrong["slug"] = "letter"
    page = editor.post("/templates/new", wrong)
    assert page.status_code == 409
    wrong["slug"] = "two words"
    assert editor.post("/templates/new", wrong).status_code == 422
    assert editor.get("/templates/new?from=nothing").status_code == 404


def test_a_copy_takes_over_what_the_page_does_not_show(editor):
    definitions.edit_template("letter", reducers={"lines": "append"})
    page = editor.get("/templates/new?from=letter")
    made = editor.post("/templates/new", filled(page) | {"slug": "copy", "from": "letter@2"})
    assert made.status_code == 302, made.context["form"].errors
    copy = definitions.current("copy")
    assert (copy.version, copy.reducers) == (1, {"lines": "append"})
    assert copy.steps == definitions.current("letter").steps


def test_a_draft_is_tried_before_it_is_saved(editor):
    sent = filled(editor.get("/templates/letter/"))
    tried = editor.post("/templates/letter/", sent | {"change": "try", "title": "Tried"})
    assert "Nothing was found that would stop an order" in tried.content.decode()
    assert 'value="Tried"' in tried.content.decode()
    alone = editor.get("/templates/letter/dry-run").content.decode()
    assert "It asks if it needs to" in alone
    assert Template.objects.filter(slug="letter").count() == 1


def test_a_dry_run_marks_the_field_that_is_wrong(editor):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    definitions.edit_template("letter", input_schema=schema)
    page = editor.post("/templates/letter/dry-run", {"input.a": "x"})
    assert "Must be a whole number." in page.content.decode()
    good = editor.post("/templates/letter/dry-run", {"input.a": "1"}).content.decode()
    assert "Nothing was found" in good


def test_two_versions_stand_side_by_side(editor):
    definitions.edit_template("letter", title="Letters", steps=[step("send"), step("draft")])
    page = editor.get("/templates/letter/versions").content.decode()
    assert "<del>&quot;Letter&quot;</del>" in page
    assert "Moved from place" in page
    same = editor.get("/templates/letter/versions?old=1&new=1").content.decode()
    assert "The two are equal" in same
    assert editor.get("/templates/letter/versions?old=77").status_code == 404
    assert editor.get("/templates/nothing/versions").status_code == 404


def test_one_is_switched_off_and_on_again(editor):
    editor.post("/templates/letter/do", {"do": "off"})
    assert "It is switched off" in editor.get("/templates/letter/").content.decode()
    assert "Switched off" in editor.get("/templates/").content.decode()
    assert editor.post("/work-orders/new", {"template": "letter"}).status_code == 422
    assert not WorkOrder.objects.exists()
    editor.post("/templates/letter/do", {"do": "on"})
    assert editor.post("/work-orders/new", {"template": "letter"}).status_code == 302


def test_one_is_made_the_default(editor):
    """S4-56: orders that name no template go by it; the page of a new one begins with it."""
    editor.post("/templates/letter/do", {"do": "default"})
    assert "Orders that name no template go by it" in editor.get("/templates/letter/").text
    assert 'name="template" value="letter"' in editor.get("/work-orders/new").text
    assert editor.post("/work-orders/new", {"title": "New"}).status_code == 302
    editor.post("/templates/letter/do", {"do": "off"})
    assert editor.post("/work-orders/new", {"title": "New"}).status_code == 422, (
        "and none in its place"
    )
    editor.post("/templates/letter/do", {"do": "no-default"})
    assert not TemplateAccess.objects.filter(default=True).exists()
    assert WorkOrder.objects.get().template.slug == "letter"


def test_a_step_template_is_made_of_a_function_by_its_form(editor):
    at = "/templates/steps/new?function=gate.wait_for_input"
    assert 'name="input.question"' in editor.get(at).content.decode()
    sent = {
        "version": "0",
        "slug": "ask",
        "title": "Ask",
        "input.question": "Which?",
        "input.blocking_reason": "which",
        "input.required_inputs": "{no",
    }
    page = editor.post(at, sent)
    assert page.status_code == 422
    assert "Which?" in page.content.decode()
    made = editor.post(at, sent | {"input.required_inputs": '{"type": "object"}'})
    assert made.status_code == 302, made.context["form"].errors
    kind = StepTemplate.objects.get(slug="ask")
    assert kind.config == {**GATE, "question": "Which?", "blocking_reason": "which"}
    page = editor.get("/templates/steps/ask/")
    assert "Which?" in page.content.decode()
    again = sent | {"version": "1", "input.required_inputs": '{"type": "object"}'}
    editor.post("/templates/steps/ask/", again)
    assert StepTemplate.objects.filter(slug="ask").count() == 1
    definitions.edit_step_template("ask", title="Theirs", function=kind.function, config=GATE)
    assert editor.post("/templates/steps/ask/", again | {"title": "Mine"}).status_code == 409
    assert editor.get("/templates/steps/new?function=nothing").status_code == 404
    assert "ask" in editor.get("/templates/steps").content.decode()


def test_a_configuration_of_ours_is_shown_and_saved_as_it_was(editor):
    """Each form has to hold what is saved already: saving it unchanged makes no version."""
    shown = set()
    for kind in StepTemplate.objects.current():
        form = KindForm(None, kind=kind, new=False)
        if kind.function not in shown:
            page = editor.get(f"/templates/steps/{kind.slug}/")
            assert page.status_code == 200
            form = page.context["form"]
        shown.add(kind.function)
        assert form.config.payload == kind.config | {}, kind.slug


def test_who_may_not_sees_and_changes_nothing(client, ben, letter):
    client.force_login(ben)
    for at in ("/templates/letter/versions", "/templates/letter/dry-run", "/templates/steps",
               "/templates/steps/letter-send/"):  # fmt: skip
        assert client.get(at).status_code == 200
    assert client.get("/templates/new").status_code == 403
    assert client.get("/templates/steps/new?function=agent").status_code == 403
    assert client.post("/templates/letter/", {"change": "remove:0"}).status_code == 403
    for do in ("off", "take"):
        assert client.post("/templates/letter/do", {"do": do}).status_code == 403
    assert client.post("/templates/steps/letter-send/do").status_code == 403
    assert client.post("/templates/steps/letter-send/", {"title": "x"}).status_code == 403
    assert client.get("/templates/letter/do").status_code == 405
    assert not TemplateAccess.objects.exists()
    assert Template.objects.filter(slug="letter").count() == 1
