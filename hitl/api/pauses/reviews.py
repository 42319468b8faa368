"""What the rules on who answers say of a question, for machines; and claiming one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints.database.people import User
from hitl.decisions import claims
from hitl.decisions.reviewers import policy, suspending, turns
from hitl.decisions.reviewers.policy import Seat
from hitl.decisions.talk import handing_over
from hitl.models import Vote
from runs.api.fields import TellsQuickly, TextOrNull
from runs.api.requests import body_of, user_of
from runs.definitions import due_times
from runs.models import Pause
from runs.security import scopes
from runs.states import PauseStatus
from runs.workflows.reviews import stages
from runs.workflows.sequence import CANCEL, REVISE


class VoteOut(TellsQuickly, serializers.ModelSerializer[Vote]):
    """An approval that is counted."""

    by = TextOrNull(source="voter.get_username", help_text="Null where external.")
    external = serializers.SerializerMethodField(
        help_text="The mail address of who voted by the link sent there; null else."
    )
    on_behalf_of = serializers.SerializerMethodField(
        help_text="For whom it was given, by a delegation; null for themselves."
    )

    class Meta:
        model = Vote
        fields = (
            "by",
            "external",
            "on_behalf_of",
            "stage",
            "action",
            "feedback",
            "voted_at",
            "via",
            "digest",
        )

    def get_external(self, vote: Vote) -> str | None:
        return vote.external or None

    def get_on_behalf_of(self, vote: Vote) -> str | None:
        return (
            vote.seat.get_username()
            if vote.seat is not None and vote.seat_id != vote.voter_id
            else None
        )


class HandOverIn(serializers.Serializer[Any]):
    to = serializers.CharField(
        max_length=150, help_text="The username of somebody of one of your teams."
    )
    reason = serializers.CharField(
        max_length=handing_over.LONGEST, help_text="Told to them, and in the log."
    )


class ReviewStageOut(serializers.Serializer[Any]):
    """A stage of the review: a question to people of its own."""

    name = serializers.CharField()
    title = serializers.CharField()
    question = serializers.CharField(help_text="What these people are asked; may be empty.")
    reviewers = serializers.DictField(help_text="The users and groups that are asked.")
    quorum = serializers.IntegerField()
    after = serializers.ListField(
        child=serializers.CharField(), help_text="The stages that must be complete first."
    )
    status = serializers.ChoiceField(
        ["waiting", "open", "complete"], help_text="open: its people are asked now."
    )
    votes = serializers.IntegerField()
    deadline = serializers.DictField(
        allow_null=True,
        help_text="Of this stage alone, since its turn began: after, calendar, zone.",
    )
    due_at = serializers.DateTimeField(
        allow_null=True,
        help_text="When it is due, once its turn has begun; null without a deadline.",
    )
    required_inputs = serializers.DictField(
        help_text="JSON Schema of the `input` that its approval brings; {} where words are enough."
    )


class WhyNot(serializers.Serializer[Any]):
    code = serializers.CharField(
        help_text=(
            "not_a_reviewer, self_approval, already_voted, claimed, not_your_turn, stage_answered"
        )
    )
    detail = serializers.CharField()


class ClaimOut(serializers.Serializer[Any]):
    by = serializers.CharField()
    until = serializers.DateTimeField()


class ReviewOut(serializers.Serializer[Any]):
    """Who answers a question, and whether the caller may."""

    reviewers = serializers.DictField(
        help_text=(
            "The users and groups that the rules name; empty where whoever takes part answers."
        )
    )
    also = serializers.ListField(
        child=serializers.DictField(),
        help_text="Whom the stages of escalation added that were reached.",
    )
    self_approval = serializers.BooleanField(
        help_text="Whether who asked for the work may approve it."
    )
    reason_required = serializers.ListField(
        child=serializers.CharField(), help_text="Answers that need `feedback`."
    )
    edits = serializers.BooleanField(help_text="Whether an approval may bring `edited_content`.")
    quorum = serializers.IntegerField(help_text="How many different people must approve.")
    stages = ReviewStageOut(
        many=True, help_text="The stages of the review, in their order; empty where it has none."
    )
    stage = serializers.CharField(
        help_text="The stage at which your approval counts now; empty where none."
    )
    votes = VoteOut(many=True)
    claim = ClaimOut(allow_null=True, help_text="Who keeps others from answering, and until when.")
    may_answer = serializers.ListField(
        child=serializers.CharField(), help_text="The answers that you may give now."
    )
    why_not = serializers.DictField(
        child=WhyNot(), help_text="Why you may not give the others, by answer."
    )
    on_behalf_of = serializers.CharField(
        allow_null=True, help_text="For whom you would answer; null for yourself."
    )
    handed_to = serializers.CharField(
        allow_null=True, help_text="Who answers this question in your place; null where nobody."
    )


class Reviews:
    """The facts of `ReviewOut` of many questions, for one person at one moment: those of questions
    that are alike are found once.
    """

    def __init__(self, by: User, seats: list[Seat]) -> None:
        self.by, self.seats = by, seats
        self._known: dict[Hashable, dict[str, Any]] = {}
        everywhere = all(seat.only is None for seat in seats)
        self._people = [seat.user.pk for seat in seats] if everywhere else []

    def of(self, pause: Pause) -> dict[str, Any]:
        like = self._likeness(pause)
        if like in self._known:
            return self._known[like]
        review = review_of(pause, self.by, self.seats)
        if like is not None and not review["why_not"]:  # whose words name people
            self._known[like] = review
        return review

    def _likeness(self, pause: Pause) -> Hashable:
        """All that the facts hang on, of a question that waits for one answer and of which nothing
        has become yet; None of any other.
        """
        usual = (
            self._people
            and pause.status == PauseStatus.OPEN
            and not (pause.panel_id or pause.stage or pause.turn)
            and not (pause.claimed_until or pause.outside)
            and policy.quorum(pause) == 1
            and not getattr(pause, "handed", True)  # read by the list
        )
        if not usual:
            return None
        thread, askers = pause.run.thread, policy.askers(pause)
        theirs = [(key == thread.owner_id, key in askers) for key in self._people]
        return (repr(pause.review), *pause.answers, pause.may_revise, thread.team_id, *theirs)


def review_of(pause: Pause, by: User, seats: list[Seat] | None = None) -> dict[str, Any]:
    """The facts of `ReviewOut`; `seats` spares looking them up for each of many."""
    standing = suspending.context_of(pause, by, seats=seats)
    rules, is_open = pause.review, pause.status == PauseStatus.OPEN
    answers = (
        [name for name in [*pause.answers, CANCEL] if name != REVISE or pause.may_revise]
        if is_open
        else []
    )
    refused = {name: error for name in answers if (error := standing.refusal(name)) is not None}
    seat = next(iter(standing.seats), by) if is_open else by
    return {
        "reviewers": rules.get("reviewers", {}),
        "also": [
            {name: stage.get(name, []) for name in ("users", "groups")}
            for stage in policy.escalated(pause)
        ],
        "self_approval": rules.get("self_approval", True),
        "reason_required": rules.get("reason_required", []),
        "edits": rules.get("edits", False),
        "quorum": policy.quorum(pause),
        "stages": _stages(pause, standing.votes),
        "stage": standing.stage if is_open and turns.staged(pause) else "",
        "votes": VoteOut(standing.votes, many=True).data if standing.votes else [],
        "claim": _claim(pause, standing.now) if is_open else None,
        "may_answer": [name for name in answers if name not in refused],
        "why_not": {
            name: {"code": error.code, "detail": str(error)} for name, error in refused.items()
        },
        "on_behalf_of": seat.get_username() if seat is not by and seat != by else None,
        "handed_to": standing.handed_to,
    }


def _stages(pause: Pause, votes: list[Vote]) -> list[dict[str, Any]]:
    if not turns.staged(pause):
        return []
    standing, due = turns.statuses(pause, votes), due_times.of_stages(pause)
    return [
        {
            "name": stage["name"],
            "title": stages.titled(stage),
            "question": stage.get("question", ""),
            "reviewers": stage.get("reviewers", {}),
            "quorum": stage.get("quorum", 1),
            "after": stage.get("after", []),
            "status": standing[stage["name"]],
            "votes": sum(vote.stage == stage["name"] for vote in votes),
            "deadline": stage.get("deadline"),
            "due_at": due.get(stage["name"]),
            "required_inputs": turns.asked_at(pause, stage["name"]).required_inputs,
        }
        for stage in stages.of(pause.review)
    ]


def _claim(pause: Pause, now: dt.datetime) -> dict[str, Any] | None:
    if pause.claimed_by is None or pause.claimed_until is None or pause.claimed_until <= now:
        return None
    return {"by": pause.claimed_by.get_username(), "until": pause.claimed_until.isoformat()}


class VotedOut(serializers.Serializer[Any]):
    """That an approval was recorded and others are still missing."""

    success = serializers.BooleanField()
    decided = serializers.BooleanField(help_text="false: the question stays open.")
    votes = serializers.IntegerField()
    quorum = serializers.IntegerField()
    vote = VoteOut()


def voted(vote: Vote) -> Response:
    """202: taken, and not decided yet."""
    count = Vote.objects.filter(pause=vote.pause_id).count()
    body = {
        "success": True,
        "decided": False,
        "votes": count,
        "quorum": policy.quorum(vote.pause),
        "vote": VoteOut(vote).data,
    }
    return Response(body, status=202)


class ClaimIn(serializers.Serializer[Any]):
    take_over = serializers.BooleanField(
        default=False, help_text="End somebody else's claim; superusers only."
    )


class ClaimView(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="claim_pause",
        request=ClaimIn,
        responses={200: ReviewOut},
        summary="Keep others from answering for a while",
        description=(
            "It ends by itself; claiming once more begins the time anew. 409 `claimed` names "
            "who has it and until when."
        ),
    )
    def post(self, request: Request, pause_id: UUID) -> Response:
        values = body_of(request, ClaimIn)
        pause = claims.claim(pause_id, by=user_of(request), take_over=values["take_over"])
        return Response(review_of(pause, user_of(request)))


class Release(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="release_pause",
        request=None,
        responses={200: ReviewOut},
        summary="Let others answer again",
    )
    def post(self, request: Request, pause_id: UUID) -> Response:
        return Response(review_of(claims.release(pause_id, by=user_of(request)), user_of(request)))


class HandOver(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="hand_over_pause",
        request=HandOverIn,
        responses={200: ReviewOut},
        summary="Let a colleague answer in your place",
        description=(
            "A delegation of this one question: both names are recorded, and it goes no further. "
            "It leaves your inbox; you may still answer. 422 `delegation_refused`: not to this "
            "person. 403 `not_a_reviewer`, `self_approval`: it is not yours to hand over."
        ),
    )
    def post(self, request: Request, pause_id: UUID) -> Response:
        values, by = body_of(request, HandOverIn), user_of(request)
        pause = handing_over.hand_over(pause_id, by=by, **values)
        return Response(review_of(pause, by))

    @extend_schema(
        operation_id="take_back_pause",
        request=None,
        responses={200: ReviewOut},
        summary="Answer yourself again what you handed over",
    )
    def delete(self, request: Request, pause_id: UUID) -> Response:
        by = user_of(request)
        return Response(review_of(handing_over.take_back(pause_id, by=by), by))
