"""Streams and sockets are plain ASGI beside Django: hosts and origins hold there as on its
pages.
"""

from __future__ import annotations

import asyncio

import pytest
from channels.testing import HttpCommunicator

from hitl.host import doors
from project.asgi import application

pytestmark = pytest.mark.one_database


def scope(kind="websocket", *, host="waystation.example:8443", scheme="ws", **headers):
    sent = {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    written = [(name.encode(), value.encode()) for name, value in sent.items() if value is not None]
    return {
        "type": kind,
        "scheme": scheme,
        "path": "/x",
        "query_string": b"",
        "headers": written,
        "server": ("10.0.0.1", 8000),
    }


def code(**given):
    refused = doors.refusal(scope(**given))
    return refused[0] if refused else ""


@pytest.fixture(autouse=True)
def named(settings):
    settings.ALLOWED_HOSTS = ["waystation.example"]


OWN = "http://waystation.example:8443"


@pytest.mark.parametrize("kind", ["websocket", "http"])
def test_the_pages_of_this_server_and_programs_may_speak_to_it(kind):
    scheme = "ws" if kind == "websocket" else "http"
    assert code(kind=kind, scheme=scheme, origin=OWN) == ""
    assert code(kind=kind, scheme=scheme) == ""


@pytest.mark.parametrize(
    "origin",
    ["http://waystation.example:8444", "http://waystation.example",
    "https://waystation.example:8443", "null", "", "http://evil.example:8443",
     "http://waystation.example.evil.example:8443", "file://", "waystation.example:8443"],
)  # fmt: skip
def test_a_page_of_another_origin_may_not_be_it_on_this_very_host(origin):
    """Only the host's name counted: a page on another port approved with the owner's cookie."""
    assert code(origin=origin) == "origin_refused"


@pytest.mark.parametrize(
    "host", ["evil.example", "waystation.example.evil.example", "10.0.0.1:8000", "a b"]
)
@pytest.mark.parametrize("kind", ["websocket", "http"])
def test_a_request_under_a_foreign_name_is_refused(host, kind):
    """DNS rebinding: it read streams as if they were its own pages'."""
    assert code(kind=kind, host=host, origin=f"http://{host}") == "host_refused"


def test_origins_that_operators_trust_may_speak_to_it(settings):
    settings.CSRF_TRUSTED_ORIGINS = ["https://desk.example:9000", "https://*.intern.example"]
    assert code(origin="https://desk.example:9000") == code(origin="https://a.intern.example") == ""
    assert (
        code(origin="http://desk.example:9000")
        == code(origin="https://desk.example")
        == "origin_refused"
    )


def test_the_scheme_is_the_proxys_only_where_that_is_believed(settings):
    secure = {
        "origin": "https://waystation.example",
        "host": "waystation.example",
        "x_forwarded_proto": "https",
    }
    assert code(**secure) == "origin_refused"
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert code(**secure) == ""
    assert code(**{**secure, "origin": "http://waystation.example"}) == "origin_refused"
    settings.SECURE_PROXY_SSL_HEADER = None
    assert code(scheme="wss", host="waystation.example", origin="https://waystation.example") == ""


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"host", b"evil.example")], 400),
        ([(b"host", b"waystation.example"), (b"origin", b"http://waystation.example:81")], 403),
    ],
)
def test_a_stream_is_behind_that_door(headers, status):
    """Streams answered under any name."""

    async def asked():
        stream = HttpCommunicator(
            application,
            "GET",
            "/api/v1/threads/thr_01m837gxvhfpcs8ksjkwzmrwac/stream",
            headers=headers,
        )
        return await stream.get_response(timeout=30)

    assert asyncio.run(asked())["status"] == status
