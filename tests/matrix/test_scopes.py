"""What a token's scope lets it do: every REST address × method × scope, as docs/reference/tokens.md
says.

The addresses come from the resolver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, get_resolver

from hitl.http.authentication import OWNED, needed
from hitl.models import ApiToken
from runs.security.scopes import Scope
from tests.databases.undone import undone
from tests.matrix.addresses import ADDRESSES, API, REST, SAFE, twin
from tests.matrix.walk import ARGUMENT, fill
from tests.matrix.world import World

pytestmark = pytest.mark.django_db

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tokens.md"
ROW = re.compile(r"^\| (`.+`) \| ([A-Z, ]+) \| (`.+`) \|$", re.MULTILINE)
UNSCOPED = {
    f"{API}inbound/<slug:source>",
    f"{API}inbound/<slug:source>/start",
    *(f"{API}channels/{name}" for name in ("mail", "slack", "teams", "telegram")),
}
"""Signed, so it takes no token."""
RUNS = f"{API}threads/<thr:thread_id>/runs"


def told() -> dict[tuple[str, str], set[str]]:
    """What the page says of each address and method, beside what holds everywhere."""
    found: dict[tuple[str, str], set[str]] = {}
    for routes, methods, scopes in ROW.findall(PAGE.read_text()):
        for route in re.findall(r"`([^`]+)`", routes):
            for method in methods.split(", "):
                assert (API + route, method) not in found, (
                    f"docs/reference/tokens.md says twice what {method} {route} takes"
                )
                found[API + route, method] = set(re.findall(r"`([^`]+)`", scopes))
    return found


def allowed(path: str, method: str, said: dict[tuple[str, str], set[str]]) -> set[str]:
    """The scopes that a method of an address takes, by the page."""
    usual = {"read", "write"} if method in SAFE else {"write"}
    return usual | said.get((twin(path), "GET" if method in SAFE else method), set())


def doors() -> Iterator[tuple[str, str]]:
    for path, address in ADDRESSES.items():
        if path.startswith(REST) and path not in UNSCOPED:
            yield from ((path, method) for method in sorted(address.methods - {"HEAD"}))


def views(resolver: Any = None, prefix: str = "") -> dict[str, Any]:
    """Address of the API → its view."""
    found: dict[str, Any] = {}
    for entry in (resolver or get_resolver()).url_patterns:
        path = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            found[path] = getattr(entry.callback, "cls", None)
        else:
            found |= views(entry, path)
    return found


def client_of(world: World, scope: str, name: str = "ana") -> Client:
    secret = ApiToken.make(world.people[name], name=scope, scope=scope)[1]
    return Client(raise_request_exception=False, HTTP_AUTHORIZATION=f"Bearer {secret}")


def ask(client: Client, method: str, url: str, body: Any = None) -> HttpResponse:
    text = json.dumps(body or {})
    response = client.generic(method, url, text, content_type="application/json")
    return cast(HttpResponse, response)


def knock(world: World, client: Client, path: str, method: str) -> HttpResponse:
    with undone():
        return ask(client, method, fill(world, path, "paused")[0], ADDRESSES[path].body)


def code(response: HttpResponse) -> str:
    return str(json.loads(response.content).get("code", "")) if response.status_code >= 400 else ""


def test_the_page_names_addresses_that_there_are() -> None:
    """A route that went, or was misspelt, would be a promise about nothing."""
    gone = set(told()) - set(doors())
    assert not gone, f"docs/reference/tokens.md speaks of {sorted(gone)}, which are not served"


def test_every_view_takes_the_scopes_that_the_page_says() -> None:
    """A token that might write might do everything: there was no way to let a program ask that
    could not approve itself.

    A view that says nothing takes `write` for what changes something, and `read` beside it for what
    does not.
    """
    said, by_path = told(), views()
    for path, method in doors():
        takes = {"write", *(str(scope) for scope in needed(by_path[path], method))}
        assert takes == allowed(path, method, said), f"{method} {path}"


def test_what_a_view_lets_a_token_that_asks_reach_is_looked_at_for_its_owner() -> None:
    """An address with an argument that nobody looks at would be open on the team's work."""
    for (path, _), scopes in told().items():
        if "ask" in scopes:
            assert {name for _, name in ARGUMENT.findall(path)} <= set(OWNED), path


def test_every_door_lets_in_the_scopes_that_the_page_says_and_refuses_the_others(
    world: World,
) -> None:
    """As above, asked at the doors themselves: each by all scopes that it refuses, and by one of
    those that it takes, beside `write` where there is one: that is tried by test_permissions.py.
    """
    said, wrong = told(), []
    with undone():
        clients = {scope: client_of(world, scope) for scope in Scope.values}
        for number, door in enumerate(doors()):
            path, method = door
            takes = allowed(*door, said) - ({"ask"} if door == (RUNS, "POST") else set())
            # the thread there waits: to say something on it is to answer
            others = sorted(takes - {"write"}) or ["write"]
            for scope in sorted({*Scope.values} - takes | {others[number % len(others)]}):
                response = knock(world, clients[scope], *door)
                answers = scope == "ask" and "answer" in allowed(*door, said)
                refusal = "scope_ask_cannot_answer" if answers else "scope_missing"
                wanted = "" if scope in takes else refusal
                got = code(response) if code(response).startswith("scope") else ""
                if got != wanted:
                    wrong.append(
                        f"{scope} {method} {path}: {wanted or 'no refusal by scope'} was "
                        f"expected, not {response.status_code} {got}"
                    )
    assert not wrong, "\n".join(wrong)


def test_a_token_that_asks_sees_nothing_of_its_persons_team(world: World) -> None:
    """A program of Ben's that only asks read all work of Ben's team: every write token does."""
    for (path, method), scopes in told().items():
        if "ask" not in scopes or not (ARGUMENT.search(path) or method == "GET"):
            continue
        url, _ = fill(world, path, "paused")
        with undone():
            client = client_of(world, "ask", "ben")
            response = ask(client, method, url, ADDRESSES[path].body)
            if ARGUMENT.search(path):
                assert response.status_code == 404, f"{method} {path}"
            elif path.endswith("wait/counts"):
                counts = {
                    name: number
                    for name, number in json.loads(response.content).items()
                    if name != "since"
                }
                assert counts == dict.fromkeys(counts, 0), path
            elif not path.endswith(("templates/workflows", "tools/definitions")):
                assert json.loads(response.content)["results"] == [], path
                assert json.loads(client_of(world, "read", "ben").get(url).content)["results"], path
