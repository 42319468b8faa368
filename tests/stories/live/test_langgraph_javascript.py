"""The door `/langgraph` on the running product, through LangGraph's packages for JavaScript and its
hooks for React, unmodified, from npm (issue 21).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import INSTALLED
from tests.servers.stack import SlowStack, standing_alone
from tests.stories.live.langgraph_loads import LOADS
from tests.stories.live.node_programs import PATH, came

pytestmark = [pytest.mark.stack, pytest.mark.one_database]

HOOK = "langgraph_hook.mjs"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    if (
        shutil.which("node", path=PATH) is None
        or not (INSTALLED / "node_modules" / "@langchain" / "react").exists()
    ):
        pytest.skip("LangGraph's packages could not be installed: see .venv/node/why-not.txt")
    with standing_alone(tmp_path_factory.mktemp("langgraph"), LOADS) as stack:
        yield stack


def test_the_package_starts_answers_and_reads_over_every_wire(server: SlowStack, tmp_path: Path):
    told = came(tmp_path, server, "langgraph_sdk.mjs")
    assert told["runs"] == {
        "followed": ["begun", "run_done"] * 2,
        "question": "Which city?",
        "said": "Rome it is.",
        "runs": ["success", "success"],
        "found": [True],
        "steps": True,
    }
    assert told["store"] == {
        "name": "Rome",
        "dated": True,
        "found": ["city"],
        "namespaces": [["javascript"]],
        "left": None,
    }
    by_events = {
        "question": "Which city?",
        "said": "Oslo it is.",
        "once": True,
        "late": "no_such_interrupt",
        "tree": "completed",
    }
    assert (told["sse"], told["websocket"]) == (by_events, by_events)


@pytest.mark.parametrize("package", ["@langchain/react", "@langchain/langgraph-sdk/react"])
def test_a_page_of_react_asks_is_answered_and_reads_the_end(server, tmp_path, package):
    """The hook of the event protocol, and the one before it."""
    assert came(tmp_path, server, HOOK, package, "slow-talk", "Rome it is") == {
        "question": "Which city?",
        "said": ["Hello", "Rome", "Rome it is."],
        "error": None,
        "wasLoading": True,
        "known": True,
        "asks": False,
    }


def test_a_page_of_react_shows_once_what_an_agent_says_as_it_comes(server, tmp_path):
    """What was streamed is what stands in the state: by its id; and what four tools said."""
    told = came(tmp_path, server, HOOK, "@langchain/react", "slow-chat", "Based on my research")
    assert (told["known"], told["error"], len(told["said"])) == (True, None, 6 + 4)
