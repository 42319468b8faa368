"""What a kind of step says of itself: the core has no case for any of them."""

import ast
from pathlib import Path

import pytest

from runs.engine import imported
from runs.models import Definition
from runs.workflows import owned, registry
from runs.workflows.base import Done
from runs.workflows.owned import Keeps

pytestmark = pytest.mark.one_database
ROOT = Path(__file__).parents[3]
KINDS = ("runs/workflows", "runs/agents")
"""Where kinds of steps are written."""


@pytest.fixture
def counter(monkeypatch):
    """A kind of step of somebody's that keeps something for itself."""
    for name, known in (("_STEPS", registry._STEPS), ("_TRAITS", registry._TRAITS)):
        monkeypatch.setattr(registry, name, {**known})
    monkeypatch.setattr(owned, "_KEPT", {**owned.kept()})
    keeps = {"place": Keeps(reducer="merge"), "asked": Keeps(answered=True, imported=True)}

    @registry.step("traits.counter", keeps=keeps)
    def count(state, context):
        return Done(update={})

    return keeps


def test_what_a_step_keeps_for_itself_is_treated_as_it_declares(counter):
    """Before, the engine's models and the list of reserved names knew the keys of the agent's and
    the graph's steps, and another step could have no key of its own.
    """
    assert owned.named({"place": 1, "asked": 1, "free": 1}) == ["place"]
    assert Definition(content={"steps": []}).reducers["place"] == "merge"
    assert imported.cleaned({"place": 1, "asked": 1, "free": 1}).keys() >= {"asked", "free"}
    assert "place" not in imported.cleaned({"place": 1})


@pytest.mark.parametrize("key", ["decided", "approved", "place"])
def test_a_key_that_is_somebody_elses_is_refused(counter, key):
    with pytest.raises(ValueError, match=f"the state key '{key}' is kept by somebody else"):
        owned.declare({key: Keeps(per_turn=True)})


def test_the_steps_of_every_server_keep_what_they_kept():
    others = ("test", "graph_")  # of the tests' own steps, and of an extension's
    kept = {key: keeps for key, keeps in owned.kept().items() if not key.startswith(others)}
    assert kept == {
        "agent": Keeps(remembered=True, imported=True),
        "agent_turns": Keeps(per_turn=True),
    }


def test_the_core_asks_for_no_kind_of_step_by_name():
    """Before, the chat's page, the invariants and the list of tools compared a step's function with
    "agent", and rights with a list of those that deliver. Ask for what the step declares instead:
    `runs.workflows.registry.traits_of`.
    """
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for app in ("runs", "hitl", "checkpoints", "project")
        for path in (ROOT / app).rglob("*.py")
        if not path.relative_to(ROOT).as_posix().startswith(KINDS)
        if '["function"]' in (source := path.read_text())  # to parse all takes a second
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare) and _names_a_step(node)
    ]
    assert found == []


def _names_a_step(node):
    """Whether a step's function is compared with a name, or looked for in some."""
    sides = [node.left, *node.comparators]
    function = any(
        isinstance(side, ast.Subscript)
        and isinstance(side.slice, ast.Constant)
        and side.slice.value == "function"
        for side in sides
    )
    return function and any(map(_is_constant, sides))


def _is_constant(side):
    if isinstance(side, ast.Name | ast.Attribute):
        return (side.id if isinstance(side, ast.Name) else side.attr).isupper()
    return isinstance(side, ast.Constant | ast.Tuple | ast.Set | ast.List)


def test_a_comparison_with_a_step_by_name_is_seen():
    for text in (
        'step["function"] == "agent"',
        'step["function"] in a.KINDS',
        'X != s["function"]',
    ):
        assert _names_a_step(ast.parse(text, mode="eval").body), text
    assert not _names_a_step(ast.parse('kind.function != fields["function"]', mode="eval").body)
