"""What can be seen in the source is said when a module is loaded, with file and line, and not when
a run comes to it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from runs.definitions import loading, shipped
from runs.workflows import Done, Go, registry, step, use
from runs.workflows.declare.workflows import WorkflowInvalid

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


@pytest.mark.django_db
def test_a_step_that_is_misspelt_in_the_code_is_refused_with_its_line(flows):
    """Before, the run failed when it came there."""
    flows("early_misspelt", to="acct")
    words = r'leads to the step "acct" \(early_misspelt, line 6\)\. .*Did you mean act\?'
    with pytest.raises(shipped.TemplatesRefused, match=words):
        shipped.load()


@pytest.mark.django_db
@pytest.mark.parametrize(("call", "old"), [("Ask", "actions"), ("Outside", "ways")])
def test_a_keyword_of_before_is_refused_with_its_line_and_todays_name(flows, call, old):
    """Before, the first run that came there failed by a TypeError."""
    path = flows(f"early_{old}")
    asked = f'return {call}(question="Well?", {old}={{"approve": "act"}})'
    path.write_text(path.read_text().replace('return Go(to="act")', asked))
    words = rf"{call}'s '{old}' is called 'answers' now \(early_{old}, line 6\)"
    with pytest.raises(shipped.TemplatesRefused, match=words):
        shipped.load()


@pytest.mark.django_db
def test_a_step_of_another_workflow_that_uses_the_function_is_let_by(flows):
    flows("early_elsewhere", to="notify_finance")
    assert [one.slug for one in shipped.load()] == [
        "early_elsewhere-bound",
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
