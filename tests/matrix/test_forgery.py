"""What comes from another site, and what only looks like reading: no form without its token, and no
query that does anything (F1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest
from django.core.handlers import wsgi
from django.http import HttpRequest, HttpResponse, QueryDict
from django.middleware import csrf
from django.test import Client

from tests.databases.undone import undone
from tests.matrix.addresses import ADDRESSES, API, METHODS, REST, SAFE, served
from tests.matrix.desk.tables import STANDARD
from tests.matrix.desk.walk import MODELS, url_of, without_words
from tests.matrix.walk import ARGUMENT, DEAR, fill, send
from tests.matrix.world import BY_NAME, World, digest, watched

pytestmark = pytest.mark.django_db

HARMLESS = {"favicon.ico"}
"""Sends on to a picture by any method."""
UNWELL = {f"/{path}" for path, address in ADDRESSES.items() if address.unwell}
PARSED = {
    f"{API}threads/import",
    f"{API}inbound/<slug:source>",
    f"{API}inbound/<slug:source>/start",
    *(f"{API}channels/{name}" for name in ("mail", "slack", "teams", "telegram")),
    "login/saml/back",
    "login/elsewhere/ended",
}
"""What is no document, or not signed, is refused before anybody asks for the token."""
ASKED_AGAIN = ("account/", "password/", "templates/<slug:slug>/dry-run")
"""Libraries' forms, which say with 200 what is missing, and one that needs no field."""
UNSAFE = [method for method in METHODS if method not in SAFE]
PARAMETERS = (
    "live",
    "seq",
    "pause",
    "before",
    "after",
    "from",
    "view",
    "format",
    "search",
    "q",
    "p",
    "e",
    "o",
    "all",
    "open",
    "status",
    "limit",
)
MORE = (
    "thread",
    "branch",
    "against",
    "old",
    "new",
    "cursor",
    "template",
    "auto_resume_pending",
    "action",
    "decision",
    "confirmed",
    "token",
    "next",
)
"""Every parameter of a query that some page or route reads, and some that would be tempting."""


class Query(QueryDict):
    """A query that notes whether anybody reads a parameter of it.

    REST reads it as a list first, and refuses what no address knows, before any view: so the
    values say nothing more of most of its addresses.
    """

    read = made = False

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.made = True

    def __getattribute__(self, name: str) -> Any:
        if name in READING:
            Query.read = True
        return super().__getattribute__(name)

    def __getitem__(self, key: str | None) -> Any:
        Query.read = Query.read or key is not None  # as REST asks for no format
        return super().__getitem__(key)  # type: ignore[index]  # its stubs do not know this

    def __contains__(self, key: object) -> bool:
        Query.read = Query.read or self.made
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        Query.read = True
        return super().__iter__()


READING = {"getlist", "items", "values", "keys", "dict", "urlencode", "copy"}


def readable(world: World) -> list[str]:
    """Every address that is read, the admin's too."""
    return [
        url_of(world, path) if of_admin else fill(world, path, "paused")[0]
        for path, name, of_admin in served()
        if of_admin or "GET" in ADDRESSES[path].methods
        # takes a second, and reads no more than `format` and `lang`
        if path not in DEAR
    ]


def with_ids(world: World) -> dict[str, str]:
    """Each parameter with the id of what is there."""
    ids = world.states["paused"]
    known = {
        "pause": "pause_id",
        "thread": "thread_id",
        "before": "order_id",
        "branch": "checkpoint_id",
        "against": "checkpoint_id",
    }
    return {name: ids[known.get(name, "checkpoint_id")] for name in (*PARAMETERS, *MORE)}


def ask(world: World, url: str, values: Mapping[str, str]) -> str:
    """What is wrong with what comes back; "" where nothing is."""
    query = "&".join(f"{name}={given}" for name, given in values.items())
    role = BY_NAME["superuser"] if url.startswith("/admin/") else BY_NAME["owner"]
    with undone(), watched() as written:
        response = send(world, role, "GET", f"{url}?{query}")
    if (response.status_code >= 500 and url not in UNWELL) or written:
        return f"GET {url}?{query[:60]}: {response.status_code}, wrote {written}"
    return ""


def of_rows(world: World) -> set[str]:
    """Django's pages of one row, which read no query of ours."""
    pages = {f"{model}_{page}" for model in MODELS for page in STANDARD if page != "changelist"}
    return {url_of(world, path) for path, name, of_admin in served() if of_admin and name in pages}


@pytest.fixture(scope="module")
def asked(world: World, before: dict[str, str]) -> dict[str, tuple[bool, str]]:
    """Each address that was asked once, with the ids of what is there: whether its page reads
    anything of a query, and what was wrong.
    """
    found, values, rows = {}, with_ids(world), of_rows(world)
    with patch.object(wsgi, "QueryDict", Query):
        for url in readable(world):
            Query.read = False
            with without_words() if url in rows else nullcontext():
                wrong = ask(world, url, values)
            found[url] = (Query.read and url not in rows, wrong)
    assert digest() == before
    return found


def no_words(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The page that says so would be rendered hundreds of times."""
    return HttpResponse(status=403)


def test_no_change_comes_from_another_site(world: World) -> None:
    """F1: with a superuser's session but without the page's token, every method that may change
    something is refused, everywhere.
    """
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(world.people["root"])
    before, wrong = digest(), []
    refuse = patch.object(csrf, "_get_failure_view", lambda: no_words)
    for path, _, of_admin in served():
        url = url_of(world, path) if of_admin else fill(world, path, "paused")[0]
        address = ADDRESSES.get(path)
        methods = (
            ["POST"]
            if address is None
            else [method for method in UNSAFE if method in address.methods]
        )
        for method in methods:
            body = json.dumps(dict(address.body) if address else {})
            with undone(), refuse, watched() as written:
                if path.startswith(REST):
                    response = client.generic(method, url, body, content_type="application/json")
                else:
                    response = client.generic(
                        method, url, "a=b", content_type="application/x-www-form-urlencoded"
                    )
            if (
                (response.status_code != 403 and path not in HARMLESS | PARSED)
                or response.status_code < 300
                or written
            ):
                wrong.append(f"{method} {url}: {response.status_code}, wrote {written}")
    assert not wrong, "\n".join(wrong)
    assert digest() == before


def test_no_query_of_ids_changes_anything_or_is_an_error(
    asked: dict[str, tuple[bool, str]],
) -> None:
    """F1, F24: each parameter at once, with the id of what is there."""
    wrong = [words for _, words in asked.values() if words]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "value",
    ["", "1", "-9" * 2500, "%00%FF%D9%A3"],
    ids=["nothing", "one", "long", "bytes"],
)
def test_no_query_changes_anything_or_is_an_error(
    world: World, before: dict[str, str], asked: dict[str, tuple[bool, str]], value: str
) -> None:
    """F1, F24: each parameter at once, without sense, at every address that read one of them."""
    values = dict.fromkeys((*PARAMETERS, *MORE), value)
    reading = [url for url, (reads, _) in asked.items() if reads]
    wrong = [words for url in reading if (words := ask(world, url, values))]
    assert not wrong, "\n".join(wrong)
    assert len(reading) > 20
    assert digest() == before


def test_the_world_knows_every_argument(world: World) -> None:
    """Else an address would be tried with an id of nothing only, and seem safe."""
    known = {name for state in world.states.values() for name in state} | set(world.shared)
    asked = {name for path in ADDRESSES for _, name in ARGUMENT.findall(path)}
    unknown = sorted(asked - known)
    assert not unknown, (
        f"No state of the matrix' world has {unknown}: give each an id in "
        "tests/matrix/world.py, in ids_of() or World.shared."
    )


def test_a_form_without_a_field_is_no_error_and_is_not_taken_for_one_that_nobody_sent(
    world: World, before: dict[str, str]
) -> None:
    """Nothing comes, not even what a page's own form always brings along."""
    wrong = []
    root = BY_NAME["superuser"]
    for path, address in ADDRESSES.items():
        if path.startswith(REST) or "POST" not in address.methods or path in DEAR:
            continue
        url, _ = fill(world, path, address.done or "paused")
        with undone():
            status = send(world, root, "POST", url).status_code
        shown_anew = status == 200 and "GET" in address.methods
        if status >= 500 or (shown_anew and not path.startswith(ASKED_AGAIN)):
            wrong.append(f"{url}: {status}")
    assert not wrong, "\n".join(wrong)
    assert digest() == before
