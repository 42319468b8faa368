"""A library that is not installed is named with the line that installs it, where it is first
needed.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from project import settings as given
from runs import checks
from runs.agents.model import ModelEndpoint
from runs.git.forges import proposing
from runs.git.forges.places import ForgeRepository
from runs.workflows.base import StepFailed
from runs.workflows.code import extras
from tests.worlds.repositories import failure


@pytest.fixture
def without(monkeypatch):
    """Makes modules as if they were not installed."""

    def take(*names):
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)

    return take


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_forge_without_its_client_says_what_to_install(without, kind):
    without("github", "gitlab")
    place = ForgeRepository(
        kind=kind, url="https://git.example.org", project="ada/engine", token="x", seconds=1
    )
    failed = failure(proposing.connect, place)
    assert (failed.code, f"library {kind}, " in str(failed)) == ("not_installed", True)
    assert "pip install -r requirements-forges.txt" in str(failed)


def test_models_that_nobody_here_can_ask_are_named_once(without):
    without("openai", "anthropic")
    steps: list[dict[str, Any]] = [
        {"function": "agent", "config": {"model": "openai:a"}},
        {"function": "agent", "config": {"model": "openai:b"}},
        {"function": "agent", "config": {}},
        {
            "function": "coding.plan",
            "config": {"executor": {"name": "agent", "model": "anthropic:c"}},
        },
        {
            "function": "flow.sub_steps",
            "config": {},
            "sub_steps": [{"function": "agent", "config": {"model": "scripted"}}],
        },
    ]
    words = extras.warnings_of(steps, default="scripted")
    assert [("openai" in word, "anthropic" in word) for word in words] == [
        (False, True),
        (True, False),
    ]
    assert extras.warnings_of(steps[2:3], default="anthropic:d") == words[:1]
    assert extras.warnings_of(steps[2:3], default="scripted") == []


def test_what_is_there_is_no_matter():
    assert [extras.missing(kind) for kind in (*extras.NEEDED, "scripted", "")] == [""] * 6
    extras.require("openai")


def test_the_check_names_the_servers_own_model(without, settings):
    assert given.WAYSTATION_MODEL.model == "scripted"
    without("openai")
    settings.WAYSTATION_MODEL = ModelEndpoint(model="openai:gpt-5-mini")
    assert [one.id for one in checks.as_set_up()] == ["runs.W003"]
    with pytest.raises(StepFailed, match=r"requirements-agents\.txt"):
        extras.require("openai")
