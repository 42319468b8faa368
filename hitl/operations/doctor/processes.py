"""Workers, beats and web servers, as their signs of life tell: `runs.models.Heartbeat`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hitl.operations import health, loads
from hitl.operations.doctor.finding import Finding, fine, warning, wrong
from hitl.operations.loads import QueueLoad
from runs.models import Heartbeat, HeartbeatKind, installation
from runs.models.heartbeats import bound


def _there() -> list[Any]:
    rows = list(Heartbeat.objects.with_now())
    return [row for kind in health.PROCESSES for row in health.lately(rows, kind)]


def queues() -> Iterator[Finding]:
    rows: list[Any] = list(Heartbeat.objects.with_now())
    workers = health.lately(rows, HeartbeatKind.WORKER)
    standing = loads.read(workers, now=health.now_of(rows))
    waiting = [queue.name for queue in standing.queues if queue.waiting]
    lacking = health.unmanned(rows, waiting)
    for name in lacking:
        yield wrong(
            "workers",
            f"No worker takes the queue {name}: what is in it waits.",
            f"Start one: celery -A project worker --queues={name} (docs/how-to/deploy.md).",
        )
    manned = {name for row in workers for name in row.queues}
    if not lacking and "agents" not in manned:
        yield warning(
            "workers",
            "No worker takes the queue agents: steps that talk to models or take minutes will "
            "wait. Nothing does now.",
            "Start one: celery -A project worker --queues=agents.",
        )
    if workers and not lacking:
        yield fine("workers", f"Workers seen lately: {', '.join(row.name for row in workers)}.")
    if servers := health.lately(rows, HeartbeatKind.WEB):
        names = ", ".join(row.name for row in servers)
        yield fine("web servers", f"Processes seen lately: {names}.")
    for queue in standing.queues:
        if queue.is_stuck:
            yield wrong("work", health.stuck_words(queue), _mend(queue))
    if not any(queue.is_stuck for queue in standing.queues):
        yield fine("work", f"No due run waits for longer than {bound():.0f} s.")
    (beat,) = [part for part in health.look_at_database() if part.name == "beat"]
    beats = health.lately(rows, HeartbeatKind.BEAT)
    if not beat.ok:
        yield wrong(
            "beat",
            f"{beat.words} Deadlines do not fire, and lost messages are not sent again.",
            "See that one beat runs, and a worker of the queue control: celery -A project beat "
            "--scheduler=celery.beat:Scheduler --max-interval=1.",
        )
    else:
        yield fine("beat", f"{beat.words} {len(beats)} seen lately; two do no harm.")


def _mend(queue: QueueLoad) -> str:
    if queue.free:
        return (
            "See whether Redis takes messages and how long beat's look is ago, above and below; "
            "then restart the workers of this queue, one after the other."
        )
    return (
        "The page Operations says which runs hold them and since when: cancel what hangs, or start "
        "more workers (docs/how-to/deploy.md)."
    )


def pools() -> Iterator[Finding]:
    for row in _there():
        if row.facts.get("pool") == "prefork" and row.facts.get("database_pool"):
            yield wrong(
                "pool",
                f"{row.name} forks its children and has DATABASE_POOL="
                f"{row.facts['database_pool']}: children get connections that are not theirs.",
                "Leave DATABASE_POOL out of the environment of workers; it is for web servers.",
            )


def versions() -> Iterator[Finding]:
    own = installation.own_facts()
    for row in _there():
        if row.facts.get("secret_key") not in (None, own["secret_key"]):
            yield wrong(
                "secret key",
                f"{row.name} has another SECRET_KEY than this command: links in mails that it "
                "sends do not open, and logins do not hold.",
                "Give all processes on all hosts the same SECRET_KEY.",
            )
        mine = (installation.version(), installation.commit())
        if (row.version, row.commit) != mine:
            yield warning(
                "version",
                f"{row.name} is of {_of(row.version, row.commit)}, and this is of {_of(*mine)}.",
                "During a deploy this passes; else restart it.",
            )


def _of(number: str, commit: str) -> str:
    return f"{number or 'an unknown version'}{f' ({commit[:12]})' if commit else ''}"
