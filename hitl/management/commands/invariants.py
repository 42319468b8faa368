import datetime as dt
import json
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.database import clock
from checkpoints.management.shown import PlainCommand
from hitl.operations import invariants

MAX_LATE = 86_400


class Command(PlainCommand):
    help = (
        "Look whether the database keeps the product's promises, and name what breaks them. "
        "Reads only; exits with 1 on a breach."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--json", action="store_true", help="one JSON document instead of lines"
        )
        parser.add_argument(
            "--late",
            type=int,
            default=60,
            metavar="SECONDS",
            help="how long a run may wait for a worker (60)",
        )
        parser.add_argument(
            "--deep", action="store_true", help="also compute the digest of each decision again"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 <= options["late"] <= MAX_LATE:
            raise CommandError(f"--late is a number of seconds from 0 to {MAX_LATE}.")
        now = clock.now()
        violations = []
        for result in invariants.check(
            now=now, late=dt.timedelta(seconds=options["late"]), deep=options["deep"]
        ):
            violations.append(result)
            if not options["json"]:
                self.stdout.write(self._words(result))
        broken = [result for result in violations if result.count]
        if options["json"]:
            rows = [self._row(result) for result in violations]
            self.stdout.write(
                json.dumps(
                    {"ok": not broken, "checked_at": now.isoformat(), "invariants": rows}, indent=2
                )
            )
        else:
            self.stdout.write(
                f"{len(violations)} invariants, {len(broken)} of them broken."
                if broken
                else f"All {len(violations)} invariants hold."
            )
        if broken:
            sys.exit(1)

    def _words(self, result: invariants.InvariantResult) -> str:
        start = f"{result.invariant.promise:<3} {result.invariant.code:<27}"
        if not result.count:
            return f"{start} ok"
        more = ", …" if result.count > len(result.ids) else ""
        return (
            f"{start} BROKEN {result.count}: {', '.join(result.ids)}{more} "
            f"({result.invariant.sentence})"
        )

    def _row(self, result: invariants.InvariantResult) -> dict[str, Any]:
        about = result.invariant
        return {
            "code": about.code,
            "promise": about.promise,
            "sentence": about.sentence,
            "ok": not result.count,
            "count": result.count,
            "ids": list(result.ids),
        }
