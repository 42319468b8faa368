import json
import uuid
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import F, OuterRef, Subquery

from checkpoints import ids
from checkpoints.checks import OURS
from checkpoints.database.people import User, called
from checkpoints.management.shown import PlainCommand
from runs.api.schedules import OccurrenceOut, PreviewOut, ScheduleOut
from runs.models import Occurrence, Schedule
from runs.schedules import keeping, starting, times

MOST = 500
"""Lines of a list."""
HISTORY = 10
"""Occurrences that `show` names."""


class Command(PlainCommand):
    help = (
        "Look after all schedules from the shell: list, show, pause, resume, run. Whoever has the "
        "shell may, as operators may in the admin."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="what is next comes first; those off come last")
        listing.add_argument("--owner", help="of this user alone")
        listing.add_argument("--limit", type=int, default=50, help=f"how many, up to {MOST} (50)")
        show = actions.add_parser(
            "show", help="what it orders, its next times, and what became of the latest ones"
        )
        for reader in (listing, show):
            reader.add_argument("--json", action="store_true", help="one JSON document")
        pause = actions.add_parser("pause", help="switch it off: it starts nothing any more")
        resume = actions.add_parser("resume", help="switch it on; nothing is caught up")
        run = actions.add_parser(
            "run", help="start its order now, as its owner, beside its times; prints its id"
        )
        for one in (show, pause, resume, run):
            one.add_argument("schedule", help="sch_…")

    def handle(self, *args: Any, **options: Any) -> None:
        action = options["action"]
        if action == "list":
            self._list(options["owner"], limit=options["limit"], as_json=options["json"])
            return
        schedule = _found(options["schedule"])
        if action == "show":
            self._show(schedule, as_json=options["json"])
        elif action == "run":
            self._run(schedule)
        else:
            self._switch(schedule, enabled=action == "resume")

    def _list(self, owner: str | None, *, limit: int, as_json: bool) -> None:
        if not 1 <= limit <= MOST:
            raise CommandError(f"--limit is a number from 1 to {MOST}.")
        found = Schedule.objects.select_related("owner")
        if owner is not None:
            user = User.objects.filter(called(owner)).first()
            if user is None:
                raise CommandError(f"There is no user {owner!r}.")
            found = found.filter(owner=user)
        rows = list(found.order_by(F("next_at").asc(nulls_last=True), "pk")[: limit + 1])
        shown = rows[:limit]
        last = _latest(shown)
        if as_json:
            listed = [_row(schedule, last.get(schedule.pk)) for schedule in shown]
            self._print({"schedules": listed, "more": len(rows) > limit})
            return
        for schedule in shown:
            self.stdout.write(_line(schedule))
            for line in _lines(last.get(schedule.pk)):
                self.stdout.write(f"    {line}")
        if not rows:
            self.stdout.write("No schedules.")
        elif len(rows) > limit:
            self.stdout.write(f"… and more: --limit {min(limit * 5, MOST)} shows them.")

    def _show(self, schedule: Schedule, *, as_json: bool) -> None:
        preview = keeping.preview_of(schedule)
        history = list(schedule.occurrences.order_by("-at")[:HISTORY])
        if as_json:
            self._print(
                {
                    **ScheduleOut(schedule).data,
                    "owner": schedule.owner.get_username(),
                    "preview": PreviewOut(preview).data if preview else None,
                    "occurrences": OccurrenceOut(history, many=True).data,
                }
            )
            return
        self.stdout.write(_line(schedule))
        orders = f"orders by {schedule.template}"
        team = f", for the team {schedule.team}" if schedule.team else ""
        self.stdout.write(f"    {orders}{team}, priority {schedule.priority}")
        at_once = f"overlap: {schedule.overlap}; catch-up: {schedule.catch_up}"
        self.stdout.write(f"    {at_once}, at most {schedule.catch_up_most}")
        self.stdout.write("Next times:")
        for time in preview.coming if preview else ():
            self.stdout.write(f"    {time.local}  {time.note}".rstrip())
        if preview is None:
            self.stdout.write("    none: it is off")
        for change in preview.changes if preview else ():
            self.stdout.write(f"    {change.words}")
        self.stdout.write("Latest occurrences:")
        for occurrence in history:
            for line in _lines(occurrence):
                self.stdout.write(f"    {line}")
        if not history:
            self.stdout.write("    none yet")

    def _switch(self, schedule: Schedule, *, enabled: bool) -> None:
        words = "on" if enabled else "off"
        if schedule.enabled == enabled:
            self.stdout.write(f"It is {words} already.")
            return
        keeping.change(schedule, enabled=enabled)
        self.stdout.write(f"Switched {words}.")

    def _run(self, schedule: Schedule) -> None:
        try:
            order = keeping.start_now(schedule, schedule.owner)
        except (keeping.CannotStart, *starting.REFUSALS) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(order.shown_id)

    def _print(self, document: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(document, indent=2, default=str))


def _found(shown: str) -> Schedule:
    try:
        key = ids.parse(Schedule.PREFIX, shown)
        return Schedule.objects.select_related("owner", "team").get(pk=key)
    except (ValueError, Schedule.DoesNotExist) as error:
        raise CommandError(f"There is no schedule {shown!r}.") from error


def _latest(schedules: list[Schedule]) -> dict[uuid.UUID, Occurrence]:
    """The latest occurrence of each."""
    same = Occurrence.objects.filter(schedule=OuterRef("schedule")).order_by("-at").values("pk")
    found = Occurrence.objects.filter(schedule__in=schedules, pk=Subquery(same[:1]))
    return {occurrence.schedule_id: occurrence for occurrence in found}


def _state(schedule: Schedule) -> str:
    return "on" if schedule.enabled else "stopped" if schedule.stopped_because else "off"


def _line(schedule: Schedule) -> str:
    """One line: id, state, next time, expression and zone, owner, name; why it was stopped."""
    following = times.local(schedule.next_at, schedule.zone) if schedule.next_at else "-"
    words = (
        f"{schedule.shown_id}  {_state(schedule):<7}  {following:<22}  {schedule.cron}  "
        f"{schedule.zone}  {schedule.owner.get_username()}  {schedule.name}"
    )
    stopped = schedule.stopped_because
    return words + (f"\n    stopped: {stopped}" if stopped else "")


def _lines(occurrence: Occurrence | None) -> list[str]:
    """What became of an occurrence, and why."""
    if occurrence is None:
        return []
    several = f" ({occurrence.count} times)" if occurrence.count > 1 else ""
    why = f": {occurrence.why}" if occurrence.why else ""
    return [f"{occurrence.local}{several}  {occurrence.status}{why}"]


def _row(schedule: Schedule, last: Occurrence | None) -> dict[str, Any]:
    return {
        "id": schedule.shown_id,
        "name": schedule.name,
        "owner": schedule.owner.get_username(),
        "template": schedule.template,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "state": _state(schedule),
        "stopped_because": schedule.stopped_because,
        "next_at": schedule.next_at.isoformat() if schedule.next_at else None,
        "last": OccurrenceOut(last).data if last else None,
    }
