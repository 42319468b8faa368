import json
import sys
from typing import Any

from django.core.management.base import CommandParser

from checkpoints.management.shown import PlainCommand
from hitl.operations import doctor
from hitl.operations.doctor import Finding, Level


class Command(PlainCommand):
    help = (
        "Say what is set up wrong or will bite, with the mend beside each. Reads only, and reaches "
        "the database, Redis and the mail server; exits with 1 where something is wrong."
    )
    requires_system_checks = ()  # they are findings, not a reason to stop

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--json", action="store_true", help="one JSON document instead of lines"
        )
        parser.add_argument("--strict", action="store_true", help="exit with 1 on warnings as well")

    def handle(self, *args: Any, **options: Any) -> None:
        found = []
        for finding in doctor.findings():
            found.append(finding)
            if not options["json"]:
                self.stdout.write(self._words(finding))
        bad = [one for one in found if one.level is Level.WRONG]
        warned = [one for one in found if one.level is Level.WARNING]
        if options["json"]:
            rows = [{**vars(one), "level": str(one.level)} for one in found]
            self.stdout.write(json.dumps({"ok": not bad, "findings": rows}, indent=2))
        else:
            self.stdout.write(f"{len(bad)} wrong, {len(warned)} will bite.")
        if bad or (options["strict"] and warned):
            sys.exit(1)

    def _words(self, finding: Finding) -> str:
        mark = {Level.WRONG: "WRONG  ", Level.WARNING: "warning", Level.FINE: "fine   "}
        mend = f"\n          → {finding.mend}" if finding.mend else ""
        return f"{mark[finding.level]}  {finding.subject}: {finding.words}{mend}"
