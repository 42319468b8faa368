"""What the pages of a work order and of a thread share: a run with its child runs, the question
that is open, and the story so far.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.urls import reverse

from checkpoints import store
from checkpoints.database.people import User
from checkpoints.models import Blob, Event, EventKind
from hitl.decisions import revisions
from hitl.forms.json_schema import SchemaForm
from hitl.forms.pages import DecisionForm
from hitl.forms.tool_calls import CallsForm, form_of
from hitl.models import Decision
from hitl.rendering import paging, patches
from hitl.rendering.paging import ListAddress, ListPage
from hitl.views import cards, typed
from hitl.views.common import home_of, place_of
from runs.models import Definition, Pause, Run
from runs.services import external_runs
from runs.states import LIVE, PAUSED, PENDING, RUNNING, STOPS
from runs.workflows import sequence
from runs.workflows.sequence import APPROVE, REVISE

TIMELINE = 100
LOG = 200
BY_SEQ = paging.ListOrder(key="seq", newest=True)
OUTPUT = 500
"""Chunks of output that a page begins with."""
LISTS = ("events", "log", "runs", "said", "artifacts")
"""Names that an address gives to places in the lists of a page."""
CHILD_OUTPUT = 1_000
"""Characters of a child run's output that its parent's page shows."""


@dataclass(frozen=True)
class Member:
    """A child run as the page lists it."""

    run: Run
    above: Sequence[str]
    """Names of the child runs that it runs for, from the top."""
    pause: Pause | None
    """The question it waits with."""

    @property
    def level(self) -> int:
        return len(self.above) + 1

    @property
    def name(self) -> str:
        return self.run.child_name

    @property
    def status(self) -> str:
        """Who waits for child runs of its own is at work."""
        return "running" if self.run.awaited else str(self.run.status)

    @property
    def step(self) -> str:
        """The title of the step it is at; "" where it has ended."""
        return step_title(self.run) if self.run.status in LIVE else ""

    @property
    def output(self) -> str:
        """The end of what its step at work says."""
        return output_of(self.run.thread_id)[-CHILD_OUTPUT:] if self.run.status == RUNNING else ""

    @property
    def place(self) -> str:
        return place_of(self.pause) if self.pause else ""


def family_of(run: Run | None) -> list[Run]:
    """The runs below a run and below those that it retries, in their parents' order: every version
    of each child run.
    """
    if run is None:
        return []
    found: list[Run] = []
    level: Iterable[uuid.UUID] = chain(
        run.pk, dict(Run.objects.filter(thread=run.thread_id).values_list("pk", "retry_of"))
    )
    related = Run.objects.select_related("thread__head", "definition").defer("thread__head__body")
    while below := list(related.filter(parent__in=level).order_by("id")):
        found += below
        level = [one.pk for one in below]
    return found


def members_of(run: Run | None, family: Sequence[Run], pauses: Iterable[Pause]) -> list[Member]:
    """The newest run of each child's name, each followed by its own child runs."""
    if run is None or not family:
        return []
    below: dict[uuid.UUID | None, list[Run]] = defaultdict(list)
    for one in family:
        below[one.parent_id].append(one)
    before = dict(Run.objects.filter(thread=run.thread_id).values_list("pk", "retry_of")) | {
        one.pk: one.retry_of_id for one in family
    }
    asked = {pause.run_id: pause for pause in pauses}

    def walk(parent: uuid.UUID, above: tuple[str, ...]) -> Iterator[Member]:
        newest = {}
        for child in sorted(
            (kid for version in chain(parent, before) for kid in below[version]),
            key=lambda kid: kid.pk,
        ):
            newest[child.child_name] = child  # stays at the place of the first of its name
        for child in newest.values():
            yield Member(child, above, asked.get(child.pk))
            yield from walk(child.pk, (*above, child.child_name))

    return list(walk(run.pk, ()))


def chain(
    run_id: uuid.UUID | None, before: Mapping[uuid.UUID, uuid.UUID | None]
) -> Iterator[uuid.UUID]:
    """A run, the one it retries, and so on."""
    while run_id is not None:
        yield run_id
        run_id = before.get(run_id)


def step_title(run: Run) -> str:
    """The title of the step that a run is at."""
    name = current_step(run)
    return next((step["title"] for step in run.definition.steps if step["name"] == name), name)


def current_step(run: Run) -> str:
    """The step that runs, waits to run, or asks."""
    head = run.thread.head
    if head is None:
        return ""
    return head.node_id if run.status == PAUSED else head.next_step or head.node_id


def waiting_for(run: Run | None) -> dict[str, Any] | None:
    """At which step a run waits for how many child runs, how many it has started and seen end; None
    where it waits for none.
    """
    if run is None or not run.awaited or run.thread.head is None:
        return None
    started = len(run.thread.head.metadata.get("gather", {}).get("children", []))
    return {
        "step": run.thread.head.node_id,
        "awaited": run.awaited,
        "started": started,
        "ended": max(0, started - run.awaited),
    }


def choose(pauses: Sequence[Pause], wanted: str) -> tuple[Pause | None, str]:
    """The question to show, and what to say where the one that was wanted is not open (any
    more).
    """
    found = next((pause for pause in pauses if pause.shown_id == wanted), None)
    if found or not wanted:
        return found or next(iter(pauses), None), ""
    return next(
        iter(pauses), None
    ), "That question is not open any more. This is how it stands now."


def card_of(
    pauses: Sequence[Pause],
    wanted: str,
    *,
    by: User,
    observer: bool = False,
    form: DecisionForm | None = None,
    inputs: SchemaForm | CallsForm | None = None,
    answered: Pause | None = None,
    problem: str = "",
    wrong: bool = False,
    more: typed.Words | None = None,
) -> dict[str, Any]:
    """What the pause card shows.

    Args:
        wanted: shown id of the question that the address names, or "".
        by, observer: who looks, and whether without taking part in the thread.
        form, inputs, answered: what was typed, and for which question. No other card shows it:
            there it is `unsent`.
        problem, wrong: what is said above the card, and whether it is something to put right.
        more: further words that were not taken, and that no card has a field for.
    """
    pause, gone = choose(pauses, wanted)
    unsent = list(more or [])
    if answered is not None and answered != pause:
        unsent = typed.words_of(answered, form, inputs, cards.of(answered, by).known) + unsent
    if pause is None:
        return {
            "pause": None,
            "form": DecisionForm(),
            "problem": problem or gone,
            "wrong": wrong,
            "unsent": unsent,
            "others": [],
        }
    patch, damage = patch_of(pause)
    same = answered is None or answered == pause
    form = (form if same else None) or DecisionForm()
    inputs = inputs if same else None
    form.look_at(inputs)
    standing = cards.of(pause, by)
    return {
        "unsent": unsent,
        "wrong": wrong,
        "edit": form.edit_of(pause),
        "pause": pause,
        "standing": standing,
        "form": form,
        **_changes(pause),
        "inputs": inputs or form_of(pause, known=standing.known),
        "problem": problem or damage or gone,
        "patch": patch,
        "ways": _ways(pause),
        "leads": leads(pause),
        "ends": ends(pause.run),
        "whose": whose(pause.run),
        "own_steps": _own_steps(pause),
        "cancel": cancel_of(pause, observer=observer),
        "others": [(one, whose(one.run), place_of(one)) for one in pauses if one.pk != pause.pk],
        "chosen": pause.shown_id if pause.shown_id == wanted else "",
    }


def _changes(pause: Pause) -> dict[str, Any]:
    """What this revision changed against the one before."""
    before = revisions.earlier(pause) if pause.revision > 1 else None
    return {"before": before, "changes": revisions.changes(before, pause) if before else []}


def whose(run: Run) -> str:
    """What a child run is called, with those it runs for: `draft / intro`; "" for a run that is
    nobody's child.
    """
    names = []
    at: Run | None = run
    while at is not None and at.parent_id is not None:
        names.append(at.child_name)
        at = at.parent if at.depth > 1 else None
    return " / ".join(reversed(names))


def patch_of(pause: Pause) -> tuple[patches.ReadPatch | None, str]:
    """The patch as the page shows it, and what is wrong where it cannot be read; None where there
    is none.
    """
    if not pause.patch_digest:
        return None, ""
    try:
        return patches.parse(
            store.get_blob(pause.patch_digest).decode("utf-8", "surrogateescape")
        ), ""
    except (store.CheckpointDamaged, Blob.DoesNotExist) as error:
        return None, f"The patch cannot be shown: {error}. Do not approve what you cannot see."


def leads(pause: Pause) -> dict[str, str]:
    """Answer → the title of the step it leads to; empty where it leads to the end."""
    titles = {step["name"]: step["title"] for step in pause.run.definition.steps}
    return {name: titles.get(to, "") or elsewhere(pause.run) for name, to in pause.ways.items()}


def elsewhere(run: Run) -> str:
    """What goes on where another engine waits here; "" for a run of ours."""
    return (
        f"{run.thread} at {run.input.get('node_id', '')}"
        if run.definition.template_slug == external_runs.SLUG
        else ""
    )


def _ways(pause: Pause) -> list[dict[str, str]]:
    """The answers that the template adds, and where each leads."""
    names = {step["name"]: step["title"] for step in pause.run.definition.steps}
    return [
        {
            "name": name,
            "label": pause.labels[name],
            "to": names.get(to) or elsewhere(pause.run) or "the end",
        }
        for name, to in pause.ways.items()
        if name in pause.labels and name != APPROVE
    ]


def ends(run: Run) -> str:
    """What is complete where an answer leads to the end."""
    return (
        "This child run"
        if run.parent_id is not None
        else "The order"
        if run.work_order_id is not None
        else "The run"
    )


def _own_steps(pause: Pause) -> list[dict[str, str]]:
    """The steps of a child run that asks; none where it has but one."""
    definition = pause.run.definition
    if pause.run.parent_id is None or len(definition.steps) < 2:
        return []
    return progress_of(definition, pause.step, "paused", pause.phase)


def cancel_of(pause: Pause, *, observer: bool = False) -> dict[str, str]:
    """What cancel does at this question, in words, and the page that asks whether one is sure.

    A observer has that of the question only.
    """
    run = pause.run
    if run.parent_id is not None:
        asks, words = f"the child run {run.child_name}", _end_of_child(run)
        url = reverse("hitl:pause_cancel", args=[pause.pk])
    elif outer := elsewhere(run):
        asks, words = "this wait", f"Ends the wait; {outer} is told that it was cancelled."
        url = reverse("hitl:thread_cancel", args=[run.thread_id])
    elif run.work_order_id is not None:
        asks, words = "this work order", "Ends the order."
        url = reverse("hitl:order_cancel", args=[run.work_order_id])
    else:
        asks, words = (
            "this run",
            "Ends this run. The thread stays, and a new message begins another run.",
        )
        url = reverse("hitl:thread_cancel", args=[run.thread_id])
    if observer:
        url = reverse("hitl:pause_cancel", args=[pause.pk])
    return {
        "asks": f"Are you sure you want to cancel {asks}?",
        "words": words,
        "url": url,
        "home": home_of(run),
    }


def _end_of_child(run: Run) -> str:
    """A failed child run takes its parent along, and so on, up to the first that can do without
    it.
    """
    whole = "order" if run.work_order_id is not None else "run"
    falls: list[str] = []
    at = run
    while at.parent is not None:
        if at.optional and at.parent.parent_id is None:
            return (
                f"Ends this child run{_with(falls)}; the {whole} goes on without "
                f"{'them' if falls else 'it'}."
            )
        if at.optional:
            return (
                f"Ends this child run{_with(falls)}; {at.parent.child_name} goes on without "
                f"{'them' if falls else 'it'}."
            )
        at = at.parent
        if at.parent_id is not None:
            falls.append(at.child_name)
    return f"Ends this child run; the {whole} then fails."


def _with(names: list[str]) -> str:
    return f" and with it {' and '.join(names)}" if names else ""


def progress_of(
    definition: Definition, current: str, status: str, phase: str | None, *, gathers: bool = False
) -> list[dict[str, str]]:
    """The steps and the pauses between them, each `done`, `now`, `failed` or `todo`; what is `now`
    and waits for a worker is `next` too.

    Args:
        status: an order's. With `gathers` its child runs work for the current step, and `paused`
            says that one of them asks.
        phase: of the question that is open, or that the run ended at; None where there is none. A
            question that is not the pause after its step is the step's own, which is not done
            before it is answered.
    """
    parts: list[dict[str, str]] = []
    state = "done" if current else "todo"
    for step in definition.steps:
        here = step["name"] == current and status != "completed"
        stopped = status == "paused" and phase in STOPS
        is_done = (
            here
            and not gathers
            and (stopped or (status in {"paused", "failed"} and sequence.asks_after(step, phase)))
        )
        if here:
            state = "todo"
        at = "failed" if status == "failed" else "now"
        more = (
            {"person": "yes"}
            if status == "paused"
            else {"next": "yes"}
            if status == "pending"
            else {}
        )
        parts.append(
            {"title": step["title"], "state": "done" if is_done else at, **more}
            if here
            else {"title": step["title"], "state": state}
        )
        if step["pause_after"]:
            parts.append(
                {
                    "title": sequence.pause_title(step),
                    "state": at if is_done else state,
                    "person": "yes",
                }
            )
    return parts


def rerunning_of(run: Run | None, family: Sequence[Run], pauses: Sequence[Pause]) -> dict[str, str]:
    """The step that runs again with somebody's feedback, and the feedback: while nothing is
    asked.
    """
    nothing = {"rerunning": "", "feedback": ""}
    if run is None or pauses:
        return nothing
    newest = {one.thread_id: one for one in sorted([run, *family], key=lambda one: one.pk)}
    decisions = Decision.objects.select_related("pause__run").filter(
        pause__run__thread__in=list(newest)
    )
    last = decisions.order_by("-id").first()
    if last is None or last.pause is None or last.action != REVISE:
        return nothing
    at = newest[last.pause.run.thread_id]
    step = current_step(at)
    if step != last.pause.ways.get(REVISE) or not (at.status in {PENDING, RUNNING} or at.awaited):
        return nothing
    return {
        "rerunning": f"{at.child_name}: {step}"
        if at.child_name and at.child_name != step
        else step,
        "feedback": last.feedback,
    }


def story_of(thread_id: uuid.UUID, here: ListAddress) -> dict[str, Any]:
    """What has happened on a thread: of the timeline, newest first, and of the log, oldest first,
    the pages that an address asks for.
    """
    events = Event.objects.filter(thread=thread_id)
    told = events.exclude(kind__in=[EventKind.STREAMING_CHUNK, EventKind.LOG])
    timeline = paging.in_order(told, BY_SEQ, here, "events", size=TIMELINE, anchor="timeline-title")
    log = paging.in_order(
        events.filter(kind=EventKind.LOG), BY_SEQ, here, "log", size=LOG, anchor="log-title"
    )
    return {
        "output": output_of(thread_id),
        "timeline": timeline,
        "log": replace(log, rows=log.rows[::-1]),
    }


def newest_lines(thread_id: uuid.UUID, log: ListPage[Event]) -> list[Event]:
    """The newest lines of a thread's log, oldest first, whichever page of it is looked at."""
    if not log.first:
        return log.rows
    return list(BY_SEQ(Event.objects.filter(thread=thread_id, kind=EventKind.LOG))[:LOG])[::-1]


TOOLS = (EventKind.TOOL_CALL_STARTED, EventKind.TOOL_CALL_COMPLETED)
"""What a step tells while it works, as it does with lines of the log."""


def output_of(thread_id: uuid.UUID) -> str:
    """The end of what the step at work on a thread has said so far (S0-3); "" where none works."""
    events = Event.objects.filter(thread=thread_id).exclude(
        kind__in=[EventKind.STREAMING_CHUNK, EventKind.LOG, *TOOLS]
    )
    last = events.order_by("-seq").first()
    if last is None or last.kind != EventKind.STEP_STARTED:
        return ""
    chunks = Event.objects.filter(
        thread=thread_id, seq__gt=last.seq, kind=EventKind.STREAMING_CHUNK
    ).order_by("-seq")[:OUTPUT]
    return "".join(
        str(event.data.get("content", ""))
        for event in reversed(chunks)
        if isinstance(event.data, Mapping)
    )


def suspended_by(runs: Iterable[Run]) -> str:
    """Who wants the runs at work to stop at their next step boundary."""
    return next(
        (run.suspend_by for run in runs if run.suspend_by and run.status in {PENDING, RUNNING}), ""
    )
