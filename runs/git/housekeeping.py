"""The folders on this machine in which orders are worked on: where they are, how much they may use,
and when they go.

All of them can be made again: from the origin or its mirror, and the bundle in the checkpoint. So
what is dropped too early costs a clone. Each machine looks after its own: in the sweep, and before
it clones.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db.models import Max

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.rounds import RoundItem
from runs.git.folder_lock import FolderBusy, FolderLock
from runs.git.repository import drop, size
from runs.models import Run, WorkOrder
from runs.workflows.base import StepFailed

logger = logging.getLogger(__name__)

EVERY = dt.timedelta(hours=1)
"""Between two rounds on one machine."""
ORPHANED = dt.timedelta(days=1)
"""How old a folder is that no row knows (an erased thread's, another database's) before it goes."""
LOOKED = ".looked"
"""A file whose time says when the last round began."""


def root() -> Path:
    return Path(settings.WAYSTATION_DATA) / "workspaces"


def mirrors() -> Path:
    return Path(settings.WAYSTATION_DATA) / "mirrors"


def workspace_path(run: Run) -> Path:
    """One folder per order; child runs, which work at the same time, have one each."""
    shared = run.work_order_id is not None and run.parent_id is None
    name = (
        ids.show(WorkOrder.PREFIX, run.work_order_id)
        if shared and run.work_order_id
        else run.shown_id
    )
    return root() / name


def mirror_of(repository_url: str) -> Path | None:
    """Where this machine keeps its copy of a remote repository; None for a local one, which is as
    near as a copy would be.
    """
    if not repository_url or repository_url.startswith("/"):
        return None
    return mirrors() / hashlib.sha256(repository_url.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Folder:
    """A workspace or a mirror whose order, or orders, have ended."""

    path: Path
    ended_at: dt.datetime


def tend(*, now: dt.datetime) -> None:
    """A round, if one is due. Harmless when two processes do it at once."""
    if settings.WAYSTATION_WORKSPACE_DAYS and _is_due(now):
        collect(before=now - dt.timedelta(days=settings.WAYSTATION_WORKSPACE_DAYS))


def collect(*, before: dt.datetime) -> int:
    """Drop the folders of what ended before then; gives how many went."""
    gone = 0
    for folder in (
        folder
        for ended in (_ended_workspaces, _ended_mirrors)
        for folder in ended()
        if folder.ended_at < before
    ):
        with RoundItem(logger, folder.path.name):
            gone += _drop(folder)
    if gone:
        logger.info(
            "dropped %d workspaces and mirrors of what ended before %s",
            gone,
            before.isoformat(timespec="seconds"),
        )
    return gone


def make_room() -> None:
    """Called before a clone: where all folders together use more than they may, those of what ended
    longest ago go first.

    Raises StepFailed (`disk_quota`) where that is not enough.
    """
    tend(now=clock.now())
    limit = settings.WAYSTATION_WORKSPACES_BYTES
    if not limit:
        return
    if (used := _used()) > limit:
        used = _free_until(limit, now=clock.now())
    if used > limit:
        raise StepFailed(
            f"The workspaces on this machine use {used:,} bytes and may use {limit:,}; "
            "those of live orders stay. Retry later.",
            code="disk_quota",
        )


def _used() -> int:
    return size(root()) + size(mirrors())


def _free_until(limit: int, *, now: dt.datetime) -> int:
    """Drop what ended until no more than that is used, workspaces before the mirrors they borrow
    from; gives what is used then.
    """
    for ended in (_ended_workspaces, _ended_mirrors):
        for ended_folder in sorted(
            (folder for folder in ended() if folder.ended_at <= now),
            key=lambda folder: folder.ended_at,
        ):
            _drop(ended_folder)
            if (used := _used()) <= limit:
                return used
    return _used()


def _is_due(now: dt.datetime) -> bool:
    """Whether a round is due; then it counts as begun."""
    mark = root() / LOOKED
    with suppress(FileNotFoundError):
        if mark.stat().st_mtime > now.timestamp() - EVERY.total_seconds():
            return False
    root().mkdir(parents=True, exist_ok=True)
    mark.touch()
    return True


def _ended_workspaces() -> Iterator[Folder]:
    """The workspaces on this machine that no live run needs, with the time since when."""
    for path in _folders(root()):
        at = _ended_at(path)
        if at is not None:
            yield Folder(path, at)


def _ended_mirrors() -> Iterator[Folder]:
    """The mirrors on this machine that no live run needs, and no workspace that is still here."""
    for path in _folders(mirrors()):
        if _may_go(path):
            yield Folder(path, _changed_at(path))


def _may_go(path: Path) -> bool:
    if path.parent == root():
        return _ended_at(path) is not None
    return path not in {mirror_of(url) for url in (*_live_urls(), *_urls_here())}


def _urls_here() -> Iterable[str]:
    """The repositories of the workspaces on this machine: these borrow from their mirrors, also
    when their orders have ended.
    """
    runs = Run.objects.exclude(work_order=None)
    orders, children = [], []
    for path in _folders(root()):
        with suppress(ValueError):
            orders.append(_id_of(WorkOrder.PREFIX, path))
        with suppress(ValueError):
            children.append(_id_of(Run.PREFIX, path))
    yield from WorkOrder.objects.filter(pk__in=orders).values_list("repository_url", flat=True)
    yield from runs.filter(pk__in=children).values_list("work_order__repository_url", flat=True)


def _folders(parent: Path) -> list[Path]:
    """Workspaces and mirrors by what is left of them, in the order of their names."""
    names = (
        {entry.name.partition(".")[0] for entry in parent.iterdir()} if parent.is_dir() else set()
    )
    return [parent / name for name in sorted(names - {""})]


def _ended_at(path: Path) -> dt.datetime | None:
    """When what was worked on there ended; None while a run of it is alive, be it paused."""
    runs = Run.objects.none()
    with suppress(ValueError):
        runs = Run.objects.filter(work_order=_id_of(WorkOrder.PREFIX, path), parent=None)
    with suppress(ValueError):
        runs = Run.objects.filter(pk=_id_of(Run.PREFIX, path))
    if runs.live().exists():
        return None
    last: dt.datetime | None = runs.aggregate(last=Max("ended_at"))["last"]
    return last or _changed_at(path) + ORPHANED


def _id_of(prefix: str, path: Path) -> uuid.UUID:
    return ids.parse(prefix, path.name)


def _live_urls() -> Iterable[str]:
    live = Run.objects.live().exclude(work_order=None)
    return live.values_list("work_order__repository_url", flat=True).distinct()


def _changed_at(path: Path) -> dt.datetime:
    times = [time.time()]
    for part in (path, path.with_name(f"{path.name}.lock"), path / ".git" / "FETCH_HEAD"):
        with suppress(OSError):
            times.append(part.stat().st_mtime)
    return dt.datetime.fromtimestamp(max(times[1:], default=times[0]), tz=dt.UTC)


def _drop(folder: Folder) -> bool:
    """Drop it unless somebody works there, or began to need it meanwhile."""
    path = folder.path
    lock = FolderLock(path.with_name(f"{path.name}.lock"), path.with_name(f"{path.name}.group"))
    try:
        lock.take(seconds=0, check=lambda: None)
    except FolderBusy:
        return False
    try:
        # looked at again under the lock: who claims a run from now on waits for it, then finds no
        # folder and clones
        if not _may_go(path):
            return False
        drop(path)
        lock.drop()
        return True
    finally:
        lock.free()  # also where the folder could not be dropped: the next round tries again
