"""Folders on a machine: what goes when nobody needs it any more, what stays, and what is refused
when there is no room.
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs.git import housekeeping
from runs.git.folder_lock import FolderBusy, FolderLock
from runs.git.housekeeping import workspace_path
from runs.models import Run, WorkOrder
from runs.workflows.base import StepFailed
from tests.conftest import drive, fresh, pause_of
from tests.killed import moments
from tests.worlds.repositories import bare_copy, git, make_repository

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
LONG = dt.timedelta(days=30)


def folder_of(order: WorkOrder) -> Path:
    """Its workspace with something in it, as a step leaves it."""
    assert order.latest_run is not None
    path = workspace_path(order.latest_run)
    for part in (path / ".git", path.with_name(f"{path.name}.home")):
        part.mkdir(parents=True)
        (part / "big").write_bytes(b"x" * 10_000)
    for name in ("lock", "config", "gitconfig", "askpass"):
        path.with_name(f"{path.name}.{name}").touch()
    return path


def left() -> list[str]:
    return sorted(
        entry.name for entry in housekeeping.root().iterdir() if entry.name != housekeeping.LOOKED
    )


def ended(order: WorkOrder, ago: dt.timedelta, by: Any) -> WorkOrder:
    services.decide(pause_of(order).pk, Answer("cancel", Via.PAGE), by=by)
    Run.objects.filter(work_order=order).update(ended_at=timezone.now() - ago)
    return order


@pytest.fixture
def make_paused(make_order):
    return lambda: drive(make_order())


def test_what_ended_long_ago_goes_and_what_lives_or_waits_stays(make_paused, make_order, ana):
    waiting, pending = folder_of(make_paused()), folder_of(make_order())
    recent, old = (
        folder_of(ended(make_paused(), dt.timedelta(hours=1), ana)),
        folder_of(ended(make_paused(), LONG, ana)),
    )
    # how old an order is does not matter, only whether it has ended
    Run.objects.update(created_at=timezone.now() - LONG)
    housekeeping.tend(now=timezone.now())
    assert not old.exists()
    assert waiting.exists() and pending.exists() and recent.exists()
    # nothing that lay beside it, the lock neither
    assert not [name for name in left() if name.startswith(old.name)]


def test_a_retried_order_finds_its_work_again(templates, ana, tmp_path):
    """What is dropped can be made again: from the origin, and the bundle in the checkpoint."""
    ana.user_permissions.add(Permission.objects.get(codename="deliver_unreviewed"))
    origin = bare_copy(
        make_repository(tmp_path / "start", {"a.py": "import os\n"}), tmp_path / "origin"
    )
    order = drive(
        runs.submit(
            "repo-tidy-quick",
            by=ana,
            repository_url=str(origin),
            input={"rules": "F401", "push": True},
            interrupt_before=["deliver"],
        )
    )
    origin.rename(tmp_path / "away")
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    moments.work_off()
    order = fresh(order)
    assert order.latest_run is not None
    assert (order.status, order.latest_run.failure_code) == ("failed", "forge_away")
    Run.objects.filter(work_order=order).update(ended_at=timezone.now() - LONG)
    assert housekeeping.collect(before=timezone.now() - LONG / 2) == 1
    assert not workspace_path(order.latest_run).exists()
    (tmp_path / "away").rename(origin)
    runs.retry(order.pk, by=ana)
    order = drive(order)
    # a retry stops where its run was to stop
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    order = drive(order)
    assert order.status == "completed"
    assert git(origin, "log", "-1", "--format=%s", order.branch)


def test_a_round_comes_at_most_once_an_hour(make_paused, ana, settings):
    housekeeping.tend(now=timezone.now())
    old = folder_of(ended(make_paused(), LONG, ana))
    housekeeping.tend(now=timezone.now())
    assert old.exists()
    settings.WAYSTATION_WORKSPACE_DAYS = 0
    housekeeping.tend(now=timezone.now() + dt.timedelta(hours=2))
    assert old.exists()  # kept for ever
    settings.WAYSTATION_WORKSPACE_DAYS = 7
    housekeeping.tend(now=timezone.now() + dt.timedelta(hours=2))
    assert not old.exists()


def test_a_folder_that_somebody_works_in_stays(make_paused, ana):
    old = folder_of(ended(make_paused(), LONG, ana))
    lock = FolderLock(old.with_name(f"{old.name}.lock"), old.with_name(f"{old.name}.group"))
    lock.take(seconds=1, check=lambda: None)
    housekeeping.collect(before=timezone.now())
    assert old.exists()
    lock.free()
    housekeeping.collect(before=timezone.now())
    assert not old.exists()


def test_an_order_that_is_retried_meanwhile_keeps_its_folder(make_paused, ana, monkeypatch):
    """Looked at again under the lock."""
    order = ended(make_paused(), LONG, ana)
    old = folder_of(order)
    take = FolderLock.take

    def revived(self: FolderLock, **given: Any) -> bool:
        Run.objects.filter(work_order=order).update(
            status="pending", failure_code="", ended_at=None, error=""
        )
        return take(self, **given)

    monkeypatch.setattr(FolderLock, "take", revived)
    housekeeping.collect(before=timezone.now())
    assert old.exists()


def test_a_round_that_was_killed_is_done_again(make_paused, ana, monkeypatch):
    old = folder_of(ended(make_paused(), LONG, ana))
    with monkeypatch.context() as patched:
        # the end comes after the folders, before the files
        patched.setattr("runs.git.repository.NOTES", None)
        housekeeping.collect(before=timezone.now())  # one folder never ends a round either
    assert not old.exists() and left()
    housekeeping.collect(before=timezone.now() - dt.timedelta(days=1))
    assert left() == []


def test_who_waited_for_a_lock_that_was_dropped_takes_the_new_one(tmp_path):
    path, note = tmp_path / "x.lock", tmp_path / "x.group"
    first, second, third = (FolderLock(path, note) for _ in range(3))
    first.take(seconds=1, check=lambda: None)
    dropped: list[bool] = []

    def drop() -> None:
        if not dropped:
            dropped.append(True)
            first.drop()

    assert second.take(seconds=5, check=drop)
    with pytest.raises(FolderBusy):
        third.take(seconds=0, check=lambda: None)


def test_folders_of_no_row_go_a_day_after_they_were_touched(templates):
    unknown, strange, mirror = (
        housekeeping.root() / ("wo_" + "0" * 26),
        housekeeping.root() / "strange",
        housekeeping.mirrors() / "abc",
    )
    for path in (unknown, strange, mirror):
        path.mkdir(parents=True)
    housekeeping.collect(before=timezone.now())
    assert unknown.exists() and strange.exists() and not mirror.exists()
    for path in (unknown, strange):
        os.utime(path, (0, 0))
    housekeeping.collect(before=timezone.now())
    assert not unknown.exists() and not strange.exists()


def test_links_are_not_followed(make_paused, ana, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    order = ended(make_paused(), LONG, ana)
    assert order.latest_run is not None
    path = workspace_path(order.latest_run)
    path.parent.mkdir(parents=True)
    path.symlink_to(precious)
    path.with_name(f"{path.name}.tmp").mkdir()
    (path.with_name(f"{path.name}.tmp") / "out").symlink_to(precious)
    housekeeping.collect(before=timezone.now())
    assert left() == []
    assert (precious / "file").exists()


def mirror_for(order):
    """The order's mirror, which nothing was fetched into for long."""
    url = "https://example.org/ada/engine"
    WorkOrder.objects.filter(pk=order.pk).update(repository_url=url)
    mirror = housekeeping.mirror_of(url)
    assert mirror is not None
    mirror.mkdir(parents=True)
    os.utime(mirror, (0, 0))
    return mirror


def test_a_mirror_stays_while_an_order_on_it_lives(make_paused, ana):
    order = make_paused()
    mirror = mirror_for(order)
    housekeeping.collect(before=timezone.now())
    assert mirror.exists()
    ended(order, LONG, ana)
    housekeeping.collect(before=timezone.now())
    assert not mirror.exists()
    assert housekeeping.mirror_of("/srv/git/engine") is None


def test_a_mirror_stays_as_long_as_a_workspace_that_borrows_from_it(make_paused, ana, settings):
    """An order that has ended may be retried; its workspace goes first, also where room is
    needed.
    """
    order = make_paused()
    mirror = mirror_for(order)
    folder = folder_of(ended(order, dt.timedelta(hours=2), ana))
    housekeeping.collect(before=timezone.now() - dt.timedelta(days=1))
    assert folder.exists() and mirror.exists()
    (mirror / "pack").write_bytes(b"x" * 5_000)
    settings.WAYSTATION_WORKSPACES_BYTES = 5_500
    housekeeping.make_room()
    assert not folder.exists() and mirror.exists()
    settings.WAYSTATION_WORKSPACES_BYTES = 1_000
    housekeeping.make_room()
    assert not mirror.exists()


def test_without_room_the_longest_ended_go_first_and_live_ones_never(make_paused, ana, settings):
    live = folder_of(make_paused())
    older, old = (
        folder_of(ended(make_paused(), LONG, ana)),
        folder_of(ended(make_paused(), dt.timedelta(hours=2), ana)),
    )
    settings.WAYSTATION_WORKSPACE_DAYS = 0
    settings.WAYSTATION_WORKSPACES_BYTES = 50_000
    housekeeping.make_room()
    assert not older.exists() and old.exists() and live.exists()
    settings.WAYSTATION_WORKSPACES_BYTES = 1_000
    with pytest.raises(StepFailed) as refused:
        housekeeping.make_room()
    assert refused.value.code == "disk_quota"
    assert not old.exists() and live.exists()
