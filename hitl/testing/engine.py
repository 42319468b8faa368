"""The real engine on a database of its own, driven by hand: no broker, no worker, no sweep, and a
clock that the test moves.

Between two operations the process is as it was: its own database, settings and clock are in place.
"""

from __future__ import annotations

import datetime as dt
import shutil
import signal
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from django.apps import apps
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.migrations.loader import MigrationLoader
from django.test.utils import override_settings
from django.utils import timezone

from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from checkpoints.events import live
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions.deadlines import outcomes
from hitl.identity import factors
from hitl.testing import databases, given, moments
from hitl.testing.databases import Database
from runs import services, tasks
from runs.agents import model
from runs.agents.config import SCRIPTED
from runs.agents.model import scripted
from runs.definitions import readiness
from runs.engine import time_limit
from runs.engine.advance import advance
from runs.engine.context import streaming
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.recovery import lost_runs
from runs.engine.workers import lease
from runs.models import Credential, Pause, Run, WorkOrder
from runs.models.templates import _definition
from runs.states import PAUSED, PENDING, RUNNING
from runs.workflows import sequence
from runs.workflows.base import StepFailed

PATIENCE = 30.0
"""Seconds that a step may work before the kit says that it does not end."""
BUDGET = 60.0
"""Seconds of a worker's time slice."""
ROUNDS = 1000
"""Looks at what is due, before the kit says that the work does not end."""
OURS = ("checkpoints", "runs", "hitl", "axes")
"""Apps whose tables the kit needs, beside Django's own."""
AUTHOR = "author"
"""Who asks for the work."""

Script = Sequence[Any] | Callable[[Sequence[Mapping[str, Any]], Sequence[str]], Any]
"""What the model says: its answers in a conversation, in order; or a function of (history, tools)
that gives the next one.
"""

# read at each look, which are hundreds
_lost = Prepared(lambda now: Run.objects.lost(now=now).only("pk"), dt.datetime)
_asks_too_long = Prepared(lambda now: Pause.objects.due(now=now).only("pk"), dt.datetime)
_pending = Prepared(
    lambda now: (
        Run.objects.filter(status=PENDING, due_at__lte=now)
        .order_by("due_at", "pk")
        .only("pk", "epoch")
    ),
    dt.datetime,
)
_gathering = Prepared(lambda now: Run.objects.gathers_due(now=now).only("pk"), dt.datetime)

_timezone_now = timezone.now
_read_prepared = Prepared.get
_add_chunk = streaming.Chunks.add
_call_step = time_limit.call
_delay = sequence.retry_delay
_words: dict[str, weakref.WeakKeyDictionary[Prepared[Any], Prepared[Any]]] = {}


class Endless(AssertionError):
    """The work does not come to an end, nor to a question."""


class Engine:
    """The real engine on one database. `with engine:` puts it in place; its own methods do so."""

    def __init__(self, database: Database, *, patience: float = PATIENCE) -> None:
        self.database, self.patience = database, patience
        self.folder = Path(tempfile.mkdtemp(prefix="waystation-testing-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.ahead = dt.timedelta()
        """By how much the clock of this engine is ahead of the host's."""
        self.frozen: dt.datetime | None = None
        """Where set, the time at which the clock stands, but for what it is ahead."""
        self.settings: dict[str, Any] = {}
        self.script: Script | None = None
        """What the model says; None for the scripted model of the product."""
        self.worker: Callable[[], None] = self.work_off
        """What works: another one where workers die."""
        self._placed: ExitStack | None = None

    @classmethod
    def on_sqlite(cls, **options: Any) -> Engine:
        """Give an engine on a fresh SQLite database, in a file."""
        return cls(databases.Sqlite(_make_tables), **options)

    @classmethod
    def on_postgresql(cls, url: str, **options: Any) -> Engine:
        """Give an engine on a fresh database of a PostgreSQL server, `postgresql://user@host/…`."""
        return cls(databases.Postgresql(url, _make_tables), **options)

    def copy(self) -> Engine:
        """Give another engine that stands where this one does: its rows, files and time."""
        other = Engine(self.database.copy(), patience=self.patience)
        if (self.folder / "data").exists():
            shutil.copytree(self.folder / "data", other.folder / "data", symlinks=True)
        other.settings, other.script = {**self.settings}, self.script
        other.ahead, other.frozen = self.ahead, self.frozen
        return other

    @property
    def shared(self) -> Path:
        """The folder that all workers see (`context.shared`); each copy of the engine has its
        own.
        """
        return self.folder / "data" / "shared"

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Put the engine in the place of what this process has, for a block."""
        if self._placed is not None:  # within another operation
            yield
            return
        with ExitStack() as stack:
            self._placed = stack
            stack.callback(setattr, self, "_placed", None)
            stack.enter_context(_in_place_of_the_default(self.database.settings))
            stack.enter_context(override_settings(**self._settings()))
            for target, name, value in self._patches():
                stack.enter_context(patch.object(target, name, value))
            _definition.cache_clear()
            yield

    def _settings(self) -> dict[str, Any]:
        data = self.folder / "data"
        return {
            "WAYSTATION_DATA": data,
            "WAYSTATION_SHARED": self.shared,
            "WAYSTATION_REPOSITORIES": [self.folder, data / "sample"],
            "WAYSTATION_FILES": [self.folder],
            "CHECKPOINTS": {
                "BACKEND": "checkpoints.backends.database.DatabaseStore",
                "OPTIONS": {},
            },
            "CHECKPOINTS_FALLBACKS": [],
            **self.settings,
        }

    def _patches(self) -> Iterator[tuple[Any, str, Any]]:
        """What is another in a test: nothing is sent, nothing works beside the test, time is the
        test's.
        """
        yield tasks, "_sender", SimpleNamespace(give=lambda job: True, flush=lambda seconds: True)
        yield tasks, "_nudge_later", _nothing
        yield live, "send_on_commit", _nothing
        # whoever answers has just proven a second factor
        yield factors, "latest", lambda by: factors.Factor("totp", clock.now())
        yield lease, "renewed", lambda run_id: nullcontext()
        # a writer that this process has already would write to its own database
        yield streaming, "announce", _nothing
        yield streaming, "EVERY", 0.0  # each line at once: two runs of a test are to be the same
        yield streaming.Chunks, "add", _add_and_write
        yield time_limit, "call", self._call
        yield sequence, "retry_delay", _retry_delay
        yield Prepared, "get", _prepared_here(self.database.vendor)
        yield clock, "_last", None
        yield readiness, "require", _nothing  # models and keys are the test's
        yield model, "endpoint_of", lambda *_: model.ModelEndpoint(model=SCRIPTED)
        if self.script is not None:
            yield scripted, "answer", self._say
        if self.database.vendor == "sqlite":  # PostgreSQL's clock is its server's
            yield timezone, "now", self.now

    def _call(self, held: ClaimedRun, seconds: float | None, function: Callable[[], Any]) -> Any:
        alarm = _alarm(self.patience) if _may_ring() else nullcontext()
        if not _may_ring():  # then in a thread of its own
            seconds = min(seconds or self.patience, self.patience)
        with alarm, moments.within(held.progress.at):
            return _call_step(held, seconds, function)

    def _say(self, history: Sequence[Mapping[str, Any]], tools: Sequence[str]) -> Iterator[Any]:
        """Give what the model says in a conversation that has come so far.

        The answer depends on nothing else: a request that is made again is answered the same.
        """
        number = sum(message["kind"] == "response" for message in history)
        assert self.script is not None
        if callable(self.script):
            answer = self.script(history, tools)
        elif number < len(self.script):
            answer = self.script[number]
        else:
            raise StepFailed(
                f"The model is asked for the {number + 1}. time, and `model` has "
                f"{len(self.script)} answers.",
                code="model_script",
            )
        yield from answer if isinstance(answer, list | tuple) else [answer]

    def now(self) -> dt.datetime:
        """Give the time of this engine."""
        return (self.frozen or _timezone_now()) + self.ahead

    def start(
        self,
        workflow: Any,
        *,
        template: str = "",
        input: Mapping[str, Any] | None = None,
        request: str = "",
        title: str = "",
        repository: str | Path = "",
        people: Mapping[str, Sequence[str]] | None = None,
        credentials: Mapping[str, str] | None = None,
        model: Script | None = None,
        settings: Mapping[str, Any] | None = None,
        interrupt_before: Sequence[str] = (),
        interrupt_after: Sequence[str] = (),
        at: dt.datetime | None = None,
    ) -> uuid.UUID:
        """Ask for work by a workflow, as `hitl.testing.play` says; gives the order's key.

        No worker has begun it.
        """
        if at is not None:
            self.begin_at(at)
        self.script = model if model is not None else self.script
        self.settings |= settings or {}
        if repository:
            folders = self._settings()["WAYSTATION_REPOSITORIES"]
            self.settings["WAYSTATION_REPOSITORIES"] = [*folders, Path(repository)]
        with self.placed():
            for name, groups in (people or {}).items():
                self.person(name, groups)
            slug = given.load(workflow, template, hire=self.person)
            for name, value in (credentials or {}).items():
                Credential.objects.create(name=name, value=value)
            order = services.submit(
                slug,
                by=self.person(AUTHOR),
                title=title,
                request=request,
                input=input,
                repository_url=str(repository),
                interrupt_before=interrupt_before,
                interrupt_after=interrupt_after,
            )
        return order.pk

    def person(self, name: str, groups: Sequence[str] = (), *, superuser: bool = False) -> User:
        """Give the person of that name, made where there is none, as a member of these groups."""
        user, _ = User.objects.get_or_create(
            **{NAME: name}, defaults={"is_superuser": superuser, "is_staff": superuser}
        )
        for group in groups:
            user.groups.add(Group.objects.get_or_create(name=group)[0])
        return user

    def work(self) -> None:
        """Let the workers work until nothing is due."""
        self.worker()

    def work_off(self) -> None:
        """Do what workers and sweeps do, until nothing is due.

        Raises Endless.
        """
        with self.placed():
            for _ in range(ROUNDS):
                if not self._look():
                    return
        raise Endless(f"After {ROUNDS} rounds there was still work to do.")

    def _look(self) -> bool:
        """Do what is due now; whether anything was."""
        now = clock.read()
        back = lost_runs.take_back(now=now) if _lost.get(now) else []
        fired = outcomes.fire_due(now=now) if _asks_too_long.get(now) else 0
        due = {run.pk: run.epoch for run in _pending.get(now)}
        gathering = [run.pk for run in _gathering.get(now)]
        for key in [*due, *gathering]:
            advance(key, budget=BUDGET)
        moved = bool(due) and due != {run.pk: run.epoch for run in _pending.get(now)}
        return bool(back) or bool(fired) or bool(gathering) or moved

    def lose_workers(self) -> None:
        """Let the leases run out of whoever works: their workers are dead."""
        with self.placed():
            Run.objects.filter(status=RUNNING).update(
                lease_until=self.now() - dt.timedelta(hours=1)
            )

    def reconnect(self) -> None:
        """Drop this thread's connection, and whatever it had not committed. Call in place."""
        connection.close()
        connections[DEFAULT_DB_ALIAS] = connections.create_connection(DEFAULT_DB_ALIAS)

    def begin_at(self, at: dt.datetime) -> None:
        """Set the clock; where there is work already, forward only. It goes on from there."""
        self._check_clock(at)
        with self.placed():
            if at < self.now() and WorkOrder.objects.exists():
                raise ValueError("There is work already, and the clock goes forward only.")
        self.ahead += at - self.now()

    def _check_clock(self, at: dt.datetime) -> None:
        if self.database.vendor != "sqlite":
            raise NotImplementedError(
                "The clock of a PostgreSQL server cannot be moved. Test what depends on time on "
                "SQLite: the rules are the same."
            )
        if at.utcoffset() is None:
            raise ValueError(f"{at} is no moment without a time zone, such as ZoneInfo('UTC').")

    def advance(self, by: dt.timedelta) -> None:
        """Move the clock, and do what is due on the way, each at its time."""
        self.advance_to(self.now() + by)

    def advance_to(self, ends: dt.datetime) -> None:
        """The same, up to a moment."""
        self._check_clock(ends)
        if ends < self.now() - dt.timedelta(seconds=1):
            raise ValueError("The clock goes forward only.")
        self.work()
        while (due := self.next_due()) is not None and due <= ends:
            self._go_to(due + dt.timedelta(milliseconds=1))
            self.work()
        self._go_to(ends)
        self.work()

    def _go_to(self, at: dt.datetime) -> None:
        self.ahead += max(at - self.now(), dt.timedelta())

    def next_due(self) -> dt.datetime | None:
        """Give when something happens by itself next; None where nothing will."""
        with self.placed():
            now = clock.read()
            times = [
                *Run.objects.filter(status=PENDING, due_at__gt=now).values_list(
                    "due_at", flat=True
                ),
                *Run.objects.filter(status=PAUSED, gather_due_at__gt=now).values_list(
                    "gather_due_at", flat=True
                ),
                *Pause.objects.open().filter(next_at__gt=now).values_list("next_at", flat=True),
            ]
        return min((at for at in times if at is not None), default=None)

    def order(self, key: uuid.UUID) -> WorkOrder:
        """Give an order as it stands. Call in place."""
        return WorkOrder.objects.shown().get(pk=key)

    def close(self) -> None:
        """Drop the database."""
        self.database.drop()


def _nothing(*_: Any, **__: Any) -> None:
    """Stand in place of what is not done in a test."""


def _prepared_here(vendor: str) -> Callable[..., list[Any]]:
    """Read with words made for this kind of database: the process has prepared those of its own."""
    words = _words.setdefault(vendor, weakref.WeakKeyDictionary())

    def get(prepared: Prepared[Any], *values: Any) -> list[Any]:
        if prepared not in words:
            words[prepared] = Prepared(prepared._build, *prepared._kinds)
        return _read_prepared(words[prepared], *values)

    return get


def _retry_delay(attempt: int, *, jitter: float, **policy: float) -> float:
    """Give the delay without chance: two runs of a test are to be the same."""
    return _delay(attempt, jitter=0.5, **policy)


def _add_and_write(chunks: streaming.Chunks, text: str) -> None:
    """Take what a step says, and write it in the step's own thread once it is much."""
    _add_chunk(chunks, text)
    if chunks._size >= streaming.LONGEST:
        chunks.flush()


@contextmanager
def _in_place_of_the_default(settings: dict[str, Any]) -> Iterator[None]:
    """Let the default connection lead to another database, in every thread that connects now."""
    handler: Any = connections
    before = handler.settings[DEFAULT_DB_ALIAS]
    outer = getattr(handler._connections, DEFAULT_DB_ALIAS, None)
    handler.settings[DEFAULT_DB_ALIAS] = settings
    handler[DEFAULT_DB_ALIAS] = handler.create_connection(DEFAULT_DB_ALIAS)
    try:
        yield
    finally:
        connection.close()
        handler.settings[DEFAULT_DB_ALIAS] = before
        if outer is None:
            del handler[DEFAULT_DB_ALIAS]
        else:
            handler[DEFAULT_DB_ALIAS] = outer


def _may_ring() -> bool:
    """Whether the alarm is free: in the main thread, and set by nobody else."""
    free = threading.current_thread() is threading.main_thread()
    return free and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Fail a step that does not end, by an exception that is raised in it."""

    def ring(*_: Any) -> None:
        raise StepFailed(f"The step did not end within {seconds:g} s (`patience`).", code="timeout")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _make_tables(settings: dict[str, Any]) -> None:
    """Make the tables of the product in an empty database."""
    with _in_place_of_the_default(settings), patch.object(clock, "_last", None):
        loader = MigrationLoader(None)
        for app in apps.get_app_configs():  # a project's own may need another database
            known = app.name.startswith("django.") or app.label in OURS
            if known and app.label in loader.migrated_apps:
                call_command("migrate", app.label, verbosity=0, interactive=False)
