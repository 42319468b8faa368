"""Saved views of lists, over REST: one's own, and those that teams share."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from hitl.decisions.services import NotFound
from hitl.find import saved
from hitl.models import SavedView
from hitl.models.people.saved_views import ViewedList
from runs.api.fields import OptionalText, TellsQuickly, TextOrNull
from runs.api.paging import Paged
from runs.api.requests import body_of, user_of

QUERY = "What the list is asked, as in its address: `status=failed&sort=oldest`."
TEAM = "Name of a group of yours, whose members see it too; null for nobody else."


class SavedViewOut(TellsQuickly, serializers.ModelSerializer[SavedView]):
    id = serializers.CharField(source="shown_id", help_text="view_…")
    query = serializers.CharField(help_text=QUERY)
    team = serializers.CharField(source="team.name", default=None, allow_null=True)
    owner = serializers.CharField(source="owner.get_username", help_text="Who may change it.")
    address = serializers.SerializerMethodField(help_text="Where people look at it.")

    class Meta:
        model = SavedView
        fields = ("id", "list", "name", "query", "team", "owner", "address", "made_at")

    def get_address(self, view: SavedView) -> str:
        return saved.address_of(view)


class SavedViewChange(serializers.Serializer[Any]):
    name = serializers.CharField(required=False, max_length=saved.LONGEST_NAME)
    query = OptionalText(required=False, default=serializers.empty, max_length=saved.MOST)
    team = TextOrNull(required=False, default=serializers.empty, max_length=150, help_text=TEAM)


class SavedViewIn(serializers.Serializer[Any]):
    list = serializers.ChoiceField(ViewedList.choices)
    name = serializers.CharField(max_length=saved.LONGEST_NAME)
    query = OptionalText(max_length=saved.MOST, help_text=QUERY)
    team = TextOrNull(max_length=150, help_text=TEAM)


class Views(Paged):
    @extend_schema(
        operation_id="list_views",
        responses=SavedViewOut(many=True),
        parameters=[
            OpenApiParameter("list", str, enum=ViewedList.values, description="Views of that one.")
        ],
        summary="List saved views, your own and those of your teams, newest first",
    )
    def get(self, request: Request) -> Response:
        views = saved.seen_by(user_of(request))
        if name := request.query_params.get("list"):
            views = views.filter(list=name)
        return self.page(request, views, SavedViewOut)

    @extend_schema(
        operation_id="save_view",
        request=SavedViewIn,
        responses={201: SavedViewOut},
        summary="Save a view of a list",
        examples=[
            OpenApiExample(
                "Failed lately",
                {"list": "orders", "name": "Failed lately", "query": "status=failed&since=7d"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        values = _with_team(request, body_of(request, SavedViewIn))
        view = saved.make(user_of(request), of_list=values.pop("list"), **values)
        return Response(SavedViewOut(view).data, status=201)


class ViewDetail(APIView):
    @extend_schema(operation_id="get_view", responses=SavedViewOut, summary="Read a saved view")
    def get(self, request: Request, view_id: UUID) -> Response:
        return Response(SavedViewOut(_seen(request, view_id)).data)

    @extend_schema(
        operation_id="change_view",
        request=SavedViewChange,
        responses=SavedViewOut,
        summary="Rename a saved view of your own, share it, or change what it asks",
        description="403 `not_your_view`: somebody else made it.",
    )
    def patch(self, request: Request, view_id: UUID) -> Response:
        view = _seen(request, view_id)
        values = _with_team(request, body_of(request, SavedViewChange))
        return Response(SavedViewOut(saved.change(view, user_of(request), **values)).data)

    @extend_schema(
        operation_id="remove_view",
        responses={204: None},
        summary="Remove a saved view of your own",
        description="403 `not_your_view`: somebody else made it.",
    )
    def delete(self, request: Request, view_id: UUID) -> Response:
        saved.remove(_seen(request, view_id), user_of(request))
        return Response(status=204)


def _with_team(request: Request, values: dict[str, Any]) -> dict[str, Any]:
    """The team by its name; one that the person is not in is none. Raises ViewInvalid."""
    if values.get("team"):
        values["team"] = user_of(request).groups.filter(name=values["team"]).first()
        if values["team"] is None:
            raise saved.ViewInvalid("team", "You are in no team of this name.")
    return values


def _seen(request: Request, view_id: UUID) -> SavedView:
    view = saved.seen_by(user_of(request)).filter(pk=view_id).first()
    if view is None:
        raise NotFound("There is no such view.")
    return view
