from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints import ids
from checkpoints.checks import OURS
from checkpoints.management.shown import PlainCommand
from checkpoints.models import Thread
from hitl.decisions.services import NotFound
from hitl.threads import erasure


class Command(PlainCommand):
    help = (
        "Erase a thread with its child runs, checkpoints, log, questions, work order and "
        "workspace. The ledger keeps digests only."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("thread", help="thr_…")
        parser.add_argument("--reason", default="", help="why; it is recorded")
        parser.add_argument("--by", default="manage.py", help="who is recorded as having done it")
        parser.add_argument("--dry-run", action="store_true", help="only say what would go")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            key = ids.parse(Thread.PREFIX, options["thread"])
            if options["dry_run"]:
                tally = erasure.look(key)
                for kind, rows in tally.rows.items():
                    self.stdout.write(f"{kind:<12}{rows:>10} rows {tally.bytes[kind]:>14} bytes")
                self.stdout.write("Nothing was erased: this was a dry run.")
                return
            done = erasure.erase(key, by=options["by"], reason=options["reason"])
        except (ValueError, NotFound, erasure.CannotErase) as error:
            raise CommandError(str(error)) from error
        counts = ", ".join(
            f"{count} {kind.replace('_', ' ')}" for kind, count in done.counts.items()
        )
        self.stdout.write(f"Erased ({counts}). Recorded as {done.shown_id}.")
