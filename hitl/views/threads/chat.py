"""A thread's conversation as its page shows it: bubbles, tool cards, what is being said, loops,
what it cost, what waits to be said.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext, gettext_lazy

from checkpoints import ids
from checkpoints.models import Checkpoint, Event, EventKind, Thread
from hitl.models import Decision
from hitl.rendering.diagrams import times
from hitl.rendering.paging import ListAddress, ListPage, NoSuchPlace
from hitl.views import family
from runs.agents import model
from runs.agents.model import endings
from runs.agents.requesting import in_words
from runs.models import QueuedTurn, Run
from runs.states import COMPLETED, LIVE, PAUSED
from runs.threads import conversation
from runs.threads.conversation import Message
from runs.workflows.registry import traits_of

SHOWN, CHARACTERS = 200, 300_000
"""Messages on a page, and what they have together; the last one has as many as it has."""
LOOPS = 15
"""Loops that an agent may take where its configuration does not say."""
MOST_LOOPS = 100
"""Segments of the bar."""
MOST_SPENT = 10**15
"""Tokens, calls, or units of money: what is more was not spent."""
LONGEST = 10_000
"""Characters of arguments or of a result on the page; of a longer one both ends."""
STATUSES = {
    "done": gettext_lazy("Done"),
    "failed": gettext_lazy("Failed"),
    "rejected": gettext_lazy("Rejected"),
    "answered": gettext_lazy("Answered by a person"),
    "waiting": gettext_lazy("Waiting for a person"),
    "running": gettext_lazy("Running"),
    "withdrawn": gettext_lazy("Not made: its run ended first"),
}


@dataclass(frozen=True, kw_only=True)
class ToolCard:
    """A call of a tool."""

    id: str
    tool: str
    arguments: str
    result: str
    status: str
    ms: int | None
    answered_by: str = ""
    """The name of who answered in the tool's place, "" where nobody did or it is not known."""
    changed_by: str = ""
    """The name of who changed the arguments; "" where it is not known."""
    was: str = ""
    """The arguments as the model wanted them, where a person changed them."""

    @property
    def status_words(self) -> str:
        if self.answered_by:
            return gettext("Answered by %(who)s") % {"who": self.answered_by}
        return str(STATUSES.get(self.status, self.status.capitalize()))

    @property
    def took(self) -> str:
        if (
            self.ms is None
            or abs(self.ms) > MOST_SPENT
            or self.status in {"running", "waiting", "answered", "withdrawn"}
        ):
            return ""
        took = dt.timedelta(milliseconds=self.ms)
        return f"{self.ms} ms" if self.ms < 1_000 else times.in_words(took)


@dataclass(frozen=True, kw_only=True)
class Bubble:
    """A message, with its calls."""

    message: Message
    cards: Sequence[ToolCard]
    editable: bool = False

    @property
    def who(self) -> str:
        return self.message.role.capitalize() or gettext("Message")

    @property
    def left_out(self) -> str:
        """What the model was not given for it, in words."""
        return in_words(self.message.left_out)

    @property
    def ended(self) -> str:
        """Why it is no whole answer, in words; "" for a whole one."""
        return endings.in_words(self.message.ended)


@dataclass(kw_only=True)
class Stream:
    """What the step at work has said since its last checkpoint."""

    text: str = ""
    thinking: str = ""
    cards: list[ToolCard] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A loop in the bar."""

    number: int
    classes: str
    checkpoint: Any
    """Key of the checkpoint after it; None where there is none."""


@dataclass(frozen=True, kw_only=True)
class Loops:
    """How far an agent has come."""

    current: int
    most: int
    segments: Sequence[Segment]


def of(
    thread: Thread,
    run: Run | None,
    state: Mapping[str, Any],
    here: ListAddress,
    *,
    observer: bool,
    log: Sequence[Event],
    has_queue: bool,
) -> dict[str, Any]:
    """What the conversation's templates need.

    Args:
        observer: somebody who is only asked: sees, and edits nothing.
        log: log lines, oldest first, among them those on what was spent.
        has_queue: whether messages wait for their turn.
    """
    messages = conversation.of(state)
    end, page = _page(messages, here)
    alive = run is not None and run.status in LIVE
    turns = conversation.turns_in(messages) if not observer and not alive else set()
    works = run is not None and alive and run.status != PAUSED
    rows = conversation.settled(thread, conversation.marked(thread, page.rows))
    who = _decided_by(thread, rows)
    return {
        "said": [_bubble(message, editable=message.id in turns, who=who) for message in rows],
        "said_page": page,
        "earlier": end - len(page.rows),
        "unheard": _unheard(run, messages),
        "stream": _stream(conversation.spoken_by(run.pk, thread.pk, up_to=thread.last_seq))
        if run is not None and works
        else None,
        "loops": loops_of(run),
        "model": _model_of(run),
        "spent": _spent(run, log),
        "queue": list(QueuedTurn.objects.waiting().filter(thread=thread).select_related("by"))
        if has_queue
        else [],
    }


def _page(messages: Sequence[Message], here: ListAddress) -> tuple[int, ListPage[Message]]:
    """The messages that an address asks for, the last ones unless it says before which; and the
    number of the first after them.

    New ones come at the end, so a number names the same message for as long as no person edits what
    was said before it.
    """
    wanted = here.query.get("said", "")
    if wanted and not (
        wanted.isascii()
        and wanted.isdecimal()
        and len(wanted) < 10
        and 0 < int(wanted) <= len(messages)
    ):
        raise NoSuchPlace("There is no such place in this conversation.")
    end = int(wanted) if wanted else len(messages)
    begin, room = end, CHARACTERS
    while begin and end - begin < SHOWN:
        room -= len(messages[begin - 1].content)
        if room < 0 and begin < end:
            break
        begin -= 1
    earlier = here.to("said-title", said=str(begin)) if begin else ""
    return end, ListPage(
        list(messages[begin:end]),
        next=earlier,
        first=here.to("said-title", said="") if wanted else "",
    )


def _decided_by(thread: Thread, messages: Iterable[Message]) -> dict[str, str]:
    """Decision by which a person answered in a tool's place, or changed its arguments → that
    person's name.
    """
    names = {
        call.decision
        for message in messages
        for call in message.tools
        if (call.status == "answered" or call.was is not None) and call.decision
    }
    keys = {key for name in names if (key := _key(name)) is not None}
    if not keys:
        return {}
    given = Decision.objects.filter(pk__in=keys, pause__run__thread=thread)
    return {
        decision.shown_id: decision.who
        for decision in given.select_related("decided_by", "on_behalf_of")
    }


def _key(name: str) -> uuid.UUID | None:
    try:
        return ids.parse(Decision.PREFIX, name)
    except ValueError:
        return None


def _bubble(message: Message, *, editable: bool, who: Mapping[str, str]) -> Bubble:
    cards = [
        ToolCard(
            id=call.id,
            tool=call.tool,
            arguments=written(call.arguments),
            result=shortened(call.result),
            status=call.status,
            ms=call.ms,
            answered_by=who.get(call.decision, "") if call.status == "answered" else "",
            **_changed(call.was, who.get(call.decision, "")),
        )
        for call in message.tools
    ]
    return Bubble(message=message, cards=cards, editable=editable)


def _changed(was: Any, who: str = "") -> dict[str, str]:
    return {} if was is None else {"was": written(was), "changed_by": who}


def written(value: Any) -> str:
    """A JSON value as people read it."""
    return shortened(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def shortened(text: str) -> str:
    """At most LONGEST characters."""
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}\n...[truncated]...\n{text[-half:]}"


def _unheard(run: Run | None, messages: Iterable[Message]) -> str:
    """What a person said that began the run, until the run's own messages hold it."""
    text = run.input.get("input") if run is not None and isinstance(run.input, Mapping) else None
    if run is None or run.status == COMPLETED or not isinstance(text, str) or not text.strip():
        return ""
    heard = any(
        message.by_person
        and (message.run_id == run.shown_id or (not message.run_id and message.content == text))
        for message in messages
    )
    return "" if heard else text


def _stream(events: Sequence[Event]) -> Stream:
    calls: dict[str, dict[str, Any]] = {}
    for event in events:
        if (
            event.kind != EventKind.STREAMING_CHUNK
            and isinstance(event.data, Mapping)
            and "tool" in event.data
        ):
            calls.setdefault(str(event.data.get("id", "")), {}).update(event.data)
    cards = [
        ToolCard(
            id=name,
            tool=str(call["tool"]),
            arguments=written(call.get("arguments")),
            result=shortened(str(call.get("result", ""))),
            status=str(call.get("status", "running")),
            ms=call.get("ms") if isinstance(call.get("ms"), int) else None,
            **_changed(call.get("was")),
        )
        for name, call in calls.items()
    ]
    return Stream(
        text=conversation.text_of(events),
        thinking=shortened(conversation.thinking_of(events)),
        cards=cards,
    )


def _model_of(run: Run | None) -> str:
    """The model that the run's agent asks, `provider:name` or `scripted`; "" where it has none."""
    steps = run.definition.steps if run is not None else []
    asking = (step for step in steps if traits_of(step["function"]).asks_servers_model)
    agent = next(asking, None)
    return model.name_of(str(agent["config"].get("model") or "")) if agent else ""


def loops_of(run: Run | None) -> Loops | None:
    """The loops of the step that a run is at, where that is one that loops."""
    head = run.thread.head if run is not None else None
    if run is None or head is None:
        return None
    name = family.current_step(run)
    step = next(
        (candidate for candidate in run.definition.steps if candidate["name"] == name), None
    )
    if step is None:
        return None
    if not traits_of(step["function"]).loops and "max_loops" not in step["config"]:
        return None
    kept = _checkpoints_by_loop(run, name)
    works = run.status in LIVE and run.status != PAUSED
    current = (
        int(head.metadata.get("loops", {}).get(name, 0)) + 1
        if works
        else max([head.loop_num, *kept], default=1)
    )
    wanted = step["config"].get("max_loops", LOOPS)
    most = min(MOST_LOOPS, max(wanted if isinstance(wanted, int) else LOOPS, current))
    segments = [_segment(number, current, run, kept) for number in range(1, most + 1)]
    return Loops(current=current, most=most, segments=segments)


def _checkpoints_by_loop(run: Run, step: str) -> dict[int, Any]:
    """Loop → the newest checkpoint after it, of the run and of those that it goes on for."""
    before = dict(Run.objects.filter(thread=run.thread_id).values_list("pk", "retry_of"))
    mine = Checkpoint.objects.filter(
        thread=run.thread_id, run_id__in=list(family.chain(run.pk, before)), node_id=step
    )
    return dict(mine.order_by("pk").values_list("loop_num", "pk"))


def _segment(number: int, current: int, run: Run, kept: Mapping[int, Any]) -> Segment:
    ended = run.status not in LIVE
    place = (
        "completed"
        if number < current or (ended and number == current and run.status == COMPLETED)
        else ""
    )
    place = "current" if number == current and not ended else place
    classes = " ".join(
        filter(None, ["loop-segment", place, "has-checkpoint" if number in kept else ""])
    )
    return Segment(number=number, classes=classes, checkpoint=kept.get(number))


def _spent(run: Run | None, log: Sequence[Event]) -> dict[str, Any] | None:
    """What the run's requests came to: each loop, the run, the thread, and what is left; None
    before the first.
    """
    payloads = [
        event.data
        for event in log
        if run is not None and event.run_id == run.pk and isinstance(event.data, Mapping)
    ]
    rows = [data for data in payloads if data.get("what") == "usage"]
    if not rows:
        return None
    last = rows[-1]
    return {
        "loops": [(data.get("loop", data.get("loop_num")), _price(data)) for data in rows],
        "run": _price(last["run"]) if isinstance(last.get("run"), Mapping) else _price(_sum(rows)),
        "thread": _price(last["thread"]) if isinstance(last.get("thread"), Mapping) else "",
        "left": _left(last.get("left")),
    }


def _sum(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {
        name: sum(_amount(row, name) for row in rows)
        for name in ("input_tokens", "output_tokens", "cost")
    }


def _price(used: Mapping[str, Any]) -> str:
    tokens, cost = (
        int(_amount(used, "input_tokens") + _amount(used, "output_tokens")),
        _amount(used, "cost"),
    )
    return f"{tokens:,} tokens" + (
        f", {cost:.4f} USD" if cost else gettext(", price unknown") if used.get("unpriced") else ""
    )


def _left(left: Any) -> str:
    """`1,200 tokens, 0.4000 USD, 12 tool calls, 40 s`, of what is limited."""
    if not isinstance(left, Mapping):
        return ""
    forms = {
        "total_tokens": "{:,.0f} tokens",
        "cost": "{:.4f} USD",
        "tool_calls": "{:,.0f} tool calls",
        "seconds": "{:,.0f} s of work",
    }
    return ", ".join(
        form.format(_amount(left, name)) for name, form in forms.items() if name in left
    )


def _amount(values: Mapping[str, Any], name: str) -> float:
    """A number that can be written out; 0 for what is none."""
    value = values.get(name, 0)
    return (
        value
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) < MOST_SPENT
        else 0
    )
