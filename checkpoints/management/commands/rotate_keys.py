import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.management.shown import PlainCommand
from checkpoints.security import key_rotation
from checkpoints.state import encryption

SHOWN = 5


class Command(PlainCommand):
    help = (
        "Bring all that is encrypted at rest to the first of WAYSTATION_ENCRYPTION_KEYS, in "
        "small batches. May be stopped and begun again. "
        "Exits with 1 where a value could not be opened."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count, by column and key")
        parser.add_argument(
            "--new", action="store_true", help="print a new key and do nothing else"
        )
        parser.add_argument(
            "--batch",
            type=int,
            default=key_rotation.BATCH,
            help=f"rows per transaction ({key_rotation.BATCH})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["new"]:
            self.stdout.write(encryption.new_key())
            return
        if not 1 <= options["batch"] <= 10_000:
            raise CommandError("--batch is a number of rows from 1 to 10000.")
        newest = encryption.newest()
        total = unreadable = 0
        for report in key_rotation.rotate(dry_run=options["dry_run"], batch=options["batch"]):
            total, unreadable = total + report.count, unreadable + len(report.unreadable)
            for line in self._lines(report):
                self.stdout.write(line)
        done = "to bring" if options["dry_run"] else "brought"
        self.stdout.write(
            f"{total} values {done} to {f'the key {newest.id}' if newest else 'plain text'}."
        )
        if unreadable:
            self.stderr.write(
                f"{unreadable} values could not be opened, for want of their key or because "
                "their bytes were changed. See above."
            )
            sys.exit(1)

    def _lines(self, found: key_rotation.ColumnReport) -> list[str]:
        lines = [
            f"{found.column:<32} {count} under {key}" for key, count in sorted(found.keys.items())
        ]
        if found.unreadable:
            more = ", …" if len(found.unreadable) > SHOWN else ""
            lines.append(
                f"{found.column:<32} {len(found.unreadable)} unreadable: "
                f"{', '.join(found.unreadable[:SHOWN])}{more}"
            )
        return lines
