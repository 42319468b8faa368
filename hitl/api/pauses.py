"""The questions and their answers for machines; also the work-order routes that end in `decide`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponseBase, JsonResponse
from django.utils.cache import get_conditional_response, patch_cache_control
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import store
from checkpoints.database import clock
from hitl.api.policy import ReviewOut, VotedOut, review_of, voted
from hitl.api.threads import RunOut
from hitl.decisions import external_access, policy, review_bypass, services, visibility
from hitl.models import Decision, Via, Vote
from runs import services as runs
from runs.api.fields import OptionalText, TextOrNull
from runs.api.paging import Paged
from runs.api.requests import body_of, user_of
from runs.api.work_orders import WorkOrderOut
from runs.definitions import due_times
from runs.models import Pause, WorkOrder
from runs.security import scopes
from runs.services import resubmit
from runs.states import PauseKind
from runs.workflows.reviews.rules import OUTCOMES
from runs.workflows.sequence import CANCEL


class PauseOut(serializers.ModelSerializer[Pause]):
    """A pause under the names of S4-13, with what else a client needs to show and answer it."""

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
            "Tool calls to decide one by one: id, tool, arguments, preview, risk, editable, schema."
        ),
    )
    bare = serializers.ListField(
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
            "pause_content", "patch", "facts", "effects",
            "revision", "max_revisions", "content_digest", "answers", "kind", "calls",
            "required_inputs", "known", "bare", "attempts",
            "refined", "review", "edited_content", "status", "state", "pause_timestamp",
            "resume_timestamp",
            "user_decision", "user_feedback", "decided_by", "external", "created_at", "updated_at",
            "deadline_at", "deadline_outcome", "extendable_until", "next_deadline", "reminders",
            "stage", "asked_outside",
        ]  # fmt: skip

    def get_agent_work_order_id(self, pause: Pause) -> str | None:
        return pause.run.work_order.shown_id if pause.run.work_order else None

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
        return external_access.asked(pause)

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
        return [name for name in [*pause.ways, CANCEL] if name != "revise" or pause.may_revise]

    @extend_schema_field(ReviewOut)
    def get_review(self, pause: Pause) -> dict[str, Any]:
        return review_of(pause, self.context["by"], self.context.get("seats"))

    def get_edited_content(self, pause: Pause) -> str | None:
        decision = _decision(pause)
        return (decision.edited_content or None) if decision else None

    def get_patch(self, pause: Pause) -> str | None:
        if not pause.patch_digest or not self.context.get("whole"):
            return None
        return store.get_blob(pause.patch_digest).decode("utf-8", "replace")


def _decision(pause: Pause) -> Decision | None:
    """The answer of a pause whose decisions were prefetched."""
    return next(
        (decision for decision in pause.decisions.all() if decision.undoes_id is None), None
    )


class DecisionIn(serializers.Serializer[Any]):
    decision = serializers.CharField(
        max_length=64, help_text="approve, revise, cancel, or an answer of the template's own."
    )
    feedback = OptionalText(max_length=services.MAX_FEEDBACK, help_text="Needed for revise.")
    revision = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=2**31 - 1,
        help_text="The revision you saw; another one is answered 409.",
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
    pause_id: serializers.CharField = TextOrNull(
        max_length=40, help_text="The question you looked at; another one is answered 409."
    )


def answer_in(values: Mapping[str, Any], via: Via) -> services.Answer:
    """The answer in the valid values of a `DecisionIn`."""
    return services.Answer(
        values["decision"],
        via,
        feedback=values["feedback"],
        revision=values["revision"],
        payload=values["input"],
        edited_content=values["edited_content"],
    )


class DecisionOut(serializers.ModelSerializer[Decision]):
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


class Success(serializers.Serializer[Any]):
    success = serializers.BooleanField()


class Resumed(Success):
    """S4-32's answer, and what was recorded."""

    decision = DecisionOut()


class WorkOrderDetail(APIView):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="get_work_order", responses=WorkOrderOut, summary="Read a work order"
    )
    def get(self, request: Request, order_id: UUID) -> Response:
        return Response(WorkOrderOut(services.look_at_order(order_id, by=user_of(request))).data)


class PauseState(APIView):
    """The open question of a work order, or `null`.

    Answers 304 while nothing happened on the order's thread.
    """

    may_read = scopes.EITHER

    @extend_schema(
        operation_id="get_pause_state",
        responses={200: PauseOut(allow_null=True), 304: None},
        parameters=[
            OpenApiParameter(
                "If-None-Match",
                str,
                OpenApiParameter.HEADER,
                description="The ETag of your last answer.",
            )
        ],
        summary="What the work order waits for",
    )
    def get(self, request: Request, order_id: UUID) -> HttpResponseBase:
        order = services.look_at_order(order_id, by=user_of(request))
        etag = f'"{order.thread.last_seq}"'
        # only 304 or 412 come back here
        response = get_conditional_response(request._request, etag=etag)
        if response is None:
            pause = services.open_pause(order)
            response = (
                Response(PauseOut(pause, context={"whole": True, "by": request.user}).data)
                if pause
                else JsonResponse(None, safe=False)
            )
        response["ETag"] = etag
        patch_cache_control(response, private=True, no_cache=True)
        return response


class Resume(APIView):
    """Answer the work order's open question."""

    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="resume_work_order",
        request=DecisionIn,
        responses={200: Resumed, 202: VotedOut},
        summary="Approve, revise or cancel",
        description="202: a vote, others must approve too. 403 `not_a_reviewer`, `self_approval`; "
        "409 "
        "`pause_closed` names who answered "
        "first, `claimed` who is on it, `not_paused`: nothing is asked; 422 says what is missing.",
        examples=[
            OpenApiExample(
                "Revise", {"decision": "revise", "feedback": "skip UP007"}, request_only=True
            )
        ],
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        values = body_of(request, DecisionIn)
        given = services.answer_order(
            order_id,
            answer_in(values, Via.REST),
            by=user_of(request),
            pause_id=values["pause_id"],
        )
        return (
            voted(given)
            if isinstance(given, Vote)
            else Response({"success": True, "decision": DecisionOut(given).data})
        )


class CancelIn(serializers.Serializer[Any]):
    reason = OptionalText(
        max_length=services.MAX_FEEDBACK,
        help_text="Needed where the rules of an open question ask for it.",
    )


class Cancel(APIView):
    may_act = scopes.ASKS

    @extend_schema(
        operation_id="cancel_work_order",
        request=CancelIn,
        responses={200: Success},
        summary="End a work order",
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        values = body_of(request, CancelIn)
        services.cancel_order(order_id, by=user_of(request), via=Via.REST, reason=values["reason"])
        return Response({"success": True})


class Suspend(APIView):
    may_act = scopes.ASKS

    @extend_schema(
        operation_id="suspend_work_order",
        request=None,
        responses={200: Success},
        summary="Stop at the next step boundary",
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        order = services.find_order(order_id, by=user_of(request))
        runs.suspend(order.pk, by=user_of(request))
        return Response({"success": True})


class ForkIn(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2_000, help_text="Why; kept with the new run.")
    state = serializers.DictField(
        default=None,
        allow_null=True,
        help_text="The edited state, whole; null keeps the checkpoint's.",
    )
    step_around = serializers.BooleanField(
        default=False,
        help_text=(
            "Also behind a step that has review rules: needs the right "
            "`runs.step_around_review`, and is recorded."
        ),
    )


class Fork(APIView):
    @extend_schema(
        operation_id="fork_checkpoint",
        request=ForkIn,
        responses={
            201: PolymorphicProxySerializer(
                component_name="Forked",
                serializers=[WorkOrderOut, RunOut],
                resource_type_field_name=None,
            )
        },
        summary="Go on from a checkpoint as a new run",
        description=(
            "Answers with the work order, or with the run on a thread that has none. 409 "
            "`review_stands` for an edited state behind a step "
            "that has review rules; with `step_around` 403 `step_around_not_allowed`."
        ),
    )
    def post(self, request: Request, checkpoint_id: UUID) -> Response:
        given = body_of(request, ForkIn)
        if given.pop("step_around"):
            run = review_bypass.fork(checkpoint_id, by=user_of(request), via=Via.REST, **given)
        else:
            run = services.fork(checkpoint_id, by=user_of(request), **given)
        if run.work_order_id is None:
            return Response(RunOut(run).data, status=201)
        return Response(
            WorkOrderOut(WorkOrder.objects.shown_to(request.user).get(pk=run.work_order_id)).data,
            status=201,
        )


class RetryView(APIView):
    @extend_schema(
        operation_id="retry_work_order",
        request=None,
        responses={200: WorkOrderOut},
        summary="Go on with a failed work order from its last good checkpoint",
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        order = services.find_order(order_id, by=user_of(request))
        runs.retry(order.pk, by=user_of(request))
        return Response(
            WorkOrderOut(WorkOrder.objects.shown_to(request.user).get(pk=order.pk)).data
        )


class Again(APIView):
    @extend_schema(
        operation_id="ask_again_for_work_order",
        request=None,
        responses={201: WorkOrderOut},
        summary="Ask for a work order again that was cancelled, failed or expired",
        description=(
            "Answers with a new work order: the same template in its current version, request, "
            "input, repository, team and stops. Every "
            "step runs anew and asks by its own rules. 409 `cannot_ask_again` while it is alive, "
            "where it completed, or where it was asked "
            "for again already; 422 `input_invalid` where what was asked cannot be taken over, "
            "e.g. a secret that was not kept; and what "
            "`POST work-orders` answers else. Send an `Idempotency-Key`."
        ),
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        order = services.find_order(order_id, by=user_of(request))
        new = resubmit.again(order.pk, by=user_of(request))
        return Response(
            WorkOrderOut(WorkOrder.objects.shown_to(request.user).get(pk=new.pk)).data, status=201
        )


class Pauses(Paged):
    may_read = scopes.EITHER

    @extend_schema(
        operation_id="list_pauses",
        responses=PauseOut(many=True),
        parameters=[
            OpenApiParameter("open", bool, description="1: only what waits for an answer."),
            OpenApiParameter(
                "kind", str, enum=PauseKind.values, description="Only what wants that."
            ),
        ],
        summary="List questions, newest first",
    )
    def get(self, request: Request) -> Response:
        only_open = request.query_params.get("open", "").lower() in {"1", "true"}
        mine = (
            policy.waiting_for(request.user)
            if only_open
            else Pause.objects.visible_to(request.user)
        )
        mine = scopes.own(mine, run__thread__owner=request.user)
        if kind := request.query_params.get("kind"):
            mine = mine.filter(kind=kind)
        pages = self.pagination_class()
        # found first: with all its joins it is planned badly
        page: Any = pages.paginate_queryset(mine.only("pk"), request, view=self)
        by = user_of(request)
        shown = (
            Pause.objects.shown()
            .select_related("claimed_by")
            .prefetch_related("decisions__decided_by")
            .in_bulk([pause.pk for pause in page])
        )
        found = [shown[pause.pk] for pause in page if pause.pk in shown]
        context = {"by": by, "seats": policy.seats_of(by, now=clock.now())}
        return pages.get_paginated_response(PauseOut(found, many=True, context=context).data)


class PauseDetail(APIView):
    may_read = scopes.EITHER

    @extend_schema(operation_id="get_pause", responses=PauseOut, summary="Read a question")
    def get(self, request: Request, pause_id: UUID) -> Response:
        pause = visibility.find_pause(Pause.objects.shown(), pause_id, by=user_of(request))
        return Response(PauseOut(pause, context={"whole": True, "by": user_of(request)}).data)


class DecisionsView(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="decide",
        request=DecisionIn,
        responses={201: DecisionOut, 202: VotedOut},
        summary="Answer a question",
        description="The first valid answer wins; any other gets 409 `pause_closed`, which names "
        "the winner. "
        "202: a vote, others must "
        "approve too. 403 `not_a_reviewer`, `self_approval`: somebody else answers. 409 "
        "`claimed`, `already_voted`, `vote_differs`.",
    )
    def post(self, request: Request, pause_id: UUID) -> Response:
        values = body_of(request, DecisionIn)
        given = services.decide(pause_id, answer_in(values, Via.REST), by=user_of(request))
        return (
            voted(given)
            if isinstance(given, Vote)
            else Response(DecisionOut(given).data, status=201)
        )


class NoSuchRoute(APIView):
    """Every other address below /api/v1/, so that a program gets its 404 as a problem document
    too.
    """

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise services.NotFound("There is nothing at this address.")
