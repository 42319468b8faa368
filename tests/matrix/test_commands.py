"""Commands of the shell that act for a person: who may have what done (F4).

A new command is refused until it is in the table.
"""

from __future__ import annotations

import argparse
import itertools
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class

from checkpoints.management.shown import PlainCommand
from hitl.models import ApiToken
from tests.databases.undone import undone
from tests.matrix.world import World, digest, watched

pytestmark = pytest.mark.django_db

OURS = ("checkpoints", "runs", "hitl", "extensions.")
MACHINE = {
    "anchor_ledger", "check_inflight", "credential bind", "credential list", "credential remove",
    "credential set", "doctor", "drop_stray_bodies",
    "erase_thread", "export_ledger", "export_thread",
    "invariants", "load_templates",
    "mcp_tools accept", "mcp_tools check", "mcp_tools list", "mcp_tools remove",
    "prune", "rotate_keys", "sample_invoices", "sample_repository",
    "service_account list", "service_account make", "service_account off", "service_account on",
    "service_account rotate", "service_account token",
    "schedules list", "schedules pause", "schedules resume", "schedules run", "schedules show",
    "send_test", "group", "person",
    "standalone", "start", "startworkflow", "templates apply", "templates export",
    "verify_checkpoints", "verify_ledger", "why",
}  # fmt: skip
"""Speak for nobody: whoever has the shell has the machine."""
DOCUMENTS = {"export_ledger", "export_thread", "templates"}
"""What they print is read by programs."""
FOR_PEOPLE: dict[str, tuple[list[str], bool]] = {
    "workorder create": (["--user", "{who}", "create", "--template", "writing"], False),
    "workorder list": (["--user", "{who}", "list"], False),
    "find": (["--user", "{who}", "orders"], False),
    "workorder show": (["--user", "{who}", "show", "{order_id}"], True),
    "workorder approve": (["--user", "{who}", "approve", "{order_id}"], True),
    "workorder revise": (["--user", "{who}", "revise", "{order_id}", "shorter"], True),
    "workorder cancel": (["--user", "{who}", "cancel", "{order_id}"], True),
    "api_token": (["{who}"], False),
    "import_thread": (["{document}", "--owner", "{who}"], False),
}
"""Command → its words, and whether it acts on somebody's thread: then only for who sees it."""
PEOPLE = {
    "zoe": False,
    "ben": True,
    "ana": True,
    "sam": False,
    "vic": False,
    "oli": False,
    "root": True,
}
"""Name → whether that person sees Ana's threads. Ida is inactive, and nobody is called nemo."""


def test_every_command_is_in_the_table() -> None:
    """F4. And what people read of it steers no terminal; documents for programs stay as they
    are.
    """
    found: set[str] = set()
    for name, app in get_commands().items():
        if str(app).startswith(OURS):
            plain = isinstance(load_command_class(str(app), name), PlainCommand)
            assert plain == (name not in DOCUMENTS), name
            parser = load_command_class(str(app), name).create_parser("manage.py", name)
            subs = [
                action.choices
                for action in parser._actions
                if isinstance(action, argparse._SubParsersAction)
            ]
            found |= {f"{name} {sub}" for choices in subs for sub in choices} or {name}
    new, gone = (
        sorted(found - set(FOR_PEOPLE) - MACHINE),
        sorted((set(FOR_PEOPLE) | MACHINE) - found),
    )
    assert not new, (
        f"Say for whom {new} act: add one line each to FOR_PEOPLE in "
        "tests/matrix/test_commands.py, or the name to MACHINE."
    )
    assert not gone, (
        f"There are no commands {gone} any more: take them out of tests/matrix/test_commands.py."
    )


@pytest.mark.parametrize("command", FOR_PEOPLE)
def test_a_command_acts_only_for_who_may(world: World, tmp_path: Path, command: str) -> None:
    """F4: a refusal is a sentence, and nothing is written; of things erased there is nothing for
    anybody.
    """
    words, own = FOR_PEOPLE[command]
    document = tmp_path / "thread.json"
    if "{document}" in words:
        thread = world.states["completed"]["thread_id"]
        call_command("export_thread", thread, "--output", str(document), stderr=StringIO())
    before = digest()
    states = ("paused", "completed", "erased") if own else ("paused",)
    for who, state in itertools.product([*PEOPLE, "ida", "nemo"], states):
        filled = [word.format(who=who, document=document, **world.states[state]) for word in words]
        known = who in PEOPLE
        may = known and (not own or (PEOPLE[who] and state != "erased"))
        with undone(), watched() as written:
            said = run(command.split()[0], filled)
        if may and state == "paused":
            assert said is None, (who, state, said)
        elif not may:
            assert said, (who, state, "it was done")
            assert not written, (who, state, written)
    assert digest() == before


def run(name: str, words: list[str]) -> str | None:
    """What a command refused with; None where it did what it was asked for."""
    try:
        call_command(name, *words, stdout=StringIO(), stderr=StringIO())
    except CommandError as refusal:
        return str(refusal)
    return None


def test_a_token_made_in_the_shell_is_no_more_than_its_person(world: World, client: Any) -> None:
    """F4."""
    out = StringIO()
    with undone():
        call_command("api_token", "zoe", stdout=out)
        secret = out.getvalue().split()[-1]
        url = f"/api/v1/work-orders/{world.states['paused']['order_id']}"
        assert client.get(url, headers={"authorization": f"Bearer {secret}"}).status_code == 404
        assert ApiToken.objects.get(digest=ApiToken.digest_of(secret)).user.username == "zoe"
