from __future__ import annotations

import datetime as dt
from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.database import clock
from checkpoints.management.shown import PlainCommand
from checkpoints.text import dates
from hitl.decisions.errors import NotFound
from hitl.threads import why
from runs.threads.reasons import Reason


class Command(PlainCommand):
    help = (
        "Say what a run, a work order, a thread or a question waits for, until when, and what can "
        "be done: why run_…, wo_…, thr_… or pse_…. It only reads."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="run_…, wo_…, thr_… or pse_…")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            reasons = why.of_id(options["id"], now=clock.read())
        except (ValueError, NotFound) as error:
            raise CommandError(str(error)) from error
        for reason in reasons:
            for line in _lines(reason):
                self.stdout.write(line)


def _lines(reason: Reason) -> list[str]:
    """A reason as a paragraph: the code first, for scripts."""
    whose = f"{reason.run.shown_id} " if reason.run is not None else ""
    child = f"({reason.run.child_name}) " if reason.run and reason.run.child_name else ""
    lines = [f"{whose}{child}{reason.code}: {reason.code.label}", f"  {reason.words}"]
    lines += [f"  - {detail}" for detail in reason.details]
    lines += [f"  - At work there: {order.shown_id} {order.title}" for order in reason.holders]
    if reason.other_holders:
        lines.append(f"  - At work there besides: {reason.other_holders}")
    if reason.since is not None:
        lines.append(f"  Since {_told(reason.since)}")
    if reason.sent_at is not None:
        lines.append(f"  Its message went to the broker last at {_told(reason.sent_at)}")
    if reason.until is not None:
        lines.append(f"  At {_told(reason.until)}: {reason.then}")
    if reason.advice:
        lines.append(f"  {reason.advice}")
    return lines


def _told(at: dt.datetime) -> str:
    return dates.told(at, exact=True)
