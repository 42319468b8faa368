"""Any agent's stream as a step: events are told, steps leave checkpoints, prompts are questions.

    @step("my.agent", asks=True)
    def my_agent(state, context):
        return wrap(state, context, lambda past: my_framework.stream(task=state["input"],
        history=past))

What is wrapped is a function that is given what came before and gives the events that come next, as
any iterable or async iterable of mappings `{"event", "data"}`:

* `streaming_chunk` (`{"content"}`), `tool_call_started`, `tool_call_completed` and `log` are told
  as they come;
* `await_human_input` (`{"prompt", "promptId", "step", "required_inputs"}`) stops here: nothing runs
  meanwhile. Then the function is called anew, with `{"event": "human_input", "data": {"promptId",
  "response"}}` as the last of what came before;
* `final_answer` (`{"output"}`), or the end of the stream, ends the step: `state["output"]`. Sent
  back by a reviewer, the step begins anew, with the feedback as a `human_input`;
* any other event, such as `step_completed`, is one of the agent's steps. It is told as a line of
  the log, `{"message": <event>, "event", "data"}`.

Each event but a chunk and a log line goes into `past`; each of the agent's steps and each completed
call is a checkpoint. After a crash the function is called with what is kept, so it goes on from
there: what it did since the last checkpoint is done again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

from runs.workflows.base import Ask, Context, Go, Outcome, Report, State, StepFailed
from runs.workflows.wait_for_input import ANSWER

Told = Mapping[str, Any]
Make = Callable[[Sequence[Told]], Iterable[Told] | AsyncIterable[Told]]

STREAM = "wrapped"
"""Key of the state: by step, what came before."""
RESPONSE = "response"
END = "final_answer"
WORDS = {
    "type": "object",
    "required": [RESPONSE],
    "properties": {RESPONSE: {"type": "string", "title": "Answer", "minLength": 1}},
}
TOLD_AS_THEY_ARE = {"tool_call_started", "tool_call_completed", "log"}
"""Kinds of our log too."""
PASSING = {"streaming_chunk", "log"}
"""Told, and not kept in the state."""
WITHIN = {"tool_call_started"}
"""Kept with what follows."""


def wrap(state: State, context: Context, make: Make) -> Outcome:
    """What the step answers: one of the agent's steps, its question, or its end.

    Raises StepFailed for events that are none.
    """
    past = _past(state, context)
    events = _each(make([*past]))
    try:
        for given in events:
            context.check()
            event, data = _read(given)
            if event == "streaming_chunk":
                context.stream(str(data.get("content", "")))
                continue
            if event in TOLD_AS_THEY_ARE:
                context.emit(event, data)
            if event in PASSING:
                continue
            if event == END:
                return _end(state, context, past, data.get("output"))
            past.append({"event": event, "data": data})
            if event in WITHIN:
                continue
            if event == "await_human_input":
                return _ask(state, context, past, data)
            if event not in TOLD_AS_THEY_ARE:
                context.log(event, event=event, data=data)
            return Go(
                to=context.step, update=_kept(state, context, past), report=Report(content=event)
            )
    finally:
        if (close := getattr(events, "close", None)) is not None:
            close()
    return _end(state, context, past, None)


def _past(state: State, context: Context) -> list[dict[str, Any]]:
    """What came before, with the answer to its last question."""
    past = [dict(event) for event in state.get(STREAM, {}).get(context.step, [])]
    if past and past[-1]["event"] == END:  # a reviewer sent it back, or another step did
        feedback = state.get("revision_feedback")
        past = (
            [{"event": "human_input", "data": {"promptId": "", RESPONSE: feedback}}]
            if feedback
            else []
        )
    if past and past[-1]["event"] == "await_human_input":
        asked = past[-1]["data"]
        names = asked.get("required_inputs", WORDS).get("properties", {})
        written = {name: state[name] for name in names if name in state}
        response = written.get(RESPONSE) if "required_inputs" not in asked else written
        past.append(
            {
                "event": "human_input",
                "data": {"promptId": asked.get("promptId", ""), RESPONSE: response},
            }
        )
    return past


def _read(given: Any) -> tuple[Any, dict[str, Any]]:
    data = given.get("data", {}) if isinstance(given, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(given.get("event"), str):
        raise StepFailed(
            f'The stream gave {given!r:.100}, which is no event: {{"event": …, "data": {{…}}}}.',
            code="stream_invalid",
        )
    try:
        json.dumps(dict(data), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise StepFailed(
            f"The stream gave {given!r:.100}, whose data is no JSON: {error}.",
            code="stream_invalid",
        ) from error
    return given["event"], dict(data)


def _ask(
    state: State, context: Context, past: list[dict[str, Any]], data: Mapping[str, Any]
) -> Ask:
    question = str(data.get("prompt", "")).strip() or "The agent asks."
    return Ask(
        question=question[:300],
        answers={ANSWER: context.step},
        labels={ANSWER: "Send"},
        report=Report(content=question),
        update=_kept(state, context, past),
        required_inputs=data.get("required_inputs", WORDS),
        prompt_id=str(data.get("promptId", "")),
    )


def _end(state: State, context: Context, past: list[dict[str, Any]], output: Any) -> Go:
    ended = [*past, {"event": END, "data": {"output": output}}]
    return Go(
        update={**_kept(state, context, ended), "output": output},
        report=Report(content=str(output or "")),
    )


def _kept(state: State, context: Context, past: list[dict[str, Any]]) -> dict[str, Any]:
    return {STREAM: {**state.get(STREAM, {}), context.step: past}}


def _each(events: Iterable[Told] | AsyncIterable[Told]) -> Iterator[Told]:
    """The events one by one, whichever way they come."""
    if not isinstance(events, AsyncIterable):
        yield from events
        return
    loop, waiting = asyncio.new_event_loop(), aiter(events)
    try:
        while True:
            try:
                yield loop.run_until_complete(_next(waiting))
            except StopAsyncIteration:
                return
    finally:
        if (close := getattr(waiting, "aclose", None)) is not None:
            loop.run_until_complete(close())
        loop.close()


async def _next(events: AsyncIterator[Told]) -> Told:
    return await anext(events)
