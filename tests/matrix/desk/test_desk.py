"""The admin: every page and every action × role (F4), and that looking changes nothing (F1)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from zlib import crc32

import pytest
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpResponse

from tests.databases.undone import undone
from tests.matrix.addresses import served
from tests.matrix.desk.tables import (
    ACTIONS,
    ALONE,
    CHANGED,
    OFFICE,
    PAGES,
    STANDARD,
    SUPERUSERS,
    Action,
)
from tests.matrix.desk.walk import MODELS, chosen, url_of, without_words
from tests.matrix.walk import PAGED, send, verdict
from tests.matrix.world import BY_NAME, ROLES, Role, World, digest, watched

pytestmark = pytest.mark.django_db

DESK = {path: name for path, name, of_admin in served() if of_admin}
SIGNED_IN = [role for role in ROLES if role.staff]
OTHERS = [role for role in ROLES if not role.staff and (not role.token or role.name in PAGED)]
EVERYWHERE = {"anonymous", "owner"}
"""Who try every page of those who are not staff; the others each try some: one guard stands before
all pages, and asks nothing but whether one is staff.
"""
AT_ACTIONS = [role for role in ROLES if role.staff or role.name in EVERYWHERE]
SHOWN = {("GET", role.name) for role in SIGNED_IN if role.name != "staff-with-all-rights"} | {
    ("POST", "superuser")
}
"""Whose pages are rendered; those of whoever holds all rights are the superuser's."""
ODD = "HEAD or OPTIONS"
"""One of them for each page: the admin reads both as GET."""
FREE = {"login", "logout", "jsi18n"}
"""Pages of the admin that anybody may open: the way in, the way out, and words for scripts."""


def knocks(method: str, role: Role) -> Any:
    """On SQLite too where every page opens; who is refused is refused before any query that a
    database could read in its own way.
    """
    both = [pytest.mark.both_databases] if (method, role.name) == ("GET", "superuser") else []
    return pytest.param(method, role, marks=both, id=f"{method}-{role}")


def of_model(name: str) -> tuple[str, str]:
    """The model and the page that a view's name speaks of; ("", "") where it is none of Django's
    own.
    """
    model, _, page = name.rpartition("_")
    return (model, page) if model in MODELS and page in STANDARD else ("", "")


def rights(name: str, method: str) -> tuple[str, ...] | None:
    """The rights that a page takes; None where nobody has them."""
    model, page = of_model(name)
    if not model:
        return PAGES.get(name, ())
    app, _, kind = model.partition("_")
    needed = STANDARD[page]
    if page == "change" and method == "POST":
        needed = "change"
    if needed != "view" and needed not in CHANGED.get(model, ()):
        return None
    return (
        ("superusers alone",)
        if (model in SUPERUSERS and needed == "add") or (model in ALONE and needed != "view")
        else (f"{app}.{needed}_{kind}",)
    )


def test_every_page_of_the_admin_is_in_the_table() -> None:
    """F4: a page of our own is refused here until somebody says who may open it."""
    new = sorted(
        name
        for name in DESK.values()
        if name not in OFFICE and name not in PAGES and not of_model(name)[0]
    )
    assert not new, (
        f"Say who may open {new}: add one line each to PAGES in tests/matrix/desk/tables.py, such "
        f"as {new[0]!r}: ('runs.view_run',)."
    )
    gone = sorted(set(PAGES) - set(DESK.values()))
    assert not gone, (
        f"The admin has no {gone} any more: take the lines out of PAGES in "
        "tests/matrix/desk/tables.py."
    )


def test_every_action_of_the_admin_is_in_the_table() -> None:
    """F4."""
    found = set()
    for model, pages in admin.site._registry.items():
        listed = [
            *(pages.actions or ()),
            *(
                name
                for kind in ("row", "detail", "list", "submit_line")
                for name in getattr(pages, f"actions_{kind}", ())
            ),
        ]
        found |= {f"{model._meta.label} {getattr(action, '__name__', action)}" for action in listed}
    new, gone = sorted(found - set(ACTIONS)), sorted(set(ACTIONS) - found)
    assert not new, (
        f"Say who may do {new}: add one line each to ACTIONS in tests/matrix/desk/tables.py, such "
        f"as {new[0]!r}: Action('runs.change_run')."
    )
    assert not gone, (
        f"The admin has no {gone} any more: take the lines out of ACTIONS in "
        "tests/matrix/desk/tables.py."
    )


@pytest.mark.parametrize(
    ("knock", "role"),
    [
        *(knocks(method, role) for method in ("GET", "POST") for role in SIGNED_IN),
        *(knocks(ODD, BY_NAME[name]) for name in ("staff-without-rights", "superuser")),
    ],
)
def test_a_page_opens_for_those_who_hold_its_rights(
    world: World, before: dict[str, str], knock: str, role: Role
) -> None:
    """F4, F1: and looking writes nothing, by whichever method.

    A refused POST writes nothing either.
    """
    person = world.people[role.user]
    wrong = []
    for path, name in DESK.items():
        url = url_of(world, path)
        method = ("HEAD", "OPTIONS")[crc32(path.encode()) % 2] if knock == ODD else knock
        silent = nullcontext() if (knock, role.name) in SHOWN else without_words()
        with undone(), silent, watched() as written:
            got = verdict(response := send(world, role, method, url))
        needed = rights(name, method)
        if needed is None or not all(person.has_perm(right) for right in needed):
            wanted = {"403"}
        else:
            wanted = {"taken"} | ({"404", "403", "405"} if name in OFFICE else set())
        if got not in wanted:
            wrong.append(f"{role} {method} {url}: {sorted(wanted)} was expected, not {got}")
        if written and (method != "POST" or wanted == {"403"}):
            wrong.append(f"{role} {method} {url}: wrote {written}")
        if (
            not role.sees
            and role.rights == "none"
            and response.status_code == 200
            and any(value in response.content.decode() for value in world.states["paused"].values())
        ):
            wrong.append(f"{role} {method} {url}: tells of threads")
    assert not wrong, "\n".join(wrong)
    assert digest() == before


@pytest.mark.parametrize("role", OTHERS, ids=str)
def test_whoever_is_not_staff_is_sent_to_the_login(
    world: World, before: dict[str, str], role: Role
) -> None:
    """F4, F1."""
    wrong = []
    at, far = (0, 1) if role.name in EVERYWHERE else (OTHERS.index(role), len(OTHERS))
    for path, name in list(DESK.items())[at::far]:
        for method in ("GET", "POST"):
            url = url_of(world, path)
            with undone(), watched() as written:
                got = verdict(send(world, role, method, url))
            if (got != "login" and name not in FREE) or (
                written and not (name == "logout" and method == "POST")
            ):
                wrong.append(f"{role} {method} {url}: {got} {written}")
    assert not wrong, "\n".join(wrong)
    assert digest() == before


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_an_action_is_done_by_those_who_hold_its_right_to_what_they_see(
    world: World, action: str
) -> None:
    """F4: by nobody else, asked or confirmed; and rights in the admin open nobody's threads."""
    about = ACTIONS[action]
    wrong = []
    for role in AT_ACTIONS:
        person = world.people.get(role.user)
        may = role.staff and person is not None and person.has_perm(about.right)
        for confirmed in (False, True):
            silent = nullcontext() if role.name == "superuser" else without_words()
            with undone(), silent, watched() as written:
                response = do(world, role, action, about, confirmed=confirmed)
            acts = [one for one in written if "django_session" not in one]
            should = may and confirmed and (role.sees or not about.own)
            if bool(acts) != should or response.status_code >= 500:
                wrong.append(
                    f"{role} {'confirmed' if confirmed else 'asked'} {action}: "
                    f"{response.status_code}, wrote {acts}"
                )
    assert not wrong, "\n".join(wrong)


def do(world: World, role: Role, action: str, about: Action, *, confirmed: bool) -> HttpResponse:
    label, name = action.split()
    row = chosen(world, label, about.state)
    fields = {"action": name, ACTION_CHECKBOX_NAME: str(row.pk), **about.fields}
    if confirmed:
        fields |= {"confirmed": "1"}
        if label == "runs.Pause":
            fields[f"revision_{row.shown_id}"] = "1"  # type: ignore[attr-defined]  # a Pause has one
    app, model = label.lower().split(".")
    return send(world, role, "POST", f"/admin/{app}/{model}/", fields)
