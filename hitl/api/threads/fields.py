"""Threads, runs, messages and checkpoints as programs read and send them."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import (
    OpenApiExample,
    extend_schema_field,
)
from rest_framework import serializers

from checkpoints import ids, store
from checkpoints.models import Checkpoint, Thread, WhenBusy
from checkpoints.state import codec
from hitl.decisions import services
from hitl.threads.messages import MessageOutcome
from runs.api.fields import ChildCountsOut, OptionalText, ProgressOut, TellsQuickly, TextOrNull
from runs.api.requests import CannotBe
from runs.models import Pause, QueuedTurn, Run
from runs.services import is_imported
from runs.states import RunStatus

PENDING_INPUT = "pending_input"
"""What a run that waits for a person is called, besides `paused`."""
BUSY = (
    "What becomes of a message that comes while a run is alive and asks nothing: refuse (409), "
    "queue (202), or interrupt that run."
)


SUSPENDS = (
    "For whoever takes part, whom its questions ask or asked by their rules, and holders of "
    "`runs.change_run`; the same may let it go on (`approve`). 422 `reason_required`: who takes no "
    "part gives a reason, of up to 240 characters."
)


class SuspendIn(serializers.Serializer[Any]):
    reason = OptionalText(help_text="Why, for those who let it go on; stands in the question.")


class IdField(serializers.CharField):
    """A shown id, `<prefix>_…`, as its key. The document of the API reads `prefix` too."""

    def __init__(self, prefix: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.prefix = prefix

    def to_internal_value(self, data: Any) -> Any:
        try:
            return ids.parse(self.prefix, super().to_internal_value(data))
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


class ThreadIn(serializers.Serializer[Any]):
    title = OptionalText(max_length=200)
    team = TextOrNull(
        max_length=150, help_text="Name of one of your groups; its members see and answer too."
    )

    when_busy = serializers.ChoiceField(WhenBusy.choices, default=WhenBusy.REFUSE, help_text=BUSY)
    user_id = OptionalText(max_length=200, help_text="Whom it is held with, as you call them.")
    session_id = OptionalText(
        max_length=200,
        help_text="Of your threads with the same user_id and session_id each knows the last.",
    )

    def validate_team(self, name: str | None) -> Any:
        team = (
            self.context["request"].user.groups.filter(name=name).first()
            if name is not None
            else None
        )
        if name is not None and team is None:
            raise serializers.ValidationError(
                "You are in no team of this name.", code=CannotBe.code
            )
        return team


class ThreadChangeIn(serializers.Serializer[Any]):
    when_busy = serializers.ChoiceField(WhenBusy.choices, help_text=BUSY)


class ThreadOut(TellsQuickly, serializers.ModelSerializer[Thread]):
    id = serializers.CharField(source="shown_id", help_text="thr_…")
    owner = serializers.CharField(source="owner.get_username")
    team = TextOrNull(source="team.name")
    work_order_id = serializers.SerializerMethodField()
    user_id = serializers.CharField(
        source="for_user", help_text="With session_id: whose memory it shares."
    )
    session_id = serializers.CharField(source="session")
    head = serializers.SerializerMethodField(
        help_text="The checkpoint that a run would go on from."
    )
    run_id = serializers.SerializerMethodField(help_text="The run that wrote the head.")

    class Meta:
        model = Thread
        fields: ClassVar = [
            "id", "title", "owner", "team", "work_order_id", "head", "run_id", "when_busy",
            "user_id", "session_id", "last_seq",
            "created_at", "imported_at",
        ]  # fmt: skip

    def get_work_order_id(self, thread: Thread) -> str | None:
        order = getattr(thread, "work_order", None)
        return order.shown_id if order else None

    def get_head(self, thread: Thread) -> str | None:
        return thread.head.shown_id if thread.head else None

    def get_run_id(self, thread: Thread) -> str | None:
        return ids.show(Run.PREFIX, thread.head.run_id) if thread.head else None


class RunOut(TellsQuickly, serializers.ModelSerializer[Run]):
    id = serializers.CharField(source="shown_id", help_text="run_…")
    thread_id = serializers.CharField(source="thread.shown_id")
    work_order_id = serializers.SerializerMethodField()
    parent_run_id = serializers.SerializerMethodField(help_text="The run that waits for this one.")
    child_name = serializers.CharField(help_text="What its parent calls it.")
    template = serializers.CharField(source="definition.template_slug")
    template_version = serializers.IntegerField(source="definition.template_version")
    retry_of = serializers.SerializerMethodField()
    input = serializers.DictField()
    awaited = serializers.IntegerField(help_text="Child runs that it waits for.")
    children = ChildCountsOut(
        source="gather_counts",
        allow_null=True,
        help_text="How the child runs of its last gather stand; null where it never had any.",
    )
    sleeping_until = serializers.DateTimeField(
        allow_null=True, help_text="When the timer ends that it waits for; else null."
    )
    state = serializers.SerializerMethodField(
        help_text="`pending_input` where it waits for a person, who is asked; else as `status`."
    )
    progress = ProgressOut(
        source="progress_now",
        allow_null=True,
        help_text="How far its step says it is; null where it says nothing.",
    )
    pending_input = serializers.SerializerMethodField(
        help_text="What it asks a person; null where it asks nothing."
    )

    class Meta:
        model = Run
        fields: ClassVar = [
            "id", "thread_id", "work_order_id", "parent_run_id", "child_name", "template",
            "template_version", "status", "state", "input",
            "retry_of", "error", "failure_code", "awaited", "children",
            "sleeping_until", "progress", "pending_input", "created_at", "started_at", "ended_at",
            "imported_at",
        ]  # fmt: skip

    def get_work_order_id(self, run: Run) -> str | None:
        return run.work_order.shown_id if run.work_order else None

    def get_parent_run_id(self, run: Run) -> str | None:
        return ids.show(Run.PREFIX, run.parent_id) if run.parent_id else None

    def get_retry_of(self, run: Run) -> str | None:
        return ids.show(Run.PREFIX, run.retry_of_id) if run.retry_of_id else None

    @extend_schema_field({"type": "string", "enum": [*RunStatus.values, PENDING_INPUT]})
    def get_state(self, run: Run) -> str:
        return PENDING_INPUT if _question_of(run) is not None else str(run.status)

    def get_pending_input(self, run: Run) -> dict[str, Any] | None:
        """What a device needs to show the question again."""
        pause = _question_of(run)
        if pause is None:
            return None
        asked = {
            "pause_id": pause.shown_id,
            "checkpoint_id": ids.show(Checkpoint.PREFIX, pause.checkpoint_id),
            "prompt": pause.question,
        }
        return {
            "run_id": run.shown_id,
            "thread_id": run.thread.shown_id,
            **asked,
            "phase": pause.phase,
            "revision": pause.revision,
            "answers": [*pause.answers, "cancel"],
            "created_at": pause.opened_at,
            "deadline_at": pause.deadline_at,
        }


def _question_of(run: Run) -> Pause | None:
    """Give the open question of a run, of those that were read with it."""
    if run.status != RunStatus.PAUSED:
        return None
    return next((pause for pause in run.pauses.all() if pause.status == "open"), None)


def runs_shown() -> Any:
    return Run.objects.shown().prefetch_related("pauses")


class QueuedOut(TellsQuickly, serializers.ModelSerializer[QueuedTurn]):
    """A message that waits for its turn, or did."""

    id = serializers.CharField(source="shown_id", help_text="trn_…")
    place = serializers.SerializerMethodField(
        help_text="How many messages begin up to this one; 0 where it does not wait."
    )
    by = serializers.CharField(source="by.get_username")
    input = serializers.DictField()
    run_id = serializers.SerializerMethodField(help_text="The run that it began.")
    refused = serializers.CharField(
        source="words", help_text="Why it could not begin when its turn came."
    )

    class Meta:
        model = QueuedTurn
        fields: ClassVar = [
            "id",
            "status",
            "place",
            "by",
            "template",
            "input",
            "interrupts",
            "run_id",
            "refused",
            "created_at",
            "closed_at",
        ]

    def get_place(self, turn: QueuedTurn) -> int:
        return int(self.context.get("places", {}).get(turn.pk, 0))

    def get_run_id(self, turn: QueuedTurn) -> str | None:
        return ids.show(Run.PREFIX, turn.run_id) if turn.run_id else None


class SaidOut(serializers.Serializer[MessageOutcome]):
    id = serializers.CharField(
        source="run.shown_id", help_text="The run to follow, run_…: the same as `run.id`."
    )
    run = serializers.SerializerMethodField()
    how = serializers.ChoiceField(
        ["started", "resumed", "answered", "voted", "asked", "following", "queued", "interrupted"],
        help_text="What became of the message.",
    )
    decision = serializers.SerializerMethodField(
        help_text="The answer it was taken for; null where it was none."
    )
    queued = serializers.SerializerMethodField(
        help_text="The message in the line, with its place; null where it needed none."
    )
    interrupted_run_id = serializers.SerializerMethodField(
        help_text="The run that was cancelled for it."
    )
    resume_offer = serializers.SerializerMethodField(
        help_text="A run that failed within 30 minutes and could be resumed instead."
    )

    @extend_schema_field(RunOut)
    def get_run(self, outcome: MessageOutcome) -> Any:
        return RunOut(runs_shown().get(pk=outcome.run.pk)).data

    def get_decision(self, outcome: MessageOutcome) -> str | None:
        return outcome.decision.action if outcome.decision else None

    @extend_schema_field(QueuedOut)
    def get_queued(self, outcome: MessageOutcome) -> dict[str, Any] | None:
        return (
            {**QueuedOut(outcome.queued).data, "place": outcome.place}
            if outcome.queued is not None
            else None
        )

    def get_interrupted_run_id(self, outcome: MessageOutcome) -> str | None:
        return outcome.interrupted.shown_id if outcome.interrupted is not None else None

    def get_resume_offer(self, outcome: MessageOutcome) -> dict[str, Any] | None:
        return dict(outcome.offer) if outcome.offer is not None else None


@extend_schema_field(
    {"oneOf": [{"type": "object", "additionalProperties": {}}, {"type": "string"}]}
)
class MessageField(serializers.JSONField):
    """What `message` takes."""


EXAMPLES = [
    OpenApiExample("Next turn", {"input": "And what time is it in Vienna?"}, request_only=True),
    OpenApiExample("Approve", {"input": "APPROVE"}, request_only=True),
    OpenApiExample(
        "By path",
        {"workflow_uri": "workflows/chat-agent.yaml", "input": {"input": "Hello"}},
        request_only=True,
    ),
]
"""Bodies of `POST threads/{id}/runs`, as the document shows them."""


class RunIn(serializers.Serializer[Any]):
    template = serializers.SlugField(
        default="",
        allow_blank=True,
        help_text="Needed for a thread's first run; else the one of its last.",
    )
    workflow_uri = serializers.RegexField(
        r"^((?:[!-.0-~]+/)*[-a-zA-Z0-9_]+(?:\.(?:yaml|yml|json))?)?$",
        default="",
        max_length=300,
        allow_blank=True,
        help_text=(
            "The template as a path, `workflows/chat-agent.yaml`: its last part, without the "
            "ending, is the slug."
        ),
    )
    input = MessageField(
        default=None,
        allow_null=True,
        help_text=(
            'The new part of the state, an object; a text is the same as {"input": text}. May '
            "be null."
        ),
    )
    state = serializers.DictField(
        default=None, allow_null=True, help_text="The whole state: nothing is loaded or merged."
    )
    resume_from = OptionalText(max_length=100, help_text="The step to begin with.")
    checkpoint_id = IdField(
        "ckpt",
        default=None,
        allow_null=True,
        help_text="The checkpoint to go on from, instead of the latest.",
    )
    interrupt_before = serializers.ListField(
        child=serializers.CharField(max_length=500), default=list, max_length=50
    )
    interrupt_after = serializers.ListField(
        child=serializers.CharField(max_length=500), default=list, max_length=50
    )
    replaces = OptionalText(
        max_length=200,
        help_text=(
            "The id of an earlier message that began a turn: the input takes its place, and "
            "what came after it stays in the history."
        ),
    )
    reason = OptionalText(max_length=2_000)
    step_around = serializers.BooleanField(
        default=False,
        help_text="Begin also behind a step that has review rules. Needs the right "
        "`runs.step_around_review` and a reason; the ledger "
        "records who bypassed which review, and why. It approves nothing.",
    )

    def validate_input(self, value: Any) -> Any:
        return message(value)

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        """A `workflow_uri` is a template by another name."""
        named = values.pop("workflow_uri").rpartition("/")[2].partition(".")[0]
        if named and values["template"] not in ("", named):
            words = f"It names {named}, and `template` another one. Give one of them."
            raise serializers.ValidationError({"workflow_uri": [words]}, code=CannotBe.code)
        return {**values, "template": values["template"] or named}


class InputIn(serializers.Serializer[Any]):
    input = MessageField(default=None, allow_null=True, help_text="As for a new run.")
    content = TextOrNull(max_length=services.MAX_FEEDBACK, help_text="The answer as text.")

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        given = values["input"] if values["content"] is None else values["content"]
        if given is None or (values["input"] is not None and values["content"] is not None):
            raise serializers.ValidationError("Give either input or content.", code=CannotBe.code)
        return {"given": message(given)}


def message(value: Any) -> Any:
    """An input object, or one made of a text."""
    if isinstance(value, str):
        value = {"input": value}
    if value is not None and not isinstance(value, dict):
        raise serializers.ValidationError("An object, a text or null.", code="not_an_object")
    if codec.holds_unreadable(value):
        raise serializers.ValidationError(
            "There are characters in it that cannot be kept: a NUL, or bytes that are no UTF-8."
        )
    return value


class CheckpointOut(TellsQuickly, serializers.ModelSerializer[Checkpoint]):
    id = serializers.CharField(source="shown_id", help_text="ckpt_…")
    thread_id = serializers.SerializerMethodField()
    run_id = serializers.SerializerMethodField()
    parent_id = serializers.SerializerMethodField()
    metadata = serializers.DictField()
    imported = serializers.SerializerMethodField(
        help_text="It came with a document: no run of this server wrote it."
    )

    class Meta:
        model = Checkpoint
        fields: ClassVar = [
            "id", "thread_id", "run_id", "parent_id", "status", "node_id", "next_step", "loop_num",
            "completed_nodes", "total_nodes",
            "is_snapshot", "schema_version", "digest", "size", "metadata", "created_at",
            "imported",
        ]  # fmt: skip

    def get_thread_id(self, checkpoint: Checkpoint) -> str:
        return ids.show(Thread.PREFIX, checkpoint.thread_id)

    def get_imported(self, checkpoint: Checkpoint) -> bool:
        return is_imported(checkpoint)

    def get_run_id(self, checkpoint: Checkpoint) -> str:
        return ids.show(Run.PREFIX, checkpoint.run_id)

    def get_parent_id(self, checkpoint: Checkpoint) -> str | None:
        return ids.show(Checkpoint.PREFIX, checkpoint.parent_id) if checkpoint.parent_id else None


class CheckpointWhole(CheckpointOut):
    state = serializers.SerializerMethodField(help_text="The whole state.")

    class Meta(CheckpointOut.Meta):
        fields: ClassVar = [*CheckpointOut.Meta.fields, "state"]

    def get_state(self, checkpoint: Checkpoint) -> dict[str, Any]:
        return store.load(checkpoint)


class StateOut(serializers.Serializer[Any]):
    checkpoint_id = serializers.CharField()
    next_step = serializers.CharField(
        help_text="What a run would do next; empty where it ended or waits."
    )
    values = serializers.DictField(help_text="The whole state.")


class EventOut(serializers.Serializer[Any]):
    event = serializers.CharField()
    # DRF takes declared fields off the class
    data = serializers.DictField()  # type: ignore[assignment]
    seq = serializers.IntegerField()
    run_id = serializers.CharField(allow_null=True)
    thread_id = serializers.CharField()
    at = serializers.DateTimeField()
    imported = serializers.BooleanField(
        required=False,
        help_text="There, and true, where it came with a document: no fact of this server.",
    )
    channel = serializers.CharField(required=False, help_text="`status`, on a question.")
