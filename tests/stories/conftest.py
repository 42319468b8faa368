"""The running product that stories share, and the people in it.

Stories speak to it only from outside.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from runs.git.samples import make_sample
from tests.databases import copies
from tests.databases.copies import PASSWORD, PEOPLE, TOKENS
from tests.programs import browser
from tests.programs.browser import Windows
from tests.servers.private import REDIS_DATABASES, Redis
from tests.servers.stack import SlowStack, Stack, standing_alone
from tests.stories.browser.cards.papers import PAPERS

SCREENSHOTS = Path(__file__).resolve().parent.parent / ".artifacts" / "screenshots"
REDIS_NUMBERS = {
    "stories": 1,
    "accidents": 2,
    "broker": 3,
    "queues": 4,
    "bodies": 5,
    "backends": 6,
    "clocks": 7,
    "upgrade": 8,
}
AT_ONCE = 4
"""Browsers of one person in one test."""
SESSIONS = f"""
import json
from django.contrib.auth.models import User
from django.test import Client

made = {{}}
for user in User.objects.all():
    for client in [Client() for _ in range({AT_ONCE})]:
        client.force_login(user)
        made.setdefault(user.username, []).append(client.cookies["sessionid"].value)
print(json.dumps(made))
"""
"""What logging in leaves. The form hashes a password as slowly as it should, once for each browser
of a person: stories of their own go through it.
"""
Sessions = dict[Path, dict[str, list[str]]]


def make_stack(folder: Path, name: str) -> Stack:
    """A stack with a database, in which are templates and people, and a Redis number of its own;
    nothing is started yet.
    """
    return Stack(folder, _servers(name))


def _servers(name: str, *, slow: bool = False) -> dict[str, str]:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    number = REDIS_NUMBERS[name] + len(REDIS_NUMBERS) * int(worker.removeprefix("gw"))
    assert number < REDIS_DATABASES, "no worker of this stack would get a message"
    redis = os.environ["TEST_REDIS_URL"].rsplit("/", 1)[0]
    return {
        "DATABASE_URL": copies.postgresql(f"{name}_{worker}", slow=slow),
        "REDIS_URL": f"{redis}/{number}",
    }


def settle(stack: Stack) -> None:
    """A real repository."""
    make_sample(stack.folder / "celery")


def make_slow_stack(folder: Path, name: str) -> SlowStack:
    """A stack with people, and with the templates of `tests.servers.slow_steps`; nothing is started
    yet.
    """
    return SlowStack(folder, _servers(name, slow=True))


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """PostgreSQL, Redis, Daphne, one Celery worker process with two children, beat; beside the
    templates that are shipped those of `tests.servers.slow_steps`.
    """
    stack = make_slow_stack(tmp_path_factory.mktemp("stories"), "stories")
    settle(stack)
    try:
        stack.worker()
        stack.beat()
        stack.web()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def stack(running: Stack) -> Iterator[Stack]:
    """The one that runs; while other tests have their turn it stands still, and costs nothing."""
    with running.awake():
        yield running


@pytest.fixture(scope="package")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    """All in one process, for questions about papers."""
    with standing_alone(tmp_path_factory.mktemp("papers"), PEOPLE + PAPERS) as stack:
        yield stack


@pytest.fixture(scope="package")
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A Redis that a test may kill and start again."""
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def beside(stack: Stack, own_redis: Redis) -> Iterator[Stack]:
    """For servers of a test's own, on the stories' database and the Redis that may be killed;
    nothing is started yet.
    """
    beside = Stack(stack.folder, {**stack.environment, "REDIS_URL": own_redis.url})
    yield beside
    beside.stop()


@pytest.fixture(scope="package")
def token() -> Callable[[str], str]:
    """A user's API token."""
    return TOKENS.__getitem__


@pytest.fixture(scope="package")
def opened() -> Iterator[Browser]:
    with browser.chromium() as opened, browser.marked(None):
        yield opened


@pytest.fixture(scope="module")
def chromium(opened: Browser) -> Iterator[Browser]:
    """One for all files; between those that use it, others ask the database.

    No page is left when a file ends: one that moves is drawn sixty times a second.
    """
    with browser.marked(opened._loop):
        yield opened
        for context in opened.contexts:
            context.close()


@pytest.fixture(scope="session")
def sessions() -> Sessions:
    """The keys of those who have logged in, by stack and person."""
    return {}


def log_in(page: Page, user: str, path: str) -> None:
    """Through the form, which leads on to the path."""
    page.goto(f"/login?next={quote(path)}")
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda url: "/login?" not in url and url.endswith(path))


@pytest.fixture(scope="module")
def windows(chromium: Browser) -> Windows:
    """Those that tests of the file have had."""
    return Windows(chromium)


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest, windows: Windows, stack: Stack, sessions: Sessions
) -> Iterator[Callable[..., Page]]:
    """A browser of a logged-in person, with nothing in it; a session is used again by later tests,
    not by two browsers of one test.

    Any error in its console fails the test, unless the server is to be `cut` off.
    """
    opened, used, failed = [], Counter[str](), request.session.testsfailed

    def open_as(user: str, path: str = "/", *, cut: bool = False, **options: Any) -> Page:
        window = windows.open(stack.url, **options)
        window.cut = cut
        opened.append(window)
        page = window.page
        if user not in sessions.get(stack.folder, {}):  # a story may have made them just now
            sessions[stack.folder] = json.loads(stack.manage("shell", "-v0", "-c", SESSIONS))
        key = sessions[stack.folder][user][used[user]]
        used[user] += 1
        page.context.add_cookies([{"name": "sessionid", "value": key, "url": stack.url}])
        page.goto(path)
        assert urlsplit(page.url).path == urlsplit(path).path, page.url
        return page

    yield open_as
    errors = [error for window in opened for error in window.errors]
    for window in opened:
        windows.close(window, again=request.session.testsfailed == failed)
    assert errors == []


@pytest.fixture
def sample_copy(stack: Stack, tmp_path: Path) -> Path:
    """A clone of the sample repository for a test that pushes to it or changes it."""
    copy = stack.folder / f"copy-{tmp_path.name}"
    subprocess.run(["git", "clone", "--quiet", "--bare", stack.folder / "celery", copy], check=True)
    return copy


def shot(page: Page, name: str, *, full_page: bool = True) -> None:
    """Keep a screenshot, for eyes: of a run of one file, which somebody looks
    at, or where SCREENSHOTS is set.
    """
    if "SCREENSHOTS" not in os.environ:
        return
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=full_page)
