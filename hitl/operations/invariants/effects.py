"""Effects: what was done behind a review, against the decisions that its frozen rules demand over
exactly that.

Checked is what the engine wrote, by the function that it asks itself
(`runs.engine.approvals.flaw`): the names of decisions at the heads of threads, what each step
relied on, how runs began, and what answers to stops changed.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from django.db.models import F, Q, QuerySet

from checkpoints import ids, store
from checkpoints.models import Checkpoint, CheckpointStatus, Event, EventKind, Memo, Thread
from hitl.decisions.approvals import DecisionRows
from hitl.models import STEP_AROUND, Decision
from hitl.operations.invariants.base import invariant
from runs.agents import approval, config, tools
from runs.models import Pause, Run
from runs.services import approvals
from runs.services.approvals import DecisionRecord, following
from runs.services.forks import ReviewStands, check_brought, check_reviews
from runs.states import FAILURE, STOPS
from runs.workflows import tool_calls
from runs.workflows.base import ConfigInvalid
from runs.workflows.registry import traits_of
from runs.workflows.reviews.rules import is_reviewed
from runs.workflows.sequence import FrozenStep

MEANT = ("decided", "revision_feedback", "decided_content")
"""State keys that an answer itself writes."""


Named = Callable[[Mapping[str, Any]], Mapping[str, Mapping[str, str]]]
"""Step → `{"decision", "material"}` that a checkpoint's metadata names; of the material "" where
nothing is compared.
"""
PART = 500


def _unfounded(rows: QuerySet[Checkpoint], named: Named) -> Iterator[Checkpoint]:
    """The checkpoints that name a decision which approves nothing of what that step came to, or not
    for the run that wrote them.
    """
    part: list[Checkpoint] = []
    for row in rows.defer("body").iterator(chunk_size=PART):
        part.append(row)
        if len(part) == PART:
            yield from _unfounded_in(part, named)
            part = []
    yield from _unfounded_in(part, named)


def _unfounded_in(part: Sequence[Checkpoint], named: Named) -> Iterator[Checkpoint]:
    given = {
        row: found
        for row in part
        if isinstance(row.metadata, dict) and (found := named(row.metadata))
    }
    if not given:
        return
    keys = {
        key
        for found in given.values()
        for approval in found.values()
        if (key := _key(approval["decision"])) is not None
    }
    known = DecisionRows().find(keys)
    runs = Run.objects.only("pk", "thread_id", "definition_id").in_bulk(
        [row.run_id for row in given]
    )
    for row, found in given.items():
        if not all(
            _counts(
                known.get(approval["decision"]),
                step,
                runs.get(row.run_id),
                row,
                approval["material"],
            )
            for step, approval in found.items()
        ):
            yield row


def _key(name: str) -> uuid.UUID | None:
    try:
        return ids.parse(Decision.PREFIX, name)
    except ValueError:
        return None


def _counts(
    record: DecisionRecord | None, step: str, run: Run | None, at: Checkpoint, material: str
) -> bool:
    if record is None or run is None or approvals.flaw(record, run, at, step):
        return False
    return material in {"", record.material}


@invariant(
    "P6",
    "What a run acts on as approved was approved for it, by the rules that its step has, and "
    "not taken back.",
    deep=True,
)
def approved_by_nobody(before: dt.datetime) -> Iterator[Checkpoint]:
    """Heads that name as approved what the ledger does not have, or has for another run, other
    rules, or another state.
    """
    heads = Checkpoint.objects.filter(pk__in=Thread.objects.filter(head__graph=None).values("head"))
    return _unfounded(heads, _approved)


def _approved(metadata: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Without those of earlier versions: they are looked up when they count, and believed no
    sooner.
    """
    approved = metadata.get(approvals.KEY, {})
    return {
        step: {"decision": name, "material": ""}
        for step, name in approved.items()
        if isinstance(name, str) and name
    }


@invariant("P6", "What a step did for an approval was approved, and is just that.", deep=True)
def done_for_nobody(before: dt.datetime) -> Iterator[Checkpoint]:
    """What a step did relying on an approval that is none, or that was for something else."""
    return _unfounded(
        Checkpoint.objects.filter(graph=None), lambda metadata: metadata.get(approvals.RELIED, {})
    )


@invariant("P6", "What was done behind a review relied on a decision, or said that none is wanted.")
def done_without_a_decision(before: dt.datetime) -> QuerySet[Memo]:
    """Results of `context.once` of steps behind a reviewed one that relied on no decision."""
    return Memo.objects.filter(unapproved=True)


@invariant("P6", "A step that its template pauses after is left by its question alone.", deep=True)
def left_without_its_question(before: dt.datetime) -> Iterator[Checkpoint]:
    """Checkpoints of a step with `pause_after` from which a run went on to another step, or ended,
    though it had not asked; not those of steps that their own condition passed over, or that failed
    and led where the template says.
    """
    left = Checkpoint.objects.filter(
        Q(parent__next_step=F("node_id")) | Q(parent__next_step="", parent__node_id=F("node_id")),
        graph=None,
        status__in=[CheckpointStatus.ACTIVE, CheckpointStatus.COMPLETED],
        thread__imported=None,
        parent__run_id=F("run_id"),
    ).exclude(next_step=F("node_id"))
    rows = left.defer("body", "parent__body").select_related("parent").iterator(PART)
    while part := list(islice(rows, PART)):
        runs = Run.objects.in_bulk({row.run_id for row in part})
        pausing = {
            key: {step["name"]: step for step in run.frozen.steps if step["pause_after"]}
            for key, run in runs.items()
        }
        yield from (
            row
            for row in part
            if (step := pausing.get(row.run_id, {}).get(row.node_id))
            and _has_left(row)
            and not _has_failed(row, step)
        )


def _has_failed(row: Checkpoint, step: FrozenStep) -> bool:
    """Whether a checkpoint is of a step that failed, and led where its template says."""
    failure = row.metadata.get(FAILURE)
    of_this = isinstance(failure, dict) and failure.get("step") == row.node_id
    return of_this and bool(row.next_step) and row.next_step == step.get("on_failure")


def _has_left(row: Checkpoint) -> bool:
    """Whether the step at a checkpoint is done, by itself or by the join of its child runs."""
    begins, joins = row.parent is not None and row.parent.next_step, "gather" in row.metadata
    if row.node_id in row.metadata.get(approvals.SKIPPED, ()) or (joins and not row.next_step):
        return False
    return bool(begins) or (row.parent is not None and "gather" in row.parent.metadata)


@invariant(
    "P6",
    "A run that begins behind a review with what a person named has the decision that says "
    "who and why.",
    deep=True,
)
def stepped_around_unrecorded(before: dt.datetime) -> Iterator[Run]:
    """Runs that begin behind a review, not as a checkpoint of their own definition stands.

    An imported run is history.
    """
    begun = Run.objects.filter(parent=None, thread__imported=None).only(
        "pk", "definition_id", "retry_of"
    )
    for run in begun.iterator(chunk_size=2000):
        if not any(is_reviewed(step) for step in run.frozen.steps) or not _stepped_around(run):
            continue
        if not Decision.objects.filter(pause__run=run, action=STEP_AROUND).exists():
            yield run


def _stepped_around(run: Run) -> bool:
    first = (
        Checkpoint.objects.filter(run_id=run.pk)
        .select_related("parent")
        .defer("body", "parent__body")
        .order_by("pk")
        .first()
    )
    if (
        first is None
        or first.dropped_before
        or not check_reviews(run.frozen.steps, first.next_step, around=True)
    ):
        return False
    parent = first.parent
    if parent is None:
        return True
    wrote = Run.objects.only("definition_id").filter(pk=parent.run_id).first()
    if wrote is None or wrote.definition_id != run.definition_id:
        return True
    if run.retry_of_id is not None:  # it goes on with what was begun, and asks again what expired
        return first.digest != parent.digest and parent.schema_version == first.schema_version
    return first.digest != parent.digest or first.next_step != following(parent)


@invariant("P6", "What the answer to a stop changed is not taken for approved.", deep=True)
def edited_at_a_stop(before: dt.datetime) -> Iterator[Pause]:
    """Answers to stops that changed the state behind a review, or kept the approvals of what they
    changed.
    """
    stops = Pause.objects.filter(
        phase__in=sorted(STOPS), decisions__undoes=None, decisions__isnull=False
    )
    for pause in stops.select_related("run__thread", "checkpoint").iterator(chunk_size=200):
        answer = Checkpoint.objects.filter(parent=pause.checkpoint_id, run_id=pause.run_id).first()
        if (
            answer is not None
            and answer.node_id == pause.checkpoint.node_id
            and _changed(pause.checkpoint, answer)
            and _kept(pause, answer)
        ):
            yield pause


def _kept(pause: Pause, answer: Checkpoint) -> bool:
    """Whether what an answer to a stop changed still counts as approved."""
    if any(approvals.named(answer.metadata).values()) or not answer.metadata.get(approvals.EDITED):
        return True
    try:
        check_brought(pause.run, answer.next_step)
    except ReviewStands:
        return True
    return False


def _changed(asked: Checkpoint, answer: Checkpoint) -> bool:
    try:
        was, now = (_told(store.load(checkpoint)) for checkpoint in (asked, answer))
    except store.CheckpointDamaged:
        return False  # nobody goes on from what cannot be read
    return was != now


def _told(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in MEANT}


@invariant(
    "P6", "A tool's call that the rules ask about was made as somebody approved it.", deep=True
)
def called_for_nobody(before: dt.datetime) -> Iterator[Event]:
    """Calls of tools that were made though the rules ask about them, and nobody approved them with
    just these arguments.
    """
    made = Event.objects.filter(kind=EventKind.TOOL_CALL_COMPLETED).exclude(run_id=None)
    # what a document tells is its importer's word
    made = made.exclude(thread__imported_at__gte=F("at"))
    part: list[Event] = []
    for event in made.order_by("pk").iterator(chunk_size=PART):
        part.append(event)
        if len(part) == PART:
            yield from _called_in(part)
            part = []
    yield from _called_in(part)


def _called_in(part: Sequence[Event]) -> Iterator[Event]:
    done = [
        event
        for event in part
        if isinstance(event.data, Mapping) and event.data.get("status") == "done"
    ]
    if not done:
        return
    names = {str(event.data["decision"]) for event in done if event.data.get("decision")}
    known = (
        DecisionRows().find({key for name in names if (key := _key(name)) is not None})
        if names
        else {}
    )
    runs = Run.objects.only("pk", "thread_id", "definition_id").in_bulk(
        [event.run_id for event in done]
    )
    for event in done:
        run = runs.get(event.run_id) if event.run_id else None
        if run is not None and not _may_have_been_called(event.data, run, known):
            yield event


def _may_have_been_called(
    call: Mapping[str, Any], run: Run, known: Mapping[str, DecisionRecord]
) -> bool:
    step = next(
        (candidate for candidate in run.frozen.steps if candidate["name"] == call.get("step")), None
    )
    if step is None:
        return True
    if not call.get("decision"):
        return not _asks(step, call)
    record, at = (
        known.get(str(call["decision"])),
        Checkpoint.objects.filter(run_id=run.pk).defer("body").order_by("pk").last(),
    )
    if record is None or at is None or approvals.flaw(record, run, at, step["name"]):
        return False
    decided = record.decided_calls.get(str(call.get("id")), {})
    whole = _whole(call.get("arguments"))
    same = whole is None or approval.same(whole, decided.get("arguments"))
    return (
        decided.get("decision") in tool_calls.MADE
        and decided.get("tool") == call.get("tool")
        and same
    )


def _asks(step: FrozenStep, call: Mapping[str, Any]) -> bool:
    """Whether the rules of an agent's step, and the tool's own, ask about a call that is told
    whole.
    """
    arguments = _whole(call.get("arguments"))
    if not traits_of(step["function"]).uses_tools or arguments is None:
        return False
    try:
        tool = tools.find(str(call.get("tool")))
        return approval.explain(tool, arguments, config.read(step["config"]).approvals).ask
    except (tools.UnknownTool, ConfigInvalid):  # of another version of this server
        return False


def _whole(arguments: Any) -> Mapping[str, Any] | None:
    """Arguments that were not cut."""
    return arguments if isinstance(arguments, Mapping) and arguments.keys() != {"preview"} else None
