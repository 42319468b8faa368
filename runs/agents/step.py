"""The step `agent`: a language model with tools, one loop at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runs.agents import config, memory, model, templating
from runs.agents.loop import Loop
from runs.workflows.base import ConfigInvalid, Context, Outcome, State, StepFailed
from runs.workflows.prompts import with_feedback
from runs.workflows.registry import Config, ServerSide, Setting, step


def check(given: Mapping[str, Any]) -> None:
    """What is asked of a step template's configuration when it is saved. Raises ConfigInvalid."""
    config.check(given)
    model.check_address(given.get("base_url", ""))


class TurnTime(ServerSide):
    """An agent's turn may be given more time than steps usually have."""

    def seconds(self, config: Config, setting: Setting) -> float:
        return float(config.get("limits", {}).get("seconds", 0.0))


@step(
    "agent",
    check=check,
    config=config.SCHEMA,
    writes={
        "type": "object",
        "properties": {"output": {"description": "Its answer: text, or as output_schema says."}},
    },
    asks=True,
    uses_models=True,
    asks_servers_model=True,
    uses_tools=True,
    loops=True,
    keeps=memory.KEEPS,
    server=TurnTime(),
)
def agent(state: State, context: Context) -> Outcome:
    """One loop.

    It goes to itself until the model has answered; then `state["output"]` holds the answer.

    A turn begins with the order's request, or a thread's message; where a reviewer sent the work
    back, with the feedback. Raises StepFailed: a limit is reached (`limit_…`, `loop_limit`), or the
    model failed (`model.WORTH_RETRYING` and others).
    """
    try:
        settled = config.read(context.config)
    except ConfigInvalid as error:
        raise StepFailed(f"The step template cannot be used: {error}", code=error.code) from error
    mind = memory.recall(
        state, context, prompt=prompt_of(settled, state, context), max_loops=settled.max_loops
    )
    return Loop(
        agent=settled,
        state=state,
        context=context,
        mind=mind,
        messages=list(state.get(memory.MESSAGES) or []),
    ).take()


def prompt_of(settled: config.Agent, state: State, context: Context) -> str:
    """What a turn begins with."""
    feedback = str(state.get("revision_feedback") or "")
    if settled.prompt:
        prompt = templating.filled(settled.prompt, state, context)
        held = feedback in templating.filled(settled.instructions, state, context)
        return prompt if held else with_feedback(prompt, feedback)
    text = state.get("input")
    words = (
        text
        if isinstance(text, str) and not context.order.request
        else context.order.request or context.order.title
    )
    return feedback or str(words)
