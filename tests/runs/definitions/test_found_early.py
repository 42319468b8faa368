"""What can be seen in the source is said when a module is loaded, with file and line, and not when
a run comes to it.
"""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from runs.definitions import loading, shipped
from runs.models import Template
from runs.workflows import Done, Go, registry, step, use
from runs.workflows.declare import WorkflowInvalid

pytestmark = pytest.mark.one_database
FLOWS = """
from runs.workflows import Done, Go, step, use, workflow

@step("{name}.look")
def look(state, context):
    return Go(to="{to}")

@step("{name}.act")
def act(state, context):
    return Done()

workflow("{name}-unbound", title="Unbound", steps=[look, act])
bound = workflow("{name}-bound", title="Bound", steps=[look, act])

def make():
    return workflow("{name}-made", title="Made", steps=[look, act])

make()
"""


@pytest.fixture
def flows(tmp_path, monkeypatch, settings):
    """`flows("name", to="act")`: a folder with such a module, which the setting names; what it
    registers is gone afterwards.
    """
    for name in ("_STEPS", "_TRAITS", "_LATEST"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(name: str, *, to: str = "act") -> Path:
        path: Path = tmp_path / f"{name}.py"
        path.write_text(FLOWS.format(name=name, to=to))
        settings.WAYSTATION_WORKFLOWS = [str(tmp_path)]
        return path

    return write


def test_a_workflow_without_a_name_is_loaded_and_one_of_a_function_is_its_callers(flows):
    """Before, it was left out without a word."""
    flows("early_unbound")
    _, found = loading.declared(loading.modules())
    assert sorted(one.slug for one in found) == ["early_unbound-bound", "early_unbound-unbound"]


def test_what_is_not_loaded_is_said_with_its_line(flows, caplog, settings):
    path = flows("early_unsaid")
    settings.WAYSTATION_WORKFLOWS = [str(path.parent), "runs.workflows.text"]
    made, empty = loading.left_out()
    words = "the workflow 'early_unsaid-made' was made by a function, and no name of the module"
    assert made.startswith(f"{path}, line 16: {words}")
    assert empty.endswith("text.py declares no workflow.")


def test_workflows_of_a_list_are_at_the_top_level_of_its_module(flows):
    """Python 3.11 makes a function of it, whose workflows were left out without a word."""
    path = flows("early_listed")
    path.write_text(
        path.read_text()
        + """
for made in [workflow(f"early_listed-{n}", title="One", steps=[look, act]) for n in range(2)]:
    pass
del made
"""
    )
    _, found = loading.declared(loading.modules())
    assert {"early_listed-0", "early_listed-1"} <= {one.slug for one in found}


@pytest.mark.django_db
def test_load_templates_and_the_start_say_what_was_loaded_and_what_not(flows, caplog):
    flows("early_both")
    out = StringIO()
    call_command("load_templates", stdout=out)
    assert "early_both-bound v1\n" in out.getvalue()
    assert "Not loaded: " in out.getvalue()
    assert "'early_both-made'" in out.getvalue()
    with caplog.at_level("INFO", logger="runs.definitions.shipped"):
        shipped.load_or_say()
    assert "Loaded workflows: " in caplog.text
    assert "early_both-bound v1" in caplog.text
    assert "'early_both-made' was made by a function" in caplog.text


@pytest.mark.django_db
def test_a_step_that_is_misspelt_in_the_code_is_refused_with_its_line(flows):
    """Before, the run failed when it came there."""
    flows("early_misspelt", to="acct")
    words = r'leads to the step "acct" \(\S+early_misspelt\.py, line 6\)\. .*Did you mean act\?'
    with pytest.raises(shipped.TemplatesRefused, match=words):
        shipped.load()


@pytest.mark.django_db
@pytest.mark.parametrize(("call", "old"), [("Ask", "actions"), ("Outside", "ways")])
def test_a_keyword_of_before_is_refused_with_its_line_and_todays_name(flows, call, old):
    """Before, the first run that came there failed by a TypeError."""
    path = flows(f"early_{old}")
    asked = f'return {call}(question="Well?", {old}={{"approve": "act"}})'
    path.write_text(path.read_text().replace('return Go(to="act")', asked))
    words = rf"{call}'s '{old}' is called 'answers' now \(\S+early_{old}\.py, line 6\)"
    with pytest.raises(shipped.TemplatesRefused, match=words):
        shipped.load()


@pytest.mark.django_db
def test_a_step_that_no_workflow_has_is_refused_though_no_name_is_like_it(flows):
    """Before, the run failed when it came there. Other workflows of the module are loaded."""
    path = flows("early_nowhere", to="notify_finance")
    path.write_text(
        path.read_text()
        + """
other = workflow("early_nowhere-other", title="Other", steps=[act])
"""
    )
    words = (
        r"early_nowhere\.py, line 12: early_nowhere-unbound, the code of look leads to the step "
        r'"notify_finance" \(\S+early_nowhere\.py, line 6\)\. There is no step "notify_finance"\. '
        r"There are look, act\."
    )
    with pytest.raises(shipped.TemplatesRefused, match=words):
        shipped.load()
    saved = Template.objects.filter(slug__startswith="early_nowhere")
    assert [one.slug for one in saved] == ["early_nowhere-other"]


@pytest.mark.django_db
def test_a_step_of_another_workflow_that_uses_the_function_is_let_by(flows):
    path = flows("early_elsewhere", to="notify_finance")
    path.write_text(
        path.read_text()
        + """
other = workflow(
    "early_elsewhere-other", title="Other", steps=[look, use(act, name="notify_finance")]
)
"""
    )
    assert sorted(one.slug for one in shipped.load()) == [
        "early_elsewhere-bound",
        "early_elsewhere-other",
        "early_elsewhere-unbound",
    ]


@step("early.look")
def look(state, context):
    return Go()


@step("early.end")
def end(state, context):
    return Done()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retry": {"attemps": 3}}, 'retry: There is no key "attemps". Did you mean attempts?'),
        ({"retry": {"base": 3}}, "retry: 'attempts' is missing."),
        ({"retry": 3}, "retry: 3 is no object."),
        (
            {"choices": [{"name": "skip", "lable": "Skip", "to": "end"}]},
            'choices: There is no key "lable". Did you mean label?',
        ),
        ({"choices": [{"name": "skip", "label": "Skip"}]}, "choices: 'to' is missing."),
    ],
)
def test_a_misspelt_rule_is_refused_at_its_line(options, words):
    """Before, the import took it, and nothing was tried again."""
    with pytest.raises(WorkflowInvalid) as refused:
        use(look, **options)
    assert words in str(refused.value)
    assert refused.value.place.startswith(f"{__file__}, line ")


def test_the_module_is_named_that_cannot_be_imported(flows):
    path = flows("early_wrong")
    path.write_text(path.read_text().replace("steps=[look, act])", "steps=[])", 1))
    with pytest.raises(ImproperlyConfigured, match=r"early_wrong\.py, line 12: .*no steps"):
        loading.modules()
