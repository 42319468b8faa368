"""Limits of work at once for machines."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from runs.api.fields import OptionalText
from runs.api.paging import Listed, listed
from runs.api.requests import body_of, user_of
from runs.models import WorkLimit
from runs.services import limits as work_limits

REFUSED = "403 `may_not_limit`: it takes the right `runs.add_template`."


class LimitIn(serializers.Serializer[Any]):
    template = serializers.SlugField(max_length=80, help_text="Its slug; all its versions.")
    name = serializers.SlugField(
        default="",
        allow_blank=True,
        max_length=80,
        help_text="Limits of one name share their places. Empty: its own.",
    )
    pointer = OptionalText(
        max_length=200,
        help_text="JSON pointer into the input, `/customer`: so many per value. Empty: altogether.",
    )
    most = serializers.IntegerField(
        default=1, min_value=1, max_value=work_limits.MANY, help_text="How many at once."
    )
    rate = OptionalText(
        max_length=20,
        help_text="How many may begin in a time, `60/min`. Empty: any number.",
    )
    priority = serializers.IntegerField(
        default=0,
        min_value=-1000,
        max_value=1000,
        help_text="Of runs that wait for the same places higher ones go first.",
    )


class LimitChange(LimitIn):
    """What is left out stays as it is."""

    as_declared = serializers.BooleanField(
        default=False, help_text="Take over what the code declares, in place of what was changed."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "partial": True})


class LimitOut(serializers.ModelSerializer[WorkLimit]):
    """Of a limit from `work_limits.counted`."""

    at_work = serializers.IntegerField(help_text="Runs of the template that hold a place now.")
    waiting = serializers.IntegerField(help_text="Runs of the template that wait for one.")
    declared = serializers.DictField(
        allow_null=True, help_text="What the code declares, and where; null where it does not."
    )
    changed = serializers.SerializerMethodField(
        help_text="Whether a person's change stands over what the code declares."
    )

    def get_changed(self, limit: WorkLimit) -> bool:
        return work_limits.stands_over_code(limit)

    class Meta:
        model = WorkLimit
        fields = (
            "id", "template", "name", "pointer", "most", "rate", "priority", "off", "declared",
            "changed", "at_work", "waiting",
        )  # fmt: skip


class MayLimit(BasePermission):
    """Anybody reads limits; who may change templates settles them."""

    message = work_limits.MAY_NOT
    code = work_limits.MayNotLimit.code

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.method in SAFE_METHODS or request.user.has_perm(work_limits.SET)


class Limits(Listed):
    permission_classes = [*APIView.permission_classes, MayLimit]

    @extend_schema(
        operation_id="list_limits",
        responses=LimitOut(many=True),
        summary="List the limits of work at once, with how many work and wait",
    )
    def get(self, request: Request) -> Response:
        found = work_limits.counted().order_by("template", "pk")[: work_limits.MOST]
        return listed(LimitOut(found, many=True).data)

    @extend_schema(
        operation_id="make_limit",
        request=LimitIn,
        responses={201: LimitOut},
        summary="Limit how many runs of a template are at work at once",
        description=REFUSED,
    )
    def post(self, request: Request) -> Response:
        values = body_of(request, LimitIn)
        limit = work_limits.save(WorkLimit(), by=user_of(request), **values)
        return Response(LimitOut(_found(limit.pk)).data, status=201)


# a text in an address: of a number a checker would say that "1" is of the wrong type
LIMIT_ID = OpenApiParameter(
    "limit_id", {"type": "string", "pattern": "^[0-9]{1,18}$"}, OpenApiParameter.PATH
)


@extend_schema(parameters=[LIMIT_ID])
class LimitDetail(APIView):
    permission_classes = [*APIView.permission_classes, MayLimit]

    @extend_schema(operation_id="get_limit", responses=LimitOut, summary="Read a limit")
    def get(self, request: Request, limit_id: int) -> Response:
        return Response(LimitOut(_found(limit_id)).data)

    @extend_schema(
        operation_id="change_limit",
        request=LimitChange,
        responses=LimitOut,
        summary="Change a limit; it holds from the next claim on",
        description=REFUSED,
    )
    def patch(self, request: Request, limit_id: int) -> Response:
        limit = _found(limit_id)
        work_limits.save(limit, by=user_of(request), **body_of(request, LimitChange))
        return Response(LimitOut(_found(limit_id)).data)

    @extend_schema(
        operation_id="remove_limit",
        responses={204: None},
        summary="Remove a limit; who waited under it goes on",
        description=f"{REFUSED} One that the code declares stays, and is `off`.",
    )
    def delete(self, request: Request, limit_id: int) -> Response:
        work_limits.remove(_found(limit_id), by=user_of(request))
        return Response(status=204)


def _found(limit_id: int) -> WorkLimit:
    limit = work_limits.counted().filter(pk=limit_id).first()
    if limit is None:
        raise NotFound("There is no such limit.")
    return limit
