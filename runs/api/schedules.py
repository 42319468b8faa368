"""Schedules for machines: one's own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from runs.api.fields import OptionalText, TellsQuickly
from runs.api.paging import Paged
from runs.api.requests import body_of, user_of
from runs.api.work_orders import Priority, WorkOrderIn, WorkOrderOut, just_made
from runs.models import Occurrence, Schedule, WorkOrder
from runs.models.priority import NORMAL, WORDS
from runs.models.schedules import CatchUp, Overlap
from runs.schedules import keeping, starting, times

CRON = "Minute, hour, day of the month, month, day of the week: `0 9 * * MON-FRI`."


class ScheduleIn(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=120)
    template = serializers.SlugField(
        max_length=80, help_text="Each start takes the version that is current then."
    )
    title = OptionalText(max_length=200)
    user_request = OptionalText(
        max_length=20_000, source="request", help_text="What is asked for, in words."
    )
    input = serializers.DictField(
        default=dict, help_text="Checked against the template's input schema."
    )
    repository_url = OptionalText(max_length=500)
    team = WorkOrderIn().fields["team"]
    priority = Priority(default=NORMAL, help_text=WORDS)
    cron = serializers.CharField(max_length=times.LONGEST, help_text=CRON)
    zone = serializers.CharField(
        max_length=64, default="UTC", help_text="IANA name of the time zone, Europe/Berlin."
    )
    until = OptionalText(
        max_length=5,
        help_text="The time in that zone, `12:00`, after which an occurrence starts no more.",
    )
    overlap = serializers.ChoiceField(
        Overlap.choices,
        default=Overlap.SKIP,
        help_text="What an occurrence does while work of an earlier one has not ended.",
    )
    catch_up = serializers.ChoiceField(
        CatchUp.choices,
        default=CatchUp.LATEST,
        help_text="What happens to occurrences that nobody could start in time.",
    )
    catch_up_most = serializers.IntegerField(
        min_value=1, max_value=times.MOST, default=10, help_text="How many `all` starts at most."
    )

    def validate_team(self, name: str | None) -> Any:
        return WorkOrderIn(context=self.context).validate_team(name)


class ScheduleChange(ScheduleIn):
    """What is left out stays as it is."""

    as_declared = serializers.BooleanField(
        default=False, help_text="Take over what the code declares, in place of what was changed."
    )
    enabled = serializers.BooleanField(
        required=False, help_text="Off: it starts nothing. On again: it catches up on nothing."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "partial": True})


class ScheduleOut(TellsQuickly, serializers.ModelSerializer[Schedule]):
    id = serializers.CharField(source="shown_id", help_text="sch_…")
    user_request = serializers.CharField(source="request")
    input = serializers.DictField()
    team = serializers.CharField(source="team.name", default=None, allow_null=True)
    stopped_because = serializers.CharField(
        help_text="Why the product switched it off; empty where it did not."
    )
    declared = serializers.SerializerMethodField(
        help_text="What the code declares, and its `place`; null where it does not."
    )
    changed = serializers.SerializerMethodField(
        help_text="Whether a person's change stands over what the code declares."
    )
    coming = serializers.SerializerMethodField(help_text="Its next times; empty where it is off.")

    class Meta:
        model = Schedule
        fields = (
            "id", "name", "template", "title", "user_request", "input", "repository_url", "team",
            "priority", "cron", "zone", "until", "overlap", "catch_up", "catch_up_most",
            "enabled", "stopped_because", "declared", "changed", "coming", "made_at",
        )  # fmt: skip

    @extend_schema_field({"type": ["object", "null"], "additionalProperties": {}})
    def get_declared(self, schedule: Schedule) -> dict[str, Any] | None:
        told = schedule.declared
        return {**told["values"], "place": told["place"]} if isinstance(told, dict) else None

    def get_changed(self, schedule: Schedule) -> bool:
        return keeping.stands_over_code(schedule)

    def get_coming(self, schedule: Schedule) -> list[str]:
        return [times.local(at, schedule.zone) for at in keeping.coming(schedule)]


class OccurrenceOut(TellsQuickly, serializers.ModelSerializer[Occurrence]):
    id = serializers.CharField(source="shown_id", help_text="occ_…")
    local = serializers.CharField(help_text="The time in the schedule's zone, with its offset.")
    until = serializers.DateTimeField(
        allow_null=True, help_text="Of several that were skipped together the last."
    )
    work_order_id = serializers.SerializerMethodField()
    by_hand = serializers.SerializerMethodField(help_text="Whether a person started it.")

    class Meta:
        model = Occurrence
        fields = (
            "id", "at", "local", "until", "count", "status", "why", "work_order_id", "by_hand",
            "settled_at",
        )  # fmt: skip

    def get_work_order_id(self, occurrence: Occurrence) -> str | None:
        return ids.show(WorkOrder.PREFIX, occurrence.order_id) if occurrence.order_id else None

    def get_by_hand(self, occurrence: Occurrence) -> bool:
        return occurrence.by_id is not None


class PreviewIn(serializers.Serializer[Any]):
    cron = serializers.CharField(max_length=times.LONGEST, help_text=CRON)
    zone = serializers.CharField(max_length=64, default="UTC")


class ComingOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    local = serializers.CharField(help_text="The time in that zone, with its offset.")
    note = serializers.CharField(help_text="What a change of the clock does to it; mostly empty.")


class ClockChangeOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    words = serializers.CharField(help_text="What becomes of times that it leaves out or repeats.")
    touches = serializers.BooleanField(help_text="Whether it touches one of these times.")


class PreviewOut(serializers.Serializer[Any]):
    coming = ComingOut(many=True, help_text=f"The next {keeping.PREVIEWED} times.")
    clock_changes = ClockChangeOut(
        many=True, source="changes", help_text="Of this zone, within a year; up to four."
    )


class MayAddSchedules(BasePermission):
    """Work that begins without anybody asking takes a right."""

    message = keeping.MAY_NOT
    code = keeping.MayNotSchedule.code

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.method in SAFE_METHODS or request.user.has_perm(starting.ADD)


class Schedules(Paged):
    """Your schedules."""

    permission_classes = [*APIView.permission_classes, MayAddSchedules]

    @extend_schema(
        operation_id="list_schedules",
        responses=ScheduleOut(many=True),
        summary="List your schedules, newest first",
    )
    def get(self, request: Request) -> Response:
        mine = Schedule.objects.filter(owner=user_of(request)).select_related("team")
        return self.page(request, mine, ScheduleOut)

    @extend_schema(
        operation_id="make_schedule",
        request=ScheduleIn,
        responses={201: ScheduleOut},
        summary="Order work by the clock",
        description="In your name; your rights are asked at each start. It takes the right "
        "`runs.add_schedule`, and is 403 `may_not_schedule` without.",
        examples=[
            OpenApiExample(
                "Weekdays at nine",
                {
                    "name": "Weekly tidy",
                    "template": "repo-tidy",
                    "repository_url": "https://github.com/example/project",
                    "cron": "0 9 * * MON-FRI",
                    "zone": "Europe/Berlin",
                },
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        schedule = keeping.make(user_of(request), **body_of(request, ScheduleIn))
        return Response(ScheduleOut(schedule).data, status=201)


class SchedulePreview(APIView):
    @extend_schema(
        operation_id="preview_schedule",
        request=PreviewIn,
        responses=PreviewOut,
        summary="Say when a schedule would occur, and what changes of the clock do to that",
        description="Makes nothing, and takes no right.",
        examples=[
            OpenApiExample(
                "Each night",
                {"cron": "30 2 * * *", "zone": "Europe/Berlin"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        return Response(PreviewOut(keeping.preview(**body_of(request, PreviewIn))).data)


class ScheduleDetail(APIView):
    @extend_schema(operation_id="get_schedule", responses=ScheduleOut, summary="Read a schedule")
    def get(self, request: Request, schedule_id: UUID) -> Response:
        return Response(ScheduleOut(_mine(request, schedule_id)).data)

    @extend_schema(
        operation_id="change_schedule",
        request=ScheduleChange,
        responses=ScheduleOut,
        summary="Change a schedule, or switch it on or off",
        description="It goes on by its new times from now; what waited for its turn is skipped. "
        "A change of one that the code declares stands over the code's until `as_declared`.",
    )
    def patch(self, request: Request, schedule_id: UUID) -> Response:
        schedule = _mine(request, schedule_id)
        return Response(
            ScheduleOut(keeping.change(schedule, **body_of(request, ScheduleChange))).data
        )

    @extend_schema(
        operation_id="remove_schedule",
        responses={204: None},
        summary="Remove a schedule and its history; its orders stay",
        description="One that the code declares is switched off instead.",
    )
    def delete(self, request: Request, schedule_id: UUID) -> Response:
        keeping.remove(_mine(request, schedule_id))
        return Response(status=204)


class ScheduleStart(APIView):
    @extend_schema(
        operation_id="start_schedule",
        request=None,
        responses={201: WorkOrderOut},
        summary="Start its order now, beside its times",
        description="409 `schedule_cannot_start`: its owner may not order this any more.",
    )
    def post(self, request: Request, schedule_id: UUID) -> Response:
        order = keeping.start_now(_mine(request, schedule_id), user_of(request))
        return Response(WorkOrderOut(just_made(order)).data, status=201)


class ScheduleOccurrences(Paged):
    @extend_schema(
        operation_id="list_occurrences",
        responses=OccurrenceOut(many=True),
        summary="List what became of its times, the last written first",
    )
    def get(self, request: Request, schedule_id: UUID) -> Response:
        return self.page(request, _mine(request, schedule_id).occurrences.all(), OccurrenceOut)


def _mine(request: Request, schedule_id: UUID) -> Schedule:
    mine = Schedule.objects.filter(owner=user_of(request)).select_related("owner", "team")
    schedule = mine.filter(pk=schedule_id).first()
    if schedule is None:
        raise NotFound("You have no such schedule.")
    return schedule
