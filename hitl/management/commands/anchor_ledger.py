import datetime as dt
from typing import Any

from django.core.management.base import CommandParser

from checkpoints.checks import OURS
from checkpoints.database import clock
from checkpoints.management.shown import PlainCommand
from hitl.ledger import anchors
from hitl.models import Anchor


class Command(PlainCommand):
    help = (
        "Write today's anchors, where the worker has not yet, and print them; --all prints all. "
        "Keep the lines elsewhere."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--all", action="store_true", help="every anchor of every ledger, by day"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        now = clock.now()
        anchors.drop_due(now=now)
        rows = Anchor.objects.order_by("day", "ledger")
        shown = [
            str(anchor)
            for anchor in (
                rows if options["all"] else rows.filter(day=now.astimezone(dt.UTC).date())
            ).iterator()
        ]
        for line in shown:
            self.stdout.write(line)
        if not shown:
            self.stderr.write(
                "Nothing was decided since the last anchors, so there are none of today; "
                "--all prints the earlier ones."
            )
