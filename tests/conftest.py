"""Fixtures: the people of every test, tiny workflows, and a hand that drives runs as a worker
would.
"""

from __future__ import annotations

import gc
import importlib
import os
import sqlite3
import uuid
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import hypothesis
import pytest
from _pytest import runner
from django.conf import settings as django_settings
from django.contrib import admin
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection, connections
from django.template import Context
from django.test import Client, TransactionTestCase
from django.test import client as django_client
from django.utils.crypto import get_random_string
from hypothesis.configuration import set_hypothesis_home_dir
from psycopg import _queries
from psycopg._preparing import PrepareManager
from rest_framework.test import APIClient

from checkpoints import store
from checkpoints.database import clock, older_database
from checkpoints.models import Checkpoint, Event, Thread
from checkpoints.state import redaction
from checkpoints.store.prepared_queries import Prepared, PreparedValues
from hitl.host.broker import MemoryChannel
from hitl.live import topics
from hitl.models import ApiToken
from runs import services as runs
from runs import tasks
from runs.agents import model
from runs.engine.advance import advance
from runs.engine.context import streaming
from runs.models import Pause, WorkOrder
from tests.databases import cleaning, copies
from tests.databases import unguarded as ledger
from tests.databases.lent import lending
from tests.databases.unguarded import unguarded as unguarded
from tests.databases.whole import let_writer_go
from tests.house import durations
from tests.house.lanes import Lanes
from tests.runs.messages import sending_at_once as sending_at_once
from tests.worlds import steps
from tests.worlds.mailing import reachable as reachable
from tests.worlds.mailing import receiver as receiver
from tests.worlds.people import group, person

ledger.let_flush()
admin.autodiscover()  # tests go through its pages, whatever addresses were read before
# a test module may import `project.asgi`, which saves the declared workflows: while modules are
# imported there is no database
django_settings.WAYSTATION_PUBLISH = False
# how long a value takes to be drawn or tried says how busy the machine is; times are the bench's
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")
# it reads every module of the product for words and numbers to try, and keeps what it found
set_hypothesis_home_dir(Path(__file__).parent / ".artifacts" / "hypothesis")


ON_BOTH = (
    "checkpoints/backends/",
    "checkpoints/database/",
    "checkpoints/events/",
    "checkpoints/forensics/",
    "extensions/langgraph/saver/test_saver.py",
    "checkpoints/retention/",
    "checkpoints/store/",
    "hitl/ledger/",
    "runs/engine/commit/",
    "runs/engine/dispatch/test_dead_bodies.py",
    "runs/engine/test_advance.py",
    "runs/engine/test_places.py",
    "runs/engine/test_sleep.py",
    "runs/engine/test_taken_up.py",
    "runs/engine/test_turns.py",
    "runs/engine/workers/test_lease.py",
    "runs/models/test_constraints.py",
)
"""Folders and files whose subject is what the product does otherwise on another database: how a
step is committed and a run claimed, locks, triggers and constraints, the clock, queries that are
written by hand. Elsewhere such tests are marked `both_databases`: races, deadlines, lists, searches
and their pages, the ledger's protection, what retention and erasure delete, deaths.

What goes through the ORM alone is as good on SQLite as on PostgreSQL: there a superuser reads every
address and page, and an owner acts at every door (`matrix`), and whole orders live and die
(`runs/accidents`). What all others say of words, forms, protocols, agents, git and status codes is
no matter of the database.
"""


LONGEST_NAME = 1000
"""Characters that a test's name may have: each process keeps and sends all names. One of 25 million
took half a gigabyte.
"""


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """The server's module asks the database whether it is an older one, when it is imported; while
    tests are collected there is none to ask.

    Nothing that is collected is garbage, and looking for some took two thirds of the time. Which
    fixtures of a name a file sees is looked up once, not for each of its tests.
    """
    gc.disable()
    manager = session._fixturemanager
    # a test has no fixtures of its own, so its file or class is asked
    seen = cache(manager.getfixturedefs)
    try:
        with (
            patch.object(older_database, "refusal", return_value=""),
            patch.object(manager, "getfixturedefs", lambda name, node: seen(name, node.parent)),
        ):
            return (yield)
    finally:
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files in which nothing is for a second database are not even read, unless they are named."""
    if "not one_database" not in config.option.markexpr:
        return None
    if not collection_path.match("test_*.py"):
        return None
    chosen = place_of(collection_path).startswith(ON_BOTH)
    return None if chosen or "both_databases" in collection_path.read_text() else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What does not depend on the database need not run on each.

    Files come longest first: last, they leave processors idle. Stories come before all, so that
    what they share ends with them; the one whose processes take most memory before these, while
    those of pytest are small.
    """
    if config.option.markexpr != "model":
        config.hook.pytest_deselected(
            items=[item for item in items if item.get_closest_marker("model")]
        )
        items[:] = [item for item in items if not item.get_closest_marker("model")]
    if long := [item.nodeid[:LONGEST_NAME] for item in items if len(item.nodeid) > LONGEST_NAME]:
        raise pytest.UsageError(f"Give these cases short ids: {long}")
    items.sort(
        key=lambda item: (
            place(item) != durations.LARGEST,
            not place(item).startswith("stories/"),
            -durations.seconds(place(item)),
        )
    )
    for item in items:
        if not (uses_database(item) and depends_on_database(item)):
            item.add_marker(pytest.mark.one_database)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes | None:
    return Lanes(config, log) if config.option.dist == "loadfile" else None


def roomy(call: Callable[..., Any], *given: Any) -> Any:
    """Call it where its own calls, and theirs, find room on Python's stack.

    Python keeps the frames of a thread in pieces of 16 kB. What is called again and again where one
    piece ends asks the system for another each time, and gives it back: that took a sixth of a
    test's time, so far down as tests are called. A frame that says that it needs half of a large
    piece gets one, and leaves the other half to all that it calls.
    """
    return call(*given)


roomy.__code__ = roomy.__code__.replace(co_stacksize=140_000)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    return roomy(runner.pytest_runtest_protocol, item, nextitem)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    durations.note(report.nodeid, report.duration)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        durations.keep()
    # what is garbage at the end says so once: pytest looks five times, at everything
    gc.collect()
    gc.freeze()


def depends_on_database(item: pytest.Item) -> bool:
    marked = item.get_closest_marker("both_databases") is not None
    return marked or place(item).startswith(ON_BOTH)


def place(item: pytest.Item) -> str:
    """Where the test's file stands below `tests`."""
    return place_of(item.path)


@cache
def place_of(path: Path) -> str:
    return path.relative_to(Path(__file__).parent).as_posix()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A report goes from process to process as UTF-8, in which half of a character, as hostile
    steps let the engine log it, cannot be written: it broke off the whole run.
    """
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report


def pytest_collection_finish() -> None:
    """Thousands of tests are objects that stay: looking through them for garbage again and again
    took a fifth of the time.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def uses_database(item: pytest.Item) -> bool:
    of_database = {"db", "transactional_db"} & set(fixtures(item))
    return bool(of_database) or item.get_closest_marker("django_db") is not None


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> Iterator[None]:
    """The tests' database is a copy of one with tables, where the tests have servers of their own;
    else migrations make it.
    """
    if "WAYSTATION_DATA" not in os.environ or "TEST_REDIS_URL" not in os.environ:
        yield
    elif connection.vendor == "postgresql":
        connection.settings_dict["TEST"]["TEMPLATE"] = copies.postgresql_tables()
        yield
    else:
        creation: Any = connection.creation  # its stubs do not know this
        name = creation._get_test_db_name()  # in memory, and there as long as somebody has it open
        with (
            closing(sqlite3.connect(copies.sqlite_tables())) as made,
            closing(sqlite3.connect(name, uri=True)) as mine,
        ):
            made.backup(mine)
            yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """The tests' database goes when the writer of what steps say is out of it: PostgreSQL drops
    none that somebody is in.
    """
    with lending():
        yield
        let_writer_go()


@pytest.fixture(autouse=True)
def no_time_from_a_database_that_is_not_there(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test without a database goes by this machine's clock, whatever ran before it."""
    if not uses_database(request.node):
        monkeypatch.setattr(clock, "_look", lambda: None)


def quick_passwords() -> None:
    """Passwords are hashed as slowly as they should be in the product; here every test makes
    people.
    """
    django_settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def certificates_read_once() -> None:
    """Each client of HTTP reads all certificates that the machine trusts, 20 ms of work, and
    nearly all tests speak with this machine, where none is shown.
    """
    transports: Any = importlib.import_module("httpx._transports.default")
    transports.create_ssl_context = cache(transports.create_ssl_context)


def planned_once() -> None:
    """PostgreSQL keeps what it has planned for a connection though a test is rolled back: the
    driver has it forget all statements then, since one might have dropped a table. Planning takes
    three times as long as what these tests have done by it.
    """
    manager: Any = PrepareManager
    manager.prepared_max = 2000
    forget, discard = manager.clear, manager._should_discard

    def should_discard(held: Any, prepare: Any, results: Any) -> bool:
        rolled_back = all(result.command_status == b"ROLLBACK" for result in results)
        return not rolled_back and bool(discard(held, prepare, results)) and bool(forget(held))

    manager._should_discard = should_discard
    manager.clear = lambda held: True
    # and a statement is read for its parameters once: the driver remembers 128
    queries: Any = _queries
    queries._query2pg = lru_cache(2000)(queries._query2pg_nocache)


@pytest.fixture(autouse=True)
def empty_broker() -> None:
    """Nobody takes what tests send to the broker in memory; once it is full, a sweep sends less.
    What a test wanted sent in a minute is not sent in another one.
    """
    MemoryChannel.queues.clear()
    tasks._later.forget()


def many_strangers() -> None:
    """All tests come from one address; what limits it has tests of its own."""
    for name in ("ANONYMOUS_RATE", "LOGIN_ADDRESS_FAILURES"):
        setattr(django_settings, f"WAYSTATION_{name}", 1_000_000)


def endpoints_here() -> None:
    """Endpoints of tests are on this machine; that others are not reached has tests of its own."""
    model.configure(replace(model.server(), allow=("127.0.0.1",)))


def quick_static_files() -> None:
    """Looked for when asked for, not listed anew by each test's client."""
    django_settings.WHITENOISE_AUTOREFRESH = True


def contexts_once() -> None:
    """Django's client copies the context of each template that is drawn, though hundreds of a page
    share one.
    """
    client: Any = django_client
    copied = client.store_rendered_templates

    def once(store: dict[str, Any], *, context: Context, **told: Any) -> None:
        drawn = store.setdefault("drawn", {})  # held, so that no other gets the same id
        if id(context) not in drawn:
            drawn[id(context)] = context
            copied(store, context=context, **told)

    client.store_rendered_templates = once


def logged_in_by_one_row() -> None:
    """`force_login` gives a new browser the session that logging in would leave, in one statement
    in place of eighteen. Nobody logs in, so nothing is noted of it; `login` does.
    """
    browsers: Any = Client
    force = browsers.force_login

    def log_in(client: Any, user: Any, backend: str | None = None) -> None:
        if backend or django_settings.SESSION_COOKIE_NAME in client.cookies:
            force(client, user, backend)
            return
        user.backend = client._get_backend()
        session: Any = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = user.backend
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session._session_key = get_random_string(32, VALID_KEY_CHARS)
        session.create_model_instance(session._session).save(force_insert=True)
        client._set_login_cookies(SimpleNamespace(session=session))

    browsers.force_login = log_in


def short_connections() -> None:
    """The writer of what steps say gives its connection back before its test's database is
    emptied. What a test's own transaction holds, no other connection sees: there it is told
    nothing, and the step's thread writes.
    """
    # a thread of the live hub that is still at work when its test ends is kept from the database,
    # also from asking whether its connection is an old one
    hub: Any = topics
    hub.close_old_connections = connections.close_all
    streaming.IDLE = 0.02
    announce = streaming.announce

    def announce_outside(gathered: streaming.Gathered) -> None:
        if not connection.in_atomic_block:
            announce(gathered)

    streaming.announce = announce_outside


def quick_flush() -> None:
    """The database is emptied after each test that commits."""
    case: Any = TransactionTestCase
    case._fixture_teardown = lambda test: cleaning.empty(
        test._databases_names(include_mirrors=False)
    )


@pytest.fixture(autouse=True, scope="session")
def for_all_tests() -> None:
    """One fixture, not ten: each is asked for and looked up for each test."""
    for make in (
        quick_passwords,
        certificates_read_once,
        planned_once,
        many_strangers,
        endpoints_here,
        quick_static_files,
        contexts_once,
        logged_in_by_one_row,
        short_connections,
        quick_flush,
    ):
        make()


@pytest.fixture(autouse=True, scope="module")
def fresh_tables(request: pytest.FixtureRequest) -> None:
    """A file of tests begins with tables that hold few dead rows, since reading those would take
    more and more time, and with the rows that each of its tests wants.
    """
    items = [item for item in request.node.session.items if item.path == request.path]
    users = [item for item in items if uses_database(item) or "django_db_setup" in fixtures(item)]
    wanted = [name for name in ROWS if users and all(name in fixtures(item) for item in users)]
    if users and (connection.vendor == "postgresql" or wanted or cleaning.STANDING):
        request.getfixturevalue("django_db_setup")
        with request.getfixturevalue("django_db_blocker").unblock():
            cleaning.empty(["default"])
            for name in wanted:
                cleaning.STANDING[name] = ROWS[name]()


def fixtures(item: pytest.Item) -> Collection[str]:
    return getattr(item, "fixturenames", ())


def standing(name: str) -> Any:
    """What `ROWS` makes under this name: a copy, where it stands for all tests of the file."""
    if name in cleaning.STANDING:
        return deepcopy(cleaning.STANDING[name])
    return ROWS[name]()


@pytest.fixture
def committing(django_capture_on_commit_callbacks: Any) -> Any:
    """`with committing():` runs what was scheduled for after the commit."""
    return partial(django_capture_on_commit_callbacks, execute=True)


@pytest.fixture
def redacting() -> Iterator[Callable[[list[str]], None]]:
    """Sets the names of secrets."""
    yield redaction.configure
    redaction.configure(django_settings.WAYSTATION_REDACT)


def member(name: str, **fields: str) -> User:
    user = person(name, **fields)
    user.groups.add(standing("team"))
    return user


ROWS: dict[str, Callable[[], Any]] = {
    "templates": cleaning.load_templates,
    "team": partial(group, "platform"),
    "ana": partial(member, "ana", first_name="Ana", last_name="Ruiz"),
    "ben": partial(member, "ben", first_name="Ben"),
}
"""Rows of fixtures; each needs at most those before it."""


@pytest.fixture
def team(db: None) -> Group:
    found: Group = standing("team")
    return found


@pytest.fixture
def ana(team: Group) -> User:
    """Asks for work; in the team."""
    user: User = standing("ana")
    return user


@pytest.fixture
def ben(team: Group) -> User:
    """Reviews; in the team."""
    user: User = standing("ben")
    return user


@pytest.fixture
def zoe(db: None) -> User:
    """A stranger: logged in, but neither owner nor in the team."""
    return person("zoe")


@pytest.fixture
def templates(db: None, settings: Any, tmp_path: Path) -> None:
    """The shipped templates, and small ones on steps that need no repository."""
    settings.WAYSTATION_DATA = tmp_path / "data"
    settings.WAYSTATION_REPOSITORIES = [tmp_path]
    steps.forget()
    standing("templates")


@pytest.fixture
def make_order(templates: None, ana: User, team: Group) -> Callable[..., WorkOrder]:
    """A work order of a small template, owned by Ana, seen by her team."""

    def make(template: str = "writing", **kwargs: Any) -> WorkOrder:
        return fresh(
            runs.submit(template, by=kwargs.pop("by", ana), team=kwargs.pop("team", team), **kwargs)
        )

    return make


_shown = Prepared(lambda key: WorkOrder.objects.shown().filter(pk=key), uuid.UUID)
_latest = PreparedValues(
    lambda key: WorkOrder.objects.filter(pk=key).values_list("latest_run"), uuid.UUID
)
_asked = Prepared(lambda key: Pause.objects.open().filter(run__thread=key), uuid.UUID)


def fresh(order: WorkOrder) -> WorkOrder:
    [found] = _shown.get(order.pk)
    return found


def drive(order: WorkOrder) -> WorkOrder:
    """Let a worker take the order's run as far as it goes."""
    [[run_id]] = _latest.get(order.pk)
    while advance(run_id, budget=60):
        pass
    return fresh(order)


def pause_of(order: WorkOrder) -> Pause:
    [pause] = _asked.get(order.thread_id)
    return pause


def head_of(order: WorkOrder) -> Checkpoint:
    """The checkpoint that the order's next run would go on from."""
    assert order.thread.head is not None
    return order.thread.head


def state_at_head(thread_id: uuid.UUID) -> dict[str, Any]:
    """The state that a thread has come to."""
    head = Thread.objects.get(pk=thread_id).head
    assert head is not None
    return store.load(head)


def kinds(order: WorkOrder) -> list[str]:
    return list(
        Event.objects.filter(thread=order.thread_id).order_by("seq").values_list("kind", flat=True)
    )


def log_lines(order: WorkOrder) -> list[str]:
    return [
        event.data["message"]
        for event in Event.objects.filter(thread=order.thread_id, kind="log").order_by("seq")
    ]


@pytest.fixture
def paused(make_order: Callable[..., WorkOrder]) -> WorkOrder:
    """An order that waits for its plan's approval."""
    return drive(make_order())


@pytest.fixture
def page(ana: User) -> Client:
    """Ana's browser, without JavaScript."""
    client = Client()
    client.force_login(ana)
    return client


@pytest.fixture
def api() -> Callable[[User], APIClient]:
    """A REST client that acts as a user by token."""

    def make(user: User) -> APIClient:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {ApiToken.make(user, name='test')[1]}")
        return client

    return make
