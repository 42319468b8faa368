import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.management.shown import PlainCommand
from hitl.ledger.verification import BadAnchor, LedgerCheck
from hitl.models import Ledger


class Command(PlainCommand):
    help = (
        "Walk the chain of every ledger, with its evidence and anchors, and name what was "
        "changed. Reads only; exits with 1 on a breach."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--ledger", default="", metavar="NAME", help="only this one, e.g. team:1"
        )
        parser.add_argument(
            "--against",
            metavar="FILE",
            help="lines of anchor_ledger that were kept elsewhere; - reads the input",
        )
        parser.add_argument(
            "--json", action="store_true", help="one JSON document instead of lines"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # asked first: where tables are missing, that is all to be said
        there = Ledger.objects.filter(pk=options["ledger"]).exists()
        if options["ledger"] and not there:
            raise CommandError(f"There is no ledger {options['ledger']}.")
        check, breaches = LedgerCheck(options["ledger"], against=self._kept(options["against"])), []
        try:
            for breach in check.breaches():
                breaches.append(breach)
                if not options["json"]:
                    self.stdout.write(
                        " ".join(
                            filter(
                                None,
                                [
                                    breach.code,
                                    breach.ledger,
                                    self._place(breach.position),
                                    breach.id,
                                ],
                            )
                        )
                        + f": {breach.words}"
                    )
        except BadAnchor as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            document = {
                "ok": not breaches,
                "checked": check.looked_at,
                "breaches": [asdict(one) for one in breaches],
            }
            self.stdout.write(json.dumps(document, indent=2))
        else:
            counts = ", ".join(f"{count} {kind}" for kind, count in check.looked_at.items())
            self.stdout.write(
                f"Checked {counts}: "
                f"{f'{len(breaches)} breaches.' if breaches else 'all as they were written.'}"
            )
        if breaches:
            sys.exit(1)

    @staticmethod
    def _place(position: int | None) -> str:
        return "" if position is None else f"#{position}"

    @staticmethod
    def _kept(name: str | None) -> list[str]:
        if name is None:
            return []
        try:
            text = sys.stdin.read() if name == "-" else Path(name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{name} cannot be read: {error}") from error
        return [line for line in text.split("\n") if line.strip()]
