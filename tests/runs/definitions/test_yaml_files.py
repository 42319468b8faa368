"""Templates in git: written as YAML, compared, and taken in again (`manage.py templates`)."""

from __future__ import annotations

from io import StringIO

import pytest
import yaml
from django.core.management import CommandError, call_command

from runs import definitions
from runs.definitions import yaml_files
from runs.definitions.errors import TemplateInvalid
from runs.models import StepTemplate, Template

pytestmark = pytest.mark.django_db


def run(*words):
    out = StringIO()
    call_command("templates", *words, stdout=out)
    return out.getvalue()


def versions():
    return {
        (model.__name__, one.slug): one.version
        for model in (StepTemplate, Template)
        for one in model.objects.order_by("version")
    }


def test_what_was_written_and_is_taken_in_again_changes_nothing(templates, tmp_path):
    """Also on a server that has none of it yet, whose templates are the same then."""
    text = run("export")
    assert run("export") == text
    before = versions()
    assert {one.state for one in yaml_files.apply(text)} == {"same"}
    assert versions() == before
    Template.objects.all().delete()
    StepTemplate.objects.all().delete()
    assert {one.state for one in yaml_files.apply(text)} == {"new"}
    assert run("export") == text


def test_one_template_is_written_with_the_step_templates_that_it_names(templates):
    document = yaml.safe_load(run("export", "writing-quick"))
    assert set(document["templates"]) == {"writing-quick"}
    assert set(document["step_templates"]) == {
        "test-plan",
        "test-work",
        "test-check",
        "test-finish",
    }
    with pytest.raises(CommandError, match="no template 'nothing'"):
        run("export", "nothing")


def test_a_changed_file_makes_new_versions_and_what_it_leaves_out_is_as_usual(templates, tmp_path):
    definitions.edit_template("writing-quick", description="By hand.")
    document = yaml.safe_load(run("export", "writing-quick"))
    assert document["templates"]["writing-quick"].pop("description") == "By hand."
    document["step_templates"]["test-plan"]["title"] = "Think"
    file = tmp_path / "templates.yaml"
    file.write_text(yaml.safe_dump(document))
    before = versions()
    with pytest.raises(CommandError, match="Nothing was saved"):
        run("apply", str(file), "--check")
    assert versions() == before
    said = run("apply", str(file))
    assert "step template test-plan: changed, version 2" in said
    assert "template writing-quick: changed, version 3" in said
    assert "test-work: same, version 1" in said
    assert definitions.current("writing-quick").description == ""
    assert "changed" not in run("apply", str(file), "--check")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", "file"),
        ("- a\n- b", "file"),
        ("", "file"),
        ("!!python/object/apply:os.system [ls]", "file"),
        ("a: 1", "a"),
        ("templates: []", "templates"),
        ("templates: {x: {stepps: []}}", "templates.x.stepps"),
        ("templates: {x: {}}", "templates.x.steps"),
        ("templates: {x: {steps: 7}}", "templates.x"),
        ("templates: {x: {steps: [{step_type: nobody}]}}", "templates.x.steps.0"),
        ("step_templates: {x: {function: no.such}}", "step_templates.x.function"),
        ("step_templates: {x: {function: [1]}}", "step_templates.x"),
        ("step_templates: {x: {function: test.plan, config: 3}}", "step_templates.x"),
        (f"# {'x' * 1_000_001}", "file"),
    ],
)
def test_nonsense_is_refused_with_its_place_and_nothing_is_saved(templates, text, place):
    """A wrong template at the end takes the right ones before it back, too."""
    before = versions()
    good = "step_templates: {fine: {function: test.plan}}\n" if text.startswith("templates") else ""
    with pytest.raises(TemplateInvalid) as refusal:
        yaml_files.apply(good + text)
    assert any(key.startswith(place) for key in refusal.value.errors), refusal.value.errors
    assert versions() == before
