"""Crons: the caller's schedules (`runs.schedules.keeping`), in LangGraph's words.

Each time a work order begins, with a thread of its own. What a schedule does not keep is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extensions.langgraph.api import assistants, starting
from extensions.langgraph.api.calls import Call, Given, Reply, invalid
from extensions.langgraph.api.threads import TEAM
from hitl.decisions.services import NotFound
from runs import definitions
from runs.models import Schedule
from runs.models.schedules import Overlap
from runs.schedules import keeping

NAME = "name"
"""Key of a cron's metadata: its name. Beside it there is the team's."""
LONGEST_NAME = 120
KEEP = "keep"
BOUND = (
    "Nothing was made: a schedule of this server begins a thread of its own each time. Create it "
    "without a thread."
)
NOT_KEPT = {
    "end_time": "a schedule has no end here; delete it, or send enabled false",
    "webhook": "deliveries of this server are set up by its people",
    "context": "templates are configured by this server's people",
    "interrupt_before": "a schedule keeps no steps to stop at",
    "interrupt_after": "a schedule keeps no steps to stop at",
    "multitask_strategy": "each time has a thread of its own, so nothing is in its way",
    "stream_mode": "nobody follows what begins by the clock; name modes when you join it",
    "stream_subgraphs": "nobody follows what begins by the clock",
}
"""Fields with which nothing would be done, and why."""


class _Kept(Given):
    schedule: str = ""
    timezone: str = ""
    input: Any = None
    metadata: dict[str, Any] = {}
    config: dict[str, Any] = {}
    enabled: bool | None = None
    on_run_completed: str = KEEP
    end_time: Any = None
    webhook: Any = None
    context: Any = None
    interrupt_before: Any = None
    interrupt_after: Any = None
    multitask_strategy: Any = None
    stream_mode: Any = None
    stream_subgraphs: Any = None
    # each run is kept so anyhow
    durability: str = ""
    checkpoint_during: bool = True
    stream_resumable: bool = True


class CronIn(_Kept):
    assistant_id: str


class CronChange(_Kept):
    pass


class Count(Given):
    assistant_id: str = ""
    thread_id: str = ""
    metadata: dict[str, Any] = {}


class Search(Count):
    enabled: bool | None = None
    limit: int = 10
    offset: int = 0
    sort_by: str = "created_at"
    sort_order: str = "desc"
    select: list[str] = []


def create(call: Call) -> Reply:
    """Raises StreamRefused, and as `keeping.make`."""
    given = call.body(CronIn)
    template = assistants.find(call, given.assistant_id)
    values = {
        "name": f"{template.title}: {given.schedule}"[:LONGEST_NAME],
        "zone": "UTC",
        "cron": given.schedule,
        "overlap": Overlap.ALLOW,  # as there: each time begins, whatever the one before does
        "template": template.slug,
        **_values(call, given, template.slug),
    }
    return Reply(data=_shown(keeping.make(call.by, **values)))


def refuse_bound(call: Call) -> Reply:
    """Of a thread there is no schedule: what begins by the clock would meet its open question."""
    raise invalid(BOUND)


def change(call: Call) -> Reply:
    """Change what is named. Raises StreamRefused, NotFound, and as `keeping.change`."""
    given = call.body(CronChange)
    schedule = _find(call)
    return Reply(data=_shown(keeping.change(schedule, **_values(call, given, schedule.template))))


def delete(call: Call) -> Reply:
    """As `keeping.remove`: one that the code declares is switched off. Raises NotFound."""
    keeping.remove(_find(call))
    return Reply(status=204)


def search(call: Call) -> Reply:
    given = call.body(Search)
    rows = _found(call, given)
    if given.enabled is not None:
        rows = [row for row in rows if row["enabled"] == given.enabled]
    if given.sort_by not in SORTED:
        raise invalid(f"sort_by is one of {', '.join(SORTED)}.")
    # one without a value comes last in either order
    falling = given.sort_order.lower() != "asc"
    named = [row for row in rows if row[given.sort_by] is not None]
    named.sort(key=lambda row: (row[given.sort_by], row["cron_id"]), reverse=falling)
    rows = named + [row for row in rows if row[given.sort_by] is None]
    return assistants.page(rows, given.limit, given.offset, given.select)


SORTED = (
    *("cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date"),
    "end_time",
)


def count(call: Call) -> Reply:
    return Reply(data=len(_found(call, call.body(Count))))


def _found(call: Call, given: Count) -> list[dict[str, Any]]:
    rows = [_shown(one) for one in _own(call)]
    return [
        row
        for row in rows
        if not given.thread_id  # none is of a thread
        and given.assistant_id in {"", row["assistant_id"], row["payload"]["graph_id"]}
        and all(row["metadata"].get(key) == value for key, value in given.metadata.items())
    ]


def _own(call: Call) -> Any:
    return Schedule.objects.filter(owner=call.by).select_related("owner", "team").order_by("pk")


def _find(call: Call) -> Schedule:
    """The caller's schedule of the address. Raises NotFound, StreamRefused."""
    schedule: Schedule | None = _own(call).filter(pk=call.key("cron_id")).first()
    if schedule is None:
        raise NotFound("You have no such cron.")
    return schedule


def _values(call: Call, given: _Kept, slug: str) -> dict[str, Any]:
    """What is named, as a schedule keeps it. Raises StreamRefused."""
    for name, why in NOT_KEPT.items():
        if getattr(given, name):
            raise invalid(f"{name}: not here; {why}.")
    if given.on_run_completed != KEEP:
        raise invalid("on_run_completed: a record is kept here; send keep.")
    starting.check_config(given.config, of_run=False)
    if unknown := sorted(set(given.metadata) - {NAME, TEAM}):
        raise invalid(
            f"metadata: {unknown[0][:60]} is not kept of a cron; it has {NAME} and {TEAM}."
        )
    named = {"schedule": "cron", "timezone": "zone", "enabled": "enabled"}
    values = {
        column: getattr(given, name)
        for name, column in named.items()
        if name in given.model_fields_set
    }
    if given.input is not None:
        values["input"] = starting.input_of(definitions.current(slug), given.input)
    if NAME in given.metadata:
        values["name"] = given.metadata[NAME]
        if not isinstance(values["name"], str):
            raise invalid(f"metadata.{NAME} is a text.")
    if TEAM in given.metadata:
        values["team"] = _team(call, given.metadata)
    return values


def _team(call: Call, metadata: Mapping[str, Any]) -> Any:
    team = call.by.groups.filter(name=str(metadata[TEAM])).first() if metadata[TEAM] else None
    if metadata[TEAM] and team is None:
        raise invalid(f"metadata.{TEAM}: you are in no team of this name.")
    return team


def _shown(schedule: Schedule) -> dict[str, Any]:
    made = schedule.made_at.isoformat()
    team = {TEAM: schedule.team.name} if schedule.team is not None else {}
    following = schedule.next_at if schedule.enabled else None
    return {
        "cron_id": str(schedule.pk),
        "assistant_id": assistants.id_of(schedule.template),
        "thread_id": None,
        "user_id": schedule.owner.get_username(),
        "schedule": schedule.cron,
        "timezone": schedule.zone,
        "enabled": schedule.enabled,
        "end_time": None,
        "on_run_completed": KEEP,
        "next_run_date": following.isoformat() if following else None,
        "payload": {
            "assistant_id": assistants.id_of(schedule.template),
            "graph_id": schedule.template,
            "input": dict(schedule.input),
        },
        "metadata": {NAME: schedule.name, **team},
        "created_at": made,
        "updated_at": made,
    }
