"""Questions, answers and decisions as programs read and send them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import prefetch_related_objects
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    extend_schema_field,
)
from rest_framework import serializers

from checkpoints import ids, store
from hitl.api.pauses.reviews import ReviewOut, Reviews, review_of
from hitl.decisions import services
from hitl.decisions.reviewers import external_access
from hitl.models import Comment, Decision, Via
from runs.api.fields import OptionalText, TellsQuickly, TextOrNull
from runs.definitions import due_times
from runs.models import Pause, WorkOrder
from runs.states import PauseKind, PauseStatus
from runs.workflows.reviews.rules import OUTCOMES
from runs.workflows.sequence import CANCEL


class PauseOut(TellsQuickly, serializers.ModelSerializer[Pause]):
    """A pause with what a client needs to show and answer it."""

    id = serializers.CharField(source="shown_id", help_text="pse_…")
    agent_work_order_id = serializers.SerializerMethodField()
    run_id = serializers.CharField(source="run.shown_id")
    pause_phase = serializers.CharField(source="phase")
    facts = serializers.SerializerMethodField(
        help_text="Short label → value pairs about the content."
    )
    effects = serializers.ListField(
        child=serializers.CharField(), help_text="What approving will do outside this run."
    )
    pause_content = serializers.CharField(source="content", help_text="Markdown")
    summary = serializers.CharField(help_text="What lists say of it: plain text, a sentence.")
    pause_timestamp = serializers.DateTimeField(source="opened_at")
    resume_timestamp = serializers.DateTimeField(source="closed_at", allow_null=True)
    user_decision = serializers.SerializerMethodField()
    user_feedback = serializers.SerializerMethodField()
    decided_by = serializers.SerializerMethodField()
    external = serializers.SerializerMethodField(
        help_text=(
            "The mail address of who answered by the link sent there, without an account; null "
            "else."
        )
    )
    asked_outside = serializers.SerializerMethodField(
        help_text="Mail addresses of people without an account who may answer by a link."
    )
    status = serializers.SerializerMethodField(help_text="active or resolved")
    state = serializers.CharField(source="status", help_text="open, answered, cancelled or expired")
    answers = serializers.SerializerMethodField(help_text="What may be answered now.")
    required_inputs = serializers.DictField(
        help_text="JSON Schema of the `input` that comes with an answer; {} where words are enough."
    )
    known = serializers.DictField(help_text="What is known of it already.")
    kind = serializers.ChoiceField(
        PauseKind.choices, help_text="approval, input, tools or external"
    )
    calls = serializers.ListField(
        child=serializers.DictField(),
        help_text=(
            "Tool calls to decide one by one: id, tool, arguments, preview, risk, editable, "
            "schema; and `answerable` where a person may give the result in the tool's place."
        ),
    )
    answers_without_input = serializers.ListField(
        child=serializers.CharField(),
        help_text="Answers that bring no input, beside revise and cancel.",
    )
    attempts = serializers.IntegerField(help_text="Answers whose input did not fit.")
    refined = serializers.CharField(help_text="What was wrong with the last of them.")
    review = serializers.SerializerMethodField(
        help_text="Who answers, who has voted or claimed it, and whether you may."
    )
    edited_content = serializers.SerializerMethodField(
        help_text="The content as it was approved, where a reviewer edited it."
    )
    patch = serializers.SerializerMethodField(
        help_text="The unified diff under review; null where there is none."
    )
    created_at = serializers.DateTimeField(source="opened_at")
    updated_at = serializers.DateTimeField(
        source="changed_at",
        help_text=(
            "When it came, was claimed, voted on, moved, asked anew after an answer that did "
            "not fit, or closed."
        ),
    )
    deadline_at = serializers.DateTimeField(
        allow_null=True,
        help_text="When the template's rules answer; null where there is no deadline.",
    )
    deadline_outcome = serializers.SerializerMethodField(
        help_text="What they do then, as things stand; null where there is no deadline."
    )
    extendable_until = serializers.DateTimeField(
        allow_null=True, help_text="How far the deadline may be moved."
    )
    next_deadline = serializers.SerializerMethodField(
        help_text="When a reminder, an escalation or the deadline comes next; null where none."
    )
    reminders = serializers.SerializerMethodField(
        help_text="When those who may answer are reminded."
    )
    stage = serializers.IntegerField(
        help_text="How many stages of the escalation have been reached."
    )

    class Meta:
        model = Pause
        fields: ClassVar = [
            "id", "agent_work_order_id", "run_id", "step", "pause_phase", "question",
            "summary", "pause_content", "patch", "facts", "effects",
            "revision", "max_revisions", "content_digest", "answers", "kind", "calls",
            "required_inputs", "known", "answers_without_input", "attempts",
            "refined", "review", "edited_content", "status", "state", "pause_timestamp",
            "resume_timestamp",
            "user_decision", "user_feedback", "decided_by", "external", "created_at", "updated_at",
            "deadline_at", "deadline_outcome", "extendable_until", "next_deadline", "reminders",
            "stage", "asked_outside",
        ]  # fmt: skip

    def get_agent_work_order_id(self, pause: Pause) -> str | None:
        key = pause.run.work_order_id
        return ids.show(WorkOrder.PREFIX, key) if key else None

    def get_facts(self, pause: Pause) -> dict[str, Any]:
        return dict(pause.facts)

    def get_user_decision(self, pause: Pause) -> str | None:
        decision = _decision(pause)
        return decision.action if decision else None

    def get_user_feedback(self, pause: Pause) -> str | None:
        decision = _decision(pause)
        return (decision.feedback or None) if decision else None

    def get_decided_by(self, pause: Pause) -> str | None:
        decision = _decision(pause)
        return decision.decided_by.get_username() if decision and decision.decided_by else None

    def get_external(self, pause: Pause) -> str | None:
        decision = _decision(pause)
        return (decision.external or None) if decision else None

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_asked_outside(self, pause: Pause) -> list[str]:
        return external_access.asked(pause) if pause.outside else []

    @extend_schema_field(serializers.ChoiceField([*OUTCOMES], allow_null=True))
    def get_deadline_outcome(self, pause: Pause) -> str | None:
        return due_times.outcome_of(pause) or None

    @extend_schema_field(OpenApiTypes.DATETIME)
    def get_next_deadline(self, pause: Pause) -> str | None:
        at = due_times.next_at(pause.timing) if pause.status == "open" else None
        return at.isoformat() if at else None

    @extend_schema_field(serializers.ListField(child=serializers.DateTimeField()))
    def get_reminders(self, pause: Pause) -> list[str]:
        return [at.isoformat() for at in due_times.reminders(pause)]

    @extend_schema_field(serializers.ChoiceField(["active", "resolved"]))
    def get_status(self, pause: Pause) -> str:
        return "active" if pause.status == "open" else "resolved"

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_answers(self, pause: Pause) -> list[str]:
        if pause.status != "open":
            return []
        return [name for name in [*pause.answers, CANCEL] if name != "revise" or pause.may_revise]

    @extend_schema_field(ReviewOut)
    def get_review(self, pause: Pause) -> dict[str, Any]:
        reviews: Reviews | None = self.context.get("reviews")
        return reviews.of(pause) if reviews else review_of(pause, self.context["by"])

    def get_edited_content(self, pause: Pause) -> str | None:
        decision = _decision(pause)
        return (decision.edited_content or None) if decision else None

    def get_patch(self, pause: Pause) -> str | None:
        return patch_of(pause) if pause.patch_digest and self.context.get("whole") else None


def patch_of(pause: Pause) -> str | None:
    """The unified diff under review; it never changes while the question is open."""
    if not pause.patch_digest:
        return None
    return store.get_blob(pause.patch_digest).decode("utf-8", "replace")


def _decision(pause: Pause) -> Decision | None:
    """The answer of a pause; its decisions are read once, where no list brought them.

    It is written as the question closes.
    """
    if pause.status == PauseStatus.OPEN:
        return None
    if "decisions" not in getattr(pause, "_prefetched_objects_cache", ()):
        prefetch_related_objects([pause], "decisions__decided_by")
    return next(
        (decision for decision in pause.decisions.all() if decision.undoes_id is None), None
    )


class DecisionIn(serializers.Serializer[Any]):
    decision = serializers.CharField(
        max_length=64, help_text="approve, revise, cancel, or an answer of the template's own."
    )
    feedback = OptionalText(
        allow_null=True, max_length=services.MAX_FEEDBACK, help_text="Needed for revise."
    )
    revision = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=2**31 - 1,
        help_text="The revision you saw; another one is answered 409.",
    )
    content_digest = OptionalText(
        allow_null=True,
        max_length=64,
        help_text="The digest of the content you saw, as the question has it; another one is "
        "answered 409.",
    )
    input = serializers.JSONField(
        default=None,
        allow_null=True,
        help_text=(
            "The data that the question asks for: it must fit its required_inputs. 422 says "
            "what does not, per field."
        ),
    )
    edited_content = TextOrNull(
        allow_blank=True,
        trim_whitespace=False,
        max_length=services.MAX_EDITED,
        help_text="The content as you approve it, where the rules allow edits; null for as it is.",
    )
    stage = OptionalText(
        allow_null=True,
        max_length=40,
        help_text=(
            "The stage of the review that you answer; needed where you are asked at several. 409 "
            "where it is not its turn, or not any more."
        ),
    )
    comments_until = TextOrNull(
        max_length=40,
        help_text=(
            "With revise: the id of the last comment at the question that you saw. It and all "
            "before it go along, in the words of the decision."
        ),
    )
    pause_id: serializers.CharField = TextOrNull(
        max_length=40, help_text="The question you looked at; another one is answered 409."
    )
    id = TextOrNull(max_length=40, help_text="The same, as the question has it.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        named = attrs.pop("id")
        if named is not None and attrs["pause_id"] not in {None, named}:
            raise services.AnswerInvalid.of("id", "It names another question than pause_id.")
        return attrs if named is None else {**attrs, "pause_id": named}


def comment_id(shown: str | None) -> uuid.UUID | None:
    """The key of a comment that an answer names. Raises services.AnswerInvalid: it is none."""
    try:
        return ids.parse(Comment.PREFIX, shown) if shown else None
    except ValueError as error:
        raise services.AnswerInvalid.of("comments_until", "It is no id of a comment.") from error


def answer_in(values: Mapping[str, Any], via: Via) -> services.Answer:
    """The answer in the valid values of a `DecisionIn`."""
    return services.Answer(
        values["decision"],
        via,
        feedback=values["feedback"],
        revision=values["revision"],
        content_digest=values["content_digest"],
        payload=values["input"],
        stage=values["stage"],
        edited_content=values["edited_content"],
        comments_until=comment_id(values["comments_until"]),
    )


class DecisionOut(TellsQuickly, serializers.ModelSerializer[Decision]):
    id = serializers.CharField(source="shown_id")
    pause_id = serializers.CharField(source="pause.shown_id")
    input = serializers.DictField(
        source="payload",
        allow_null=True,
        help_text="The data that came with the answer; null where none did.",
    )
    decided_by = TextOrNull(
        source="decided_by.get_username",
        help_text="Null where the template's rules or somebody outside answered.",
    )
    external = serializers.SerializerMethodField(
        help_text=(
            "The mail address of who answered by the link sent there, without an account; null "
            "else."
        )
    )
    by_name = serializers.CharField(
        help_text="The name of who decided, at that time; empty where nobody did, or on older rows."
    )
    for_name = serializers.CharField(help_text="The name of for whom, at that time.")
    early_at = serializers.DateTimeField(
        allow_null=True,
        help_text=(
            "When it came, where that was before its question: nobody had been shown anything."
        ),
    )
    factor = serializers.CharField(
        help_text="The second factor that was proven; empty where the question wanted none."
    )
    data_only = serializers.BooleanField(
        help_text=(
            "It came from an address that the rules do not name: it brought data, and approves "
            "nothing."
        )
    )
    on_behalf_of = TextOrNull(
        source="on_behalf_of.get_username",
        help_text="For whom, by a delegation; null for themselves.",
    )
    votes = serializers.ListField(
        child=serializers.CharField(),
        help_text="Digests of the votes that were given, in their order.",
    )

    class Meta:
        model = Decision
        fields: ClassVar = [
            "id",
            "pause_id",
            "action",
            "feedback",
            "input",
            "edited_content",
            "decided_by",
            "by_name",
            "external",
            "data_only",
            "on_behalf_of",
            "for_name",
            "early_at",
            "factor",
            "factor_at",
            "votes",
            "decided_at",
            "via",
            "revision",
            "content_digest",
            "position",
            "digest",
        ]

    def get_external(self, decision: Decision) -> str | None:
        return decision.external or None
