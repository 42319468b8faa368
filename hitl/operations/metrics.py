"""How it goes, as numbers for Prometheus: `/metrics`.

All come from rows, so every host tells the same and a restart loses nothing; in a fixed number of
statements, each by an index, found once in FRESH seconds whoever asks. What is counted up is
counted from the beginning of a day or an hour (UTC), which bounds what is read; Prometheus takes
the fall to nothing at its end for a restart. Labels are bounded: statuses, queues, risks, slugs of
TEMPLATES templates.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import Count, F, Min, OuterRef, Q, Subquery, Sum
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.models import Checkpoint, CheckpointStatus, Event, EventKind
from hitl.models import Decision, Via
from hitl.models.outbound import Delivery, DeliveryStatus
from hitl.operations import dashboard, health, invariants, loads
from hitl.operations.found_once import FoundOnce
from runs.models import Heartbeat, HeartbeatKind, Pause, Run, installation
from runs.states import FAILED, LIVE, PENDING, RUNNING, FailureCode, RunStatus
from runs.threads import edits
from runs.workflows.sequence import APPROVE, CANCEL, REVISE
from runs.workflows.tool_calls import RISKS
from runs.workflows.wait_for_input import ANSWER

logger = logging.getLogger(__name__)

FRESH = 15.0
"""Seconds for which numbers hold."""
WITHIN = 8.0
"""Seconds that a scrape waits for new ones; then there are none."""
INVARIANTS_FRESH = 900.0
"""Seconds for which the look at the invariants holds, which reads whole tables."""

TEMPLATES = 50
"""Slugs of templates that are told apart, those with most answers; the rest is OTHER."""
OTHER = "other"
NAN = float("nan")
ANSWERS = {APPROVE, REVISE, CANCEL, ANSWER}
BUCKETS = (10, 60, 300, 900, 3600, 4 * 3600, 8 * 3600, 86_400, 3 * 86_400, 7 * 86_400)
"""Seconds from a question to its answer."""
QUESTIONS = 5000
"""Open questions whose risk is read, the newest; the others are counted as `unread`."""
RECENT = 500
"""Steps whose seconds are told."""

Families = list[Metric]


def families() -> Families | None:
    """The numbers of the installation; None where the database does not give them in time."""
    return _found.get(within=WITHIN)


def forget() -> None:
    """Have the next look be a new one."""
    _found.forget()
    _broken.forget()


def broken_invariants(*, within: float = 0) -> Families:
    """The last look at the invariants; the first begins it, does not wait, and tells NaN of each:
    there is a name to ask for, and nobody is told that all is well before it was looked at.
    """
    return _broken.get(within=within, stale=True) or _of_invariants({}, at=NAN, took=NAN)


def find() -> Families:
    with health.impatient():
        return list(_find(clock.read()))


def _find(now: dt.datetime) -> Iterator[Metric]:
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    yield _info()
    yield from _runs(now)
    yield from _queues(now)
    yield from _questions(now)
    yield _answers(day)
    yield _passed(day)
    yield from _steps(now.replace(minute=0, second=0, microsecond=0))
    yield from _deliveries(now, day)
    yield from _signs_of_life()
    yield _parts()
    yield _lag(now)


def _gauge(name: str, words: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"waystation_{name}", words, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family


def _plain(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"waystation_{name}", words, value=value)


def _age(now: dt.datetime, at: dt.datetime | None) -> float:
    return 0.0 if at is None else max(0.0, (now - at).total_seconds())


def _info() -> Metric:
    family = GaugeMetricFamily(
        "waystation_build_info", "1, of this version.", labels=["version", "commit"]
    )
    family.add_metric([installation.version(), installation.commit()], 1)
    return family


def _runs(now: dt.datetime) -> Iterator[Metric]:
    live: dict[str, float] = {str(status): 0 for status in sorted(LIVE)}
    live |= dict(Run.objects.live().order_by().values_list("status").annotate(Count("pk")))
    yield _gauge("runs", "Runs that are under way, by status.", "status", live)
    lately = Run.objects.filter(pk__gte=ids.floor(now - dashboard.LATELY))
    begun = lately.exclude(edits.ONLY).order_by()
    incident = Count("pk", filter=Q(status=FAILED, failure_code=FailureCode.INCIDENT))
    rows = list(begun.values_list("status").annotate(many=Count("pk"), incidents=incident))
    yield _gauge(
        "runs_begun_in_a_day",
        "Runs begun in the last 24 hours, by what they are now.",
        "status",
        {**dict.fromkeys(sorted(RunStatus.values), 0), **{str(row[0]): row[1] for row in rows}},
    )
    yield _plain(
        "incidents_in_a_day",
        "Runs begun in the last 24 hours that stopped because they kept losing their workers.",
        sum(row[2] for row in rows),
    )


def _queues(now: dt.datetime) -> Iterator[Metric]:
    queues = dashboard.queues(now)
    told: tuple[tuple[str, str, Any], ...] = (
        ("queue_waiting", "Runs that are due and that no worker has taken.", "waiting"),
        ("queue_later", "Runs whose time is yet to come.", "later"),
        ("queue_working", "Runs that a worker has.", "working"),
    )
    for name, words, of in told:
        values = {queue.name: getattr(queue, of) for queue in queues}
        yield _gauge(name, words, "queue", values)
    yield _gauge(
        "queue_oldest_seconds",
        "For how long the run waits that waits longest for a worker.",
        "queue",
        {queue.name: _age(now, queue.oldest) for queue in queues},
    )
    yield _gauge(
        "queue_free",
        "Runs that workers of the queue could take beside those that they hold.",
        "queue",
        {queue.name: queue.free for queue in queues if queue.free is not None},
    )
    leases = Run.objects.filter(status=RUNNING).aggregate(
        ended=Count("pk", filter=Q(lease_until__lt=now)),
    )
    yield _plain(
        "leases_lost", "Runs whose worker fell silent, not taken back yet.", leases["ended"]
    )
    lost = Q(lost_attempts__gt=0) | Q(deaths__gt=0)
    losing = Run.objects.filter(lost, status__in=[PENDING, RUNNING])
    yield _plain(
        "runs_that_lost_workers",
        "Runs at work or waiting that lost a worker or a step's process since their last step.",
        losing.count(),
    )


def _questions(now: dt.datetime) -> Iterator[Metric]:
    newest = (
        Pause.objects.open()
        .order_by("-pk")
        .only("review", "calls", "deadline_at", "opened_at")[:QUESTIONS]
    )
    open_, late = Counter(dict.fromkeys(RISKS, 0)), Counter(dict.fromkeys(RISKS, 0))
    for pause in newest.iterator():
        open_[pause.risk] += 1
        late[pause.risk] += pause.deadline_at is not None and pause.deadline_at < now
    every = Pause.objects.open().aggregate(
        open=Count("pk"), late=Count("pk", filter=Q(deadline_at__lt=now)), oldest=Min("opened_at")
    )
    open_["unread"], late["unread"] = (
        every["open"] - open_.total(),
        every["late"] - late.total(),
    )
    yield _gauge("questions_open", "Questions that wait for an answer, by risk.", "risk", open_)
    yield _gauge("questions_late", "Of those, past their deadline.", "risk", late)
    yield _plain(
        "question_oldest_seconds",
        "For how long the question waits that waits longest.",
        _age(now, every["oldest"]),
    )


def _answers(day: dt.datetime) -> Metric:
    """A histogram of the answers of this day, counted in the database."""
    took = F("decided_at") - F("pause__opened_at")
    within = {
        f"b{bound}": Count("pk", filter=Q(took__lte=dt.timedelta(seconds=bound)))
        for bound in BUCKETS
    }
    rows: Any = (
        Decision.objects.filter(pk__gte=ids.floor(day), undoes=None, pause__isnull=False)
        .exclude(via=Via.WORKFLOW)  # nobody was asked
        .order_by()
        .annotate(took=took)
        .values("pause__run__definition__template_slug", "action")
        .annotate(many=Count("pk"), whole=Sum("took"), **within)
    )
    by_template: Counter[str] = Counter()
    found = list(rows)
    for row in found:
        by_template[row["pause__run__definition__template_slug"]] += row["many"]
    told = {slug for slug, _ in by_template.most_common(TEMPLATES)}
    # from the start, so that what is asked for is there before anybody answered
    merged: dict[tuple[str, str], tuple[Counter[str], float]] = {
        (OTHER, action): (Counter(), 0.0) for action in ANSWERS
    }
    for row in found:
        slug, action = row["pause__run__definition__template_slug"], row["action"]
        labels = (slug if slug in told else OTHER, action if action in ANSWERS else OTHER)
        counts, seconds = merged.get(labels, (Counter(), 0.0))
        counts.update({name: row[name] for name in ("many", *within)})
        merged[labels] = counts, seconds + row["whole"].total_seconds()
    family = HistogramMetricFamily(
        "waystation_answer_seconds",
        "Seconds from a question to its answer, of the answers since midnight (UTC).",
        labels=["template", "answer"],
    )
    for labels, (counts, seconds) in sorted(merged.items()):
        buckets = [(f"{bound:.1f}", float(counts[f"b{bound}"])) for bound in BUCKETS]
        family.add_metric(list(labels), [*buckets, ("+Inf", float(counts["many"]))], seconds)
    return family


def _passed(day: dt.datetime) -> Metric:
    slug = "pause__run__definition__template_slug"
    passed = Decision.objects.filter(
        pk__gte=ids.floor(day), via=Via.WORKFLOW, pause__isnull=False
    ).order_by()
    counts = Counter(dict(passed.values_list(slug).annotate(Count("pk"))))
    named = dict(counts.most_common(TEMPLATES))
    named[OTHER] = counts.total() - sum(named.values())
    return _gauge(
        "reviews_passed",
        "Reviews that steps passed by themselves since midnight (UTC), by template.",
        "template",
        Counter(named),
    )


def _steps(hour: dt.datetime) -> Iterator[Metric]:
    ended = Checkpoint.objects.filter(pk__gte=ids.floor(hour)).exclude(node_id="").order_by()
    outcomes = dict.fromkeys(sorted(CheckpointStatus.values), 0)
    outcomes |= dict(ended.values_list("status").annotate(Count("pk")))
    counted = CounterMetricFamily(
        "waystation_steps",
        "Checkpoints that steps left since the hour began, by status; pending_input has asked.",
        labels=["outcome"],
    )
    for outcome, many in outcomes.items():
        counted.add_metric([outcome], many)
    yield counted
    began = (
        Event.objects.filter(
            thread=OuterRef("thread"), kind=EventKind.STEP_STARTED, at__lte=OuterRef("created_at")
        )
        .order_by("-seq")
        .values("at")[:1]
    )
    newest = ended.order_by("-pk").annotate(began=Subquery(began))[:RECENT]
    seconds = [
        (made - begun).total_seconds()
        for made, begun in newest.values_list("created_at", "began")
        if begun is not None
    ]
    recent = GaugeMetricFamily(
        "waystation_recent_step_seconds",
        f"Of the last {RECENT} steps of this hour, how long so many of them took at most.",
        labels=["share"],
    )
    seconds.sort()
    for share in (0.5, 0.95, 1.0):
        at_most = seconds[max(0, round(share * len(seconds)) - 1)] if seconds else 0.0
        recent.add_metric([f"{share:g}"], at_most)
    yield recent


def _deliveries(now: dt.datetime, day: dt.datetime) -> Iterator[Metric]:
    open_ = [DeliveryStatus.QUEUED, DeliveryStatus.SENDING, DeliveryStatus.DEAD]
    late = Count(
        "pk", filter=Q(status=DeliveryStatus.QUEUED, next_at__lt=now - dashboard.patience())
    )
    # one by one: each status has an index of its own, and those that were sent are many
    first, *others = [
        Delivery.objects.filter(status=status)
        .order_by()
        .values_list("status")
        .annotate(many=Count("pk"), late=late)
        for status in open_
    ]
    rows = list(first.union(*others, all=True))
    states = {**dict.fromkeys(open_, 0), **{row[0]: row[1] for row in rows}}
    yield _gauge(
        "deliveries",
        "Messages to people and systems that are not sent: queued, sending, dead (given up).",
        "status",
        {str(status): number for status, number in states.items()},
    )
    yield _plain(
        "deliveries_late", "Queued messages whose time has passed.", sum(row[2] for row in rows)
    )
    made = Delivery.objects.filter(pk__gte=ids.floor(day)).order_by()
    counted = CounterMetricFamily(
        "waystation_deliveries_planned",
        "Messages planned since midnight (UTC), by what became of them.",
        labels=["status"],
    )
    today = dict.fromkeys(sorted(DeliveryStatus.values), 0)
    today |= dict(made.values_list("status").annotate(Count("pk")))
    for status, many in today.items():
        counted.add_metric([status], many)
    yield counted


def _signs_of_life() -> Iterator[Metric]:
    rows: list[Any] = list(Heartbeat.objects.with_now())
    workers = Counter(dict.fromkeys([*loads.ALWAYS, "agents"], 0))
    for row in health.lately(rows, HeartbeatKind.WORKER):
        workers.update(name for name in row.queues if name in workers)
    yield _gauge("workers", "Workers that were seen lately, by queue.", "queue", workers)
    looked = [row for row in rows if row.kind == HeartbeatKind.LOOK]
    yield _plain(
        "look_age_seconds",
        "Seconds since a worker carried out what beat asks for; noted each 10 seconds. -1: never.",
        _age(looked[0].now, looked[0].seen_at) if looked else -1,
    )


def _parts() -> Metric:
    found = [*health.look_at_database(), *health.look_at_redis()]
    return _gauge(
        "part_ok",
        "1 where a part of /readyz is well, else 0.",
        "part",
        {part.name: float(part.ok) for part in found},
    )


def _lag(now: dt.datetime) -> Metric:
    """How far each round is behind: what was due first, and is not done."""
    due = {
        "deadlines": Pause.objects.due(now=now).order_by().aggregate(at=Min("next_at"))["at"],
        "deliveries": Delivery.objects.filter(
            status=DeliveryStatus.QUEUED, next_at__lte=now
        ).aggregate(at=Min("next_at"))["at"],
    }
    return _gauge(
        "sweep_lag_seconds",
        "For how long that waits which was due first, by what the sweep does with it.",
        "what",
        {what: _age(now, at) for what, at in due.items()},
    )


def look_at_invariants() -> Families:
    """How many rows break each invariant; a look that is cut off tells of none."""
    began = time.monotonic()
    broken = {look.invariant.code: look.count for look in invariants.check(now=clock.now())}
    took = time.monotonic() - began
    logger.debug("the look at the invariants took %.1f s", took)
    return _of_invariants(broken, at=time.time(), took=took)


def _of_invariants(broken: Mapping[str, int], *, at: float, took: float) -> Families:
    return [
        _gauge(
            "invariant_broken_rows",
            "Rows that break a promise, as manage.py invariants names them; NaN: not looked yet.",
            "invariant",
            {each.code: broken.get(each.code, NAN) for each in invariants.INVARIANTS},
        ),
        _plain("invariants_checked_at_seconds", "When that was looked at, as Unix time.", at),
        _plain("invariants_check_seconds", "How long the look took.", took),
    ]


_found = FoundOnce(find, fresh=FRESH)
_broken = FoundOnce(look_at_invariants, fresh=INVARIANTS_FRESH)
