"""Starting a run, answering what a thread asks, ending both."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from checkpoints.models import Thread, WhenBusy
from extensions.langgraph.api import (
    assistants,
    interrupts,
    keys,
    reviewing,
    segments,
    threads,
)
from extensions.langgraph.api.assistants import Saved
from extensions.langgraph.api.calls import Call, Given, invalid, key_of
from extensions.langgraph.api.resuming import late, replies
from extensions.langgraph.api.reviewing import SeenThread
from extensions.langgraph.api.segments import Segment
from hitl.decisions.services import (
    AlreadyAnswered,
    NotFound,
    NotPaused,
    SeveralQuestions,
    answered_before,
    decide_all,
    end_run,
)
from hitl.live.pump import StreamRefused
from hitl.models import LangGraphRun
from hitl.outbound.links import absolute
from hitl.rendering.links import place_of
from hitl.threads import messages
from runs import keyed
from runs.models import Pause, Run, Template
from runs.security import scopes
from runs.threads.turns import Turn
from runs.workflows import schemas

REASON = "LangGraph client"
NOT_ASKED = (AlreadyAnswered, NotPaused)
"""What an answer meets to a question that is not, or no longer, asked."""
END = "__end__"
BUSY = {
    "reject": WhenBusy.REFUSE,
    "enqueue": WhenBusy.QUEUE,
    "interrupt": WhenBusy.INTERRUPT,
}
MODES = frozenset(
    {
        *("values", "updates", "checkpoints", "tasks", "debug", "custom", "messages-tuple"),
        "events",
    }
)
VALUES = frozenset({"values"})
"""What is told where a client asks for nothing else."""


class Command(Given):
    resume: Any = None
    goto: Any = None
    update: Any = None


class RunIn(Given):
    assistant_id: str = ""
    input: Any = None
    command: Command | None = None
    metadata: dict[str, Any] = {}
    config: dict[str, Any] = {}
    stream_mode: str | list[str] = "values"
    stream_subgraphs: bool = False
    stream_resumable: bool = True
    durability: str = ""
    checkpoint: dict[str, Any] = {}
    checkpoint_id: str = ""
    interrupt_before: str | list[str] = []
    interrupt_after: str | list[str] = []
    multitask_strategy: Literal["reject", "enqueue", "interrupt", "rollback"] = "enqueue"
    if_not_exists: Literal["create", "reject"] = "reject"
    on_disconnect: Literal["cancel", "continue"] = "continue"
    on_completion: Literal["delete", "keep"] = "keep"
    checkpoint_during: bool = True
    after_seconds: float = 0
    webhook: str = ""
    context: dict[str, Any] = {}
    # what released clients send along and this server does anyhow, or never
    raise_error: bool = True
    strict_resume: bool = True
    feedback_keys: list[str] = []
    langsmith_tracer: Any = None

    @property
    def modes(self) -> frozenset[str]:
        given = [self.stream_mode] if isinstance(self.stream_mode, str) else self.stream_mode
        return frozenset(given) or VALUES


def read(call: Call) -> RunIn:
    """The body of a new run. Raises StreamRefused where it asks for what this door has not."""
    given = call.body(RunIn)
    for name, why in {
        "webhook": "deliveries of this server are set up by its people",
        "after_seconds": "use a schedule",
    }.items():
        if getattr(given, name):
            raise invalid(f"{name}: not here; {why}.")
    if given.on_completion == "delete":
        raise invalid("on_completion: a record is kept here; send keep.")
    if given.multitask_strategy == "rollback":
        raise invalid("multitask_strategy: a record is never rolled back; send interrupt.")
    if given.context:
        raise invalid("context: templates are configured by this server's people.")
    if unknown := sorted(given.modes - MODES):
        raise invalid(f"stream_mode: there is no {unknown[0][:60]} here.")
    check_config(given.config)
    return given


def check_config(config: Mapping[str, Any], *, of_run: bool = True) -> None:
    """Raise StreamRefused for what of a configuration would have no effect.

    Args:
        of_run: one run's, which has metadata, and may say where it goes on.
    """
    taken = {"recursion_limit", "configurable", "tags", *(["metadata"] if of_run else [])}
    if not isinstance(config.get("metadata") or {}, Mapping):
        raise invalid("config.metadata is an object.")
    if unknown := sorted(set(config) - taken):
        raise invalid(f"config: {unknown[0][:60]} has no effect here.")
    settings = config.get("configurable") or {}
    places = {"thread_id", "checkpoint_id"} if of_run else set()
    if not isinstance(settings, Mapping) or set(settings) - places:
        raise invalid("config.configurable: templates are configured by this server's people.")


def check_command(command: Command) -> None:
    """Raise StreamRefused for what of a command would be two acts, of which one may stand alone."""
    if command.update:
        raise invalid(
            "command.update: an answer changes what was asked about, by edit or content, and no "
            "state beside it. Resume first; where nothing runs, update_state does it."
            if command.resume is not None
            else "command.update: call update_state, then begin a run whose input is null."
        )
    if command.goto and command.goto != END:
        raise invalid(
            "command.goto is __end__ here. Where nothing runs, update_state with as_node says "
            "behind which step the next run, whose input is null, goes on."
        )
    if command.goto and command.resume is not None:
        raise invalid("command: goto __end__ ends the run with its question; send no resume.")


def begin(call: Call) -> tuple[Thread, Segment, RunIn]:
    """Start a run, or answer what the thread asks. Raises as `messages.say` and `decide`."""
    given = read(call)
    command = given.command or Command()
    goto = command.goto or None  # of LangGraph's own Command it is an empty list
    check_command(command)
    if given.command is not None and given.input:  # hooks send an empty one along
        raise invalid("Send input or a command, not both.")

    def act() -> keys.Begun:
        found = _thread(call, given)
        thread, saved = found.thread, None
        metadata = {**(given.config.get("metadata") or {}), **given.metadata}
        if goto == END:
            wire = end(call, thread).wire_id
        elif given.command is not None:
            wire = answer(call, found, command.resume, shown=_place(thread, given))
        else:
            template, saved = assistants.chosen(call, given.assistant_id)
            metadata = {**(saved.metadata if saved else {}), **metadata}
            wire = _start(call, thread, given, template)
        note(thread, wire, metadata, modes=given.modes, saved=saved)
        return thread.pk, wire

    thread_id, wire = keys.once(call, act)
    return reviewing.by_key(call, thread_id), segments.find(thread_id, wire), given


def _place(thread: Thread, given: RunIn) -> str:
    """The checkpoint that a page shows, "" where none is named.

    Raises StreamRefused where it is not the thread's newest any more.
    """
    place = str(given.checkpoint_id or given.checkpoint.get("checkpoint_id") or "")
    is_past = place and key_of(place, "checkpoint_id") != thread.head_id
    if is_past and messages.open_on(thread.pk):  # else it hears who answered
        raise StreamRefused(
            409, "stale", "Nothing was decided: this thread has gone on since. Look again."
        )
    return place


def note(
    thread: Thread,
    wire_id: uuid.UUID,
    metadata: Mapping[str, Any],
    *,
    modes: frozenset[str] = VALUES,
    saved: Saved | None = None,
) -> None:
    """Keep what a client says of its run, in which words it is told of it, and the saved
    configuration that it was begun with.
    """
    said: dict[str, Any] = {"metadata": dict(metadata)} if metadata else {}
    if modes != VALUES:
        said["modes"] = sorted(modes)
    if saved is not None:
        said["assistant"] = saved.row.pk
    if said:
        LangGraphRun.objects.update_or_create(wire_id=wire_id, defaults={"thread": thread, **said})


def modes_of(wire_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, frozenset[str]]:
    """The modes that runs were begun with, where a client named others than `values`."""
    rows = LangGraphRun.objects.filter(wire_id__in=wire_ids).exclude(modes=[])
    return {key: frozenset(modes) for key, modes in rows.values_list("wire_id", "modes")}


def _thread(call: Call, given: RunIn) -> SeenThread:
    """The thread of a new run. One that is made for it uses no request's key up."""
    with keyed.at_work(None):
        return _found_or_made(call, given)


def _found_or_made(call: Call, given: RunIn) -> SeenThread:
    if "thread_id" not in call.names:
        return SeenThread(thread=threads.made(call, None, {}, known=False))
    try:
        if given.command is not None and not given.command.goto:
            return reviewing.find(call)
        return SeenThread(thread=threads.find(call))
    except NotFound:
        if given.if_not_exists == "reject":
            raise
    thread = threads.made(call, call.key("thread_id"), {}, known=True)
    return SeenThread(thread=thread)


def _start(call: Call, thread: Thread, given: RunIn, template: Template) -> uuid.UUID:
    strategy = BUSY[given.multitask_strategy]
    asked = messages.open_on(thread.pk)
    if asked and strategy != WhenBusy.INTERRUPT:
        raise StreamRefused(
            409,
            "run_live",
            "This thread asks a question, which a message never answers by accident: answer it "
            "with command.resume, or send multitask_strategy interrupt.",
        )
    settings = given.config.get("configurable") or {}
    place = (
        given.checkpoint_id
        or given.checkpoint.get("checkpoint_id")
        or settings.get("checkpoint_id")
        or ""
    )
    key = key_of(place, "checkpoint_id") if place else None
    if key == thread.head_id and given.input:
        key = None  # a page names what it shows: a message follows that anyhow
    turn = Turn(
        template=template.slug,
        input=input_of(template, given.input),
        checkpoint_id=key,
        interrupt_before=_steps(template, given.interrupt_before),
        interrupt_after=_steps(template, given.interrupt_after),
        reason=REASON if key else "",
    )
    outcome = messages.say(
        thread.pk,
        turn,
        by=call.by,
        via=replies.VIA,
        auto_resume_pending=False,
        when_busy=strategy,
    )
    return outcome.queued.pk if outcome.queued is not None else outcome.run.pk


def _steps(template: Template, given: str | list[str]) -> list[str]:
    if given == "*":
        return assistants.names_of(template)
    names = [given] if isinstance(given, str) else given
    return [assistants.stop_at(template, name) for name in names]


def input_of(template: Template, given: Any) -> Mapping[str, Any] | None:
    """What a client gives, as the template takes it: of a chat's messages the last person's."""
    if isinstance(given, str):
        given = {"input": given}
    if given is not None and not isinstance(given, dict):
        raise invalid("input is an object, a text, or null.")
    takes = template.input_schema.get("properties", {}) if template.input_schema else {}
    if given and "input" in takes and "messages" not in takes and set(given) == {"messages"}:
        text = last_said(given["messages"])
        if text is None:
            raise invalid("input.messages: the last one is a person's, and has text.")
        return {"input": text}
    return dict(given) if given is not None else None


def last_said(listed: Any) -> str | None:
    """The text of the last message, where it is a person's."""
    last = listed[-1] if isinstance(listed, list) and listed else listed
    if isinstance(last, str):
        return last
    if not isinstance(last, dict) or last.get("type", last.get("role")) not in {"human", "user"}:
        return None
    content = last.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(text for text in parts if isinstance(text, str))
    return content if isinstance(content, str) and content else None


def answer(call: Call, found: SeenThread, value: Any, *, shown: str = "") -> uuid.UUID:
    """Answer what a thread asks: one value, or one for each interrupt by its id, all or none.
    Gives the id of the first answer.

    Args:
        shown: the checkpoint that a page shows, "" where that is not known.
    """
    scopes.check_answer()
    thread = found.thread
    pauses = messages.open_on(thread.pk) if found.asked is None else found.asked
    if isinstance(value, dict) and _names_interrupts(value, pauses):
        named = {interrupts.id_of(pause): pause for pause in pauses}
        if unknown := sorted(set(value) - named.keys()):
            raise _closed(thread, uuid.UUID(unknown[0]))
        return _decide([(named[key], value[key]) for key in sorted(value)], call)
    with late.kept_refused(call, thread):
        if not pauses:
            raise _closed(thread, None)
        pause = pauses[0] if len(pauses) == 1 else replies.meant(pauses, value)
        if pause is None:
            raise _unclear(pauses)
        replies.check_shown(pause, value, on_page=bool(shown))
        return _decide([(pause, value)], call)


def _decide(chosen: Sequence[tuple[Pause, Any]], call: Call) -> uuid.UUID:
    given = [(pause.pk, replies.answer_to(pause, one)) for pause, one in chosen]
    return decide_all(given, by=call.by)[0].pk


def _names_interrupts(value: Mapping[str, Any], pauses: Sequence[Pause]) -> bool:
    """Whether its keys are ids of interrupts, and not fields that happen to be called so."""
    if not value or not all(map(is_id, value)):
        return False
    asked = pauses[0].required_inputs if len(pauses) == 1 else None
    return not asked or not set(value) <= schemas.declared(asked).keys()


def is_id(key: Any) -> bool:
    """Whether it has the form of an interrupt's id."""
    return isinstance(key, str) and len(key) == 32 and set(key) <= set("0123456789abcdef")


def _unclear(pauses: Sequence[Pause]) -> StreamRefused:
    """As LangGraph, which resumes none of several interrupts by a value without an id."""
    ids = ", ".join(f"{interrupts.id_of(pause)} ({pause.step})" for pause in pauses)
    places = " ".join(absolute(place_of(pause)) for pause in pauses)
    return StreamRefused(
        409,
        SeveralQuestions.code,
        "Nothing was decided: this thread has several open questions, and the answer does not say "
        f"which one it is to. Name interrupts in command.resume, as {{id: answer}}: {ids}. Or "
        f"answer here: {places}",
    )


def _closed(thread: Thread, key: uuid.UUID | None) -> Exception:
    """Who answered meanwhile, where somebody did."""
    rows = Pause.objects.filter(run__thread=thread)
    return answered_before(rows if key is None else rows.filter(pk=key)) or NotPaused(
        "This thread asks no such question, so nothing was decided."
    )


def end(call: Call, thread: Thread) -> Segment:
    """End what runs on a thread, its question with it. Raises as `end_run`."""
    live = Run.objects.live().filter(thread=thread).first()
    if live is None:
        raise StreamRefused(409, "run_ended", "Nothing runs on this thread.")
    end_run(live, by=call.by, via=replies.VIA, reason=REASON)
    return segments.of_thread(thread.pk, enough=1)[0]
