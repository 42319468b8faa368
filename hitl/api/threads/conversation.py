"""What was said on a thread, and what waits to be said, for machines."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from checkpoints import store
from checkpoints.models import Checkpoint
from hitl.api.query import number, number_parameter
from hitl.api.threads.fields import QueuedOut
from hitl.api.threads.threads import thread_of
from hitl.threads import messages as threads
from runs.api.paging import Listed, listed
from runs.api.requests import CannotBe, user_of
from runs.models import QueuedTurn
from runs.security import scopes
from runs.threads import conversation
from runs.threads.conversation import Message

PAGE = 50
LONGEST = 200


class ToolCallOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    tool = serializers.CharField()
    arguments = serializers.JSONField(allow_null=True)
    result = serializers.CharField()
    status = serializers.CharField(
        help_text=(
            "done, failed, rejected, answered (by a person, in the tool's place), waiting, or "
            "withdrawn: never made, since its run ended first."
        )
    )
    was = serializers.JSONField(
        allow_null=True,
        help_text=(
            "The arguments as the model wanted them, where a person changed them; `arguments` are "
            "those that it was made with. Else null."
        ),
    )
    ms = serializers.IntegerField(allow_null=True, help_text="How long it took.")


class LeftOutOut(serializers.Serializer[Any]):
    messages = serializers.IntegerField(
        default=0, help_text="Earlier messages of the conversation."
    )
    results = serializers.IntegerField(
        default=0, help_text="Older results of tools, which were shortened."
    )


class MessageOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    role = serializers.CharField()
    content = serializers.CharField(
        help_text="Markdown, as it was written: sanitise it before you show it."
    )
    run_id = serializers.CharField(
        help_text="The run that it belongs to; empty where it is not known."
    )
    loop = serializers.IntegerField(allow_null=True, help_text="The agent's loop.")
    at = serializers.CharField()
    interrupted = serializers.BooleanField(help_text="It was cut off by the next message.")
    tools = ToolCallOut(many=True)
    thinking = serializers.CharField(
        help_text=(
            "What the model thought aloud before it, cut; no part of the answer. Empty for most "
            "models."
        )
    )
    imported = serializers.BooleanField(
        help_text="It came with a document: no run of this server said or heard it."
    )
    left_out = LeftOutOut(
        help_text=(
            "What the model was not given for this answer, since the conversation is too long; "
            "zeros for none."
        )
    )
    ended = serializers.CharField(
        help_text=(
            "Why it is no whole answer: length, refusal, content_filter or empty. Empty for a "
            "whole one."
        )
    )


class ThreadMessages(Listed):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_thread_messages",
        responses=MessageOut(many=True),
        parameters=[
            OpenApiParameter(
                "after",
                str,
                description="Those behind this message only; the beginning where it is left out.",
            ),
            number_parameter("limit", PAGE, high=LONGEST, description="How many at most."),
        ],
        summary="What was said on a thread, with tool calls, oldest first",
        description=(
            "As the latest checkpoint has it: of an answer that is being streamed, the events tell."
        ),
    )
    def get(self, request: Request, thread_id: UUID) -> Response:
        thread = thread_of(thread_id, request)
        head_id = thread.head_id
        messages = (
            conversation.of(store.load(Checkpoint.objects.get(pk=head_id))) if head_id else []
        )
        first = _place_behind(messages, request.query_params.get("after", ""))
        limit = number(request, "limit", PAGE) or PAGE
        page = messages[first : first + limit]
        more = first + limit < len(messages)
        following = (
            replace_query_param(request.build_absolute_uri(), "after", page[-1].id)
            if more
            else None
        )
        said = conversation.settled(thread, conversation.marked(thread, page))
        shown = MessageOut(said, many=True).data
        return listed(shown, following=following)


def _place_behind(messages: list[Message], message_id: str) -> int:
    if not message_id:
        return 0
    place = next(
        (index for index, message in enumerate(messages) if message.id == message_id), None
    )
    if place is None:
        raise CannotBe({"after": ["This conversation has no such message."]})
    return place + 1


class ThreadQueue(Listed):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_queued_messages",
        responses=QueuedOut(many=True),
        summary="The messages that wait for their turn, in order",
    )
    def get(self, request: Request, thread_id: UUID) -> Response:
        waiting = list(
            QueuedTurn.objects.waiting()
            .filter(thread=thread_of(thread_id, request))
            .select_related("by")
        )
        places = {turn.pk: place for place, turn in enumerate(waiting, start=1)}
        return listed(QueuedOut(waiting, many=True, context={"places": places}).data)


class QueuedMessage(APIView):
    @extend_schema(
        operation_id="withdraw_queued_message",
        responses={200: QueuedOut},
        summary="Withdraw a message that waits",
    )
    def delete(self, request: Request, thread_id: UUID, turn_id: UUID) -> Response:
        return Response(QueuedOut(threads.withdraw(thread_id, turn_id, by=user_of(request))).data)
