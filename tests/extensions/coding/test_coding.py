"""Coding orders with a command line agent, which is a real process here: scripted, and the same
each time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission

from checkpoints import store
from checkpoints.models import Checkpoint, Event
from extensions.coding.agents import READING, WRITING
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs import services as runs
from runs.agents.model.scripted import Wanted
from runs.engine.advance import advance
from runs.models import Artifact, Definition, WorkOrder
from runs.workflows.registry import NotReady
from tests.conftest import fresh, head_of, pause_of
from tests.databases.whole import file_database as file_database
from tests.worlds.repositories import bare_copy, git, make_repository

CODER = Path(__file__).resolve().parents[2] / "programs" / "coder.py"


@pytest.fixture
def control(tmp_path, settings):
    """Where the scripted agent says that it was started; with it configured as the one that writes
    code.
    """
    folder = tmp_path / "control"
    folder.mkdir()
    config = tmp_path / "coder.json"
    config.write_text(
        json.dumps(
            {
                "command": [sys.executable, str(CODER), str(folder)],
                "stdin": True,
                "output": "claude-code",
            }
        )
    )
    settings.WAYSTATION_CODER = str(config)
    return folder


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path / "project", {"README.md": "# Project\n"})


@pytest.fixture
def ordered(make_order, control, repository):
    def order(template: str = "advanced-dev-workflow", **more) -> WorkOrder:
        words = {
            "title": "Add a greeting",
            "request": "Greet the world.",
            "repository_url": str(repository),
        }
        return work(make_order(template, **words | more))

    return order


def work(order: WorkOrder) -> WorkOrder:
    """Let workers take the order's run and its child runs as far as they go."""
    first = fresh(order).latest_run_id
    waiting = [first] if first else []
    while waiting:
        waiting += [run_id for run_id, _ in advance(waiting.pop(0), budget=60)]
    return fresh(order)


def answer(order, by, action="approve", feedback=""):
    services.decide(pause_of(order).pk, Answer(action, Via.PAGE, feedback=feedback), by=by)
    return work(order)


def started(control: Path) -> list[str]:
    """What the agent was started for, how often."""
    return sorted(
        path.name.rsplit("-", 1)[0]
        for path in control.iterdir()
        if not path.name.startswith("hold")
    )


def text_of(artifact: Artifact) -> str:
    return store.get_blob(artifact.digest).decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_two_plan_one_makes_it_one_reviews_it_and_a_person_decides_each_time(
    ordered, control, repository, ana
):
    """S4-1, S4-2, S4-3, S4-5, S4-10, S4-19, S4-29, S4-66: with a correction after the review, and a
    plan that was sent back.
    """
    order = ordered()
    pause = pause_of(order)
    assert (pause.phase, order.phase) == ("awaiting_plan_approval", "awaiting_plan_approval")
    assert (
        "## design" in pause.content
        and "## risks" in pause.content
        and "**The design.**" in pause.content
    )
    assert started(control) == ["plan-1", "plan-2"]

    order = answer(order, ana, "revise", "Say hello politely")
    assert "As you say: Say hello politely." in pause_of(order).content
    order = answer(order, ana)
    pause = pause_of(order)
    assert (pause.phase, "GREETING" in store.get_blob(pause.patch_digest).decode()) == (
        "awaiting_implementation_review",
        True,
    )
    assert order.outputs["git_commit_count"] == 1

    order = answer(order, ana)
    pause = pause_of(order)
    assert (pause.phase, "says nothing about itself" in pause.content) == (
        "awaiting_review_decision",
        True,
    )
    order = answer(order, ana, "revise", "Give it a docstring")
    assert "Corrected: Give it a docstring" in pause_of(order).content
    order = answer(answer(order, ana), ana)

    assert order.status == "completed", order.latest_run.error
    assert started(control) == [
        "execute-1",
        "execute-2",
        "plan-1",
        "plan-2",
        "plan-3",
        "plan-4",
        "review-1",
        "review-2",
    ]
    assert {key: order.outputs[key] for key in ("git_commit_count", "input_tokens",
        "output_tokens")} == {
        "git_commit_count": 2, "input_tokens": 8000, "output_tokens": 1600,
    }  # fmt: skip
    assert order.outputs["cost"] == pytest.approx(0.1)
    assert git(repository, "branch", "--list", "waystation/*") == ""  # nobody asked for a push


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_a_quick_fix_runs_to_its_end_without_asking(ordered, control, repository, tmp_path, ana):
    """S4-11, S4-63, S4-71: and pushes what it made, where the order says so and its maker may have
    that unreviewed.
    """
    ana.user_permissions.add(Permission.objects.get(codename="deliver_unreviewed"))
    origin = bare_copy(repository, tmp_path / "origin")
    order = ordered("quick-fix-workflow", repository_url=str(origin), input={"push": True})
    assert (order.status, started(control)) == ("completed", ["execute-1", "plan-1"])
    assert git(origin, "show", f"{order.branch}:greeting.py") == 'GREETING = "Hello"'
    assert git(origin, "log", "--format=%s", f"main..{order.branch}") == "Add a greeting"
    assert not Event.objects.filter(thread=order.thread_id, kind="run_paused").exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_what_an_agent_was_told_said_and_cost_is_kept_and_told(ordered, client, ana, zoe):
    """S0-19: live as chunks and lines, and as artifacts; the state holds its answer only."""
    order = ordered("quick-fix-workflow")
    kept = {
        (one.step, one.name): text_of(one)
        for one in Artifact.objects.filter(thread=order.thread_id)
    }
    assert set(kept) == {
        (step, name) for step in ("planning", "execute") for name in ("prompt", "output")
    }
    assert (
        "Greet the world." in kept["execute", "prompt"]
        and "**All of it.** Add" in kept["execute", "prompt"]
    )
    assert '"total_cost_usd": 0.0125' in kept["execute", "output"]
    said = "".join(
        event.data["content"]
        for event in Event.objects.filter(thread=order.thread_id, kind="streaming_chunk").order_by(
            "seq"
        )
    )
    assert "Working on: plan" in said
    lines = [
        event.data
        for event in Event.objects.filter(thread=order.thread_id, kind="log").order_by("seq")
    ]
    [usage, _] = [line for line in lines if line.get("what") == "usage"]
    assert (usage["input_tokens"], usage["cost"], usage["step"]) == (1000, 0.0125, "planning")
    _, artifact = Artifact.objects.filter(thread=order.thread_id, step="execute").order_by("id")
    client.force_login(ana)
    page = client.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert (
        f'href="/artifacts/{artifact.shown_id}"' in page
        and "2,000 in, 400 out" in page
        and "$0.0250" in page
    )
    shown = client.get(f"/artifacts/{artifact.shown_id}")
    assert (shown["Content-Type"], shown["X-Content-Type-Options"]) == (
        "text/plain; charset=utf-8",
        "nosniff",
    )
    assert shown.content.decode() == kept["execute", "output"]
    assert (
        client.get(f"/api/v1/artifacts/{artifact.shown_id}").json()["content"]
        == kept["execute", "output"]
    )
    client.force_login(zoe)
    assert client.get(f"/artifacts/{artifact.shown_id}").status_code == 404
    assert client.get(f"/api/v1/artifacts/{artifact.shown_id}").status_code == 404
    assert "total_cost_usd" not in json.dumps(store.load(head_of(order)), default=dict)


def test_without_an_agent_an_order_is_refused_and_told_what_to_set(
    make_order, repository, client, ana
):
    """Capability 8: 422 at the API, the form again at the page; nothing is made that could hang."""
    client.force_login(ana)
    for template in ("advanced-dev-workflow", "quick-fix-workflow"):
        body = {"template": template, "user_request": "Greet.", "repository_url": str(repository)}
        refused = client.post("/api/v1/work-orders", body, content_type="application/json")
        assert (refused.status_code, refused.json()["code"]) == (422, "no_coder")
        assert (
            "WAYSTATION_CODER" in refused.json()["detail"]
            and "WAYSTATION_MODEL" in refused.json()["detail"]
        )
        page = client.post(
            "/work-orders/new",
            {"template": template, "request": "Greet.", "repository_url": str(repository)},
        )
        assert (page.status_code, "WAYSTATION_CODER" in page.content.decode()) == (422, True)
    assert not WorkOrder.objects.exists()


def test_an_order_without_words_is_refused(make_order, control, repository):
    with pytest.raises(runs.InputInvalid, match="Say in words"):
        make_order("quick-fix-workflow", request="  ", repository_url=str(repository))


def test_a_setting_that_is_no_agent_is_said_so(settings, tmp_path, templates):
    for content, words in (
        ("", "neither a known agent"),
        ("{", "is no configuration"),
        ('{"command": ["sh"]}', "is a shell"),
    ):
        settings.WAYSTATION_CODER = str(tmp_path / f"coder{len(content)}.json")
        if content:
            Path(settings.WAYSTATION_CODER).write_text(content)
        with pytest.raises(NotReady, match=words):
            definitions.freeze(definitions.current("quick-fix-workflow"))


def test_the_agent_is_frozen_with_the_order(make_order, control, repository, settings):
    """P10: another agent in the settings is one for other orders."""
    order = make_order("quick-fix-workflow", request="Greet.", repository_url=str(repository))
    settings.WAYSTATION_CODER, settings.WAYSTATION_CREDENTIALS_FROM_ENV = "codex", ["openai"]
    [plan, *_] = Definition.objects.get(pk=order.definition_id).steps
    config: Any = plan["config"]
    assert (config["executor"], config["command"][1]) == ("command", str(CODER))
    other = make_order("quick-fix-workflow", request="Greet.", repository_url=str(repository))
    config = other.definition.steps[0]["config"]
    assert config["command"][0] == "codex"


@pytest.mark.parametrize(
    ("config", "field", "words"),
    [
        ({}, "config.command", "This is needed."),
        ({"command": ["agent"]}, "config.command", "would not be told what to do"),
        ({"command": ["/bin/bash", "-c", "{prompt}"]}, "config.command", "is a shell"),
        ({"command": ["agent", "{promt}"]}, "config.command", "no placeholder"),
        ({"command": ["{prompt}"]}, "config.command", "the program itself"),
        ({"command": ["other", "{prompt}"]}, "config.command", "WAYSTATION_COMMANDS"),
        (
            {"command": ["agent", "{prompt}"], "prompt": "{{secret}}"},
            "config.prompt",
            "nothing stands for that",
        ),
        (
            {"command": ["agent", "{prompt}"], "environment": ["SECRET_KEY"]},
            "config.environment",
            "WAYSTATION_COMMAND_ENVIRONMENT",
        ),
        (
            {"command": ["agent", "{prompt}"], "output": "xml"},
            "config.output",
            "Fits none of the allowed shapes.",
        ),
        ({"command": ["agent", "{prompt}"], "secondes": 5}, "config", "secondes"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused_when_it_is_saved(
    templates, settings, config, field, words
):
    settings.WAYSTATION_COMMANDS = ["agent"]
    with pytest.raises(definitions.TemplateInvalid) as refused:
        definitions.edit_step_template("mine", title="Mine", function="command", config=config)
    assert words in refused.value.errors[field][0]


def test_a_configuration_that_can_be_meant_is_saved(templates, settings):
    settings.WAYSTATION_COMMANDS = ["agent"]
    config = {
        "command": ["agent", "--say", "{prompt}"],
        "prompt": "{{request}} {{revision_feedback}} {{state.plan.text}}",
    }
    assert (
        definitions.edit_step_template(
            "mine", title="Mine", function="command", config=config
        ).config
        == config
    )
    focus = {"focus": "Speed", "prompt": "{{focus}}", **config}
    del focus["prompt"]
    assert (
        definitions.edit_step_template(
            "mine2", title="Mine", function="coding.plan", config=focus
        ).version
        == 1
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_a_plan_is_carried_out_as_it_was_approved_with_its_edits_and_no_other(
    ordered, control, ana
):
    """P6, F5: a state that was edited behind the approval is refused.

    Before, one whose plan was taken out was carried out without any.
    """
    order = answer(ordered(), ana)
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    approval = Checkpoint.objects.get(
        thread=order.thread_id, node_id="planning", next_step="execute"
    )
    for plan in ("Delete all.", ""):
        services.fork(
            approval.pk, by=ana, reason="try", state={**store.load(approval), "plan": plan}
        )
        order = work(fresh(order))
        assert (order.latest_run.failure_code, started(control)) == (
            "content_changed",
            ["execute-1", "plan-1", "plan-2"],
        )


def scripted(history, tools):
    """A model that does a coding step with the tools it is given."""
    last = history[-1]["parts"]
    prompt = next(
        part["content"]
        for message in history
        for part in message["parts"]
        if part["part_kind"] == "user-prompt"
    )
    if any(part["part_kind"] == "tool-return" for part in last):
        yield "Done with "
        yield f"{', '.join(sorted(tools))}."
    elif "write_file" in tools:
        yield Wanted(
            "write_file", json.dumps({"path": "greeting.py", "text": "GREETING = 'Hello'\n"})
        )
    else:
        yield f"Plan: {'as asked' if 'Greet { {state.x}}' in prompt else 'lost'}."


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_an_agent_of_ours_does_the_same_with_tools_that_stay_in_the_tree(
    make_order, repository, monkeypatch
):
    """S4-71, S4-11: each loop is a checkpoint with its commit; who plans gets no tool that
    writes.
    """
    monkeypatch.setattr("runs.agents.model.scripted.answer", scripted)
    for slug, function, can in (
        ("simple-planning", "coding.plan", READING),
        ("simple-execute", "coding.execute", WRITING),
    ):
        definitions.edit_step_template(
            slug,
            title="Step",
            function=function,
            config={"executor": "agent", "model": "scripted", **can},
        )
    order = work(
        make_order(
            "quick-fix-workflow",
            title="Add",
            request="Greet {{state.x}}",
            repository_url=str(repository),
        )
    )
    assert order.status == "completed", order.latest_run.error
    state = store.load(head_of(order))
    assert (state["plan"], state["git_commit_count"]) == ("Plan: as asked.", 1)
    assert state["said"].startswith("Done with") and "write_file" in state["said"]
    loops = (
        Checkpoint.objects.filter(thread=order.thread_id, node_id="execute")
        .order_by("id")
        .values_list("loop_num", flat=True)
    )
    assert list(loops) == [1, 2]
    with_tools = [
        event.data["tool"]
        for event in Event.objects.filter(thread=order.thread_id, kind="tool_call_completed")
    ]
    assert with_tools == ["write_file"]
