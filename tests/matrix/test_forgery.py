"""What comes from another site, and what only looks like reading: no form without its token, and no
query that does anything (F1).
"""

from __future__ import annotations

import json

import pytest
from django.test import Client

from tests.matrix.addresses import ADDRESSES, API, METHODS, REST, SAFE, served
from tests.matrix.desk.tables import STANDARD
from tests.matrix.desk.walk import MODELS, url_of
from tests.matrix.walk import ARGUMENT, fill, send
from tests.matrix.world import BY_NAME, World, digest, undone, watched

pytestmark = pytest.mark.django_db

HARMLESS = {"favicon.ico"}
"""Sends on to a picture by any method."""
UNWELL = {f"/{path}" for path, address in ADDRESSES.items() if address.unwell}
PARSED = {
    f"{API}threads/import",
    f"{API}inbound/<slug:source>",
    f"{API}inbound/<slug:source>/start",
    *(f"{API}channels/{name}" for name in ("mail", "slack", "teams")),
    "login/saml/back",
    "login/elsewhere/ended",
}
"""What is no document, or not signed, is refused before anybody asks for the token."""
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


def readable(world: World, value: str) -> list[str]:
    """Every address that is read, the admin's too. Django's pages of one row read no query of
    ours: they are asked once, with the ids.
    """
    return [
        url_of(world, path) if of_admin else fill(world, path, "paused")[0]
        for path, name, of_admin in served()
        if (of_admin and (value == "id" or not of_row(name)))
        or (not of_admin and "GET" in ADDRESSES[path].methods)
    ]


def of_row(name: str) -> bool:
    model, _, page = name.rpartition("_")
    return model in MODELS and page in STANDARD and page != "changelist"


def test_no_change_comes_from_another_site(world: World) -> None:
    """F1: with a superuser's session but without the page's token, every method that may change
    something is refused, everywhere.
    """
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(world.people["root"])
    before, wrong = digest(), []
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
            with undone(), watched() as written:
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


@pytest.mark.parametrize(
    "value",
    ["", "1", "-9" * 2500, "%00%FF%D9%A3", "id"],
    ids=["nothing", "one", "long", "bytes", "ids"],
)
def test_no_query_changes_anything_or_is_an_error(world: World, value: str) -> None:
    """F1, F24: each parameter at once, with sense and without; `id` is the id of what is there."""
    before, wrong = digest(), []
    ids = world.states["paused"]
    for url in readable(world, value):
        if url.startswith("/api/schema"):
            continue  # takes a second, and reads no more than `format` and `lang`
        values = dict.fromkeys((*PARAMETERS, *MORE), value)
        if value == "id":
            known = {
                "pause": "pause_id",
                "thread": "thread_id",
                "before": "order_id",
                "branch": "checkpoint_id",
                "against": "checkpoint_id",
            }
            values |= {name: ids[known.get(name, "checkpoint_id")] for name in values}
        query = "&".join(f"{name}={given}" for name, given in values.items())
        role = BY_NAME["superuser"] if url.startswith("/admin/") else BY_NAME["owner"]
        with undone(), watched() as written:
            response = send(world, role, "GET", f"{url}?{query}")
        if (response.status_code >= 500 and url not in UNWELL) or written:
            wrong.append(f"GET {url}?…={value[:20]}: {response.status_code}, wrote {written}")
    assert not wrong, "\n".join(wrong)
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
