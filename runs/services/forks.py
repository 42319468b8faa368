"""Forks: going on from any checkpoint of a thread as a new run; and what a fork would do
(`prospect`): the steps that run again, what is kept, and why it cannot be done where it cannot.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from checkpoints import store
from checkpoints.database.people import User
from checkpoints.events import log
from checkpoints.forensics.diff import commit_of
from checkpoints.models import Checkpoint, CheckpointStatus
from checkpoints.state import codec
from checkpoints.text.states import state_words
from runs import keyed
from runs.definitions import rights
from runs.engine import approvals, imported
from runs.engine.drafts.events import line
from runs.engine.start import STEERED, Start, begin, following
from runs.models import Definition, Repository, Run, WorkOrder
from runs.services.work_orders import follow
from runs.workflows import tool_calls
from runs.workflows.reviews.rules import is_reviewed
from runs.workflows.sequence import FrozenStep, completed

MAX_REASON = 2_000
LATER = 1_000
"""Later checkpoints of the thread that are looked at to tell which steps have run since."""


STEPPED_AROUND = "stepped_around"
"""Metadata of a run's first checkpoint: names of the reviewed steps that it begins behind with what
a person named.
"""


class NothingToFork(Exception):
    """The run cannot begin at this checkpoint: the message says why. Nothing was changed."""

    code = "cannot_fork"


class ReasonMissing(NothingToFork):
    """A fork without a reason that can be kept."""

    code = "reason_required"


class ForkForbidden(NothingToFork):
    """The person may not begin work by the run's template, or not on its repository: `code` is that
    of `rights.NotPermitted`.
    """

    def __init__(self, words: str, *, code: str) -> None:
        super().__init__(words)
        self.code = code


class ReviewStands(NothingToFork):
    """A run would begin behind a step whose review rules were not kept for what it begins with.

    Nothing was changed.
    """

    code = "review_stands"

    def __init__(self, words: str, *, reviews: str) -> None:
        super().__init__(words)
        self.reviews = reviews
        """The steps with these rules, by title and name."""


class ImportStands(NothingToFork):
    """A run would begin behind a step that asks, with what was imported. Nothing was changed."""

    code = "imported_work"


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """What resuming from a checkpoint would mean."""

    checkpoint: Checkpoint
    refusal: str = ""
    """Why it cannot be done; "" where it can."""
    step: str = ""
    """Title of the step that a new run would do next; "" where it would only end."""
    again: Sequence[str] = ()
    """Titles of the steps that have run since, and run again."""
    ahead: Sequence[str] = ()
    """Titles of the steps that follow and have not run since."""
    kept: Sequence[str] = ()
    """Titles of the steps that are done at the checkpoint, and stay so."""
    asks: Sequence[str] = ()
    """Titles of the steps after which somebody is asked."""
    commit: str = ""
    """The code's commit that the next step finds; "" without code."""


def check_reason(reason: str) -> str:
    """The reason as it is kept. Raises ReasonMissing."""
    text = reason.strip()
    if not text:
        raise ReasonMissing("Say why: a fork needs a reason.")
    if len(text) > MAX_REASON:
        raise ReasonMissing(
            f"A reason may have up to {MAX_REASON} characters; this has {len(text)}."
        )
    if text != codec.readable(text):
        raise ReasonMissing(
            "The reason holds characters that cannot be kept: a NUL, or bytes that are no UTF-8."
        )
    return text


def origin_of(checkpoint: Checkpoint) -> tuple[Run, str]:
    """The run that wrote a checkpoint, and the step that a fork would begin with.

    Raises NothingToFork.
    """
    wrote = (
        Run.objects.select_related("definition", "work_order").filter(pk=checkpoint.run_id).first()
    )
    if wrote is None:
        raise NothingToFork(
            gettext(
                "No run of Waystation's own wrote this checkpoint: it was imported and its "
                "template is not known here, or a graph wrote it. It can be looked at, not gone "
                "on with."
            )
        )
    if checkpoint.status == CheckpointStatus.COMPLETED:
        raise NothingToFork(gettext("Nothing follows this checkpoint. Choose an earlier one."))
    if wrote.parent_id is not None:
        raise NothingToFork(
            gettext(
                "This checkpoint is a child run's. Fork the run that started it, from its own "
                "checkpoint."
            )
        )
    if not wrote.keeps_checkpoints:
        raise NothingToFork(
            gettext(
                "Its template keeps no checkpoints to go on from: this one only says where the "
                "run began. Begin the work anew."
            )
        )
    return wrote, following(checkpoint)


def check_reviews(
    steps: Sequence[FrozenStep], next_step: str, *, around: bool = False
) -> list[str]:
    """Raise ReviewStands where a step before `next_step` ("" for the end) has rules on who answers
    and how, or its child runs' steps have.

    For runs that begin with what a person names (a step, a state, input for the middle): that would
    else be a way around whoever has to approve. No rule says that one person's word is enough
    for it, so it holds for everybody: the step itself asks again. With `around` it gives the names
    of these steps instead: for who records that they were stepped around
    (`hitl.decisions.review_bypass`).
    """
    passed = [step for step in steps[: completed(steps, next_step)] if is_reviewed(step)]
    if passed and not around:
        titles = " and ".join(f"“{step['title']}” ({step['name']})" for step in passed)
        raise ReviewStands(
            f"{titles} has rules on who approves it, so no run begins behind it with a state, a "
            "step or input of one's own. "
            f"Begin at {passed[0]['name']} or before it, which asks again; or have somebody with "
            "the right to it bypass the review, "
            "which is recorded.",
            reviews=titles,
        )
    return [step["name"] for step in passed]


def check_imported(
    checkpoint: Checkpoint | None, steps: Sequence[FrozenStep], next_step: str
) -> None:
    """Raise ImportStands where a run would begin behind a step that asks, with a checkpoint that
    came with a document.
    """
    step = imported.first_asking(steps, next_step) if imported.is_imported(checkpoint) else None
    if step is not None:
        raise ImportStands(
            f"This checkpoint was imported, and nobody has answered here what “{step['title']}” "
            f"({step['name']}) asks, so no run begins "
            f"behind it. Nothing was changed. Begin at {step['name']} or before it: resume the "
            "run, or choose an earlier checkpoint."
        )


def terms(
    definition: Definition,
    start: Start,
    *,
    steered: bool,
    wrote: Definition | None = None,
    around: bool = False,
) -> Start:
    """On what terms a run begins with what a person named or edited: the one function that every
    way of doing so asks.

    Where somebody steers (edits the state, names a step, brings input for the middle) or goes on
    from what another definition `wrote`, it begins behind no reviewed step of its definition, but
    `around`; and no approval comes along, nor that a step was passed over. Raises ReviewStands.
    """
    other = start.parent is not None and (wrote is None or wrote.pk != definition.pk)
    if not steered and not other:
        return start
    passed = check_reviews(definition.steps, start.next_step, around=around)
    gone = approvals.dropped(
        start.parent.metadata if start.parent else {}, same_definition=not other
    )
    noted = {STEPPED_AROUND: passed} if passed else {}
    carried = tuple(name for name in start.carried if name in STEERED)
    return replace(start, carried=carried, metadata={**(start.metadata or {}), **gone, **noted})


def check_brought(run: Run, next_step: str) -> None:
    """Raise ReviewStands where an answer that no step asked for would change the state behind a
    reviewed step, of the run or of one that waits for it: what a child run changes joins its
    parent's state. For answers to stops; what is not refused drops the approvals.
    """
    check_reviews(run.frozen.steps, next_step)
    above = run.parent_id
    while above is not None:
        parent = Run.objects.select_related("thread__head").get(pk=above)
        head = parent.thread.head
        check_reviews(
            parent.frozen.steps, (head.next_step or head.node_id) if head is not None else ""
        )
        above = parent.parent_id


def brought(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of such an answer's checkpoint."""
    left = {
        key: value
        for key, value in metadata.items()
        if key not in {approvals.KEY, approvals.SKIPPED}
    }
    return {**left, **approvals.dropped(metadata)}


def fork(
    checkpoint_id: uuid.UUID, *, by: User, reason: str, state: Mapping[str, Any] | None = None
) -> Run:
    """Go on from any checkpoint of a thread as a new run, with its state or an edited one; what
    came after stays as it was.

    The code's commit in the checkpoint comes along, so the fork forks the code too.

    Raises:
        ReasonMissing: no reason given, or none that can be kept.
        ReviewStands: the state is another one, and a step before has review rules.
        ForkForbidden: the person may not order by this template, or not on this repository.
        NothingToFork: no step follows there, another run of the thread is still alive, or the state
            is no JSON.
        store.CheckpointDamaged: the checkpoint cannot be read.
    """
    reason = check_reason(reason)
    try:
        with transaction.atomic(durable=True):
            return begin_fork(checkpoint_id, by=by, reason=reason, state=state)
    except IntegrityError as error:
        raise too_late_to_fork(checkpoint_id) from error
    except codec.NotJson as error:
        raise NothingToFork(str(error)) from error


def too_late_to_fork(checkpoint_id: uuid.UUID) -> NothingToFork:
    """What to raise where the database refused a fork: `run_one_live_per_thread`, or `retention`
    was faster.
    """
    if not Checkpoint.objects.filter(pk=checkpoint_id).exists():
        return NothingToFork(
            "This checkpoint was dropped just now, since it was older than is kept. Choose "
            "a newer one."
        )
    return NothingToFork("A run of this thread is still alive. Cancel it or let it end, then fork.")


def begin_fork(
    checkpoint_id: uuid.UUID,
    *,
    by: User,
    reason: str,
    state: Mapping[str, Any] | None,
    around: bool = False,
) -> Run:
    """`fork`, inside the caller's transaction; with `around` also behind a review, which the caller
    then records (`hitl.decisions.review_bypass`).
    """
    checkpoint = Checkpoint.objects.select_related("thread").get(pk=checkpoint_id)
    wrote, next_step = origin_of(checkpoint)
    _check_fork(wrote, by)
    before = store.load(checkpoint)
    after = before if state is None else dict(state)
    # a decision is what a person said, never what a state says
    if after.get(tool_calls.DECISIONS, {}) != before.get(tool_calls.DECISIONS, {}):
        raise NothingToFork(
            gettext(
                "%(key)s is written by answers to questions about tool calls alone; "
                "leave it as it is."
            )
            % {"key": repr(tool_calls.DECISIONS)}
        )
    check_imported(checkpoint, wrote.definition.steps, next_step)
    edited = codec.encode(after) != codec.encode(before)  # to Python, true is 1
    start = Start(state=after, next_step=next_step, parent=checkpoint, before=before)
    start = terms(wrote.definition, start, steered=edited, wrote=wrote.definition, around=around)
    stops = {"interrupt_before": wrote.interrupt_before, "interrupt_after": wrote.interrupt_after}
    run = begin(
        checkpoint.thread,
        wrote.definition,
        wrote.work_order,
        start,
        forked_from=checkpoint,
        reason=reason,
        started_by=by,
        **stops,
    )
    keyed.made(run.shown_id if wrote.work_order is None else wrote.work_order.shown_id)
    follow(wrote.work_order, run)
    name = by.get_full_name() or by.get_username()
    message = (
        f"Forked by {name} from {checkpoint.shown_id}, at "
        f"{f'step {next_step}' if next_step else 'the end'}: {reason}"
    )
    log.append(
        checkpoint.thread_id, run.pk, [line(message, step=next_step, edited=state is not None)]
    )
    return run


def _check_fork(wrote: Run, by: User) -> None:
    repository = (
        Repository.objects.filter(url=wrote.work_order.repository_url).first()
        if wrote.work_order
        else None
    )
    try:
        rights.check_order(wrote.definition.template_slug, by, repository=repository)
    except rights.NotPermitted as error:
        raise ForkForbidden(str(error), code=error.code) from error


def prospect(checkpoint: Checkpoint) -> Prospect:
    """Look, and change nothing."""
    try:
        wrote, step = origin_of(checkpoint)
    except NothingToFork as refused:
        return Prospect(checkpoint=checkpoint, refusal=str(refused), commit=commit_of(checkpoint))
    alive = Run.objects.live().filter(thread=checkpoint.thread_id).first()
    steps = wrote.definition.steps
    try:
        check_imported(checkpoint, steps, step)
    except ImportStands as refused:
        return Prospect(checkpoint=checkpoint, refusal=str(refused), commit=commit_of(checkpoint))
    message = (
        gettext(
            "A run of this thread is still alive (%(status)s). Cancel it or let it end, then fork."
        )
        % {"status": state_words(alive.status).lower()}
        if alive
        else ""
    )
    place = next((index for index, other in enumerate(steps) if other["name"] == step), len(steps))
    since = set(
        Checkpoint.objects.filter(thread=checkpoint.thread_id, pk__gt=checkpoint.pk)
        .order_by("-pk")
        .values_list("node_id", flat=True)[:LATER]
    ) | {checkpoint.node_id}
    return Prospect(
        checkpoint=checkpoint,
        refusal=message,
        step=steps[place]["title"] if place < len(steps) else "",
        again=_titles(step for step in steps[place:] if step["name"] in since),
        ahead=_titles(step for step in steps[place:] if step["name"] not in since),
        kept=_titles(steps[:place]),
        asks=_titles(step for step in steps[place:] if step["pause_after"]),
        commit=commit_of(checkpoint),
    )


def order_of(checkpoint: Checkpoint) -> WorkOrder | None:
    """The work order on whose thread a checkpoint is."""
    return WorkOrder.objects.filter(thread=checkpoint.thread_id).first()


def _titles(steps: Iterable[FrozenStep]) -> list[str]:
    return [step["title"] for step in steps]
