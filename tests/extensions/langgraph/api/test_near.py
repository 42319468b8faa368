"""What `make up` serves of the API without being asked: to programs on the same machine alone."""

from __future__ import annotations

import asyncio

import pytest
from channels.routing import URLRouter
from channels.testing import HttpCommunicator, WebsocketCommunicator
from django.urls import re_path

from checkpoints import extension
from hitl.host import asgi

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]
HERE, ELSEWHERE = ("127.0.0.1", 50_000), ("192.0.2.7", 50_000)
FORWARDED = (b"x-forwarded-for", b"192.0.2.7")
SOCKET = "/langgraph/threads/0198c0de-0000-7000-8000-000000000000/stream/events"


def langgraph() -> extension.Extension:
    return next(each for each in extension.installed() if each.label == "langgraph_extension")


@pytest.fixture
def doors(settings, monkeypatch):
    """Those of a server that was told nothing of the API."""
    monkeypatch.delenv("WAYSTATION_LANGGRAPH", raising=False)
    settings.WAYSTATION_LANGGRAPH = False
    langgraph().serve_alone(demo=True)
    return [door for each in extension.installed() for door in each.doors()]


def answered(doors, path, *, client, headers=()):
    """The status, and what the answer is written in."""
    routes = [asgi.served(door) for door in doors if not door.socket]
    request = HttpCommunicator(
        URLRouter([*routes, re_path("", asgi.pages)]),
        "GET",
        path,
        headers=[(b"host", b"localhost"), *headers],
    )
    request.scope["client"] = client

    async def asked():
        return await request.get_response(timeout=30)

    answer = asyncio.run(asked())
    return answer["status"], dict(answer["headers"]).get(b"content-type", b"").decode()


def test_programs_on_the_same_machine_find_it_and_others_a_page_that_is_not_there(doors):
    assert answered(doors, "/langgraph/ok", client=HERE) == (200, "application/json")
    assert answered(doors, "/langgraph/ok", client=("::1", 50_000))[0] == 200
    nothing = answered(doors, "/nothing/ok", client=ELSEWHERE)
    assert nothing[0] == 404
    for path in ("/langgraph/ok", "/langgraph/agui/x"):
        assert answered(doors, path, client=ELSEWHERE) == nothing


def test_what_a_proxy_brings_that_operators_did_not_name_is_from_elsewhere(doors, settings):
    assert answered(doors, "/langgraph/ok", client=HERE, headers=[FORWARDED])[0] == 404
    settings.NUM_PROXIES = 1
    assert answered(doors, "/langgraph/ok", client=HERE, headers=[FORWARDED])[0] == 404
    near = (b"x-forwarded-for", b"127.0.0.1")
    assert answered(doors, "/langgraph/ok", client=HERE, headers=[near])[0] == 200


@pytest.mark.parametrize(("client", "code"), [(HERE, 4401), (ELSEWHERE, 4404)])
def test_a_socket_from_elsewhere_finds_none(doors, client, code):
    (door,) = [door for door in doors if door.socket]
    socket = WebsocketCommunicator(
        URLRouter([asgi.served(door), re_path("", asgi.others)]),
        SOCKET,
        headers=[(b"host", b"localhost")],
    )
    socket.scope["client"] = client

    async def closed():
        await socket.connect(timeout=30)
        return await socket.receive_output(timeout=30)

    assert asyncio.run(closed())["code"] == code


@pytest.mark.parametrize(("demo", "said"), [(True, "0"), (False, None)])
def test_a_word_of_the_operator_s_and_a_server_that_is_no_demo_stay_as_they_are(
    settings, monkeypatch, demo, said
):
    monkeypatch.delenv("WAYSTATION_LANGGRAPH", raising=False)
    if said is not None:
        monkeypatch.setenv("WAYSTATION_LANGGRAPH", said)
    settings.WAYSTATION_LANGGRAPH = False
    config = langgraph()
    config.serve_alone(demo=demo)
    assert settings.WAYSTATION_LANGGRAPH is False and list(config.doors()) == []
