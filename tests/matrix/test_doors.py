"""A method or a field that a door does not know does nothing there (F4, F1)."""

from __future__ import annotations

import json

import pytest

from checkpoints.database.people import User
from tests.databases.undone import undone
from tests.matrix.addresses import ADDRESSES, API
from tests.matrix.desk.walk import url_of, without_words
from tests.matrix.doors import UNKNOWN_METHODS, doors
from tests.matrix.walk import DEAR, NOTED, fill, send, told_of, verdict
from tests.matrix.world import BY_NAME, Role, World, digest, watched

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

WALKERS = [
    BY_NAME[name] for name in ("anonymous", "owner", "staff-without-rights", "strangers-token")
]
"""Who try the methods that no door knows, each of a door's by one of them in turn: one of each kind
that a door tells apart.
"""


def test_no_door_is_served_twice() -> None:
    """The second one would never be reached, and stand in the tables all the same."""
    found = doors()
    assert len(found) == len(set(found))


@pytest.mark.parametrize("role", WALKERS, ids=str)
def test_a_method_that_no_door_knows_does_nothing(
    world: World, before: dict[str, str], role: Role
) -> None:
    """Before, only the seven methods of REST were tried, and of the admin GET and POST alone:
    another one was read as whatever fitted.
    """
    wrong = []
    for number, door in enumerate(doors()):
        if door.kind in {"stream", "socket", "protocol"} or door.path in DEAR:
            continue
        url = (
            url_of(world, door.path)
            if door.kind == "admin"
            else fill(world, door.path, "paused")[0]
        )
        odd: tuple[str, ...] = UNKNOWN_METHODS
        if door.kind == "admin":
            odd = ("PUT", "PATCH", "DELETE", *UNKNOWN_METHODS)
        method = odd[(number + WALKERS.index(role)) % len(odd)]
        with undone(), watched() as written:
            response = send(world, role, method, url)
        got = verdict(response)
        if got.startswith("a server error") or [one for one in written if NOTED not in one]:
            wrong.append(f"{role} {method} {url}: {got}, wrote {written}")
        elif door.kind == "rest" and got not in {"401", "403", "404", "405"}:
            wrong.append(f"{role} {method} {url}: {got}")
        elif not role.sees and got == "taken" and (told := told_of(world, response)):
            wrong.append(f"{role} {method} {url}: tells of {told}")
    assert not wrong, "\n".join(wrong[:40])
    assert digest() == before


def test_a_superuser_changes_nothing_in_the_admin_but_by_post(
    world: World, before: dict[str, str]
) -> None:
    """Before, PUT, PATCH and DELETE of the admin's pages were tried by nobody."""
    wrong = []
    who = BY_NAME["superuser"]
    for number, door in enumerate(one for one in doors() if one.kind == "admin"):
        method = ("PUT", "PATCH", "DELETE", "BREW")[number % 4]
        url = url_of(world, door.path)
        with undone(), without_words(), watched() as written:
            got = verdict(send(world, who, method, url))
        if got.startswith("a server error") or written:
            wrong.append(f"{method} {url}: {got}, wrote {written}")
    assert not wrong, "\n".join(wrong[:40])
    assert digest() == before


def test_no_door_of_rest_passes_over_a_field_that_nobody_reads(world: World) -> None:
    """Before, `POST work-orders {"titel": …}` made an order without a title."""
    owner, wrong, tried = BY_NAME["owner"], [], set()
    User.objects.filter(username=str(owner.user)).update(is_superuser=True)
    for path, address in ADDRESSES.items():
        # an exported thread is checked as a whole, and a signed message is its sender's
        if not path.startswith(API) or path.endswith("/import") or address.who == "signed":
            continue
        url = fill(world, path, "paused")[0]
        for method in address.methods & {"POST", "PUT", "PATCH"}:
            with undone(), watched() as written:
                response = send(world, owner, method, url, {**address.body, "surprise": 1})
            said = json.loads(response.content) if response.status_code == 400 else {}
            if (said.get("code"), "surprise" in said.get("errors", {})) != ("invalid", True):
                wrong.append(f"{method} {path}: {response.status_code}")
            elif [table for table in written if NOTED not in table]:
                wrong.append(f"{method} {path} wrote {written}")
            tried.add((method, path))
    assert not wrong, "\n".join(wrong)
    assert len(tried) > 40
