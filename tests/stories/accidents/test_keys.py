"""A web server is killed in the middle of a request that names a key: what is sent again makes one
order, and is told of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from http.client import RemoteDisconnected

import pytest

from tests.databases.copies import TOKENS
from tests.killed.middleware import HEADER
from tests.servers.stack import Stack
from tests.stories.conftest import make_stack, settle

pytestmark = pytest.mark.stack

ORDERS = "/api/v1/work-orders"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = make_stack(tmp_path_factory.mktemp("keys"), "accidents")
    stack.environment["DJANGO_SETTINGS_MODULE"] = "tests.killed.settings"
    settle(stack)
    yield stack
    stack.stop()


def test_a_server_killed_before_or_after_its_commit_makes_one_order_per_key(own: Stack) -> None:
    """F7: 2 of 152 keys made two orders when the web was killed.

    Now the key is committed with the order, or with nothing.
    """
    token, told = TOKENS["ana"], {}
    own.web()
    for where in ("before the commit", "after the commit"):
        body, headers = (
            {"template": "repo-tidy", "repository_url": str(own.folder / "celery"), "title": where},
            {"Idempotency-Key": where},
        )
        with pytest.raises((RemoteDisconnected, ConnectionError)):
            own.call("POST", ORDERS, body, token=token, headers={**headers, HEADER: where})
        own.processes[-1].wait(10)
        own.web()
        status, sent, order = own.exchange("POST", ORDERS, body, token=token, headers=headers)
        told[where] = (status, sent.get("Idempotent-Replayed"), order["title"])
        assert [
            one["id"]
            for one in own.call("GET", ORDERS, token=token)[1]["results"]
            if one["title"] == where
        ] == [order["id"]]
    assert told == {
        "before the commit": (201, None, "before the commit"),
        "after the commit": (200, "rebuilt", "after the commit"),
    }
