import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.checks import OURS
from hitl.ledger import export
from hitl.models import Ledger


class Command(BaseCommand):
    help = (
        "Write ledgers as CSV, or as JSON with what each digest is over, so that the chain can "
        "be computed again elsewhere."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--format", choices=list(export.FORMATS), default="json")
        parser.add_argument("--ledger", metavar="NAME", help="only this one, e.g. team:1")
        parser.add_argument(
            "--output", metavar="FILE", help="a new file; the output where none is named"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        ledgers = list(Ledger.objects.order_by("pk").values_list("pk", flat=True))
        if (name := options["ledger"]) is not None:
            if name not in ledgers:
                raise CommandError(f"There is no ledger {name}.")
            ledgers = [name]
        write, _ = export.FORMATS[options["format"]]
        if options["output"] is None:
            for part in write(ledgers):
                self.stdout.write(part, ending="")
            return
        try:
            with Path(options["output"]).open("x", encoding="utf-8", newline="") as file:
                file.writelines(write(ledgers))
        except OSError as error:
            raise CommandError(f"Nothing was written: {error}") from error
        sys.stderr.write(f"Wrote {options['output']}\n")
