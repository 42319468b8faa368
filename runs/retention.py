"""What the machine knows of keeping and dropping: each template's policy, and when artifacts lose
their texts. What each table refers to says the registry (`runs.threads.tables`).
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from django.conf import settings
from django.db.models import OuterRef, QuerySet, Subquery

from checkpoints import registry
from checkpoints.database import clock
from checkpoints.models import Thread
from checkpoints.retention import housekeeping
from checkpoints.retention.rules import RetentionPolicy, Rules, Tally
from checkpoints.state import codec
from checkpoints.state.encryption import KeyMissing
from checkpoints.store import StateLocked, StoreUnavailable
from runs.models import Artifact, Run, Template

logger = logging.getLogger(__name__)

SWEEP_SHARE = 0.25
"""Of the time between two sweeps: what one gives to it."""


def usual() -> RetentionPolicy:
    """The policy of a thread whose template says nothing else."""
    hours = settings.WAYSTATION_KEEP_CHUNK_HOURS
    return RetentionPolicy(
        days=settings.WAYSTATION_KEEP_DAYS or None,
        count=settings.WAYSTATION_KEEP_COUNT or None,
        chunk_days=hours / 24 if hours else None,
    )


def policies(threads: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, RetentionPolicy]:
    """By the newest version of the template that a thread ran last, not the frozen one: how long to
    keep is no part of what was asked.
    """
    slug = (
        Run.objects.filter(thread=OuterRef("pk"))
        .order_by("-id")
        .values("definition__template_slug")[:1]
    )
    ran = dict(
        Thread.objects.filter(pk__in=threads)
        .annotate(slug=Subquery(slug))
        .values_list("pk", "slug")
    )
    by_slug = dict(
        Template.objects.current()
        .filter(slug__in=set(filter(None, ran.values())))
        .values_list("slug", "retention")
    )
    return {thread_id: _policy(by_slug.get(ran.get(thread_id) or "", {})) for thread_id in threads}


def _policy(said: Mapping[str, float | None]) -> RetentionPolicy:
    base = usual()
    count = said.get("count", base.count)
    return replace(
        base, days=said.get("days", base.days), count=None if count is None else int(count)
    )


def _live_runs(thread_id: uuid.UUID) -> list[uuid.UUID]:
    return list(Run.objects.live().filter(thread=thread_id).values_list("pk", flat=True))


def old_artifacts(
    thread_id: uuid.UUID, policy: RetentionPolicy, now: dt.datetime
) -> QuerySet[Artifact]:
    """Give the artifacts of a thread that may lose their text: by age alone.

    There are none while the thread's run, or one above it that shows them too, is at work or waits
    for somebody.
    """
    kept = Artifact.objects.filter(thread=thread_id, dropped_at=None).order_by("pk")
    if policy.days is None or not kept.exists() or _under_way(thread_id):
        return kept.none()
    return kept.filter(created_at__lt=now - dt.timedelta(days=policy.days))


def _under_way(thread_id: uuid.UUID) -> bool:
    """Whether a run of this thread, or of one above it, has not ended."""
    seen: set[uuid.UUID] = set()
    level = {thread_id}
    while level:
        if Run.objects.live().filter(thread__in=level).exists():
            return True
        seen |= level
        level = (
            set(
                Run.objects.filter(thread__in=level, parent__isnull=False).values_list(
                    "parent__thread", flat=True
                )
            )
            - seen
        )
    return False


def drop_texts(rows: QuerySet[Artifact]) -> None:
    """Let go of artifacts' texts; what is left says when."""
    rows.update(digest="", dropped_at=clock.now())


def rules() -> Rules:
    return Rules(
        policies=policies,
        spared=registry.spared(),
        live_runs=_live_runs,
        sources=registry.sources(),
        aging=registry.aging(),
        may_rest=_may_rest,
        version=_version,
    )


def _may_rest(thread_id: uuid.UUID) -> bool:
    """Of a thread without runs nothing is known: somebody's own program may write to it."""
    return Run.objects.filter(thread=thread_id).exists() and not _under_way(thread_id)


def _version() -> str:
    """Of all that `policies` goes by."""
    said = Template.objects.current().exclude(retention={}).values_list("slug", "retention")
    return codec.digest(codec.encode({"usual": asdict(usual()), "templates": dict(said)}))


def _every() -> dt.timedelta:
    return dt.timedelta(hours=settings.WAYSTATION_KEEP_HOURS or 24)


def due() -> list[QuerySet[Any]]:
    """Has a row where `tend` has something to do."""
    return housekeeping.due() if settings.WAYSTATION_KEEP_HOURS else []


def tend(*, now: dt.datetime) -> None:
    """The sweep's moment for it."""
    if not settings.WAYSTATION_KEEP_HOURS:
        return
    seconds = SWEEP_SHARE * settings.WAYSTATION_SWEEP_SECONDS
    try:
        housekeeping.tend(rules(), seconds=seconds, every=_every(), now=now)
    # what cannot be read may refer to any blob
    except (StateLocked, KeyMissing, StoreUnavailable) as error:
        logger.error("nothing that is old was dropped: %s", error)


def prune(*, now: dt.datetime, dry_run: bool = False) -> Tally:
    """Drop all that may go; with `dry_run` only count it. Raises housekeeping.HousekeepingBusy."""
    return (
        housekeeping.report(rules(), now=now)
        if dry_run
        else housekeeping.whole(rules(), every=_every(), now=now)
    )
