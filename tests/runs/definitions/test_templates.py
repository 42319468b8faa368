"""Templates as rows: an edit makes a version, an order freezes one, and what makes no sense is
refused with its place.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs import definitions
from runs import services as runs
from runs.definitions import TemplateInvalid, TemplateNotFound, shipped
from runs.models import Definition, StepTemplate, Template
from tests.checkpoints.state.random_states import values
from tests.databases.whole import rows
from tests.runs.workflows.deep_schemas import doubling

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("templates"),
]
ONE = pytest.mark.one_database
PLAN = {"step_type": "planning", "step_template_slug": "test-plan"}
WORK = {"step_type": "execute", "step_template_slug": "test-work"}


def test_the_first_save_is_version_one_and_each_change_the_next(ana):
    """S4-9."""
    versions = [
        definitions.edit_template("new", by=ana, steps=steps).version
        for steps in ([PLAN], [PLAN, WORK], [PLAN])
    ]
    assert versions == [1, 2, 3]
    current = definitions.current("new")
    assert (current.version, current.steps, current.created_by) == (3, [PLAN], ana)


def test_the_same_content_is_no_new_version(ana):
    first = definitions.edit_template("new", steps=[PLAN], title="One")
    assert definitions.edit_template("new", by=ana, steps=[PLAN], title="One") == first
    assert definitions.edit_template("new", by=ana) == first


def test_what_an_edit_leaves_out_stays():
    definitions.edit_template(
        "new", steps=[PLAN], title="One", input_schema={"type": "object"}, needs_repository=False
    )
    edited = definitions.edit_template("new", title="Two")
    assert (edited.title, edited.steps, edited.input_schema, edited.needs_repository) == (
        "Two",
        [PLAN],
        {"type": "object"},
        False,
    )


def test_the_list_of_templates_holds_the_newest_of_each():
    definitions.edit_template("writing", title="Newer")
    assert Template.objects.current().get(slug="writing").version == 2
    assert Template.objects.current().count() == Template.objects.values("slug").distinct().count()


def test_a_template_that_is_not_there_is_named():
    with pytest.raises(TemplateNotFound, match="no template 'nothing'"):
        definitions.current("nothing")


def test_shipped_templates_are_loaded_once_and_a_persons_edit_stays(ana):
    """S4-12."""
    definitions.edit_template("repo-tidy-quick", by=ana, title="Ours")
    before = rows()
    shipped.load()
    assert rows() == before


def test_a_frozen_definition_holds_everything_and_is_shared(ana):
    """P10."""
    one, other = runs.submit("writing", by=ana), runs.submit("writing", by=ana)
    assert one.definition_id == other.definition_id
    step = one.definition.steps[0]
    assert (step["name"], step["function"], step["pause_after"], step["revise_to"]) == (
        "planning",
        "test.plan",
        True,
        "planning",
    )


def test_a_new_version_of_a_step_makes_another_definition_and_leaves_the_old(ana):
    """P10."""
    before = runs.submit("writing", by=ana)
    definitions.edit_step_template("test-plan", title="Plan", function="test.work", config={"x": 1})
    after = runs.submit("writing", by=ana)
    assert before.definition_id != after.definition_id
    assert Definition.objects.get(pk=before.definition_id).steps[0]["function"] == "test.plan"
    assert StepTemplate.objects.filter(slug="test-plan").count() == 2


def test_a_step_function_that_does_not_exist_is_refused():
    with pytest.raises(TemplateInvalid, match=r"no step function 'test\.nothing'"):
        definitions.edit_step_template("new", title="New", function="test.nothing", config={})


@ONE
@pytest.mark.parametrize(
    ("steps", "place", "words"),
    [
        ([], "steps", "between 1 and 50"),
        ([PLAN] * 51, "steps", "between 1 and 50"),
        ("planning", "steps", "between 1 and 50"),
        (["planning"], "steps", "each an object"),
        ([{}], "steps.0.step_template_slug", 'no step template ""'),
        ([PLAN, {**WORK, "step_template_slug": "x"}], "steps.1.step_template_slug",
        'no step template "x"'),
        ([PLAN, PLAN], "steps.1.name", "name of its own"),
        ([{**PLAN, "name": "x" * 101}], "steps.0.name", "too long"),
        ([{**PLAN, "max_revisions": 11}], "steps.0.max_revisions", "Between 0 and 10"),
        ([{**PLAN, "max_revisions": -1}], "steps.0.max_revisions", "Between 0 and 10"),
        ([{**PLAN, "max_revisions": "3"}], "steps.0.max_revisions", "Between 0 and 10"),
        ([{**PLAN, "pause_after": 1}], "steps.0.pause_after", "true or false"),
        ([{**PLAN, "revise_to": "nowhere"}], "steps.0.revise_to", 'leads to "nowhere"'),
        ([{**PLAN, "choices": [{"name": "a", "label": "A", "to": "nowhere"}]}],
        "steps.0.choices.0.to", 'leads to "nowhere"'),
        ([{**PLAN, "choices": [{"name": "cancel", "label": "A", "to": "planning"}]}],
        "steps.0.choices", "answers already"),
        ([{**PLAN, "choices": [{"name": "a"}]}], "steps.0.choices", "name"),
        ([{**PLAN, "choices": {"name": "a"}}], "steps.0.choices", "list of objects"),
    ],
)  # fmt: skip
def test_steps_that_make_no_sense_are_refused_with_their_place(steps, place, words):
    before = rows()
    with pytest.raises(TemplateInvalid, match=words) as refused:
        definitions.edit_template("writing", steps=steps)
    assert list(refused.value.errors) == [place]
    assert rows() == before


@ONE
def test_a_hostile_schema_is_refused_when_the_template_is_saved():
    """Wherever a template may hold one; nothing is saved, so that no question can bring it to a
    person.
    """
    before = rows()
    schema = {"type": "object", **doubling(12)}
    for place, saved in (
        ("input_schema", {"input_schema": schema}),
        ("steps.0.required_inputs", {"steps": [{**PLAN, "required_inputs": schema}]}),
    ):
        with pytest.raises(TemplateInvalid) as refused:
            definitions.edit_template("writing", **saved)
        assert list(refused.value.errors) == [place]
    assert rows() == before


def test_a_schema_may_refer_to_its_own_parts(ana):
    schema = {
        "$defs": {"rule": {"type": "string", "pattern": "^[A-Z]"}},
        "properties": {"rule": {"$ref": "#/$defs/rule"}},
    }
    definitions.edit_template("writing", input_schema=schema)
    runs.submit("writing", by=ana, input={"rule": "F401"})
    with pytest.raises(runs.InputInvalid, match=r'rule: "f401" isn.t a valid rule') as refused:
        runs.submit("writing", by=ana, input={"rule": "f401"})
    assert list(refused.value.errors) == ["rule"]


@ONE
@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "step_type",
                    "pause_after",
                    "pause_phase",
                    "revise_to",
                    "choices",
                    "max_revisions",
                ]
            ),
            values,
        ),
        max_size=3,
    )
)
def test_steps_are_frozen_whole_or_refused(changes):
    """Whatever is in them: what is frozen is complete, and every way leads to one of its steps."""
    try:
        frozen = definitions.freeze_steps([{**PLAN, **change} for change in changes])
    except TemplateInvalid:
        return
    names = {step["name"] for step in frozen}
    assert all(step["function"] == "test.plan" and step["title"] == "Plan" for step in frozen)
    assert all(
        {step["revise_to"], *(choice["to"] for choice in step["choices"])} <= names
        for step in frozen
    )
