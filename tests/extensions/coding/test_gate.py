"""Calls of a command line agent that a person decides: it ends for each, holds nothing meanwhile,
and goes on with its session, wherever.

The agent is a scripted one; with WAYSTATION_TEST_CLAUDE (the path of Claude Code's program, 2.1.89
or later) all is tried with that, too, and a scripted model.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from extensions.coding import gate, hook
from extensions.coding.cli_presets import PRESETS
from extensions.coding.command_config import check
from extensions.coding.hearing import Talk
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.git.housekeeping import workspace_path
from runs.models import Run, WorkOrder
from runs.workflows import ConfigInvalid
from tests.conftest import fresh, pause_of, state_at_head
from tests.databases.whole import file_database as file_database
from tests.servers.models.messages import wanting
from tests.worlds.repositories import git, make_repository

STAND_IN = Path(__file__).resolve().parents[2] / "programs" / "gated.py"
CLAUDE = os.environ.get("WAYSTATION_TEST_CLAUDE", "")
PRESET = PRESETS["claude-code"]


def bash(command: str) -> dict[str, Any]:
    return {"name": "Bash", "input": {"command": command, "description": "as scripted"}}


@pytest.fixture(params=["stand-in", *(["claude"] if CLAUDE else [])])
def agent(request, file_database, transactional_db, tmp_path, settings, monkeypatch):
    """`agent(calls, **policy)` sets the agent that writes code: it wants these calls."""
    folder: Path = tmp_path / "control"
    closing: list[Any] = []
    folder.mkdir()

    def script(calls: list[Any], **policy: Any) -> Path:
        config = {**PRESET, "credentials": {}, **policy}
        if request.param == "stand-in":
            (folder / "script.json").write_text(json.dumps(calls))
            own = [sys.executable, str(STAND_IN), str(folder)]
            gated = [*own, "--settings", "{gate}"]
            config |= {
                "command": gated,
                "resume_command": [*gated, "--resume", "{session}"],
                "read_command": own,
            }
        else:
            endpoint = wanting(calls)
            monkeypatch.setenv("ANTHROPIC_BASE_URL", endpoint.__enter__())
            monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-scripted")
            monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            closing.append(endpoint)
            config["environment"] = [
                "ANTHROPIC_BASE_URL",
                "ANTHROPIC_API_KEY",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            ]
            settings.WAYSTATION_COMMAND_ENVIRONMENT = config["environment"]
            for field in ("command", "resume_command", "read_command"):
                config[field] = [CLAUDE, *config[field][1:]]
        file = tmp_path / f"coder-{uuid.uuid4().hex}.json"
        file.write_text(json.dumps(config))
        settings.WAYSTATION_CODER = str(file)
        return folder

    yield script
    for endpoint in closing:
        endpoint.__exit__(None, None, None)


@pytest.fixture
def ordered(make_order, tmp_path):
    repository = make_repository(tmp_path / "project", {"README.md": "# Project\n"})

    def order() -> WorkOrder:
        words = {"title": "Greet", "request": "Greet.", "repository_url": str(repository)}
        return work(make_order("quick-fix-workflow", **words))

    return order


def work(order: WorkOrder) -> WorkOrder:
    run_id = fresh(order).latest_run_id
    while run_id and advance(run_id, budget=120):
        pass
    return fresh(order)


def decide(order: WorkOrder, by: Any, **decision: Any) -> WorkOrder:
    """Answer the question about the one call that waits."""
    pause = pause_of(order)
    [call] = pause.calls
    data = {"calls": {call["id"]: decision}}
    services.decide(pause.pk, Answer("answer", Via.PAGE, payload=data), by=by)
    return work(order)


def files_of(order: WorkOrder) -> dict[str, str]:
    """What the order's branch holds beside its README."""
    run = fresh(order).latest_run
    assert run is not None
    folder = workspace_path(run)
    names = git(folder, "ls-tree", "-r", "--name-only", "HEAD").split()
    return {name: git(folder, "show", f"HEAD:{name}") for name in names if name != "README.md"}


def test_a_call_is_made_as_it_was_approved_and_nothing_is_held_until_then(agent, ordered, ana):
    agent([bash("echo made > made.txt"), bash("echo two > two.txt")])
    order = ordered()
    pause = pause_of(order)
    [call] = pause.calls
    assert (call["tool"], call["arguments"]["command"]) == ("Bash", "echo made > made.txt")
    assert order.latest_run.status == "paused"
    order = decide(order, ana, decision="approve")
    [call] = pause_of(order).calls
    assert call["arguments"]["command"] == "echo two > two.txt"
    order = decide(
        order,
        ana,
        decision="edit",
        arguments={"command": "echo edited > edited.txt", "description": "mine"},
    )
    assert order.latest_run.status == "completed", order.latest_run.error
    assert files_of(order) == {"edited.txt": "edited", "made.txt": "made"}
    assert not state_at_head(order.thread_id).get(gate.KEY)


def test_of_several_calls_in_one_message_none_is_lost(agent, ordered, ana):
    """The first is asked about; the model hears that the others were not made, and wants one of
    them again.
    """
    one, two, three = (bash(f"echo {word} > {word}.txt") for word in ("one", "two", "three"))
    agent([[one, two, three], [two, bash("cat one.txt two.txt")]])
    order = ordered()
    for command in (one, two):
        [call] = pause_of(order).calls
        assert call["arguments"] == command["input"]
        order = decide(order, ana, decision="approve")
    assert order.latest_run.status == "completed", order.latest_run.error
    assert files_of(order).keys() == {"one.txt", "two.txt"}
    assert state_at_head(order.thread_id)["said"].count(hook.ONE_BY_ONE) == 3


def test_a_rejected_call_is_not_made_and_its_reason_is_told_to_the_agent(agent, ordered, ana):
    agent([bash("echo made > made.txt")])
    order = decide(ordered(), ana, decision="reject", reason="Not on a Friday.")
    assert order.latest_run.status == "completed"
    assert files_of(order) == {}
    assert "Not on a Friday." in state_at_head(order.thread_id)["said"]


def test_a_step_of_its_own_asks_anew_in_each_round_and_leaves_no_change_where_it_is_to_leave_none(
    agent, make_order, ana, settings, tmp_path
):
    """The ids of the agent's calls are the same in both rounds."""
    agent([bash("echo made > made.txt")], into="said", changes="discard", prompt="{{request}}")
    config = json.loads(Path(settings.WAYSTATION_CODER).read_text())
    definitions.edit_step_template("own", title="Own", function="command", config=config)
    step = {"step_type": "execute", "name": "own", "step_template_slug": "own"}
    definitions.edit_template(
        "own", steps=[{**step, "pause_after": True, "pause_phase": "looking"}]
    )
    repository = make_repository(tmp_path / "project", {"README.md": "# Project\n"})
    words = {"title": "Greet", "request": "Greet.", "repository_url": str(repository)}
    order = decide(work(make_order("own", **words)), ana, decision="approve")
    assert (pause_of(order).calls, files_of(order)) == ([], {})
    services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback="again"), by=ana)
    order = work(order)
    assert pause_of(order).calls[0]["arguments"]["command"] == "echo made > made.txt"
    order = decide(order, ana, decision="reject", reason="Once is enough.")
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    assert (work(order).latest_run.status, files_of(order)) == ("completed", {})
    assert "Once is enough." in state_at_head(order.thread_id)["said"]


def test_another_worker_goes_on_where_the_first_one_asked(agent, ordered, ana, settings, tmp_path):
    agent(
        [
            {"name": "Write", "input": {"file_path": "{tree}/by_hand.txt", "content": "mine"}},
            bash("cat by_hand.txt > copied.txt"),
        ]
    )
    order = ordered()
    settings.WAYSTATION_DATA = tmp_path / "another machine"
    order = decide(order, ana, decision="approve")
    assert order.latest_run.status == "completed", order.latest_run.error
    assert files_of(order) == {"by_hand.txt": "mine", "copied.txt": "mine"}


def test_rules_let_calls_pass_and_what_is_denied_is_asked_of_nobody(agent, ordered, ana):
    agent(
        [bash("make check"), bash("echo 1 > one.txt")],
        approvals=[
            {
                "tool": "Bash",
                "when": {"argument": "/command", "op": "equals", "value": "make check"},
                "ask": False,
                "why": "The check is free.",
            }
        ],
    )
    order = ordered()
    [call] = pause_of(order).calls
    assert call["arguments"]["command"] == "echo 1 > one.txt"
    agent([bash("echo 1 > one.txt")], denied=["Bash"])
    order = ordered()
    assert order.latest_run.status == "completed", order.latest_run.error
    assert files_of(order) == {}


def test_nothing_is_written_outside_the_work_tree(agent, ordered, ana, tmp_path):
    outside = tmp_path / "outside.txt"
    agent([{"name": "Write", "input": {"file_path": str(outside), "content": "mine"}}])
    order = ordered()
    assert (order.latest_run.status, outside.exists()) == ("completed", False)


def test_a_call_that_may_have_been_made_is_asked_about_again(agent, ordered, ana, tmp_path):
    outside = tmp_path / "outside.txt"
    folder = agent([bash(f"echo made >> {outside}")])
    order = ordered()
    (folder / "die").touch()
    order = decide(order, ana, decision="approve")
    if order.latest_run.status == "completed":  # the real one has no such accident
        return
    assert (order.latest_run.status, outside.read_text()) == ("failed", "made\n")
    (folder / "die").unlink()
    runs.retry(order.pk, by=ana)
    order = work(order)
    assert order.latest_run.status == "paused"
    assert "may have been made already" in pause_of(order).content
    order = decide(order, ana, decision="reject", reason="It was made.")
    assert (order.latest_run.status, outside.read_text()) == ("completed", "made\n")


def test_a_worker_that_is_lost_after_the_call_was_allowed_lets_no_second_one_make_it(
    agent, ordered, ana, monkeypatch, tmp_path
):
    outside = tmp_path / "outside.txt"
    agent([bash(f"echo made >> {outside}")])
    order = ordered()

    runs_of = Run.objects.filter(pk=order.latest_run_id)

    def lost(talk: Talk) -> None:
        """The others hold this worker for lost, and what it comes to does not count any more."""
        runs_of.update(lease_until=timezone.now() - dt.timedelta(hours=1))
        lost_runs.take_back(now=timezone.now())

    with monkeypatch.context() as patched:
        patched.setattr(Talk, "close", lost)
        decide(order, ana, decision="approve")
    assert outside.read_text() == "made\n"
    assert fresh(order).latest_run.lost_attempts == 1
    runs_of.update(due_at=timezone.now())
    order = work(order)
    assert order.latest_run.status == "paused", order.latest_run.error
    assert "may have been made already" in pause_of(order).content
    order = decide(order, ana, decision="approve")  # it may be made again, says a person
    assert (order.latest_run.status, outside.read_text()) == ("completed", "made\nmade\n")


ASKED = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}


def decision(folder: Path, monkeypatch: Any, asked: Any, **answer: Any) -> str:
    """What the hook says, of a start that has an answer to the call t1."""
    monkeypatch.setattr(hook, "HERE", str(folder))
    known = {"id": "t1", "allow": True, "input": {"command": "ls -l"}, "reason": ""}
    known["digest"] = hook.digest("Bash", {"command": "ls"})
    gate = {"free": ["Read"], "start": "a", "answer": {**known, **answer} if answer else None}
    said = hook.decide({**ASKED, **asked}, gate)
    return str(said["permissionDecision"]) if said else ""


@pytest.mark.parametrize(
    ("asked", "answer", "expected"),
    [
        ({}, {}, "defer"),
        ({}, {"allow": True}, "allow"),
        ({}, {"allow": False}, "deny"),
        ({"tool_input": {"command": "rm -r ."}}, {"allow": True}, "deny"),
        ({"tool_name": "Other"}, {"allow": True}, "deny"),
        ({"tool_use_id": "t2"}, {"allow": True}, "defer"),
        ({"agent_id": "x"}, {"allow": True}, "deny"),
        ({"tool_name": "Read"}, {}, ""),
    ],
)
def test_the_hook_allows_the_call_that_was_decided_and_no_other(
    tmp_path, monkeypatch, asked, answer, expected
):
    assert decision(tmp_path, monkeypatch, asked, **answer) == expected


def test_the_hook_allows_a_call_once(tmp_path, monkeypatch):
    first = decision(tmp_path, monkeypatch, {}, allow=True)
    assert (first, decision(tmp_path, monkeypatch, {}, allow=True)) == ("allow", "defer")


def test_the_hook_defers_one_call_of_a_start(tmp_path, monkeypatch):
    """And that one as often as it is asked: the agent remembers no other."""
    said = [
        decision(tmp_path, monkeypatch, {"tool_use_id": call}) for call in ("t2", "t3", "t2", "t1")
    ]
    assert said == ["defer", "deny", "defer", "deny"]


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"resume_command": None}, "resume_command", "{session}"),
        ({"command": ["claude"]}, "command", "{gate} is not in it"),
        ({"gate": None, "resume_command": None, "free": ["Read"]}, "free", "Without a gate"),
        ({"gate": None, "resume_command": None}, "command", "no placeholder"),
        ({"command": [*PRESET["command"], "{session}"]}, "command", "no placeholder"),
        ({"approvals": [{"ask": 1}]}, "approvals.0.ask", "true (ask a person)"),
        ({"free": ["Bash"], "denied": ["Bash"]}, "denied", "free and denied"),
        ({"free": ["Bash(ls)"]}, "free.0", '"Bash(ls)" isn\'t a valid free: it must match'),
    ],
)
def test_a_gate_that_could_not_ask_is_refused(changes, field, words):
    config = {name: value for name, value in {**PRESET, **changes}.items() if value is not None}
    config.pop("output")
    with pytest.raises(ConfigInvalid) as refused:
        check(config)
    assert words in refused.value.errors[field][0]


def test_a_step_may_say_what_the_agent_of_the_settings_is_asked_about(templates):
    own: dict[str, Any] = {"free": ["Read"], "denied": ["WebFetch"]}
    made = definitions.edit_step_template(
        "mine", title="Mine", function="coding.execute", config=own
    )
    assert made.config == own
    with pytest.raises(definitions.TemplateInvalid):
        definitions.edit_step_template(
            "mine", title="Mine", function="coding.execute", config={"free": "all"}
        )
