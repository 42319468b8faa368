"""Several questions answered by one request."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from hitl.api.threads.fields import IdField
from hitl.decisions import bulk
from hitl.decisions.services import Answer
from hitl.models import Via
from runs.api.fields import OptionalText
from runs.api.requests import body_of, user_of
from runs.models import Pause
from runs.security import scopes


class ChosenIn(serializers.Serializer[Any]):
    """As an answer of its own names what was looked at (`fields.DecisionIn`)."""

    id = IdField("pse", required=False, help_text="pse_…; as the question has it.")
    pause_id = IdField("pse", required=False, help_text="The same.")
    revision = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=2**31 - 1,
        help_text="The revision you saw; this, or the digest.",
    )
    content_digest = OptionalText(
        max_length=64, help_text="Of the content you saw, as the question has it."
    )


class BulkIn(serializers.Serializer[Any]):
    decision = serializers.ChoiceField(list(bulk.ANSWERS))
    pauses = ChosenIn(many=True, help_text=f"Up to {bulk.MOST}.")


class BulkResult(serializers.Serializer[Any]):
    pause_id = serializers.SerializerMethodField()
    decided = serializers.SerializerMethodField()
    decision_id = serializers.SerializerMethodField(help_text="null where nothing was decided.")
    code = serializers.CharField(
        help_text=(
            "Why nothing was decided: `not_in_bulk`, `pause_closed`, `revision_mismatch`, "
            "`not_found`, …"
        )
    )
    detail = serializers.CharField(source="words")

    def get_pause_id(self, result: bulk.BulkResult) -> str:
        return ids.show(Pause.PREFIX, result.pause_id)

    def get_decided(self, result: bulk.BulkResult) -> bool:
        return result.decision is not None

    def get_decision_id(self, result: bulk.BulkResult) -> str | None:
        return result.decision.shown_id if result.decision else None


class BulkOut(serializers.Serializer[Any]):
    decided = serializers.IntegerField(help_text="How many.")
    results = BulkResult(many=True, help_text="One for each, in the order of the request.")


class Bulk(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="decide_several",
        request=BulkIn,
        responses={200: BulkOut},
        summary="Answer several questions alike",
        description="Each goes through the same rules as an answer of its own. Questions of high "
        "risk, and "
        "those that ask for data or a "
        "reason, are left out (`not_in_bulk`). Answers 200 whatever came of each; see the results.",
    )
    def post(self, request: Request) -> Response:
        values = body_of(request, BulkIn)
        chosen = list(map(_chosen, values["pauses"]))
        results = bulk.decide(chosen, Answer(values["decision"], Via.REST), by=user_of(request))
        return Response(
            BulkOut(
                {"decided": sum(1 for result in results if result.decision), "results": results}
            ).data
        )


def _chosen(given: dict[str, Any]) -> bulk.Chosen:
    """Raises bulk.BulkInvalid where it names no question, or two, or not what was looked at."""
    names = {given[name] for name in ("id", "pause_id") if name in given}
    if len(names) != 1 or (given["revision"] is None and not given["content_digest"]):
        raise bulk.BulkInvalid(
            "Name of each question its id, and the revision or the content_digest that you saw. "
            "Nothing was decided."
        )
    return bulk.Chosen(names.pop(), given["revision"], given["content_digest"])
