"""A step that leaves code says which commit it asks about, so that `deliver` behind its approval
takes just that one (P6, issue 13).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from checkpoints import store
from checkpoints.models import Checkpoint
from extensions.coding import agents
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs import services as runs
from runs.agents.model.scripted import Wanted
from runs.engine.advance import advance
from runs.models import Repository, WorkOrder
from tests.conftest import fresh, head_of, pause_of
from tests.databases.whole import file_database as file_database
from tests.worlds.repositories import bare_copy, git, make_repository
from tests.worlds.unapproved_code import swap_commit

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.one_database,
    pytest.mark.usefixtures("file_database"),
]
WRITES = [
    sys.executable,
    "-c",
    "open('new.txt', 'a').write('new\\n'); print('Written.')",
    "{prompt}",
]
LOOKS = [sys.executable, "-c", "open('new.txt', 'w').write('spoilt'); print('Fine.')", "{prompt}"]
NOTHING = [sys.executable, "-c", "print('Nothing to do.')", "{prompt}"]
PAUSES = {"pause_after": True, "pause_phase": "awaiting_review_decision"}


def scripted(history: Any, tools: Any) -> Any:
    """A model that writes a file and is done."""
    if any(part["part_kind"] == "tool-return" for part in history[-1]["parts"]):
        yield "Written."
    else:
        yield Wanted("write_file", json.dumps({"path": "new.txt", "text": "new\n"}))


STEPS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "a command": [("command", {"command": WRITES})],
    "a command that looks at another's": [
        ("command", {"command": WRITES}),
        ("command", {"command": LOOKS, "changes": "discard"}),
    ],
    "an agent": [("agent", {"model": "scripted", **agents.WRITING})],
}


@pytest.fixture
def origin(tmp_path: Path, templates: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bare repository beside the workers, which takes the branches of orders."""
    settings.WAYSTATION_COMMANDS = [Path(sys.executable).name, sys.executable]
    monkeypatch.setattr("runs.agents.model.scripted.answer", scripted)
    make_repository(tmp_path / "start", {"README.md": "# Project\n"})
    bare = bare_copy(tmp_path / "start", tmp_path / "origin.git")
    Repository.objects.create(
        name="engine", url=str(bare), push_policy="branch", pull_request_policy="never"
    )
    return bare


def asked(origin: Path, by: Any, steps: list[tuple[str, dict[str, Any]]]) -> WorkOrder:
    """An order whose last step before `deliver` asks."""
    made: list[dict[str, Any]] = []
    for number, (function, config) in enumerate(steps):
        definitions.edit_step_template(
            f"material-{number}", title="Work", function=function, config=config
        )
        last = PAUSES if number == len(steps) - 1 else {}
        made.append(
            {
                "step_type": ("execute", "review")[number],
                "step_template_slug": f"material-{number}",
                **last,
            }
        )
    definitions.edit_template(
        "material",
        title="Material",
        steps=[*made, {"step_type": "deliver", "step_template_slug": "deliver"}],
    )
    order = work(
        runs.submit(
            "material",
            by=by,
            repository_url=str(origin),
            title="Add a file",
            request="Please add it",
        )
    )
    assert order.status == "paused", order.latest_run.error
    return order


def work(order: WorkOrder) -> WorkOrder:
    run_id = fresh(order).latest_run_id
    while run_id and advance(run_id, budget=60):
        pass
    return fresh(order)


def at_origin(origin: Path, order: WorkOrder) -> str:
    return git(origin, "rev-parse", "-q", "--verify", f"refs/heads/{order.branch}", fine=False)


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_what_was_approved_behind_such_a_step_leaves(origin, ana, steps):
    """Before, the step named nothing, the commit was compared with the whole state, and no such
    order could ever be delivered.
    """
    order = asked(origin, ana, steps)
    wanted = head_of(order).metadata["git"]["commit"]
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    order = work(order)
    assert (order.status, order.latest_run.error) == ("completed", "")
    assert at_origin(origin, order) == wanted
    assert git(origin, "show", f"{order.branch}:new.txt") == "new"


def test_a_commit_that_was_changed_behind_the_approval_does_not_leave(origin, ana, tmp_path):
    """P6: an approval of one commit does not pass for another."""
    order = asked(origin, ana, STEPS["a command"])
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    swap_commit(order, origin, tmp_path / "other")
    order = work(order)
    assert (order.status, order.latest_run.failure_code) == ("failed", "content_changed")
    assert at_origin(origin, order) == ""


def test_where_no_commit_was_made_all_that_was_there_is_approved_and_nothing_leaves(
    origin, ana, tmp_path
):
    """An answer about words alone passes for no commit that is there afterwards."""
    order = asked(origin, ana, [("command", {"command": NOTHING})])
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    order = work(order)
    assert (order.status, store.load(head_of(order))["pushed"], at_origin(origin, order)) == (
        "completed",
        False,
        "",
    )
    again = asked(origin, ana, [("command", {"command": NOTHING})])
    services.decide(pause_of(again).pk, Answer("approve", Via.PAGE), by=ana)
    swap_commit(again, origin, tmp_path / "other")
    assert work(again).latest_run.failure_code == "content_changed"
    assert at_origin(origin, again) == ""


def test_an_edit_of_the_state_behind_the_approval_leaves_nothing(origin, ana):
    """P6: who goes on from a state of his own has it approved again."""
    order = asked(origin, ana, STEPS["a command"])
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    approval = Checkpoint.objects.get(thread=order.thread_id, next_step="deliver")
    services.fork(
        approval.pk, by=ana, reason="try", state={**store.load(approval), "answer": "Other words"}
    )
    assert work(order).latest_run.failure_code == "content_changed"
    assert at_origin(origin, order) == ""
