"""What an author may get wrong: each workflow here loses, doubles or changes something when its
worker dies.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from runs.workflows import Context, Done, Go, Outcome, State, step
from tests.hitl.testing.shop import BANK, flow

CHANCE = itertools.count(1)
OUTBOX: list[Path] = []
"""A file that stands for the world, for workers that are processes of their own."""


def send(text: str) -> str:
    """A mail that goes out, and cannot be taken back."""
    if OUTBOX:
        with OUTBOX[0].open("a") as file:
            file.write(f"{text}\n")
    return f"sent {text}"


def charge(key: str, amount: int) -> int:
    """A charge by idempotency key: the receiver does each key once."""
    return amount


def transfer(key: str, amount: int) -> str:
    return BANK.pay(key, amount)


@step("broken.bare")
def bare(state: State, context: Context) -> Outcome:
    return Done(update={"sent": send("hello")})  # not in context.once


@step("broken.marked")
def marked(state: State, context: Context) -> Outcome:
    """Notes that it was sent, and then sends: a death in between loses the mail."""
    if not context.recorded(["begun"]):
        context.once("begun", lambda: True)
        send("hello")
    return Done()


@step("broken.chance")
def chance(state: State, context: Context) -> Outcome:
    return Done(update={"lucky": next(CHANCE)})


@step("broken.remembers")
def remembers(state: State, context: Context) -> Outcome:
    """Goes by what the process remembers: another worker does not."""
    BANK.paid.append(("seen", 1))
    return Go(update={"seen": len(BANK.paid)})


@step("broken.swallows")
def swallows(state: State, context: Context) -> Outcome:
    """Catches everything and cleans up outside."""
    try:
        context.once("send", lambda: send("hello"))
    except BaseException:  # noqa: BLE001  # the fault that is to be found
        send("goodbye")
    finally:
        charge("no key", 1)
    return Done()


@step("broken.keyless")
def keyless(state: State, context: Context) -> Outcome:
    return Done(update={"sent": context.once("send", lambda: send("hello"))})


@step("broken.keyed")
def keyed(state: State, context: Context) -> Outcome:
    """The receiver gets the key, so the call needs no record."""
    return Done(update={"charged": charge(context.key, 10)})


@step("broken.late")
def late(state: State, context: Context) -> Outcome:
    return Go(update={"ended": context.once("end", lambda: True)})


def one(function: str, **place: Any) -> dict[str, Any]:
    """A workflow of one broken step."""
    return flow({"function": function, **place})
