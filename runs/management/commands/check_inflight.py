import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from checkpoints.checks import OURS
from checkpoints.management.shown import PlainCommand
from runs.definitions import compatibility


class Command(PlainCommand):
    help = (
        "Whether this code still does what the runs under way were asked for. Run it before a "
        "deploy; exits with 1 where it does not."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--json", action="store_true", help="one JSON document instead of lines"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        steps = compatibility.report()
        jumping = compatibility.jumping()
        bad = sum(line.count for line in steps if line.verdict in compatibility.BAD)
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {
                        "ok": not bad,
                        "found": [asdict(line) for line in steps],
                        "jumping": [jump._asdict() for jump in jumping],
                    },
                    indent=2,
                )
            )
        else:
            for line in steps:
                self.stdout.write(self._words(line))
            for jump in jumping:
                self.stdout.write(
                    f"{jump.template}: jumps out of a reviewed step ({', '.join(jump.steps)}), "
                    f"which is asked about, too; {jump.under_way} under way"
                )
            self.stdout.write(
                f"Runs under way: {sum(line.count for line in steps)}. Of them {bad} would "
                "not go on as they were meant to."
            )
        if bad:
            sys.exit(1)

    def _words(self, line: compatibility.Found) -> str:
        named = [f"{step}: hold" if step in line.held else step for step in line.steps]
        steps = f" ({', '.join(named)})" if named else ""
        more = ", …" if line.count > len(line.runs) else ""
        return (
            f"{line.template} {line.definition[:12]}: {line.verdict}{steps}, {line.count}: "
            f"{', '.join(line.runs)}{more}"
        )
