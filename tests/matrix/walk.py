"""What each role must get at each address, and the walk that compares."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, cast
from unittest.mock import patch
from zlib import crc32

from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection
from django.http import HttpResponse
from django.template.backends.django import Template

from checkpoints import ids
from tests.databases.undone import undone
from tests.matrix.addresses import ADDRESSES, REST, SAFE, Address
from tests.matrix.world import NOTHING, STATES, Role, World, watched

ARGUMENT = re.compile(r"<(\w+):(\w+)>")
DEAR = {"api/schema/"}
"""Made anew for each request, which takes a second: tried once by whoever is nobody."""
NOTED = 'UPDATE "hitl_apitoken" SET "last_used_at"'
"""That a token asked for a change is noted, whatever it is told; of a reader nothing is."""
SESSION = 'UPDATE "django_session"'
BY_RIGHTS = {"staff-without-rights", "staff-who-look"}
"""Strangers to every thread whose rights are some of those that `staff-with-all-rights` holds, and
a right opens and never closes: where none is asked, that one tries.
"""
TURNS = {"member": 0, "staff-with-all-rights": 3, "strangers-token": 5}
"""Who try another state for each address; a member acts where an answer is waited for."""
STRANGE = {"anonymous", "superuser"}
"""Who see nothing, and all: they try what no address serves, too."""
PAGED = {"write-token"}
"""Tokens that are tried at pages too, where a token says nothing; the others at the API alone."""
UNKNOWN = ["inactive", "expired-token", "revoked-token", "inactive-persons-token"]
"""Whom one guard before all addresses takes for nobody: each tries some, and nobody tries all."""
LOGIN = ("/login?next=", "/admin/login/?next=")


def fill(world: World, path: str, state: str) -> tuple[str, bool]:
    """The address with the ids of that state in it, and whether there is all of that in this
    state.
    """
    known = {**world.shared, **world.states[state]}
    present = state != "erased"

    def one(match: re.Match[str]) -> str:
        nonlocal present
        kind, name = match.groups()
        present = present and name in known
        return known.get(name, f"{kind}_{NOTHING}")

    return "/" + ARGUMENT.sub(one, path), present


def speaks_of_something(path: str) -> bool:
    return bool(
        {name for _, name in ARGUMENT.findall(path)}
        & {"order_id", "thread_id", "run_id", "pause_id", "checkpoint_id", "decision_id"}
    )


def expected(
    path: str, address: Address, role: Role, method: str, *, present: bool, user: User | None
) -> str:
    """`taken`, or the refusal."""
    api = path.startswith(REST)
    if address.who == "anybody":
        return "any"  # its page says how it stands, and with what status
    if address.who == "signed":
        return "401" if method in address.methods else "any"
    if address.who == "public" and role.token and not role.known:
        return "any"
    if address.who == "public":
        return "taken" if method in address.methods else "any"
    if (
        api
        and address.who not in {"nowhere", "public"}
        and method not in {*address.methods, "OPTIONS"}
    ):
        return "405"  # whoever asks
    if not role.known or (role.token and not api):
        return "401" if api else "login" if method in address.methods else "405 or login"
    if api and role.token == "read" and method not in SAFE:
        return "403"
    right = address.needs.get(method)
    if right and not (user and user.has_perm(right)):
        return "403"
    if address.needs and method not in {*address.methods, "OPTIONS"}:
        return "403 or 405"
    if address.who == "nowhere":
        return "404"
    if api and method == "OPTIONS":
        return "taken"  # says what the address takes, of nothing in particular
    if method not in address.methods:
        return "405"
    may = role.sees or bool(address.also and user and user.has_perm(address.also))
    if address.who == "own" and not (may and present):
        return "404"
    if address.who == "owner" and role.user != "ana":
        return "404"
    return " or ".join(
        [
            "taken",
            *(["404"] if address.sparse else []),
            *([address.refused] if address.refused else []),
        ]
    )


def verdict(response: HttpResponse) -> str:
    if response.status_code == 302 and response["Location"].startswith(LOGIN):
        return "login"
    if response.status_code in {401, 403, 404, 405}:
        return str(response.status_code)
    return "taken" if response.status_code < 500 else f"a server error, {response.status_code}"


def send(
    world: World, role: Role, method: str, url: str, body: Mapping[str, Any] | None = None
) -> HttpResponse:
    """One request; the client's cookies stay as they were."""
    client = world.client(role)
    cookies = dict(client.cookies)
    try:
        if "/api/" in url:
            text = json.dumps(body or {})
            response = client.generic(method, url, text, content_type="application/json")
            return cast(HttpResponse, response)
        if method == "POST":
            return client.post(url, body or {})  # type: ignore[return-value]  # as above
        return client.generic(method, url)  # type: ignore[return-value]  # as above
    finally:
        client.cookies.clear()
        client.cookies.update(cookies)


def states_of(path: str, address: Address, role: Role, method: str) -> list[str]:
    """The states in which a role tries an address.

    One is enough where no door looks at it: of an address that speaks of nothing, for who is not
    known or sees as much as others do, and of HEAD, which is GET without its words. A stranger
    tries every state. So does an owner who reads; who acts, half of them on each of two databases.
    """
    if not speaks_of_something(path) or method == "HEAD":
        return ["paused"]
    names, number = list(STATES), crc32(path.encode())
    if role.name == "stranger" or (role.name == "owner" and method in SAFE):
        return names
    if role.name == "owner":
        half = connection.vendor == "postgresql"
        return [
            one for at, one in enumerate(names) if (number + at) % 2 == half or one == address.done
        ]
    if role.name not in TURNS or address.also:  # a right alone has to say why
        return ["paused"]
    if role.name == "member" and method not in SAFE:
        return ["paused"]
    return [names[(number + TURNS[role.name]) % len(names)]]


def steps(role: Role, methods: Iterable[str]) -> Iterator[tuple[str, Address, str, str]]:
    """Every address × state × method that it serves to try."""
    heads = role.name == "anonymous" or (role.name == "superuser" and connection.vendor == "sqlite")
    for number, (path, address) in enumerate(ADDRESSES.items()):
        if path in DEAR and role.name != "anonymous":
            continue
        if role.token and role.name not in PAGED and not path.startswith(REST):
            continue
        if role.name in BY_RIGHTS and not (address.needs or address.also):
            continue
        if role.name in UNKNOWN and number % len(UNKNOWN) != UNKNOWN.index(role.name):
            continue
        for method in methods:
            if method in address.methods and (method != "HEAD" or (heads and path not in DEAR)):
                for state in states_of(path, address, role, method):
                    yield path, address, state, method


def unserved(role: Role, methods: Iterable[str]) -> Iterator[tuple[str, Address, str, str]]:
    """Every address × method that it does not serve, and OPTIONS."""
    for path, address in ADDRESSES.items():
        for method in methods:
            if method not in address.methods and (path not in DEAR or role.name == "anonymous"):
                yield path, address, "paused", method


def walk(world: World, role: Role, tried: Iterable[tuple[str, Address, str, str]]) -> list[str]:
    """Everything that this role got and should not have got, as sentences.

    Nothing stays of what it did.
    """
    wrong: list[str] = []
    asked: set[tuple[str, str]] = set()
    user = world.people.get(role.user)
    for path, address, state, method in tried:
        url, present = fill(world, path, state)
        if (method, url) in asked and address.done != state:
            continue  # of what several states do not have the address is the same
        asked.add((method, url))
        wanted = expected(path, address, role, method, present=present, user=user)
        refused = wanted != "any" and not wanted.startswith("taken")
        # what HEAD would draw is what GET draws, and nobody sees it
        wordless = method == "HEAD"
        drawn = patch.object(Template, "render", return_value="") if wordless else nullcontext()
        cache.clear()  # it counts requests
        # a reader that writes is told below, and leaves nothing else
        reads = method in SAFE and not address.remembers
        with nullcontext() if reads else undone(), watched() as written, drawn:
            response = send(world, role, method, url, address.body)
            got = verdict(response)
        what = f"{role} {method} {url} ({state})"
        if (got.startswith("a server error") and not address.unwell) or (
            wanted != "any" and got not in wanted.split(" or ")
        ):
            wrong.append(f"{what}: {wanted} was expected, not {got}")
        known = ([] if method in SAFE else [NOTED]) + ([SESSION] if address.remembers else [])
        noted = [one for one in written if any(words in one for words in known)]
        if len(written) > len(noted) and (refused or method in SAFE):
            wrong.append(f"{what}: wrote {written}")
        if (
            address.done == state
            and method == "POST"
            and wanted == "taken"
            and not (200 <= response.status_code < 400 and written)
        ):
            wrong.append(
                f"{what}: {response.status_code}, and nothing was done: {response.content[:200]!r}"
            )
        if (
            not role.sees
            and not address.whole
            and response.status_code == 200
            and (told := told_of(world, response))
        ):
            wrong.append(f"{what}: tells of {told}")
    return wrong


def told_of(world: World, response: HttpResponse) -> str:
    """An id of somebody's thread in an answer for somebody who may not see it."""
    text = response.content.decode(errors="replace") if not response.streaming else ""
    shown = {value for state in world.states.values() for name, value in state.items()}
    return next(
        (
            value
            for value in sorted(shown)
            if value in text or str(ids.parse(value.partition("_")[0], value)) in text
        ),
        "",
    )
