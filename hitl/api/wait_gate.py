"""Waystation as the wait gate of any engine; resume by a trace's id; signed events from outside."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from hitl.api.inbound import BySource
from hitl.decisions import services, visibility
from hitl.http import tracing
from hitl.models import Via, Wait
from hitl.wait_gate import primitives, questions, resume, waits
from hitl.wait_gate.resume import Ingested
from hitl.wait_gate.resume_events import ResumeEvent
from hitl.wait_gate.waits import WaitRequest
from runs.api.fields import OptionalText, TextOrNull
from runs.api.requests import CannotBe, body_of, user_of
from runs.security import scopes
from runs.states import Lifecycle

REASON = 64
"""Characters of a blocking reason."""
BARE = {"run_id": "deploy-42", "question": "Deploy release 42?"}
EXAMPLE = {
    "run_id": "booking-4711",
    "node_id": "decide",
    "blocking_reason": "missing_supplier_data",
    "question": "Which VAT number does the supplier have?",
    "required_inputs": {
        "type": "object",
        "required": ["vat_id"],
        "properties": {"vat_id": {"type": "string"}},
    },
    "state": {"invoice": 4711},
    "reviewers": {"groups": ["bookkeeping"]},
    "deadline": {"after": "P2D", "outcome": "expire"},
    "callback_url": "https://engine.example.org/answered",
}


class ChoiceIn(serializers.Serializer[Any]):
    name = serializers.RegexField(r"^[a-z][a-z0-9_]{0,63}$")
    # a field of a form has a label too
    label = serializers.CharField(max_length=80)  # type: ignore[assignment]


class WaitIn(serializers.Serializer[Any]):
    passed_over = ("status",)
    """Of a `WorkflowState`, since a wait always waits."""

    run_id = serializers.CharField(
        max_length=200,
        help_text="Your engine's own id of the run; letters, digits and . _ : ~ @ = + -",
    )
    node_id = serializers.CharField(
        default=questions.NODE,
        max_length=200,
        help_text="Where your engine goes on once it has the answer.",
    )
    blocking_reason = OptionalText(
        max_length=REASON,
        help_text="missing_supplier_data, needs_bookkeeper_decision, …; else "
        f"{questions.VERDICT}, or {questions.DATA} where data is asked for.",
    )
    state = serializers.DictField(
        default=dict,
        help_text="What your engine goes on with; it comes back with the answer merged into it.",
    )
    required_inputs = serializers.DictField(
        default=dict,
        help_text="JSON Schema 2020-12 of the object that is asked for; {} for a verdict.",
    )
    question = OptionalText(
        max_length=300, help_text="Left out, it is made of the blocking_reason."
    )
    content = OptionalText(max_length=100_000, help_text="Markdown")
    choices = ChoiceIn(
        many=True, default=list, help_text="Answers beside approve (or answer) and cancel."
    )
    reviewers = serializers.JSONField(
        default=None,
        allow_null=True,
        help_text='{"users": […], "groups": […]}, or a list of users.',
    )
    deadline = serializers.JSONField(
        default=None,
        allow_null=True,
        help_text='{"after": "P2D", "outcome": …} as in a template\'s review, or a duration.',
    )
    next_deadline = TextOrNull(
        max_length=40,
        help_text="The deadline as a moment with its zone, 2027-01-31T12:00:00Z, in place of a "
        'duration; `deadline` beside it may say the outcome: {"outcome": "cancel"}.',
    )
    review = serializers.DictField(
        default=dict, help_text="The other rules on who answers, as in a template's review."
    )
    recipients = serializers.ListField(
        child=serializers.CharField(max_length=320),
        max_length=20,
        default=list,
        help_text="Told as well: usernames of people who may answer, and mail addresses. Who has "
        "no account answers by the mail's link only where review.external names the address. Any "
        "other name is kept for your own channels, and told to nobody.",
    )
    prompt_id = OptionalText(
        max_length=200, help_text="What `POST /api/v1/resume` may call the question; else its id."
    )
    key = OptionalText(
        max_length=200,
        help_text="The same words under the same key are the same question, answered or not.",
    )
    valid_for = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=0,
        max_value=questions.LONGEST_VALID,
        help_text="Seconds for which the answer under a key is one; an older one is asked anew. "
        f"{questions.VALID_FOR} unless you say otherwise.",
    )
    team = OptionalText(max_length=150, help_text="One of your groups; its members see it too.")
    callback_url = OptionalText(max_length=2_000, help_text="Told once it is answered.")
    callback_secret = OptionalText(max_length=200, help_text="whsec_…: signs what is sent there.")

    def validate_choices(self, choices: list[dict[str, str]]) -> list[dict[str, str]]:
        if len(choices) > 10:
            raise serializers.ValidationError("Up to 10.")
        return choices


def asked_of(values: dict[str, Any]) -> WaitRequest:
    """What is asked, with the two rules that have names of their own put where the others are."""
    reviewers, deadline = values.pop("reviewers"), values.pop("deadline")
    named = {"users": reviewers} if isinstance(reviewers, list) else reviewers
    until = {"after": deadline} if isinstance(deadline, str) else deadline
    own = {
        **({} if named is None else {"reviewers": named}),
        **({} if until is None else {"deadline": until}),
    }
    moment = values.pop("next_deadline") or ""
    review = {**values["review"], **own}
    return WaitRequest(**{**values, "review": review, "next_deadline": moment})


class AnswerGiven(serializers.Serializer[Any]):
    decision_id = serializers.CharField()
    decision = serializers.CharField(help_text="approve, answer, cancel, or a choice.")
    payload = serializers.DictField(allow_null=True)
    feedback = serializers.CharField(allow_blank=True)
    decided_by = serializers.CharField(
        allow_null=True, help_text="Null where the rules or somebody outside answered."
    )
    external = serializers.CharField(
        allow_null=True,
        help_text="The mail address of who answered by the link sent there; null else.",
    )
    decided_at = serializers.DateTimeField()
    via = serializers.CharField()


STATES = (
    "What is watched: `waiting_external` while it asks, `resumed` once it was answered "
    "and goes on, `expired` where nobody "
    "answered in time; else its `status`. A run of your engine stays `resumed` until that says "
    "that it goes on or has ended (`…/status`, `…/resume-and-continue`), or asks again."
)


class WorkflowOut(serializers.Serializer[Any]):
    """Where a run is. For the OpenAPI page; `primitives.document` makes it."""

    run_id = serializers.CharField()
    status = serializers.CharField(
        help_text="running, waiting_external, completed or failed; of your engine's run completed "
        "once that says so."
    )
    lifecycle = serializers.ChoiceField(Lifecycle.choices, help_text=STATES)
    node_id = serializers.CharField(help_text="Where it goes on.")
    blocking_reason = serializers.CharField(
        allow_null=True, help_text="Of the question that is open, as the next seven."
    )
    required_inputs = serializers.DictField(allow_null=True)
    next_deadline = serializers.DateTimeField(allow_null=True)
    question = serializers.CharField(allow_null=True)
    answers = serializers.ListField(child=serializers.CharField())
    attempts = serializers.IntegerField(help_text="Answers that did not fit.")
    refined = serializers.CharField(
        allow_blank=True, help_text="What was wrong with the last of them."
    )
    pause_id = serializers.CharField(
        allow_null=True, help_text="The question that is open, else the last one."
    )
    pause_state = serializers.CharField(
        allow_null=True, help_text="open, answered, cancelled or expired"
    )
    state = serializers.DictField(
        help_text="With the answer merged in, once there is one; {} for who takes no part."
    )
    answer = AnswerGiven(allow_null=True)
    error = serializers.CharField(allow_null=True)
    failure_code = serializers.CharField(allow_null=True)
    waystation_run_id = serializers.CharField()
    thread_id = serializers.CharField()


class ResumeEventIn(serializers.Serializer[Any]):
    run_id = OptionalText(max_length=200, help_text="As in the address.")
    input_type = OptionalText(
        max_length=100,
        help_text='The question\'s blocking_reason or kind, or one of its answers; "" for any.',
    )
    node_id = OptionalText(max_length=200, help_text="Where it is asked; needed to answer early.")
    pause_id = OptionalText(max_length=40, help_text="The very question; another one is 409.")
    revision = serializers.IntegerField(
        default=None, allow_null=True, help_text="The revision that was looked at."
    )
    content_digest = OptionalText(
        max_length=64,
        help_text="Of what was looked at; a verdict ahead of its question needs both.",
    )
    stage = OptionalText(
        max_length=40,
        help_text="Of the review, where you are asked at several, as the question tells.",
    )
    payload = serializers.JSONField(
        default=None,
        allow_null=True,
        help_text="The data asked for; where none is, {decision, feedback, revision} or a word.",
    )
    sender_metadata = serializers.DictField(
        default=dict, help_text="Kept with the answer. `event_id` makes a repetition harmless."
    )


class KeptAnswer(serializers.Serializer[Any]):
    id = serializers.CharField()
    expires_at = serializers.DateTimeField()


class IngestedOut(WorkflowOut):
    duplicate = serializers.BooleanField(
        help_text="It was taken before, for this question or an earlier one; nothing was done now."
    )
    voted = serializers.BooleanField(help_text="It was taken as a vote; others must approve too.")
    kept = KeptAnswer(allow_null=True, help_text="It came before its question, and waits for it.")


ANSWERED = {200: IngestedOut, 202: IngestedOut}
WORDS = (
    "422 says per field what does not fit; the question then stays open, with a refined one "
    "stored. 409: somebody else answered "
    "(`pause_closed`), another question is open (`wrong_question`), or none (`not_paused`). 202: "
    "it came before its question, and is kept; "
    "a verdict that does so names `revision` and `content_digest` (409 `early_verdict`). An event "
    "without an id that comes again answers no later question: whoever means one names it."
)


def told(ingested: Ingested, request: Request) -> Response:
    """What became of an event, told to who sent it; 202 where it waits for its question."""
    kept = (
        None
        if ingested.kept is None
        else {"id": ingested.kept.shown_id, "expires_at": ingested.kept.expires_at}
    )
    observed = visibility.is_observer(ingested.run.thread, by=user_of(request))
    body = {
        **primitives.document(primitives.standing(ingested.run, ingested.wait), observed=observed),
        "duplicate": ingested.duplicate,
        "kept": kept,
    }
    waits_for_more = ingested.vote is not None or (
        ingested.kept is not None and ingested.kept.status == "kept"
    )
    return Response(
        {**body, "voted": ingested.vote is not None}, status=202 if waits_for_more else 200
    )


def event_in(request: Request, run_id: str = "") -> ResumeEvent:
    """The event of a request; of the run in the address where there is one."""
    values = body_of(request, ResumeEventIn)
    if not (run_id or values["run_id"]) or (run_id and values["run_id"] not in {"", run_id}):
        raise CannotBe({"run_id": ["The run's id, as in the address."]})
    return ResumeEvent(**{**values, "run_id": run_id or values["run_id"]})


class WorkflowWait(APIView):
    may_act = scopes.ASKS
    body_limit = "EVENT_BYTES"

    @extend_schema(
        operation_id="open_wait",
        request=WaitIn,
        responses={201: WorkflowOut, 200: WorkflowOut},
        summary="Let a run of your engine wait for an answer",
        description=(
            "While the wait is open, the same words again are the same wait (200). Once it has "
            "ended, they are a new question (201); under a `key` they are the same one still, for "
            "`valid_for` seconds. 409 `wait_open`: it waits for something else."
        ),
        examples=[
            OpenApiExample("Ask for a yes or a no", BARE, request_only=True),
            OpenApiExample("Ask a bookkeeper", EXAMPLE, request_only=True),
        ],
    )
    def post(self, request: Request) -> Response:
        values = body_of(request, WaitIn)
        wait, new = waits.open_wait(asked_of(values), by=user_of(request))
        return Response(primitives.document(primitives.of_wait(wait)), status=201 if new else 200)


class Workflow(APIView):
    may_read = scopes.ASKS

    @extend_schema(operation_id="get_workflow", responses=WorkflowOut, summary="Where a run is",
    parameters=[
        OpenApiParameter("run_id", str, OpenApiParameter.PATH,
        description="Your engine's id of the run, or run_… of one here.")
    ])  # fmt: skip
    def get(self, request: Request, run_id: str) -> Response:
        state = primitives.look(run_id, by=user_of(request))
        if scopes.asks() and state.run.thread.owner_id != user_of(request).pk:
            raise services.NotFound("There is no such run.")
        return Response(primitives.document(state))


class WorkflowResume(APIView):
    may_act = scopes.ANSWERS
    body_limit = "EVENT_BYTES"

    @extend_schema(
        operation_id="resume_workflow",
        request=ResumeEventIn,
        responses=ANSWERED,
        summary="Answer what a run waits for",
        description=WORDS,
        examples=[
            OpenApiExample(
                "The supplier wrote", {"payload": {"vat_id": "DE123456789"}}, request_only=True
            )
        ],
    )
    def post(self, request: Request, run_id: str) -> Response:
        ingested = resume.ingest(event_in(request, run_id), by=user_of(request), via=Via.REST)
        return told(ingested, request)


class WorkflowContinue(APIView):
    may_act = scopes.ANSWERS
    body_limit = "EVENT_BYTES"

    @extend_schema(
        operation_id="resume_and_continue_workflow",
        request=ResumeEventIn,
        responses=ANSWERED,
        summary="Answer, and get what to go on with",
        description=(
            "As `resume`; the answer holds the merged `state` and the `node_id` to go on at. "
            "Without a payload nothing is "
            "answered: a wait that was answered gives the same, an open one 409 "
            "`still_waiting`. A run of your engine reads `running` from then on; a run of ours "
            f"goes on. {WORDS}"
        ),
    )
    def post(self, request: Request, run_id: str) -> Response:
        event, user = event_in(request, run_id), user_of(request)
        if event.payload is None and not event.input_type:
            run, wait = resume.go_on(run_id, by=user)
            return told(Ingested(run=run, wait=wait), request)
        return told(resume.ingest_and_go_on(event, by=user, via=Via.REST), request)


class ReportedIn(serializers.Serializer[Any]):
    status = serializers.ChoiceField(
        [value for value in Wait.Reported.values if value],
        help_text="`running`: it goes on. `completed` or `failed`: it has ended, for good.",
    )


class WorkflowReported(APIView):
    may_act = scopes.ASKS

    @extend_schema(
        operation_id="report_workflow",
        request=ReportedIn,
        responses=WorkflowOut,
        summary="Say where a run of your engine is behind the answer",
        description=(
            "For whoever opened its waits. The same again is harmless. 409 `still_waiting`: the "
            "question is open. 409 `not_resumed`: it has ended already, or is a run of "
            "Waystation's own."
        ),
        examples=[OpenApiExample("It came to an end", {"status": "completed"}, request_only=True)],
    )
    def post(self, request: Request, run_id: str) -> Response:
        status = body_of(request, ReportedIn)["status"]
        return Response(primitives.document(primitives.report(run_id, status, by=user_of(request))))


class TraceIn(serializers.Serializer[Any]):
    traceId = serializers.CharField(
        max_length=200, help_text="run_…, thr_…, or your engine's id of the run."
    )
    promptId = serializers.CharField(
        max_length=200,
        help_text=(
            "The question's id, pse_…, or the prompt_id its author chose; of your engine's run "
            "also the node that asked."
        ),
    )
    response = serializers.JSONField(
        help_text="A word such as approve, a text, or the data that is asked for."
    )


class TraceOut(serializers.Serializer[Any]):
    success = serializers.BooleanField()
    traceId = serializers.CharField()
    promptId = serializers.CharField()
    decision = serializers.CharField(help_text='"" where it was taken as a vote (202).')


class TraceResume(APIView):
    may_act = scopes.ANSWERS
    body_limit = "EVENT_BYTES"

    @extend_schema(
        operation_id="resume_trace",
        request=TraceIn,
        responses={200: TraceOut, 202: TraceOut},
        summary="Answer the prompt of a trace",
        description=(
            "404: no such trace. 409 `wrong_question`: the trace asks something else by now."
        ),
        examples=[
            OpenApiExample(
                "Approve",
                {"traceId": "run_…", "promptId": "pse_…", "response": "approve"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        values = body_of(request, TraceIn)
        trace, prompt = values["traceId"], values["promptId"]
        ingested = resume.respond(
            trace, prompt, values["response"], by=user_of(request), via=Via.REST
        )
        body = {"success": True, "traceId": trace, "promptId": prompt}
        headers = {tracing.HEADER: ingested.run.shown_id}
        if (
            ingested.decision is None
        ):  # a prompt that is named by its id is never early: it was a vote
            return Response({**body, "decision": ""}, status=202, headers=headers)
        return Response({**body, "decision": ingested.decision.action}, headers=headers)


class Inbound(APIView):
    body_limit = "EVENT_BYTES"
    any_query = True  # a sender may put what it likes behind the address that it was given
    authentication_classes = (BySource,)

    @extend_schema(
        operation_id="receive_event",
        request=ResumeEventIn,
        responses=ANSWERED,
        parameters=[
            OpenApiParameter("webhook-id", str, OpenApiParameter.HEADER, required=True),
            OpenApiParameter(
                "webhook-timestamp",
                OpenApiTypes.INT,
                OpenApiParameter.HEADER,
                required=True,
                description="Within 5 minutes.",
            ),
            OpenApiParameter(
                "webhook-signature",
                str,
                OpenApiParameter.HEADER,
                required=True,
                description="Standard Webhooks: v1,<base64>",
            ),
        ],
        summary="Take a signed event from a source",
        description=(
            "The same webhook-id again gets the same answer and has no second effect. 401: not "
            f"signed by the source. {WORDS}"
        ),
    )
    def post(self, request: Request, source: str) -> Response:
        ingested = resume.ingest(event_in(request), by=user_of(request), via=Via.WEBHOOK)
        return told(ingested, request)
