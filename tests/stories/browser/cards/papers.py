"""Orders that ask about a paper, a patch, a table or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.databases.copies import TOKENS
from tests.servers.stack import SlowStack
from tests.stories.browser.devices import PHONE as PHONE

DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PAPERS = """
from runs import definitions
from django.contrib.auth.models import Group, User
kim = User.objects.create(username="kim", first_name="Kim", password=User.objects.get(username="ben").password)
kim.groups.add(Group.objects.get(name="platform"))
definitions.edit_step_template("slow-paper", title="Write the plan", function="slow.paper", config={})
definitions.edit_step_template("slow-note", title="Write a note", function="slow.paper", config={"parts": 1})
part = "diff --git a/{0} b/{0}\\n--- a/{0}\\n+++ b/{0}\\n@@ -7,2 +7,2 @@\\n one\\n-return total\\n+return round(total)\\n"
long = "diff --git a/c.py b/c.py\\n--- a/c.py\\n+++ b/c.py\\n@@ -0,0 +1,900 @@\\n" + "+x = 1\\n" * 900
definitions.edit_step_template("slow-patch", title="Change it", function="slow.paper", config={"parts": 1, "patch": part.format("a.py") + part.format("b.py") + long})
ask = {"step_type": "planning", "step_template_slug": "slow-paper", "pause_after": True, "pause_phase": "awaiting_plan_approval"}
tick = {"step_type": "execute", "step_template_slug": "slow-tick"}
text = {"type": "string"}
asked = {"type": "object", "required": ["surname", "iban"],
         "properties": {"surname": text, "iban": {**text, "pattern": "^DE[0-9]{20}$"}, "born": text}}
line = {"type": "object", "required": ["item", "kind"], "properties": {
    "item": {**text, "title": "Item", "minLength": 2}, "kind": {"enum": ["goods", "service"], "title": "Kind"}}}
from runs.workflows import attachments
table = {"type": "object", "required": ["lines", "scan", "level"], "properties": {
    "lines": {"type": "array", "title": "Line items", "minItems": 1, "items": line},
    "scan": attachments.schema_of("Scan", path=False), "level": {"enum": ["low", "medium", "word" * 50], "title": "Level"}}}
choice = [{"name": "skip", "label": "Go ahead at once", "to": "execute"}]
for slug, more in {
    "paper": {"review": {"edits": True}},
    "paper-high": {"review": {"risk": "high", "edits": True}},
    "paper-data": {"required_inputs": asked},
    "paper-table": {"required_inputs": table},
    "paper-note": {"step_template_slug": "slow-note"},
    "paper-patch": {"step_template_slug": "slow-patch"},
    "paper-reason": {"review": {"reason_required": ["approve"]}},
}.items():
    definitions.edit_template(slug, title=slug.capitalize(), steps=[{**ask, **more}, tick], needs_repository=False)
definitions.edit_step_template("slow-calls", title="Calls", function="slow.calls", config={"risk": "high"})
definitions.edit_template("paper-calls", title="Calls", steps=[{"step_type": "execute", "step_template_slug": "slow-calls"}], needs_repository=False)
"""
BOX = """e => {
  const { top, bottom, left, right } = e.getBoundingClientRect();
  return { top, bottom, left, right, height: innerHeight };
}"""


@pytest.fixture(scope="module")
def alone(papers: SlowStack) -> Iterator[SlowStack]:
    """Shared by all files that ask about them."""
    with papers.awake():
        yield papers


@pytest.fixture
def stack(alone: SlowStack) -> SlowStack:
    """So that `open_page` is of this stack."""
    return alone


@pytest.fixture
def ask(alone: SlowStack) -> Callable[..., dict[str, Any]]:
    """Makes an order that asks, and gives its pause."""

    def make(template: str = "paper", title: str = "") -> dict[str, Any]:
        body = {"template": template, "team": "platform", **({"title": title} if title else {})}
        status, order = alone.call("POST", "/api/v1/work-orders", body, token=TOKENS["ana"])
        assert status == 201, order
        phase = "tool" if template == "paper-calls" else "plan"
        found = alone.paused(order["id"], TOKENS["ana"], f"awaiting_{phase}_approval")
        return {"order": order["id"], "path": f"/work-orders/{order['id']}/", **found}

    return make


def decided(stack: SlowStack, asked: dict[str, Any]) -> dict[str, Any]:
    """The question once it was decided; {} before."""
    status, found = stack.call("GET", f"/api/v1/pauses/{asked['id']}", token=TOKENS["ana"])
    assert status == 200
    return dict(found) if found["state"] != "open" else {}
