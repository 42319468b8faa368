"""What somebody asked for, and the attempts at it.

The engine opens questions, so they are rows of this app (`pauses`); people's answers are rows of
`hitl.models`.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.models import Checkpoint, JsonTextField, SealedJsonField, Thread
from checkpoints.models.fields import MadeAtField, SealedTextField
from checkpoints.text import invisible
from runs import states
from runs.models.frequency import Frequency
from runs.models.gathers import GathersChildren
from runs.models.priority import bounded, priority_field
from runs.models.templates import Definition, Repository, Template
from runs.states import PauseStatus, RunStatus
from runs.workflows import sequence

Person = AbstractBaseUser | AnonymousUser
END_UNTOLD = Q(end_told=False, status__in=sorted(states.ENDED), parent=None, imported_at=None)
END_UNTOLD &= Q(work_order__isnull=False)


class WorkOrderQuerySet(models.QuerySet["WorkOrder"]):
    def visible_to(self, user: Person) -> WorkOrderQuerySet:
        return self.filter(thread__in=Thread.objects.visible_to(user))

    def shown(self) -> WorkOrderQuerySet:
        """With all that lists and pages show, in one query."""
        related = self.select_related(
            "thread__head", "thread__team", "latest_run", "definition", "created_by"
        )
        return related.defer("thread__head__body").annotate(
            asked=models.Subquery(Run.objects.phase_asked(models.OuterRef("pk"))),
            waits_for=models.Subquery(Run.objects.waits_for(models.OuterRef("latest_run"))),
        )

    def shown_to(self, user: Person) -> WorkOrderQuerySet:
        """As `shown`, with `asked_again_as`: the key of the order that asks for it again, where
        this person may see that one.
        """
        successor = (
            WorkOrder.objects.visible_to(user).filter(again_of=models.OuterRef("pk")).values("pk")
        )
        return self.shown().annotate(asked_again_as=models.Subquery(successor))


class WorkOrder(ids.HasShownId, models.Model):
    """What somebody asked for. Its status and phase are derived from its latest run."""

    PREFIX = "wo"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    thread = models.OneToOneField(Thread, models.PROTECT, related_name="work_order")
    template = models.ForeignKey(Template, models.PROTECT, related_name="work_orders")
    definition = models.ForeignKey(Definition, models.PROTECT, related_name="work_orders")
    title = models.CharField(max_length=200)
    request = SealedTextField(blank=True)
    input = SealedJsonField(default=dict)
    repository = models.ForeignKey(
        Repository, models.PROTECT, null=True, blank=True, related_name="work_orders"
    )
    repository_url = models.CharField(max_length=500, blank=True)
    check_command = JsonTextField(
        default=list, help_text="The repository's own check, frozen with the order."
    )
    author = models.CharField(max_length=200)
    delivery = JsonTextField(
        default=dict,
        help_text="What may leave with its work: the repository's settings, frozen with the order.",
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="work_orders"
    )
    latest_run = models.ForeignKey(
        "Run", models.PROTECT, null=True, editable=False, related_name="+"
    )
    again_of = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        editable=False,
        related_name="+",
        db_index=False,  # the constraint below has one
        help_text="The earlier order that this one asks for again.",
    )
    priority = priority_field()
    created_at = MadeAtField()

    objects = WorkOrderQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["again_of"], name="work_order_asked_again_once"),
            bounded("work_order_priority_bounded"),
        ]
        indexes = [models.Index(fields=["created_by", "-id"], name="work_order_by_creator")]
        permissions = [("raise_priority", "Can raise the priority of work")]

    def __str__(self) -> str:
        return invisible.plain(self.title)

    @property
    def branch(self) -> str:
        return f"waystation/{self.shown_id}"

    @property
    def status(self) -> str:
        """`pending running paused completed failed`: cancelled and expired show as failed, with
        `failure_code` telling which.

        A run that waits for its child runs is running, unless one of them waits for a person.
        """
        status = self.latest_run.status if self.latest_run else RunStatus.PENDING
        if self.gathering:
            return "paused" if self.waiting_phase else "running"
        return "failed" if status in {RunStatus.CANCELLED, RunStatus.EXPIRED} else str(status)

    @property
    def gathering(self) -> bool:
        """Whether its run waits for child runs."""
        return self.latest_run is not None and self.latest_run.awaited > 0

    @property
    def sleeping_until(self) -> dt.datetime | None:
        """When the timer ends that its run waits for; None where it waits for none."""
        run, head = self.latest_run, self.thread.head
        return _sleeping_until(run, head) if run is not None and head is not None else None

    @property
    def waiting_phase(self) -> str:
        """The phase of the oldest open question among its child runs; "" where none of them
        asks.
        """
        asked = getattr(self, "asked", None)
        if not hasattr(self, "asked"):
            asked = Run.objects.phase_asked(self.pk).first()
        return asked or ""

    @property
    def current_step(self) -> str:
        """The step that runs, waits to run, or was the last to run."""
        head = self.thread.head
        if head is None:
            return ""
        return (
            head.node_id
            if self.status == "paused" or self.gathering
            else head.next_step or head.node_id
        )

    @property
    def standing(self) -> str:
        """`status` as pages show it: `cancelled` and `expired` are no failures there."""
        run = self.latest_run
        ended = {RunStatus.CANCELLED, RunStatus.EXPIRED}
        return str(run.status) if run is not None and run.status in ended else self.status

    @property
    def phase(self) -> str:
        if self.status == "completed":
            return "completed"
        if self.gathering and self.waiting_phase:
            return self.waiting_phase
        if self.sleeping_until is not None:
            return SLEEPING
        if self.status == "paused" and self.thread.head is not None:
            return str(self.thread.head.metadata.get("blocking_reason", ""))
        steps = self.definition.steps
        step = sequence.named(steps, self.current_step) if self.current_step else steps[0]
        return sequence.phase_of(step["step_type"])

    @property
    def outputs(self) -> dict[str, Any]:
        """What the work has brought so far: `git_commit_count`, `github_pull_request_url`; at its
        end also how it ended, in a sentence: `conclusion`.
        """
        outputs: dict[str, Any] = (
            self.thread.head.metadata.get("outputs", {}) if self.thread.head else {}
        )
        return outputs

    @property
    def pull_request_url(self) -> str:
        """Where people see its pull request; "" where there is none, or what a step wrote there is
        no link for a browser.
        """
        url = str(self.outputs.get("github_pull_request_url", ""))
        return url if url.startswith(("https://", "http://")) else ""


SLEEPING = "sleeping"
"""The phase of an order whose run waits for a timer."""


def _sleeping_until(run: Run, head: Checkpoint) -> dt.datetime | None:
    """When a pending run's timer ends; `head` is the checkpoint that it goes on from.

    The row says when the run is due, and the checkpoint that this is a timer of its own step, not
    the pause before another try.
    """
    sleeps = run.status == RunStatus.PENDING and head.run_id == run.pk
    if sleeps and "sleep_until" in head.metadata and run.due_at > clock.now():
        return run.due_at
    return None


class RunQuerySet(models.QuerySet["Run"]):
    def move(self, sources: Collection[RunStatus], target: RunStatus, **fields: Any) -> int:
        """Move the runs of this query that are in `sources`; return how many moved.

        One UPDATE: of two workers one gets 0.
        """
        assert all(target in states.MOVES[source] for source in sources), (sources, target)
        return self.filter(status__in=sources).update(status=target, **fields)

    def held(self, run_id: uuid.UUID, epoch: int) -> RunQuerySet:
        """The run while the claim of that epoch still holds."""
        return self.filter(pk=run_id, status=RunStatus.RUNNING, epoch=epoch)

    def lost(self, *, now: dt.datetime | clock.FromNow) -> RunQuerySet:
        """Runs whose worker has stopped renewing its lease."""
        return self.filter(status=RunStatus.RUNNING, lease_until__lt=now)

    def shown(self) -> RunQuerySet:
        """With all that the API shows of a run, in one query."""
        related = (
            "thread__head",
            "thread__team",
            "thread__work_order",
            "definition",
            "work_order",
            "parent",
            "retry_of",
            "forked_from",
        )
        return self.select_related(*related).defer("thread__head__body", "forked_from__body")

    def waits_for(self, run: Any) -> models.QuerySet[Run, str]:
        """What a run is told that waits for a place under a limit; `run` is its key."""
        waiting = self.filter(pk=run, status=RunStatus.PENDING, places__epoch=None)
        return waiting.values_list("places__words", flat=True)[:1]

    def phase_asked(self, order: Any) -> models.QuerySet[Run, str]:
        """The phase of the order's oldest open question, its child runs' among them."""
        questions = self.filter(work_order=order, pauses__status=PauseStatus.OPEN)
        return questions.order_by("pauses__id").values_list("pauses__phase", flat=True)[:1]

    def live(self) -> RunQuerySet:
        return self.filter(status__in=sorted(states.LIVE))

    def visible_to(self, user: Person) -> RunQuerySet:
        return self.filter(thread__in=Thread.objects.visible_to(user))

    def ends_untold(self) -> RunQuerySet:
        """Runs of orders that ended, of which nobody has been planned to be told."""
        return self.filter(END_UNTOLD)

    def gathers_due(self, *, now: dt.datetime | clock.FromNow) -> RunQuerySet:
        """Runs of which more child runs may be started."""
        return self.filter(status=RunStatus.PAUSED, gather_due_at__lte=now)

    def overdue(self, *, before: dt.datetime | clock.FromNow) -> RunQuerySet:
        """Runs that should have been picked up before then: their message was lost."""
        return self.filter(status=RunStatus.PENDING, due_at__lt=before)


class Run(ids.HasShownId, GathersChildren):
    """One attempt to carry a thread from its latest checkpoint to an end."""

    PREFIX = "run"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="runs")
    work_order = models.ForeignKey(WorkOrder, models.PROTECT, null=True, related_name="runs")
    definition = models.ForeignKey(Definition, models.PROTECT, related_name="runs")
    status = models.CharField(max_length=16, choices=RunStatus, default=RunStatus.PENDING)
    retry_of = models.ForeignKey("self", models.PROTECT, null=True, related_name="retries")
    input = SealedJsonField(
        default=dict,
        help_text="What was given to this run; it joined the state by the workflow's reducers.",
    )
    parent = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        related_name="children",
        help_text="The run that waits for this one.",
    )
    child_name = models.CharField(max_length=100, blank=True, help_text="What its parent calls it.")
    optional = models.BooleanField(
        default=False, help_text="Its parent goes on without it where it fails."
    )
    depth = models.PositiveSmallIntegerField(default=0, help_text="How many parents are above it.")
    queue = models.CharField(
        max_length=40,
        default=sequence.DEFAULT_QUEUE,
        help_text="Which workers take the step it is at.",
    )
    epoch = models.PositiveIntegerField(
        default=0, help_text="Counts claims; every write of a worker names the epoch of its own."
    )
    lease_owner = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True)
    lost_attempts = models.PositiveIntegerField(
        default=0, help_text="Workers lost in a row without a step done."
    )
    deaths = models.PositiveSmallIntegerField(
        default=0,
        db_default=0,
        help_text="How often in a row the step it is at has ended its process.",
    )
    due_at = models.DateTimeField(help_text="While pending: when it may be picked up.")
    attempts = models.PositiveIntegerField(
        default=0, help_text="How often the step it is at has failed and is tried again."
    )
    untraced_steps = models.PositiveIntegerField(
        default=0,
        help_text=(
            "Steps told as done without a checkpoint of their own, as the template's frequency "
            "has it."
        ),
    )
    progress = JsonTextField(
        null=True,
        default=None,
        help_text=(
            "How far the step at hand says it is: done, of, unit, and the epoch of who said so. It "
            "says nothing any more once the run has another epoch."
        ),
    )
    suspend_by = models.CharField(
        max_length=150, blank=True, help_text="Who wants it to stop at the next step boundary."
    )
    suspend_because = SealedTextField(
        default="", db_default="", blank=True, help_text="Why, where `suspend_by` names somebody."
    )
    end_told = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether those who are told of an order's end were planned to be told of it.",
    )
    held_because = models.TextField(
        blank=True,
        default="",
        help_text=(
            "Why it waits though it is due: code of its next step is missing, or changed and "
            "held for an operator."
        ),
    )
    code_seen = JsonTextField(
        default=dict,
        help_text=(
            "Step → fingerprint of changed code that was said to run, or that an operator accepted."
        ),
    )
    interrupt_before = JsonTextField(default=list, help_text="Steps before which this run asks.")
    interrupt_after = JsonTextField(default=list, help_text="Steps after which this run asks.")
    forked_from = models.ForeignKey(
        Checkpoint, models.PROTECT, null=True, related_name="+", help_text="Where a fork began."
    )
    reason = SealedTextField(blank=True, help_text="Why it was forked.")
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        help_text="Who asked for it; a retry asks for nothing new.",
    )
    error = SealedTextField(blank=True)
    failure_code = models.CharField(
        max_length=64,
        blank=True,
        help_text="cancelled_by_user, expired, step_error, incident, or the step's own.",
    )
    created_at = MadeAtField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    imported_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When it came with a document: no run of this server did it.",
    )

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(imported_at__isnull=True) | Q(status__in=sorted(states.ENDED)),
                name="run_imported_has_ended",
            ),
            models.UniqueConstraint(
                fields=["thread"],
                condition=Q(status__in=sorted(states.LIVE)),
                name="run_one_live_per_thread",
            ),
            models.CheckConstraint(
                condition=Q(status=RunStatus.RUNNING) | Q(lease_until__isnull=True, lease_owner=""),
                name="run_lease_only_while_running",
            ),
            models.CheckConstraint(
                condition=Q(status__in=sorted(states.LIVE), ended_at__isnull=True)
                | Q(status__in=sorted(states.ENDED), ended_at__isnull=False),
                name="run_ended_at_if_ended",
            ),
            models.CheckConstraint(
                condition=Q(error="")
                | Q(status__in=[RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.EXPIRED]),
                name="run_error_only_if_unsuccessful",
            ),
            models.CheckConstraint(
                condition=Q(awaited=0) | Q(status=RunStatus.PAUSED),
                name="run_awaits_only_while_paused",
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True, depth=0, child_name="")
                | (Q(parent__isnull=False, depth__gt=0) & ~Q(child_name="")),
                name="run_child_has_parent",
            ),
        ]
        indexes = [
            # sweep: lost messages
            models.Index(
                fields=["due_at"], condition=Q(status=RunStatus.PENDING), name="run_pending_by_due"
            ),
            # sweep: lost workers
            models.Index(
                fields=["lease_until"],
                condition=Q(status=RunStatus.RUNNING),
                name="run_running_by_lease",
            ),
            # sweep: child runs that may be started
            models.Index(
                fields=["gather_due_at"],
                condition=Q(gather_due_at__isnull=False),
                name="run_by_gather_due",
            ),
            models.Index(fields=["thread", "-id"], name="run_by_thread"),  # newest first
            models.Index(
                fields=["parent", "id"], condition=Q(parent__isnull=False), name="run_by_parent"
            ),  # join, cancel, the order's page
            # whose turn it is: whose work has begun lately
            models.Index(
                fields=["-started_at"], condition=Q(started_at__isnull=False), name="run_by_start"
            ),
        ]
        indexes += [models.Index(fields=["id"], condition=END_UNTOLD, name="run_end_untold")]
        permissions = [("step_around_review", "Can bypass a review")]

    def __str__(self) -> str:
        return self.shown_id

    @cached_property
    def frozen(self) -> Definition:
        """Its definition, without a query where this process has seen it before."""
        return Definition.known(self.definition_id)

    @property
    def progress_now(self) -> Mapping[str, Any] | None:
        """How far its step says it is, or how many of its child runs have ended: done, of (None
        where nobody knows) and unit; None where it says nothing.
        """
        said: Mapping[str, Any] | None = self.progress
        if self.awaited:
            return self.gathering_now
        if not said or self.status != RunStatus.RUNNING or said["epoch"] != self.epoch:
            return None
        return {name: said[name] for name in ("done", "of", "unit")}

    @property
    def sleeping_until(self) -> dt.datetime | None:
        """When the timer ends that it waits for; None where it waits for none."""
        head = self.thread.head
        return _sleeping_until(self, head) if head is not None else None

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether it leaves behind what another run could go on from."""
        return self.frozen.frequency != Frequency.OFF

    @property
    def may_be_taken_up(self) -> bool:
        """Whether another run may go on where it stopped without completing."""
        return self.status in states.RETRIED and self.keeps_checkpoints
