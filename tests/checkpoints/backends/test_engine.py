"""The engine with the bodies of its states in Redis, in files, in memory: the rows stay in the
database and name them.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from unittest import mock

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import checks, store
from checkpoints.backends.database import DatabaseStore
from checkpoints.contract import configured
from checkpoints.contract.base import BodyStore, CheckpointDamaged, StoreUnavailable
from checkpoints.models import Checkpoint
from checkpoints.store import bodies
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import env, tasks
from runs.models import Run
from runs.workflows.base import Go
from tests.conftest import drive, fresh, pause_of
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.steps import CALLS

# its parts are asked of each database by their own tests
pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
DATABASE = {"BACKEND": configured.DATABASE, "OPTIONS": {}}


def setting(name: str, folder: Path) -> dict[str, object]:
    if name == "redis" and "TEST_REDIS_URL" not in os.environ:
        pytest.fail("These tests need TEST_REDIS_URL; `make test` sets it.")
    options = {
        "memory": {},
        "file": {"folder": str(folder / "kept")},
        "redis": {"url": os.environ.get("TEST_REDIS_URL"), "prefix": f"engine-{uuid.uuid4()}"},
    }
    return {
        "BACKEND": f"checkpoints.backends.{name}.{name.capitalize()}Store",
        "OPTIONS": options[name],
    }


@pytest.fixture(params=["memory", "file", "redis"])
def kept(request, settings, tmp_path) -> BodyStore:
    """The store that is set up."""
    settings.CHECKPOINTS = setting(request.param, tmp_path)
    found = configured.primary()
    assert isinstance(found, BodyStore)
    return found


@pytest.fixture
def on_files(settings, tmp_path) -> BodyStore:
    settings.CHECKPOINTS = setting("file", tmp_path)
    found = configured.primary()
    assert isinstance(found, BodyStore)
    return found


def approve(order, ben):
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ben)
    return drive(order)


def refers(row) -> bool:
    return bodies.elsewhere(row.body)


def test_an_order_pauses_is_revised_and_completed_on_every_backend(kept, make_order, ben):
    """S2-2, S2-5, S2-7, S3-3..9: no step that was done runs again, and every checkpoint loads."""
    order = drive(make_order())
    services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ben)
    order = drive(order)
    for _ in range(3):
        order = approve(order, ben)
    assert order.latest_run.status == "completed"
    assert [name for name, _ in CALLS] == ["planning", "planning", "execute", "review", "finish"]
    rows = list(Checkpoint.objects.filter(thread=order.thread_id).order_by("pk"))
    assert all(map(refers, rows))
    assert {(row.thread_id, row.pk) for row in rows} == set(kept.bodies())
    texts = kept.get_bodies(order.thread_id, [row.pk for row in rows])
    assert [row.size for row in rows] == [len(texts[row.pk]) for row in rows]
    states = [store.load(row) for row in rows]
    assert states[-1]["drafts"] == ["first", "shorter"]
    assert states[-1]["finished"] is True


def test_a_step_costs_no_statement_more(settings, tmp_path, order_that):
    """The body is written before the commit, which is as it is with rows."""

    def cost(order) -> int:
        with CaptureQueriesContext(
            connection,
        ) as found:
            drive(order)
        return len(found)

    def loops(state, context):
        return Go(update={"n": context.loop_num}, to="execute" if context.loop_num < 6 else None)

    in_rows = cost(order_that(loops))
    settings.CHECKPOINTS = setting("file", tmp_path)
    assert cost(order_that(loops)) <= in_rows


def test_a_transaction_that_fails_leaves_a_stray_body_and_never_a_row_without_one(
    on_files, make_order, ben
):
    """What the commit does not name, does not count; the command drops it once it is old enough."""
    order = drive(make_order())
    before = set(on_files.bodies())
    with pytest.raises(RuntimeError), transaction.atomic():
        row = Checkpoint.objects.get(pk=str(order.thread.head_id))
        entry = store.Entry(status="active", next_step="execute")
        store.save(
            order.thread_id, row.run_id, {"lost": True}, entry, parent=row, before=store.load(row)
        )
        raise RuntimeError("rolled back")
    (stray,) = set(on_files.bodies()) - before
    assert not Checkpoint.objects.filter(pk=stray[1]).exists()
    call_command("drop_stray_bodies")
    assert set(on_files.bodies()) == {*before, stray}  # it may belong to a commit that is under way
    call_command("drop_stray_bodies", "--older-than", "0", "--dry-run")
    assert set(on_files.bodies()) == {*before, stray}
    call_command("drop_stray_bodies", "--older-than", "0")
    assert set(on_files.bodies()) == before
    assert approve(order, ben).latest_run.status == "paused"


def test_a_body_that_cannot_be_kept_stops_the_write_before_any_row(on_files, paused, ben):
    """A full disk: the answer is refused, nothing is recorded, and it can be given again."""
    with (
        mock.patch("os.rename", side_effect=OSError(28, "No space left on device")),
        pytest.raises(StoreUnavailable, match="No space"),
    ):
        services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ben)
    assert pause_of(paused).status == "open"
    assert approve(paused, ben).latest_run.status == "paused"


@pytest.mark.parametrize("accident", ["gone", "changed"])
def test_a_body_that_is_gone_or_changed_ends_the_run_with_words(kept, make_order, ben, accident):
    """C24: an incident that names both checkpoints, never a silent fresh start.

    The digest is in the row.
    """
    order = drive(make_order())
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ben)
    head = fresh(order).thread.head
    assert head is not None
    if accident == "gone":
        kept.drop_bodies(head.thread_id, [head.pk])
    else:
        kept.put_body(head.thread_id, head.pk, '{"set":{},"unset":[]}')
    with pytest.raises(CheckpointDamaged, match="Nothing was resumed from it"):
        store.load(head)
    order = drive(order)
    assert (order.latest_run.status, order.latest_run.failure_code) == ("failed", "incident")
    assert head.shown_id in order.latest_run.error


def test_the_setting_may_change_while_a_run_waits(settings, tmp_path, make_order, ben):
    """Rows of both kinds follow each other; a store that was used before stays readable as a
    fallback.
    """
    settings.CHECKPOINTS = DATABASE
    order = drive(make_order())
    settings.CHECKPOINTS = setting("file", tmp_path)
    order = approve(order, ben)
    settings.CHECKPOINTS, settings.CHECKPOINTS_FALLBACKS = (
        setting("memory", tmp_path),
        [setting("file", tmp_path)],
    )
    order = approve(order, ben)
    memory = configured.primary()
    assert isinstance(memory, BodyStore)
    assert {key for _, key in memory.bodies()} < set(
        Checkpoint.objects.filter(thread=order.thread_id).values_list("pk", flat=True)
    )
    rows = list(Checkpoint.objects.filter(thread=order.thread_id).order_by("pk"))
    assert len({refers(row) for row in rows}) == 2
    assert [store.load(row) is not None for row in rows] == [True] * len(rows)
    assert approve(order, ben).latest_run.status == "completed"
    settings.CHECKPOINTS_FALLBACKS = []
    with pytest.raises(CheckpointDamaged, match="not in the FileStore where it was put"):
        store.load(next(row for row in rows if refers(row)))


def test_dropping_checkpoints_drops_their_bodies_once_that_is_committed(
    on_files, make_order, ben, committing
):
    """F25 on rows whose bodies are elsewhere: what stays loads as before."""
    order = drive(make_order("writing-quick"))
    rows = Checkpoint.objects.filter(thread=order.thread_id)
    states = {row.pk: store.load(row) for row in rows}
    with committing():
        pruned = DatabaseStore().prune(order.thread_id, keep=1)
        assert len(set(on_files.bodies())) >= len(states)
    assert len(pruned.ids) == len(states) - 2
    left = list(rows.order_by("pk"))
    assert {row.pk: store.load(row) for row in left} == {row.pk: states[row.pk] for row in left}
    assert len(set(on_files.bodies())) == len(left)
    call_command("drop_stray_bodies", "--older-than", "0")
    assert {row.pk: store.load(row) for row in left} == {row.pk: states[row.pk] for row in left}


def test_a_load_that_a_prune_overtakes_finds_no_damage(on_files, make_order, committing):
    """The row itself is as it was, and one that it builds on was made a snapshot: the body of the
    next is gone.
    """
    order = drive(make_order("writing-quick"))
    *_, below, newest = Checkpoint.objects.filter(thread=order.thread_id).order_by("pk")
    assert not newest.is_snapshot
    assert not below.is_snapshot
    state, real = store.load(newest), on_files.get_bodies

    def get_bodies(thread_id, wanted):
        monkeypatch.undo()
        with committing():
            DatabaseStore().prune(order.thread_id, keep=2)
        return real(thread_id, wanted)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(type(on_files), "get_bodies", lambda _, *what: get_bodies(*what))
        assert store.load(newest) == state
    assert not Checkpoint.objects.get(pk=newest.pk).is_snapshot


def test_a_run_whose_states_cannot_be_reached_waits_and_is_not_counted_as_lost(
    on_files, make_order, ben
):
    """No worker was lost and no step failed; it goes on by itself."""
    order = drive(make_order())
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ben)
    run_id = fresh(order).latest_run.pk
    with mock.patch.object(type(on_files), "get_bodies", side_effect=StoreUnavailable("away")):
        tasks.advance_run(str(run_id))
    run = Run.objects.get(pk=run_id)
    assert (run.status, run.lease_owner, run.lost_attempts, run.attempts) == ("pending", "", 0, 0)
    assert run.due_at > timezone.now()
    Run.objects.filter(pk=run_id).update(due_at=timezone.now())
    assert drive(order).latest_run.status == "paused"
    assert [name for name, _ in CALLS] == ["planning", "execute"]


def test_while_the_store_is_away_doors_say_so_and_change_nothing(
    on_files, paused, ben, api, client
):
    """503 with a stable code, and a page with words instead of an error."""
    client.force_login(ben)
    pause = pause_of(paused)
    with mock.patch.object(
        type(on_files), "get_bodies", side_effect=StoreUnavailable("The store is away.")
    ):
        answer = api(ben).post(
            f"/api/v1/work-orders/{paused.shown_id}/resume", {"decision": "approve"}, format="json"
        )
        page = client.post(f"/pauses/{pause.shown_id}/decide", {"action": "approve", "revision": 1})
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert (page.status_code, page["Retry-After"]) == (503, "5")
    assert "Nothing was changed" in page.content.decode()
    assert pause_of(paused) == pause


def found(settings, value, *, redis_url="") -> list[str | None]:
    settings.CHECKPOINTS, settings.REDIS_URL = value, redis_url
    return [message.id for message in [*checks.as_set_up(), *checks.as_it_is()]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"BACKEND": "no.such.Store"},
        {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
        {"BACKEND": "checkpoints.backends.file.FileStore"},
        {"BACKEND": "checkpoints.backends.file.FileStore", "OPTIONS": {"folder": "relative"}},
        {"BACKEND": configured.DATABASE, "OPTIONS": {"folder": "/x"}},
        {"BACKEND": configured.DATABASE, "LOCATION": "/x"},
        {"LOCATION": "/x"},
    ],
)
def test_a_setting_that_cannot_be_right_is_named(settings, wrong):
    assert found(settings, wrong) == ["checkpoints.E001"]
    with pytest.raises(SystemExit):
        checks.at_start(reach=False)


def test_memory_is_refused_where_there_are_several_processes(settings, tmp_path):
    memory = setting("memory", tmp_path)
    assert found(settings, memory) == ["checkpoints.W007"]
    checks.at_start(reach=True)
    assert found(settings, memory, redis_url="redis://x") == ["checkpoints.E002"]
    with pytest.raises(SystemExit, match="cannot be used"):
        checks.at_start(reach=False)


def test_files_on_several_hosts_are_warned_of_and_a_bad_folder_is_an_error(settings, tmp_path):
    assert found(settings, setting("file", tmp_path)) == []
    assert found(settings, setting("file", tmp_path), redis_url="redis://x") == ["checkpoints.W008"]
    (tmp_path / "blocked").write_text("no folder")
    assert found(settings, setting("file", tmp_path / "blocked")) == ["checkpoints.E006"]


def test_rows_need_no_warning(settings):
    assert found(settings, DATABASE) == found(settings, DATABASE, redis_url="redis://x") == []


def test_a_redis_that_forgets_is_warned_of(settings, tmp_path, caplog):
    """The tests' own server has no appendonly file."""
    value = setting("redis", tmp_path)
    assert found(settings, value) == ["checkpoints.W003"]
    checks.at_start(reach=True)
    assert "appendonly" in caplog.text
    told = {"aof_enabled": 1, "maxmemory_policy": "allkeys-lru"}
    with mock.patch("redis.Redis.info", return_value=told):
        assert found(settings, value) == ["checkpoints.W004"]
    value["OPTIONS"] = {"url": "redis://127.0.0.1:1/0", "timeout": 0.2}
    assert found(settings, value) == ["checkpoints.W005"]


@pytest.mark.parametrize(
    ("url", "backend", "options"),
    [
        ("database:", "database.DatabaseStore", {}),
        ("memory:", "memory.MemoryStore", {}),
        ("file:///srv/a%20b", "file.FileStore", {"folder": "/srv/a b"}),
        ("redis:", "redis.RedisStore", {"url": "redis://broker/0"}),
        (
            "rediss://u:p@h:1/2?prefix=x&ssl_cert_reqs=none",
            "redis.RedisStore",
            {"url": "rediss://u:p@h:1/2?ssl_cert_reqs=none", "prefix": "x"},
        ),
    ],
)
def test_the_environment_names_a_backend_by_url(url, backend, options):
    made = env.checkpoints(url, redis="redis://broker/0")
    assert made == {"BACKEND": f"checkpoints.backends.{backend}", "OPTIONS": options}
    configured.make(made)


@pytest.mark.parametrize(
    "url", ["", "disk:", "file:relative", "file://host/x", "memory:x", "redis:"]
)
def test_a_url_that_means_nothing_stops_the_start(url):
    with pytest.raises(ImproperlyConfigured, match="CHECKPOINTS_URL"):
        env.checkpoints(url, redis="")
