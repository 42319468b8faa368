"""Agents for tests: tools whose calls are counted, templates, and a hand that drives a thread as a
worker would.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from checkpoints import store
from checkpoints.models import Event, EventKind, Thread
from extensions.chat import templates as chat
from runs import definitions
from runs.agents.approval import ApprovalRule
from runs.agents.tools import ToolFailed, ToolUse, tool
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.threads import turns
from runs.threads.turns import Turn
from tests.servers.model_endpoint import Endpoint, ModelReply, by_loop, serving

MADE: Counter[str] = Counter()
"""Call's key → how often it was made in this process."""
HOOKS: dict[str, Any] = {}
"""Tool → a function called while it works."""
FINE = ModelReply("All is well.")
ANY = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}


def _made(name: str, arguments: Mapping[str, Any], use: ToolUse) -> Any:
    MADE[use.key] += 1
    if hook := HOOKS.get(name):
        hook()
    return {"made": name, **arguments}


@tool("test_look", description="Look something up.", parameters=ANY, risk="low")
def look(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    return _made("look", arguments, use)


@tool("test_search", description="Search.", parameters=ANY, risk="low")
def search(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    return _made("search", arguments, use)


@tool(
    "test_pay",
    description="Pay.",
    parameters=ANY,
    approval=[ApprovalRule(ask=True, why="Money leaves.")],
    editable=["/what"],
)
def pay(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    return _made("pay", arguments, use)


@tool("test_broken", description="Never works.", parameters=ANY, risk="low")
def broken(arguments: Mapping[str, Any], use: ToolUse) -> Any:
    raise ToolFailed("The shop is closed.")


TOOLS = ["test_look", "test_search", "test_pay", "test_broken", "ask_human"]


def load(
    base_url: str, *, slug: str = "agent-test", retry: dict[str, Any] | None = None, **config: Any
) -> None:
    """A template of one agent at that endpoint."""
    MADE.clear()
    HOOKS.clear()
    settled = {"model": "openai:test", "base_url": base_url, "tools": TOOLS, **config}
    definitions.edit_step_template(slug, title="Agent", function="agent", config=settled)
    tried = {} if retry is None else {"retry": retry}
    steps = [{"step_type": "agent", "name": "agent", "step_template_slug": slug, **tried}]
    definitions.edit_template(
        slug,
        title="Agent",
        needs_repository=False,
        steps=steps,
        reducers={"messages": "upsert_by_id"},
    )


@pytest.fixture
def thread(ana: User, team: Group) -> Thread:
    return turns.open_thread(by=ana, team=team)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A model that says that all is well, until its `script` says otherwise; the template's agent
    tries again as the shipped one.
    """
    with serving(by_loop(FINE)) as found:
        load(found.url, retry=chat.RETRY)
        yield found


def say(thread: Thread, text: str, *, by: Any, slug: str = "agent-test") -> Run:
    """A turn, taken as far as it goes."""
    return go_on(turns.invoke(thread.pk, Turn(template=slug, input={"input": text}), by=by))


def go_on(run: Run) -> Run:
    while advance(run.pk, budget=60):
        pass
    return Run.objects.get(pk=run.pk)


def asked(run: Run) -> Pause:
    return Pause.objects.open().shown().get(run=run)


def mind(thread_id: uuid.UUID) -> dict[str, Any]:
    """What the thread's agent knows at its head."""
    head = Thread.objects.get(pk=thread_id).head
    assert head is not None
    found: dict[str, Any] = store.load(head)["agent"]["agent"]
    return found


def told(thread: Thread) -> list[str]:
    """The kinds of what a client is shown, without lines of the log and steps."""
    kinds = Event.objects.filter(thread=thread).order_by("seq").values_list("kind", flat=True)
    quiet = {
        EventKind.LOG,
        EventKind.STEP_STARTED,
        EventKind.STEP_COMPLETED,
        EventKind.RUN_RESUMED,
        EventKind.RUN_STARTED,
    }
    found: list[str] = []
    for kind in kinds:
        if kind not in quiet and not (kind == EventKind.STREAMING_CHUNK and found[-1:] == [kind]):
            found.append(str(kind))
    return found


def events(thread: Thread, kind: str) -> list[dict[str, Any]]:
    return list(
        Event.objects.filter(thread=thread, kind=kind)
        .order_by("seq")
        .values_list("data", flat=True)
    )
