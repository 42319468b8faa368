"""No decision by accident: keys answer where the focus is on the page itself or on a row, say so for
two seconds, and nothing that is typed is an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.databases.copies import PEOPLE, TOKENS
from tests.servers.stack import SlowStack, standing_alone, until
from tests.stories.browser import probing
from tests.stories.browser.devices import PHONE
from tests.stories.conftest import shot

pytestmark = pytest.mark.stack
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PAPERS = """
from runs import definitions
from django.contrib.auth.models import Group
User.objects.filter(username="ben").update(email="ben@example.org")
definitions.edit_step_template("slow-note", title="Write a note", function="slow.paper", config={"parts": 1})
part = "diff --git a/{0} b/{0}\\n--- a/{0}\\n+++ b/{0}\\n@@ -7,2 +7,2 @@\\n one\\n-return total\\n+return round(total)\\n"
definitions.edit_step_template("slow-patch", title="Change it", function="slow.paper", config={"parts": 1, "patch": part.format("a.py") + part.format("b.py")})
ask = {"step_type": "planning", "step_template_slug": "slow-note", "pause_after": True, "pause_phase": "awaiting_plan_approval"}
tick = {"step_type": "execute", "step_template_slug": "slow-tick"}
text = {"type": "string"}
asked = {"type": "object", "required": ["surname"], "properties": {
    "surname": text, "born": {**text, "format": "date"}, "many": {"type": "integer"}, "sure": {"type": "boolean"},
    "colour": {**text, "enum": ["red", "green", "blue", "black", "white", "pink"]}, "about": {**text, "maxLength": 5000}}}
later = [{"name": "later", "label": "Ask me next week", "to": "execute"}]
stage = {"reviewers": {"users": ["ana", "ben"]}}
for slug, more in {
    "edited": {"review": {"edits": True}},
    "later": {"choices": later, "review": {"reason_required": ["later"]}},
    "reasons": {"choices": later, "review": {"reason_required": ["later", "approve"]}},
    "data": {"required_inputs": asked},
    "data-ways": {"required_inputs": asked, "choices": later},
    "patch": {"step_template_slug": "slow-patch"},
    "stages": {"review": {"stages": [{**stage, "name": "legal"}, {**stage, "name": "money"}]}},
    "high": {"review": {"risk": "high", "quorum": 2, "deadline": {"after": "P2D", "outcome": "expire"}, "reason_required": ["cancel"]}},
    "mailed": {"required_inputs": asked, "review": {"risk": "low", "link_answers": True, "reviewers": {"users": ["ben"]}}},
    "outside": {"required_inputs": asked, "review": {"external": ["supplier@example.com"]}},
}.items():
    definitions.edit_template(f"keys-{slug}", title=slug.capitalize(), steps=[{**ask, **more}, tick], needs_repository=False)
definitions.edit_step_template("slow-calls", title="Calls", function="slow.calls", config={})
definitions.edit_template("keys-calls", title="Calls", steps=[{"step_type": "execute", "step_template_slug": "slow-calls"}], needs_repository=False)
"""
KINDS: dict[str, dict[str, str]] = {
    "edited": {"wish": "revise", "edited_content": "approve"},
    "later": {"wish": "revise", "feedback": "later"},
    "reasons": {"wish": "revise"},
    "data": {"wish": "revise", "input.": "approve"},
    "data-ways": {"wish": "revise"},
    "patch": {"wish": "revise"},
    "stages": {"wish": "revise"},
    "high": {"wish": "revise"},
    "calls": {},
    "chat": {"wish": "revise"},
}
"""The kinds of cards, and which fields of each belong to which answer, for Ctrl+Enter."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    with standing_alone(tmp_path_factory.mktemp("keys"), PEOPLE + PAPERS) as stack:
        yield stack


@pytest.fixture
def stack(alone: SlowStack) -> SlowStack:
    """So that `open_page` is of this stack."""
    return alone


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(alone: SlowStack) -> Ask:
    """Asks a question of a kind; gives its pause and the path of its page."""

    def make(kind: str = "edited") -> dict[str, Any]:
        token = TOKENS["ana"]
        if kind == "chat":
            return chat(alone)
        order = {"template": f"keys-{kind}", "team": "platform"}
        status, order = alone.call("POST", "/api/v1/work-orders", order, token=token)
        assert status == 201, order
        phase = "awaiting_tool_approval" if kind == "calls" else "awaiting_plan_approval"
        found = alone.paused(order["id"], token, phase)
        return {"order": order["id"], "path": f"/work-orders/{order['id']}/", **found}

    return make


def chat(stack: SlowStack) -> dict[str, Any]:
    token = TOKENS["ana"]
    status, thread = stack.call("POST", "/api/v1/threads", {}, token=token)
    assert status == 201, thread
    begun = stack.call(
        "POST", f"/api/v1/threads/{thread['id']}/runs",
        {"template": "slow-chat", "input": "Trends?"}, token=token,
    )  # fmt: skip
    assert begun[0] in (200, 201, 202), begun
    questions = until(
        lambda: [
            one
            for one in stack.call("GET", "/api/v1/pauses?open=1", token=token)[1]["results"]
            if one["thread_id"] == thread["id"]
        ],
        what="the question of the chat",
    )
    return {"id": questions[0]["id"], "path": f"/threads/{thread['id']}/"}


def decided(stack: SlowStack, asked: dict[str, Any]) -> str:
    """How the question was answered; "" while it is open."""
    status, found = stack.call("GET", f"/api/v1/pauses/{asked['id']}", token=TOKENS["ana"])
    assert status == 200
    return str(found["user_decision"]) if found["state"] != "open" else ""


@pytest.mark.parametrize("kind", KINDS)
def test_no_key_at_no_place_of_a_card_answers_but_the_control_that_says_so(open_page, ask, kind):
    """Before: with the focus on a summary or a button, `a` approved; Ctrl+Enter in a field that
    belongs to another answer, too.
    """
    asked = ask(kind)
    page = open_page("ana", "/", cut=True, **DESKTOP)
    watch = probing.Watch(page)
    keys = probing.keys_of(page)
    assert {"a", "r", "x", "n", "?", "Control+Enter", "Escape", "g i"} <= set(keys)
    pressed = probing.press_all(watch, asked["path"], "main", keys, goes_with=KINDS[kind])
    if kind in ("edited", "high"):
        probing.press_all(watch, asked["path"], "dialog", keys, goes_with={})
    assert pressed > 300, pressed
    assert probing.type_into_all(watch, asked["path"], "main") >= 1
    assert probing.open_and_type(watch, asked["path"]) >= 1
    watch.nothing_comes()
