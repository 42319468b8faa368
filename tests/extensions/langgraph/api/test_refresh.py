"""*Refresh* of Agent Chat UI: an answer once more, from the checkpoint before the one that first
had it, as the hook of LangGraph's package finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from checkpoints.models import Thread
from runs.models import Run
from tests.databases.whole import file_database as file_database
from tests.doors.langgraph import sent
from tests.worlds import agents
from tests.worlds.agents import thread as thread

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
]
WORDS = "calculate 6 * 7"


@pytest.fixture
def asks(ana):
    return partial(sent, ana)


def begun(asks, thread: Thread, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages after a run of the chat."""
    asks("POST", f"/threads/{thread.pk}/runs", {"assistant_id": "chat-agent", **body})
    assert agents.go_on(Run.objects.filter(thread=thread).latest("id")).status == "completed"
    messages: list[dict[str, Any]] = asks("GET", f"/threads/{thread.pk}/state")["values"][
        "messages"
    ]
    return messages


def before(history: Sequence[Mapping[str, Any]], message: Mapping[str, Any]) -> Any:
    """The parent checkpoint of the state that first had a message."""
    first = [state for state in history if message["id"] in ids_of(state["values"])][-1]
    return first["parent_checkpoint"]


def ids_of(values: Mapping[str, Any]) -> list[str]:
    return [message["id"] for message in values.get("messages", [])]


@pytest.mark.parametrize("which", [0, 1])
def test_an_answer_is_made_anew_and_the_persons_words_stand_once(asks, thread, which):
    """S0-80: of the first thing that an agent says, before a call, and of the last, after it."""
    said = begun(asks, thread, {"input": {"messages": [{"type": "human", "content": "hello"}]}})
    said = begun(asks, thread, {"input": {"messages": [{"type": "human", "content": WORDS}]}})
    history = asks("POST", f"/threads/{thread.pk}/history", {"limit": 100})
    answers = [message for message in said[2:] if message["type"] == "ai"]
    assert len(answers) == 2
    place = before(history, answers[which])
    again = begun(asks, thread, {"input": None, "checkpoint": place})
    people = [message["content"] for message in again if message["type"] == "human"]
    assert people == ["hello", WORDS]
    assert [message["type"] for message in again] == [message["type"] for message in said]
    assert again[-1]["content"] == said[-1]["content"]
    assert again[-1]["id"] != said[-1]["id"]
