"""Questions that hold all that a card can hold, and the pages around them, in the matrix' world."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hitl.decisions import claims, services
from hitl.decisions.services import Answer
from hitl.decisions.talk import comments
from hitl.decisions.talk.comments import PatchLine
from hitl.models import Via
from runs import definitions
from runs.models import Pause
from runs.workflows import attachments
from runs.workflows.base import Done, Go, Report
from runs.workflows.tool_calls import Call
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive, pause_of
from tests.matrix.addresses import ADDRESSES, REST
from tests.matrix.walk import fill
from tests.matrix.world import STATES, World, submit
from tests.worlds import scripted_step
from tests.worlds.large_patch import part_of

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNg+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TEXT = {"type": "string"}
LINE = {
    "type": "object",
    "required": ["item"],
    "properties": {"item": {**TEXT, "title": "Item", "minLength": 2}, "paid": {"type": "boolean"}},
}
FORM = {
    "type": "object",
    "required": ["lines", "scan", "level", "born"],
    "properties": {
        "lines": {"type": "array", "title": "Line items", "minItems": 1, "items": LINE},
        "scan": attachments.schema_of("Scan", path=False),
        "level": {"enum": ["low", "medium", "word" * 50], "title": "Level"},
        "born": {**TEXT, "format": "date", "title": "Born"},
        "sure": {"type": "boolean", "title": "Sure", "description": "As far as one can be."},
        "tags": {"type": "array", "title": "Tags", "items": {"enum": ["red", "green"]}},
    },
}
CALLS = [
    Call(id="one", tool="pay", arguments={"to": "Ada", "sum": 7}, editable=["/sum"], risk="high"),
    Call(id="two", tool="mail", arguments={"to": "Ada"}, preview="To *Ada*.", answerable=True),
]
REPORT = Report(
    content="# The plan\n\n" + "A line of it.\n\n" * 30 + "| a | b |\n|---|---|\n| 1 | 2 |",
    title="Do it?",
    summary="All of it.",
    facts={"Amount": "4 200 EUR"},
    effects=["Pays 4 200 EUR to the supplier."],
)
ASKS = {"pause_after": True, "pause_phase": "awaiting_plan_approval"}
STAGE = {"reviewers": {"users": ["ana", "root"]}}
PATCH = part_of("src/a.py", 40) + part_of("src/deep/b.py", 60)


def _plan(wish: str) -> Go:
    return Go(report=Report(content=f"The plan is {wish}."))


STEPS: dict[str, tuple[Any, Mapping[str, Any]]] = {
    "patch": (lambda *_: Go(report=Report(content="Changed.", patch=PATCH)), ASKS),
    "calls": (lambda state, context: ask_about_calls(state, context, calls=CALLS) or Done(), {}),
    "form": (lambda *_: Go(report=REPORT), {**ASKS, "required_inputs": FORM}),
    "edits": (lambda *_: Go(report=REPORT), {**ASKS, "review": {"edits": True, "risk": "high"}}),
    "stages": (
        lambda *_: Go(report=REPORT),
        {**ASKS, "review": {"stages": [{**STAGE, "name": "legal"}, {**STAGE, "name": "money"}]}},
    ),
    "again": (lambda state, _: _plan(state.get("revision_feedback", "long")), ASKS),
}  # fmt: skip


def ask(world: World, kind: str) -> Pause:
    """An order that waits with a question of a kind."""
    step, rules = STEPS[kind]
    scripted_step.DOES["step"] = step
    definitions.edit_step_template(
        "test-anything", title="Anything", function="test.anything", config={}
    )
    steps = [
        {"step_type": "execute", "step_template_slug": "test-anything", **rules},
        {"step_type": "deliver", "name": "finish", "step_template_slug": "test-finish"},
    ]
    title = f"{kind.capitalize()} of a supplier"
    definitions.edit_template(f"rich-{kind}", steps=steps, title=title, needs_repository=False)
    team = world.people["ana"].groups.get()
    return pause_of(drive(submit(world.people, team, f"rich-{kind}")))


@dataclass(frozen=True)
class Asked:
    """What a browser asks for."""

    path: str
    method: str = "GET"
    body: Mapping[str, Any] = field(default_factory=dict)
    opens: str = ""
    """What is clicked there."""


def of_questions(world: World) -> Iterator[Asked]:
    """The pages of the questions, and those that come where an answer is wrong or grave."""
    ana, ben = world.people["ana"], world.people["ben"]
    asked = {kind: ask(world, kind) for kind in STEPS}
    comments.add(asked["patch"].pk, "Why?", by=ben, about=PatchLine("src/a.py", 2, "new"))
    claims.claim(asked["patch"].pk, by=ben)
    before = asked["again"]
    services.decide(before.pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    order = before.run.work_order
    assert order is not None
    asked["again"] = pause_of(drive(order))
    for pause in asked.values():
        home = pause.run.work_order
        assert home is not None
        yield Asked(f"/work-orders/{home.shown_id}/")
    patch, form, calls, edits = (asked[kind] for kind in ("patch", "form", "calls", "edits"))
    yield Asked(f"/pauses/{patch.shown_id}/patch")
    yield Asked(f"/pauses/{patch.shown_id}/files")
    yield Asked(f"/pauses/{asked['again'].shown_id}/changes?from=1&view=side")
    yield Asked(f"/several?pause={patch.shown_id}&pause={edits.shown_id}")
    yield Asked("/?q=plan+supplier")
    yield Asked("/work-orders/?q=patch")
    yield Asked("/decisions/?q=shorter")
    yield Asked("/?filters=open&kind=approval")
    yield Asked("/?status=nonsense")
    yield Asked("/?q=supplier", opens=f"[data-row={patch.shown_id}] .main-link")
    for pause, body in (
        (form, {"action": "approve", "input.lines.0.item": "x"}),
        (calls, {"action": "answer"}),
        (calls, {"action": "approve"}),
        (edits, {"action": "approve", "edited_content": "Half of it."}),
        (edits, {"action": "revise"}),
    ):
        digest = {"revision": "1", "content_digest": pause.content_digest}
        yield Asked(f"/pauses/{pause.shown_id}/decide", "POST", {**digest, **body})


def of_forms(world: World) -> Iterator[Asked]:
    """What each form answers that is sent empty."""
    for path, address in sorted(ADDRESSES.items()):
        if "POST" not in address.methods or path.startswith(REST):
            continue
        for state in STATES:
            url, present = fill(world, path, state)
            if present:
                yield Asked(url, "POST")
                break
