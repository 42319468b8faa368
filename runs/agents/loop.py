"""Take one loop of an agent: a request to its model, and the calls that the model wants made.

One loop is one execution of the step.

Each result that must not be made twice is recorded before the work that follows from it: the answer
before its calls, each call's result once it is there. So a crash anywhere repeats neither a request
nor a finished call. A question to a person is asked midway: the same execution goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runs.agents import asking, journal, memory, model, tools
from runs.agents.approval import Verdict, explain
from runs.agents.config import ASK_HUMAN, Agent
from runs.agents.journal import Journal, Ready
from runs.agents.memory import AgentCheckpointState, Json
from runs.agents.model import endings
from runs.agents.requesting import Request, in_words
from runs.workflows import deliver, refusals, schemas, timing
from runs.workflows import tool_calls as decisions
from runs.workflows.base import Call, Commit, Context, Go, Outcome, Report, State, StepFailed, Told

OUTPUT = "final_answer"
"""The tool by which a model gives an answer that has a schema."""
KEPT = "What was done so far is kept; a retry has the limit anew."
CODES = {"total_tokens": "limit_tokens", "cost": "limit_cost", "seconds": "limit_seconds"}
UNITS = {"total_tokens": "tokens", "cost": "USD", "seconds": "seconds of work"}
OF_THE_REQUEST = ("at", "thinking", "left_out", "ended")
"""Fields of a message for people that come from the request that it answers."""
UNFIT = f"Give your answer by calling `{OUTPUT}` with an object that fits its schema. "


@dataclass
class Loop:
    """The loop at hand. The next state is made of `mind` and `messages`."""

    agent: Agent
    state: State
    context: Context
    mind: AgentCheckpointState
    messages: list[Json]
    touched: bool = False
    """Whether something was done in the workspace."""

    @property
    def journal(self) -> Journal:
        return Journal(self.context, self.state)

    def take(self) -> Outcome:
        """Take the loop; give what follows: the next loop, a question, or the end of the turn."""
        if not memory.open_calls(self.mind):
            endings.check(self.mind.get("ended"), model=model.name_of(self.agent.model))
            self._request()
        if self.mind.get("ended"):
            return Go(update=self._update(), to=self.context.step, commit=self._commit())
        response, wanted = self.mind["prompt_messages"][-1], memory.open_calls(self.mind)
        text = memory.text_of(response)
        if not wanted:
            return self._take_answer(text)
        results = {
            call["id"]: result
            for call in wanted
            if (result := self.mind["tool_cache"].get(call["id"])) is not None
        }
        ready, asked, questions = self._sort_calls(
            [call for call in wanted if call["id"] not in results], results
        )
        self._check_calls(len(ready))
        self._enter_workspace(ready)
        results |= self.journal.make(ready)
        self._remember(wanted, results, text)
        if asked and (
            pause := asking.about_calls(self.state, self.context, asked, text, self._update())
        ):
            return replace(pause, commit=self._commit())
        if questions:
            return self._ask(questions[0], text)
        return self._go_on(wanted, results, text)

    def _request(self) -> None:
        _check_limits(self.agent, self.mind)
        recorded = self.context.once("request", self._ask_model, tell=self._usage, optional=True)
        if self.mind["current_loop"] == 1:  # later loops have the prompt, also in another run
            self.messages = memory.upserted(
                self.messages, self._message("user", memory.prompt_of(self.mind), at=recorded["at"])
            )
        ended = recorded.get("ended") or {}
        # asked to go on, and there was nothing more to say
        if ended.get("kind") == endings.EMPTY and self.mind.get("so_far"):
            self.mind, ended = {**memory.heard(self.mind, None, recorded), "ended": None}, {}
        elif ended:
            self._hear_in_part(recorded, ended)
        else:
            self.mind = {**memory.heard(self.mind, recorded["message"], recorded), "ended": None}
        message = self._message(
            "assistant",
            memory.text_of(recorded["message"]) or ended.get("words", ""),
            at=recorded["at"],
        )
        about = {name: recorded[name] for name in ("thinking", "left_out") if recorded.get(name)}
        self.messages = memory.upserted(
            self.messages, {**message, **about, **({"ended": ended["kind"]} if ended else {})}
        )

    def _hear_in_part(self, recorded: Json, ended: Mapping[str, Any]) -> None:
        """Take an answer that is not whole: keep what can be kept of it, and note whether and how
        the model is asked to mend it. No call of such an answer is made.
        """
        message, calls = endings.without_calls(recorded["message"])
        text = memory.text_of(message)
        cut = ended["kind"] == endings.LENGTH
        mendable = self.mind["current_loop"] - self.mind["loops_before"] < self.mind[
            "total_loops"
        ] and bool(text.strip() or calls or not cut)
        noted = endings.noted(self.mind.get("ended"), ended, mendable=mendable)
        self.mind = memory.heard(self.mind, message if cut and text else None, recorded)
        if cut and (text or calls):
            so_far = "" if calls else self.mind.get("so_far", "") + text
            self.mind = {
                **memory.urged(self.mind, endings.CALL_AGAIN if calls else endings.CONTINUE),
                "so_far": so_far,
            }
        else:
            self.mind = {**self.mind, "current_loop": self.mind["current_loop"] + 1}
        self.mind = {**self.mind, "ended": noted}

    def _ask_model(self) -> Json:
        left = _seconds_left(self.agent, self.mind)
        return Request(
            agent=self.agent,
            state=self.state,
            context=self.context,
            mind=self.mind,
            tools=self._describe_tools(),
            seconds=left,
        ).answer()

    def _describe_tools(self) -> list[Mapping[str, Any]]:
        """Describe the tools to the model."""
        descriptions: list[Mapping[str, Any]] = [
            tools.schema_of(registered) for registered in self.agent.registered
        ]
        if ASK_HUMAN in self.agent.tools:
            descriptions.append(asking.TOLD)
        if self.agent.output_schema and self.agent.output_mode == "tool":
            description = "Give the final answer, once all is known."
            descriptions.append(
                {
                    "name": OUTPUT,
                    "description": description,
                    "parameters": schemas.for_others(self.agent.output_schema),
                }
            )
        return descriptions

    def _usage(self, recorded: Mapping[str, Any]) -> Told:
        """Write the line of the log that tells what a request used, and what is left."""
        run, thread = (
            memory.plus(self.mind["usage"], recorded),
            memory.plus(self.mind["thread_usage"], recorded),
        )
        own = {
            name: recorded[name]
            for name in ("requests", "input_tokens", "output_tokens", "cost", "model")
        }
        tokens = recorded["input_tokens"] + recorded["output_tokens"]
        summary = f"Loop {self.mind['current_loop']}: {tokens:,} tokens" + (
            f", {recorded['cost']:.4f} USD"
            if recorded["cost"]
            else ", price unknown"
            if recorded["unpriced"]
            else ""
        )
        left_out = recorded.get("left_out", {})
        summary += f". {in_words(left_out)}" if left_out else ""
        ended = recorded.get("ended", {}).get("kind", "")
        summary += f". {endings.in_words(ended)}" if ended else ""
        more = {
            "left_out": left_out,
            "ended": ended,
            "loop_num": self.context.loop_num,
            "loop": self.mind["current_loop"],
            "run": run,
            "thread": thread,
        }
        limit = _limits(self.agent)
        spent = _spent(run)
        left = {name: round(max(0, value - spent[name]), 8) for name, value in limit.items()}
        usage = {"what": "usage", **own, **more, "limit": limit, "left": left}
        return "log", {"message": summary, "level": "warning" if ended else "info", **usage}

    def _sort_calls(
        self, wanted: Sequence[Json], results: dict[str, Json]
    ) -> tuple[list[Ready], list[tuple[Call, Verdict]], list[tuple[Json, dict[str, Any]]]]:
        """Sort calls: those that may be made, those that a person is asked about, and questions.

        The results of all others are added to `results`.
        """
        ready: list[Ready] = []
        asked: list[tuple[Call, Verdict]] = []
        questions: list[tuple[Json, dict[str, Any]]] = []
        for call in wanted:
            try:
                self._sort_call(call, results, ready, asked, questions)
            except tools.ToolFailed as error:
                results[call["id"]] = self._note(call, journal.ended("failed", str(error)))
        return ready, asked, questions

    def _sort_call(
        self,
        call: Json,
        results: dict[str, Json],
        ready: list[Ready],
        asked: list[tuple[Call, Verdict]],
        questions: list[Any],
    ) -> None:
        """Raises ToolFailed for a call that cannot be made."""
        if hidden := sorted(set(memory.hidden_in(call["arguments"]))):
            raise tools.ToolFailed(
                f"{', '.join(hidden)}: named like a secret, so not kept. The tool has its "
                "secrets; leave it out."
            )
        if call["tool"] == ASK_HUMAN and ASK_HUMAN in self.agent.tools:
            question = asking.question_in(call["arguments"])
            answer = asking.answer_in(self.state, self.context, self.mind, call["id"])
            if answer is None:
                questions.append((call, question))
            else:
                results[call["id"]] = self._note(call, journal.ended("done", answer))
            return
        if call["tool"] == OUTPUT and self.agent.output_schema:
            results[call["id"]] = self._output(call)
            return
        if call["tool"] not in self.agent.tools:
            raise tools.UnknownTool(f"There is no tool {str(call['tool'])[:80]!r} here.")
        tool = tools.find(call["tool"])
        arguments = tools.read_arguments(tool, call["arguments"])
        verdict = explain(tool, arguments, self.agent.approvals)
        if tool.doubt is not None:  # a person who is asked anyway is told of the doubt, too
            use = tools.ToolUse(context=self.context, call_id=call["id"], state=self.state)
            if why := tool.doubt(use):
                verdict = Verdict(ask=True, why=why)
        if not verdict.ask:
            ready.append(Ready(id=call["id"], tool=tool, arguments=arguments))
            return
        prepared = tools.as_call(tool, call["id"], arguments)
        if not decisions.all_decided(self.context, self.context.step, [prepared]):
            asked.append((prepared, verdict))
        elif made := decisions.approved(self.context, self.context.step, [prepared]):
            ready.append(
                Ready(
                    id=call["id"],
                    tool=tool,
                    arguments=made[0].arguments,
                    was=arguments if made[0].edited else None,
                    decision=made[0].decision_id,
                )
            )
        else:
            results[call["id"]] = self._note(call, asking.not_made(self.context, prepared))

    def _note(self, call: Json, result: Json) -> Json:
        decision, named = result.get("decision", ""), (call["id"], call["tool"], call["arguments"])
        return self.journal.note(*named, lambda: result, decision=decision)

    def _output(self, call: Json) -> Json:
        """Check the final answer against its schema; the model is told of faults."""
        if faults := schemas.validate_resume_payload(self.agent.output_schema, call["arguments"]):
            raise tools.ToolFailed(f"{UNFIT}{refusals.as_text(faults)[:2_000]}")
        return journal.ended("done", "Taken.")

    def _check_calls(self, more: int) -> None:
        limit, made = self.agent.limits.tool_calls, self.mind["usage"]["tool_calls"]
        if limit is not None and made + more > limit:
            raise StepFailed(
                f"The agent wants {more} more call{'s' if more > 1 else ''} of tools, and "
                f"{made} of {limit} were made. {KEPT}",
                code="limit_tool_calls",
            )

    def _enter_workspace(self, ready: Sequence[Ready]) -> None:
        """Restore the workspace to the last checkpoint: what a lost worker did in it since then is
        done again.
        """
        if any(call.tool.in_workspace for call in ready):
            self.context.workspace.restore()
            self.touched = True

    def _commit(self) -> Commit | None:
        """Commit what the loop changed in the workspace."""
        if not self.touched:
            return None
        workspace = self.context.workspace
        listed = workspace.git("ls-files", "-m", "-d", "-o", "--exclude-standard", "-z")
        paths = sorted({path for path in listed.split("\0") if path})
        workspace.commit(f"{self.context.step}: loop {self.mind['current_loop']}", paths)
        return workspace.snapshot()

    def _remember(self, wanted: Sequence[Json], results: Mapping[str, Json], said: str) -> None:
        """Note the loop's results: complete for the worker that goes on, and cut for people."""
        self.mind = {**self.mind, "tool_cache": dict(results)}
        shown = [_shown_call(call, results.get(call["id"])) for call in wanted]
        known = next(
            (message for message in self.messages if message["id"] == self._id("assistant")), {}
        )
        message = self._message("assistant", said, at=timing.now().isoformat(), tools=shown)
        self.messages = memory.upserted(
            self.messages,
            {**message, **{name: known[name] for name in OF_THE_REQUEST if name in known}},
        )

    def _ask(self, question: tuple[Json, dict[str, Any]], said: str) -> Outcome:
        """Pause with the question that the model asks a person."""
        call, asked = question
        self.journal.start(call["id"], call["tool"], call["arguments"])
        self.mind = {**self.mind, "asked": call["id"]}
        # an older answer does not answer this question
        update = {**self._update(), "decided": {self.context.step: ""}}
        return replace(asking.a_question(asked, self.context, said, update), commit=self._commit())

    def _go_on(self, wanted: Sequence[Json], results: Mapping[str, Json], said: str) -> Outcome:
        """Go on to the next loop, or to the end where the final answer was given."""
        made = sum(
            results[call["id"]]["status"] == "done" and call["tool"] not in {ASK_HUMAN, OUTPUT}
            for call in wanted
        )
        self.mind = memory.closed(self.mind, results, {"tool_calls": made})
        final = next(
            (
                call
                for call in wanted
                if call["tool"] == OUTPUT and results[call["id"]]["status"] == "done"
            ),
            None,
        )
        if final is not None and self.agent.output_schema:
            return self._finish(dict(final["arguments"]), said)
        return self._next()

    def _next(self) -> Outcome:
        _check_loops(self.mind)
        return Go(update=self._update(), to=self.context.step, commit=self._commit())

    def _take_answer(self, said: str) -> Outcome:
        """Take an answer without calls: the turn ends, if the answer fits.

        The parts of the answer that were cut before belong to it.
        """
        said, self.mind = self.mind.get("so_far", "") + said, {**self.mind, "so_far": ""}
        if not self.agent.output_schema:
            return self._finish(said, said)
        output = _object_in(said)
        faults = (
            schemas.validate_resume_payload(self.agent.output_schema, output)
            if output is not None
            else {"": ["this was text."]}
        )
        if output is not None and not faults:
            return self._finish(output, said)
        self.mind = memory.urged(self.mind, f"{UNFIT}{refusals.as_text(faults)[:2_000]}")
        return self._next()

    def _finish(self, output: Any, said: str) -> Outcome:
        shown = (
            said
            if isinstance(output, str)
            else tools.quoted(json.dumps(output, indent=2, ensure_ascii=False), language="json")
        )
        if not isinstance(output, str) and not said:
            at = timing.now().isoformat()
            known = next(
                (message for message in self.messages if message["id"] == self._id("assistant")), {}
            )
            self.messages = memory.upserted(
                self.messages,
                {**self._message("assistant", shown, at=at), **known, "content": shown},
            )
        update = {**self._update(run_id=""), "output": output}
        commit = self._commit()
        report = Report(
            content=shown, material=deliver.leaving(commit or self.context.workspace.at)
        )
        return Go(update=update, report=report, commit=commit)

    def _update(self, *, run_id: str | None = None) -> Json:
        """Make the update of the state: of whole values, so that every reducer gives the same."""
        step = self.context.step
        turn = self.context.run_id if run_id is None else run_id
        return {
            memory.MESSAGES: self.messages,
            memory.KEY: {**self.state.get(memory.KEY, {}), step: self.mind},
            memory.TURNS: {**self.state.get(memory.TURNS, {}), step: turn},
        }

    def _id(self, role: str) -> str:
        return memory.message_id(self.context.key, role)

    def _message(self, role: str, content: str, *, at: str, tools: Sequence[Json] = ()) -> Json:
        return {
            "id": self._id(role),
            "role": role,
            "content": content,
            "run_id": self.context.run_id,
            "loop": self.context.loop_num,
            "tools": list(tools),
            "at": at,
        }


def _shown_call(call: Json, result: Mapping[str, Any] | None) -> Json:
    """Show a call to people: where a person changed the arguments, with the changed ones."""
    outcome = result or journal.ended("waiting", "")
    made = {"arguments": outcome.get("arguments", call["arguments"])}
    made |= {"was": outcome["was"]} if "was" in outcome else {}
    shown = {
        "result": journal.shortened(outcome["result"]),
        "status": outcome["status"],
        "ms": outcome["ms"],
        **({"decision": outcome["decision"]} if outcome.get("decision") else {}),
    }
    return {"id": call["id"], "tool": call["tool"], **made, **shown}


def _object_in(text: str) -> dict[str, Any] | None:
    """Read a text that is a JSON object, also inside a block of code; None where it is none."""
    bare = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        value = json.loads(bare)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _check_loops(mind: AgentCheckpointState) -> None:
    if mind["current_loop"] - mind["loops_before"] > mind["total_loops"]:
        raise StepFailed(
            f"The agent took {mind['total_loops']} loops without an answer, which is its "
            f"limit. {KEPT}",
            code="loop_limit",
        )


def _check_limits(agent: Agent, mind: AgentCheckpointState) -> None:
    """Raise StepFailed where the limits allow no further request."""
    used, limits = mind["usage"], agent.limits
    _check_loops(mind)
    if limits.cost is not None and used["unpriced"]:
        raise StepFailed(
            f"The price of {model.name_of(agent.model)} is not known, so its limit of "
            f"{limits.cost:g} USD cannot be kept. "
            "Name the price in WAYSTATION_MODEL_PRICES, then retry.",
            code="price_unknown",
        )
    spent = _spent(used)
    for name, limit in _limits(agent).items():
        if name != "tool_calls" and spent[name] >= limit:
            message = f"The agent has used {spent[name]:,g} of {limit:,g} {UNITS[name]}. {KEPT}"
            raise StepFailed(message, code=CODES[name])


def _seconds_left(agent: Agent, mind: AgentCheckpointState) -> float:
    return (
        float("inf")
        if agent.limits.seconds is None
        else agent.limits.seconds - mind["usage"]["seconds"]
    )


def _limits(agent: Agent) -> dict[str, float]:
    """Give the limits that are set. (`tokens` alone would be redacted as the name of a secret.)"""
    named = {
        "total_tokens": agent.limits.tokens,
        "cost": agent.limits.cost,
        "tool_calls": agent.limits.tool_calls,
    }
    return {
        name: limit
        for name, limit in {**named, "seconds": agent.limits.seconds}.items()
        if limit is not None
    }


def _spent(used: Mapping[str, Any]) -> dict[str, float]:
    return {
        "total_tokens": used["input_tokens"] + used["output_tokens"],
        **{name: used[name] for name in ("cost", "tool_calls", "seconds")},
    }
