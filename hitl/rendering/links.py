"""Where a question and a run are shown: the addresses of their pages."""

from __future__ import annotations

import uuid
from functools import cache

from django.urls import get_script_prefix, reverse

from checkpoints import ids
from checkpoints.models import Thread
from runs.models import Pause, Run, WorkOrder

PLACE = uuid.UUID(int=0)
"""Stands for any key in an address."""


@cache
def _around(name: str, prefix: str, root: str) -> tuple[str, str]:
    """What stands before and behind the key in an address of that name, under the server's root."""
    before, _, behind = reverse(name, args=[PLACE]).partition(ids.show(prefix, PLACE))
    return before, behind


def address(name: str, prefix: str, key: uuid.UUID) -> str:
    """As `reverse`, which takes a hundred calls, and lists have hundreds."""
    before, behind = _around(name, prefix, get_script_prefix())
    return f"{before}{ids.show(prefix, key)}{behind}"


def root_of(run: Run) -> Run:
    """The run for which, in the end, a child run works; a run that is nobody's child is its own."""
    while run.parent is not None:
        run = run.parent
    return run


def home_of(run: Run) -> str:
    """The address of the page that shows a run: its order's, else its thread's."""
    if run.work_order_id is not None:
        return order_at(run.work_order_id)
    return thread_at(root_of(run).thread_id)


def order_at(key: uuid.UUID) -> str:
    """The address of an order's page."""
    return address("hitl:order", WorkOrder.PREFIX, key)


def thread_at(key: uuid.UUID) -> str:
    return address("hitl:thread", Thread.PREFIX, key)


def decide_of(pause: Pause) -> str:
    """Where a question is answered."""
    return address("hitl:decide", Pause.PREFIX, pause.pk)


def place_of(pause: Pause) -> str:
    """The address of a question.

    That of a child run names it, since others of the same order may be open.
    """
    home = home_of(pause.run)
    return f"{home}?pause={pause.shown_id}" if pause.run.parent_id is not None else home
