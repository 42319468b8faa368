"""Send one request to a model, with as much of the conversation as it takes; and once more with
half of that, where the endpoint says that it is too long.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from runs.agents import memory, model, templating, window
from runs.agents.config import Agent
from runs.agents.journal import shortened
from runs.agents.memory import AgentCheckpointState, Json
from runs.agents.model import Reply, endings
from runs.agents.window import Given
from runs.workflows import schemas, timing
from runs.workflows.base import Context, State, StepFailed, Told

HALVED = "halved"
"""Key of the record that the endpoint found the conversation too long: a worker that takes the loop
up again gives less from the start.
"""
THOUGHTS = 4_000
"""Characters of a model's thoughts that are kept beside its answer, for people."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The request of a loop to its model."""

    agent: Agent
    state: State
    context: Context
    mind: AgentCheckpointState
    tools: Sequence[Mapping[str, Any]]
    """The tools as they are described to the model."""
    seconds: float
    """How long the turn may still take."""

    def answer(self) -> Json:
        """Ask the model; its text goes to `Context.stream` as it comes.

        Gives the record of the answer. Raises StepFailed.
        """
        began, at = time.monotonic(), timing.now().isoformat()
        reply, given, room = self._ask_within_room(until=began + self.seconds)
        ending = endings.of(reply.message)
        return {
            "message": memory.recorded(reply, self.context.key),
            "at": at,
            "model": reply.model,
            "requests": 1,
            "input_tokens": reply.input_tokens,
            "output_tokens": reply.output_tokens,
            "cost": reply.cost or 0.0,
            "unpriced": int(reply.cost is None),
            "seconds": round(time.monotonic() - began, 3),
            "thinking": shortened(reply.thinking, THOUGHTS),
            "left_out": {
                name: n
                for name, n in (("messages", given.left_out), ("results", given.shortened))
                if n
            },
            "room": room,
            "ended": {"kind": ending.kind, "words": ending.words} if ending.kind else {},
        }

    def _ask_within_room(self, *, until: float) -> tuple[Reply, Given, int]:
        """Ask; where the endpoint finds the conversation too long, ask once more with half of it.

        Gives the answer, the conversation that it was given for, and the room in tokens if it was
        halved, now or before; else 0.
        """
        room = int(self.context.recorded([HALVED]).get(HALVED, {}).get("room", 0))
        while True:
            given = self._given(room or self._usual_room)
            try:
                return self._ask(given, until=until), given, room or self.mind.get("room", 0)
            except StepFailed as error:
                if error.code != model.TOO_LONG:
                    raise
                half = min(self._usual_room, self._size(given)) // 2
                if room or list(self._given(half).messages) == list(given.messages):
                    raise self._too_long(given, halved=bool(room)) from error
                room = int(
                    self.context.once(
                        HALVED, partial(dict, room=half), tell=self._tell_halved, optional=True
                    )["room"]
                )

    def _ask(self, given: Given, *, until: float) -> Reply:
        endpoint = model.endpoint_of(self.agent.model, self.agent.base_url, self.agent.credential)
        key = (
            self.context.credential(endpoint.credential, to=endpoint.address)
            if endpoint.credential
            else ""
        )
        request = model.ModelRequest(
            messages=given.messages,
            instructions=self._instructions,
            tools=self.tools,
            output=schemas.for_others(self.agent.output_schema)
            if self.agent.output_mode == "native"
            else {},
        )
        context = self.context
        return model.ask(
            endpoint,
            request,
            model.Listener(
                say=context.stream, think=context.think, check=context.check, until=until
            ),
            key=key,
        )

    @property
    def _instructions(self) -> str:
        return templating.filled(self.agent.instructions, self.state, self.context)

    @property
    def _usual_room(self) -> int:
        """About how many tokens may be given: fewer where an earlier loop of this turn found that
        the endpoint takes fewer.
        """
        return self.mind.get("room", 0) or self.agent.history or model.server().history

    @property
    def _always_given(self) -> int:
        """Tokens of the instructions and tools, which are always given."""
        return window.size_of(self._instructions) + window.size_of(list(self.tools))

    def _given(self, room: int) -> Given:
        return window.given(
            self.mind["prompt_messages"],
            newest=self.mind["history_offset"],
            room=max(0, room - self._always_given),
        )

    def _size(self, given: Given) -> int:
        return self._always_given + sum(map(window.size_of, given.messages))

    def _tell_halved(self, recorded: Mapping[str, Any]) -> Told:
        message = (
            "The conversation is too long for the model, so it is asked again with about "
            f"{recorded['room']:,} tokens of it."
        )
        return "log", {
            "message": message,
            "level": "warning",
            "what": "history_halved",
            "loop": self.mind["current_loop"],
            **recorded,
        }

    def _too_long(self, given: Given, *, halved: bool) -> StepFailed:
        tried = (
            "also when half of it was left out" if halved else "and nothing of it can be left out"
        )
        name = model.name_of(self.agent.model)
        return StepFailed(
            f"The model {name}: the conversation is longer than it takes (about "
            f"{self._size(given):,} tokens), {tried}. All of it is kept."
            " Begin a new thread, go on from an earlier checkpoint, or let the step template "
            "name a smaller `history` or another model.",
            code=model.TOO_LONG,
        )


def in_words(left_out: Mapping[str, Any]) -> str:
    """Say what a model was not given, such as "12 earlier messages were not given to the model.";
    "" for nothing.
    """
    messages, results = left_out.get("messages", 0), left_out.get("results", 0)
    sentences = []
    if messages:
        sentences.append(
            f"{messages:,} earlier message{'s were' if messages > 1 else ' was'} not given "
            "to the model"
        )
    if results:
        sentences.append(
            f"{results:,} older tool result{'s were' if results > 1 else ' was'} shortened for it"
        )
    return f"{'; '.join(sentences)}." if sentences else ""
