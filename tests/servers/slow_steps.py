"""Steps that take their time, for workers that are stopped or busy.

Each leaves a line in a file: `began` or `done`, and its key.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from runs.agents import memory
from runs.workflows.base import Ask, Context, Done, Go, Outcome, Report, Sleep, State
from runs.workflows.base.feedback import FeedbackReader, Suggestion
from runs.workflows.registry import step
from runs.workflows.tool_calls import Call
from runs.workflows.wait_for_input import ask_about_calls, wait_for_event

LEDGER = "TEST_LEDGER"
TICKS = 50
NAP = 12
DEADLINE = 4
"""Seconds of `slow-nap` and of the question of `slow-deadline`."""
SECOND = dt.timedelta(seconds=1)


@step("slow.tick")
def tick(state: State, context: Context) -> Outcome:
    """A tenth of a second."""
    return _take(context, 0.1)


@step("slow.paper")
def paper(state: State, context: Context) -> Outcome:
    """A long text to look at; a short one, a patch, or no more than a row shows, where its config
    says so.
    """
    if context.config.get("brief"):
        return Go(report=Report(content="What is to be done, said in so many words."))
    parts = int(str(context.config.get("parts", 60)))
    lines = "\n\n".join(
        f"{number}. What is to be done in part {number} of the work, said in so many words."
        for number in range(1, parts + 1)
    )
    wished = state.get("revision_feedback", "")
    said = f"As was asked: {wished}\n\n" if wished else ""
    return Go(
        report=Report(
            content=f"# The plan\n\n{said}{lines}\n\nThe last line.",
            effects=["Pays 4 200 EUR to the supplier."],
            patch=str(context.config.get("patch", "")),
        )
    )


class Ticked(FeedbackReader):
    """Feedback that is ticked."""

    help = "Understood are “shorter” and “in French”."

    def suggestions(self, state: Mapping[str, Any]) -> list[Suggestion]:
        return [
            Suggestion("shorter", "Make it shorter", "Length"),
            Suggestion("in French", "Write it in French", "Language"),
        ]


@step("slow.ticked", feedback=Ticked())
def ticked(state: State, context: Context) -> Outcome:
    """A short text, with feedback to tick."""
    return paper(state, context)


@step("slow.calls")
def calls(state: State, context: Context) -> Outcome:
    """Two calls of tools, each to be decided; one may be edited, and is of the risk that its config
    says, the other may be answered in its place. Where its config says so, one alone, as it is.
    """
    if context.config.get("alone"):
        wire = Call(id="wire", tool="wire", arguments={"to": "Ada", "sum": 7})
        return ask_about_calls(state, context, calls=[wire]) or Done()
    risk = cast(Literal["normal", "high"], context.config.get("risk", "normal"))
    pay = Call(
        id="one", tool="pay", arguments={"to": "Ada", "sum": 7}, editable=["/sum"], risk=risk
    )
    mail = Call(
        id="two", tool="mail", arguments={"to": "Ada"}, preview="To *Ada*.", answerable=True
    )
    return ask_about_calls(state, context, calls=[pay, mail]) or Done()


@step("slow.sleep")
def sleep(state: State, context: Context) -> Outcome:
    """As long as its config says."""
    return _take(context, float(str(context.config["seconds"])))


@step("slow.once")
def once(state: State, context: Context) -> Outcome:
    """An effect outside that is done once, and a little time after it."""
    context.once("effect", partial(note, "once", context.key), optional=True)
    return _take(context, 0.1)


@step("slow.deaf")
def deaf(state: State, context: Context) -> Outcome:
    """A minute without a look at anything."""
    note("began", context.key)
    time.sleep(60)  # what it is for
    note("done", context.key)
    return Go()


@step("slow.timers")
def timers(state: State, context: Context) -> Outcome:
    """Sleeps a second, then fails once, then waits a second for an event that does not come."""
    if context.loop_num == 1:
        return Sleep(for_=SECOND, to=context.step)
    if not Path(f"{os.environ[LEDGER]}.{context.run_id}").exists():
        Path(f"{os.environ[LEDGER]}.{context.run_id}").touch()
        raise RuntimeError("not yet")
    return wait_for_event("never", to="after", within=SECOND, otherwise="after")


@step("slow.broken")
def broken(state: State, context: Context) -> Outcome:
    """Fails with words that hold secrets, as libraries' do."""
    password = "hunter2"  # a local variable, which a report of errors must not take along
    raise RuntimeError(f"refused at redis://:{password}@cache/0 with Bearer abcdefghijkl")


@step("slow.ask")
def ask(state: State, context: Context) -> Outcome:
    """Asks for words, whatever was said."""
    report = Report(content=f"You said **{state['input']}**. I need the name of a city.")
    return Ask(
        question="Which city?",
        answers={"answer": "tell"},
        report=report,
        update=_said(context, "user", state["input"]),
        phase="asking",
    )


@step("slow.tell")
def tell(state: State, context: Context) -> Outcome:
    city = state["input"]
    return Done(
        update={
            "messages": [
                *_said(context, "user", city)["messages"],
                *_said(context, "assistant", f"{city} it is.")["messages"],
            ]
        }
    )


PACE = 0.1
"""Seconds between two words of the chat."""
LAST = 5
TRENDS = (
    "Based on my research: **agents** that wait for people, `checkpoints`, and <b>calm</b> pages."
)


@step("slow.chat")
def chat(state: State, context: Context) -> Outcome:
    """What an agent does, without a model (S0-3.3): five loops with a tool in each but the last,
    and a question in the second.
    """
    number, asked = context.loop_num, "answer" in state.get("decided", {}).values()
    if number == LAST:
        return Done(update=_loop(context, state, _spoken(context, TRENDS), []))
    if number == 2 and asked:
        return Go(
            update=_loop(
                context, state, "I found several articles.", [_call(context, "ask_human", "Yes")]
            ),
            to=context.step,
        )
    if number == 1:
        context.think("Trends of which year? This one.")
    text = _spoken(
        context,
        "Let me search for information, " * 12 + "now."
        if number == 1
        else f"Step {number} of the research.",
    )
    if number == 2:
        call = _call(context, "ask_human", "")
        context.emit(
            "tool_call_started",
            {name: call[name] for name in ("id", "tool", "arguments")} | {"loop_num": number},
        )
        update = _loop(context, state, text, [{**call, "status": "waiting"}])
        report = Report(content="I found several articles.")
        answers = {"approve": context.step, "answer": context.step}
        return Ask(
            question="Should I include market data?",
            answers=answers,
            report=report,
            update=update,
            phase="asking",
            midway=True,
        )
    call = _call(context, "search", f"Found {number} articles.")
    context.emit(
        "tool_call_started",
        {name: call[name] for name in ("id", "tool", "arguments")} | {"loop_num": number},
    )
    time.sleep(PACE)  # slow enough to be watched
    context.emit("tool_call_completed", {**call, "loop_num": number})
    return Go(update=_loop(context, state, text, [call]), to=context.step)


def _spoken(context: Context, text: str) -> str:
    for word in text.split(" "):
        context.stream(f"{word} ")
        context.check()
        time.sleep(PACE if context.loop_num == 1 else PACE / 4)  # slow enough to be watched
    return text


def _call(context: Context, tool: str, result: str) -> dict[str, object]:
    arguments = {"query": f"AI trends, part {context.loop_num}"}
    return {
        "id": f"call_{context.key}",
        "tool": tool,
        "arguments": arguments,
        "result": result,
        "status": "done",
        "ms": 50,
    }


def _loop(
    context: Context, state: State, text: str, tools: list[dict[str, object]]
) -> dict[str, object]:
    about = {"run_id": context.run_id, "loop": context.loop_num, "at": "2026-01-01T00:00:00+00:00"}
    said = {
        **about,
        "id": memory.message_id(context.key, "assistant"),
        "role": "assistant",
        "content": text,
        "tools": tools,
    }
    said |= {"thinking": "Trends of which year? This one."} if context.loop_num == 1 else {}
    if context.loop_num > 1:
        return {"messages": [said]}
    return {
        "messages": [
            {
                **about,
                "id": f"msg_{context.run_id}",
                "role": "user",
                "content": state["input"],
                "tools": [],
            },
            said,
        ]
    }


def _said(context: Context, role: str, words: str) -> dict[str, list[dict[str, str]]]:
    return {"messages": [{"id": f"{context.key}/{role}", "role": role, "content": words}]}


def _take(context: Context, seconds: float) -> Outcome:
    note("began", context.key)
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        context.check()
        time.sleep(min(left, 0.2))  # work that takes its time, and looks whether it is to stop
    note("done", context.key)
    return Go(report=Report(content=f"{context.step} is done."))


def note(what: str, key: str) -> None:
    with Path(os.environ[LEDGER]).open("a") as ledger:
        ledger.write(f"{what} {key}\n")  # one short line, written at the close: whole or not at all


def load() -> None:
    """`slow-ticks`: many short steps.

    `slow-nap`: one of a few seconds. `slow-sleep`, `slow-deaf`: one of a minute. `slow-agent`: one
    of a minute for the agents' queue.
    `slow-asking`: asks, then goes on with a short step. `slow-deadline`: asks for a few seconds.
    `slow-broken`: asks, then fails.
    `slow-once`: asks, then has an effect under `once`.
    `slow-timers`: waits three times for up to a second, for the clock alone.
    `slow-mixed`: three short ones, the second for the agents' queue. `slow-talk`: asks for a word,
    and says it. `slow-chat`: five loops of an agent, with a question in the second.
    """
    from runs import definitions  # here: workers load the steps before the tables are known

    definitions.edit_step_template("slow-tick", title="Tick", function="slow.tick", config={})
    definitions.edit_step_template(
        "slow-sleep", title="Sleep", function="slow.sleep", config={"seconds": 60}
    )
    definitions.edit_step_template(
        "slow-nap", title="Nap", function="slow.sleep", config={"seconds": NAP}
    )
    definitions.edit_step_template("slow-broken", title="Broken", function="slow.broken", config={})
    definitions.edit_step_template("slow-once", title="Once", function="slow.once", config={})
    definitions.edit_step_template("slow-deaf", title="Deaf", function="slow.deaf", config={})
    ticks = [
        {"name": f"tick{number}", "step_type": "execute", "step_template_slug": "slow-tick"}
        for number in range(TICKS)
    ]
    sleep = {"step_type": "execute", "step_template_slug": "slow-sleep"}
    asking = {
        "step_type": "planning",
        "step_template_slug": "slow-tick",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
    }
    deadline = {"after": f"PT{DEADLINE}S", "outcome": "expire"}
    definitions.edit_step_template("slow-timers", title="Timers", function="slow.timers", config={})
    templates = {
        "slow-timers": [
            {
                **sleep,
                "step_template_slug": "slow-timers",
                "retry": {"attempts": 2, "base": 1, "cap": 1},
            },
            {**ticks[0], "name": "after"},
        ],
        "slow-ticks": ticks,
        "slow-sleep": [sleep],
        "slow-deaf": [{**sleep, "step_template_slug": "slow-deaf"}],
        "slow-agent": [{**sleep, "queue": "agents"}],
        "slow-asking": [asking, ticks[0]],
        "slow-deadline": [{**asking, "review": {"deadline": deadline}}],
        "slow-nap": [{**sleep, "step_template_slug": "slow-nap"}],
        "slow-once": [asking, {**ticks[0], "step_template_slug": "slow-once"}],
        "slow-broken": [asking, {**ticks[0], "step_template_slug": "slow-broken"}],
        "slow-mixed": [
            {**ticks[0], "name": "before"},
            {**ticks[0], "name": "agent", "queue": "agents"},
            {**ticks[0], "name": "after"},
        ],
    }
    for name in ("ask", "tell"):
        definitions.edit_step_template(
            f"slow-{name}", title=name.capitalize(), function=f"slow.{name}", config={}
        )
    talk = [
        {"name": name, "step_type": "execute", "step_template_slug": f"slow-{name}"}
        for name in ("ask", "tell")
    ]
    definitions.edit_template(
        "slow-talk",
        title="Talk",
        steps=talk,
        needs_repository=False,
        reducers={"messages": "upsert_by_id"},
    )
    definitions.edit_step_template(
        "slow-chat", title="Agent", function="slow.chat", config={"max_loops": 8}
    )
    agent = [{"name": "agent", "step_type": "agent", "step_template_slug": "slow-chat"}]
    definitions.edit_template(
        "slow-chat",
        title="Chat",
        steps=agent,
        needs_repository=False,
        reducers={"messages": "upsert_by_id"},
    )
    for slug, steps in templates.items():
        definitions.edit_template(slug, steps=steps, needs_repository=False)
