"""For tests of what goes out: people with mail addresses, a round of the relay, and a receiver of
webhooks.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from hitl.decisions import notifications
from hitl.models.outbound import Delivery, Endpoint
from hitl.outbound import chat, endpoints, sending


def relay() -> int:
    """What beat and a worker do: plan, then send; gives how many messages were tried."""
    notifications.announce()
    return sending.deliver(seconds=30)


def later(hours: int = 24) -> None:
    """Messages that wait for their next try wait no longer."""
    Delivery.objects.filter(status="queued").update(
        next_at=timezone.now() - dt.timedelta(hours=hours)
    )


@pytest.fixture
def chatting(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Chat services take what they get; what they got is listed."""
    said: list[tuple[str, str, str]] = []
    monkeypatch.setattr(chat, "send", lambda url, *, title, text: said.append((url, title, text)))
    return said


@pytest.fixture
def slack(ana: User) -> Endpoint:
    return endpoints.make(
        ana, channel="apprise", target="slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/"
    )[0]


@pytest.fixture
def reachable(ana: User, ben: User, zoe: User) -> None:
    """Ana and Ben, and Zoe who sees nothing, have mail addresses."""
    for user in (ana, ben, zoe):
        user.email = f"{user.username}@example.org"
        user.save()


@dataclass
class Receiver:
    """A system that takes webhooks: what it got, and what it answers."""

    url: str = ""
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answer: Callable[[BaseHTTPRequestHandler], None] | int = 204

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.got]


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    """A receiver on this host, which the settings allow."""
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            made.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            if callable(made.answer):
                made.answer(self)
                return
            self.send_response(made.answer)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    settings.WAYSTATION_OUTBOUND_ALLOW = ["127.0.0.1"]
    made.url = f"http://127.0.0.1:{server.server_address[1]}/hook?a=1"
    yield made
    server.shutdown()
    server.server_close()
