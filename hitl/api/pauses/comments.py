"""Comments at a question."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from hitl.decisions import visibility
from hitl.decisions.talk import comments
from hitl.models import Comment
from runs.api.fields import OptionalText, TellsQuickly
from runs.api.paging import Listed, listed
from runs.api.requests import body_of, user_of
from runs.security import scopes


class CommentIn(serializers.Serializer[Any]):
    text = serializers.CharField(
        max_length=comments.LONGEST,
        help_text="Plain text. `@username` tells a person who sees the question.",
    )
    ask = serializers.ListField(
        child=serializers.CharField(max_length=150),
        default=list,
        max_length=comments.MEANT,
        help_text=(
            "Usernames of people of your teams whose opinion you ask: they see the question, and "
            "cannot answer it by this."
        ),
    )

    path = OptionalText(
        max_length=4096, help_text="The file of the patch that it is about; with `line`."
    )
    line = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=2**31 - 1, default=None
    )
    side = serializers.ChoiceField(
        ["old", "new"],
        default="new",
        help_text="Whether the line is counted before the change, or after it.",
    )


class CommentOut(TellsQuickly, serializers.ModelSerializer[Comment]):
    id = serializers.CharField(source="shown_id", help_text="cmt_…")
    pause_id = serializers.CharField(source="pause.shown_id")
    by = serializers.CharField(source="author.get_username")
    by_name = serializers.CharField(help_text="What the author was called at that time.")
    text = serializers.CharField(help_text="Empty where the author took it back.")
    withdrawn_at = serializers.DateTimeField(allow_null=True)
    mentions = serializers.SerializerMethodField(help_text="Usernames of those who were told.")
    asked = serializers.SerializerMethodField(
        help_text="Usernames of those among them whose opinion was asked."
    )

    class Meta:
        model = Comment
        fields = (
            "id",
            "pause_id",
            "by",
            "by_name",
            "text",
            "path",
            "line",
            "side",
            "made_at",
            "withdrawn_at",
            "mentions",
            "asked",
        )

    def get_mentions(self, comment: Comment) -> list[str]:
        return [mention.person.get_username() for mention in comment.mentions.all()]

    def get_asked(self, comment: Comment) -> list[str]:
        return [
            mention.person.get_username() for mention in comment.mentions.all() if mention.asked
        ]


class PauseComments(Listed):
    may_read = scopes.EITHER
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="list_comments",
        responses=CommentOut(many=True),
        summary="Read what was said at a question",
        description=f"All of it, oldest first: a question takes {comments.MOST} comments.",
    )
    def get(self, request: Request, pause_id: UUID) -> Response:
        pause = visibility.find_shown(pause_id, by=user_of(request))
        return listed(CommentOut(comments.at(pause), many=True).data)

    @extend_schema(
        operation_id="make_comment",
        request=CommentIn,
        responses={201: CommentOut},
        summary="Say something at a question",
        description=(
            "It decides nothing. A step gets it where a revision takes it along: "
            "`comments_until` of a decision. 409 `pause_closed`: the question was settled "
            "meanwhile."
        ),
    )
    def post(self, request: Request, pause_id: UUID) -> Response:
        values = body_of(request, CommentIn)
        about = None
        if values["path"] or values["line"] is not None:
            about = comments.PatchLine(values["path"], values["line"] or 0, values["side"])
        comment = comments.add(
            pause_id, values["text"], by=user_of(request), ask=values["ask"], about=about
        )
        return Response(CommentOut(comment).data, status=201)


class CommentDetail(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="withdraw_comment",
        request=None,
        responses={200: CommentOut},
        summary="Take back a comment of your own",
        description=(
            "Its words go; that there was one stays. What a revision took along stays in the "
            "decision. 404 `not_found`: it is not yours."
        ),
    )
    def delete(self, request: Request, comment_id: UUID) -> Response:
        return Response(CommentOut(comments.withdraw(comment_id, by=user_of(request))).data)
