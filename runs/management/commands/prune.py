import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.database import clock
from checkpoints.management.shown import PlainCommand
from checkpoints.retention.housekeeping import HousekeepingBusy
from runs import retention

KINDS = ("checkpoints", "events", "memos", "artifacts", "chunks", "blobs")


class Command(PlainCommand):
    help = (
        "Drop what is older or more than the templates and settings keep. The sweep does the "
        "same bit by bit; this does all of it now."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would go")
        parser.add_argument(
            "--json", action="store_true", help="one JSON document instead of lines"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        dry = options["dry_run"]
        try:
            tally = retention.prune(now=clock.now(), dry_run=dry)
        except HousekeepingBusy as error:
            raise CommandError(str(error)) from error
        tallies = {kind: {"rows": tally.rows[kind], "bytes": tally.bytes[kind]} for kind in KINDS}
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {"dry_run": dry, "dropped": tallies, "rebased": tally.rows["rebased"]}, indent=2
                )
            )
            return
        for kind, tallied in tallies.items():
            self.stdout.write(f"{kind:<12}{tallied['rows']:>10} rows {tallied['bytes']:>14} bytes")
        if not dry:
            self.stdout.write(
                f"{tally.rows['rebased']} checkpoints were written anew as whole states, "
                "since what they built on is gone."
            )
        self.stdout.write("Nothing was dropped: this was a dry run." if dry else "Dropped.")
