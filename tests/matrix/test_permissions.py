"""Who may do what: every address × role × state (F4), and that reading changes nothing (F1).

The addresses come from the resolver.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.matrix.addresses import ADDRESSES, METHODS, SAFE, served
from tests.matrix.walk import steps, unserved, walk
from tests.matrix.world import BY_NAME, ROLES, Role, World, digest

pytestmark = pytest.mark.django_db


def roles(*on_both: str) -> list[Any]:
    """Each role; these knock on SQLite too: who sees all has every query run there, and whom a rule
    refuses is no matter of the database.
    """
    both = pytest.mark.both_databases
    return [
        pytest.param(role, marks=both if role.name in on_both else (), id=str(role))
        for role in ROLES
    ]


def test_every_address_is_in_the_table() -> None:
    """F4: what is new is refused here until somebody says who may use it."""
    found = {path for path, _, admin in served() if not admin}
    new, gone = sorted(found - set(ADDRESSES)), sorted(set(ADDRESSES) - found)
    assert not new, (
        f"Say who may use {new}: add one line each to ADDRESSES in "
        f"tests/matrix/addresses.py, such as {new[0]!r}: own('POST')."
    )
    assert not gone, (
        f"{gone} are served no more: take their lines out of ADDRESSES in "
        "tests/matrix/addresses.py."
    )


@pytest.mark.parametrize("role", roles("superuser"))
def test_reading_shows_what_is_theirs_and_changes_nothing(
    world: World, before: dict[str, str], role: Role
) -> None:
    """F1, F4, C20: GET and HEAD of every address in every state: the right answer, and the same
    bytes after.
    """
    wrong = walk(world, role, steps(role, SAFE))
    assert not wrong, "\n".join(wrong[:40])
    assert digest() == before


@pytest.mark.parametrize("role", roles("owner"))
def test_acting_is_for_those_who_may(world: World, before: dict[str, str], role: Role) -> None:
    """F4, C20: POST, PUT, PATCH and DELETE of every address in every state; a refused one writes
    nothing.
    """
    wrong = walk(world, role, steps(role, [one for one in METHODS if one not in SAFE]))
    assert not wrong, "\n".join(wrong[:40])
    assert digest() == before


@pytest.mark.parametrize(
    ("name", "methods"),
    [("anonymous", METHODS), ("superuser", METHODS), ("stranger", ("OPTIONS",))],
    ids=["anonymous", "superuser", "stranger"],
)
def test_what_an_address_does_not_serve_is_refused(
    world: World, before: dict[str, str], name: str, methods: tuple[str, ...]
) -> None:
    """F1, F4: to who sees nothing and to who sees all, and OPTIONS tells a stranger of nothing."""
    wrong = walk(world, BY_NAME[name], unserved(BY_NAME[name], methods))
    assert not wrong, "\n".join(wrong[:40])
    assert digest() == before
