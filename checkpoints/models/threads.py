"""The memory: threads, their checkpoints and their log.

Rows of Checkpoint, Event, Blob and Chunk are never changed.

Two exceptions, both in `rules`: what is old is dropped, and a checkpoint whose ancestors go is
written anew as a snapshot of the same state, under the same digest.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.db import connection, models
from django.db.models import Q

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.models.fields import MadeAtField, SealedBinaryField, SealedField, StoredField
from checkpoints.state import codec
from checkpoints.text import invisible

if TYPE_CHECKING:  # generic in the stubs only
    _TextField = models.TextField[Any, Any]
else:
    _TextField = models.TextField


_scan: Any = vars(json.JSONDecoder())["scan_once"]
"""What `json.loads` comes to, without the four functions before it: a list reads hundreds."""
EMPTY: Mapping[str, Callable[[], Any]] = {"{}": dict, "[]": list}


class JsonTextField(StoredField, _TextField):
    """A JSON value kept as text: never searched inside, its keys in their order, the same bytes on
    every database, and fit for any string.
    """

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any
        _pyi_lookup_exact_type: Any

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "checkpoints.models.JsonTextField", args, kwargs

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return None if value is None else self.read(value)

    def read(self, value: str) -> Any:
        if value in EMPTY:  # most are
            return EMPTY[value]()
        try:
            found, end = _scan(value, 0)
            if end == len(value):  # as it is written: nothing around it
                return found
        except (StopIteration, ValueError, RecursionError):
            pass
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            # whoever needs the value says so; the row's other columns can still be read
            return UnreadableJson(value)

    def get_prep_value(self, value: Any) -> str | None:
        if isinstance(value, codec.Text | UnreadableJson):
            return str(value)
        return None if value is None else codec.encode_in_order(value)

    def to_python(self, value: Any) -> Any:
        """The value of what `value_to_string` gave, for `loaddata`.

        Numbers and null come as they are: Django dumps them so.
        """
        return self.read(value) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        """The stored text, for `dumpdata`."""
        return self.get_prep_value(self.value_from_object(obj)) or ""


class SealedJsonField(SealedField, JsonTextField):
    """A JSON value as canonical text, sealed at rest where keys are configured."""

    def read(self, plain: str) -> Any:
        return JsonTextField.read(self, plain)


class UnreadableJson(str):
    """Stored text that is no JSON any more: somebody changed it behind our back."""

    __slots__ = ()


class ThreadQuerySet(models.QuerySet["Thread"]):
    def visible_to(self, user: AbstractBaseUser | AnonymousUser) -> ThreadQuerySet:
        """The threads a person may see: their own and those of their teams; a superuser sees
        all.
        """
        if not user.is_authenticated or not user.is_active:
            return self.none()
        if getattr(user, "is_superuser", False):
            return self
        return self.filter(Q(owner_id=user.pk) | Q(team__in=Group.objects.filter(user=user.pk)))

    def next_seq(self, thread_id: uuid.UUID, count: int = 1) -> int:
        """Take `count` numbers of the thread's log and give the first.

        Call inside a transaction: the row stays locked until its commit, so numbers become visible
        in order and without a gap.
        """
        return self.next_seqs({thread_id: count})[thread_id]

    def next_seqs(self, counts: Mapping[uuid.UUID, int]) -> dict[uuid.UUID, int]:
        """The same of several threads, which this transaction holds already."""
        first: dict[uuid.UUID, int] = {}
        field = Thread._meta.pk
        for count in sorted(set(counts.values())):
            alike = [pk for pk, own in counts.items() if own == count]
            keys = [field.get_db_prep_value(pk, connection) for pk in alike]
            # both databases give back what they update, the ORM does not: it would ask again
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE checkpoints_thread SET last_seq = last_seq + %s "  # noqa: S608  # places for values
                    f"WHERE id IN ({', '.join(['%s'] * len(keys))}) RETURNING id, last_seq",
                    [count, *keys],
                )
                for key, last in cursor.fetchall():
                    first[key if isinstance(key, uuid.UUID) else uuid.UUID(key)] = last - count + 1
        if missing := [str(pk) for pk in counts if pk not in first]:
            raise Thread.DoesNotExist(f"there is no thread {missing[0]}")
        return first


class WhenBusy(models.TextChoices):
    """What becomes of a message that comes while a run of the thread is alive and asks nothing."""

    REFUSE = "refuse", "Refuse it"
    QUEUE = "queue", "Queue it"
    """Its run begins once those before it have ended."""
    INTERRUPT = "interrupt", "Interrupt the run"
    """The run at work is cancelled, and the message begins the next one."""


class Thread(ids.HasShownId, models.Model):
    """One line of history: a conversation, or a work order's."""

    PREFIX = "thr"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="threads")
    team = models.ForeignKey(
        Group,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="threads",
        help_text="Its members see and answer too.",
    )
    title = models.CharField(max_length=200, blank=True)
    last_seq = models.BigIntegerField(default=0, editable=False)
    first_seq = models.BigIntegerField(
        default=1, editable=False, help_text="The first number of the log that is kept."
    )
    folded = models.BigIntegerField(
        default=0,
        editable=False,
        help_text="Numbers of the log after the first whose streamed text was folded: see keeping.",
    )
    when_busy = models.CharField(max_length=16, choices=WhenBusy, default=WhenBusy.REFUSE)
    step_balance = models.IntegerField(
        default=0,
        editable=False,
        help_text="Steps whose checkpoint was dropped, less those whose event was: see keeping.",
    )
    # without an index, which each step would change; PostgreSQL's constraint looks the thread up
    # instead
    head = models.ForeignKey(
        "Checkpoint",
        models.PROTECT,
        null=True,
        editable=False,
        related_name="+",
        db_index=False,
        help_text="The checkpoint a run goes on from.",
    )
    for_user = models.CharField(
        max_length=200,
        blank=True,
        default="",
        help_text="Whom it is held with, as the program calls them.",
    )
    session = models.CharField(
        max_length=200,
        blank=True,
        default="",
        help_text="That program's session, whose memory it shares.",
    )
    created_at = MadeAtField()
    imported_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When it was made of a document; what came with that is marked.",
    )

    objects = ThreadQuerySet.as_manager()

    class Meta:
        indexes = [  # a person's threads, newest first; keys are time-ordered
            models.Index(fields=["owner", "-id"], name="thread_by_owner"),
            models.Index(
                fields=["team", "-id"], name="thread_by_team", condition=Q(team__isnull=False)
            ),
            models.Index(  # what was said before with that user in that session
                fields=["owner", "for_user", "session", "-id"],
                name="thread_by_session",
                condition=~Q(for_user="", session=""),
            ),
        ]
        permissions = [
            ("erase_thread", "Can erase a thread with all that belongs to it"),
            ("import_thread", "Can import a thread from a document"),
        ]

    def __str__(self) -> str:
        return invisible.plain(self.title) or self.shown_id


class CheckpointStatus(models.TextChoices):
    ACTIVE = "active"
    PENDING_INPUT = "pending_input"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Checkpoint(ids.HasShownId, models.Model):
    """The state after a step, and the step that comes next. Immutable."""

    PREFIX = "ckpt"
    behind = 0
    """Bytes of the deltas since the nearest snapshot, on a checkpoint that `store` has just built
    or loaded; in no column.
    """
    chunked = 0
    """Bytes of the chunks that `store` wrote for it; in no column either."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    # the constraint below has one
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="checkpoints", db_index=False)
    run_id = models.UUIDField(
        help_text="The run that wrote it; runs know checkpoints, not the other way round."
    )
    parent = models.ForeignKey("self", models.PROTECT, null=True, related_name="children")
    status = models.CharField(max_length=16, choices=CheckpointStatus)
    node_id = models.CharField(
        max_length=100, blank=True, help_text="The step that ended; empty at the start of a run."
    )
    next_step = models.CharField(
        max_length=100,
        blank=True,
        help_text="The step that comes next; empty where the run ends or waits.",
    )
    loop_num = models.PositiveIntegerField(
        default=1, help_text="How often node_id has run in this run."
    )
    completed_nodes = models.PositiveIntegerField(default=0)
    total_nodes = models.PositiveIntegerField(default=0)
    is_snapshot = models.BooleanField(
        help_text="Whether body is the whole state, or the change against the parent."
    )
    depth = models.PositiveSmallIntegerField(
        help_text="Deltas between this checkpoint and its nearest snapshot."
    )
    body = SealedJsonField(editable=False)
    schema_version = models.PositiveSmallIntegerField(default=1)
    digest = models.CharField(
        max_length=64, help_text="Of the whole state: see codec, by schema_version."
    )
    size = models.PositiveIntegerField(help_text="Bytes of body.")
    metadata = SealedJsonField(
        default=dict,
        help_text="Why it waits, which commit of the code belongs to it, and the like.",
    )
    dropped_before = models.PositiveIntegerField(
        default=0, help_text="Checkpoints between its parent and this one that were dropped."
    )
    created_at = MadeAtField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(is_snapshot=True, depth=0)
                | Q(is_snapshot=False, depth__gt=0, parent__isnull=False),
                name="checkpoint_delta_has_parent",
            ),
            # what thread_head_is_its_own refers to; also the index of history and latest
            models.UniqueConstraint(fields=["thread", "id"], name="checkpoint_of_one_thread"),
        ]
        indexes = [
            models.Index(fields=["run_id", "-id"], name="checkpoint_by_run"),  # a run's checkpoints
            # where runs waited, failed or ended; what is written most has no part in it, so a step
            # in the middle pays nothing
            models.Index(
                fields=["status", "-id"], condition=~Q(status="active"), name="checkpoint_by_status"
            ),
        ]
        permissions = [("view_state", "Can see in the admin what is encrypted at rest")]

    def __str__(self) -> str:
        return self.shown_id

    @property
    def standing(self) -> str:
        """`status` as pages show it: what nobody answered in time is no failure there."""
        if self.status != CheckpointStatus.FAILED or not isinstance(self.metadata, dict):
            return self.status
        return "expired" if self.metadata.get("failure_code") == "expired" else self.status


class EventKind(models.TextChoices):
    """The wire names of the requirement documents; `log` is a line for people."""

    RUN_STARTED = "run_started"
    STEP_STARTED = "step_started"
    STEP_COMPLETED = "step_completed"
    STREAMING_CHUNK = "streaming_chunk"
    TOOL_CALL_STARTED = "tool_call_started"
    TOOL_CALL_COMPLETED = "tool_call_completed"
    CHECKPOINT_CREATED = "checkpoint_created"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_RECEIVED = "approval_received"
    AWAIT_HUMAN_INPUT = "await_human_input"
    RUN_PAUSED = "run_paused"
    RUN_RESUMED = "run_resumed"
    RUN_COMPLETED = "run_completed"
    RUN_FAILED = "run_failed"
    RUN_CANCELLED = "run_cancelled"
    RUN_EXPIRED = "run_expired"
    PAUSE_UPDATED = "pause_updated"
    """Something became of an open question that decides nothing: a vote, a claim, a reminder, a new
    deadline; `what` says which.
    """
    LOG = "log"


class Event(models.Model):
    """A fact in a thread's log. `seq` has no gaps and becomes visible in order."""

    id = models.BigAutoField(primary_key=True)
    # the constraint below has one
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="events", db_index=False)
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=32, choices=EventKind)
    run_id = models.UUIDField(null=True)
    data = SealedJsonField(default=dict)
    at = MadeAtField()

    class Meta:
        constraints = [
            # also the index that replay reads: a thread's events after a number, in order
            models.UniqueConstraint(fields=["thread", "seq"], name="event_seq_once_per_thread"),
            models.CheckConstraint(condition=Q(seq__gt=0), name="event_seq_from_one"),
        ]
        # what a step at work has said, and what of it is folded later; other events pay nothing
        indexes = [
            models.Index(
                fields=["thread", "seq"],
                condition=Q(kind="streaming_chunk"),
                name="event_chunk_by_seq",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} #{self.seq}"


class Memo(models.Model):
    """A result of `context.once`: recorded in its own commit, and never computed again for the same
    execution of a step.
    """

    id = models.BigAutoField(primary_key=True)
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="memos")
    scope = models.CharField(
        max_length=200, help_text="The step's execution, as context.key names it."
    )
    key = models.CharField(max_length=200)
    value = SealedJsonField(help_text="A list of the one result, which may be null.")
    unapproved = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Done behind a review by a step that relied on no decision.",
    )
    created_at = MadeAtField()

    class Meta:
        # also: the look-up
        constraints = [
            models.UniqueConstraint(fields=["scope", "key"], name="memo_once_per_execution")
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.key}"


class Blob(models.Model):
    """A large value, kept once under the digest of its content."""

    digest = models.CharField(primary_key=True, max_length=64)
    content = SealedBinaryField(help_text="zlib-compressed.")
    size = models.PositiveIntegerField(help_text="Bytes before compression.")
    created_at = MadeAtField()
    touched_at = models.DateTimeField(
        default=clock.now, help_text="When somebody last meant to refer to it: see keeping."
    )

    def __str__(self) -> str:
        return self.digest[:12]


class Chunk(models.Model):
    """A stretch of a long list in a state: written once, and shared by every snapshot from then on.

    Not a Blob, since each names the stretch before it: a snapshot refers to the last one only,
    however long the list has become.
    """

    digest = models.CharField(
        primary_key=True,
        max_length=64,
        help_text="sha256 of the previous digest and the items' text.",
    )
    # its index is for dropping: who still follows?
    previous = models.ForeignKey("self", models.PROTECT, null=True, related_name="+")
    content = SealedBinaryField(
        help_text="The items' canonical JSON without the list's brackets, zlib-compressed."
    )
    created_at = MadeAtField()
    touched_at = models.DateTimeField(default=clock.now, help_text="As a blob's.")

    def __str__(self) -> str:
        return self.digest[:12]


class Mark(models.Model):
    """A blob or chunk that something refers to, as far as the present round of `rules` has looked.

    Scratch: emptied after each round.
    """

    digest = models.CharField(primary_key=True, max_length=64)

    def __str__(self) -> str:
        return self.digest[:12]


class RestingThread(models.Model):
    """A thread of which nothing goes for a while, unless somebody writes to it: the round of
    keeping leaves it alone until then, and knows what it refers to.

    It is true as long as the thread's log ends where it ended.
    """

    thread = models.OneToOneField(
        Thread, models.PROTECT, primary_key=True, related_name="+", editable=False
    )
    seq = models.BigIntegerField(help_text="Where its log ended.")
    until = models.DateTimeField(help_text="When something of it may go at the earliest.")
    newest = models.UUIDField(
        null=True, help_text="Its newest checkpoint; later ones are looked at."
    )
    references = JsonTextField(
        default=list, help_text="The blobs and chunks that its checkpoints refer to."
    )

    def __str__(self) -> str:
        return ids.show(Thread.PREFIX, self.thread_id)


class Chore(models.Model):
    """Work that goes on in small pieces, by one process at a time, whichever finds it due."""

    name = models.CharField(primary_key=True, max_length=40)
    epoch = models.PositiveBigIntegerField(
        default=0, help_text="Counts claims; each transaction of the holder names its own."
    )
    busy_until = models.DateTimeField(
        default=clock.now, help_text="Who has not renewed its claim by then has lost it."
    )
    due_at = models.DateTimeField(default=clock.now)
    place = JsonTextField(default=dict, help_text="How far it has come.")

    def __str__(self) -> str:
        return self.name
